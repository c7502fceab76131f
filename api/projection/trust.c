/* The log against the copies: a glance (ends, head, tail, samples) and a walk (everything). */
#include "api/projection/internal.h"

#define SAMPLES     8u
#define GLANCE_MAX  (SAMPLES + 3)
#define SAMPLE_STEP 7919u /* a prime, so that the samples of many glances meet every message */
#define WALK_NS     (2 * NS_PER_S)

static const struct sql SQL_COPIES_OF = {
    "trust_copies_of",
    "SELECT stream_seq, sha256 FROM svc.event_envelopes WHERE stream_seq = ANY (string_to_array($1, ',')::bigint[])",
    1,
};
static const struct sql SQL_COPIES_FROM = {
    "trust_copies_from",
    "SELECT stream_seq, sha256 FROM svc.event_envelopes WHERE stream_seq BETWEEN $1 AND $2 ORDER BY stream_seq",
    2,
};

const char *trust_cause_text(enum trust_cause cause)
{
    static const char *const texts[] = { "", "gap", "rewind", "altered", "tail_lost" };
    return texts[cause];
}

static void find_bad(struct trust_verdict *verdict, enum trust_cause cause, uint64_t seq)
{
    if (verdict->cause == TRUST_GOOD || seq < verdict->first_bad_seq) {
        *verdict = (struct trust_verdict){ .cause = cause, .first_bad_seq = seq };
    }
}

/* ---- rewritten history ----
 * Copies become replacements when the activation is applied, in one transaction for all. Until then the log reads newer
 * than the copies of these messages are; and what was read of the one and of the other around that moment may differ.
 */

/* The newest applied activation is known to the log too. */
static struct fault follow_history(struct op *op, struct store *store, struct event_log *log, uint64_t *ret_activated)
{
    TRY(projection_activated(op, store, ret_activated));
    return event_log_activated(log) < *ret_activated ? event_log_history_load(op, log) : OK;
}

/* What the log knows to be replaced, and the copies do not yet. */
static bool ahead(struct event_log *log, uint64_t seq, uint64_t activated)
{
    struct event_replacement replacement;
    return event_log_replaced(log, seq, &replacement) && replacement.active_since > activated;
}

/* CONFLICT: history was rewritten while it was compared; look again. */
static struct fault unless_rewritten(struct op *op, struct store *store, uint64_t activated,
                                     const struct trust_verdict *verdict)
{
    uint64_t now = 0;
    if (verdict->cause == TRUST_GOOD) {
        return OK;
    }
    TRY(projection_activated(op, store, &now));
    REQUIRE(now == activated, CONFLICT);
    return OK;
}

/* ---- the glance ---- */

struct glance {
    uint64_t seq[GLANCE_MAX];
    struct sha256 digest[GLANCE_MAX];
    bool there[GLANCE_MAX], equal[GLANCE_MAX];
    size_t count;
};

static void look_at(struct glance *glance, uint64_t seq, uint64_t last)
{
    if (seq >= 1 && seq <= last && glance->count < GLANCE_MAX) {
        glance->seq[glance->count++] = seq;
    }
}

static struct fault get_messages(struct op *op, struct event_log *log, struct glance *glance)
{
    for (size_t i = 0; i < glance->count; i++) {
        struct event_message message;
        struct fault fault = event_log_get(op, log, glance->seq[i], &message);
        glance->there[i] = fault.code != FAULT_NOT_FOUND;
        bool bad_replacement = fault.code == FAULT_LOG_UNTRUSTED && event_log_replaced(log, glance->seq[i], NULL);
        if (FAULTED(fault) && fault.code != FAULT_NOT_FOUND && fault.code != FAULT_LOG_DECODE && !bad_replacement) {
            return fault;
        }
        if (!FAULTED(fault)) {
            TRY(sha256_of(message.body, &glance->digest[i]));
        }
        arena_clear(op->arena);
        op->note = (struct fault_note){ 0 };
    }
    return OK;
}

static struct fault get_copies(struct op *op, struct store *store, struct glance *glance)
{
    CLEANUP(buf_free) struct buf list = BUF_INIT(GLANCE_MAX * 24);
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    for (size_t i = 0; i < glance->count; i++) {
        TRY(buf_printf(&list, "%s%llu", i > 0 ? "," : "", (unsigned long long)glance->seq[i]));
    }
    TRY(tx_begin(op, store, STORE_BOOKKEEPING, &tx));
    TRY(tx_query(tx, &SQL_COPIES_OF, (struct sql_arg[]){ SQL_SPAN(buf_span(&list)) }, 1, &rows));
    for (size_t row = 0; row < rows_count(rows); row++) {
        for (size_t i = 0; i < glance->count; i++) {
            if (glance->seq[i] == (uint64_t)rows_int(rows, row, 0)) {
                glance->equal[i] = span_equal(rows_bytes(rows, row, 1), SPAN_ARRAY(glance->digest[i].at));
            }
        }
    }
    return OK;
}

/* The ends tell of a log that is shorter than what was applied or acknowledged, or has holes. */
static void judge_ends(const struct event_log_state *state, uint64_t checkpoint, uint64_t seen,
                       struct trust_verdict *verdict)
{
    if (state->last_seq < checkpoint) {
        find_bad(verdict, TRUST_TAIL_LOST, state->last_seq + 1);
    } else if (state->last_seq < seen) {
        find_bad(verdict, TRUST_REWIND, state->last_seq + 1);
    }
    if (state->first_missing != 0) {
        find_bad(verdict, TRUST_GAP, state->first_missing);
    }
}

static void judge_messages(struct event_log *log, const struct glance *glance, uint64_t activated,
                           const struct event_log_state *state, struct trust_verdict *verdict)
{
    bool short_of = verdict->cause == TRUST_TAIL_LOST;
    bool began_again = short_of && state->last_seq == 0;
    for (size_t i = 0; i < glance->count; i++) {
        if (!glance->there[i]) {
            find_bad(verdict, TRUST_GAP, glance->seq[i]);
        } else if (!glance->equal[i] && !ahead(log, glance->seq[i], activated)) {
            /* Shorter, and what is at its end is not what was there. */
            began_again = began_again || (short_of && glance->seq[i] == state->last_seq);
            find_bad(verdict, TRUST_ALTERED, glance->seq[i]);
        }
    }
    verdict->cause = began_again ? TRUST_REWIND : verdict->cause;
}

struct fault trust_glance(struct op *op, struct store *store, struct event_log *log, uint64_t *sample_at,
                          struct trust_verdict *ret_verdict)
{
    struct trust_verdict verdict = { 0 };
    struct glance glance = { 0 };
    struct event_log_state state;
    struct sha256 rolling;
    uint64_t checkpoint = 0, failed = 0;
    uint64_t activated = 0;
    uint64_t seen = event_log_seen(log); /* before the log's end is asked for: it may grow meanwhile */
    TRY(follow_history(op, store, log, &activated));
    TRY(projection_where(op, store, &checkpoint, &failed, &rolling));
    TRY(event_log_state_now(op, log, &state));
    judge_ends(&state, checkpoint, seen, &verdict);
    uint64_t last = checkpoint < state.last_seq ? checkpoint : state.last_seq;
    look_at(&glance, last, last); /* the tail */
    look_at(&glance, 1, last);
    for (unsigned i = 0; i < SAMPLES && last > 2; i++) {
        *sample_at = (*sample_at + SAMPLE_STEP) % last;
        look_at(&glance, *sample_at + 1, last);
    }
    if (glance.count > 0) {
        TRY(get_messages(op, log, &glance));
        TRY(get_copies(op, store, &glance));
    }
    judge_messages(log, &glance, activated, &state, &verdict);
    TRY(unless_rewritten(op, store, activated, &verdict));
    *ret_verdict = verdict;
    return OK;
}

/* ---- the walk ---- */

struct fault trust_walk_start(struct op *op, struct store *store, struct event_log *log, struct trust_walk *walk)
{
    struct event_log_state state;
    uint64_t failed = 0;
    trust_walk_stop(walk);
    *walk = (struct trust_walk){ .log = log };
    TRY(follow_history(op, store, log, &walk->activated));
    TRY(projection_where(op, store, &walk->target, &failed, &walk->target_rolling));
    TRY(event_log_state_now(op, log, &state));
    if (state.last_seq < walk->target) {
        walk->target = state.last_seq; /* the glance tells of the lost tail; the rest is looked at here */
        walk->cut_short = true;
    }
    return event_reader_new(log, 1, &walk->reader);
}

void trust_walk_stop(struct trust_walk *walk)
{
    event_reader_free(TAKE(walk->reader));
}

static struct fault compare_piece(struct op *op, struct store *store, struct trust_walk *walk,
                                  const struct event_message *messages, size_t count, struct trust_verdict *verdict)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct sql_arg args[] = { SQL_INT((int64_t)messages[0].stream_seq),
                              SQL_INT((int64_t)messages[count - 1].stream_seq) };
    TRY(tx_begin(op, store, STORE_BOOKKEEPING, &tx));
    TRY(tx_query(tx, &SQL_COPIES_FROM, args, COUNT_OF(args), &rows));
    for (size_t i = 0; i < count && verdict->cause == TRUST_GOOD; i++) {
        struct sha256 digest;
        TRY(sha256_of(messages[i].body, &digest));
        bool there = i < rows_count(rows) && (uint64_t)rows_int(rows, i, 0) == messages[i].stream_seq;
        if (there && ahead(walk->log, messages[i].stream_seq, walk->activated)) {
            REQUIRE(rows_bytes(rows, i, 1).len == SHA256_LEN, INTERNAL);
            memcpy(digest.at, rows_bytes(rows, i, 1).at, SHA256_LEN);
        }
        TRY(rolling_next(&walk->rolling, &digest, &walk->rolling));
        if (!there || !span_equal(rows_bytes(rows, i, 1), SPAN_ARRAY(digest.at))) {
            find_bad(verdict, TRUST_ALTERED, messages[i].stream_seq);
        }
    }
    walk->done = messages[count - 1].stream_seq;
    return OK;
}

struct fault trust_walk_step(struct op *op, struct store *store, struct trust_walk *walk,
                             struct trust_verdict *ret_verdict, bool *ret_end)
{
    struct trust_verdict verdict = { 0 };
    uint64_t left = walk->target - walk->done;
    if (left > 0) {
        struct event_message *messages = NULL;
        size_t count = 0;
        TRY(arena_take(op->arena, BATCH_MESSAGES, sizeof(*messages), &messages));
        struct fault fault = batch_read(op, walk->reader, clock_mono() + WALK_NS, messages,
                                        left < BATCH_MESSAGES ? left : BATCH_MESSAGES, &count);
        if (fault.code == FAULT_LOG_UNTRUSTED || fault.code == FAULT_LOG_DECODE) {
            find_bad(&verdict, fault.code == FAULT_LOG_DECODE ? TRUST_ALTERED : TRUST_GAP,
                     event_reader_seq(walk->reader));
        } else {
            TRY(fault);
            TRY(compare_piece(op, store, walk, messages, count, &verdict));
        }
    }
    bool end = walk->done == walk->target;
    if (end && verdict.cause == TRUST_GOOD && !walk->cut_short &&
        !span_equal(SPAN_ARRAY(walk->rolling.at), SPAN_ARRAY(walk->target_rolling.at))) {
        find_bad(&verdict, TRUST_ALTERED, walk->target); /* log and copies agree with each other, not with what was */
    }
    TRY(unless_rewritten(op, store, walk->activated, &verdict));
    *ret_verdict = verdict;
    *ret_end = end || verdict.cause != TRUST_GOOD;
    return OK;
}
