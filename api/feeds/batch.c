/* The next batch of a feed, and the open one once more. */
#include "api/feeds/internal.h"

#define DATA_MAX   ((size_t)8 << 10)
#define FETCH_MOST ((size_t)4 << 20) /* bytes of records that are looked at for one batch */

/* The records behind the last batch, with the chain before them. */
struct next {
    struct feed feed;
    struct rows *rows;
    struct feed_record *records;
    size_t count;
    struct sha256 seed;
};

static struct fault read_seed(struct op *op, struct tx *tx, struct next *next)
{
    struct fault fault = feed_chain_at(op, tx, next->feed.next - 1, &next->seed);
    if (fault.code == FAULT_NOT_FOUND && next->feed.next_seed.len == SHA256_LEN) {
        memcpy(next->seed.at, next->feed.next_seed.at, SHA256_LEN);
        return OK;
    }
    return fault;
}

static struct fault read_next(struct op *op, struct services *services, const char *id, struct next *next)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    struct feed *feeds = NULL;
    size_t found = 0;
    bool due = false;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(feeds_load(op, tx, id, &feeds, &found));
    REQUIRE(found == 1, NOT_FOUND);
    next->feed = feeds[0];
    if (!next->feed.enabled || next->feed.batch_id[0] != '\0' || strcmp(next->feed.state, "failed") == 0) {
        return OK;
    }
    TRY(feed_records_due(op, tx, next->feed.next, &due));
    const struct feed_kind *kind = feed_kind_find(next->feed.kind);
    if (!due || kind == NULL) {
        return OK;
    }
    TRY(read_seed(op, tx, next));
    TRY(feed_records_read(op, tx, next->feed.next, INT64_MAX, kind->records_max, FETCH_MOST, &next->rows,
                          &next->records, &next->count));
    return next->count == 0 || next->records[0].sequence == next->feed.next ? OK : FAULT(FEED_RANGE);
}

static struct fault print_batched(const struct feed *feed, const struct feed_render *render, const struct sha256 *body,
                                  struct buf *out)
{
    const struct feed_range *range = &render->range;
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_text(&jout, "batch_id", render->batch_id.text);
    jout_key_hex(&jout, "body", SPAN_ARRAY(body->at));
    jout_key_text(&jout, "feed_id", feed->id);
    jout_key_int(&jout, "first_sequence", range->first);
    jout_key_hex(&jout, "head", SPAN_ARRAY(range->head.at));
    jout_key_hex(&jout, "ids", SPAN_ARRAY(range->ids.at));
    jout_key_int(&jout, "last_sequence", range->last);
    jout_key_int(&jout, "round", 0);
    jout_key_hex(&jout, "seed", SPAN_ARRAY(range->seed.at));
    jout_key_int(&jout, "version", feed->version);
    jout_object_end(&jout);
    return jout_end(&jout);
}

/* How many fit is known once they are printed, and the batch's id once that is known: it is as long as any other. */
static struct fault choose(const struct op *op, const struct next *next, const struct feed_config *config,
                           struct buf *body, struct feed_render *ret_render)
{
    struct feed_render render = { .kind = feed_kind_find(next->feed.kind),
                                  .config = config,
                                  .tenant = op->tenant,
                                  .feed_id = next->feed.id,
                                  .batch_id = { "00000000-0000-0000-0000-000000000000" } };
    size_t count = 0;
    TRY(feed_render(&render, next->records, next->count, body, &count));
    TRY(feed_range_of(next->records, count, &next->seed, &render.range));
    TRY(feed_batch_id(op->tenant, next->feed.id, &render.range, &render.batch_id));
    TRY(feed_render(&render, next->records, count, body, NULL));
    *ret_render = render;
    return OK;
}

static struct fault append_batched(struct op *op, struct services *services, const struct next *next)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(DATA_MAX);
    CLEANUP(buf_free) struct buf body = BUF_INIT((size_t)2 << 20);
    struct feed_config config;
    struct feed_render render;
    struct sha256 digest;
    char first[24], version[24];
    uint64_t seq = 0;
    TRY(feed_config_read(op, next->feed.config, &config));
    TRY(choose(op, next, &config, &body, &render));
    TRY(sha256_of(buf_span(&body), &digest));
    TRY(print_batched(&next->feed, &render, &digest, &data));
    (void)snprintf(first, sizeof(first), "%lld", (long long)render.range.first);
    (void)snprintf(version, sizeof(version), "%lld", (long long)next->feed.version);
    const struct span parts[] = { span_text(op->tenant.text), span_text(next->feed.id), span_text(version),
                                  span_text(first) };
    TRY(feed_append(op, services, "audit.feed.batched", FEED_LANE, parts, COUNT_OF(parts), &data, &seq));
    return projector_wait(op, services->projector, seq);
}

struct fault feed_batch_next(struct op *op, struct services *services, const char *id)
{
    struct next next = { .count = 0 };
    struct fault fault = read_next(op, services, id, &next);
    if (!FAULTED(fault) && next.count > 0) {
        fault = append_batched(op, services, &next);
    }
    rows_free(next.rows);
    return fault;
}

static struct fault compare(const struct op *op, const struct feed *feed, const struct feed_config *config,
                            const struct feed_kind *kind, const struct feed_record *records, size_t count,
                            struct buf *body)
{
    struct feed_render render = { .kind = kind, .config = config, .tenant = op->tenant, .feed_id = feed->id };
    struct sha256 digest;
    TRY(feed_range_of(records, count, &feed->range.seed, &render.range));
    REQUIRE(feed_range_equal(&render.range, &feed->range), FEED_RANGE);
    TRY(uuid_parse(span_text(feed->batch_id), &render.batch_id));
    TRY(feed_render(&render, records, count, body, NULL));
    TRY(sha256_of(buf_span(body), &digest));
    return span_equal(SPAN_ARRAY(digest.at), SPAN_ARRAY(feed->body.at)) ? OK : FAULT(CONFLICT);
}

struct fault feed_batch_again(struct op *op, struct services *services, const struct feed *feed,
                              const struct feed_config *config, const struct feed_kind *kind, struct buf *body)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct feed_record *records = NULL;
    size_t count = 0;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(feed_records_read(op, tx, feed->range.first, feed->range.last, kind->records_max, FETCH_MOST, &rows, &records,
                          &count));
    tx_rollback(TAKE(tx));
    return compare(op, feed, config, kind, records, count, body);
}
