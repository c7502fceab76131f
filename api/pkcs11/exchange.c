#include "api/pkcs11/exchange.h"

#include "appliance/http/http.h"

#include <poll.h>
#include <stdio.h>

#define ANSWER_MAX   ((size_t)6 << 20)
#define URL_MAX      ((size_t)4096)
#define TRIES        8 /* of what has no effect: who has a wrong address need not wait for the deadline */
#define PAUSE_MIN_MS 100
#define PAUSE_MAX_MS 2000
#define RETRY_MAX_S  3600
#define USER_AGENT   "svc-pkcs11/" SVC_VERSION

struct fault refuse_here(struct remote *remote, struct fault fault, const char *code)
{
    const struct op *op = remote->op;
    struct refusal *refusal = &remote->refusal;
    *refusal = (struct refusal){ .fault = fault };
    (void)snprintf(refusal->code, sizeof(refusal->code), "%s", code != NULL ? code : fault_row(fault.code)->text);
    (void)snprintf(refusal->detail, sizeof(refusal->detail), "%s",
                   op != NULL && op->note.set ? op->note.detail : fault_row(fault.code)->title);
    return fault;
}

struct fault refuse_unexpected(struct remote *remote, const char *member)
{
    struct fault fault = refuse_here(remote, FAULT(INTERNAL), "unexpected_answer");
    (void)snprintf(remote->refusal.detail, sizeof(remote->refusal.detail),
                   "the answer has no acceptable \"%s\": is SVC_BASE_URL the address of an appliance of this version?",
                   member);
    return fault;
}

static struct fault send_once(struct remote *remote, const struct exchange *exchange, struct http_answer *answer)
{
    const struct settings *settings = remote->settings;
    CLEANUP(buf_free) struct buf url = BUF_INIT(URL_MAX);
    const char *text = NULL;
    TRY(buf_printf(&url, "%s%s", settings->base_url, exchange->path));
    TRY(buf_cstr(&url, &text));
    int64_t left_ns = (int64_t)clock_ms_left(remote->op->deadline) * NS_PER_MS;
    const struct http_request request = {
        .method = exchange->method,
        .url = text,
        .content_type = exchange->body.len > 0 ? "application/json" : NULL,
        .body = exchange->body,
        .accept = "application/json",
        .idempotency_key = exchange->idempotency_key,
        .ca_file = settings->ca_file,
        .token = remote->token,
        .user_agent = USER_AGENT,
        .advise = true,
        .keep = true,
        /* One that hangs leaves time for another: half of what is left, all of it at last. */
        .timeout_ns = left_ns > 2 * NS_PER_S ? left_ns / 2 : left_ns,
        .answer_max = ANSWER_MAX,
    };
    return http_send(&request, remote->refusal.detail, sizeof(remote->refusal.detail), answer);
}

static void refuse_unanswered(struct remote *remote, struct fault fault)
{
    struct refusal *refusal = &remote->refusal;
    refusal->fault = fault;
    refusal->status = 0;
    refusal->pointer[0] = refusal->resource[0] = refusal->trace[0] = '\0';
    (void)snprintf(refusal->code, sizeof(refusal->code), "unreachable");
}

/* As the server asks, else longer and longer. */
static int pause_ms(unsigned tries, const char *retry_after)
{
    int seconds = 0;
    for (const char *digit = retry_after; *digit >= '0' && *digit <= '9' && seconds < RETRY_MAX_S; digit++) {
        seconds = seconds * 10 + (*digit - '0');
    }
    if (seconds > 0) {
        return (seconds < RETRY_MAX_S ? seconds : RETRY_MAX_S) * 1000;
    }
    return tries < 5 ? PAUSE_MIN_MS << tries : PAUSE_MAX_MS;
}

/* Waits before a repetition; false when the deadline comes first. */
static bool pause_before(const struct remote *remote, unsigned try, const char *retry_after)
{
    int ms = pause_ms(try, retry_after);
    if (clock_ms_left(remote->op->deadline) <= ms) {
        return false;
    }
    (void)poll(NULL, 0, ms);
    return true;
}

static bool is_worth_repeating(const struct refusal *refusal)
{
    return refusal->status == 0 || refusal->status == 429 || refusal->status == 502 || refusal->status == 503 ||
           refusal->status == 504 || fault_row(refusal->fault.code)->retry == FAULT_RETRY_LATER;
}

/* OK when this try settled it; else remote's refusal tells. */
static struct fault try_once(struct remote *remote, const struct exchange *exchange, struct http_answer *answer,
                             struct view *ret_view)
{
    struct fault fault = send_once(remote, exchange, answer);
    if (FAULTED(fault)) {
        refuse_unanswered(remote, fault);
        return fault;
    }
    bool success = answer->status >= 200 && answer->status < 300;
    if (success && !FAULTED(view_of(remote->op, buf_span(&answer->body), ret_view))) {
        return OK;
    }
    refusal_read(remote->op, answer->status, buf_span(&answer->body), &remote->refusal);
    return remote->refusal.fault;
}

struct fault exchange_once(struct remote *remote, const struct exchange *exchange, struct view *ret_view)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    return try_once(remote, exchange, &answer, ret_view);
}

static bool is_done(struct remote *remote, const struct exchange *exchange, struct view *ret_view)
{
    bool running = remote->refusal.fault.code == FAULT_IDEMPOTENCY_IN_PROGRESS;
    return running && exchange->is_done != NULL && exchange->is_done(remote, exchange->context, ret_view);
}

struct fault exchange_until_answered(struct remote *remote, const struct exchange *exchange, struct view *ret_view)
{
    for (unsigned try = 0;; try++) {
        CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
        struct fault fault = try_once(remote, exchange, &answer, ret_view);
        bool more = exchange->idempotency_key != NULL || try + 1 < TRIES;
        if (!FAULTED(fault) || is_done(remote, exchange, ret_view)) {
            return OK;
        }
        if (!is_worth_repeating(&remote->refusal) || !more || !pause_before(remote, try, answer.retry_after)) {
            return fault;
        }
    }
}
