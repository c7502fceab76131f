#include "api/telemetry/otlp.h"
#include "appliance/base/alloc.h"
#include "appliance/base/id.h"
#include "appliance/http/http.h"

#include <stdio.h>
#include <sys/stat.h>
#include <time.h>

#define URL_MAX       1024
#define CONTENT       "application/x-protobuf"
#define WAIT_FIRST_NS NS_PER_S
#define WAIT_SAID_NS  (600 * NS_PER_S) /* Retry-After counts up to here */
#define LEAST_NS      (100 * NS_PER_MS)

struct otlp_sender {
    const struct otlp_settings *settings;
    char url[URL_MAX];
    bool logs;
    struct secret *token; /* as it was in the file when `seen` was */
    struct stat seen;
};

/* ---- the token ---- */

/* A header field holds no control characters and no blanks. */
static bool fits_header(struct span token)
{
    for (size_t i = 0; i < token.len; i++) {
        if (token.at[i] <= ' ' || token.at[i] > '~') {
            return false;
        }
    }
    return token.len > 0;
}

static bool same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_mode == b->st_mode &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* A file that changed and cannot be used leaves no token: the old one was taken back. */
static struct fault read_token(struct otlp_sender *sender)
{
    struct stat now = { 0 };
    const char *path = sender->settings->token_file;
    if (path[0] == '\0') {
        return OK;
    }
    bool there = stat(path, &now) == 0;
    if (there && sender->token != NULL && same_file(&now, &sender->seen)) {
        return OK;
    }
    secret_free(TAKE(sender->token));
    REQUIRE(there, CONFIG);
    CLEANUP(secret_freep) struct secret *token = NULL;
    TRY(secret_from_file(path, &token));
    REQUIRE(fits_header(secret_span(token)), CONFIG);
    sender->token = TAKE(token);
    sender->seen = now;
    return OK;
}

struct fault otlp_sender_new(const struct otlp_settings *settings, const char *path, struct buf *why,
                             struct otlp_sender **ret_sender)
{
    CLEANUP(otlp_sender_freep) struct otlp_sender *sender = NULL;
    size_t len = strlen(settings->endpoint);
    while (len > 0 && settings->endpoint[len - 1] == '/') {
        len--;
    }
    TRY(mem_new(1, sizeof(*sender), &sender));
    sender->settings = settings;
    sender->logs = strcmp(path, "/v1/logs") == 0;
    int url = snprintf(sender->url, sizeof(sender->url), "%.*s%s", (int)len, settings->endpoint, path);
    REQUIRE(url > 0 && (size_t)url < sizeof(sender->url), CONFIG);
    struct fault fault = read_token(sender);
    if (FAULTED(fault)) {
        if (why != NULL) {
            IGNORE(buf_printf(why, "%s: must be a 0600 file of this user with one bearer token", settings->token_file));
        }
        return FAULT(CONFIG);
    }
    *ret_sender = TAKE(sender);
    return OK;
}

void otlp_sender_free(struct otlp_sender *sender)
{
    if (sender != NULL) {
        secret_free(sender->token);
        mem_free(sender);
    }
}

/* ---- when again ---- */

int64_t otlp_retry_after_ns(const char *text, utc_us now)
{
    int64_t seconds = 0;
    struct tm parts = { 0 };
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        seconds = seconds < NS_PER_S ? seconds * 10 + (*at - '0') : seconds; /* more than counts */
    }
    if (at == text || *at != '\0') {
        const char *end = strptime(text, "%a, %d %b %Y %H:%M:%S GMT", &parts);
        if (end == NULL || *end != '\0') {
            return 0;
        }
        seconds = (int64_t)timegm(&parts) - now / US_PER_S;
    }
    seconds = seconds > 0 ? seconds : 0;
    return seconds < WAIT_SAID_NS / NS_PER_S ? seconds * NS_PER_S : WAIT_SAID_NS;
}

int64_t otlp_wait_ns(const struct otlp_reply *reply, unsigned failures)
{
    uint8_t chance = 0;
    int64_t wait = WAIT_FIRST_NS;
    for (unsigned i = 1; i < failures && wait < OTLP_RETRY_MOST_NS; i++) {
        wait *= 2;
    }
    wait = wait < OTLP_RETRY_MOST_NS ? wait : OTLP_RETRY_MOST_NS;
    IGNORE(random_bytes(&chance, 1)); /* half of it to all of it */
    wait = wait / 2 + wait / 2 * chance / 255;
    return reply->wait_ns > wait ? reply->wait_ns : wait;
}

/* ---- one exchange ---- */

static void put_why(struct otlp_reply *reply, const char *text)
{
    size_t len = 0;
    for (; text[len] != '\0' && len + 1 < sizeof(reply->why); len++) {
        reply->why[len] = text[len] >= ' ' && text[len] <= '~' ? text[len] : '?';
    }
    reply->why[len] = '\0';
}

static void judge(const struct otlp_sender *sender, const struct http_answer *answer, struct otlp_reply *reply)
{
    char said[sizeof(reply->why)] = "";
    reply->status = answer->status;
    if (answer->status >= 200 && answer->status < 300) {
        reply->outcome = OTLP_ACCEPTED;
        otlp_decode_answer(buf_span(&answer->body), sender->logs, &reply->rejected, said, sizeof(said));
        put_why(reply, said);
        return;
    }
    bool later = answer->status == 429 || (answer->status >= 502 && answer->status <= 504);
    reply->outcome = later ? OTLP_LATER : OTLP_REFUSED;
    reply->wait_ns = later ? otlp_retry_after_ns(answer->retry_after, clock_utc()) : 0;
    (void)snprintf(reply->why, sizeof(reply->why), "the receiver answered %ld", answer->status);
}

void otlp_send(struct otlp_sender *sender, struct span body, int64_t most_ns, const atomic_bool *stopping,
               struct otlp_reply *ret_reply)
{
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    const struct otlp_settings *settings = sender->settings;
    char why[512] = "";
    struct otlp_reply reply = { .outcome = OTLP_LATER };
    struct http_request request = {
        .method = "POST",
        .url = sender->url,
        .content_type = CONTENT,
        .body = body,
        .ca_file = settings->ca_file[0] != '\0' ? settings->ca_file : NULL,
        .plain_too = settings->plain_too,
        .keep = true,
        .timeout_ns = most_ns < settings->timeout_ns ? (most_ns > LEAST_NS ? most_ns : LEAST_NS) : settings->timeout_ns,
        .answer_max = OTLP_ANSWER_MAX,
        .stopping = stopping,
    };
    struct fault fault = read_token(sender);
    request.token = sender->token;
    if (FAULTED(fault)) {
        put_why(&reply, "the bearer token's file cannot be used: it must be a 0600 file of this user with one token");
    } else if (FAULTED(http_send(&request, why, sizeof(why), &answer))) {
        put_why(&reply, why);
    } else {
        judge(sender, &answer, &reply);
    }
    *ret_reply = reply;
}
