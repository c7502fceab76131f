/* What the leading process does for all feeds: next batches, outbox rows that are missing, and what is shown; what
 * others show is NaN. */
#include "api/feeds/internal.h"

#include "appliance/base/log.h"

#include <math.h>
#include <stdio.h>

#define FEED_MS 15000

/* ---- a batch whose outbox row is gone ---- */

static struct fault append_requeued(struct op *op, struct services *services, const struct feed *feed)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(1024);
    char version[24], round[24];
    uint64_t seq = 0;
    struct jout jout;
    jout_init(&jout, &data);
    jout_object(&jout);
    jout_key_text(&jout, "batch_id", feed->batch_id);
    jout_key_text(&jout, "feed_id", feed->id);
    jout_key_int(&jout, "round", feed->round + 1);
    jout_key_int(&jout, "version", feed->version);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    (void)snprintf(version, sizeof(version), "%lld", (long long)feed->version);
    (void)snprintf(round, sizeof(round), "%lld", (long long)feed->round + 1);
    const struct span parts[] = { span_text(op->tenant.text), span_text(feed->id), span_text(version),
                                  span_text(feed->batch_id), span_text(round) };
    TRY(feed_append(op, services, "audit.feed.requeued", FEED_LANE, parts, COUNT_OF(parts), &data, &seq));
    return projector_wait(op, services->projector, seq);
}

/* Only what is still the same is queued again. */
static struct fault requeue(struct op *op, struct services *services, const struct feed *feed)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT((size_t)2 << 20);
    struct feed_config config;
    TRY(feed_config_read(op, feed->config, &config));
    const struct feed_kind *kind = feed_kind_find(config.kind);
    REQUIRE(kind != NULL, FEED_CONFIG);
    struct fault fault = feed_batch_again(op, services, feed, &config, kind, &body);
    if (fault.code == FAULT_FEED_RANGE || fault.code == FAULT_TOO_LARGE || fault.code == FAULT_CONFLICT) {
        enum feed_error error = fault.code == FAULT_CONFLICT ? FEED_RENDERED : FEED_CHANGED;
        log_write(WARN, "audit_feed_not_requeued", LOG_TEXT("tenant_id", op->tenant.text), LOG_TEXT("feed", feed->id),
                  LOG_TEXT("code", feed_error_row(error)->text));
        return feed_record_failed(op, services, feed, error, "", 0);
    }
    TRY(fault);
    log_write(WARN, "audit_feed_requeued", LOG_TEXT("tenant_id", op->tenant.text), LOG_TEXT("feed", feed->id),
              LOG_TEXT("batch_id", feed->batch_id));
    return append_requeued(op, services, feed);
}

/* While it runs, a settled row may only be waiting for its event to be projected. */
static bool is_missing(const struct feed *feed, bool at_start)
{
    bool open = feed->batch_id[0] != '\0' && strcmp(feed->state, "queued") == 0;
    bool settled = feed->outbox_state != NULL &&
                   (strcmp(feed->outbox_state, "dead-lettered") == 0 || strcmp(feed->outbox_state, "delivered") == 0);
    return open && (feed->outbox_state == NULL || (at_start && settled));
}

/* ---- what is shown ---- */

static void show(struct services *services, const struct op *op, const struct feed *feed)
{
    static const char *const states[] = { "idle", "queued", "retrying", "delivered", "failed", "paused" };
    char name[160];
    bool open = feed->batch_id[0] != '\0';
    const char *state = strcmp(feed->state, "failed") == 0                                  ? "failed"
                        : !feed->enabled                                                    ? "paused"
                        : strcmp(feed->state, "queued") == 0 && feed->attempt_error != NULL ? "retrying"
                                                                                            : feed->state;
    (void)snprintf(name, sizeof(name), "%s/%s", op->tenant.text, feed->id);
    for (size_t i = 0; i < COUNT_OF(states); i++) {
        metrics_set(services->metrics, FEED_STATE, strcmp(states[i], state) == 0 ? 1 : 0,
                    (const char *const[]){ name, states[i] });
    }
    metrics_set(services->metrics, FEED_LAG, open ? (double)(feed->range.last - feed->range.first + 1) : 0,
                (const char *const[]){ name });
    metrics_set(services->metrics, FEED_LAST_SUCCESS, (double)feed->delivered_at / (double)US_PER_S,
                (const char *const[]){ name });
}

static struct fault look_after(struct op *op, struct services *services, const char *id, bool at_start,
                               bool *ret_failed)
{
    struct feed feed;
    TRY(feed_load(op, services, id, &feed));
    *ret_failed = strcmp(feed.state, "failed") == 0;
    show(services, op, &feed);
    if (is_missing(&feed, at_start)) {
        return requeue(op, services, &feed);
    }
    return at_start ? OK : feed_batch_next(op, services, id);
}

/* One feed that cannot be looked after holds up no other: a round that takes too long goes on with the next feed. */
static struct fault look_after_all(struct op *op, struct services *services, bool at_start)
{
    struct feed_name *names = NULL;
    size_t count = 0;
    unsigned failed = 0;
    TRY(feeds_names(op, services, &names, &count));
    for (size_t i = 0; i < count && !op_expired(op); i++) {
        CLEANUP(op_freep) struct op *own = NULL;
        bool is_failed = false;
        const struct feed_name *name = &names[services->feeds->turn++ % count];
        TRY(op_new("system:audit-feeds", name->tenant, FEED_MS, &own));
        own->deadline = own->deadline < op->deadline ? own->deadline : op->deadline;
        struct fault fault = look_after(own, services, name->id, at_start, &is_failed);
        failed += is_failed ? 1 : 0;
        if (FAULTED(fault)) {
            log_fault(LOG_LEVEL_WARN, "audit_feed_not_looked_after", own, fault);
        }
    }
    atomic_store(&services->feeds->failed, failed);
    return OK;
}

/* What this instance knew of feeds is the leader's to tell now. */
static void forget(struct services *services)
{
    static const struct metric *const shown[] = { FEED_STATE, FEED_LAG, FEED_LAST_SUCCESS };
    for (size_t i = 0; i < COUNT_OF(shown); i++) {
        metrics_set_all(services->metrics, shown[i], NAN);
    }
    atomic_store(&services->feeds->failed, 0);
}

struct fault feeds_work(struct op *op, struct services *services)
{
    struct projector_state state;
    projector_state(services->projector, &state);
    if (!state.leader) {
        forget(services);
        return OK;
    }
    return look_after_all(op, services, false);
}

struct fault feeds_reconcile(struct op *op, struct services *services)
{
    return look_after_all(op, services, true);
}

struct fault feeds_well(struct op *op, struct services *services)
{
    unsigned failed = atomic_load(&services->feeds->failed);
    return failed == 0 ? OK : op_fail(op, FAULT(FEED_REFUSED), "%u audit feeds stand still", failed);
}
