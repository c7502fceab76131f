#include "api/pkcs11/remote.h"

#include "api/pkcs11/exchange.h"
#include "appliance/base/json.h"

#include <stdio.h>

#define BODY_MAX             ((size_t)16 << 10)
#define PAGE_LIMIT           50
#define OPERATIONS_LIMIT     200
#define OPERATIONS_PAGES_MAX 5
#define SKEW_US              (300 * US_PER_S) /* how far the appliance's clock may be off ours */

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

/* It goes into a URL as it is. */
static bool is_cursor(const char *text)
{
    static const char of_cursor[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.~";
    return text[strspn(text, of_cursor)] == '\0';
}

struct fault remote_keys(struct remote *remote, const char *cursor, struct view *ret_page)
{
    const char *path = NULL;
    if (cursor != NULL && !is_cursor(cursor)) {
        return refuse_unexpected(remote, "next_cursor");
    }
    struct fault fault =
        arena_printf(remote->op->arena, &path, "/api/v1/keys?purpose=codesign&state=active&limit=%d%s%s", PAGE_LIMIT,
                     cursor != NULL ? "&cursor=" : "", cursor != NULL ? cursor : "");
    if (FAULTED(fault)) {
        return refuse_here(remote, fault, NULL);
    }
    return exchange_until_answered(remote, &(struct exchange){ .method = "GET", .path = path }, ret_page);
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

/* ---- a signing whose answer was lost together with the process that worked on it ---- */

struct lost {
    const struct sign_order *order;
    utc_us since;
};

static bool is_ours(struct remote *remote, const struct lost *lost, struct view operation)
{
    struct span digest = { 0 };
    utc_us created = 0;
    const char *encoding = view_member(remote->op, operation, "signature_encoding");
    const char *type = view_member(remote->op, operation, "artifact_type");
    const char *created_at = view_member(remote->op, operation, "created_at");
    bool ecdsa = strcmp(lost->order->scheme, "ecdsa") == 0;
    return encoding != NULL && strcmp(encoding, ecdsa ? "ecdsa-der" : lost->order->scheme) == 0 && type != NULL &&
           strcmp(type, remote->settings->artifact_type) == 0 && created_at != NULL &&
           !FAULTED(rfc3339_parse(span_text(created_at), &created)) && created >= lost->since &&
           !FAULTED(view_base64(remote->op, view_get(operation, "digest"), &digest)) &&
           span_equal(digest, lost->order->digest);
}

static bool find_on_page(struct remote *remote, const struct lost *lost, struct view page, struct view *ret_found)
{
    struct view rest = view_get(page, "items"), item;
    while (view_next(&rest, &item)) {
        if (is_ours(remote, lost, item)) {
            *ret_found = item;
            return true;
        }
    }
    return false;
}

static struct fault next_operations(struct remote *remote, const struct lost *lost, const char *cursor,
                                    struct view *ret_page)
{
    const char *path = NULL;
    TRY(arena_printf(
        remote->op->arena, &path, "/api/v1/code-signing/operations?state=completed&mode=key&key_id=%s&limit=%d%s%s",
        lost->order->key_id, OPERATIONS_LIMIT, cursor != NULL ? "&cursor=" : "", cursor != NULL ? cursor : ""));
    return exchange_once(remote, &(struct exchange){ .method = "GET", .path = path }, ret_page);
}

/* The appliance completes what it accepted, and then it is in the list, although nobody is told any more. Looking has
 * an operation of its own: it may happen often, and the list may be long. */
static bool find_lost(struct remote *remote, const void *context, struct view *ret_view)
{
    CLEANUP(remote_end) struct remote looking = { 0 };
    const struct lost *lost = context;
    const char *cursor = NULL;
    if (FAULTED(remote_begin(remote->settings, &looking))) {
        return false;
    }
    for (unsigned pages = 0; pages < OPERATIONS_PAGES_MAX; pages++) {
        struct view page = { 0 }, found;
        if (FAULTED(next_operations(&looking, lost, cursor, &page))) {
            return false;
        }
        if (find_on_page(&looking, lost, page, &found)) {
            return !FAULTED(view_of(remote->op, found.json, ret_view));
        }
        cursor = view_member(looking.op, page, "next_cursor");
        if (cursor == NULL || !is_cursor(cursor)) {
            return false;
        }
    }
    return false;
}

/* Preview without a fingerprint, execution with one. */
static struct fault post(struct remote *remote, const struct sign_order *order, const char *fingerprint,
                         struct view *ret_view)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    struct uuid key = { 0 };
    const struct lost lost = { .order = order, .since = clock_utc() - SKEW_US };
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
        .is_done = fingerprint != NULL ? find_lost : NULL,
        .context = &lost,
    };
    return exchange_until_answered(remote, &exchange, ret_view);
}

static struct fault preview(struct remote *remote, const struct sign_order *order, struct view *ret_preview,
                            const char **ret_fingerprint)
{
    TRY(post(remote, order, NULL, ret_preview));
    const char *fingerprint = view_member(remote->op, *ret_preview, "request_fingerprint");
    if (fingerprint == NULL) {
        return refuse_unexpected(remote, "request_fingerprint");
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
        return refuse_unexpected(remote, "signature");
    }
    return OK;
}
