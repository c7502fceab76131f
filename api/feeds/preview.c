/* What saving a feed would do, told without doing anything: nothing is written and nobody is asked. */
#include "api/feeds/internal.h"

#include <stdio.h>

#define ANSWER_MAX ((size_t)256 << 10)

static bool is_set(const char *reference)
{
    CLEANUP(secret_freep) struct secret *value = NULL;
    return feed_secret_read(reference, &value);
}

static void put_hosts(struct jout *jout, const struct feed_needs *needs)
{
    char place[300];
    (void)snprintf(place, sizeof(place), "%s:%s", needs->hosts[0].name, needs->hosts[0].port);
    jout_key_text(jout, "host", place);
    jout_key(jout, "hosts");
    jout_array(jout);
    for (size_t i = 0; i < needs->host_count; i++) {
        (void)snprintf(place, sizeof(place), "%s:%s", needs->hosts[i].name, needs->hosts[i].port);
        jout_text(jout, place);
    }
    jout_array_end(jout);
}

static void put_credentials(struct jout *jout, const struct feed_config *config)
{
    const char *const references[] = { config->credential, config->client_id };
    jout_key_text(jout, "credential", config->credential);
    jout_key(jout, "credentials");
    jout_array(jout);
    for (size_t i = 0; i < COUNT_OF(references); i++) {
        if (references[i] != NULL) {
            jout_object(jout);
            jout_key_text(jout, "reference", references[i]);
            jout_key_bool(jout, "set", is_set(references[i]));
            jout_object_end(jout);
        }
    }
    jout_array_end(jout);
}

static const char *later(const struct feed_plan *plan)
{
    if (!plan->enabled) {
        return "nothing is sent until the feed is resumed";
    }
    return plan->found
               ? "the open batch is given up, and records go to the new destination from from_sequence on"
               : "records go to the collector from from_sequence on, in batches, and each new one soon after it "
                 "is written";
}

static void put_texts(struct jout *jout, const struct feed_plan *plan)
{
    jout_key_text(jout, "permission", "audit:write");
    jout_key_text(jout, "writes",
                  "one event audit.feed.configured: an immutable version of the configuration, without "
                  "any secret");
    jout_key_text(jout, "later_effect", later(plan));
    jout_key_text(jout, "proof", plan->kind->proof);
    jout_key_text(jout, "recovery",
                  "a batch that is not accepted is sent again, byte for byte, later and later; once the collector "
                  "refuses it the feed stands still until it is saved again. Pausing stops it at once");
}

struct fault route_feed_preview(struct request *request)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(ANSWER_MAX);
    const struct feed_body *body = request->body;
    struct feed_plan plan;
    struct jout jout;
    TRY(feed_plan(request->op, request->services, request_path(request, "id"), body, &plan));
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key_text(&jout, "feed_id", request_path(request, "id"));
    jout_key_text(&jout, "kind", plan.kind->name);
    jout_key_text(&jout, "collector", plan.kind->doc);
    put_hosts(&jout, &plan.needs);
    put_credentials(&jout, &body->config);
    jout_key_int(&jout, "version", plan.version);
    jout_key_bool(&jout, "enabled", plan.enabled);
    jout_key_int(&jout, "from_sequence", plan.from);
    put_texts(&jout, &plan);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return response_json(request, 0, &json);
}
