/*
 * The projector applies the log to the read model: in order, once, many messages to a transaction. For each event it
 * writes the audit record (tenant sequence, chain hash), calls the projection function of the event's row, and moves
 * the checkpoint; all in the same transaction. A projection function does nothing but SQL through its transaction, so
 * rebuild (empty and replay) gives the same bytes. One leader (database lock) among several svc-api.
 *
 * A failing event stops the projector at that message: recorded, shown by /readyz, retried with backoff.
 *
 * A message id counts once for ever: a message whose id was applied before (a retry that came after the log's duplicate
 * window) is kept as a copy and its events are passed over. Several statements of one projection function cost one
 * round trip when they go through tx_queue (store.h); use tx_query only for what must be read.
 *
 * Every process, leading or not, compares the log with the copies that the read model keeps: head, tail and a moving
 * sample at the start, after every reconnect and every few seconds, and all of it in the background. What differs makes
 * the log untrusted: projections stop and nothing is repaired. It counts as trusted again only after everything was
 * compared and found equal.
 */
#ifndef API_PROJECTION_PROJECTION_H
#define API_PROJECTION_PROJECTION_H

#include "api/events/events.h"
#include "api/store/store.h"

struct projector;
struct projection; /* the transaction in which one event is applied */

typedef struct fault (*projection_fn)(struct projection *projection, const struct event_view *event);

/* The events table of a feature: every type that it appends. An event that no row names stops the projector. */
struct event_row {
    const char *type;
    int64_t schema_version;
    projection_fn project; /* NULL: audit record only */
    const char *doc;
};

/* For projection functions. */
struct op *projection_op(struct projection *projection); /* arena, note; tenant = the event's */
struct tx *projection_tx(struct projection *projection);
/* The audit sequence that this event got within its tenant. */
int64_t projection_sequence(const struct projection *projection);
/* The event's time. */
utc_us projection_time(const struct projection *projection);
/* Queues an outbox row for the event's tenant: `key` is unique per destination and tenant; a second one is ignored.
 * `payload` is canonical JSON, at most 256 KiB. due = event time + delay; without delay it is due at once, whatever the
 * clocks of several hosts say. At most 256 rows a message. */
struct fault projection_outbox(struct projection *projection, const char *destination, const char *key,
                               struct span payload, int64_t delay_us);
/* Settles a row from the event that records its outcome: "delivered" or "dead-lettered". */
struct fault projection_outbox_settle(struct projection *projection, const char *destination, const char *key,
                                      const char *state);

/* Adds to a number that many events add to (uses of a key): the batch adds up in memory and writes each sum once, at
 * the latest at its end, in the same transaction. `sql` takes tenant, key, sum and the time of the latest event, and
 * adds the sum to what stands there; nothing that a projection decides may rest on that row. Key: at most 64 bytes. */
struct fault projection_tally(struct projection *projection, const struct sql *sql, const char *key, int64_t by);

/* The last sequence of the tenant's lane in the read model, 0 when it is empty: what a command hands to events_append
 * as `expected`. Ask for it before reading what the command decides from: then a miss is noticed. */
struct fault projection_lane_last(struct tx *tx, struct tenant_id tenant, const char *lane, uint64_t *ret_seq);

/* `rows` of all features; on_outbox is called (from the projector's thread) after a commit that queued outbox rows. */
struct projector_config {
    struct store *store;
    struct event_log *log;
    const struct event_row *const *tables;
    const size_t *counts;
    size_t table_count;
    void (*on_outbox)(void *arg);
    void *arg;
};
struct fault projector_start(const struct projector_config *config, struct projector **ret_projector);
void projector_stop(struct projector *projector); /* drains the batch in hand, joins */

/* Waits until the checkpoint has passed `stream_seq` (in this process or another). DEADLINE when it did not,
 * PROJECTION_FAILED at once when the projector stands at a failure before it, LOG_UNTRUSTED when it may not go on,
 * CANCELLED when it is stopping. */
struct fault projector_wait(struct op *op, struct projector *projector, uint64_t stream_seq);
/* Waits until this process has caught up with the log's end as of now: start-up, before serving. */
struct fault projector_catch_up(struct op *op, struct projector *projector);
/* Wakes up on every applied batch: waits until something was applied after `*seen`, or the deadline (DEADLINE). With
 * *seen = 0 it returns at once, so that the order "changed, look, changed, look" misses nothing. */
struct fault projector_changed(struct op *op, struct projector *projector, uint64_t *seen, mono_ns deadline);

struct projector_state {
    uint64_t checkpoint, log_last; /* stream sequences */
    uint64_t lag;
    bool leader, stopped_at_failure;
    uint64_t failed_seq;    /* first message that does not apply */
    bool log_trusted;       /* the log's stored messages equal the verified copies */
    uint64_t first_bad_seq; /* when not */
    char cause[32];         /* "gap", "rewind", "altered", "tail_lost", "" */
};
void projector_state(struct projector *projector, struct projector_state *ret_state);

/* Replays the whole log into emptied tables (store_empty_projections), in this process, without serving
 * (svc-appliance rebuild). The envelope copies are not emptied: the log is compared with them on the way, and
 * LOG_UNTRUSTED, naming the sequence, leaves the read model at the last message that is good. May be run again after
 * an interruption. CONFLICT while a projector leads. */
struct fault projection_rebuild(struct op *op, const struct projector_config *config, uint64_t *ret_messages);

#endif
