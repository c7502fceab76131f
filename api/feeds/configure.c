/* What a saved configuration leads to, and the saving. A version is never changed: what is saved again is another one.
 */
#include "api/feeds/internal.h"

#include "api/audit/floor.h"

#define EVENT_MAX ((size_t)96 << 10)
#define TRIES     5

static struct fault read_state(struct op *op, struct services *services, const char *id, struct feed_plan *plan,
                               int64_t *ret_first, int64_t *ret_last)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    struct feed *feeds = NULL;
    size_t count = 0;
    int64_t archived = 0;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(projection_lane_last(tx, op->tenant, FEED_CONFIG_LANE, &plan->lane));
    TRY(feed_records_bounds(op, tx, ret_first, ret_last));
    TRY(audit_floor(op, tx, &archived)); /* what is archived is served no more, so it is not sent anew either */
    *ret_first = *ret_first > archived ? *ret_first : archived + 1;
    TRY(feeds_load(op, tx, NULL, &feeds, &count));
    for (size_t i = 0; i < count && !plan->found; i++) {
        plan->found = strcmp(feeds[i].id, id) == 0;
        plan->before = feeds[i];
    }
    if (!plan->found && count >= FEEDS_PER_TENANT) {
        return op_fail(op, FAULT(CONFLICT), "a tenant has at most %d feeds", FEEDS_PER_TENANT);
    }
    return OK;
}

static struct fault plan_from(struct op *op, int64_t wanted, int64_t first, int64_t last, struct feed_plan *plan)
{
    int64_t oldest = first > 0 ? first : 1;
    plan->from = wanted > 0 ? wanted : plan->found ? plan->before.next : oldest;
    if (plan->from > last + 1) {
        return op_fail_field(op, FAULT(FEED_CONFIG), "/from_sequence", "the newest record is %lld", (long long)last);
    }
    if (plan->from < oldest) {
        return op_fail_field(op, FAULT(AUDIT_ARCHIVED), "/from_sequence",
                             "the oldest record that is retained is %lld: give from_sequence", (long long)oldest);
    }
    return OK;
}

static struct fault read_enabled(struct op *op, struct span text, bool *ret_enabled)
{
    bool on = text.len == 0 || span_equal_text(text, "true");
    if (!on && !span_equal_text(text, "false")) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/enabled", "must be true or false");
    }
    *ret_enabled = on;
    return OK;
}

struct fault feed_plan(struct op *op, struct services *services, const char *id, const struct feed_body *body,
                       struct feed_plan *ret_plan)
{
    struct feed_plan plan = { .kind = NULL };
    int64_t first = 0, last = 0;
    if (!feed_id_fits(id)) {
        return op_fail_field(op, FAULT(FEED_CONFIG), "id", "a feed's id is of a-z, 0-9 and -, at most %u characters",
                             FEED_ID_MAX);
    }
    TRY(read_enabled(op, body->enabled, &plan.enabled));
    TRY(feed_config_check(op, services->feeds, &body->config, &plan.kind, &plan.needs));
    TRY(read_state(op, services, id, &plan, &first, &last));
    TRY(plan_from(op, body->from_sequence, first, last, &plan));
    plan.version = plan.found ? plan.before.version + 1 : 1;
    *ret_plan = plan;
    return OK;
}

/* ---- saving ---- */

struct fault feed_append(struct op *op, struct services *services, const char *type, const char *lane,
                         const struct span *parts, size_t count, const struct buf *data, uint64_t *ret_seq)
{
    const struct event event = { .type = type, .schema_version = 1, .data = buf_span(data) };
    struct event_append message = { .lane = lane, .events = &event, .count = 1 };
    bool end = strcmp(type, "audit.feed.delivered") == 0 || strcmp(type, "audit.feed.failed") == 0;
    /* Both ends of a batch share one id: of two attempts at once the first one's end is the end. */
    TRY(uuid_derive(end ? "audit.feed.end" : type, parts, count, &message.message_id));
    return events_append(op, services->log, &message, ret_seq);
}

static struct fault print_configured(const char *id, const struct feed_config *config, const struct feed_plan *plan,
                                     struct buf *out)
{
    const struct feed_host *host = &plan->needs.hosts[0];
    char place[300];
    struct jout jout;
    (void)snprintf(place, sizeof(place), "%s:%s", host->name, host->port);
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key(&jout, "config");
    feed_config_print(config, &jout);
    jout_key_text(&jout, "credential", config->credential != NULL ? config->credential : "");
    jout_key_bool(&jout, "enabled", plan->enabled);
    jout_key_text(&jout, "feed_id", id);
    jout_key_int(&jout, "from_sequence", plan->from);
    jout_key_text(&jout, "host", place);
    jout_key_text(&jout, "kind", plan->kind->name);
    jout_key_int(&jout, "version", plan->version);
    jout_object_end(&jout);
    return jout_end(&jout);
}

static struct fault save_once(struct op *op, struct services *services, const char *id, const struct feed_body *body)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(EVENT_MAX);
    struct feed_plan plan;
    uint64_t seq = 0;
    TRY(feed_plan(op, services, id, body, &plan));
    TRY(print_configured(id, &body->config, &plan, &data));
    const struct event event = { .type = "audit.feed.configured", .schema_version = 1, .data = buf_span(&data) };
    const struct span parts[] = { span_text(op->tenant.text), span_text(id), span_text(op->command_id.text) };
    struct event_append message = {
        .lane = FEED_CONFIG_LANE, .events = &event, .count = 1, .expect = true, .expected = plan.lane
    };
    TRY(uuid_derive(event.type, parts, COUNT_OF(parts), &message.message_id));
    struct fault fault = events_append(op, services->log, &message, &seq);
    if (fault.code == FAULT_LOG_CONFLICT) {
        TRY(projector_catch_up(op, services->projector)); /* the next try would only meet the same otherwise */
        return fault;
    }
    TRY(fault);
    return projector_wait(op, services->projector, seq);
}

struct fault feed_configure(struct op *op, struct services *services, const char *id, const struct feed_body *body)
{
    struct fault fault = OK;
    for (int i = 0; i < TRIES; i++) {
        fault = save_once(op, services, id, body);
        if (fault.code != FAULT_LOG_CONFLICT) {
            break;
        }
        op->note = (struct fault_note){ 0 };
    }
    return fault;
}

/* Another version of the same configuration. Resuming what failed is saving it again. */
struct fault feed_switch(struct op *op, struct services *services, const char *id, bool enabled)
{
    struct feed feed;
    struct feed_body body = { .enabled = span_text(enabled ? "true" : "false") };
    struct fault fault = feed_id_fits(id) ? feed_load(op, services, id, &feed) : FAULT(NOT_FOUND);
    if (fault.code == FAULT_NOT_FOUND) {
        return op_fail(op, fault, "no such feed: list them with GET /api/v1/audit/feeds");
    }
    TRY(fault);
    if (feed.enabled == enabled && !(enabled && strcmp(feed.state, "failed") == 0)) {
        op_changed_nothing(op);
        return OK;
    }
    TRY(feed_config_read(op, feed.config, &body.config));
    return feed_configure(op, services, id, &body);
}
