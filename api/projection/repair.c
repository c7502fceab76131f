/* A lost tail of the log, appended again from the copies. */
#include "api/projection/internal.h"

#define DIGESTS 2000 /* a page */
#define BODIES  32   /* of up to a megabyte */
#define READ_NS (30 * NS_PER_S)
#define STEP_MS 120000

static const struct sql SQL_LAST_COPY = {
    "repair_last_copy",
    "SELECT coalesce(max(stream_seq), 0) FROM svc.event_envelopes",
    0,
};
static const struct sql SQL_DIGESTS = {
    "repair_digests",
    "SELECT stream_seq, sha256, sha256(body) = sha256 FROM svc.event_envelopes WHERE stream_seq > $1"
    " ORDER BY stream_seq LIMIT $2",
    2,
};
static const struct sql SQL_COPIES = {
    "repair_copies",
    "SELECT e.stream_seq, e.tenant_id, e.lane, e.message_id, e.body, EXISTS (SELECT 1 FROM svc.event_envelopes p"
    " WHERE p.message_id = e.message_id AND p.stream_seq < e.stream_seq)"
    " FROM svc.event_envelopes e WHERE e.stream_seq > $1 ORDER BY e.stream_seq LIMIT $2",
    2,
};

struct repairing {
    struct op *op; /* of the steps: its arena is emptied after each */
    struct store *store;
    struct event_log *log;
    struct event_reader *reader;
    struct log_repair repair;
    struct sha256 wanted; /* the checkpoint's rolling digest */
    uint64_t at;          /* copies up to here were looked at */
};

#define RESTORE "restore a backup of the event log (docs/event-log-faults.md)"

/* ---- what may be repaired at all ---- */

static struct fault find_ends(struct op *op, struct repairing *repairing)
{
    struct log_repair *repair = &repairing->repair;
    struct event_log_state state;
    uint64_t checkpoint = 0, failed = 0;
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(projection_where(op, repairing->store, &checkpoint, &failed, &repairing->wanted));
    TRY(event_log_state_now(op, repairing->log, &state));
    TRY(tx_begin(op, repairing->store, STORE_BOOKKEEPING, &tx));
    TRY(tx_query(tx, &SQL_LAST_COPY, NULL, 0, &rows));
    repair->copies_last = (uint64_t)rows_int(rows, 0, 0);
    repair->log_last = state.last_seq;
    if (checkpoint != repair->copies_last) {
        return op_fail(op, FAULT(LOG_REPAIR),
                       "the read model is at message %llu and its copies end at %llu, so no rolling digest holds them: "
                       "a rebuild was begun. " RESTORE,
                       (unsigned long long)checkpoint, (unsigned long long)repair->copies_last);
    }
    if (state.first_missing != 0) {
        return op_fail(op, FAULT(LOG_REPAIR),
                       "message %llu is missing within the log, not at its end: it cannot be put back. " RESTORE,
                       (unsigned long long)state.first_missing);
    }
    return OK;
}

static struct fault check_from(struct op *op, const struct log_repair *repair, uint64_t from)
{
    if (repair->log_last >= repair->copies_last) {
        return op_fail(op, FAULT(LOG_REPAIR),
                       "the log ends at message %llu and the copies at %llu: no tail is lost, nothing to repair",
                       (unsigned long long)repair->log_last, (unsigned long long)repair->copies_last);
    }
    if (from != repair->log_last + 1) {
        return op_fail(op, FAULT(LOG_REPAIR), "the log ends at message %llu: its lost tail begins at %llu, not at %llu",
                       (unsigned long long)repair->log_last, (unsigned long long)repair->log_last + 1,
                       (unsigned long long)from);
    }
    return OK;
}

/* ---- the copies hold, and what is left of the log equals them ---- */

static struct fault compare_one(struct op *op, struct repairing *repairing, const struct rows *rows, size_t row,
                                const struct event_message *message)
{
    uint64_t seq = (uint64_t)rows_int(rows, row, 0);
    struct sha256 digest;
    struct span copy = rows_bytes(rows, row, 1);
    if (seq != repairing->at + 1 || !rows_bool(rows, row, 2) || copy.len != SHA256_LEN) {
        return op_fail(op, FAULT(LOG_REPAIR),
                       "the copy of message %llu is missing or damaged: the copies cannot be used. " RESTORE,
                       (unsigned long long)repairing->at + 1);
    }
    memcpy(digest.at, copy.at, SHA256_LEN);
    TRY(rolling_next(&repairing->repair.rolling, &digest, &repairing->repair.rolling));
    repairing->at = seq;
    if (message == NULL) {
        return OK;
    }
    struct sha256 stored;
    TRY(sha256_of(message->body, &stored));
    if (message->stream_seq != seq || !span_equal(copy, SPAN_ARRAY(stored.at))) {
        return op_fail(op, FAULT(LOG_REPAIR),
                       "message %llu of the log is not the one that was applied: it cannot be put back. " RESTORE,
                       (unsigned long long)seq);
    }
    return OK;
}

/* The log's message that a copy is compared with; NULL behind the log's end. */
static struct fault next_message(struct op *op, struct repairing *repairing, struct event_message *message,
                                 const struct event_message **ret_message)
{
    *ret_message = NULL;
    if (repairing->at >= repairing->repair.log_last) {
        return OK;
    }
    batch_op_reset(repairing->op, STEP_MS);
    struct fault fault = event_reader_next(repairing->op, repairing->reader, clock_mono() + READ_NS, message);
    if (fault.code == FAULT_LOG_UNTRUSTED || fault.code == FAULT_LOG_DECODE) {
        return op_fail(op, FAULT(LOG_REPAIR), "message %llu of the log is missing or none of ours. " RESTORE,
                       (unsigned long long)event_reader_seq(repairing->reader));
    }
    if (FAULTED(fault)) {
        return op_fail(op, fault, "the log cannot be read behind message %llu", (unsigned long long)repairing->at);
    }
    *ret_message = message;
    return OK;
}

static struct fault page_of(struct op *op, struct repairing *repairing, const struct sql *sql, int64_t limit,
                            struct rows **ret_rows)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    struct sql_arg args[] = { SQL_INT((int64_t)repairing->at), SQL_INT(limit) };
    TRY(tx_begin(op, repairing->store, STORE_BOOKKEEPING, &tx));
    return tx_query(tx, sql, args, COUNT_OF(args), ret_rows);
}

static struct fault compare(struct op *op, struct repairing *repairing)
{
    while (repairing->at < repairing->repair.copies_last) {
        CLEANUP(rows_freep) struct rows *rows = NULL;
        REQUIRE(!op_expired(op), DEADLINE);
        TRY(page_of(op, repairing, &SQL_DIGESTS, DIGESTS, &rows));
        REQUIRE(rows_count(rows) > 0, LOG_REPAIR);
        for (size_t row = 0; row < rows_count(rows); row++) {
            struct event_message message;
            const struct event_message *found = NULL;
            TRY(next_message(op, repairing, &message, &found));
            TRY(compare_one(op, repairing, rows, row, found));
        }
    }
    if (!span_equal(SPAN_ARRAY(repairing->repair.rolling.at), SPAN_ARRAY(repairing->wanted.at))) {
        return op_fail(
            op, FAULT(LOG_REPAIR),
            "the copies do not have the rolling digest of the read model's checkpoint: they were altered. " RESTORE);
    }
    return OK;
}

/* ---- the tail ---- */

static struct fault append_one(struct op *op, struct repairing *repairing, const struct rows *rows, size_t row)
{
    struct event_copy copy = {
        .stream_seq = (uint64_t)rows_int(rows, row, 0),
        .lane = rows_text(rows, row, 2),
        .body = rows_bytes(rows, row, 4),
        .repeated = rows_bool(rows, row, 5),
    };
    TRY(tenant_id_parse(span_text(rows_text(rows, row, 1)), &copy.tenant));
    TRY(uuid_parse(span_text(rows_text(rows, row, 3)), &copy.message_id));
    batch_op_reset(repairing->op, STEP_MS);
    struct fault fault = event_log_append_again(repairing->op, repairing->log, &copy);
    if (FAULTED(fault)) {
        op_note_log(op, "%s", repairing->op->note.log_detail);
        return op_fail(op, fault, "%s", repairing->op->note.detail);
    }
    repairing->at = copy.stream_seq;
    repairing->repair.appended++;
    return OK;
}

static struct fault append_tail(struct op *op, struct repairing *repairing)
{
    repairing->at = repairing->repair.log_last;
    while (repairing->at < repairing->repair.copies_last) {
        CLEANUP(rows_freep) struct rows *rows = NULL;
        REQUIRE(!op_expired(op), DEADLINE);
        TRY(page_of(op, repairing, &SQL_COPIES, BODIES, &rows));
        REQUIRE(rows_count(rows) > 0, LOG_REPAIR);
        for (size_t row = 0; row < rows_count(rows); row++) {
            TRY(append_one(op, repairing, rows, row));
        }
    }
    return OK;
}

static struct fault repair_with(struct op *op, struct repairing *repairing, const struct log_repair_request *request)
{
    TRY(batch_op_new("system:repair-log", &repairing->op));
    TRY(find_ends(op, repairing));
    TRY(check_from(op, &repairing->repair, request->from));
    if (repairing->repair.log_last > 0) {
        TRY(event_reader_new(repairing->log, 1, &repairing->reader));
    }
    TRY(compare(op, repairing));
    if (request->tell != NULL) {
        request->tell(request->arg, &repairing->repair);
    }
    return request->go ? append_tail(op, repairing) : OK;
}

struct fault projection_repair_log(struct op *op, struct store *store, struct event_log *log,
                                   const struct log_repair_request *request, struct log_repair *ret_repair)
{
    bool held = false;
    CLEANUP(leadership_freep) struct leadership *leadership = NULL;
    TRY(leadership_try(op, store, NULL, &leadership, &held));
    if (!held) {
        return op_fail(op, FAULT(CONFLICT), "a projector is running on this database: stop svc-api first");
    }
    struct repairing repairing = { .store = store, .log = log };
    struct fault fault = repair_with(op, &repairing, request);
    event_reader_free(repairing.reader);
    op_free(repairing.op);
    *ret_repair = repairing.repair;
    return fault;
}
