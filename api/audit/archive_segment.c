/* One segment: chosen, written, read back, verified, recorded. */
#include "api/audit/archive.h"

#include "api/audit/verify.h"
#include "appliance/base/failpoint.h"

#include <stdio.h>

static const struct sql SQL_NEXT = {
    "audit_archive_next",
    "SELECT sequence, stream_seq, time_us, octet_length(record)::bigint,"
    " (type = '" ARCHIVE_EVENT "' OR actor_subject = '" ARCHIVE_WORKER "')"
    " FROM svc.audit_records WHERE sequence > $1 ORDER BY sequence LIMIT $2",
    2,
};
struct segment {
    struct op *op; /* of its own: what a segment needs is given back at its end */
    struct services *services;
    int folder;
    utc_us cutoff;
    struct archive_checkpoint last; /* the one before */
    struct archive_checkpoint next;
    char name[ARCHIVE_NAME_MAX];
};

static struct fault invalid(const struct segment *segment, const char *what)
{
    return op_fail(segment->op, FAULT(AUDIT_ARCHIVE_INVALID), "%s: %s; nothing was retired. Move the file away",
                   segment->next.locator, what);
}

static struct fault read_rows(struct segment *segment, struct tx *tx, struct archive_row **ret_rows, size_t *ret_count)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct archive_row *list = NULL;
    const struct sql_arg args[] = { SQL_INT(segment->last.last_sequence), SQL_INT(ARCHIVE_RECORDS_MAX + 1) };
    TRY(tx_query(tx, &SQL_NEXT, args, COUNT_OF(args), &rows));
    TRY(arena_take(segment->op->arena, rows_count(rows) + 1, sizeof(*list), &list));
    for (size_t i = 0; i < rows_count(rows); i++) {
        list[i] = (struct archive_row){ .sequence = rows_int(rows, i, 0),
                                        .stream_seq = rows_int(rows, i, 1),
                                        .time = rows_int(rows, i, 2),
                                        .bytes = rows_int(rows, i, 3),
                                        .own = rows_bool(rows, i, 4) };
        REQUIRE(list[i].sequence == segment->last.last_sequence + 1 + (int64_t)i, INTERNAL);
    }
    *ret_rows = list;
    *ret_count = rows_count(rows);
    return OK;
}

/* A file that a run left before its checkpoint says where the segment ends. */
static struct fault choose_left(struct segment *segment, const struct archive_row *rows, size_t count, int64_t sequence,
                                size_t *ret_chosen)
{
    int64_t wanted = sequence - segment->last.last_sequence;
    (void)snprintf(segment->next.locator, sizeof(segment->next.locator), "%s/audit-%lld.jws", segment->op->tenant.text,
                   (long long)sequence);
    size_t chosen = (size_t)wanted;
    if (wanted > (int64_t)count || (chosen < count && rows[chosen].stream_seq == rows[chosen - 1].stream_seq)) {
        return invalid(segment, "a file of a segment that this trail does not have");
    }
    for (size_t i = 0; i < chosen; i++) {
        if (rows[i].time >= segment->cutoff) {
            *ret_chosen = 0; /* the window was made longer meanwhile: its time comes */
            return OK;
        }
    }
    *ret_chosen = chosen;
    return OK;
}

static struct fault choose(struct segment *segment, int64_t left, size_t *ret_chosen)
{
    struct archive_row *rows = NULL;
    size_t count = 0, chosen = 0;
    struct archive_checkpoint *next = &segment->next;
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    TRY(tx_begin(segment->op, segment->services->store, STORE_REQUEST, &tx));
    TRY(read_rows(segment, tx, &rows, &count));
    if (left != 0) {
        TRY(choose_left(segment, rows, count, left, &chosen));
    } else {
        chosen = archive_choose(rows, count, segment->cutoff);
    }
    *ret_chosen = chosen;
    if (chosen == 0) {
        return OK;
    }
    next->number = segment->last.number + 1;
    next->first_sequence = rows[0].sequence;
    next->last_sequence = rows[chosen - 1].sequence;
    next->stream_seq = (uint64_t)rows[chosen - 1].stream_seq;
    archive_name(next->last_sequence, segment->name);
    (void)snprintf(next->locator, sizeof(next->locator), "%s/%s", segment->op->tenant.text, segment->name);
    TRY(audit_generation(tx, &next->generation));
    TRY(record_chain(tx, next->first_sequence - 1, &next->seed));
    return record_chain(tx, next->last_sequence, &next->head);
}

static struct fault write_file(struct segment *segment)
{
    CLEANUP(buf_free) struct buf bundle = BUF_INIT(ARCHIVE_FILE_MAX);
    TRY(export_make(segment->op, segment->services, segment->next.first_sequence, segment->next.last_sequence,
                    &bundle));
    return archive_file_write(segment->op, segment->folder, segment->name, buf_span(&bundle));
}

static struct fault judge(struct segment *segment, const struct audit_verdict *verdict)
{
    const struct archive_checkpoint *next = &segment->next;
    if (!verdict->signature_good || !verdict->chain_good) {
        return invalid(segment, verdict->reason[0] != '\0' ? verdict->reason : "it does not verify");
    }
    if (!tenant_id_equal(verdict->tenant, segment->op->tenant)) {
        return invalid(segment, "it is another tenant's");
    }
    if (verdict->first_sequence != next->first_sequence || verdict->last_sequence != next->last_sequence ||
        verdict->count != next->last_sequence - next->first_sequence + 1) {
        return invalid(segment, "it holds other records than its name and the last checkpoint say");
    }
    if (!span_equal(SPAN_ARRAY(verdict->head.at), SPAN_ARRAY(next->head.at)) ||
        !span_equal(SPAN_ARRAY(verdict->seed.at), SPAN_ARRAY(next->seed.at))) {
        return invalid(segment, "its chain is not the one of the trail");
    }
    if (segment->last.generation == next->generation &&
        !span_equal(SPAN_ARRAY(segment->last.head.at), SPAN_ARRAY(next->seed.at))) {
        return invalid(segment, "it does not continue the archive before it");
    }
    return OK;
}

static struct fault verify_file(struct segment *segment)
{
    CLEANUP(buf_free) struct buf file = BUF_INIT(ARCHIVE_FILE_MAX), jwks = BUF_INIT((size_t)1 << 20);
    CLEANUP(jwk_set_free) struct jwk_set keys = { 0 };
    CLEANUP(op_freep) struct op *op = NULL;
    struct audit_verdict verdict = { 0 };
    TRY(archive_file_read(segment->op, segment->folder, segment->name, &file));
    TRY(sha256_of(buf_span(&file), &segment->next.sha256));
    segment->next.bytes = (int64_t)file.len;
    TRY(export_keys(segment->op, segment->services, &jwks));
    TRY(jwk_set_parse(segment->op, buf_span(&jwks), &keys));
    TRY(audit_verify_op(file.len, &op));
    struct fault fault = audit_verify_jws(op, buf_span(&file), &keys, &verdict);
    REQUIRE(fault.code != FAULT_NO_MEMORY, NO_MEMORY);
    return FAULTED(fault) ? invalid(segment, verdict.reason) : judge(segment, &verdict);
}

/* The checkpoint says that the source is retained: so it is looked at. */
static struct fault check_source(struct segment *segment)
{
    struct projector_state projector;
    struct event_log_state log;
    projector_state(segment->services->projector, &projector);
    TRY(event_log_state_now(segment->op, segment->services->log, &log));
    if (!projector.log_trusted || log.first_missing != 0 || log.last_seq < segment->next.stream_seq) {
        return op_fail(segment->op, FAULT(AUDIT_SOURCE_GAP),
                       "the event log is not whole up to message %llu: nothing is archived before it is",
                       (unsigned long long)segment->next.stream_seq);
    }
    return OK;
}

/* *ret_records: 0 = nothing was due. */
static struct fault make_segment(struct segment *segment, int64_t *ret_records)
{
    size_t chosen = 0;
    int64_t left = 0;
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    TRY(tx_begin(segment->op, segment->services->store, STORE_REQUEST, &tx));
    TRY(archive_last(segment->op, tx, &segment->last));
    tx_rollback(TAKE(tx));
    TRY(archive_file_find(segment->op, segment->folder, segment->last.last_sequence, &left));
    TRY(choose(segment, left, &chosen));
    *ret_records = (int64_t)chosen;
    if (chosen == 0) {
        return OK;
    }
    if (left == 0) {
        TRY(check_source(segment));
        TRY(write_file(segment));
        FAILPOINT("audit.archive.after_file");
    }
    TRY(verify_file(segment));
    TRY(check_source(segment));
    FAILPOINT("audit.archive.after_verify");
    return archive_append(segment->op, segment->services, &segment->next, segment->last.event_seq);
}

static struct fault op_within(struct op *op, struct op **ret_op)
{
    CLEANUP(op_freep) struct op *made = NULL;
    TRY(op_settle(op)); /* it has nothing to ask that could say that nothing shall be done */
    TRY(op_new(op->principal.subject, op->tenant, 0, &made));
    made->principal = op->principal;
    made->deadline = op->deadline;
    memcpy(made->trace_id, op->trace_id, sizeof(made->trace_id));
    *ret_op = TAKE(made);
    return OK;
}

struct fault archive_segment(struct op *op, struct services *services, int folder, utc_us cutoff,
                             struct archive_checkpoint *ret_made, int64_t *ret_records)
{
    struct segment segment = { .services = services, .folder = folder, .cutoff = cutoff };
    int64_t records = 0;
    TRY(op_within(op, &segment.op));
    struct fault fault = make_segment(&segment, &records);
    if (FAULTED(fault) && !op->note.set) {
        op->note = segment.op->note;
    }
    if (segment.op->recorded == OP_RECORDED_EVENT) {
        op_record(op, segment.op->recorded_seq);
    }
    op_free(segment.op);
    TRY(fault);
    *ret_made = segment.next;
    *ret_records = records;
    return OK;
}
