#include "api/pkcs11/remote.h"

#include "api/pkcs11/exchange.h"
#include "appliance/base/json.h"

#include <stdio.h>

#define BODY_MAX             ((size_t)16 << 10)
#define PAGE_LIMIT           50
#define CURSOR_MAX           1024
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

/* What a preview says that its execution needs. */
struct previewed {
    const char *fingerprint, *principal;
};

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
    const char *principal;
    utc_us since;
    char from[CURSOR_MAX]; /* where the list began at the first look; ours is older, however many come meanwhile */
};

/* The same caller's signature of the same digest by the same key, of now: as good as the answer. */
static bool is_ours(struct remote *remote, const struct lost *lost, struct view operation)
{
    struct span digest = { 0 };
    utc_us created = 0;
    const char *encoding = view_member(remote->op, operation, "signature_encoding");
    const char *type = view_member(remote->op, operation, "artifact_type");
    const char *principal = view_member(remote->op, operation, "principal");
    const char *created_at = view_member(remote->op, operation, "created_at");
    bool ecdsa = strcmp(lost->order->scheme, "ecdsa") == 0;
    return encoding != NULL && strcmp(encoding, ecdsa ? "ecdsa-der" : lost->order->scheme) == 0 && type != NULL &&
           strcmp(type, remote->settings->artifact_type) == 0 && principal != NULL &&
           strcmp(principal, lost->principal) == 0 && created_at != NULL &&
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

static struct fault list_operations(struct remote *remote, const struct lost *lost, const char *filter,
                                    const char *cursor, struct view *ret_page)
{
    const char *path = NULL;
    TRY(arena_printf(remote->op->arena, &path, "/api/v1/code-signing/operations?mode=key&key_id=%s&%s%s%s",
                     lost->order->key_id, filter, cursor != NULL ? "&cursor=" : "", cursor != NULL ? cursor : ""));
    return exchange_once(remote, &(struct exchange){ .method = "GET", .path = path }, ret_page);
}

static const char *next_cursor(struct remote *remote, struct view page)
{
    const char *cursor = view_member(remote->op, page, "next_cursor");
    return cursor != NULL && is_cursor(cursor) && strlen(cursor) < CURSOR_MAX ? cursor : NULL;
}

static void mark_place(struct remote *remote, struct lost *lost)
{
    struct view page = { 0 };
    if (lost->from[0] == '\0' && !FAULTED(list_operations(remote, lost, "limit=1", NULL, &page))) {
        const char *cursor = next_cursor(remote, page);
        (void)snprintf(lost->from, sizeof(lost->from), "%s", cursor != NULL ? cursor : "");
    }
}

/* The appliance completes what it accepted, and then it is in the list, although nobody is told any more. Looking has
 * an operation of its own: it may happen often, and the list may be long. */
static bool find_lost(struct remote *remote, void *context, struct view *ret_view)
{
    CLEANUP(remote_end) struct remote looking = { 0 };
    struct lost *lost = context;
    const char *cursor = NULL;
    if (FAULTED(remote_begin(remote->settings, &looking))) {
        return false;
    }
    mark_place(&looking, lost);
    for (unsigned pages = 0; pages < OPERATIONS_PAGES_MAX; pages++) {
        struct view page = { 0 }, found;
        if (FAULTED(list_operations(&looking, lost, "state=completed&limit=200", cursor, &page))) {
            return false;
        }
        if (find_on_page(&looking, lost, page, &found)) {
            return !FAULTED(view_of(remote->op, found.json, ret_view));
        }
        cursor = pages == 0 && lost->from[0] != '\0' ? lost->from : next_cursor(&looking, page);
        if (cursor == NULL) {
            return false;
        }
    }
    return false;
}

static struct fault preview(struct remote *remote, const struct sign_order *order, struct view *ret_preview,
                            struct previewed *ret_previewed)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    struct fault fault = print_body(remote, order, NULL, &body);
    if (FAULTED(fault)) {
        return refuse_here(remote, fault, NULL);
    }
    const struct exchange exchange = {
        .method = "POST",
        .path = "/api/v1/code-signing/preview",
        .body = buf_span(&body),
    };
    TRY(exchange_until_answered(remote, &exchange, ret_preview));
    struct previewed previewed = {
        .fingerprint = view_member(remote->op, *ret_preview, "request_fingerprint"),
        .principal = view_member(remote->op, *ret_preview, "principal"),
    };
    if (previewed.fingerprint == NULL || previewed.principal == NULL) {
        return refuse_unexpected(remote, previewed.fingerprint == NULL ? "request_fingerprint" : "principal");
    }
    *ret_previewed = previewed;
    return OK;
}

static struct fault execute(struct remote *remote, const struct sign_order *order, const struct previewed *previewed,
                            struct view *ret_view)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT(BODY_MAX);
    struct uuid key = { 0 };
    struct lost lost = { .order = order, .principal = previewed->principal, .since = clock_utc() - SKEW_US };
    struct fault fault = print_body(remote, order, previewed->fingerprint, &body);
    if (!FAULTED(fault)) {
        fault = uuid_new(&key);
    }
    if (FAULTED(fault)) {
        return refuse_here(remote, fault, NULL);
    }
    const struct exchange exchange = {
        .method = "POST",
        .path = "/api/v1/code-signing/sign",
        .body = buf_span(&body),
        .idempotency_key = key.text,
        .is_done = find_lost,
        .context = &lost,
    };
    return exchange_until_answered(remote, &exchange, ret_view);
}

struct fault remote_approval(struct remote *remote, const struct sign_order *order, const char **ret_state)
{
    struct view seen = { 0 };
    struct previewed previewed;
    TRY(preview(remote, order, &seen, &previewed));
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
        struct previewed previewed;
        TRY(preview(remote, order, &seen, &previewed));
        fault = execute(remote, order, &previewed, ret_answer);
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
