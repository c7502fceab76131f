#include "api/audit/internal.h"

#include "api/audit/verify.h"
#include "appliance/base/codec.h"
#include "appliance/base/crypto.h"
#include "fips/fips.h"
#include "fips/jws.h"
#include "signer-pkcs11/provider/provider.h"

#define READ_AT_ONCE 2000

struct range {
    int64_t first, last; /* last < first: no record */
    struct sha256 seed, head;
};

static struct fault read_range(struct op *op, struct services *services, int64_t first, int64_t last,
                               struct range *ret_range)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    int64_t newest = 0;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(record_head(tx, &newest));
    struct range range = { .first = first, .last = last == 0 ? newest : last };
    if (range.last > newest || range.first > range.last + 1) {
        return op_fail_field(op, FAULT(QUERY), "to_sequence", "records go from 1 to %lld: ask within them",
                             (long long)newest);
    }
    TRY(record_chain(tx, range.first - 1, &range.seed));
    TRY(record_chain(tx, range.last, &range.head));
    *ret_range = range;
    return OK;
}

static struct fault put_rows(struct op *op, struct services *services, const struct range *range, int64_t *next,
                             struct buf *out)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(record_range(tx, *next, range->last, READ_AT_ONCE, &rows));
    REQUIRE(rows_count(rows) > 0, INTERNAL); /* the head says that they are there */
    for (size_t i = 0; i < rows_count(rows); i++, (*next)++) {
        REQUIRE(rows_int(rows, i, 0) == *next, INTERNAL);
        TRY(buf_text(out, *next > range->first ? ",{\"chain\":\"" : "{\"chain\":\""));
        TRY(hex_encode(rows_bytes(rows, i, 2), out));
        TRY(buf_text(out, "\",\"record\":"));
        TRY(buf_put(out, rows_bytes(rows, i, 1)));
        TRY(buf_text(out, "}"));
    }
    return OK;
}

/* Members in RFC 8785 order; the records are canonical as they are stored. */
static struct fault put_payload(struct op *op, struct services *services, const struct range *range, struct buf *out)
{
    char now[RFC3339_MAX];
    rfc3339_print(clock_utc(), now);
    int64_t count = range->last - range->first + 1;
    TRY(buf_text(out, "{\"chain_head\":\""));
    TRY(hex_encode(SPAN_ARRAY(range->head.at), out));
    TRY(buf_text(out, "\",\"chain_seed\":\""));
    TRY(hex_encode(SPAN_ARRAY(range->seed.at), out));
    TRY(buf_printf(out, "\",\"count\":%lld,\"exported_at\":\"%s\",\"first_sequence\":%lld,\"format\":\"%s\"",
                   (long long)count, now, count == 0 ? 0LL : (long long)range->first, AUDIT_EXPORT_FORMAT));
    TRY(buf_printf(out, ",\"last_sequence\":%lld,\"records\":[", count == 0 ? 0LL : (long long)range->last));
    for (int64_t next = range->first; next <= range->last;) {
        TRY(put_rows(op, services, range, &next, out));
    }
    return buf_printf(out, "],\"tenant_id\":\"%s\"}", op->tenant.text);
}

static struct fault sign(struct op *op, struct services *services, struct span payload, struct buf *compact)
{
    struct managed_key key;
    TRY(keys_ensure(op, services, KEY_PURPOSE_AUDIT_EXPORT, KEY_ALGORITHM_EC_P256, AUDIT_KEY_NAME, &key));
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *pkey = NULL;
    TRY(svc_pkey_new(fips_libctx(), &key.ref, key.spki, &pkey));
    svc_provider_bind(op, (struct uuid){ 0 });
    struct fault fault = jws_sign(op, pkey, key.spki, AUDIT_EXPORT_TYP, payload, compact);
    struct fault cause = svc_provider_fault();
    svc_provider_unbind();
    return FAULTED(fault) && FAULTED(cause) ? cause : fault;
}

struct fault export_make(struct op *op, struct services *services, int64_t first, int64_t last, struct buf *compact)
{
    struct range range;
    TRY(read_range(op, services, first, last, &range));
    CLEANUP(buf_free) struct buf payload = BUF_INIT(AUDIT_EXPORT_MAX);
    struct fault fault = put_payload(op, services, &range, &payload);
    if (fault.code == FAULT_TOO_LARGE) {
        return op_fail(op, fault,
                       "these records are more than %zu MiB: ask for less with from_sequence and to_sequence",
                       AUDIT_EXPORT_MAX >> 20);
    }
    TRY(fault);
    return sign(op, services, buf_span(&payload), compact);
}

struct fault export_keys(struct op *op, struct services *services, struct buf *json)
{
    struct managed_key *keys = NULL;
    size_t count = 0;
    TRY(keys_history(op, services, KEY_PURPOSE_AUDIT_EXPORT, &keys, &count));
    TRY(buf_text(json, "{\"keys\":["));
    for (size_t i = 0; i < count; i++) {
        TRY(buf_text(json, i > 0 ? "," : ""));
        TRY(jwk_print(keys[i].spki, json));
    }
    return buf_text(json, "]}");
}
