/*
 * One attempt at one batch. A crash anywhere is made good by the next attempt: the batch is the same, so the collector
 * may get it twice, never otherwise. A collector that has a batch and is still to confirm it is asked, not sent to.
 */
#include "api/feeds/internal.h"

#include "appliance/base/failpoint.h"

#define DATA_MAX     ((size_t)4 << 10)
#define RECEIPT_LAST (300 * US_PER_S) /* unconfirmed for longer than this, it is sent again */
#define LEAVE_NS     (5 * NS_PER_S)   /* for the record */

struct payload {
    const char *batch_id, *feed_id;
    int64_t round, version;
};
static const struct jin_field payload_fields[] = {
    JIN_TEXT(struct payload, batch_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct payload, feed_id, JIN_REQUIRED, 1, FEED_ID_MAX),
    JIN_INT(struct payload, round, JIN_REQUIRED, 0, INT64_MAX),
    JIN_INT(struct payload, version, JIN_REQUIRED, 1, INT64_MAX),
};

/* ---- what came of it ---- */

static struct fault append_end(struct op *op, struct services *services, const struct feed *feed, const char *type,
                               const struct buf *data, uint64_t *ret_seq)
{
    char version[24], round[24];
    (void)snprintf(version, sizeof(version), "%lld", (long long)feed->version);
    (void)snprintf(round, sizeof(round), "%lld", (long long)feed->round);
    const struct span parts[] = { span_text(op->tenant.text), span_text(feed->id), span_text(version),
                                  span_text(feed->batch_id), span_text(round) };
    return feed_append(op, services, type, FEED_LANE, parts, COUNT_OF(parts), data, ret_seq);
}

static void put_batch(const struct feed *feed, struct jout *jout)
{
    jout_key_text(jout, "batch_id", feed->batch_id);
    jout_key_text(jout, "feed_id", feed->id);
    jout_key_int(jout, "round", feed->round);
    jout_key_int(jout, "version", feed->version);
}

struct fault feed_record_failed(struct op *op, struct services *services, const struct feed *feed,
                                enum feed_error error, const char *request_id, int64_t attempts)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(DATA_MAX);
    uint64_t seq = 0;
    struct jout jout;
    jout_init(&jout, &data);
    jout_object(&jout);
    put_batch(feed, &jout);
    jout_key_int(&jout, "attempts", attempts);
    jout_key_text(&jout, "code", feed_error_row(error)->text);
    if (request_id[0] != '\0') {
        jout_key_text(&jout, "collector_request_id", request_id);
    }
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return append_end(op, services, feed, "audit.feed.failed", &data, &seq);
}

static struct fault record_delivered(struct op *op, struct services *services, const struct feed *feed,
                                     const struct feed_result *result, int64_t attempts, uint64_t *ret_seq)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(DATA_MAX);
    struct jout jout;
    jout_init(&jout, &data);
    jout_object(&jout);
    put_batch(feed, &jout);
    jout_key_int(&jout, "attempts", attempts);
    if (result->request_id[0] != '\0') {
        jout_key_text(&jout, "collector_request_id", result->request_id);
    }
    jout_key_int(&jout, "first_sequence", feed->range.first);
    jout_key_int(&jout, "last_sequence", feed->range.last);
    jout_key_int(&jout, "records", feed->range.last - feed->range.first + 1);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return append_end(op, services, feed, "audit.feed.delivered", &data, ret_seq);
}

/* ---- the attempt ---- */

static const char *receipt_of(const struct feed *feed)
{
    bool lasts = feed->receipt != NULL && clock_utc() - feed->receipt_at < RECEIPT_LAST;
    return lasts ? feed->receipt : "";
}

/* What is wrong before anything is sent; FEED_FINE: it was sent, and *result tells. */
static struct fault attempt(struct op *op, struct services *services, const struct outbox_item *item,
                            const struct feed *feed, struct feed_result *result)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT((size_t)2 << 20);
    struct feed_config config;
    TRY(feed_config_read(op, feed->config, &config));
    const struct feed_kind *kind = feed_kind_find(config.kind);
    if (kind == NULL || !feed_config_allowed(op, services->feeds, &config)) {
        result->error = FEED_NOT_ALLOWED;
        return OK;
    }
    struct fault fault = feed_batch_again(op, services, feed, &config, kind, &body);
    if (fault.code == FAULT_FEED_RANGE || fault.code == FAULT_TOO_LARGE || fault.code == FAULT_CONFLICT) {
        result->error = fault.code == FAULT_CONFLICT ? FEED_RENDERED : FEED_CHANGED;
        return OK;
    }
    TRY(fault);
    struct feed_send send = { .services = services,
                              .kind = kind,
                              .config = &config,
                              .feed_id = feed->id,
                              .version = feed->version,
                              .body = buf_span(&body),
                              .receipt = receipt_of(feed),
                              .stopping = item->stopping,
                              .deadline = op->deadline - LEAVE_NS };
    TRY(uuid_parse(span_text(feed->batch_id), &send.batch_id));
    FAILPOINT("feeds.before_send");
    kind->transport(op, &send, result);
    FAILPOINT("feeds.after_send");
    return OK;
}

static void count(struct services *services, const struct feed *feed, const struct feed_result *result)
{
    bool fine = result->error == FEED_FINE;
    metrics_add(services->metrics, FEED_ATTEMPTS, 1,
                (const char *const[]){ feed->kind, fine ? "delivered" : feed_error_row(result->error)->text });
    if (fine) {
        metrics_add(services->metrics, FEED_RECORDS_TOTAL, (double)(feed->range.last - feed->range.first + 1),
                    (const char *const[]){ feed->kind });
    }
}

static struct fault give_up(struct op *op, struct services *services, const struct feed *feed,
                            const struct feed_result *result, const struct outbox_item *item)
{
    const struct feed_error_row *row = feed_error_row(result->error);
    TRY(feed_record_failed(op, services, feed, result->error, result->request_id, item->attempt));
    bool changed = result->error == FEED_CHANGED || result->error == FEED_RENDERED;
    return changed ? op_fail(op, FAULT(FEED_RANGE), "feed %s: %s: %s", feed->id, row->text, row->advice)
                   : op_fail(op, FAULT(FEED_REFUSED), "feed %s: %s: %s", feed->id, row->text, row->advice);
}

static struct fault conclude(struct op *op, struct services *services, const struct feed *feed,
                             const struct feed_result *result, const struct outbox_item *item)
{
    const struct feed_error_row *row = feed_error_row(result->error);
    uint64_t seq = 0;
    if (result->error == FEED_FINE) {
        TRY(record_delivered(op, services, feed, result, item->attempt, &seq));
        FAILPOINT("feeds.after_append");
        /* What is owed beyond this batch goes at once; what goes wrong here the worker makes good. */
        if (!FAULTED(projector_wait(op, services->projector, seq))) {
            IGNORE(feed_batch_next(op, services, feed->id));
        }
        return OK;
    }
    if (row->final || item->last_attempt) {
        return give_up(op, services, feed, result, item);
    }
    TRY(feed_attempt_record(op, services, feed, result, receipt_of(feed)[0] != '\0'));
    return op_fail(op, FAULT(FEED_UNAVAILABLE), "feed %s: %s: %s", feed->id, row->text, row->advice);
}

struct fault feed_deliver(struct op *op, struct services *services, const struct outbox_item *item)
{
    struct payload payload = { 0 };
    struct feed_result result = { .error = FEED_FAULTY };
    struct feed feed;
    TRY(jin_decode(op, item->payload, payload_fields, COUNT_OF(payload_fields), &payload));
    struct fault fault = feed_load(op, services, payload.feed_id, &feed);
    if (fault.code == FAULT_NOT_FOUND) {
        return OK;
    }
    TRY(fault);
    bool ours = strcmp(feed.batch_id, payload.batch_id) == 0 && feed.version == payload.version &&
                feed.round == payload.round && strcmp(feed.state, "queued") == 0;
    if (!ours) {
        return OK; /* another version took over, or its end is recorded */
    }
    if (feed.not_before > clock_utc() && !item->last_attempt) {
        return op_fail(op, FAULT(FEED_UNAVAILABLE), "feed %s: the collector asked for patience", feed.id);
    }
    TRY(attempt(op, services, item, &feed, &result));
    count(services, &feed, &result);
    return conclude(op, services, &feed, &result, item);
}
