/* The tenant's messages that hold a subject, as the read model's copies have them. */
#include "api/privacy/internal.h"

#define WINDOW      50000 /* sequences that one statement looks through */
#define PAGE        16    /* messages of up to a megabyte */
#define SCRATCH_MAX ((size_t)96 << 20)

static const struct sql SQL_HOLDING = {
    "privacy_holding",
    "SELECT stream_seq, body FROM svc.event_envelopes WHERE tenant_id = $1 AND stream_seq >= $2 AND stream_seq <= $3"
    " AND (position($5 IN body) > 0 OR position($6 IN body) > 0 OR position($7 IN body) > 0 OR position($8 IN body) > 0"
    " OR position($9 IN body) > 0 OR position($10 IN body) > 0 OR position($11 IN body) > 0"
    " OR position($12 IN body) > 0) ORDER BY stream_seq LIMIT $4",
    12,
};

struct fault privacy_scratch_new(struct op *op, struct op **ret_scratch)
{
    CLEANUP(op_freep) struct op *made = NULL;
    CLEANUP(arena_freep) struct arena *arena = NULL;
    TRY(op_settle(op)); /* a scratch has nothing to ask that could say that nothing shall be done */
    TRY(op_new(op->principal.subject, op->tenant, (int)clock_ms_left(op->deadline) + 1, &made));
    TRY(arena_new(SCRATCH_MAX, &arena));
    arena_free(made->arena);
    made->arena = TAKE(arena);
    *ret_scratch = TAKE(made);
    return OK;
}

/* The messages of one page, decoded; *ret_full: there may be more within the window. */
static struct fault read_page(struct op *scratch, struct services *services, const struct privacy_subject *subject,
                              uint64_t from, uint64_t to, struct event_message **ret_messages, size_t *ret_count)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct event_message *messages = NULL;
    struct sql_arg args[4 + NEEDLES] = { SQL_TEXT(scratch->tenant.text), SQL_INT((int64_t)from), SQL_INT((int64_t)to),
                                         SQL_INT(PAGE) };
    for (size_t i = 0; i < NEEDLES; i++) {
        args[4 + i] = SQL_BYTES(subject->needles[i]);
    }
    TRY(tx_begin(scratch, services->store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, &SQL_HOLDING, args, COUNT_OF(args), &rows));
    TRY(arena_take(scratch->arena, rows_count(rows) + 1, sizeof(*messages), &messages));
    for (size_t row = 0; row < rows_count(rows); row++) {
        TRY(event_body_decode(scratch, (uint64_t)rows_int(rows, row, 0), rows_bytes(rows, row, 1), &messages[row]));
    }
    *ret_messages = messages;
    *ret_count = rows_count(rows);
    return OK;
}

static struct fault scan_with(struct op *scratch, struct services *services, const struct privacy_subject *subject,
                              uint64_t from, uint64_t to, scan_fn visit, void *arg)
{
    while (from <= to) {
        struct event_message *messages = NULL;
        size_t count = 0;
        uint64_t end = to - from >= WINDOW ? from + WINDOW - 1 : to;
        TRY(read_page(scratch, services, subject, from, end, &messages, &count));
        for (size_t i = 0; i < count; i++) {
            TRY(visit(arg, scratch, &messages[i]));
        }
        from = count == PAGE ? messages[count - 1].stream_seq + 1 : end + 1;
        arena_clear(scratch->arena);
    }
    return OK;
}

struct fault privacy_scan(struct op *op, struct services *services, const struct privacy_subject *subject,
                          uint64_t from, uint64_t to, scan_fn visit, void *arg)
{
    CLEANUP(op_freep) struct op *scratch = NULL;
    TRY(privacy_scratch_new(op, &scratch));
    struct fault fault = scan_with(scratch, services, subject, from, to, visit, arg);
    if (FAULTED(fault) && !op->note.set) {
        op->note = scratch->note;
    }
    return fault;
}

/* ---- what a preview tells ---- */

struct finding_case {
    const struct privacy_subject *subject;
    struct finding *finding;
    struct buf out;
};

static struct finding_type *type_of(struct finding *finding, const char *type)
{
    for (size_t i = 0; i < finding->type_count; i++) {
        if (strcmp(finding->types[i].type, type) == 0) {
            return &finding->types[i];
        }
    }
    if (finding->type_count == TYPES_MAX) {
        return &finding->types[TYPES_MAX - 1];
    }
    struct finding_type *made = &finding->types[finding->type_count++];
    memcpy(made->type, type, strlen(type) + 1); /* as decoded: at most EVENT_TYPE_MAX */
    return made;
}

static struct fault note_message(void *arg, struct op *op, const struct event_message *message)
{
    struct finding_case *found = arg;
    struct finding *finding = found->finding;
    struct transformed made;
    TRY(privacy_transform(op, message, found->subject, &found->out, &made));
    struct finding_type *type = type_of(finding, message->events[0].type);
    if (made.changed) {
        finding->messages++;
        type->messages++;
        finding->first_seq = finding->first_seq == 0 ? message->stream_seq : finding->first_seq;
        finding->last_seq = message->stream_seq;
    }
    finding->residual += made.residual;
    type->residual += made.residual;
    return OK;
}

struct fault privacy_find(struct op *op, struct services *services, const struct privacy_subject *subject,
                          uint64_t from, uint64_t to, struct finding *ret_finding)
{
    struct finding_case found = { .subject = subject, .finding = ret_finding, .out = BUF_INIT(EVENT_MESSAGE_MAX) };
    *ret_finding = (struct finding){ 0 };
    struct fault fault = privacy_scan(op, services, subject, from, to, note_message, &found);
    buf_free(&found.out);
    return fault;
}
