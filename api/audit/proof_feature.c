/* The routes of proofs. */
#include "api/audit/proof.h"
#include "api/audit/verify_proof.h"

/* A decimal parameter of records; `fallback` when it is absent, and a negative one means that it may not be. */
static struct fault number_of(struct request *request, const char *name, int64_t min, int64_t fallback,
                              int64_t *ret_number)
{
    const char *text = request_query(request, name);
    int64_t value = text == NULL ? fallback : 0;
    size_t len = text == NULL ? 0 : strlen(text);
    bool good = text == NULL ? fallback >= 0 : len >= 1 && len <= 15;
    for (size_t i = 0; good && i < len; i++) {
        good = text[i] >= '0' && text[i] <= '9';
        value = good ? value * 10 + (text[i] - '0') : 0;
    }
    if (!good || (text != NULL && value < min)) {
        return op_fail_field(request->op, FAULT(QUERY), name, "%s: must be a number of records, at least %lld", name,
                             (long long)min);
    }
    *ret_number = value;
    return OK;
}

/* first..last of what the artifact shows; a head shows no record. */
static struct fault record_read(struct request *request, const char *artifact, const struct proof_made *made,
                                bool shows_record)
{
    struct audit_statement statement = { .tenant = request->op->tenant,
                                         .generation = made->generation,
                                         .first_sequence = made->first,
                                         .last_sequence = shows_record ? made->first : made->size,
                                         .count = shows_record ? 1 : 0,
                                         .head = made->chain_head,
                                         .tree_size = made->size };
    return export_record_read(request->op, request->services, artifact, &statement);
}

static struct fault route_audit_head(struct request *request)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(AUDIT_HEAD_MAX);
    struct proof_made made;
    TRY(proof_head(request->op, request->services, 0, &made, &out));
    TRY(record_read(request, "head", &made, false));
    return response_bytes(request, 0, "application/jose", buf_span(&out));
}

static struct fault route_inclusion(struct request *request)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(AUDIT_PROOF_FILE_MAX);
    int64_t sequence = 0, size = 0;
    struct proof_made made;
    TRY(number_of(request, "sequence", 1, -1, &sequence));
    TRY(number_of(request, "tree_size", 1, 0, &size));
    TRY(proof_inclusion(request->op, request->services, sequence, size, &made, &out));
    TRY(record_read(request, "inclusion-proof", &made, true));
    return response_json(request, 0, &out);
}

static struct fault route_consistency(struct request *request)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(AUDIT_PROOF_FILE_MAX);
    int64_t first = 0, second = 0;
    struct proof_made made;
    TRY(number_of(request, "first", 0, -1, &first));
    TRY(number_of(request, "second", 1, 0, &second));
    TRY(proof_consistency(request->op, request->services, first, second, &made, &out));
    TRY(record_read(request, "consistency-proof", &made, false));
    return response_json(request, 0, &out);
}

static const char *const inclusion_query[] = { "sequence", "tree_size", NULL };
static const char *const consistency_query[] = { "first", "second", NULL };

static const struct answer_field inclusion_answer[] = {
    { "chain", "string", "Hex: the hash chain behind the record." },
    { "chain_seed", "string", "Hex: the hash chain before the record; 64 zeros before the first one." },
    { "format", "string", AUDIT_INCLUSION_FORMAT "." },
    { "head", "string", "Signed head of tree_size records: compact JWS of typ " AUDIT_HEAD_TYP "." },
    { "index", "integer", "Of the leaf: sequence - 1." },
    { "proof", "array", "Hex: the nodes from the leaf to the root (RFC 9162 2.1.3)." },
    { "record", "object", "The record, exactly as hashed." },
    { "sequence", "integer", "Of the record." },
    { "tree_size", "integer", "Records that the tree is over." },
};
static const struct answer_field consistency_answer[] = {
    { "first", "integer", "Records of the older tree." },
    { "first_root", "string", "Hex: root of the older tree." },
    { "format", "string", AUDIT_CONSISTENCY_FORMAT "." },
    { "head", "string", "Signed head of the newer tree: compact JWS of typ " AUDIT_HEAD_TYP "." },
    { "proof", "array", "Hex: the nodes that both roots are made of (RFC 9162 2.1.4)." },
    { "second", "integer", "Records of the newer tree." },
};

const struct route proof_routes[PROOF_ROUTES] = {
    {
        .name = "audit.head",
        .method = ROUTE_GET,
        .path = "/api/v1/audit/head",
        .permission = PERMISSION_AUDIT_READ,
        .bulkhead = BULKHEAD_HEAVY,
        .success_status = 200,
        .handler = route_audit_head,
        .doc = "Chain head and Merkle root over all records, as a compact JWS; time-stamped where the authority is on.",
    },
    {
        .name = "audit.prove",
        .method = ROUTE_GET,
        .path = "/api/v1/audit/proofs/inclusion",
        .permission = PERMISSION_AUDIT_READ,
        .bulkhead = BULKHEAD_HEAVY,
        .query = inclusion_query,
        .answer = inclusion_answer,
        .answer_count = COUNT_OF(inclusion_answer),
        .success_status = 200,
        .handler = route_inclusion,
        .doc = "Proof that a record (sequence) is among the first tree_size (all), with its signed head: one artifact.",
    },
    {
        .name = "audit.prove-consistency",
        .method = ROUTE_GET,
        .path = "/api/v1/audit/proofs/consistency",
        .permission = PERMISSION_AUDIT_READ,
        .bulkhead = BULKHEAD_HEAVY,
        .query = consistency_query,
        .answer = consistency_answer,
        .answer_count = COUNT_OF(consistency_answer),
        .success_status = 200,
        .handler = route_consistency,
        .doc = "Proof that the first records (first) are the beginning of those of a signed head (second; all).",
    },
};

const struct feature audit_proof_feature = {
    .name = "audit-proof",
    .routes = proof_routes,
    .route_count = PROOF_ROUTES,
};
