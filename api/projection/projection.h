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
#include "api/store/array.h"
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
/* The stream sequence of the message that queued the row of this id. */
uint64_t projection_outbox_seq(int64_t outbox_id);
/* Settles a row from the event that records its outcome: "delivered" or "dead-lettered". */
struct fault projection_outbox_settle(struct projection *projection, const char *destination, const char *key,
                                      const char *state);

/* Puts a dead-lettered row back to pending, due at once, with its attempts before it; without effect on any other row.
 */
struct fault projection_outbox_requeue(struct projection *projection, const char *destination, const char *key);

/* An outbox row as its event makes it: the same bytes whenever it is made. */
struct projection_effect {
    const char *destination, *key, *trace_id;
    struct span payload;
    int64_t id; /* stream sequence of the message * 256 + number */
    utc_us due, created;
};
/* Makes a row that was lost as it was, unless one stands there. */
struct fault projection_outbox_restore(struct projection *projection, const struct projection_effect *effect);

/* The row that the message `stream_seq` of op's tenant queued under destination and key, derived from the message
 * again: the projection functions of its events run once more in a transaction that is taken back. Before that the
 * message has to be the one that was applied: its copy is what its digest says, it stands in the log the same, and its
 * audit records and their chain follow from it. *ret_effect lives in op's arena. BUG_IF(tx_open).
 *   NOT_FOUND       the message is good and queues no such row
 *   OUTBOX_SOURCE   the retained history is not what was applied (the note says where)
 *   another fault   it could not be looked, or the functions do not run as things stand */
struct fault projection_rederive(struct op *op, struct projector *projector, uint64_t stream_seq,
                                 const char *destination, const char *key, struct projection_effect *ret_effect);

/* ---- rewritten history (events.h) ----
 * At an activation the projector regenerates the tenant: its copies become the replacements, and all its projection
 * rows are written again from them, in one transaction. */
struct history_generation {
    int64_t generation;
    const char *erasure_id;
    int64_t boundary_seq, boundary_sequence, replaced;
    struct sha256 digest, superseded_head, new_head;
    const char *statement;
};
/* For the projection function of EVENTS_ACTIVATED: everybody who compares log and copies rests on this row. */
struct fault projection_generation(struct projection *projection, const struct history_generation *generation);
/* Does what an activation of these replacements of op's tenant would do, and takes it back: PROJECTION_FAILED or
 * another fault tells that they must not be activated. Everything of the tenant is locked meanwhile. */
struct fault projection_rehearse(struct op *op, struct projector *projector, const struct event_replacement *entries,
                                 size_t count);

/* Adds to a number that many events add to (uses of a key): the batch adds up in memory and writes each sum once, at
 * the latest at its end, in the same transaction. `sql` takes tenant, key, sum and the time of the latest event, and
 * adds the sum to what stands there; nothing that a projection decides may rest on that row. Key: at most 64 bytes. */
struct fault projection_tally(struct projection *projection, const struct sql *sql, const char *key, int64_t by);

/* Rows that are made and soon changed again (an operation and its end, an effect and its outcome). While many messages
 * are applied at once, such a row is kept in memory and written once, with the others of its table, before the
 * transaction goes on to the next tenant. Whether a row can be kept is asked for each event:
 *
 *     if (projection_folds(projection)) {
 *         return projection_row_make(projection, &table, key, values);    -- the insert
 *     }
 *     return tx_queue(projection_tx(projection), &SQL_INSERT, args, count);
 *
 * and a change asks for the row first: projection_row_of; NULL: not kept, the change is a statement of its own. Every
 * other statement that reads or writes such a table comes behind projection_fold_write. */
#define PROJECTION_COLUMNS_MAX 32
struct projection_table {
    /* INSERT ... SELECT $1, ... FROM unnest($2, ...): tenant, then one array for each column, without ON CONFLICT. */
    const struct sql *insert;
    const enum sql_array_kind *kinds;
    size_t count; /* of columns behind the tenant */
};
struct projection_row; /* borrowed until the next row is made or written */
bool projection_folds(const struct projection *projection);
struct projection_row *projection_row_of(struct projection *projection, const struct projection_table *table,
                                         const char *key);
/* `key` must not be kept already; the values are copied. */
struct fault projection_row_make(struct projection *projection, const struct projection_table *table, const char *key,
                                 const struct sql_arg *values);
bool projection_row_is(const struct projection_row *row, size_t column, const char *text);
bool projection_row_null(const struct projection_row *row, size_t column);
struct fault projection_row_set(struct projection *projection, struct projection_row *row, size_t column,
                                struct sql_arg value);
struct fault projection_fold_write(struct projection *projection);

/* How many messages of the event's tenant are applied one behind the other: what costs a question once for all of them
 * may be cheaper than a statement for each. A note is a number that lasts as long, 0 at first: `owner` tells notes
 * apart. */
size_t projection_turn(const struct projection *projection);
int projection_note(const struct projection *projection, const void *owner);
void projection_note_set(struct projection *projection, const void *owner, int value);

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
    /* For measurements: a transaction with so many messages was committed and took so long. From the projector's
     * thread; NULL = nobody measures. */
    void (*on_applied)(void *arg, size_t messages, mono_ns took);
    /* Of projection_rebuild and projection_prove, after each batch: so far of the log; NULL = nobody wants to know. */
    void (*on_progress)(void *arg, uint64_t done, uint64_t last);
};
struct fault projector_start(const struct projector_config *config, struct projector **ret_projector);
void projector_stop(struct projector *projector); /* drains the batch in hand, joins */

/* Waits until the checkpoint has passed `stream_seq` (in this process or another). DEADLINE when it did not,
 * PROJECTION_FAILED at once when the projector stands at a failure before it, LOG_UNTRUSTED when it may not go on,
 * CANCELLED when it is stopping. */
struct fault projector_wait(struct op *op, struct projector *projector, uint64_t stream_seq);
/* The message is not to wait for company: somebody waits for what its effect does, and not for the message itself. */
void projector_hurry(struct projector *projector, uint64_t stream_seq);
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
/* Is the log up to message `last` the one with this rolling digest (SNAPSHOT_MISMATCH), and equal to the copies
 * (LOG_UNTRUSTED)? Copies that are missing are written, and those of what an activated generation replaced since:
 * *ret_written says how many. Nothing else is changed. */
struct fault projection_prove(struct op *op, const struct projector_config *config, uint64_t last,
                              const struct sha256 *rolling, uint64_t *ret_written);

/* ---- repair ----
 * A log that lost its tail gets it again from the verified copies, message by message, each at the sequence that it had
 * (svc-appliance repair-log). Only when what is left of the log equals the copies, the copies are without a gap, each
 * is what its digest says and all of them have the checkpoint's rolling digest; only from the first message that is
 * missing, which the operator has to name; and only while no projector leads. LOG_REPAIR, with what to do instead, when
 * any of this does not hold: then nothing was changed. Interrupted, it is begun again with the log's new end.
 * *ret_repair is written on a fault, too. */
struct log_repair {
    uint64_t log_last;    /* the log's end as it was found */
    uint64_t copies_last; /* the copies' end */
    uint64_t appended;    /* so far */
    struct sha256 rolling;
};
struct log_repair_request {
    uint64_t from; /* the first bad sequence */
    bool go;       /* false: look only */
    /* Called once between the checks and the first change. */
    void (*tell)(void *arg, const struct log_repair *plan);
    void *arg;
};
struct fault projection_repair_log(struct op *op, struct store *store, struct event_log *log,
                                   const struct log_repair_request *request, struct log_repair *ret_repair);

#endif
