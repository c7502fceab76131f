/* What the files of api/projection/ share. */
#ifndef API_PROJECTION_INTERNAL_H
#define API_PROJECTION_INTERNAL_H

#include "api/projection/chain.h"
#include "api/projection/leadership.h"
#include "api/projection/projection.h"
#include "api/projection/tree.h"
#include "api/store/array.h"

/* ---- heads.c: the audit heads of tenants, kept in memory by whoever leads ---- */

/* The leaves of a tenant's tree behind its last complete tile (tree_keep.c). Not of a batch: when `sequence` is not the
 * last one before the record at hand, they are read again. */
struct tree_tail {
    struct sha256 *leaves;
    size_t room;
    int64_t sequence; /* of the last leaf */
    bool loaded;
};

struct head {
    struct tenant_id tenant;
    int64_t sequence; /* of the last committed record */
    struct sha256 chain;
    int64_t next_sequence; /* within the batch at hand */
    struct sha256 next_chain;
    struct tree_tail tail;
    uint64_t batch;       /* the batch that next_ belongs to */
    struct head *touched; /* list of the batch */
    struct head *chained; /* of the bucket */
};
struct heads;
struct fault heads_new(struct heads **ret_heads);
void heads_free(struct heads *heads);
DEFINE_FREEP(struct heads, heads_free)
void heads_clear(struct heads *heads); /* what was known may be wrong: another process led */
void heads_begin(struct heads *heads); /* a new batch; what the last one did not commit is forgotten */
void heads_commit(struct heads *heads);
/* Within `tx`, whose tenant is `tenant`. Borrowed until heads_clear or heads_begin. */
struct fault heads_get(struct tx *tx, struct heads *heads, struct tenant_id tenant, struct head **ret_head);
struct head *heads_touched(struct heads *heads);

/* ---- tree_keep.c: the tiles of a tenant's Merkle tree ---- */

struct tile_columns {
    struct sql_array level, tile, hashes, root;
};
void tile_columns_init(struct tile_columns *columns);
void tile_columns_free(struct tile_columns *columns);
void tile_columns_clear(struct tile_columns *columns);
struct fault tile_columns_write(struct tx *tx, struct tenant_id tenant, struct tile_columns *columns);
struct projection;
/* The record becomes a leaf; a tile that it completes waits with the other rows. */
struct fault tree_keep_record(struct projection *projection, struct tree_tail *tail, int64_t sequence,
                              struct span record);
void tree_tail_free(struct tree_tail *tail);

/* ---- traced.c ---- */

/* A span for each of the messages, in its own trace, as far as that is recorded and the message is new. */
void projection_traced(const struct event_message *messages, size_t count, mono_ns began);

/* ---- rows.c: copies and records of one tenant that follow one another, written by one statement each ---- */

struct row_columns {
    struct tenant_id tenant; /* of all that wait; the transaction is at it */
    struct sql_array copy_seq, copy_lane, copy_id, copy_body, copy_sha256;
    struct sql_array sequence, event_id, type, actor, time, stream_seq, record, chain;
    struct tile_columns tiles;
};
void row_columns_init(struct row_columns *columns);
void row_columns_free(struct row_columns *columns);
void row_columns_clear(struct row_columns *columns); /* of a batch that failed */

/* ---- apply.c: messages into the read model, one transaction at a time ---- */

struct applier {
    struct projector_config config;
    struct store *store;
    const struct event_row **rows; /* sorted by type and version */
    size_t row_count;
    struct heads *heads;
    struct row_columns columns;
    uint64_t checkpoint;
    struct sha256 rolling;
    bool failure_recorded; /* a row of projection_failure is to go with the next success */
};
struct fault applier_new(const struct projector_config *config, struct applier **ret_applier);
void applier_free(struct applier *applier);
DEFINE_FREEP(struct applier, applier_free)
/* Reads the checkpoint (made when missing) and forgets the heads: to be called when leadership begins. */
struct fault applier_load(struct op *op, struct applier *applier);
/* Applies `messages`, which follow the checkpoint without a gap, in one transaction. CONFLICT: somebody else moved the
 * checkpoint. LOG_UNTRUSTED: a message differs from the copy of it (*ret_bad_seq). *ret_outbox: rows were queued. */
struct fault applier_apply(struct op *op, struct applier *applier, const struct event_message *messages, size_t count,
                           bool *ret_outbox, uint64_t *ret_bad_seq);
/* `messages` again, in `tx`: their records and what features make of them, no copies and no checkpoint. again[i]: the
 * id of messages[i] was applied before. */
struct fault applier_replay(struct op *op, struct tx *tx, struct applier *applier, const struct event_message *messages,
                            const bool *again, size_t count);
/* The function of the event's row runs in `tx`; nothing else is written. PROJECTION_FAILED without such a row. */
struct fault applier_project(const struct applier *applier, struct projection *projection,
                             const struct event_view *event);
struct fault applier_record_failure(struct op *op, struct applier *applier, uint64_t stream_seq, struct fault fault);

/* rolling(n) = SHA-256("svc.log.rolling.v1" 0x00, rolling(n-1), SHA-256(body n)); rolling(0) = 32 zero bytes. */
struct fault rolling_next(const struct sha256 *previous, const struct sha256 *body, struct sha256 *ret_next);

/* ---- regenerate.c: a tenant's history, rewritten ---- */

bool message_activates(const struct event_message *message);
/* Before an activation is applied: whatever of its tenant is not yet as the log reads now becomes so. */
struct fault applier_regenerate(struct op *op, struct applier *applier, const struct event_message *message);
/* Stream sequence of the newest activation that is applied, 0 = none. */
struct fault projection_activated(struct op *op, struct store *store, uint64_t *ret_seq);

/* ---- tally.c: sums of a batch ---- */

#define TALLIES_MAX   64
#define TALLY_KEY_MAX 64
struct tally {
    struct tenant_id tenant;
    const struct sql *sql;
    char key[TALLY_KEY_MAX + 1];
    int64_t sum;
    utc_us last;
};

/* ---- fold.c: rows of a tenant's turn that are not written yet ---- */

struct fold;
struct fault fold_new(struct op *op, struct fold **ret_fold); /* lives in op's arena, up to fold_done */
void fold_done(struct fold *fold);                            /* NULL is fine */

#define NOTES_MAX 4
struct note {
    const void *owner;
    int value;
};

/* The transaction in which one event is applied. */
struct projection {
    struct row_columns *columns;
    struct op *op;
    struct tx *tx;
    const struct event_view *event;
    int64_t sequence;
    unsigned outbox_rows; /* of this message */
    bool outbox;
    struct fold *fold; /* NULL: nothing is folded */
    /* rederive.c: where the row that is looked for goes; then no row is written, and none settled. */
    struct projection_effect *wanted;
    bool found;
    size_t turn; /* messages */
    struct note notes[NOTES_MAX];
    size_t note_count;
    struct tally tallies[TALLIES_MAX]; /* of the batch, not yet written */
    size_t tally_count;
};
/* Writes what the batch has added up; leaves the transaction at some tenant. */
struct fault projection_tallies_write(struct projection *projection);
struct fault projection_insert_copy(struct projection *projection, const struct event_message *message,
                                    const struct sha256 *digest);
struct fault projection_insert_record(struct projection *projection, struct head *head, struct buf *record);
/* Writes what waits: before the transaction goes to another tenant, and at its end. */
struct fault projection_rows_write(struct projection *projection);

/* ---- batch.c: what the log has, as one batch ---- */

#define BATCH_MESSAGES 2048
#define BATCH_BYTES    ((size_t)8 << 20)
#define BATCH_ARENA    ((size_t)64 << 20)
#define BATCH_NS       (50 * NS_PER_MS)

/* Waits for a first message until `deadline`, then takes what is there. With *ret_count > 0 it is OK; the fault that
 * ended the batch comes back with the next call. Messages live in op's arena. */
struct fault batch_read(struct op *op, struct event_reader *reader, mono_ns deadline, struct event_message *messages,
                        size_t max, size_t *ret_count);
/* How many of `messages` go into one transaction: an activation goes alone. */
size_t batch_piece(const struct event_message *messages, size_t count);
/* A system operation with an arena for a batch; batch_op_reset makes it new for the next one. */
struct fault batch_op_new(const char *subject, struct op **ret_op);
void batch_op_reset(struct op *op, int timeout_ms);

/* ---- ahead.c: the next batch is read while one is applied ---- */

struct ahead_batch {
    struct op *op; /* its arena holds the messages */
    size_t count;
    unsigned joins;     /* of the reader */
    struct fault fault; /* instead of messages, and then the last one */
    struct event_message messages[BATCH_MESSAGES];
};
struct ahead;
/* Reads up to message `last` with `reader`, which nobody else touches until ahead_free. */
struct fault ahead_start(const char *subject, struct event_reader *reader, uint64_t last, struct ahead **ret_ahead);
/* *ret_batch is borrowed until the next call, and set with a fault that the reading met as well; DEADLINE without one
 * when none came. */
struct fault ahead_next(struct ahead *ahead, mono_ns deadline, struct ahead_batch **ret_batch);
void ahead_free(struct ahead *ahead);
DEFINE_FREEP(struct ahead, ahead_free)

/* ---- trust.c: the log against the copies ---- */

enum trust_cause { TRUST_GOOD, TRUST_GAP, TRUST_REWIND, TRUST_ALTERED, TRUST_TAIL_LOST };
struct trust_verdict {
    enum trust_cause cause;
    uint64_t first_bad_seq;
};
const char *trust_cause_text(enum trust_cause cause);

struct trust_walk {
    struct event_reader *reader;
    struct event_log *log;
    uint64_t activated; /* the newest applied activation when it began */
    uint64_t target;    /* the checkpoint when it began */
    bool cut_short;     /* the log ends before it */
    struct sha256 target_rolling;
    uint64_t done;
    struct sha256 rolling;
};
/* Ends, head, tail and samples that begin behind *sample_at. OK with a verdict; a fault when it could not be looked. */
struct fault trust_glance(struct op *op, struct store *store, struct event_log *log, uint64_t *sample_at,
                          struct trust_verdict *ret_verdict);
struct fault trust_walk_start(struct op *op, struct store *store, struct event_log *log, struct trust_walk *walk);
/* One piece. *ret_end: all was compared, or something bad was found. */
struct fault trust_walk_step(struct op *op, struct store *store, struct trust_walk *walk,
                             struct trust_verdict *ret_verdict, bool *ret_end);
void trust_walk_stop(struct trust_walk *walk);

/* ---- projector.c, watch.c, wait.c ---- */

#include <pthread.h>
#include <stdatomic.h>

struct projector {
    struct projector_config config; /* the applier has its own, sorted copy of the rows */
    struct applier *applier;        /* the thread's */
    pthread_t thread, watcher;
    bool thread_runs, watcher_runs;

    pthread_mutex_t lock; /* guards the rest */
    pthread_cond_t changed;
    pthread_cond_t hurried; /* somebody is in a hurry, or it is stopping: the thread may be gathering */
    bool gathering;
    bool stopping;
    unsigned waiters;
    uint64_t wanted;         /* the newest message that somebody is in a hurry for */
    uint64_t applied;        /* checkpoint, as committed */
    uint64_t generation;     /* 1 + applied batches */
    bool leader;             /* while the lease lasts */
    _Atomic mono_ns renewed; /* the lease; leadership.h */
    uint64_t failed_seq;     /* 0 = none */
    bool looked;             /* the first comparison is done */
    struct trust_verdict verdict;
};
void projector_lock(struct projector *projector);
void projector_unlock(struct projector *projector);
/* Waits for `changed`, with the lock held. False once it is stopping. */
bool projector_pause(struct projector *projector, mono_ns until);
bool projector_going(struct projector *projector);
void *projector_run(void *projector);   /* projector.c */
void *projector_watch(void *projector); /* watch.c */
/* Makes the log untrusted from that sequence on, unless an earlier one is known. */
void projector_found_bad(struct projector *projector, struct trust_verdict found);
/* The checkpoint and the failure as they stand in the database. */
struct fault projection_where(struct op *op, struct store *store, uint64_t *ret_checkpoint, uint64_t *ret_failed_seq,
                              struct sha256 *ret_rolling);

#endif
