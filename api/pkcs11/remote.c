#include "api/pkcs11/remote.h"

#include "appliance/base/json.h"
#include "appliance/http/http.h"

#include <poll.h>
#include <stdio.h>

#define ANSWER_MAX   ((size_t)6 << 20)
#define BODY_MAX     ((size_t)16 << 10)
#define URL_MAX      ((size_t)4096)
#define PAGE_LIMIT   50
#define TRIES        8 /* of what has no effect: who has a wrong address need not wait for the deadline */
#define PAUSE_MIN_MS 100
#define PAUSE_MAX_MS 2000
#define RETRY_MAX_S  10
#define USER_AGENT   "svc-pkcs11/" SVC_VERSION

/* What this side found out itself, in a refusal's form. */
static struct fault refuse_here(struct remote *remote, struct fault fault, const char *code)
{
    const struct op *op = remote->op;
    struct refusal *refusal = &remote->refusal;
    *refusal = (struct refusal){ .fault = fault };
    (void)snprintf(refusal->code, sizeof(refusal->code), "%s", code != NULL ? code : fault_row(fault.code)->text);
    (void)snprintf(refusal->detail, sizeof(refusal->detail), "%s",
                   op != NULL && op->note.set ? op->note.detail : fault_row(fault.code)->title);
    return fault;
}

static struct fault unexpected(struct remote *remote, const char *what)
{
    struct fault fault = refuse_here(remote, FAULT(INTERNAL), "unexpected_answer");
    (void)snprintf(remote->refusal.detail, sizeof(remote->refusal.detail),
                   "the answer has no acceptable \"%s\": is SVC_BASE_URL the address of an appliance of this version?",
                   what);
    return fault;
}

struct fault remote_begin(struct settings *settings, struct remote *remote)
{
    remote->settings = settings_ref(settings);
    struct fault fault =
        op_new("pkcs11", (struct tenant_id){ 0 }, (int)(settings->timeout_ns / NS_PER_MS), &remote->op);
    if (!FAULTED(fault)) {
        fault = settings_token(settings, remote->op, &remote->token);
    }
    return FAULTED(fault) ? refuse_here(remote, fault, NULL) : OK;
}

void remote_end(struct remote *remote)
{
    secret_free(TAKE(remote->token));
    op_free(TAKE(remote->op));
    settings_unref(TAKE(remote->settings));
}

/* ---- one exchange, and its repetition ---- */

struct exchange {
    const char *method, *path;
    struct span body;
    const char *idempotency_key;
};

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

static int pause_ms(unsigned try, const char *retry_after)
{
    int seconds = 0;
    for (const char *digit = retry_after; *digit >= '0' && *digit <= '9' && seconds < RETRY_MAX_S; digit++) {
        seconds = seconds * 10 + (*digit - '0');
    }
    if (seconds > 0) {
        return (seconds < RETRY_MAX_S ? seconds : RETRY_MAX_S) * 1000;
    }
    return try < 5 ? PAUSE_MIN_MS <<
    try : PAUSE_MAX_MS
        ;
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

/* What was sent with an Idempotency-Key may have taken place: it is asked after until the deadline. */
static struct fault send_until_answered(struct remote *remote, const struct exchange *exchange, struct view *ret_view)
{
    for (unsigned try = 0;; try++) {
        CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
        struct fault fault = try_once(remote, exchange, &answer, ret_view);
        bool more = exchange->idempotency_key != NULL || try + 1 < TRIES;
        if (!FAULTED(fault) || !is_worth_repeating(&remote->refusal) || !more ||
            !pause_before(remote, try, answer.retry_after)) {
            return fault;
        }
    }
}

struct fault remote_keys(struct remote *remote, const char *cursor, struct view *ret_page)
{
    static const char of_cursor[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~";
    const char *path = NULL;
    if (cursor != NULL && cursor[strspn(cursor, of_cursor)] != '\0') {
        return unexpected(remote, "next_cursor");
    }
    struct fault fault =
        arena_printf(remote->op->arena, &path, "/api/v1/keys?purpose=codesign&state=active&limit=%d%s%s", PAGE_LIMIT,
                     cursor != NULL ? "&cursor=" : "", cursor != NULL ? cursor : "");
    if (FAULTED(fault)) {
        return refuse_here(remote, fault, NULL);
    }
    return send_until_answered(remote, &(struct exchange){ .method = "GET", .path = path }, ret_page);
}

/* ---- signing ---- */

static struct fault print_body(const struct remote *remote, const struct sign_order *order, const char *fingerprint,
                               struct buf *out)
{
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_text(&jout, "key_id", order->key_id);
    jout_key_text(&jout, "artifact_type", remote->settings->artifact_type);
    jout_key_base64(&jout, "digest", order->digest);
    if (order->hash->len != SHA256_LEN) { /* the default goes without saying */
        jout_key_text(&jout, "digest_algorithm", order->hash->name);
    }
    jout_key_text(&jout, "signature_scheme", order->scheme);
    if (fingerprint != NULL) {
        jout_key_text(&jout, "preview_fingerprint", fingerprint);
    }
    jout_object_end(&jout);
    return jout_end(&jout);
}

/* Preview without a fingerprint, execution with one. */
static struct fault post(struct remote *remote, const struct sign_order *order, const char *fingerprint,
                         struct view *ret_view)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    struct uuid key = { 0 };
    struct fault fault = print_body(remote, order, fingerprint, &body);
    if (!FAULTED(fault) && fingerprint != NULL) {
        fault = uuid_new(&key);
    }
    if (FAULTED(fault)) {
        return refuse_here(remote, fault, NULL);
    }
    const struct exchange exchange = {
        .method = "POST",
        .path = fingerprint != NULL ? "/api/v1/code-signing/sign" : "/api/v1/code-signing/preview",
        .body = buf_span(&body),
        .idempotency_key = fingerprint != NULL ? key.text : NULL,
    };
    return send_until_answered(remote, &exchange, ret_view);
}

static struct fault preview(struct remote *remote, const struct sign_order *order, struct view *ret_preview,
                            const char **ret_fingerprint)
{
    TRY(post(remote, order, NULL, ret_preview));
    const char *fingerprint = view_member(remote->op, *ret_preview, "request_fingerprint");
    if (fingerprint == NULL) {
        return unexpected(remote, "request_fingerprint");
    }
    *ret_fingerprint = fingerprint;
    return OK;
}

struct fault remote_approval(struct remote *remote, const struct sign_order *order, const char **ret_state)
{
    struct view seen = { 0 };
    const char *fingerprint = NULL;
    TRY(preview(remote, order, &seen, &fingerprint));
    const char *state = view_member(remote->op, seen, "approval.state");
    *ret_state = state != NULL ? state : "";
    return OK;
}

/* The preview knows which rule it is, and why. */
static void explain_denial(struct remote *remote, struct view seen)
{
    struct refusal *refusal = &remote->refusal;
    const char *rule = view_member(remote->op, seen, "policy.rule");
    const char *reason = view_member(remote->op, seen, "policy.reason");
    if (refusal->fault.code == FAULT_POLICY_DENIED && rule != NULL) {
        size_t used = strlen(refusal->detail);
        (void)snprintf(refusal->detail + used, sizeof(refusal->detail) - used, "; rule %s%s%s", rule,
                       reason != NULL ? ": " : "", reason != NULL ? reason : "");
    }
}

/* What was previewed may change before it is executed; a second preview is as good as the first. */
static struct fault sign_previewed(struct remote *remote, const struct sign_order *order, struct view *ret_answer)
{
    struct fault fault = FAULT(PREVIEW_CHANGED);
    for (unsigned try = 0; try < 2 && fault.code == FAULT_PREVIEW_CHANGED; try++) {
        struct view seen = { 0 };
        const char *fingerprint = NULL;
        TRY(preview(remote, order, &seen, &fingerprint));
        fault = post(remote, order, fingerprint, ret_answer);
        if (FAULTED(fault)) {
            explain_denial(remote, seen);
        }
    }
    return fault;
}

struct fault remote_sign(struct remote *remote, const struct sign_order *order, struct span *ret_signature)
{
    struct view answer = { 0 };
    TRY(sign_previewed(remote, order, &answer));
    if (FAULTED(view_base64(remote->op, view_get(answer, "signature"), ret_signature))) {
        return unexpected(remote, "signature");
    }
    return OK;
}
