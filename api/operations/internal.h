/* What the files of api/operations/ share. */
#ifndef API_OPERATIONS_INTERNAL_H
#define API_OPERATIONS_INTERNAL_H

#include "api/operations/operations.h"
#include "api/server/request.h"

#define OPERATIONS_LANE  "operations"
#define REQUEUE_REASON   256
#define REQUEUE_MOST     100
#define DESTINATION_SIZE 63

#define EVENT_OUTBOX_REQUEUED  "outbox.requeued"
#define EVENT_OUTBOX_RECREATED "outbox.recreated"

enum {
    OPERATIONS_ROWS,
    OPERATIONS_REQUEUEABLE,
    OPERATIONS_OLDEST,
    OPERATIONS_DELIVERIES,
    OPERATIONS_DURATION,
    OPERATIONS_LAG,
    OPERATIONS_RECREATED,
    OPERATIONS_METRICS
};
extern const struct metric operations_metrics[OPERATIONS_METRICS];

/* ---- destinations.c: the outbox rows of all features ---- */

/* NULL: no feature of this version has such a destination. */
const struct outbox_row *destination_find(const char *destination);
/* The n-th of all; NULL behind the last one. */
const struct outbox_row *destination_at(size_t index);
/* May a dead-lettered row of that key go again? A reason in `*ret_why` when not. */
struct fault destination_judge(struct tx *tx, struct tenant_id tenant, const struct outbox_row *row, const char *key,
                               bool *ret_allowed, const char **ret_why);

/* ---- outbox_query.c: rows as operators see them: never a payload ---- */

struct outbox_seen {
    int64_t id;
    const char *destination, *key, *state, *trace_id, *code; /* code NULL: nothing failed */
    int64_t attempts;                                        /* before the last failure, where one is noted */
    utc_us created, due, lease_until, failed_first, failed_last;
};
struct outbox_wanted {
    const char *state, *destination; /* NULL = any that is not delivered; any */
    int64_t before;                  /* ids below */
    int64_t limit;
};
/* Results live in op's arena. */
struct fault outbox_list(struct op *op, struct services *services, const struct outbox_wanted *wanted,
                         struct outbox_seen **ret_list, size_t *ret_count);
/* NOT_FOUND. */
struct fault outbox_get(struct op *op, struct tx *tx, int64_t id, struct outbox_seen *ret_seen);
/* The first dead-lettered rows of a destination behind the id `after`. */
struct fault outbox_dead(struct op *op, struct tx *tx, const char *destination, int64_t after, int64_t limit,
                         struct outbox_seen **ret_list, size_t *ret_count);

/* ---- requeue.c ---- */

/* One row. OUTBOX_NOT_DEAD, OUTBOX_FINAL, NOT_FOUND. Returns once it is projected. */
struct fault requeue_one(struct op *op, struct services *services, int64_t id, const char *reason);
struct requeued {
    int64_t requeued, refused;
    const char *refused_why; /* of the first that was refused */
    bool more;               /* there are more that were not looked at */
};
/* The oldest of a destination's dead letters, at most `limit`. OUTBOX_NOT_DEAD when none may go. */
struct fault requeue_many(struct op *op, struct services *services, const char *destination, int64_t limit,
                          const char *reason, struct requeued *ret_requeued);

/* ---- projection.c ---- */

struct fault project_outbox_requeued(struct projection *projection, const struct event_view *event);
struct fault project_outbox_recreated(struct projection *projection, const struct event_view *event);

/* ---- reconcile.c, gauges.c: workers, which run everywhere: where another instance leads their numbers are NaN ---- */

struct fault outbox_reconcile_run(struct op *op, struct services *services);
struct fault outbox_reconcile_well(struct op *op, struct services *services);
void outbox_reconcile_forget(void); /* the next run begins anew */
struct fault outbox_gauges_run(struct op *op, struct services *services);

/* ---- waiting.c: of gauges.c's worker ---- */

/* A piece of the round, or all of it. */
struct fault outbox_waiting_count(struct op *op, struct services *services);
void outbox_waiting_forget(struct services *services); /* shows NaN; the next piece begins a round */

/* ---- routes.c ---- */

struct requeue_body {
    const char *reason;
};
struct requeue_many_body {
    const char *destination, *reason;
    int64_t limit; /* 0 = REQUEUE_MOST */
};
struct fault route_outbox_list(struct request *request);
struct fault route_outbox_get(struct request *request);
struct fault route_outbox_requeue(struct request *request);
struct fault route_outbox_requeue_many(struct request *request);

#endif
