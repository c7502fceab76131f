/*
 * From a request to its activation. Every step gives the same at every try: bodies, list and head follow from the
 * messages up to the request's own, and what lies in the second stream already is compared.
 */
#include "api/privacy/internal.h"

#include "api/audit/audit.h"
#include "api/projection/chain.h"
#include "appliance/base/alloc.h"
#include "appliance/base/failpoint.h"

#define EVENT_MAX ((size_t)64 << 10)
#define PAGE      200

static const struct sql SQL_RECORDS = {
    "privacy_records",
    "SELECT sequence, stream_seq, event_id, record, chain FROM svc.audit_records WHERE sequence > $1 AND stream_seq <= $2"
    " ORDER BY sequence LIMIT $3",
    3,
};

struct rewriting {
    struct op *op;
    struct services *services;
    const struct erasure *erasure;
    const struct privacy_subject *subject;
    struct buf body;
    struct event_replacement *entries;
    size_t count, room;
    int64_t sequence; /* the tenant's last one within the boundary */
    struct sha256 old_head, new_head, digest;
};

static struct fault add_entry(struct rewriting *made, uint64_t stream_seq, struct span body)
{
    if (made->count == made->room) {
        size_t room = made->room == 0 ? 256 : 2 * made->room;
        TRY(mem_resize(&made->entries, room, sizeof(*made->entries)));
        made->room = room;
    }
    struct event_replacement *entry = &made->entries[made->count];
    *entry = (struct event_replacement){ .stream_seq = stream_seq, .generation = made->erasure->generation };
    TRY(sha256_of(body, &entry->digest));
    made->count++;
    return OK;
}

static struct fault lay_down(void *arg, struct op *op, const struct event_message *message)
{
    struct rewriting *made = arg;
    struct transformed transformed;
    TRY(privacy_transform(op, message, made->subject, &made->body, &transformed));
    if (!transformed.changed) {
        return OK;
    }
    struct span body = buf_span(&made->body);
    TRY(event_history_put(op, made->services->log, made->erasure->generation, message->stream_seq, body));
    FAILPOINT("privacy.after_put");
    return add_entry(made, message->stream_seq, body);
}

/* ---- the new head ---- */

struct record_row {
    int64_t sequence;
    uint64_t stream_seq;
    const char *event_id;
    struct span record;
};

static int by_sequence(const void *key, const void *entry)
{
    uint64_t wanted = *(const uint64_t *)key, there = ((const struct event_replacement *)entry)->stream_seq;
    return (wanted > there) - (wanted < there);
}

static struct fault read_records(struct op *scratch, struct rewriting *made, struct record_row **ret_rows,
                                 size_t *ret_count)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct record_row *records = NULL;
    const struct sql_arg args[] = { SQL_INT(made->sequence), SQL_INT((int64_t)made->erasure->requested_seq),
                                    SQL_INT(PAGE) };
    TRY(tx_begin(scratch, made->services->store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, &SQL_RECORDS, args, COUNT_OF(args), &rows));
    size_t count = rows_count(rows), took = 0;
    TRY(arena_take(scratch->arena, count + 1, sizeof(*records), &records));
    while (took < count && arena_used(scratch->arena) < ((size_t)16 << 20)) {
        struct record_row *record = &records[took];
        record->sequence = rows_int(rows, took, 0);
        record->stream_seq = (uint64_t)rows_int(rows, took, 1);
        TRY(arena_text(scratch->arena, span_text(rows_text(rows, took, 2)), &record->event_id));
        TRY(arena_copy(scratch->arena, rows_bytes(rows, took, 3), &record->record));
        memcpy(made->old_head.at, rows_bytes(rows, took, 4).at, SHA256_LEN);
        took++;
    }
    *ret_rows = records;
    *ret_count = took;
    return OK;
}

/* The record as it will be: of the replacement, when its message has one. */
static struct fault new_record(struct op *scratch, struct rewriting *made, const struct record_row *record,
                               struct buf *out)
{
    struct event_message message;
    const struct event_replacement *entry =
        bsearch(&record->stream_seq, made->entries, made->count, sizeof(*made->entries), by_sequence);
    if (entry == NULL) {
        buf_clear(out);
        return buf_put(out, record->record);
    }
    TRY(event_history_get(scratch, made->services->log, entry->generation, entry->stream_seq, &entry->digest,
                          &message));
    for (size_t i = 0; i < message.count; i++) {
        if (strcmp(message.events[i].id.text, record->event_id) == 0) {
            return audit_record_bytes(&message.events[i], record->sequence, out);
        }
    }
    return FAULT(INTERNAL); /* ids do not change */
}

static struct fault chain_page(struct op *scratch, struct rewriting *made, struct buf *record, size_t *ret_count)
{
    struct record_row *rows = NULL;
    TRY(read_records(scratch, made, &rows, ret_count));
    for (size_t i = 0; i < *ret_count; i++) {
        TRY(new_record(scratch, made, &rows[i], record));
        TRY(audit_chain_next(&made->new_head, buf_span(record), &made->new_head));
        made->sequence = rows[i].sequence;
    }
    arena_clear(scratch->arena);
    return OK;
}

static struct fault chain_all(struct rewriting *made)
{
    CLEANUP(op_freep) struct op *scratch = NULL;
    CLEANUP(buf_free) struct buf record = BUF_INIT(2 * EVENT_MESSAGE_MAX);
    size_t count = 1;
    struct fault fault = OK;
    TRY(privacy_scratch_new(made->op, &scratch));
    while (count > 0 && !FAULTED(fault)) {
        fault = chain_page(scratch, made, &record, &count);
    }
    if (FAULTED(fault) && !made->op->note.set) {
        made->op->note = scratch->note;
    }
    return fault;
}

/* ---- the activation ---- */

static void print_facts(struct jout *jout, const struct rewriting *made)
{
    jout_key_int(jout, "boundary_seq", (int64_t)made->erasure->requested_seq);
    jout_key_int(jout, "boundary_sequence", made->sequence);
    jout_key_int(jout, "count", (int64_t)made->count);
    jout_key_hex(jout, "digest", SPAN_ARRAY(made->digest.at));
    jout_key_text(jout, "erasure_id", made->erasure->id.text);
}

static void print_heads(struct jout *jout, const struct rewriting *made)
{
    jout_key_int(jout, "generation", made->erasure->generation);
    jout_key_hex(jout, "new_head", SPAN_ARRAY(made->new_head.at));
}

/* Canonical: the members in order. */
static struct fault make_statement(struct rewriting *made, struct buf *compact)
{
    CLEANUP(buf_free) struct buf payload = BUF_INIT(EVENT_MAX);
    struct jout jout;
    jout_init(&jout, &payload);
    jout_object(&jout);
    print_facts(&jout, made);
    jout_key_text(&jout, "format", GENERATION_FORMAT);
    print_heads(&jout, made);
    jout_key_hex(&jout, "superseded_head", SPAN_ARRAY(made->old_head.at));
    jout_key_text(&jout, "tenant_id", made->op->tenant.text);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return audit_sign(made->op, made->services, GENERATION_TYP, buf_span(&payload), compact);
}

static struct fault activate(struct rewriting *made)
{
    CLEANUP(buf_free) struct buf statement = BUF_INIT(EVENT_MAX);
    CLEANUP(buf_free) struct buf data = BUF_INIT(EVENT_MAX);
    uint64_t seq = 0;
    struct jout jout;
    TRY(make_statement(made, &statement));
    jout_init(&jout, &data);
    jout_object(&jout);
    print_facts(&jout, made);
    print_heads(&jout, made);
    jout_key(&jout, "statement");
    jout_span_text(&jout, buf_span(&statement));
    jout_key_hex(&jout, "superseded_head", SPAN_ARRAY(made->old_head.at));
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    TRY(privacy_append(made->op, made->services, EVENTS_PRIVACY_LANE, EVENTS_ACTIVATED, made->erasure->id, "activated",
                       &data, NULL, &seq));
    FAILPOINT("privacy.after_activate");
    return projector_wait(made->op, made->services->projector, seq);
}

static struct fault rewrite(struct rewriting *made)
{
    struct op *op = made->op;
    TRY(privacy_scan(op, made->services, made->subject, 1, made->erasure->requested_seq, lay_down, made));
    TRY(chain_all(made));
    TRY(event_history_put_list(op, made->services->log, made->erasure->generation, made->entries, made->count,
                               &made->digest));
    FAILPOINT("privacy.after_list");
    TRY(projection_rehearse(op, made->services->projector, made->entries, made->count));
    FAILPOINT("privacy.after_rehearsal");
    return activate(made);
}

struct fault erasure_rewrite(struct op *op, struct services *services, const struct erasure *erasure,
                             const struct privacy_subject *subject)
{
    struct rewriting made = {
        .op = op, .services = services, .erasure = erasure, .subject = subject, .body = BUF_INIT(EVENT_MESSAGE_MAX)
    };
    struct fault fault = rewrite(&made);
    buf_free(&made.body);
    mem_free(made.entries);
    return fault;
}
