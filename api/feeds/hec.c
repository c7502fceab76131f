/*
 * The HTTP Event Collector: events as JSON objects, one behind the other, to /services/collector/event with the token
 * of scheme Splunk. With indexer acknowledgement every request names a channel; the answer's ackId is asked about at
 * /services/collector/ack until the collector says that the events are indexed.
 */
#include "api/feeds/internal.h"

#define EVENT_PATH "/services/collector/event"
#define ACK_PATH   "/services/collector/ack"
#define BYTES_MAX  ((size_t)900 << 10) /* collectors in the cloud take 1 MiB */

static const char *or_else(const char *text, const char *otherwise)
{
    return text != NULL ? text : otherwise;
}

static bool wants_ack(const struct feed_config *config)
{
    return config->acknowledgement == NULL || strcmp(config->acknowledgement, "indexer") == 0;
}

static struct fault check(struct op *op, const struct feed_config *config)
{
    if (!wants_ack(config) && strcmp(config->acknowledgement, "receipt") != 0) {
        return op_fail_field(op, FAULT(FEED_CONFIG), "/acknowledgement", "must be indexer or receipt");
    }
    return OK;
}

/* ---- body ---- */

static void put_head(const struct feed_render *render, struct jout *jout, const char *stamp)
{
    const struct feed_config *config = render->config;
    jout_object(jout);
    jout_key_raw(jout, "time", span_text(stamp));
    jout_key_text(jout, "host", or_else(config->source_host, "svc"));
    jout_key_text(jout, "source", or_else(config->source, "svc"));
    jout_key_text(jout, "sourcetype", or_else(config->sourcetype, "svc:audit"));
    if (config->index != NULL) {
        jout_key_text(jout, "index", config->index);
    }
    jout_key(jout, "event");
    jout_object(jout);
    jout_key_text(jout, "batch_id", render->batch_id.text);
}

static void stamp_of(utc_us time, char out[32])
{
    (void)snprintf(out, 32, "%lld.%03lld", (long long)(time / US_PER_S), (long long)(time % US_PER_S / 1000));
}

static struct fault put_item(const struct feed_render *render, const struct feed_item *item, struct buf *out)
{
    const struct feed_record *record = item->record;
    char stamp[32];
    struct jout jout;
    stamp_of(record->time, stamp);
    jout_init(&jout, out);
    put_head(render, &jout, stamp);
    jout_key_hex(&jout, "chain", SPAN_ARRAY(record->chain.at));
    if (item->oversize) {
        struct sha256 digest;
        TRY(sha256_of(record->record, &digest));
        jout_key_text(&jout, "event_id", record->event_id);
        jout_key_int(&jout, "record_bytes", (int64_t)record->record.len);
        jout_key_hex(&jout, "record_sha256", SPAN_ARRAY(digest.at));
        jout_key_int(&jout, "sequence", record->sequence);
        jout_key_text(&jout, "type", record->type);
    } else {
        jout_key_raw(&jout, "record", item->piece);
    }
    jout_object_end(&jout);
    jout_object_end(&jout);
    return jout_end(&jout);
}

static struct fault put_trailer(const struct feed_render *render, const struct feed_record *last, struct buf *out)
{
    const struct feed_range *range = &render->range;
    char stamp[32];
    struct jout jout;
    stamp_of(last->time, stamp);
    jout_init(&jout, out);
    put_head(render, &jout, stamp);
    jout_key(&jout, "trailer");
    jout_object(&jout);
    jout_key_hex(&jout, "chain_head", SPAN_ARRAY(range->head.at));
    jout_key_hex(&jout, "chain_seed", SPAN_ARRAY(range->seed.at));
    jout_key_int(&jout, "count", range->last - range->first + 1);
    jout_key_text(&jout, "feed_id", render->feed_id);
    jout_key_int(&jout, "first_sequence", range->first);
    jout_key_int(&jout, "last_sequence", range->last);
    jout_key_text(&jout, "tenant_id", render->tenant.text);
    jout_object_end(&jout);
    jout_object_end(&jout);
    jout_object_end(&jout);
    return jout_end(&jout);
}

/* ---- requests ---- */

/* A channel of its own for each version of a feed: a GUID, and the same after a restart. */
static struct fault channel_of(struct op *op, const struct feed_send *send, struct uuid *ret_channel)
{
    const uint8_t version[4] = { (uint8_t)(send->version >> 24), (uint8_t)(send->version >> 16),
                                 (uint8_t)(send->version >> 8), (uint8_t)send->version };
    const struct span parts[] = { span_text(op->tenant.text), span_text(send->feed_id), SPAN_ARRAY(version) };
    return uuid_derive("audit.feed.channel", parts, COUNT_OF(parts), ret_channel);
}

static struct fault url_of(struct op *op, const struct feed_config *config, const char *path, const char **ret_url)
{
    size_t len = strlen(config->url);
    while (len > 0 && config->url[len - 1] == '/') {
        len--;
    }
    return arena_printf(op->arena, ret_url, "%.*s%s", (int)len, config->url, path);
}

static struct fault endpoint(struct op *op, const struct feed_send *send, const char **ret_url)
{
    return url_of(op, send->config, EVENT_PATH, ret_url);
}

static struct fault authenticate(struct op *op, const struct feed_send *send, struct http_request *request,
                                 struct secret **ret_token, struct feed_result *result)
{
    const char **headers = NULL;
    struct uuid channel;
    if (!feed_secret_read(send->config->credential, ret_token)) {
        result->error = FEED_NO_CREDENTIAL;
        return FAULT(FEED_UNAVAILABLE);
    }
    TRY(channel_of(op, send, &channel));
    TRY(arena_take(op->arena, 2, sizeof(*headers), &headers));
    TRY(arena_printf(op->arena, &headers[0], "X-Splunk-Request-Channel: %s", channel.text));
    request->headers = headers;
    request->token = *ret_token;
    request->token_scheme = "Splunk";
    return OK;
}

/* ---- answers ---- */

struct fault hec_answer_read(struct op *op, struct span body, struct hec_answer *ret_answer)
{
    struct jin_member *members = NULL;
    struct hec_answer answer = { .code = -1, .ack_id = -1 };
    size_t count = 0;
    TRY(jin_members(op, body, 16, &members, &count));
    for (size_t i = 0; i < count; i++) {
        int64_t *to = strcmp(members[i].name, "code") == 0    ? &answer.code
                      : strcmp(members[i].name, "ackId") == 0 ? &answer.ack_id
                                                              : NULL;
        if (to == NULL) {
            continue;
        }
        int64_t value = 0;
        REQUIRE(members[i].type == JIN_TYPE_NUMBER && members[i].value.len <= 18, JSON_FIELD);
        for (size_t j = 0; j < members[i].value.len; j++) {
            uint8_t digit = members[i].value.at[j];
            REQUIRE(digit >= '0' && digit <= '9', JSON_FIELD);
            value = value * 10 + (digit - '0');
        }
        *to = value;
    }
    *ret_answer = answer;
    return OK;
}

struct fault hec_ack_read(struct op *op, struct span body, const char *ack_id, bool *ret_indexed)
{
    struct jin_member *members = NULL, *acks = NULL;
    size_t count = 0, ack_count = 0;
    TRY(jin_members(op, body, 16, &members, &count));
    for (size_t i = 0; i < count; i++) {
        if (strcmp(members[i].name, "acks") == 0) {
            REQUIRE(members[i].type == JIN_TYPE_OBJECT && acks == NULL, JSON_FIELD);
            TRY(jin_members(op, members[i].value, 16, &acks, &ack_count));
        }
    }
    for (size_t i = 0; i < ack_count; i++) {
        if (strcmp(acks[i].name, ack_id) == 0) {
            REQUIRE(acks[i].type == JIN_TYPE_BOOL, JSON_FIELD);
            *ret_indexed = span_equal_text(acks[i].value, "true");
            return OK;
        }
    }
    return FAULT(JSON_FIELD);
}

/* The collector's codes that say more than the status. */
static enum feed_error refusal_of(long status, int64_t code)
{
    if (status == 401 || status == 403) {
        return FEED_CREDENTIAL;
    }
    bool no_ack = status == 400 && (code == 10 || code == 11 || code == 14); /* channel missing, bad; disabled */
    return no_ack ? FEED_NO_ACK : feed_status_error(status);
}

static void acknowledge(struct op *op, const struct feed_send *send, const struct http_answer *answer,
                        struct feed_result *result)
{
    struct hec_answer said = { .code = -1, .ack_id = -1 };
    struct fault_note note = op->note;
    bool read = !FAULTED(hec_answer_read(op, buf_span(&answer->body), &said));
    op->note = note;
    if (answer->status != 200) {
        result->error = refusal_of(answer->status, said.code);
    } else if (!read || said.code != 0) {
        result->error = FEED_ANSWER;
    } else if (!wants_ack(send->config)) {
        result->error = FEED_FINE;
    } else if (said.ack_id < 0) {
        result->error = FEED_NO_ACK;
    } else {
        (void)snprintf(result->receipt, sizeof(result->receipt), "%lld", (long long)said.ack_id);
        result->error = FEED_UNACKNOWLEDGED;
    }
}

static struct fault ask_ack(struct op *op, const struct feed_send *send, const char *receipt,
                            struct feed_result *result)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(secret_freep) struct secret *token = NULL;
    struct http_request request = { .method = "POST", .content_type = "application/json" };
    const char *base = NULL, *body = NULL;
    struct uuid channel;
    bool indexed = false;
    TRY(authenticate(op, send, &request, &token, result));
    TRY(channel_of(op, send, &channel));
    TRY(url_of(op, send->config, ACK_PATH, &base));
    TRY(arena_printf(op->arena, &request.url, "%s?channel=%s", base, channel.text));
    TRY(arena_printf(op->arena, &body, "{\"acks\":[%s]}", receipt));
    request.body = span_text(body);
    TRY(feed_exchange(op, send, &request, &answer, FEED_UNREACHABLE, result));
    if (answer.status != 200) {
        result->error = refusal_of(answer.status, -1);
        return FAULT(FEED_UNAVAILABLE);
    }
    result->error = FEED_ANSWER;
    TRY(hec_ack_read(op, buf_span(&answer.body), receipt, &indexed));
    result->error = indexed ? FEED_FINE : FEED_UNACKNOWLEDGED;
    return OK;
}

static void confirm(struct op *op, const struct feed_send *send, const char *receipt, struct feed_result *result)
{
    (void)snprintf(result->receipt, sizeof(result->receipt), "%s", receipt);
    result->error = FEED_FAULTY;
    if (FAULTED(ask_ack(op, send, receipt, result))) { /* result says why, or it was ours to do */
        result->error = result->error == FEED_FINE ? FEED_FAULTY : result->error;
    }
}

static const char *const required[] = { "credential", NULL };
static const char *const takes[] = { "index", "source", "sourcetype", "source_host", "acknowledgement", NULL };

const struct feed_kind feed_hec = {
    .name = "hec",
    .doc = "HTTP Event Collector, with indexer acknowledgement",
    .scheme = "https",
    .port = "443",
    .required = required,
    .takes = takes,
    .check = check,
    .endpoint = endpoint,
    .content_type = "application/json",
    .request_id = "x-request-id:",
    .open = "",
    .between = "\n",
    .close = "",
    .item = put_item,
    .trailer = put_trailer,
    .authenticate = authenticate,
    .acknowledge = acknowledge,
    .confirm = confirm,
    .transport = feed_send_http,
    .records_max = 1000,
    .bytes_max = BYTES_MAX,
    .proof = "the collector says that the batch is indexed (acknowledgement: receipt: that it has received it)",
};
