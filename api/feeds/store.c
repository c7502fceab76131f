/* Feeds as they stand, with the attempts at their open batches. */
#include "api/feeds/internal.h"

#include <stdio.h>

static const struct sql SQL_FEEDS = {
    "feed_rows",
    "SELECT f.feed_id, f.version, f.kind, f.host, f.credential, f.config, f.enabled, f.saved_us, f.saved_by,"
    " f.next_sequence, f.next_seed, f.delivered_sequence, f.delivered_us, f.delivered_request_id, f.state,"
    " f.error_code, f.failed_us, f.failed_attempts, f.collector_request_id, f.batch_id, f.batch_round, f.batch_first,"
    " f.batch_last, f.batch_seed, f.batch_head, f.batch_ids, f.batch_body, o.state, o.attempts, o.due_us,"
    " a.attempted_us, a.not_before_us, a.error_code, a.collector_request_id, a.receipt, a.receipt_us"
    " FROM svc.audit_feeds f"
    " LEFT JOIN svc.outbox o ON o.tenant_id = f.tenant_id AND o.destination = '" FEED_OUTBOX "'"
    " AND f.batch_id <> '' AND o.key = f.feed_id || '/' || f.batch_id || '/' || f.version || '/' || f.batch_round"
    " LEFT JOIN svc.audit_feed_attempts a ON a.tenant_id = f.tenant_id AND a.feed_id = f.feed_id"
    " AND a.batch_id = f.batch_id AND a.version = f.version"
    " WHERE f.tenant_id = $1 AND ($2::text IS NULL OR f.feed_id = $2) ORDER BY f.feed_id",
    2,
};
static const struct sql SQL_NAMES = {
    "feed_names",
    "SELECT tenant_id, feed_id FROM svc.audit_feeds ORDER BY tenant_id, feed_id LIMIT 4096",
    0,
};
static const struct sql SQL_ATTEMPT = {
    "feed_attempt",
    "INSERT INTO svc.audit_feed_attempts (tenant_id, feed_id, version, batch_id, attempted_us, not_before_us, error_code,"
    " collector_request_id, receipt, receipt_us) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"
    " ON CONFLICT (tenant_id, feed_id) DO UPDATE SET version = excluded.version, batch_id = excluded.batch_id,"
    " attempted_us = excluded.attempted_us, not_before_us = excluded.not_before_us, error_code = excluded.error_code,"
    " collector_request_id = excluded.collector_request_id, receipt_us ="
    " CASE WHEN $11 AND audit_feed_attempts.receipt = excluded.receipt THEN audit_feed_attempts.receipt_us"
    " ELSE excluded.receipt_us END, receipt = excluded.receipt",
    11,
};

bool feed_id_fits(const char *id)
{
    size_t len = strlen(id);
    return len > 0 && len <= FEED_ID_MAX && id[0] != '-' && strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

struct fault feed_outbox_key(struct op *op, const char *feed_id, const char *batch_id, int64_t version, int64_t round,
                             const char **ret_key)
{
    return arena_printf(op->arena, ret_key, "%s/%s/%lld/%lld", feed_id, batch_id, (long long)version, (long long)round);
}

static struct fault text_at(struct op *op, const struct rows *rows, size_t row, size_t column, const char **ret_text)
{
    *ret_text = NULL;
    return rows_null(rows, row, column) ? OK : arena_text(op->arena, span_text(rows_text(rows, row, column)), ret_text);
}

static void digest_at(const struct rows *rows, size_t row, size_t column, struct sha256 *ret_digest)
{
    struct span bytes = rows_bytes(rows, row, column);
    if (bytes.len == SHA256_LEN) {
        memcpy(ret_digest->at, bytes.at, SHA256_LEN);
    }
}

static struct fault read_texts(struct op *op, const struct rows *rows, size_t row, struct feed *feed)
{
    const char *config = NULL;
    TRY(text_at(op, rows, row, 0, &feed->id));
    TRY(text_at(op, rows, row, 2, &feed->kind));
    TRY(text_at(op, rows, row, 3, &feed->host));
    TRY(text_at(op, rows, row, 4, &feed->credential));
    TRY(text_at(op, rows, row, 5, &config));
    feed->config = span_text(config);
    TRY(text_at(op, rows, row, 8, &feed->saved_by));
    TRY(text_at(op, rows, row, 13, &feed->delivered_request_id));
    TRY(text_at(op, rows, row, 14, &feed->state));
    TRY(text_at(op, rows, row, 15, &feed->error_code));
    TRY(text_at(op, rows, row, 18, &feed->request_id));
    TRY(text_at(op, rows, row, 19, &feed->batch_id));
    TRY(text_at(op, rows, row, 27, &feed->outbox_state));
    TRY(text_at(op, rows, row, 32, &feed->attempt_error));
    TRY(text_at(op, rows, row, 33, &feed->attempt_request_id));
    return text_at(op, rows, row, 34, &feed->receipt);
}

static struct fault read_row(struct op *op, const struct rows *rows, size_t row, struct feed *ret_feed)
{
    struct feed feed = { .version = rows_int(rows, row, 1),
                         .enabled = rows_bool(rows, row, 6),
                         .saved_at = rows_int(rows, row, 7),
                         .next = rows_int(rows, row, 9),
                         .delivered = rows_int(rows, row, 11),
                         .delivered_at = rows_int(rows, row, 12),
                         .failed_at = rows_int(rows, row, 16),
                         .failed_attempts = rows_int(rows, row, 17),
                         .round = rows_int(rows, row, 20),
                         .range = { .first = rows_int(rows, row, 21), .last = rows_int(rows, row, 22) },
                         .attempts = rows_int(rows, row, 28),
                         .due_at = rows_int(rows, row, 29),
                         .attempted_at = rows_int(rows, row, 30),
                         .not_before = rows_int(rows, row, 31),
                         .receipt_at = rows_int(rows, row, 35) };
    TRY(arena_copy(op->arena, rows_bytes(rows, row, 10), &feed.next_seed));
    digest_at(rows, row, 23, &feed.range.seed);
    digest_at(rows, row, 24, &feed.range.head);
    digest_at(rows, row, 25, &feed.range.ids);
    digest_at(rows, row, 26, &feed.body);
    TRY(read_texts(op, rows, row, &feed));
    *ret_feed = feed;
    return OK;
}

struct fault feeds_load(struct op *op, struct tx *tx, const char *id, struct feed **ret_feeds, size_t *ret_count)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const struct sql_arg args[] = { SQL_TEXT(op->tenant.text), id != NULL ? SQL_TEXT(id) : SQL_NONE };
    struct feed *feeds = NULL;
    TRY(tx_query(tx, &SQL_FEEDS, args, COUNT_OF(args), &rows));
    size_t count = rows_count(rows);
    TRY(arena_take(op->arena, count + 1, sizeof(*feeds), &feeds));
    for (size_t i = 0; i < count; i++) {
        TRY(read_row(op, rows, i, &feeds[i]));
    }
    *ret_feeds = feeds;
    *ret_count = count;
    return OK;
}

struct fault feed_load(struct op *op, struct services *services, const char *id, struct feed *ret_feed)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    struct feed *feeds = NULL;
    size_t count = 0;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(feeds_load(op, tx, id, &feeds, &count));
    REQUIRE(count == 1, NOT_FOUND);
    *ret_feed = feeds[0];
    return OK;
}

struct fault feeds_names(struct op *op, struct services *services, struct feed_name **ret_names, size_t *ret_count)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct feed_name *names = NULL;
    TRY(tx_begin(op, services->store, STORE_BOOKKEEPING, &tx));
    TRY(tx_query(tx, &SQL_NAMES, NULL, 0, &rows));
    size_t count = rows_count(rows);
    TRY(arena_take(op->arena, count + 1, sizeof(*names), &names));
    for (size_t i = 0; i < count; i++) {
        TRY(tenant_id_parse(span_text(rows_text(rows, i, 0)), &names[i].tenant));
        (void)snprintf(names[i].id, sizeof(names[i].id), "%s", rows_text(rows, i, 1));
    }
    *ret_names = names;
    *ret_count = count;
    return OK;
}

struct fault feed_attempt_record(struct op *op, struct services *services, const struct feed *feed,
                                 const struct feed_result *result, bool keep_receipt)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    utc_us now = clock_utc();
    bool receipt = result->receipt[0] != '\0';
    const struct sql_arg args[] = {
        SQL_TEXT(op->tenant.text),
        SQL_TEXT(feed->id),
        SQL_INT(feed->version),
        SQL_TEXT(feed->batch_id),
        SQL_INT(now),
        SQL_INT(result->retry_after_s > 0 ? now + result->retry_after_s * US_PER_S : 0),
        SQL_TEXT(feed_error_row(result->error)->text),
        result->request_id[0] != '\0' ? SQL_TEXT(result->request_id) : SQL_NONE,
        receipt ? SQL_TEXT(result->receipt) : SQL_NONE,
        SQL_INT(receipt ? now : 0),
        SQL_BOOL(keep_receipt),
    };
    TRY(tx_begin(op, services->store, STORE_BOOKKEEPING, &tx));
    TRY(tx_exec(tx, &SQL_ATTEMPT, args, COUNT_OF(args), NULL));
    return tx_commit(&tx);
}
