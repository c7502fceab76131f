#include "api/feeds/internal.h"

#include <stdio.h>

#define ANSWER_MAX ((size_t)2 << 20)

/* ---- a feed as it stands ---- */

static const char *state_of(const struct feed *feed)
{
    if (strcmp(feed->state, "failed") == 0) {
        return "failed";
    }
    if (!feed->enabled) {
        return "paused";
    }
    return strcmp(feed->state, "queued") == 0 && feed->attempt_error != NULL ? "retrying" : feed->state;
}

static void put_text_or_null(struct jout *jout, const char *key, const char *text)
{
    jout_key_text(jout, key, text != NULL && text[0] != '\0' ? text : NULL);
}

static void put_time_or_null(struct jout *jout, const char *key, utc_us time)
{
    if (time > 0) {
        jout_key_time(jout, key, time);
    } else {
        jout_key(jout, key);
        jout_null(jout);
    }
}

struct fault feed_print(struct op *op, const struct feed *feed, struct jout *jout)
{
    const char *state = state_of(feed);
    bool failed = strcmp(state, "failed") == 0, retrying = strcmp(state, "retrying") == 0;
    bool open = feed->batch_id[0] != '\0';
    utc_us due = feed->due_at > feed->not_before ? feed->due_at : feed->not_before;
    struct feed_config config;
    TRY(feed_config_read(op, feed->config, &config));
    jout_object(jout);
    jout_key_text(jout, "feed_id", feed->id);
    jout_key_text(jout, "kind", feed->kind);
    jout_key_text(jout, "host", feed->host);
    put_text_or_null(jout, "credential", feed->credential);
    jout_key_bool(jout, "enabled", feed->enabled);
    jout_key_int(jout, "version", feed->version);
    jout_key_text(jout, "state", state);
    jout_key_int(jout, "last_delivered_sequence", feed->delivered);
    jout_key_int(jout, "next_sequence", feed->next);
    jout_key_int(jout, "lag_records", open ? feed->range.last - feed->range.first + 1 : 0);
    jout_key_int(jout, "attempts", failed ? feed->failed_attempts : open ? feed->attempts : 0);
    put_time_or_null(jout, "next_attempt_at", retrying ? due : 0);
    put_text_or_null(jout, "last_error_code", failed ? feed->error_code : retrying ? feed->attempt_error : NULL);
    put_text_or_null(jout, "collector_request_id",
                     failed     ? feed->request_id
                     : retrying ? feed->attempt_request_id
                                : feed->delivered_request_id);
    put_text_or_null(jout, "batch_id", feed->batch_id);
    put_time_or_null(jout, "last_delivered_at", feed->delivered_at);
    put_time_or_null(jout, "failed_at", feed->failed_at);
    jout_key_time(jout, "saved_at", feed->saved_at);
    jout_key_text(jout, "saved_by", feed->saved_by);
    jout_key(jout, "config");
    feed_config_print(&config, jout);
    jout_object_end(jout);
    return OK;
}

static struct fault answer_feed(struct request *request, const char *id)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(ANSWER_MAX);
    struct feed feed;
    struct jout jout;
    TRY(feed_load(request->op, request->services, id, &feed));
    jout_init(&jout, &json);
    TRY(feed_print(request->op, &feed, &jout));
    TRY(jout_end(&jout));
    return response_json(request, 0, &json);
}

struct fault route_feeds_list(struct request *request)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(buf_free) struct buf json = BUF_INIT(ANSWER_MAX);
    struct feed *feeds = NULL;
    size_t count = 0;
    struct jout jout;
    TRY(tx_begin(request->op, request->services->store, STORE_REQUEST, &tx));
    TRY(feeds_load(request->op, tx, NULL, &feeds, &count));
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key(&jout, "items");
    jout_array(&jout);
    for (size_t i = 0; i < count; i++) {
        TRY(feed_print(request->op, &feeds[i], &jout));
    }
    jout_array_end(&jout);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return response_json(request, 0, &json);
}

struct fault route_feed_put(struct request *request)
{
    const char *id = request_path(request, "id");
    TRY(feed_configure(request->op, request->services, id, request->body));
    return answer_feed(request, id);
}

struct fault route_feed_pause(struct request *request)
{
    TRY(feed_switch(request->op, request->services, request_path(request, "id"), false));
    return answer_feed(request, request_path(request, "id"));
}

struct fault route_feed_resume(struct request *request)
{
    TRY(feed_switch(request->op, request->services, request_path(request, "id"), true));
    return answer_feed(request, request_path(request, "id"));
}
