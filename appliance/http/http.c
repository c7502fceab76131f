#include "appliance/http/http.h"

#include "appliance/base/id.h"

#include <curl/curl.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdio.h>

#define HEADER_MAX       512
#define CONNECT_LIMIT_MS 10000L

static void easy_free(CURL *easy)
{
    if (easy != NULL) {
        curl_easy_cleanup(easy);
    }
}
static inline void easy_freep(CURL **easy)
{
    easy_free(TAKE(*easy));
}
/* A line may hold a credential. */
static inline void list_freep(struct curl_slist **list)
{
    for (struct curl_slist *line = *list; line != NULL; line = line->next) {
        secret_wipe(line->data, strlen(line->data));
    }
    curl_slist_free_all(TAKE(*list));
}

struct body {
    CURL *easy;
    const struct http_sink *sink;
    struct buf *out;
    struct fault fault; /* the sink's */
};

static bool is_fine(CURL *easy)
{
    long status = 0;
    return curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status) == CURLE_OK && status >= 200 && status < 300;
}

static size_t take_body(char *at, size_t size, size_t count, void *arg)
{
    struct body *body = arg;
    struct span bytes = span_of(at, size * count);
    if (body->sink != NULL && is_fine(body->easy)) {
        body->fault = body->sink->put(body->sink->arg, bytes);
        return FAULTED(body->fault) ? 0 : bytes.len;
    }
    return FAULTED(buf_put(body->out, bytes)) ? 0 : bytes.len;
}

static void take_value(const char *line, size_t len, const char *name, char *out, size_t out_size)
{
    size_t name_len = strlen(name);
    if (len <= name_len || strncasecmp(line, name, name_len) != 0) {
        return;
    }
    const char *at = line + name_len, *end = line + len;
    while (at < end && (*at == ' ' || *at == '\t')) {
        at++;
    }
    while (end > at && (end[-1] == '\r' || end[-1] == '\n' || end[-1] == ' ')) {
        end--;
    }
    (void)snprintf(out, out_size, "%.*s", (int)(end - at), at);
}

struct headers {
    struct http_answer *answer;
    const char *want;
};

static size_t take_header(char *at, size_t size, size_t count, void *arg)
{
    const struct headers *headers = arg;
    struct http_answer *answer = headers->answer;
    char replayed[8] = "";
    size_t len = size * count;
    take_value(at, len, "content-type:", answer->content_type, sizeof(answer->content_type));
    take_value(at, len, "retry-after:", answer->retry_after, sizeof(answer->retry_after));
    take_value(at, len, "location:", answer->location, sizeof(answer->location));
    take_value(at, len, "idempotent-replayed:", replayed, sizeof(replayed));
    if (headers->want != NULL) {
        take_value(at, len, headers->want, answer->wanted, sizeof(answer->wanted));
    }
    answer->replayed = answer->replayed || strcmp(replayed, "true") == 0;
    return len;
}

static bool add_header(struct curl_slist **list, const char *name, const char *value)
{
    char line[HEADER_MAX];
    int len = snprintf(line, sizeof(line), "%s: %s", name, value);
    if (len < 0 || (size_t)len >= sizeof(line)) {
        return false;
    }
    struct curl_slist *grown = curl_slist_append(*list, line);
    secret_wipe(line, sizeof(line));
    if (grown == NULL) {
        return false;
    }
    *list = grown;
    return true;
}

/* Authorization of another scheme than Bearer, which libcurl has no option for. */
static bool add_token(const struct http_request *request, struct curl_slist **list)
{
    char value[HEADER_MAX];
    if (request->token == NULL || request->token_scheme == NULL) {
        return true;
    }
    struct span token = secret_span(request->token);
    int len = snprintf(value, sizeof(value), "%s %.*s", request->token_scheme, (int)token.len, (const char *)token.at);
    bool fine = len > 0 && (size_t)len < sizeof(value) && add_header(list, "Authorization", value);
    secret_wipe(value, sizeof(value));
    return fine;
}

static bool add_further(const struct http_request *request, struct curl_slist **list)
{
    for (size_t i = 0; request->headers != NULL && request->headers[i] != NULL; i++) {
        struct curl_slist *grown = curl_slist_append(*list, request->headers[i]);
        if (grown == NULL) {
            return false;
        }
        *list = grown;
    }
    return add_token(request, list);
}

static bool add_headers(const struct http_request *request, struct curl_slist **list)
{
    return (request->content_type == NULL || add_header(list, "Content-Type", request->content_type)) &&
           (request->accept == NULL || add_header(list, "Accept", request->accept)) &&
           (request->idempotency_key == NULL || add_header(list, "Idempotency-Key", request->idempotency_key)) &&
           add_header(list, "Expect", "") && add_further(request, list);
}

static bool set_body(CURL *easy, const struct http_request *request)
{
    if (request->content_type == NULL) {
        return curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method) == CURLE_OK;
    }
    return curl_easy_setopt(easy, CURLOPT_POST, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.len) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body.len > 0 ? (const char *)request->body.at : "") ==
               CURLE_OK;
}

static bool set_trust(CURL *easy, const struct http_request *request)
{
    bool fine =
        curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, request->plain_too ? "http,https" : "https") == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L) == CURLE_OK &&
        curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L) == CURLE_OK;
    if (fine && request->ca_pem.len > 0) { /* these and no others */
        struct curl_blob blob = { (void *)(uintptr_t)request->ca_pem.at, request->ca_pem.len, CURL_BLOB_COPY };
        return curl_easy_setopt(easy, CURLOPT_CAINFO_BLOB, &blob) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_CAPATH, NULL) == CURLE_OK;
    }
    if (fine && request->ca_file != NULL) { /* this one and no other */
        fine = curl_easy_setopt(easy, CURLOPT_CAINFO, request->ca_file) == CURLE_OK &&
               curl_easy_setopt(easy, CURLOPT_CAPATH, NULL) == CURLE_OK;
    }
    return fine;
}

static bool set_token(CURL *easy, const struct http_request *request)
{
    char token[SECRET_MAX + 1];
    if (request->token == NULL || request->token_scheme != NULL) {
        return true;
    }
    struct span bytes = secret_span(request->token);
    (void)snprintf(token, sizeof(token), "%.*s", (int)bytes.len, (const char *)bytes.at);
    bool fine = curl_easy_setopt(easy, CURLOPT_HTTPAUTH, CURLAUTH_BEARER) == CURLE_OK &&
                curl_easy_setopt(easy, CURLOPT_XOAUTH2_BEARER, token) == CURLE_OK;
    secret_wipe(token, sizeof(token));
    return fine;
}

static int give_up(void *arg, curl_off_t expected, curl_off_t received, curl_off_t to_send, curl_off_t sent)
{
    (void)expected, (void)received, (void)to_send, (void)sent;
    const atomic_bool *stopping = arg;
    return atomic_load(stopping) ? 1 : 0;
}

static bool set_stopping(CURL *easy, const struct http_request *request)
{
    return request->stopping == NULL || (curl_easy_setopt(easy, CURLOPT_XFERINFOFUNCTION, give_up) == CURLE_OK &&
                                         curl_easy_setopt(easy, CURLOPT_XFERINFODATA, request->stopping) == CURLE_OK &&
                                         curl_easy_setopt(easy, CURLOPT_NOPROGRESS, 0L) == CURLE_OK);
}

/* A program that is started meanwhile has no business with our connections. */
static int close_on_exec(void *arg, curl_socket_t fd, curlsocktype purpose)
{
    (void)arg;
    (void)purpose;
    return fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 ? CURL_SOCKOPT_OK : CURL_SOCKOPT_ERROR;
}

static bool set_time(CURL *easy, const struct http_request *request)
{
    if (request->stall_ns <= 0) {
        return curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)(request->timeout_ns / NS_PER_MS)) == CURLE_OK;
    }
    long seconds = (long)((request->stall_ns + NS_PER_S - 1) / NS_PER_S);
    return curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, seconds) == CURLE_OK;
}

static bool set_up(CURL *easy, const struct http_request *request, struct curl_slist *list, struct headers *headers,
                   struct body *body)
{
    return set_trust(easy, request) && set_token(easy, request) && set_body(easy, request) &&
           set_stopping(easy, request) && curl_easy_setopt(easy, CURLOPT_URL, request->url) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTPHEADER, list) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_SOCKOPTFUNCTION, close_on_exec) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_LIMIT_MS) == CURLE_OK && set_time(easy, request) &&
           curl_easy_setopt(easy, CURLOPT_USERAGENT,
                            request->user_agent != NULL ? request->user_agent : "svc/" SVC_VERSION) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_WRITEDATA, body) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header) == CURLE_OK &&
           curl_easy_setopt(easy, CURLOPT_HEADERDATA, headers) == CURLE_OK;
}

/* What to do about a failure depends on where it happened. */
static const char *advice(CURLcode code)
{
    switch ((int)code) {
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
        return "is the appliance running, and is this its address (--base-url, SVC_BASE_URL)?";
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
        return "name the CA of this appliance with --ca-file or SVC_CA_FILE";
    case CURLE_OPERATION_TIMEDOUT:
        return "repeat the command, or allow more time with --timeout";
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_URL_MALFORMAT:
        return "the address must start with https:// (--base-url, SVC_BASE_URL)";
    case CURLE_WRITE_ERROR:
        return "the answer is larger than this client takes";
    default:
        return "repeat the command";
    }
}

/* ---- kept connections: idle handles of this process, each with its own connections ---- */

#define KEPT_MAX 64
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CURL *kept[KEPT_MAX];
static size_t kept_count;

static CURL *handle_take(bool keep)
{
    CURL *easy = NULL;
    if (keep) {
        BUG_IF(pthread_mutex_lock(&lock) != 0);
        if (kept_count > 0) {
            easy = kept[--kept_count];
        }
        BUG_IF(pthread_mutex_unlock(&lock) != 0);
    }
    return easy != NULL ? easy : curl_easy_init();
}

/* Options are reset first: nothing of one request, its token least of all, is left for the next. */
static void handle_keep(CURL **easy)
{
    curl_easy_reset(*easy);
    BUG_IF(pthread_mutex_lock(&lock) != 0);
    if (kept_count < KEPT_MAX) {
        kept[kept_count++] = TAKE(*easy);
    }
    BUG_IF(pthread_mutex_unlock(&lock) != 0);
}

void http_forget(void)
{
    BUG_IF(pthread_mutex_lock(&lock) != 0);
    while (kept_count > 0) {
        curl_easy_cleanup(kept[--kept_count]);
    }
    BUG_IF(pthread_mutex_unlock(&lock) != 0);
}

void http_forked(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; /* whoever held it is not in this process */
    kept_count = 0;
}

static CURLcode perform(CURL *easy)
{
    OSSL_LIB_CTX *before = OSSL_LIB_CTX_set0_default(crypto_context());
    CURLcode code = curl_easy_perform(easy);
    (void)OSSL_LIB_CTX_set0_default(before);
    return code;
}

struct fault http_send(const struct http_request *request, char *why, size_t why_size, struct http_answer *answer)
{
    char error[CURL_ERROR_SIZE] = "";
    CLEANUP(easy_freep) CURL *easy = handle_take(request->keep);
    CLEANUP(list_freep) struct curl_slist *list = NULL;
    struct headers headers = { answer, request->want };
    struct body body = { .easy = easy, .sink = request->sink, .out = &answer->body };
    answer->body.max = request->answer_max;
    if (easy == NULL || !add_headers(request, &list) ||
        curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, error) != CURLE_OK ||
        !set_up(easy, request, list, &headers, &body)) {
        (void)snprintf(why, why_size, "the request cannot be prepared: an option or header is not acceptable");
        return FAULT(IO);
    }
    CURLcode code = perform(easy);
    if (FAULTED(body.fault)) {
        why[0] = '\0';
        return body.fault;
    }
    if (code != CURLE_OK) {
        (void)snprintf(why, why_size, "%s: %s%s%s", request->url, error[0] != '\0' ? error : curl_easy_strerror(code),
                       request->advise ? ": " : "", request->advise ? advice(code) : "");
        return FAULT(IO);
    }
    (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &answer->status);
    if (request->keep) {
        handle_keep(&easy);
    }
    return OK;
}
