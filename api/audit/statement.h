/*
 * What an audit export states, and is signed: the payload of the JWS bundle (format AUDIT_EXPORT_FORMAT, with the
 * records in it), or of a record stream's trailer (AUDIT_TRAILER_FORMAT, with the digest of the stream in their place).
 * Canonical JSON (RFC 8785) with exactly these members, in this order:
 *
 *     chain_head, chain_seed   hex; the chain behind the last record, and before the first
 *     count, exported_at, first_sequence, format, generation, last_sequence
 *     records                  [ {"chain","record"}, ... ]                      bundle alone
 *     shape, stream_sha256     over every byte before the trailer's line        trailer alone
 *     tenant_id
 *     timestamp                base64 of the DER TimeStampToken whose imprint is SHA-256 with chain_head itself as
 *                              hashedMessage; only where the authority is enabled
 *     tree_root, tree_size     RFC 6962 tree over the tenant's records 1..last_sequence (api/projection/tree.h); hex,
 * number
 *
 * A first-format bundle ("svc.audit.export.v1", typ AUDIT_EXPORT_TYP) has no generation, timestamp and tree members and
 * stays verifiable. Pure functions, for server and offline verifier.
 */
#ifndef API_AUDIT_STATEMENT_H
#define API_AUDIT_STATEMENT_H

#include "api/audit/shape.h"
#include "appliance/base/clock.h"

#define AUDIT_EXPORT_TYP     "svc-audit+jws"
#define AUDIT_EXPORT_FORMAT1 "svc.audit.export.v1"
#define AUDIT_EXPORT_FORMAT  "svc.audit.export.v2"
#define AUDIT_TRAILER_TYP    "svc-audit-trailer+jws"
#define AUDIT_TRAILER_FORMAT "svc.audit.stream.v1"
#define AUDIT_TIMESTAMP_MAX  ((size_t)64 << 10)

struct audit_statement {
    enum audit_shape shape; /* AUDIT_JWS: a bundle */
    bool first_format;
    struct tenant_id tenant;
    int64_t generation;                           /* of the history; 1 = never rewritten */
    int64_t first_sequence, last_sequence, count; /* all 0 when there is no record */
    struct sha256 seed, head;
    char exported_at[RFC3339_MAX];
    int64_t tree_size; /* = last_sequence */
    struct sha256 tree_root;
    struct span timestamp;       /* DER; empty = none */
    struct sha256 stream_sha256; /* trailer */
};

/* The members before the records, up to and with `"records":[`, and those behind them, from `]` on. For a trailer the
 * two make the whole payload (no records, no brackets). Append. */
struct fault audit_statement_begin(const struct audit_statement *statement, struct buf *out);
struct fault audit_statement_end(const struct audit_statement *statement, struct buf *out);

/* A whole trailer payload of outside bytes; AUDIT_STATEMENT with a note. Results in op's arena. Exactly the members
 * above, canonical, numbers consistent with one another. */
struct fault audit_statement_read(struct op *op, struct span payload, struct audit_statement *ret_statement);

#endif
