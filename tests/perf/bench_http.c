/*
 * Load for scripts/bench: N threads, one keep-alive connection each, real requests; prints one JSON object.
 *   bench_http tsa  URL CONNECTIONS SECONDS TSQ_FILE
 *   bench_http sign BASE_URL CONNECTIONS REQUESTS KEY_ID      (SVC_TOKEN, SVC_CA_FILE in the environment)
 *   bench_http mutate URL CONNECTIONS REQUESTS BODY           PUT of BODY, each with an Idempotency-Key of its own
 * sign: every request is previewed first, untimed; then all are executed, timed.
 * "refused" counts the answers 429 and 503 (come again later), "failed" everything else that is not a success. Where a
 * connection ended without an answer the same request is sent again, as a client should; "reconnected" counts those.
 */
#include <curl/curl.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <openssl/evp.h>
#include <openssl/rand.h>

struct text {
    char *at;
    size_t len;
};

struct worker {
    pthread_t thread;
    const char *mode, *url, *key_id, *body;
    size_t body_len, count, done, failed, refused, reconnected;
    double seconds;
    double *latency; /* seconds, `done` of them */
    size_t capacity;
};

static pthread_barrier_t start_line;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static size_t collect(char *at, size_t size, size_t count, void *arg)
{
    struct text *text = arg;
    char *grown = realloc(text->at, text->len + size * count + 1);
    if (grown == NULL) {
        return 0;
    }
    memcpy(grown + text->len, at, size * count);
    text->at = grown;
    text->len += size * count;
    grown[text->len] = 0;
    return size * count;
}

static void keep(struct worker *w, double latency)
{
    if (w->done == w->capacity) {
        w->capacity = w->capacity == 0 ? 4096 : w->capacity * 2;
        double *grown = realloc(w->latency, w->capacity * sizeof(double));
        if (grown == NULL) {
            abort();
        }
        w->latency = grown;
    }
    w->latency[w->done++] = latency;
}

static long post(CURL *curl, const char *url, struct curl_slist *headers, const char *body, size_t len,
                 struct text *answer)
{
    free(answer->at);
    *answer = (struct text){ 0 };
    curl_easy_setopt(curl, CURLOPT_URL, url);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)len);
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, collect);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
    if (curl_easy_perform(curl) != CURLE_OK) {
        return 0;
    }
    long status = 0;
    curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
    return status;
}

static CURL *client(void)
{
    CURL *curl = curl_easy_init();
    if (curl == NULL) {
        abort();
    }
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_TCP_NODELAY, 1L);
    curl_easy_setopt(curl, CURLOPT_TIMEOUT, 60L);
    if (getenv("SVC_CA_FILE") != NULL) {
        curl_easy_setopt(curl, CURLOPT_CAINFO, getenv("SVC_CA_FILE"));
    }
    return curl;
}

static void *run_tsa(void *arg)
{
    struct worker *w = arg;
    CURL *curl = client();
    struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/timestamp-query");
    struct text answer = { 0 };
    (void)post(curl, w->url, headers, w->body, w->body_len, &answer); /* connect before the clock runs */
    pthread_barrier_wait(&start_line);
    double end = now() + w->seconds;
    for (double t = now(); t < end;) {
        long status = post(curl, w->url, headers, w->body, w->body_len, &answer);
        double after = now();
        /* status 0 (granted) is the first INTEGER of the reply: 30 .. 30 .. 02 01 00; a rejection is short */
        if (status == 200 && answer.len > 200) {
            keep(w, after - t);
        } else if (status == 429 || status == 503) {
            w->refused++;
        } else {
            w->failed++;
        }
        t = after;
    }
    free(answer.at);
    curl_slist_free_all(headers);
    curl_easy_cleanup(curl);
    return NULL;
}

/* The body that executes a signing of random bytes, malloc'ed; NULL when its preview failed. A preview that is refused
 * for a full queue comes again: only executions are measured. */
static char *previewed(const struct worker *w, CURL *curl, struct curl_slist *headers, struct text *answer)
{
    static const char mark[] = "\"request_fingerprint\":\"";
    unsigned char digest[32];
    char b64[48], body[600], url[300];
    long status = 503;
    RAND_bytes(digest, sizeof(digest));
    EVP_EncodeBlock((unsigned char *)b64, digest, sizeof(digest));
    int len = snprintf(body, sizeof(body), "{\"key_id\":\"%s\",\"artifact_type\":\"bench\",\"digest\":\"%s\"}",
                       w->key_id, b64);
    snprintf(url, sizeof(url), "%s/api/v1/code-signing/preview", w->url);
    for (int tries = 0; tries < 1000 && (status == 503 || status == 429 || status == 0); tries++) {
        status = post(curl, url, headers, body, (size_t)len, answer);
        if (status == 503 || status == 429) {
            nanosleep(&(struct timespec){ .tv_nsec = 20 * 1000 * 1000 }, NULL);
        }
    }
    char *found = status == 200 ? strstr(answer->at, mark) : NULL;
    char *out = found != NULL ? malloc(900) : NULL;
    if (out != NULL) {
        found += strlen(mark);
        found[strcspn(found, "\"")] = 0;
        snprintf(out, 900, "%.*s,\"preview_fingerprint\":\"%s\"}", len - 1, body, found);
    }
    return out;
}

static void *run_sign(void *arg)
{
    struct worker *w = arg;
    CURL *curl = client();
    char bearer[400], url[300];
    snprintf(bearer, sizeof(bearer), "Authorization: Bearer %s",
             getenv("SVC_TOKEN") != NULL ? getenv("SVC_TOKEN") : "");
    struct text answer = { 0 };
    char **bodies = calloc(w->count, sizeof(char *));
    if (bodies == NULL) {
        abort();
    }
    struct curl_slist *plain = curl_slist_append(curl_slist_append(NULL, "Content-Type: application/json"), bearer);
    for (size_t i = 0; i < w->count; i++) {
        bodies[i] = previewed(w, curl, plain, &answer);
        w->failed += bodies[i] == NULL;
    }
    snprintf(url, sizeof(url), "%s/api/v1/code-signing/sign", w->url);
    pthread_barrier_wait(&start_line);
    double begun = now();
    for (size_t i = 0; i < w->count; i++) {
        if (bodies[i] == NULL) {
            continue;
        }
        unsigned char id[16];
        char key[80] = "Idempotency-Key: ";
        RAND_bytes(id, sizeof(id));
        for (size_t k = 0; k < sizeof(id); k++) {
            snprintf(key + 17 + 2 * k, 3, "%02x", id[k]);
        }
        struct curl_slist *headers = curl_slist_append(
            curl_slist_append(curl_slist_append(NULL, "Content-Type: application/json"), bearer), key);
        double t = now();
        long status = post(curl, url, headers, bodies[i], strlen(bodies[i]), &answer);
        for (int tries = 0; tries < 3 && status == 0; tries++) {
            w->reconnected++;
            status = post(curl, url, headers, bodies[i], strlen(bodies[i]), &answer);
        }
        if (status == 200) {
            keep(w, now() - t);
        } else if (status == 429 || status == 503) {
            w->refused++;
        } else {
            w->failed++;
            if (w->failed == 1) {
                fprintf(stderr, "%ld %.400s\n", status, answer.at != NULL ? answer.at : "no answer");
            }
        }
        curl_slist_free_all(headers);
        free(bodies[i]);
    }
    w->seconds = now() - begun;
    free(bodies);
    free(answer.at);
    curl_slist_free_all(plain);
    curl_easy_cleanup(curl);
    return NULL;
}

static struct curl_slist *with_key(const char *bearer)
{
    unsigned char id[16];
    char key[80] = "Idempotency-Key: ";
    RAND_bytes(id, sizeof(id));
    for (size_t k = 0; k < sizeof(id); k++) {
        snprintf(key + 17 + 2 * k, 3, "%02x", id[k]);
    }
    return curl_slist_append(curl_slist_append(curl_slist_append(NULL, "Content-Type: application/json"), bearer), key);
}

/* One small mutation again and again: what a command costs that records one event. */
static void *run_mutate(void *arg)
{
    struct worker *w = arg;
    CURL *curl = client();
    char bearer[400];
    snprintf(bearer, sizeof(bearer), "Authorization: Bearer %s",
             getenv("SVC_TOKEN") != NULL ? getenv("SVC_TOKEN") : "");
    struct text answer = { 0 };
    curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, "PUT");
    for (size_t i = 0; i <= w->count; i++) {
        struct curl_slist *headers = with_key(bearer);
        double t = now();
        long status = post(curl, w->url, headers, w->key_id, strlen(w->key_id), &answer);
        for (int tries = 0; tries < 3 && status == 0; tries++) {
            w->reconnected++;
            status = post(curl, w->url, headers, w->key_id, strlen(w->key_id), &answer);
        }
        curl_slist_free_all(headers);
        if (i == 0) {
            pthread_barrier_wait(&start_line); /* the first one connects, and is not counted */
        } else if (status == 200) {
            keep(w, now() - t);
        } else if (status == 429 || status == 503) {
            w->refused++;
        } else if (w->failed++ == 0) {
            fprintf(stderr, "%ld %.400s\n", status, answer.at != NULL ? answer.at : "no answer");
        }
    }
    free(answer.at);
    curl_easy_cleanup(curl);
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(struct worker *workers, size_t count, double elapsed)
{
    size_t total = 0, failed = 0, refused = 0, reconnected = 0, at = 0;
    for (size_t i = 0; i < count; i++) {
        total += workers[i].done;
        failed += workers[i].failed;
        refused += workers[i].refused;
        reconnected += workers[i].reconnected;
    }
    double *all = calloc(total + 1, sizeof(double));
    if (all == NULL) {
        abort();
    }
    for (size_t i = 0; i < count; i++) {
        if (workers[i].done > 0) {
            memcpy(all + at, workers[i].latency, workers[i].done * sizeof(double));
        }
        at += workers[i].done;
        free(workers[i].latency);
    }
    qsort(all, total, sizeof(double), by_value);
#define AT(p) (total > 0 ? all[(size_t)((double)(total - 1) * (p))] * 1e3 : 0.0)
    printf("{\"connections\":%zu,\"requests\":%zu,\"failed\":%zu,\"refused\":%zu,\"reconnected\":%zu,"
           "\"per_second\":%.1f,\"p50_ms\":%.3f,\"p95_ms\":%.3f,\"p99_ms\":%.3f,\"max_ms\":%.3f}\n",
           count, total, failed, refused, reconnected, (double)total / elapsed, AT(0.50), AT(0.95), AT(0.99), AT(1.0));
    free(all);
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: bench_http tsa URL CONNECTIONS SECONDS TSQ | sign BASE_URL CONNECTIONS REQUESTS KEY_ID"
                        " | mutate URL CONNECTIONS REQUESTS BODY\n");
        return 2;
    }
    curl_global_init(CURL_GLOBAL_DEFAULT);
    bool tsa = strcmp(argv[1], "tsa") == 0, mutate = strcmp(argv[1], "mutate") == 0;
    size_t count = strtoul(argv[3], NULL, 10), amount = strtoul(argv[4], NULL, 10);
    if (count == 0 || count > 1024 || amount == 0) {
        return 2;
    }
    static char tsq[65536];
    size_t tsq_len = 0;
    if (tsa) {
        FILE *f = fopen(argv[5], "rb");
        if (f == NULL) {
            perror(argv[5]);
            return 2;
        }
        tsq_len = fread(tsq, 1, sizeof(tsq), f);
        fclose(f);
    }
    struct worker *workers = calloc(count, sizeof(*workers));
    if (workers == NULL || pthread_barrier_init(&start_line, NULL, (unsigned)count + 1) != 0) {
        return 1;
    }
    for (size_t i = 0; i < count; i++) {
        workers[i] = (struct worker){ .url = argv[2],
                                      .body = tsq,
                                      .body_len = tsq_len,
                                      .key_id = argv[5],
                                      .seconds = (double)amount,
                                      .count = amount / count + (i < amount % count) };
        if (pthread_create(&workers[i].thread, NULL,
                           tsa      ? run_tsa
                           : mutate ? run_mutate
                                    : run_sign,
                           &workers[i]) != 0) {
            return 1;
        }
    }
    pthread_barrier_wait(&start_line);
    double begun = now();
    for (size_t i = 0; i < count; i++) {
        pthread_join(workers[i].thread, NULL);
    }
    report(workers, count, now() - begun);
    free(workers);
    return 0;
}
