/* What the files of api/otlp/ share. */
#ifndef API_OTLP_INTERNAL_H
#define API_OTLP_INTERNAL_H

#include "api/otlp/otlp.h"
#include "api/services.h"
#include "api/telemetry/otlp.h"

#include <pthread.h>
#include <stdatomic.h>

#define AUDIT_MESSAGES 256 /* of the log, in one export */

/* ---- trail.c: what is next, and how far it went ---- */

struct trail_tenant {
    struct tenant_id id;
    int64_t before, last; /* sequences: exported so far, and with this batch */
};
struct trail {
    uint64_t from, upto; /* messages behind `from` up to `upto`; equal: there are none */
    struct trail_tenant *tenants;
    size_t tenant_count;
    struct otlp_audit *records; /* in the order of the log */
    size_t count;
};
/* At most `messages` of the log, in op's arena. */
struct fault trail_next(struct op *op, struct store *store, int messages, struct trail *ret_trail);
/* CONFLICT: another instance moved the position meanwhile. */
struct fault trail_advance(struct op *op, struct store *store, const struct trail *trail);

/* ---- audit.c: the exporter's thread ---- */

struct otlp_export {
    struct services *services;
    struct otlp_settings settings;
    struct otlp *spans;
    struct otlp_sender *logs;
    struct buf body;
    pthread_t thread;
    bool runs;
    /* The thread's. */
    uint64_t position;
    int messages;
    unsigned failures;
    bool told;

    atomic_bool stop_told;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stopping; /* guarded by the lock */
};
extern const struct metric audit_metrics[];
extern const size_t audit_metric_count;
/* One export, or none. *ret_wait_ns: until the next. */
void audit_step(struct otlp_export *export, int64_t *ret_wait_ns);
struct fault audit_start(struct otlp_export *export);
void audit_stop(struct otlp_export *export); /* waits for a second or so, at most */

#endif
