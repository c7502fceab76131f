/*
 * The outbox: rows that the projector queued, leased by a worker thread, handled outside any transaction, settled by
 * the next event. At least once: a handler must be safe to run again with the same key. Rotates over tenants and
 * destinations with caps for each; the caps are this process's.
 *
 *     pending -> processing   leased: worker_id, lease_until_us, one attempt more
 *     processing -> delivered       the handler succeeded, or its event was projected
 *     processing -> pending         it failed and may be tried again (later and later), or the lease ran out
 *     processing -> dead-lettered   it failed for good, or its event says so
 *     dead-lettered -> pending      an operator said so (projection_outbox_requeue), with its attempts before it again
 *
 * What the last attempt met stands in svc.outbox_failures, until a later one succeeds.
 *
 * A process that was killed in the middle leaves its lease behind; it runs out 10 s after the handler's deadline. Any
 * process then gives the row to another worker. An attempt counts when it begins, so a row whose worker died at the
 * last one is handed out once more, again as the last: nothing is dead-lettered without its handler being told.
 *
 * A process runs two: one for the rows that only need ourselves, and one (outbox_config.outbound) for the rows that
 * wait for others' services, whose many threads may all be waiting. Each leases the rows of its own destinations alone.
 * In the outbound one no destination gets all the threads, and no tenant all that one destination may have: an eighth
 * of them is left to other destinations and another eighth to other tenants, so that somebody's service that hangs
 * holds up nobody else. Its wakes are gathered: a row begins within 20 ms, not at once. In the other one a tenant
 * leaves one thread to the others while they have rows, too; alone it has them all, since a thread there is free again
 * soon.
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
    bool awaited;  /* a request waits for the outcome: leased while requests in hand are answered (outbox_narrow) */
    const struct outbox_upkeep *upkeep; /* NULL: its feature does all of that itself */
    const char *doc;
};

/* What operators and the reconciliation at start (api/operations) need to know of a destination. The statements read
 * the read model's own account of the effect, which is what a row is judged by: an effect that is not owed any more is
 * never made again, and no row is lost as long as its effect is owed. */
struct outbox_upkeep {
    /* $1 tenant, $2 key: a row when the effect is still owed. A dead-lettered row of such a one may go again as it is.
     */
    const struct sql *owed;
    /* $1 tenant, $2 position: effects that are owed and have no row here, as (key text, stream sequence of an event
     * that may have queued it, 0). Where looking takes long, a piece of it, and a row ('', 0, position to go on at). */
    const struct sql *missing;
    /* For an effect that ended: $1 tenant, $2 key: a row when it may be taken up again, and the projection that does so
     * (without effect when it may not any more). NULL: an end is the end. */
    const struct sql *reopenable;
    struct fault (*reopen)(struct projection *projection, const char *key);
    const char *closed; /* why an ended effect is not taken up again, and what to do instead; ends a sentence */
};

struct outbox_config {
    struct store *store;
    struct services *services;
    const struct outbox_row *const *tables;
    const size_t *counts;
    size_t table_count;
    unsigned threads; /* 1..64 */
    bool outbound;    /* runs the rows that are outbound; otherwise those that are not */
    /* In flight, beside what the rows say. 0 = all threads, of a tenant all but one while another one has rows, too; of
     * an outbound one three quarters and seven eighths of them. */
    unsigned cap_tenant, cap_destination;
    /* A handler ran into its deadline: for a counter of the caller's. May be NULL. */
    void (*on_timeout)(void *arg, const char *tenant, const char *destination);
    /* An attempt ended: delivered, retry or dead-lettered. May be NULL. */
    void (*on_attempt)(void *arg, const char *destination, const char *result, double seconds);
    void *arg;
};
struct fault outbox_start(const struct outbox_config *config, struct outbox **ret_outbox);
void outbox_wake(struct outbox *outbox); /* rows may be due; without effect once it was stopped */
/* The drain's first step: from now on only rows of destinations that requests wait for (outbox_row.awaited) are leased;
 * the backlog stays for another process, or for the next start. */
void outbox_narrow(struct outbox *outbox);
/* The drain's last step, after outbox_stop: gives back whatever this process still holds (an outcome that could not be
 * recorded) and what others let run out, so that nobody waits for a lease. *ret_rows: how many. */
struct fault outbox_sweep(struct op *op, struct outbox *outbox, int64_t *ret_rows);
/* No new leases; waits for handlers, gives back what was not begun. May be called again. The projector may still wake
 * it afterwards, so it is freed only after projector_stop. */
void outbox_stop(struct outbox *outbox);
/* Says so and does not wait: for several that are to stop at the same time. */
void outbox_stop_begin(struct outbox *outbox);
void outbox_free(struct outbox *outbox); /* stops it if need be; NULL is fine */
DEFINE_FREEP(struct outbox, outbox_free)

#endif
