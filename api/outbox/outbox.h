/*
 * The outbox: rows that the projector queued, leased by a worker thread, handled outside any transaction, settled by
 * the next event. At least once: a handler must be safe to run again with the same key. Rotates over tenants and
 * destinations with caps for each; the caps are this process's.
 *
 *     pending -> processing   leased: worker_id, lease_until_us, one attempt more
 *     processing -> delivered       the handler succeeded, or its event was projected
 *     processing -> pending         it failed and may be tried again (later and later), or the lease ran out
 *     processing -> dead-lettered   it failed for good, or its event says so
 *
 * A process that was killed in the middle leaves its lease behind; it runs out 10 s after the handler's deadline. Any
 * process then gives the row to another worker. An attempt counts when it begins, so a row whose worker died at the
 * last one is handed out once more, again as the last: nothing is dead-lettered without its handler being told.
 *
 * A process runs two: one for the rows that only need ourselves, and one (outbox_config.outbound) for the rows that
 * wait for others' services, whose many threads may all be waiting. Each leases the rows of its own destinations alone.
 * In the outbound one no tenant gets all the threads: at least an eighth of them is left to the others, so that
 * somebody's service that hangs holds up nobody else. Its wakes are gathered: a row begins within 20 ms, not at once.
 */
#ifndef API_OUTBOX_OUTBOX_H
#define API_OUTBOX_OUTBOX_H

#include "api/projection/projection.h"

#include <stdatomic.h>

struct outbox;
struct services;

struct outbox_item {
    const char *key;
    struct span payload; /* canonical JSON */
    unsigned attempt;    /* 1 = first */
    bool last_attempt;   /* a failure now dead-letters the row: record the terminal fact first */
    uint64_t id;
    const atomic_bool *stopping; /* true once the outbox is to stop: give up waiting for others, as for a failure */
};
/* Runs for op's tenant with op's deadline, the trace of the event that queued the row, and a command_id derived from
 * tenant, destination and key (the same at every attempt). OK: the handler has appended the event whose projection
 * settles the row. A fault with retry class LATER (or DEADLINE): tried again with backoff until `attempts`; any other,
 * or the last: the handler has appended its failure event, and the row is dead-lettered. */
typedef struct fault (*outbox_fn)(struct op *op, struct services *services, const struct outbox_item *item);

struct outbox_row {
    const char *destination; /* "codesign.command" */
    outbox_fn handler;
    int deadline_ms;
    unsigned attempts;
    unsigned cap_tenant, cap_destination; /* in flight; 0 = as many as there are threads */
    bool outbound; /* waits for others' services: run by the outbound outbox, whose threads may all be waiting */
    const char *doc;
};

struct outbox_config {
    struct store *store;
    struct services *services;
    const struct outbox_row *const *tables;
    const size_t *counts;
    size_t table_count;
    unsigned threads; /* 1..64 */
    bool outbound;    /* runs the rows that are outbound; otherwise those that are not */
    /* A handler ran into its deadline: for a counter of the caller's. May be NULL. */
    void (*on_timeout)(void *arg, const char *tenant, const char *destination);
    void *arg;
};
struct fault outbox_start(const struct outbox_config *config, struct outbox **ret_outbox);
void outbox_wake(struct outbox *outbox); /* rows may be due; without effect once it was stopped */
/* No new leases; waits for handlers, gives back what was not begun. May be called again. The projector may still wake
 * it afterwards, so it is freed only after projector_stop. */
void outbox_stop(struct outbox *outbox);
/* Says so and does not wait: for several that are to stop at the same time. */
void outbox_stop_begin(struct outbox *outbox);
void outbox_free(struct outbox *outbox); /* stops it if need be; NULL is fine */
DEFINE_FREEP(struct outbox, outbox_free)

#endif
