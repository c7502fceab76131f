/* What the files of api/audit/ share. */
#ifndef API_AUDIT_INTERNAL_H
#define API_AUDIT_INTERNAL_H

#include "api/audit/audit.h"
#include "api/audit/statement.h"
#include "api/keys/keys.h"
#include "api/server/request.h"

#define AUDIT_PAGE_MAX     500
#define AUDIT_PAGE_DEFAULT 100
#define AUDIT_LANE         "audit"
#define AUDIT_READ_EVENT   "audit.export.read"

struct record_filter {
    const char *actor, *type; /* NULL = any */
    utc_us from, to;          /* from <= time < to */
    bool ascending;
    int64_t beyond; /* sequence that the last page ended with */
    int64_t limit;
};
/* pages.c. Rows: sequence, record bytes, chain. The caller frees both in the reverse order. */
struct fault record_page(struct tx *tx, const struct record_filter *filter, struct rows **ret_rows);
/* queries.c: records first..last in order, at most `limit` of them and not many more than 4 MiB. */
struct fault record_range(struct tx *tx, int64_t first, int64_t last, int64_t limit, struct rows **ret_rows);
/* The tenant's newest sequence, 0 when it has no record. */
struct fault record_head(struct tx *tx, int64_t *ret_sequence);
/* chain(sequence); 32 zero bytes for 0. NOT_FOUND. */
struct fault record_chain(struct tx *tx, int64_t sequence, struct sha256 *ret_chain);
/* The first record at or after `from` and the last one before `to`; both 0 when there is none. Times follow the order
 * of sequences but for the clocks of those who append: a minute's difference is looked through. */
struct fault record_span_of_time(struct tx *tx, utc_us from, utc_us to, int64_t *ret_first, int64_t *ret_last);
/* Which writing of its history the tenant's records are of; 1 = the first. */
struct fault audit_generation(struct tx *tx, int64_t *ret_generation);

/* proof.c: the root of the tree over records 1..size (api/projection/tree.h), 0 = the empty one. */
struct fault audit_tree_root(struct op *op, struct services *services, int64_t size, struct sha256 *ret_root);

/* ---- export.c: an export of any shape and size, in constant memory ----
 *
 *     struct export_plan plan;
 *     TRY(export_prepare(op, services, &wish, &plan));      -- range, head, tree root, key and time stamp are fixed
 *     TRY(export_record_read(op, services, "export", &plan.statement));
 *     TRY(export_write(op, services, &plan, &sink));        -- nothing is open while the sink takes its time
 */
struct export_wish {
    enum audit_shape shape;
    int64_t first, last; /* 0 = the first that is served; the newest */
    utc_us from, to;     /* INT64_MIN, INT64_MAX = at any time: of first..last what record_span_of_time says */
};
struct export_plan {
    struct audit_statement statement; /* all but stream_sha256 */
    struct managed_key key;
};
struct export_sink {
    struct fault (*put)(void *arg, struct span bytes);
    void *arg;
};
/* QUERY when there are no such records, AUDIT_ARCHIVED; the faults of tsa_anchor, where the authority is enabled: then
 * there is no export without its time stamp. */
struct fault export_prepare(struct op *op, struct services *services, const struct export_wish *wish,
                            struct export_plan *ret_plan);
/* CONFLICT when the history is rewritten meanwhile: what was written so far has no end then, so it verifies as cut. */
struct fault export_write(struct op *op, struct services *services, const struct export_plan *plan,
                          const struct export_sink *sink);
/* The bundle of records first..last (last 0 = the newest) as a whole, up to the buffer's bound: for what is bounded. */
struct fault export_make(struct op *op, struct services *services, int64_t first, int64_t last, struct buf *compact);
/* Records who was given what ("export", "archive", "pack"); durable when it returns OK, and not waited for. */
struct fault export_record_read(struct op *op, struct services *services, const char *artifact,
                                const struct audit_statement *statement);

/* ---- export_keys.c ---- */
/* The key that signs now, of the configured algorithm; made at first. */
struct fault export_key(struct op *op, struct services *services, struct managed_key *ret_key);
/* The JWK set of all keys that ever signed exports of this tenant, each with its window (fips/jws.h). */
struct fault export_keys(struct op *op, struct services *services, struct buf *json);
/* A new one takes over; what the former has signed stays verifiable, and what it is signing now is finished. */
struct fault export_key_rotate(struct op *op, struct services *services, struct managed_key *ret_key);

/* routes.c */
struct fault route_audit_records(struct request *request);
struct fault route_audit_export(struct request *request);
struct fault route_audit_keys(struct request *request);
struct fault route_audit_key_rotate(struct request *request);

#endif
