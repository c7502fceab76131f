/* Checkpoints: the event audit.archived, its row, and what the served view begins with. */
#include "api/audit/archive.h"

#include "api/audit/floor.h"
#include "appliance/base/failpoint.h"

#include <stdio.h>

#define COLUMNS                                                                                                \
    "SELECT last_sequence, first_sequence, number, generation, stream_seq, event_seq, chain_seed, chain_head," \
    " archive, archive_bytes, archive_sha256, archived_us FROM svc.audit_checkpoints "

static const struct sql SQL_LIST = {
    "audit_checkpoints",
    COLUMNS "WHERE tenant_id = $1 AND last_sequence < $2 ORDER BY last_sequence DESC LIMIT $3",
    3,
};
static const struct sql SQL_FLOOR = {
    "audit_floor",
    "SELECT coalesce(max(last_sequence), 0) FROM svc.audit_checkpoints WHERE tenant_id = $1",
    1,
};
static const struct sql SQL_WHERE_ARCHIVED = {
    "audit_where_archived",
    "SELECT archive FROM svc.audit_checkpoints WHERE tenant_id = $1 AND last_sequence >= $2"
    " ORDER BY last_sequence LIMIT 1",
    2,
};
static const struct sql SQL_INSERT = {
    "audit_checkpoint_insert",
    "INSERT INTO svc.audit_checkpoints (tenant_id, last_sequence, first_sequence, number, generation, stream_seq,"
    " event_seq, chain_seed, chain_head, archive, archive_bytes, archive_sha256, archived_us)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) ON CONFLICT DO NOTHING",
    13,
};

/* ---- the event ---- */

struct data {
    const char *archive;
    int64_t archive_bytes, first_sequence, generation, last_sequence, number, records, stream_sequence;
    struct span archive_sha256, chain_head, chain_seed;
    bool source_retained;
};
static const struct jin_field fields[] = {
    JIN_TEXT(struct data, archive, JIN_REQUIRED, 1, ARCHIVE_LOCATOR_MAX - 1),
    JIN_INT(struct data, archive_bytes, JIN_REQUIRED, 1, INT64_MAX),
    JIN_HEX(struct data, archive_sha256, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
    JIN_HEX(struct data, chain_head, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
    JIN_HEX(struct data, chain_seed, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
    JIN_INT(struct data, first_sequence, JIN_REQUIRED, 1, INT64_MAX),
    JIN_INT(struct data, generation, JIN_REQUIRED, 1, INT64_MAX),
    JIN_INT(struct data, last_sequence, JIN_REQUIRED, 1, INT64_MAX),
    JIN_INT(struct data, number, JIN_REQUIRED, 1, INT64_MAX),
    JIN_INT(struct data, records, JIN_REQUIRED, 1, INT64_MAX),
    JIN_BOOL(struct data, source_retained, JIN_REQUIRED),
    JIN_INT(struct data, stream_sequence, JIN_REQUIRED, 1, INT64_MAX),
};

static struct fault print_data(const struct archive_checkpoint *checkpoint, struct buf *out)
{
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_text(&jout, "archive", checkpoint->locator);
    jout_key_int(&jout, "archive_bytes", checkpoint->bytes);
    jout_key_hex(&jout, "archive_sha256", SPAN_ARRAY(checkpoint->sha256.at));
    jout_key_hex(&jout, "chain_head", SPAN_ARRAY(checkpoint->head.at));
    jout_key_hex(&jout, "chain_seed", SPAN_ARRAY(checkpoint->seed.at));
    jout_key_int(&jout, "first_sequence", checkpoint->first_sequence);
    jout_key_int(&jout, "generation", checkpoint->generation);
    jout_key_int(&jout, "last_sequence", checkpoint->last_sequence);
    jout_key_int(&jout, "number", checkpoint->number);
    jout_key_int(&jout, "records", checkpoint->last_sequence);
    jout_key_bool(&jout, "source_retained", true);
    jout_key_int(&jout, "stream_sequence", (int64_t)checkpoint->stream_seq);
    jout_object_end(&jout);
    return jout_end(&jout);
}

struct fault archive_checkpoint_read(struct op *op, const struct event_view *event,
                                     struct archive_checkpoint *ret_checkpoint)
{
    struct data data = { 0 };
    TRY(jin_decode(op, event->data, fields, COUNT_OF(fields), &data));
    if (!data.source_retained || data.first_sequence > data.last_sequence || data.records != data.last_sequence ||
        (uint64_t)data.stream_sequence >= event->stream_seq) {
        return op_fail(op, FAULT(LOG_DECODE), "message %llu: a checkpoint that contradicts itself",
                       (unsigned long long)event->stream_seq);
    }
    struct archive_checkpoint checkpoint = { .number = data.number,
                                             .generation = data.generation,
                                             .first_sequence = data.first_sequence,
                                             .last_sequence = data.last_sequence,
                                             .stream_seq = (uint64_t)data.stream_sequence,
                                             .event_seq = event->stream_seq,
                                             .bytes = data.archive_bytes,
                                             .archived = event->time };
    memcpy(checkpoint.seed.at, data.chain_seed.at, SHA256_LEN);
    memcpy(checkpoint.head.at, data.chain_head.at, SHA256_LEN);
    memcpy(checkpoint.sha256.at, data.archive_sha256.at, SHA256_LEN);
    memcpy(checkpoint.locator, data.archive, strlen(data.archive) + 1);
    *ret_checkpoint = checkpoint;
    return OK;
}

struct fault archive_append(struct op *op, struct services *services, const struct archive_checkpoint *checkpoint,
                            uint64_t previous)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(4096);
    char last[24];
    (void)snprintf(last, sizeof(last), "%lld", (long long)checkpoint->last_sequence);
    const struct span parts[] = { span_text(op->tenant.text), span_text(last), SPAN_ARRAY(checkpoint->head.at) };
    struct event event = { .type = ARCHIVE_EVENT, .schema_version = ARCHIVE_VERSION };
    struct event_append append = {
        .lane = ARCHIVE_LANE, .events = &event, .count = 1, .expect = true, .expected = previous
    };
    uint64_t seq = 0;
    TRY(print_data(checkpoint, &data));
    event.data = buf_span(&data);
    TRY(uuid_derive(ARCHIVE_EVENT, parts, COUNT_OF(parts), &append.message_id));
    TRY(events_append(op, services->log, &append, &seq));
    FAILPOINT("audit.archive.after_append");
    return projector_wait(op, services->projector, seq);
}

/* ---- the rows ---- */

struct fault project_audit_archived(struct projection *projection, const struct event_view *event)
{
    struct archive_checkpoint checkpoint;
    TRY(archive_checkpoint_read(projection_op(projection), event, &checkpoint));
    const struct sql_arg args[] = {
        SQL_TEXT(event->tenant.text),
        SQL_INT(checkpoint.last_sequence),
        SQL_INT(checkpoint.first_sequence),
        SQL_INT(checkpoint.number),
        SQL_INT(checkpoint.generation),
        SQL_INT((int64_t)checkpoint.stream_seq),
        SQL_INT((int64_t)checkpoint.event_seq),
        SQL_BYTES(SPAN_ARRAY(checkpoint.seed.at)),
        SQL_BYTES(SPAN_ARRAY(checkpoint.head.at)),
        SQL_TEXT(checkpoint.locator),
        SQL_INT(checkpoint.bytes),
        SQL_BYTES(SPAN_ARRAY(checkpoint.sha256.at)),
        SQL_INT(checkpoint.archived),
    };
    return tx_queue(projection_tx(projection), &SQL_INSERT, args, COUNT_OF(args));
}

static struct fault take_hash(const struct rows *rows, size_t row, size_t column, struct sha256 *ret_hash)
{
    struct span bytes = rows_bytes(rows, row, column);
    REQUIRE(bytes.len == SHA256_LEN, INTERNAL);
    memcpy(ret_hash->at, bytes.at, SHA256_LEN);
    return OK;
}

static struct fault take_row(const struct rows *rows, size_t row, struct archive_checkpoint *checkpoint)
{
    *checkpoint = (struct archive_checkpoint){ .last_sequence = rows_int(rows, row, 0),
                                               .first_sequence = rows_int(rows, row, 1),
                                               .number = rows_int(rows, row, 2),
                                               .generation = rows_int(rows, row, 3),
                                               .stream_seq = (uint64_t)rows_int(rows, row, 4),
                                               .event_seq = (uint64_t)rows_int(rows, row, 5),
                                               .bytes = rows_int(rows, row, 9),
                                               .archived = rows_int(rows, row, 11) };
    const char *locator = rows_text(rows, row, 8);
    REQUIRE(strlen(locator) < sizeof(checkpoint->locator), INTERNAL);
    memcpy(checkpoint->locator, locator, strlen(locator) + 1);
    TRY(take_hash(rows, row, 6, &checkpoint->seed));
    TRY(take_hash(rows, row, 7, &checkpoint->head));
    return take_hash(rows, row, 10, &checkpoint->sha256);
}

struct fault archive_list(struct op *op, struct tx *tx, int64_t before, int64_t limit,
                          struct archive_checkpoint **ret_list, size_t *ret_count)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const struct sql_arg args[] = { SQL_TEXT(op->tenant.text), SQL_INT(before), SQL_INT(limit) };
    struct archive_checkpoint *list = NULL;
    TRY(tx_query(tx, &SQL_LIST, args, COUNT_OF(args), &rows));
    TRY(arena_take(op->arena, rows_count(rows) + 1, sizeof(*list), &list));
    for (size_t i = 0; i < rows_count(rows); i++) {
        TRY(take_row(rows, i, &list[i]));
    }
    *ret_list = list;
    *ret_count = rows_count(rows);
    return OK;
}

struct fault archive_last(struct op *op, struct tx *tx, struct archive_checkpoint *ret_checkpoint)
{
    struct archive_checkpoint *list = NULL;
    size_t count = 0;
    TRY(archive_list(op, tx, INT64_MAX, 1, &list, &count));
    *ret_checkpoint = count == 1 ? list[0] : (struct archive_checkpoint){ 0 };
    return OK;
}

/* ---- the served view ---- */

struct fault audit_floor(struct op *op, struct tx *tx, int64_t *ret_floor)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_query(tx, &SQL_FLOOR, (struct sql_arg[]){ SQL_TEXT(op->tenant.text) }, 1, &rows));
    *ret_floor = rows_int(rows, 0, 0);
    return OK;
}

struct fault audit_check_served(struct op *op, struct tx *tx, int64_t sequence, const char *field)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    int64_t floor = 0;
    const struct sql_arg args[] = { SQL_TEXT(op->tenant.text), SQL_INT(sequence) };
    TRY(tx_query(tx, &SQL_WHERE_ARCHIVED, args, COUNT_OF(args), &rows));
    if (rows_count(rows) == 0) {
        return OK;
    }
    TRY(audit_floor(op, tx, &floor));
    return op_fail_field(op, FAULT(AUDIT_ARCHIVED), field,
                         "record %lld is in the archive file %s; records from %lld on are served here",
                         (long long)sequence, rows_text(rows, 0, 0), (long long)floor + 1);
}
