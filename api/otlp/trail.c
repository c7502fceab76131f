#include "api/audit/shape_record.h"
#include "api/otlp/internal.h"

#include <stdlib.h>

#define BODIES_MAX (1 << 20) /* bytes of messages, at most one message more */

static const struct sql SQL_POSITION = {
    "otlp_position",
    "SELECT stream_seq FROM svc.otlp_audit_stream WHERE id = 1",
    0,
};
/* The next messages' tenants and where each of them was; the last message with each row. */
static const struct sql SQL_NEXT = {
    "otlp_next",
    "WITH page AS MATERIALIZED (SELECT stream_seq, tenant_id FROM (SELECT stream_seq, tenant_id,"
    " sum(octet_length(body)) OVER (ORDER BY stream_seq) - octet_length(body) AS before"
    " FROM (SELECT stream_seq, tenant_id, body FROM svc.event_envelopes WHERE stream_seq > $1"
    " ORDER BY stream_seq LIMIT $2) m) s WHERE before < $3)"
    " SELECT p.tenant_id, coalesce(t.sequence, -1), (SELECT max(stream_seq) FROM page)"
    " FROM (SELECT DISTINCT tenant_id FROM page) p LEFT JOIN svc.otlp_audit_tenants t ON t.tenant_id = p.tenant_id"
    " ORDER BY p.tenant_id",
    3,
};
/* Where a tenant without a row was: halving, for a trail is too long to be looked through and the stream's sequences
 * grow along it. */
static const struct sql SQL_BEFORE = {
    "otlp_before",
    "WITH RECURSIVE half(low, high) AS (SELECT 0::bigint, coalesce(max(sequence), 0) FROM svc.audit_records"
    " WHERE tenant_id = $1 UNION ALL SELECT CASE WHEN past THEN mid ELSE low END,"
    " CASE WHEN past THEN high ELSE mid - 1 END FROM (SELECT low, high, (low + high + 1) / 2 AS mid,"
    " (SELECT stream_seq <= $2 FROM svc.audit_records WHERE tenant_id = $1 AND sequence >= (low + high + 1) / 2"
    " ORDER BY sequence LIMIT 1) AS past FROM half WHERE low < high) m)"
    " SELECT max(low) FROM half",
    2,
};
/* Nothing that the position is past: not even where a row is older than it. */
static const struct sql SQL_RECORDS = {
    "otlp_records",
    "SELECT stream_seq, record FROM svc.audit_records WHERE tenant_id = $1 AND sequence > $2 AND stream_seq > $3"
    " AND stream_seq <= $4 ORDER BY sequence",
    4,
};
static const struct sql SQL_MOVE = {
    "otlp_move",
    "UPDATE svc.otlp_audit_stream SET stream_seq = $2, exported_us = $3 WHERE id = 1 AND stream_seq = $1",
    3,
};
static const struct sql SQL_TENANT = {
    "otlp_tenant",
    "INSERT INTO svc.otlp_audit_tenants VALUES ($1, $2) ON CONFLICT (tenant_id) DO UPDATE SET sequence = $2",
    2,
};

/* One tenant's records, until they are merged. */
struct page {
    struct otlp_audit *records;
    size_t count;
};

/* The row's bytes go with the row. */
static struct fault copy_texts(struct op *op, const struct audit_record *from, struct otlp_audit *to)
{
    struct span *roles = NULL;
    TRY(arena_copy(op->arena, from->type, &to->type));
    TRY(arena_copy(op->arena, from->event_id, &to->id));
    TRY(arena_copy(op->arena, from->tenant_id, &to->tenant));
    TRY(arena_copy(op->arena, from->subject, &to->subject));
    TRY(arena_copy(op->arena, from->trace_id, &to->trace_id));
    TRY(arena_take(op->arena, from->role_count, sizeof(*roles), &roles));
    for (size_t i = 0; i < from->role_count; i++) {
        TRY(arena_copy(op->arena, from->roles[i], &roles[i]));
    }
    to->roles = roles;
    to->role_count = from->role_count;
    return OK;
}

static struct fault take_record(struct op *op, struct arena *scratch, struct span bytes, uint64_t stream_seq,
                                struct otlp_audit *ret_record)
{
    struct audit_record record;
    const char *wrong = NULL;
    arena_clear(scratch);
    if (FAULTED(audit_record_read(scratch, bytes, &record, &wrong))) {
        return op_fail(op, FAULT(INTERNAL), "the record of message %llu is not one: %s", (unsigned long long)stream_seq,
                       wrong != NULL ? wrong : "?");
    }
    *ret_record = (struct otlp_audit){ .sequence = record.sequence,
                                       .schema_version = record.schema_version,
                                       .payload_bytes = (int64_t)record.data.len,
                                       .stream_seq = stream_seq,
                                       .time = record.at };
    return copy_texts(op, &record, ret_record);
}

static struct fault find_before(struct tx *tx, uint64_t from, struct trail_tenant *tenant)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const struct sql_arg args[] = { SQL_TEXT(tenant->id.text), SQL_INT((int64_t)from) };
    TRY(tx_query(tx, &SQL_BEFORE, args, COUNT_OF(args), &rows));
    REQUIRE(rows_count(rows) == 1, INTERNAL);
    tenant->before = tenant->last = rows_int(rows, 0, 0);
    return OK;
}

static struct fault read_tenant(struct op *op, struct tx *tx, struct arena *scratch, const struct trail *trail,
                                struct trail_tenant *tenant, struct page *page)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_set_tenant(tx, tenant->id));
    TRY(tenant->before < 0 ? find_before(tx, trail->from, tenant) : OK);
    const struct sql_arg args[] = { SQL_TEXT(tenant->id.text), SQL_INT(tenant->before), SQL_INT((int64_t)trail->from),
                                    SQL_INT((int64_t)trail->upto) };
    TRY(tx_query(tx, &SQL_RECORDS, args, COUNT_OF(args), &rows));
    page->count = rows_count(rows);
    TRY(arena_take(op->arena, page->count, sizeof(*page->records), &page->records));
    for (size_t i = 0; i < page->count; i++) {
        TRY(take_record(op, scratch, rows_bytes(rows, i, 1), (uint64_t)rows_int(rows, i, 0), &page->records[i]));
        tenant->last = page->records[i].sequence;
    }
    return OK;
}

static int by_stream(const void *left, const void *right)
{
    const struct otlp_audit *a = left, *b = right;
    if (a->stream_seq != b->stream_seq) {
        return a->stream_seq < b->stream_seq ? -1 : 1;
    }
    return a->sequence < b->sequence ? -1 : a->sequence > b->sequence;
}

/* A message is one tenant's: in the order of the log, and within a message in the trail's. */
static struct fault merge(struct op *op, const struct page *pages, struct trail *trail)
{
    for (size_t i = 0; i < trail->tenant_count; i++) {
        trail->count += pages[i].count;
    }
    TRY(arena_take(op->arena, trail->count, sizeof(*trail->records), &trail->records));
    size_t at = 0;
    for (size_t i = 0; i < trail->tenant_count; i++) {
        if (pages[i].count > 0) {
            memcpy(&trail->records[at], pages[i].records, pages[i].count * sizeof(*trail->records));
            at += pages[i].count;
        }
    }
    if (trail->tenant_count > 1 && trail->count > 0) {
        qsort(trail->records, trail->count, sizeof(*trail->records), by_stream);
    }
    return OK;
}

static struct fault read_position(struct tx *tx, uint64_t *ret_position)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_query(tx, &SQL_POSITION, NULL, 0, &rows));
    REQUIRE(rows_count(rows) == 1, INTERNAL);
    *ret_position = (uint64_t)rows_int(rows, 0, 0);
    return OK;
}

static struct fault read_next(struct op *op, struct tx *tx, int messages, struct trail *trail)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const struct sql_arg args[] = { SQL_INT((int64_t)trail->from), SQL_INT(messages), SQL_INT(BODIES_MAX) };
    TRY(tx_query(tx, &SQL_NEXT, args, COUNT_OF(args), &rows));
    trail->tenant_count = rows_count(rows);
    trail->upto = trail->tenant_count > 0 ? (uint64_t)rows_int(rows, 0, 2) : trail->from;
    TRY(arena_take(op->arena, trail->tenant_count, sizeof(*trail->tenants), &trail->tenants));
    for (size_t i = 0; i < trail->tenant_count; i++) {
        struct trail_tenant *tenant = &trail->tenants[i];
        TRY(tenant_id_parse(span_text(rows_text(rows, i, 0)), &tenant->id));
        tenant->before = tenant->last = rows_int(rows, i, 1);
    }
    return OK;
}

struct fault trail_next(struct op *op, struct store *store, int messages, struct trail *ret_trail)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(arena_freep) struct arena *scratch = NULL;
    struct trail trail = { 0 };
    struct page *pages = NULL;
    TRY(arena_new(ARENA_DEFAULT_MAX, &scratch));
    TRY(tx_begin_snapshot(op, store, STORE_BOOKKEEPING, &tx));
    TRY(read_position(tx, &trail.from));
    TRY(read_next(op, tx, messages, &trail));
    TRY(arena_take(op->arena, trail.tenant_count, sizeof(*pages), &pages));
    for (size_t i = 0; i < trail.tenant_count; i++) {
        TRY(read_tenant(op, tx, scratch, &trail, &trail.tenants[i], &pages[i]));
    }
    TRY(merge(op, pages, &trail));
    *ret_trail = trail;
    return OK;
}

struct fault trail_advance(struct op *op, struct store *store, const struct trail *trail)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    const struct sql_arg move[] = { SQL_INT((int64_t)trail->from), SQL_INT((int64_t)trail->upto),
                                    SQL_INT(clock_utc()) };
    int64_t moved = 0;
    TRY(tx_begin(op, store, STORE_BOOKKEEPING, &tx));
    TRY(tx_exec(tx, &SQL_MOVE, move, COUNT_OF(move), &moved));
    if (moved != 1) {
        return op_fail(op, FAULT(CONFLICT), "another instance exports the audit trail");
    }
    for (size_t i = 0; i < trail->tenant_count; i++) {
        const struct sql_arg args[] = { SQL_TEXT(trail->tenants[i].id.text), SQL_INT(trail->tenants[i].last) };
        TRY(tx_queue(tx, &SQL_TENANT, args, COUNT_OF(args)));
    }
    return tx_commit(&tx);
}
