/*
 * Access tokens by client credentials (RFC 6749 4.4), kept in memory until shortly before their end. What they were
 * made from is remembered as a digest: other credentials, another token.
 */
#include "api/feeds/internal.h"

#include "appliance/base/alloc.h"

#define SCOPE       "https://monitor.azure.com//.default"
#define TOKENS_MAX  32u
#define MARGIN_NS   (60 * NS_PER_S)
#define LIFE_MOST_S 86400
#define ANSWER_MAX  ((size_t)64 << 10)

struct feed_token {
    struct sha256 made_from;
    struct secret *token;
    mono_ns until;
    struct feed_token *next;
};

static void lock(struct feeds *feeds)
{
    BUG_IF(pthread_mutex_lock(&feeds->lock) != 0);
}

static void unlock(struct feeds *feeds)
{
    BUG_IF(pthread_mutex_unlock(&feeds->lock) != 0);
}

static void drop_locked(struct feed_token **at)
{
    struct feed_token *gone = *at;
    *at = gone->next;
    secret_free(gone->token);
    mem_free(gone);
}

void azure_tokens_free(struct feeds *feeds)
{
    while (feeds->tokens != NULL) {
        drop_locked(&feeds->tokens);
    }
}

static bool find(struct feeds *feeds, const struct sha256 *made_from, struct secret **ret_token)
{
    bool found = false;
    lock(feeds);
    for (struct feed_token **at = &feeds->tokens; *at != NULL;) {
        if ((*at)->until <= clock_mono()) {
            drop_locked(at);
            continue;
        }
        if (span_equal(SPAN_ARRAY((*at)->made_from.at), SPAN_ARRAY(made_from->at))) {
            found = !FAULTED(secret_new(secret_span((*at)->token), ret_token));
            break;
        }
        at = &(*at)->next;
    }
    unlock(feeds);
    return found;
}

static void forget(struct feeds *feeds, const struct sha256 *made_from)
{
    lock(feeds);
    for (struct feed_token **at = &feeds->tokens; *at != NULL;) {
        if (span_equal(SPAN_ARRAY((*at)->made_from.at), SPAN_ARRAY(made_from->at))) {
            drop_locked(at);
        } else {
            at = &(*at)->next;
        }
    }
    unlock(feeds);
}

/* Not kept is not wrong: then the next batch asks for another one. */
static void keep(struct feeds *feeds, const struct sha256 *made_from, const struct secret *token, int64_t expires_s)
{
    CLEANUP(secret_freep) struct secret *copy = NULL;
    struct feed_token *made = NULL;
    int64_t life = (expires_s < LIFE_MOST_S ? expires_s : LIFE_MOST_S) * NS_PER_S - MARGIN_NS;
    if (life <= 0 || FAULTED(secret_new(secret_span(token), &copy)) || FAULTED(mem_new(1, sizeof(*made), &made))) {
        return;
    }
    *made = (struct feed_token){ .made_from = *made_from, .token = TAKE(copy), .until = clock_mono() + life };
    lock(feeds);
    made->next = feeds->tokens;
    feeds->tokens = made;
    size_t count = 0;
    for (struct feed_token **at = &feeds->tokens; *at != NULL;) {
        if (++count > TOKENS_MAX) {
            drop_locked(at);
        } else {
            at = &(*at)->next;
        }
    }
    unlock(feeds);
}

/* ---- the request ---- */

static struct fault put_encoded(struct buf *out, const char *name, struct span value)
{
    TRY(buf_printf(out, "%s%s=", out->len > 0 ? "&" : "", name));
    for (size_t i = 0; i < value.len; i++) {
        uint8_t c = value.at[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                     c == '.' || c == '_' || c == '~';
        TRY(plain ? buf_u8(out, c) : buf_printf(out, "%%%02X", c));
    }
    return OK;
}

static struct fault print_form(const struct feed_config *config, const struct secret *id, const struct secret *secret,
                               struct buf *form)
{
    TRY(put_encoded(form, "client_id", secret_span(id)));
    TRY(put_encoded(form, "client_secret", secret_span(secret)));
    TRY(put_encoded(form, "grant_type", span_text("client_credentials")));
    return put_encoded(form, "scope", span_text(config->scope != NULL ? config->scope : SCOPE));
}

static struct fault made_from(const struct op *op, const struct feed_config *config, const struct buf *form,
                              struct sha256 *ret_digest)
{
    static const char zero[1] = "";
    const struct span parts[] = { span_text(op->tenant.text), SPAN_ARRAY(zero), span_text(config->token_url),
                                  SPAN_ARRAY(zero), buf_span(form) };
    return sha256_of_parts(parts, COUNT_OF(parts), ret_digest);
}

struct fault azure_token_read(struct op *op, struct span body, struct azure_token_answer *ret_answer)
{
    struct jin_member *members = NULL;
    struct azure_token_answer answer = { .expires_s = 0 };
    size_t count = 0;
    bool bearer = false;
    TRY(jin_members(op, body, 32, &members, &count));
    for (size_t i = 0; i < count; i++) {
        const struct jin_member *member = &members[i];
        if (strcmp(member->name, "access_token") == 0 && member->type == JIN_TYPE_TEXT) {
            answer.token = member->value;
        } else if (strcmp(member->name, "token_type") == 0 && member->type == JIN_TYPE_TEXT) {
            bearer = member->value.len == 6 && strncasecmp((const char *)member->value.at, "bearer", 6) == 0;
        } else if (strcmp(member->name, "expires_in") == 0 && member->type == JIN_TYPE_NUMBER) {
            for (size_t j = 0; j < member->value.len && answer.expires_s < LIFE_MOST_S; j++) {
                uint8_t digit = member->value.at[j];
                REQUIRE(digit >= '0' && digit <= '9', JSON_FIELD);
                answer.expires_s = answer.expires_s * 10 + (digit - '0');
            }
        }
    }
    REQUIRE(bearer && answer.token.len > 0 && answer.token.len <= SECRET_MAX, JSON_FIELD);
    for (size_t i = 0; i < answer.token.len; i++) { /* it becomes a header */
        REQUIRE(answer.token.at[i] > ' ' && answer.token.at[i] < 0x7f, JSON_FIELD);
    }
    *ret_answer = answer;
    return OK;
}

static enum feed_error judge(struct op *op, const struct http_answer *answer, struct azure_token_answer *ret_answer)
{
    if (answer->status == 400 || answer->status == 401 || answer->status == 403) {
        return FEED_CREDENTIAL;
    }
    if (answer->status != 200) {
        return answer->status == 429 ? FEED_BUSY : FEED_NO_TOKEN;
    }
    return FAULTED(azure_token_read(op, buf_span(&answer->body), ret_answer)) ? FEED_ANSWER : FEED_FINE;
}

static enum feed_error ask(struct op *op, const struct feed_send *send, const struct buf *form,
                           const struct sha256 *from, struct secret **ret_token, struct feed_result *result)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    struct http_request request = { .method = "POST",
                                    .url = send->config->token_url,
                                    .content_type = "application/x-www-form-urlencoded",
                                    .body = buf_span(form),
                                    .answer_max = ANSWER_MAX };
    struct azure_token_answer read = { .expires_s = 0 };
    if (FAULTED(feed_exchange(op, send, &request, &answer, FEED_NO_TOKEN, result))) {
        return result->error;
    }
    enum feed_error error = judge(op, &answer, &read);
    if (error == FEED_FINE) {
        error = FAULTED(secret_new(read.token, ret_token)) ? FEED_NO_TOKEN : FEED_FINE;
        secret_wipe((void *)(uintptr_t)read.token.at, read.token.len); /* the arena's copy */
    }
    if (error == FEED_FINE) {
        keep(send->services->feeds, from, *ret_token, read.expires_s);
    }
    return error;
}

static bool make_form(struct op *op, const struct feed_send *send, struct buf *form, struct sha256 *ret_from)
{
    CLEANUP(secret_freep) struct secret *id = NULL;
    CLEANUP(secret_freep) struct secret *secret = NULL;
    return feed_secret_read(send->config->client_id, &id) && feed_secret_read(send->config->credential, &secret) &&
           !FAULTED(print_form(send->config, id, secret, form)) &&
           !FAULTED(made_from(op, send->config, form, ret_from));
}

enum feed_error azure_token_get(struct op *op, const struct feed_send *send, struct secret **ret_token,
                                bool *ret_cached, struct feed_result *result)
{
    CLEANUP(buf_free) struct buf form = BUF_INIT((size_t)32 << 10);
    struct sha256 from;
    if (!make_form(op, send, &form, &from)) {
        return FEED_NO_CREDENTIAL;
    }
    *ret_cached = find(send->services->feeds, &from, ret_token);
    return *ret_cached ? FEED_FINE : ask(op, send, &form, &from, ret_token, result);
}

void azure_token_forget(struct op *op, const struct feed_send *send)
{
    CLEANUP(buf_free) struct buf form = BUF_INIT((size_t)32 << 10);
    struct sha256 from;
    if (make_form(op, send, &form, &from)) {
        forget(send->services->feeds, &from);
    }
}
