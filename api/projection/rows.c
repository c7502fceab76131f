/* What one event writes: its message's copy, its audit record, its outbox rows. */
#include "api/projection/internal.h"

#define OUTBOX_PAYLOAD_MAX ((size_t)256 << 10)
#define OUTBOX_ROWS_MAX    256u /* of one message: ids are stream sequence * 256 + number */
#define DESTINATION_MAX    63
#define OUTBOX_KEY_MAX     255

#define ROWS_AT_ONCE      512u
#define ROW_BYTES_AT_ONCE ((size_t)4 << 20)

static const struct sql SQL_COPIES_INSERT = {
    "projection_copies_insert",
    "INSERT INTO svc.event_envelopes (stream_seq, tenant_id, lane, message_id, body, sha256)"
    " SELECT s, $1, l, m, b, h"
    " FROM unnest($2::bigint[], $3::text[], $4::text[], $5::bytea[], $6::bytea[]) AS x (s, l, m, b, h)"
    " ON CONFLICT (stream_seq) DO NOTHING",
    6,
};
static const struct sql SQL_RECORDS_INSERT = {
    "projection_records_insert",
    "INSERT INTO svc.audit_records (tenant_id, sequence, event_id, type, actor_subject, time_us, stream_seq, record,"
    " chain) SELECT $1, n, e, t, a, u, s, r, c"
    " FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bytea[], $9::bytea[])"
    " AS x (n, e, t, a, u, s, r, c)",
    9,
};
static const struct sql SQL_OUTBOX_INSERT = {
    "projection_outbox_insert",
    "INSERT INTO svc.outbox (id, tenant_id, destination, key, trace_id, payload, state, worker_id, lease_until_us,"
    " attempts, due_us, created_us) VALUES ($1, $2, $3, $4, $5, $6, 'pending', '', 0, 0, $7, $8)"
    " ON CONFLICT (tenant_id, destination, key) DO NOTHING",
    8,
};
enum outbox_column {
    OUT_ID,
    OUT_DESTINATION,
    OUT_KEY,
    OUT_TRACE,
    OUT_PAYLOAD,
    OUT_STATE,
    OUT_DUE,
    OUT_MADE,
    OUT_COLUMNS
};
static const enum sql_array_kind outbox_kinds[OUT_COLUMNS] = {
    [OUT_ID] = SQL_ARRAY_INT,     [OUT_DESTINATION] = SQL_ARRAY_TEXT, [OUT_KEY] = SQL_ARRAY_TEXT,
    [OUT_TRACE] = SQL_ARRAY_TEXT, [OUT_PAYLOAD] = SQL_ARRAY_BYTES,    [OUT_STATE] = SQL_ARRAY_TEXT,
    [OUT_DUE] = SQL_ARRAY_INT,    [OUT_MADE] = SQL_ARRAY_INT,
};
static const struct sql SQL_OUTBOX_ROWS = {
    "projection_outbox_rows",
    "INSERT INTO svc.outbox (id, tenant_id, destination, key, trace_id, payload, state, worker_id, lease_until_us,"
    " attempts, due_us, created_us) SELECT i, $1, d, k, t, p, s, '', 0, 0, u, c FROM unnest($2::bigint[], $3::text[],"
    " $4::text[], $5::text[], $6::bytea[], $7::text[], $8::bigint[], $9::bigint[]) AS x (i, d, k, t, p, s, u, c)",
    9,
};
static const struct projection_table outbox_table = { &SQL_OUTBOX_ROWS, outbox_kinds, OUT_COLUMNS };
static const struct sql SQL_OUTBOX_SETTLE = {
    "projection_outbox_settle",
    "UPDATE svc.outbox SET state = $4, worker_id = '', lease_until_us = 0, attempts = 0, due_us = 0,"
    " payload = CASE WHEN $4 = 'delivered' THEN ''::bytea ELSE payload END"
    " WHERE tenant_id = $1 AND destination = $2 AND key = $3",
    4,
};
static const struct sql SQL_OUTBOX_REQUEUE = {
    "projection_outbox_requeue",
    "UPDATE svc.outbox SET state = 'pending', worker_id = '', lease_until_us = 0, attempts = 0, due_us = 0"
    " WHERE tenant_id = $1 AND destination = $2 AND key = $3 AND state = 'dead-lettered'",
    3,
};
static const struct sql SQL_OUTBOX_RESTORE = {
    "projection_outbox_restore",
    "INSERT INTO svc.outbox (id, tenant_id, destination, key, trace_id, payload, state, worker_id, lease_until_us,"
    " attempts, due_us, created_us) VALUES ($1, $2, $3, $4, $5, $6, 'pending', '', 0, 0, $7, $8)"
    " ON CONFLICT DO NOTHING",
    8,
};
static const struct sql SQL_LANE_LAST = {
    "projection_lane_last",
    "SELECT coalesce(max(stream_seq), 0) FROM svc.event_envelopes WHERE tenant_id = $1 AND lane = $2",
    2,
};

struct op *projection_op(struct projection *projection)
{
    return projection->op;
}

struct tx *projection_tx(struct projection *projection)
{
    return projection->tx;
}

int64_t projection_sequence(const struct projection *projection)
{
    return projection->sequence;
}

utc_us projection_time(const struct projection *projection)
{
    return projection->event->time;
}

size_t projection_turn(const struct projection *projection)
{
    return projection->turn;
}

int projection_note(const struct projection *projection, const void *owner)
{
    for (size_t i = 0; i < projection->note_count; i++) {
        if (projection->notes[i].owner == owner) {
            return projection->notes[i].value;
        }
    }
    return 0;
}

void projection_note_set(struct projection *projection, const void *owner, int value)
{
    size_t i = 0;
    while (i < projection->note_count && projection->notes[i].owner != owner) {
        i++;
    }
    BUG_IF(i == NOTES_MAX); /* owners are constants of this program */
    projection->notes[i] = (struct note){ owner, value };
    projection->note_count = i == projection->note_count ? i + 1 : projection->note_count;
}

/* ---- copies and records ---- */

void row_columns_init(struct row_columns *columns)
{
    *columns = (struct row_columns){
        .copy_seq = SQL_ARRAY_INIT(SQL_ARRAY_INT),
        .copy_lane = SQL_ARRAY_INIT(SQL_ARRAY_TEXT),
        .copy_id = SQL_ARRAY_INIT(SQL_ARRAY_TEXT),
        .copy_body = SQL_ARRAY_INIT(SQL_ARRAY_BYTES),
        .copy_sha256 = SQL_ARRAY_INIT(SQL_ARRAY_BYTES),
        .sequence = SQL_ARRAY_INIT(SQL_ARRAY_INT),
        .event_id = SQL_ARRAY_INIT(SQL_ARRAY_TEXT),
        .type = SQL_ARRAY_INIT(SQL_ARRAY_TEXT),
        .actor = SQL_ARRAY_INIT(SQL_ARRAY_TEXT),
        .time = SQL_ARRAY_INIT(SQL_ARRAY_INT),
        .stream_seq = SQL_ARRAY_INIT(SQL_ARRAY_INT),
        .record = SQL_ARRAY_INIT(SQL_ARRAY_BYTES),
        .chain = SQL_ARRAY_INIT(SQL_ARRAY_BYTES),
    };
    tile_columns_init(&columns->tiles);
}

#define COPY_COLUMNS(c) { &(c)->copy_seq, &(c)->copy_lane, &(c)->copy_id, &(c)->copy_body, &(c)->copy_sha256 }
#define RECORD_COLUMNS(c) \
    { &(c)->sequence, &(c)->event_id, &(c)->type, &(c)->actor, &(c)->time, &(c)->stream_seq, &(c)->record, &(c)->chain }

void row_columns_free(struct row_columns *columns)
{
    struct sql_array *copies[] = COPY_COLUMNS(columns), *records[] = RECORD_COLUMNS(columns);
    for (size_t i = 0; i < COUNT_OF(copies); i++) {
        sql_array_free(copies[i]);
    }
    for (size_t i = 0; i < COUNT_OF(records); i++) {
        sql_array_free(records[i]);
    }
    tile_columns_free(&columns->tiles);
}

void row_columns_clear(struct row_columns *columns)
{
    struct sql_array *copies[] = COPY_COLUMNS(columns), *records[] = RECORD_COLUMNS(columns);
    for (size_t i = 0; i < COUNT_OF(copies); i++) {
        sql_array_clear(copies[i]);
    }
    for (size_t i = 0; i < COUNT_OF(records); i++) {
        sql_array_clear(records[i]);
    }
    tile_columns_clear(&columns->tiles);
}

static struct fault write_columns(struct projection *projection, const struct sql *sql, struct sql_array **columns,
                                  size_t count)
{
    struct sql_arg args[9];
    BUG_IF(count + 1 > COUNT_OF(args));
    if (columns[0]->count == 0) {
        return OK;
    }
    args[0] = SQL_TEXT(projection->columns->tenant.text);
    for (size_t i = 0; i < count; i++) {
        args[i + 1] = sql_array_arg(columns[i]);
    }
    TRY(tx_queue(projection->tx, sql, args, count + 1));
    for (size_t i = 0; i < count; i++) {
        sql_array_clear(columns[i]);
    }
    return OK;
}

struct fault projection_rows_write(struct projection *projection)
{
    struct sql_array *copies[] = COPY_COLUMNS(projection->columns);
    struct sql_array *records[] = RECORD_COLUMNS(projection->columns);
    TRY(write_columns(projection, &SQL_COPIES_INSERT, copies, COUNT_OF(copies)));
    TRY(write_columns(projection, &SQL_RECORDS_INSERT, records, COUNT_OF(records)));
    return tile_columns_write(projection->tx, projection->columns->tenant, &projection->columns->tiles);
}

static struct fault write_when_many(struct projection *projection)
{
    const struct row_columns *columns = projection->columns;
    bool many = columns->copy_seq.count >= ROWS_AT_ONCE || columns->sequence.count >= ROWS_AT_ONCE ||
                columns->copy_body.encoded.len + columns->record.encoded.len >= ROW_BYTES_AT_ONCE;
    return many ? projection_rows_write(projection) : OK;
}

struct fault projection_insert_copy(struct projection *projection, const struct event_message *message,
                                    const struct sha256 *digest)
{
    struct row_columns *columns = projection->columns;
    columns->tenant = message->tenant;
    TRY(sql_array_int(&columns->copy_seq, (int64_t)message->stream_seq));
    TRY(sql_array_put(&columns->copy_lane, span_text(message->events[0].lane)));
    TRY(sql_array_put(&columns->copy_id, span_text(message->message_id.text)));
    TRY(sql_array_put(&columns->copy_body, message->body));
    TRY(sql_array_put(&columns->copy_sha256, SPAN_ARRAY(digest->at)));
    return write_when_many(projection);
}

struct fault projection_insert_record(struct projection *projection, struct head *head, struct buf *record)
{
    const struct event_view *event = projection->event;
    struct row_columns *columns = projection->columns;
    struct sha256 chain;
    TRY(audit_record_bytes(event, projection->sequence, record));
    TRY(audit_chain_next(&head->next_chain, buf_span(record), &chain));
    TRY(sql_array_int(&columns->sequence, projection->sequence));
    TRY(sql_array_put(&columns->event_id, span_text(event->id.text)));
    TRY(sql_array_put(&columns->type, span_text(event->type)));
    TRY(sql_array_put(&columns->actor, span_text(event->actor_subject)));
    TRY(sql_array_int(&columns->time, event->time));
    TRY(sql_array_int(&columns->stream_seq, (int64_t)event->stream_seq));
    TRY(sql_array_put(&columns->record, buf_span(record)));
    TRY(sql_array_put(&columns->chain, SPAN_ARRAY(chain.at)));
    head->next_sequence = projection->sequence;
    head->next_chain = chain;
    TRY(tree_keep_record(projection, &head->tail, projection->sequence, buf_span(record)));
    return write_when_many(projection);
}

/* ---- the outbox ---- */

static bool good_name(const char *text, size_t max)
{
    size_t len = strlen(text);
    return len >= 1 && len <= max;
}

/* A folded row goes by destination and key together. */
static struct fault fold_key(struct projection *projection, const char *destination, const char *key,
                             const char **ret_key)
{
    return arena_printf(projection->op->arena, ret_key, "%s %s", destination, key);
}

static struct fault fold_outbox(struct projection *projection, const char *destination, const char *key,
                                struct span payload, int64_t id, int64_t due)
{
    const struct event_view *event = projection->event;
    const char *name = NULL;
    TRY(fold_key(projection, destination, key, &name));
    if (projection_row_of(projection, &outbox_table, name) != NULL) {
        return OK; /* a second one */
    }
    const struct sql_arg values[OUT_COLUMNS] = {
        [OUT_ID] = SQL_INT(id),
        [OUT_DESTINATION] = SQL_TEXT(destination),
        [OUT_KEY] = SQL_TEXT(key),
        [OUT_TRACE] = SQL_TEXT(event->trace_id),
        [OUT_PAYLOAD] = SQL_BYTES(payload),
        [OUT_STATE] = SQL_TEXT("pending"),
        [OUT_DUE] = SQL_INT(due),
        [OUT_MADE] = SQL_INT(event->time),
    };
    return projection_row_make(projection, &outbox_table, name, values);
}

/* A row that is derived again (rederive.c). The first of a key counts, as in the table. */
static struct fault offer_effect(struct projection *projection, const char *destination, const char *key,
                                 struct span payload, int64_t id, int64_t due)
{
    struct projection_effect *wanted = projection->wanted;
    const struct event_view *event = projection->event;
    if (projection->found || strcmp(destination, wanted->destination) != 0 || strcmp(key, wanted->key) != 0) {
        return OK;
    }
    TRY(arena_copy(projection->op->arena, payload, &wanted->payload));
    TRY(arena_text(projection->op->arena, span_text(event->trace_id), &wanted->trace_id));
    wanted->id = id;
    wanted->due = due;
    wanted->created = event->time;
    projection->found = true;
    return OK;
}

uint64_t projection_outbox_seq(int64_t outbox_id)
{
    return (uint64_t)outbox_id / OUTBOX_ROWS_MAX;
}

struct fault projection_outbox(struct projection *projection, const char *destination, const char *key,
                               struct span payload, int64_t delay_us)
{
    const struct event_view *event = projection->event;
    BUG_IF(!good_name(destination, DESTINATION_MAX) || !good_name(key, OUTBOX_KEY_MAX) || delay_us < 0);
    if (payload.len > OUTBOX_PAYLOAD_MAX || projection->outbox_rows >= OUTBOX_ROWS_MAX) {
        return op_fail(projection->op, FAULT(TOO_LARGE),
                       "an outbox payload of %zu bytes, or more than %u rows a message", payload.len, OUTBOX_ROWS_MAX);
    }
    int64_t id = (int64_t)(event->stream_seq * OUTBOX_ROWS_MAX + projection->outbox_rows);
    int64_t due = delay_us > 0 ? event->time + delay_us : 0;
    if (projection->wanted != NULL) {
        TRY(offer_effect(projection, destination, key, payload, id, due));
    } else if (projection_folds(projection)) {
        TRY(fold_outbox(projection, destination, key, payload, id, due));
    } else {
        const struct sql_arg args[] = {
            SQL_INT(id),   SQL_TEXT(event->tenant.text), SQL_TEXT(destination),
            SQL_TEXT(key), SQL_TEXT(event->trace_id),    SQL_BYTES(payload),
            SQL_INT(due),  SQL_INT(event->time),
        };
        TRY(tx_queue(projection->tx, &SQL_OUTBOX_INSERT, args, COUNT_OF(args)));
    }
    projection->outbox_rows++;
    projection->outbox = true;
    return OK;
}

static struct fault settle_folded(struct projection *projection, struct projection_row *row, const char *state)
{
    TRY(projection_row_set(projection, row, OUT_STATE, SQL_TEXT(state)));
    TRY(projection_row_set(projection, row, OUT_DUE, SQL_INT(0)));
    return strcmp(state, "delivered") == 0
               ? projection_row_set(projection, row, OUT_PAYLOAD, SQL_BYTES(((struct span){ 0 })))
               : OK;
}

struct fault projection_outbox_settle(struct projection *projection, const char *destination, const char *key,
                                      const char *state)
{
    BUG_IF(strcmp(state, "delivered") != 0 && strcmp(state, "dead-lettered") != 0);
    if (projection->wanted != NULL) {
        return OK;
    }
    if (projection_folds(projection)) {
        const char *name = NULL;
        TRY(fold_key(projection, destination, key, &name));
        struct projection_row *row = projection_row_of(projection, &outbox_table, name);
        if (row != NULL) {
            return settle_folded(projection, row, state);
        }
    }
    struct sql_arg args[] = { SQL_TEXT(projection->event->tenant.text), SQL_TEXT(destination), SQL_TEXT(key),
                              SQL_TEXT(state) };
    return tx_queue(projection->tx, &SQL_OUTBOX_SETTLE, args, COUNT_OF(args));
}

struct fault projection_outbox_requeue(struct projection *projection, const char *destination, const char *key)
{
    const struct sql_arg args[] = { SQL_TEXT(projection->event->tenant.text), SQL_TEXT(destination), SQL_TEXT(key) };
    TRY(projection_fold_write(projection));
    projection->outbox = true;
    return tx_queue(projection->tx, &SQL_OUTBOX_REQUEUE, args, COUNT_OF(args));
}

struct fault projection_outbox_restore(struct projection *projection, const struct projection_effect *effect)
{
    const struct sql_arg args[] = {
        SQL_INT(effect->id),           SQL_TEXT(projection->event->tenant.text),
        SQL_TEXT(effect->destination), SQL_TEXT(effect->key),
        SQL_TEXT(effect->trace_id),    SQL_BYTES(effect->payload),
        SQL_INT(effect->due),          SQL_INT(effect->created),
    };
    TRY(projection_fold_write(projection));
    projection->outbox = true;
    return tx_queue(projection->tx, &SQL_OUTBOX_RESTORE, args, COUNT_OF(args));
}

struct fault projection_lane_last(struct tx *tx, struct tenant_id tenant, const char *lane, uint64_t *ret_seq)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct sql_arg args[] = { SQL_TEXT(tenant.text), SQL_TEXT(lane) };
    TRY(tx_query(tx, &SQL_LANE_LAST, args, COUNT_OF(args), &rows));
    *ret_seq = (uint64_t)rows_int(rows, 0, 0);
    return OK;
}
