/*
 * The Logs Ingestion API: a JSON array of rows to a stream of a data collection rule, with an OAuth 2 access token.
 * 204 means that the rows were taken in. A request holds 1 MB at most, a field 64 KB: longer records come in parts.
 */
#include "api/feeds/internal.h"

#define API_VERSION "2023-01-01"
#define BYTES_MAX   ((size_t)950 << 10)
#define PIECE_MAX   ((size_t)30000)

static bool is_segment(const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        bool good = (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9') ||
                    *at == '-' || *at == '_' || *at == '.';
        if (!good) {
            return false;
        }
    }
    return text[0] != '\0' && text[0] != '.';
}

static struct fault check(struct op *op, const struct feed_config *config)
{
    if (!is_segment(config->rule_id)) {
        return op_fail_field(op, FAULT(FEED_CONFIG), "/rule_id",
                             "must be the rule's immutable id, such as dcr-0123...");
    }
    if (!is_segment(config->stream)) {
        return op_fail_field(op, FAULT(FEED_CONFIG), "/stream", "must be a stream's name, such as Custom-SvcAudit");
    }
    return OK;
}

static size_t piece_max(const struct feed_config *config)
{
    (void)config;
    return PIECE_MAX;
}

static void put_head(const struct feed_render *render, const struct feed_record *record, const char *what,
                     struct jout *jout)
{
    jout_object(jout);
    jout_key_time(jout, "TimeGenerated", record->time);
    jout_key_text(jout, "Kind", what);
    jout_key_text(jout, "BatchId", render->batch_id.text);
    jout_key_text(jout, "FeedId", render->feed_id);
    jout_key_text(jout, "SvcTenant", render->tenant.text);
}

static struct fault put_item(const struct feed_render *render, const struct feed_item *item, struct buf *out)
{
    const struct feed_record *record = item->record;
    struct jout jout;
    jout_init(&jout, out);
    put_head(render, record, item->oversize ? "digest" : "record", &jout);
    jout_key_int(&jout, "Sequence", record->sequence);
    jout_key_text(&jout, "EventId", record->event_id);
    jout_key_text(&jout, "EventType", record->type);
    jout_key_text(&jout, "Actor", record->actor);
    jout_key_hex(&jout, "Chain", SPAN_ARRAY(record->chain.at));
    jout_key_int(&jout, "Part", item->part);
    jout_key_int(&jout, "Parts", item->parts);
    if (item->oversize) {
        struct sha256 digest;
        TRY(sha256_of(record->record, &digest));
        jout_key_int(&jout, "RecordBytes", (int64_t)record->record.len);
        jout_key_hex(&jout, "RecordSha256", SPAN_ARRAY(digest.at));
    } else {
        jout_key(&jout, "Record");
        jout_span_text(&jout, item->piece);
    }
    jout_object_end(&jout);
    return jout_end(&jout);
}

static struct fault put_trailer(const struct feed_render *render, const struct feed_record *last, struct buf *out)
{
    const struct feed_range *range = &render->range;
    struct jout jout;
    jout_init(&jout, out);
    put_head(render, last, "trailer", &jout);
    jout_key_hex(&jout, "ChainSeed", SPAN_ARRAY(range->seed.at));
    jout_key_hex(&jout, "ChainHead", SPAN_ARRAY(range->head.at));
    jout_key_int(&jout, "FirstSequence", range->first);
    jout_key_int(&jout, "LastSequence", range->last);
    jout_key_int(&jout, "RecordCount", range->last - range->first + 1);
    jout_object_end(&jout);
    return jout_end(&jout);
}

static struct fault endpoint(struct op *op, const struct feed_send *send, const char **ret_url)
{
    const struct feed_config *config = send->config;
    size_t len = strlen(config->url);
    while (len > 0 && config->url[len - 1] == '/') {
        len--;
    }
    return arena_printf(op->arena, ret_url, "%.*s/dataCollectionRules/%s/streams/%s?api-version=" API_VERSION, (int)len,
                        config->url, config->rule_id, config->stream);
}

static struct fault authenticate(struct op *op, const struct feed_send *send, struct http_request *request,
                                 struct secret **ret_token, struct feed_result *result)
{
    const char **headers = NULL;
    result->error = azure_token_get(op, send, ret_token, &result->old_token, result);
    if (result->error != FEED_FINE) {
        return FAULT(FEED_UNAVAILABLE);
    }
    TRY(arena_take(op->arena, 2, sizeof(*headers), &headers));
    TRY(arena_printf(op->arena, &headers[0], "x-ms-client-request-id: %s", send->batch_id.text));
    request->headers = headers;
    request->token = *ret_token;
    return OK;
}

static void acknowledge(struct op *op, const struct feed_send *send, const struct http_answer *answer,
                        struct feed_result *result)
{
    if (answer->status == 204) {
        result->error = FEED_FINE;
        return;
    }
    if (answer->status != 401 && answer->status != 403) {
        result->error = answer->status == 200 ? FEED_ANSWER : feed_status_error(answer->status);
        return;
    }
    azure_token_forget(op, send);
    result->error = result->old_token ? FEED_FAULTY : FEED_CREDENTIAL; /* another one is worth a try */
}

static const char *const required[] = { "credential", "client_id", "token_url", "rule_id", "stream", NULL };
static const char *const takes[] = { "scope", NULL };

const struct feed_kind feed_azure = {
    .name = "azure-monitor",
    .doc = "Logs Ingestion API of Azure Monitor",
    .scheme = "https",
    .port = "443",
    .required = required,
    .takes = takes,
    .check = check,
    .endpoint = endpoint,
    .content_type = "application/json",
    .request_id = "x-ms-request-id:",
    .open = "[",
    .between = ",",
    .close = "]",
    .item = put_item,
    .trailer = put_trailer,
    .authenticate = authenticate,
    .acknowledge = acknowledge,
    .transport = feed_send_http,
    .records_max = 1000,
    .bytes_max = BYTES_MAX,
    .piece_max = piece_max,
    .proof = "the ingestion endpoint answers 204 to the whole batch",
};
