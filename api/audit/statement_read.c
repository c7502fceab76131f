/* What an export states, read as it must stand. */
#include "api/audit/verify_internal.h"

#include "appliance/base/json.h"

#define STATEMENT_MAX ((size_t)256 << 10)
#define NUMBER_MAX    ((int64_t)1 << 53) /* as far as canonical JSON numbers are exact */

struct members {
    struct span chain_head, chain_seed, records, stream_sha256, timestamp, tree_root;
    int64_t count, first_sequence, generation, last_sequence, tree_size;
    const char *exported_at, *format, *shape, *tenant_id;
};
static const struct jin_field fields[] = {
    JIN_HEX(struct members, chain_head, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
    JIN_HEX(struct members, chain_seed, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
    JIN_INT(struct members, count, JIN_REQUIRED, 0, NUMBER_MAX),
    JIN_TEXT(struct members, exported_at, JIN_REQUIRED, 20, RFC3339_MAX - 1),
    JIN_INT(struct members, first_sequence, JIN_REQUIRED, 0, NUMBER_MAX),
    JIN_TEXT(struct members, format, JIN_REQUIRED, 1, 64),
    JIN_INT(struct members, generation, JIN_OPTIONAL, 1, NUMBER_MAX),
    JIN_INT(struct members, last_sequence, JIN_REQUIRED, 0, NUMBER_MAX),
    JIN_RAW(struct members, records, JIN_OPTIONAL, 2, 2),
    JIN_TEXT(struct members, shape, JIN_OPTIONAL, 1, 16),
    JIN_HEX(struct members, stream_sha256, JIN_OPTIONAL, SHA256_LEN, SHA256_LEN),
    JIN_TEXT(struct members, tenant_id, JIN_OPTIONAL, 1, 63),
    JIN_BASE64(struct members, timestamp, JIN_OPTIONAL, 1, AUDIT_TIMESTAMP_MAX),
    JIN_HEX(struct members, tree_root, JIN_OPTIONAL, SHA256_LEN, SHA256_LEN),
    JIN_INT(struct members, tree_size, JIN_OPTIONAL, 0, NUMBER_MAX),
};

static struct fault refuse(struct op *op, const char *what)
{
    return op_fail(op, FAULT(AUDIT_STATEMENT), "%s", what);
}

static void take_hash(struct sha256 *hash, struct span bytes)
{
    if (bytes.len == SHA256_LEN) {
        memcpy(hash->at, bytes.at, SHA256_LEN);
    }
}

static struct fault decode(struct op *op, struct span json, struct members *ret_members)
{
    CLEANUP(buf_free) struct buf canonical = BUF_INIT(STATEMENT_MAX);
    struct fault fault = json.len <= STATEMENT_MAX ? json_canonical(json, &canonical) : FAULT(JSON_SYNTAX);
    REQUIRE(fault.code != FAULT_NO_MEMORY, NO_MEMORY);
    if (FAULTED(fault)) {
        return refuse(op, "the statement is not JSON");
    }
    if (!span_equal(buf_span(&canonical), json)) {
        return refuse(op, "the statement is not canonical JSON (RFC 8785)");
    }
    struct fault_note before = op->note;
    op->note = (struct fault_note){ 0 };
    fault = jin_decode(op, json, fields, COUNT_OF(fields), ret_members);
    REQUIRE(fault.code != FAULT_NO_MEMORY, NO_MEMORY);
    if (FAULTED(fault)) {
        struct fault_note note = op->note;
        op->note = before;
        return op_fail(op, FAULT(AUDIT_STATEMENT), "the statement's member %s: %s", note.pointer, note.detail);
    }
    op->note = before;
    return OK;
}

static struct fault check_range(struct op *op, const struct members *members)
{
    bool none = members->count == 0;
    if (none && (members->first_sequence != 0 || members->last_sequence != 0)) {
        return refuse(op, "it states no record, and yet a first or last sequence");
    }
    if (!none &&
        (members->first_sequence < 1 || members->last_sequence - members->first_sequence != members->count - 1)) {
        return op_fail(op, FAULT(AUDIT_STATEMENT), "count %lld does not go with the sequences %lld to %lld",
                       (long long)members->count, (long long)members->first_sequence,
                       (long long)members->last_sequence);
    }
    return OK;
}

static struct fault take_members(struct op *op, const struct members *members, struct audit_statement *out)
{
    utc_us time;
    out->first_sequence = members->first_sequence;
    out->last_sequence = members->last_sequence;
    out->count = members->count;
    out->generation = out->first_format ? 1 : members->generation;
    out->tree_size = members->tree_size;
    out->timestamp = members->timestamp;
    take_hash(&out->seed, members->chain_seed);
    take_hash(&out->head, members->chain_head);
    take_hash(&out->stream_sha256, members->stream_sha256);
    take_hash(&out->tree_root, members->tree_root);
    memcpy(out->exported_at, members->exported_at, strlen(members->exported_at) + 1);
    if (FAULTED(rfc3339_parse(span_text(members->exported_at), &time))) {
        return refuse(op, "exported_at is no time (RFC 3339)");
    }
    if (members->tenant_id != NULL && FAULTED(tenant_id_parse(span_text(members->tenant_id), &out->tenant))) {
        return refuse(op, "tenant_id is no tenant's name");
    }
    return check_range(op, members);
}

/* Members of the later formats: all of them, or none. */
static struct fault check_later(struct op *op, const struct members *members, bool wanted, bool whole)
{
    bool tree = members->tree_root.len > 0, tail = members->tenant_id != NULL;
    if ((members->generation != 0) != wanted) {
        return refuse(op, wanted ? "generation is missing" : "a first-format export has no generation");
    }
    if (!whole) {
        return OK;
    }
    if (!tail) {
        return refuse(op, "tenant_id is missing");
    }
    if (tree != wanted || (!wanted && (members->tree_size != 0 || members->timestamp.len > 0))) {
        return refuse(op, wanted ? "tree_root is missing" : "a first-format export has no tree and no time stamp");
    }
    return !wanted || members->count == 0 || members->tree_size == members->last_sequence
               ? OK
               : refuse(op, "tree_size is not last_sequence");
}

struct fault audit_statement_read_bundle(struct op *op, struct span json, bool whole,
                                         struct audit_statement *ret_statement)
{
    struct members members = { 0 };
    struct audit_statement statement = { .shape = AUDIT_JWS };
    TRY(decode(op, json, &members));
    statement.first_format = strcmp(members.format, AUDIT_EXPORT_FORMAT1) == 0;
    if (!statement.first_format && strcmp(members.format, AUDIT_EXPORT_FORMAT) != 0) {
        return op_fail(op, FAULT(AUDIT_STATEMENT), "the format is \"%s\", and not " AUDIT_EXPORT_FORMAT,
                       members.format);
    }
    if (members.records.len != 2 || members.records.at[0] != '[' || members.shape != NULL ||
        members.stream_sha256.len > 0) {
        return refuse(op, "a bundle has records, and no shape and no stream_sha256");
    }
    TRY(check_later(op, &members, !statement.first_format, whole));
    TRY(take_members(op, &members, &statement));
    *ret_statement = statement;
    return OK;
}

struct fault audit_statement_read(struct op *op, struct span payload, struct audit_statement *ret_statement)
{
    struct members members = { 0 };
    struct audit_statement statement = { 0 };
    TRY(decode(op, payload, &members));
    if (strcmp(members.format, AUDIT_TRAILER_FORMAT) != 0) {
        return op_fail(op, FAULT(AUDIT_STATEMENT), "the format is \"%s\", and not " AUDIT_TRAILER_FORMAT,
                       members.format);
    }
    if (members.records.len > 0 || members.shape == NULL || members.stream_sha256.len == 0) {
        return refuse(op, "a trailer has a shape and stream_sha256, and no records");
    }
    if (!audit_shape_named(members.shape, &statement.shape) || statement.shape == AUDIT_JWS) {
        return refuse(op, "the shape is none of a record stream");
    }
    TRY(check_later(op, &members, true, true));
    TRY(take_members(op, &members, &statement));
    *ret_statement = statement;
    return OK;
}
