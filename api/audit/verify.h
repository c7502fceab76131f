/*
 * The offline verifier of audit exports, for svc-cli and for anyone who links it: pinned keys and the file are all it
 * takes. It recomputes every hash from each record's own bytes, in one pass, and names the first broken record. An
 * export is a compact JWS of typ "svc-audit+jws" whose payload is canonical JSON (RFC 8785) with exactly the members
 *   chain_head, chain_seed, count, exported_at, first_sequence, format ("svc.audit.export.v1"), last_sequence,
 *   records [ { chain, record }, ... ], tenant_id
 * where chain(n) is that of api/projection/chain.h and chain_seed is the chain before the first record.
 *
 *     CLEANUP(op_freep) struct op *op = NULL;
 *     TRY(audit_verify_op(file.len, &op));
 *     struct audit_verdict verdict;
 *     struct fault fault = audit_verify_jws(op, file, &keys, &verdict);
 */
#ifndef API_AUDIT_VERIFY_H
#define API_AUDIT_VERIFY_H

#include "appliance/base/op.h"
#include "fips/jws.h"

#define AUDIT_EXPORT_TYP    "svc-audit+jws"
#define AUDIT_EXPORT_FORMAT "svc.audit.export.v1"
#define AUDIT_RECORD_MAX    ((size_t)2 << 20)

struct audit_verdict {
    bool signature_good; /* by a pinned key, over exactly these bytes */
    bool chain_good;     /* every record hashes to its chain, in sequence, from seed to head */
    const char *kid;     /* of the key that verified; NULL when none did */
    struct tenant_id tenant;
    int64_t first_sequence, last_sequence, count; /* as stated */
    int64_t checked;                              /* records that hashed well before the first that did not */
    int64_t broken_sequence;                      /* 0 = none; otherwise the first record that does not hold */
    struct sha256 head;                           /* as recomputed up to `checked` */
    char exported_at[RFC3339_MAX];
    char reason[200]; /* why not, in words; "" when all is good */
};

/* An operation whose arena has room for an artifact of `size` bytes. */
struct fault audit_verify_op(size_t size, struct op **ret_op);

/* *ret_verdict is filled in any case, as far as the walk came: also an export whose signature fails is walked, so that
 * an altered record is named. OK only when everything holds. JWS_FORMAT, JWS_KEY, JWS_SIGNATURE, CHAIN_BROKEN,
 * CHAIN_HEAD. */
struct fault audit_verify_jws(struct op *op, struct span compact, const struct jwk_set *keys,
                              struct audit_verdict *ret_verdict);

/* The walk alone, over a payload. */
struct fault audit_verify_payload(struct op *op, struct span payload, struct audit_verdict *verdict);

#endif
