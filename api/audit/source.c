#include "api/audit/source.h"

#include "api/audit/archive.h"
#include "api/audit/uuid_set.h"
#include "api/events/transfer.h"
#include "api/projection/chain.h"
#include "appliance/base/alloc.h"

#define CLAIMS_MAX ((size_t)1 << 20)
#define RECORD_MAX (2 * EVENT_MESSAGE_MAX)

static const struct sql SQL_KNOWN = {
    "audit_source_known",
    "SELECT tenant_id, last_sequence, event_seq FROM svc.audit_checkpoints WHERE event_seq > $1"
    " ORDER BY event_seq LIMIT $2",
    2,
};
#define KNOWN_AT_ONCE 1000

void source_free(struct source *source)
{
    mem_free(TAKE(source->claims));
    mem_free(TAKE(source->tenants));
    uuid_set_free(TAKE(source->ids));
    buf_free(&source->record);
    *source = (struct source){ 0 };
}

/* ---- claims ---- */

static struct fault add_claim(struct source *source, const struct source_claim *claim)
{
    if (source->claim_count == source->claim_room) {
        size_t room = source->claim_room == 0 ? 64 : 2 * source->claim_room;
        REQUIRE(room <= CLAIMS_MAX, TOO_LARGE);
        TRY(mem_resize(&source->claims, room, sizeof(*source->claims)));
        source->claim_room = room;
    }
    source->claims[source->claim_count++] = *claim;
    return OK;
}

/* What a later generation of the history rewrote has another chain than what was archived. */
static void supersede(struct source *source, struct tenant_id tenant, uint64_t activated)
{
    for (size_t i = 0; i < source->claim_count; i++) {
        struct source_claim *claim = &source->claims[i];
        claim->rewritten = claim->rewritten || (claim->event_seq < activated && tenant_id_equal(claim->tenant, tenant));
    }
}

struct fault source_claim(struct op *op, struct source *source, const struct event_message *message)
{
    BUG_IF(source->sealed);
    for (size_t i = 0; i < message->count; i++) {
        const struct event_view *event = &message->events[i];
        struct archive_checkpoint checkpoint;
        if (strcmp(event->type, EVENTS_ACTIVATED) == 0) {
            supersede(source, event->tenant, event->stream_seq);
        }
        if (strcmp(event->type, ARCHIVE_EVENT) != 0) {
            continue;
        }
        TRY(archive_checkpoint_read(op, event, &checkpoint));
        const struct source_claim claim = { .tenant = event->tenant,
                                            .records = checkpoint.last_sequence,
                                            .number = checkpoint.number,
                                            .stream_seq = checkpoint.stream_seq,
                                            .event_seq = event->stream_seq,
                                            .head = checkpoint.head };
        TRY(add_claim(source, &claim));
    }
    return OK;
}

static struct fault claim_of(struct op *op, void *arg, const struct event_message *message)
{
    return source_claim(op, arg, message);
}

static bool claimed(const struct source *source, struct tenant_id tenant, int64_t records, uint64_t event_seq)
{
    for (size_t i = 0; i < source->claim_count; i++) {
        const struct source_claim *claim = &source->claims[i];
        if (claim->event_seq == event_seq && claim->records == records && tenant_id_equal(claim->tenant, tenant)) {
            return true;
        }
    }
    return false;
}

static struct fault compare_known(struct op *op, const struct source *source, struct store *store)
{
    uint64_t after = 0;
    for (size_t got = KNOWN_AT_ONCE; got == KNOWN_AT_ONCE;) {
        CLEANUP(tx_rollbackp) struct tx *tx = NULL;
        CLEANUP(rows_freep) struct rows *rows = NULL;
        const struct sql_arg args[] = { SQL_INT((int64_t)after), SQL_INT(KNOWN_AT_ONCE) };
        TRY(tx_begin(op, store, STORE_BOOKKEEPING, &tx));
        TRY(tx_query(tx, &SQL_KNOWN, args, COUNT_OF(args), &rows));
        got = rows_count(rows);
        for (size_t i = 0; i < got; i++) {
            struct tenant_id tenant;
            after = (uint64_t)rows_int(rows, i, 2);
            TRY(tenant_id_parse(rows_bytes(rows, i, 0), &tenant));
            if (!claimed(source, tenant, rows_int(rows, i, 1), after)) {
                return op_fail(op, FAULT(AUDIT_SOURCE_GAP),
                               "tenant %s: the read model has a checkpoint at record %lld, and message %llu of the "
                               "event log is not its event",
                               tenant.text, (long long)rows_int(rows, i, 1), (unsigned long long)after);
            }
        }
    }
    return OK;
}

struct fault source_claims(struct op *op, struct source *source, struct event_log *log, struct store *store)
{
    if (event_log_activated(log) == 0) {
        TRY(event_lane_each(op, log, ARCHIVE_LANE, claim_of, source));
    } else { /* a checkpoint's message may be one of those that were replaced: only a reader knows them */
        struct event_log_state state;
        TRY(event_log_state_now(op, log, &state));
        TRY(event_log_each(op, log, 1, state.last_seq, claim_of, source));
    }
    arena_clear(op->arena);
    return store != NULL ? compare_known(op, source, store) : OK;
}

uint64_t source_last(const struct source *source)
{
    uint64_t last = 0;
    for (size_t i = 0; i < source->claim_count; i++) {
        last = source->claims[i].stream_seq > last ? source->claims[i].stream_seq : last;
    }
    return last;
}

/* ---- the walk ---- */

static int claim_order(const void *a, const void *b)
{
    const struct source_claim *first = a, *second = b;
    return (first->stream_seq > second->stream_seq) - (first->stream_seq < second->stream_seq);
}

static struct source_tenant *tenant_of(const struct source *source, struct tenant_id tenant)
{
    for (size_t i = 0; i < source->tenant_count; i++) {
        if (tenant_id_equal(source->tenants[i].tenant, tenant)) {
            return &source->tenants[i];
        }
    }
    return NULL;
}

static struct fault seal(struct source *source)
{
    source->sealed = true;
    source->record = (struct buf)BUF_INIT(RECORD_MAX);
    TRY(uuid_set_new(&source->ids));
    TRY(mem_new(source->claim_count + 1, sizeof(*source->tenants), &source->tenants));
    for (size_t i = 0; i < source->claim_count; i++) {
        if (tenant_of(source, source->claims[i].tenant) == NULL) {
            source->tenants[source->tenant_count++] = (struct source_tenant){ .tenant = source->claims[i].tenant };
        }
    }
    if (source->claim_count > 1) {
        qsort(source->claims, source->claim_count, sizeof(*source->claims), claim_order);
    }
    return OK;
}

static struct fault chain(struct source *source, struct source_tenant *tenant, const struct event_message *message)
{
    for (size_t i = 0; i < message->count; i++) {
        buf_clear(&source->record);
        TRY(audit_record_bytes(&message->events[i], ++tenant->records, &source->record));
        TRY(audit_chain_next(&tenant->chain, buf_span(&source->record), &tenant->chain));
    }
    return OK;
}

static struct fault compare(struct op *op, const struct source_tenant *tenant, struct source_claim *claim)
{
    claim->met = true;
    if (tenant->records != claim->records) {
        return op_fail(op, FAULT(AUDIT_SOURCE_GAP),
                       "tenant %s: checkpoint %lld stands for %lld records up to message %llu, and there are %lld",
                       claim->tenant.text, (long long)claim->number, (long long)claim->records,
                       (unsigned long long)claim->stream_seq, (long long)tenant->records);
    }
    if (!claim->rewritten && !span_equal(SPAN_ARRAY(tenant->chain.at), SPAN_ARRAY(claim->head.at))) {
        return op_fail(op, FAULT(AUDIT_SOURCE_GAP),
                       "tenant %s: the %lld records up to message %llu are not those of checkpoint %lld",
                       claim->tenant.text, (long long)claim->records, (unsigned long long)claim->stream_seq,
                       (long long)claim->number);
    }
    return OK;
}

struct fault source_take(struct op *op, struct source *source, const struct event_message *message)
{
    if (!source->sealed) {
        TRY(seal(source));
    }
    if (source->next == source->claim_count) {
        return OK; /* behind the last claim nothing is asked */
    }
    bool again = false;
    TRY(uuid_set_add(source->ids, message->message_id, &again));
    struct source_tenant *tenant = tenant_of(source, message->tenant);
    if (tenant != NULL && !again) {
        TRY(chain(source, tenant, message));
    }
    while (source->next < source->claim_count && source->claims[source->next].stream_seq <= message->stream_seq) {
        struct source_claim *claim = &source->claims[source->next++];
        if (tenant == NULL || claim->stream_seq != message->stream_seq ||
            !tenant_id_equal(claim->tenant, message->tenant)) {
            continue; /* its message did not come, or is another tenant's: source_end tells */
        }
        TRY(compare(op, tenant, claim));
    }
    return OK;
}

struct fault source_end(struct op *op, const struct source *source)
{
    for (size_t i = 0; i < source->claim_count; i++) {
        const struct source_claim *claim = &source->claims[i];
        if (!claim->met) {
            return op_fail(op, FAULT(AUDIT_SOURCE_GAP),
                           "tenant %s: message %llu, up to which checkpoint %lld counts, is not there as its tenant's",
                           claim->tenant.text, (unsigned long long)claim->stream_seq, (long long)claim->number);
        }
    }
    return OK;
}

static struct fault take_one(struct op *op, void *arg, const struct event_message *message)
{
    return source_take(op, arg, message);
}

static struct fault check(struct op *op, struct source *source, struct event_log *log, struct store *store)
{
    TRY(source_claims(op, source, log, store));
    if (source->claim_count > 0) {
        TRY(event_log_each(op, log, 1, source_last(source), take_one, source));
    }
    return source_end(op, source);
}

struct fault source_check(struct op *op, struct event_log *log, struct store *store, size_t *ret_checkpoints)
{
    CLEANUP(source_free) struct source source = { 0 };
    struct fault fault = check(op, &source, log, store);
    if (fault.code == FAULT_LOG_UNTRUSTED || fault.code == FAULT_LOG_DECODE || fault.code == FAULT_DEADLINE) {
        struct fault_note note = op->note;
        op->note = (struct fault_note){ 0 };
        return op_fail(op, FAULT(AUDIT_SOURCE_GAP), "the event log cannot be read up to the last checkpoint: %.150s",
                       note.set ? note.detail : fault_row(fault.code)->title);
    }
    TRY(fault);
    *ret_checkpoints = source.claim_count;
    return OK;
}
