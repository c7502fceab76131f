/* What the files of api/audit/ share. */
#ifndef API_AUDIT_INTERNAL_H
#define API_AUDIT_INTERNAL_H

#include "api/audit/audit.h"
#include "api/keys/keys.h"
#include "api/server/request.h"

#define AUDIT_KEY_NAME     "audit-export"
#define AUDIT_PAGE_MAX     500
#define AUDIT_PAGE_DEFAULT 100
#define AUDIT_EXPORT_MAX   ((size_t)192 << 20) /* payload bytes of one export */

struct record_filter {
    const char *actor, *type; /* NULL = any */
    utc_us from, to;          /* from <= time < to */
    bool ascending;
    int64_t beyond; /* sequence that the last page ended with */
    int64_t limit;
};
/* queries.c. Rows: sequence, record bytes, chain. The caller frees both in the reverse order. */
struct fault record_page(struct tx *tx, const struct record_filter *filter, struct rows **ret_rows);
/* Records first..last in order, at most `limit` of them. */
struct fault record_range(struct tx *tx, int64_t first, int64_t last, int64_t limit, struct rows **ret_rows);
/* The tenant's newest sequence, 0 when it has no record. */
struct fault record_head(struct tx *tx, int64_t *ret_sequence);
/* chain(sequence); 32 zero bytes for 0. NOT_FOUND. */
struct fault record_chain(struct tx *tx, int64_t sequence, struct sha256 *ret_chain);

/* export.c: the compact JWS over records first..last (last 0 = the newest). */
struct fault export_make(struct op *op, struct services *services, int64_t first, int64_t last, struct buf *compact);
/* The JWK set of all keys that ever signed exports of this tenant. */
struct fault export_keys(struct op *op, struct services *services, struct buf *json);

/* routes.c */
struct fault route_audit_records(struct request *request);
struct fault route_audit_export(struct request *request);
struct fault route_audit_keys(struct request *request);

#endif
