/* A batch to a collector that speaks HTTP. What it answers is read and dropped: nothing of it is kept or shown. */
#include "api/feeds/internal.h"

#define ANSWER_MAX   ((size_t)64 << 10)
#define LIMIT_NS     (20 * NS_PER_S)
#define LEAST_NS     NS_PER_S
#define RETRY_MOST_S 3600

static int64_t read_seconds(const char *text)
{
    int64_t seconds = 0;
    for (const char *at = text; *at >= '0' && *at <= '9' && seconds < RETRY_MOST_S; at++) {
        seconds = seconds * 10 + (*at - '0');
    }
    return seconds < RETRY_MOST_S ? seconds : RETRY_MOST_S;
}

void feed_request_id_take(struct feed_result *result, const char *text)
{
    size_t len = strlen(text);
    bool good = len > 0 && len <= FEED_REQUEST_ID_MAX;
    for (size_t i = 0; good && i < len; i++) {
        char c = text[i];
        good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               (c != '\0' && strchr("-_.:/", c) != NULL);
    }
    if (good) {
        (void)snprintf(result->request_id, sizeof(result->request_id), "%s", text);
    }
}

/* Never: it has understood and does not want it. Anything else may pass. */
enum feed_error feed_status_error(long status)
{
    if (status == 429 || status == 503) {
        return FEED_BUSY;
    }
    bool refusal = status == 400 || status == 404 || status == 405 || status == 410 || status == 411 || status == 413 ||
                   status == 414 || status == 415 || status == 422;
    return refusal ? FEED_REJECTED : status >= 500 || status == 408 || status == 425 ? FEED_FAULTY : FEED_ANSWER;
}

struct fault feed_exchange(struct op *op, const struct feed_send *send, struct http_request *request,
                           struct http_answer *answer, enum feed_error unreachable, struct feed_result *result)
{
    char why[512] = "";
    mono_ns left = send->deadline - clock_mono();
    struct feed_host host;
    request->plain_too = feed_url_read(request->url, "https", "443", &host) && host.plain;
    /* A query is no part of what feed_url_read takes: only the confirmation's own has one. */
    request->plain_too = request->plain_too || strncmp(send->config->url, "http://", 7) == 0;
    request->ca_pem = span_text(send->config->ca_pem);
    request->keep = send->config->ca_pem == NULL;
    request->timeout_ns = left < LIMIT_NS ? left : LIMIT_NS;
    request->stopping = send->stopping;
    request->answer_max = ANSWER_MAX;
    result->error = unreachable;
    if (request->timeout_ns < LEAST_NS) {
        return FAULT(FEED_UNAVAILABLE);
    }
    struct fault fault = http_send(request, why, sizeof(why), answer);
    if (FAULTED(fault)) {
        op_note_log(op, "%s", why);
        return fault;
    }
    result->retry_after_s = read_seconds(answer->retry_after);
    return OK;
}

static struct fault post(struct op *op, const struct feed_send *send, struct feed_result *result)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    CLEANUP(secret_freep) struct secret *token = NULL;
    struct http_request request = { .method = "POST",
                                    .content_type = send->kind->content_type,
                                    .body = send->body,
                                    .accept = "application/json",
                                    .want = send->kind->request_id };
    TRY(send->kind->endpoint(op, send, &request.url));
    TRY(send->kind->authenticate(op, send, &request, &token, result));
    TRY(feed_exchange(op, send, &request, &answer, FEED_UNREACHABLE, result));
    feed_request_id_take(result, answer.wanted);
    send->kind->acknowledge(op, send, &answer, result);
    return OK;
}

void feed_send_http(struct op *op, const struct feed_send *send, struct feed_result *result)
{
    char receipt[FEED_RECEIPT_MAX + 1] = "";
    bool asks = send->kind->confirm != NULL;
    result->error = FEED_FAULTY;
    if (asks) {
        (void)snprintf(receipt, sizeof(receipt), "%s", send->receipt);
    }
    if (receipt[0] == '\0') {
        if (FAULTED(post(op, send, result))) { /* result says why, or it was ours to do */
            result->error = result->error == FEED_FINE ? FEED_FAULTY : result->error;
        }
        if (result->error != FEED_UNACKNOWLEDGED || !asks) {
            return;
        }
        (void)snprintf(receipt, sizeof(receipt), "%s", result->receipt);
    }
    send->kind->confirm(op, send, receipt, result);
}
