/*
 * A client: one request on its way at most, sent again with the same key after a lost connection, after 429, 503 and a
 * command that is still in progress, as long as the answer says (Retry-After) or twice as long each time.
 */
#include "tests/load/load.h"

#include <stdio.h>
#include <time.h>

#define ANSWER_MAX ((size_t)4 << 20)
#define LARGE_KEPT ((size_t)64 << 10)
#define WAIT_LEAST 0.05
#define WAIT_MOST  2.0
#define CODE_MAX   64

double now_s(void)
{
    return (double)clock_mono() * 1e-9;
}

/* ---- one request ---- */

static size_t on_body(char *at, size_t size, size_t count, void *arg)
{
    struct client *client = arg;
    size_t len = size * count, most = client->row->large ? LARGE_KEPT : ANSWER_MAX;
    client->answer_bytes += len;
    size_t room = most > client->answer.len ? most - client->answer.len : 0;
    if (FAULTED(buf_put(&client->answer, span_of(at, len < room ? len : room)))) {
        return 0;
    }
    return len;
}

static size_t on_header(char *at, size_t size, size_t count, void *arg)
{
    struct client *client = arg;
    size_t len = size * count;
    if (len > 12 && strncasecmp(at, "Retry-After:", 12) == 0) {
        client->retry_after = strtod(at + 12, NULL); /* curl ends the line with a line feed: it cannot run on */
    } else if (len > 20 && strncasecmp(at, "Idempotent-Replayed:", 20) == 0) {
        client->replayed = true;
    }
    return len;
}

static void add_header(struct client *client, const char *text)
{
    struct curl_slist *more = curl_slist_append(client->headers, text);
    if (more == NULL) {
        die("out of memory");
    }
    client->headers = more;
}

static const char *token_header(const struct client *client)
{
    for (size_t i = 0; i < client->tenant->token_count; i++) {
        if (strcmp(client->tenant->tokens[i].role, client->row->role) == 0) {
            return client->tenant->tokens[i].header;
        }
    }
    die("row %s: tenant %s has no token of the role %s", client->row->name, client->tenant->name, client->row->role);
}

static void set_headers(struct client *client)
{
    char text[128];
    curl_slist_free_all(client->headers);
    client->headers = NULL;
    if (client->row->kind == KIND_STAMP) {
        add_header(client, "Content-Type: application/timestamp-query");
    } else {
        add_header(client, "Content-Type: application/json");
        add_header(client, token_header(client));
    }
    add_header(client, "Expect:");
    (void)snprintf(text, sizeof(text), "traceparent: 00-%s-%.16s-01", client->trace, client->key);
    add_header(client, text);
    if (client->row->kind != KIND_STAMP && operation_is_kept(client)) {
        (void)snprintf(text, sizeof(text), "Idempotency-Key: %s", client->key);
        add_header(client, text);
    }
}

static const char *base_url(const struct client *client)
{
    const struct target *target = client->worker->load->target;
    if (client->row->kind == KIND_STAMP && target->stamp_url_count > 0) {
        return target->stamp_urls[client->url % target->stamp_url_count];
    }
    return target->urls[client->url % target->url_count];
}

static void send_request(struct client *client)
{
    const char *path = NULL, *method = operation_method(client);
    char url[3000];
    CURL *easy = client->easy;
    bool body = strcmp(method, "GET") != 0;
    if (FAULTED(buf_cstr(&client->path, &path))) {
        die("out of memory");
    }
    int len = snprintf(url, sizeof(url), "%s%s", base_url(client), path);
    if (len < 0 || (size_t)len >= sizeof(url)) {
        die("row %s: the path is too long", client->row->name);
    }
    client->tries++;
    if (operation_is_kept(client) && client->tries == 1) {
        journal_send(&client->worker->load->journal, client);
    }
    set_headers(client);
    buf_clear(&client->answer);
    client->answer_bytes = 0;
    client->retry_after = 0;
    client->replayed = false;
    (void)curl_easy_setopt(easy, CURLOPT_URL, url);
    (void)curl_easy_setopt(easy, CURLOPT_HTTPHEADER, client->headers);
    (void)curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, body ? method : NULL);
    (void)curl_easy_setopt(easy, body ? CURLOPT_POST : CURLOPT_HTTPGET, 1L);
    if (body) {
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE, (long)client->body.len);
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS, client->body.at != NULL ? (char *)client->body.at : "");
    }
    if (curl_multi_add_handle(client->worker->multi, easy) != CURLM_OK) {
        die("curl does not take a request");
    }
    client->state = CLIENT_SENDING;
}

static void client_init(struct client *client, struct worker *worker, unsigned number)
{
    const struct load *load = worker->load;
    *client = (struct client){ .worker = worker,
                               .url = number,
                               .easy = curl_easy_init(),
                               .path = BUF_INIT(4096),
                               .body = BUF_INIT(1u << 20),
                               .first_body = BUF_INIT(4096),
                               .answer = BUF_INIT(ANSWER_MAX) };
    CURL *easy = client->easy;
    if (easy == NULL) {
        die("out of memory");
    }
    (void)curl_easy_setopt(easy, CURLOPT_PRIVATE, client);
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)(load->profile->timeout * 1e3));
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, client->error);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, client);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, client);
    (void)curl_easy_setopt(easy, CURLOPT_PROXY, "");
    if (load->profile->connection_age > 0) {
        (void)curl_easy_setopt(easy, CURLOPT_MAXLIFETIME_CONN, (long)load->profile->connection_age);
    }
    if (load->target->ca != NULL) {
        (void)curl_easy_setopt(easy, CURLOPT_CAINFO, load->target->ca);
    }
}

static void client_free(struct client *client)
{
    curl_easy_cleanup(client->easy);
    curl_slist_free_all(client->headers);
    buf_free(&client->path);
    buf_free(&client->body);
    buf_free(&client->first_body);
    buf_free(&client->answer);
}

/* ---- what an answer means ---- */

/* The answer's code: of its problem body; of what no problem body came with, its number. */
static void code_of(const struct client *client, long status, char out[CODE_MAX])
{
    if (status == 0) {
        (void)snprintf(out, CODE_MAX, "connection");
    } else if (client->row->kind == KIND_STAMP && status == 200) {
        (void)snprintf(out, CODE_MAX, stamp_granted(buf_span(&client->answer)) ? "granted" : "rejected");
    } else if (status < 400 || !member_text(buf_span(&client->answer), "code", out, CODE_MAX)) {
        (void)snprintf(out, CODE_MAX, "http_%ld", status);
    }
}

/* Will the same request be answered otherwise later? */
static bool passes(long status, const char *code)
{
    if (status == 0 || status == 429 || status == 503) {
        return true;
    }
    if (status == 502 || status == 504) {
        return strncmp(code, "http_", 5) == 0; /* of something in between, not of the service */
    }
    return status == 409 && strcmp(code, "idempotency_in_progress") == 0;
}

static void end_step(struct client *client, enum outcome outcome, long status, const char *code)
{
    struct worker *worker = client->worker;
    measure_end(worker->measure, client->phase, client->step, outcome, now_s() - client->begun, client->tries - 1,
                client->answer_bytes);
    if (operation_is_kept(client)) {
        journal_end(&worker->load->journal, client, outcome, status, code);
    }
    client->state = CLIENT_IDLE;
    client->tries = 0;
}

static void wait_and_repeat(struct client *client, const char *code)
{
    double wait = client->retry_after;
    if (wait <= 0) {
        unsigned shift = client->tries < 8 ? client->tries : 8;
        wait = WAIT_LEAST * (double)(1u << shift) * (0.5 + (double)(chance(client->worker) % 512) / 1024);
        wait = wait > WAIT_MOST ? WAIT_MOST : wait;
    }
    if (operation_is_kept(client)) {
        journal_again(&client->worker->load->journal, client, code);
    }
    client->wake = now_s() + wait;
    client->state = CLIENT_WAITING;
    client->url++; /* another replica, where there is one */
}

static void on_answer(struct client *client, CURLcode result)
{
    struct worker *worker = client->worker;
    long status = 0;
    char code[CODE_MAX];
    if (result == CURLE_OK) {
        (void)curl_easy_getinfo(client->easy, CURLINFO_RESPONSE_CODE, &status);
    }
    code_of(client, status, code);
    bool stamp = client->row->kind == KIND_STAMP;
    bool good = status >= 200 && status < 300 && strcmp(code, "rejected") != 0;
    if (!good) {
        measure_code(worker->measure, client->phase, client->step, code);
    }
    if (stamp && status == 0) { /* nothing makes two time-stamp requests one */
        end_step(client, OUTCOME_UNKNOWN, 0, code);
        return;
    }
    if (!good && passes(status, code) && !stamp) {
        if (now_s() - client->begun < worker->load->profile->give_up && !atomic_load(&worker->load->dead)) {
            wait_and_repeat(client, code);
        } else {
            end_step(client, OUTCOME_UNKNOWN, status, code);
        }
        return;
    }
    bool preview = good && operation_is_preview(client);
    end_step(client, good ? OUTCOME_DONE : OUTCOME_REFUSED, status, code);
    if (good && ((preview && operation_execute(client)) || operation_next_page(client))) {
        client->begun = now_s();
        send_request(client);
    }
}

/* ---- a worker ---- */

static bool may_begin(struct worker *worker, const struct phase *phase)
{
    struct load *load = worker->load;
    if (atomic_load(&load->ending)) {
        return false;
    }
    if (phase->operations > 0 && atomic_fetch_add(&load->started, 1) >= phase->operations) {
        return false;
    }
    return true;
}

/* A phase of a rate: operations begin when they are due, and what has to wait for a free client has waited. */
static bool arrives(struct worker *worker, const struct phase *phase, double now, double *ret_due)
{
    if (phase->rate <= 0) {
        *ret_due = now;
        return true;
    }
    if (worker->next_arrival > now) {
        return false;
    }
    *ret_due = worker->next_arrival;
    worker->next_arrival += (double)worker->load->profile->threads / phase->rate;
    return true;
}

static void follow_phase(struct worker *worker, double now)
{
    const struct load *load = worker->load;
    size_t phase = atomic_load(&load->phase);
    if (phase == worker->phase && worker->next_arrival > 0) {
        return;
    }
    const struct phase *old = &load->profile->phases[worker->phase];
    double late = now - worker->next_arrival;
    if (worker->next_arrival > 0 && old->rate > 0 && late > 0) {
        measure_missed(worker->measure, worker->phase, (uint64_t)(late * old->rate / load->profile->threads));
    }
    worker->phase = phase;
    const struct phase *next = &load->profile->phases[phase];
    double between = next->rate > 0 ? (double)load->profile->threads / next->rate : 0;
    worker->next_arrival = now + between * worker->number / load->profile->threads;
}

/* Begins what is due; returns how many clients are at work, and in *ret_wake when the next has something to do. */
static unsigned drive(struct worker *worker, struct client *clients, unsigned count, double *ret_wake)
{
    const struct load *load = worker->load;
    double now = now_s();
    unsigned busy = 0;
    follow_phase(worker, now);
    const struct phase *phase = &load->profile->phases[worker->phase];
    unsigned threads = load->profile->threads;
    unsigned allowed = phase->clients / threads + (worker->number < phase->clients % threads);
    bool arriving = true;
    *ret_wake = now + 0.1;
    for (unsigned i = 0; i < count; i++) {
        struct client *client = &clients[i];
        double due = 0;
        if (client->state == CLIENT_IDLE && i < allowed && arriving && !atomic_load(&load->ending)) {
            arriving = arrives(worker, phase, now, &due) && may_begin(worker, phase);
            if (arriving) {
                operation_begin(client, due);
                send_request(client);
            }
        } else if (client->state == CLIENT_WAITING && atomic_load(&load->dead)) {
            end_step(client, OUTCOME_UNKNOWN, 0, "stopped");
        } else if (client->state == CLIENT_WAITING && client->wake <= now) {
            send_request(client);
        } else if (client->state == CLIENT_WAITING && client->wake < *ret_wake) {
            *ret_wake = client->wake;
        }
        busy += client->state != CLIENT_IDLE;
    }
    if (phase->rate > 0 && worker->next_arrival < *ret_wake) {
        *ret_wake = worker->next_arrival;
    }
    return busy;
}

static void take_answers(struct worker *worker)
{
    int left = 0;
    for (const CURLMsg *message = curl_multi_info_read(worker->multi, &left); message != NULL;
         message = curl_multi_info_read(worker->multi, &left)) {
        struct client *client = NULL;
        CURL *easy = message->easy_handle;
        CURLcode result = message->data.result;
        (void)curl_easy_getinfo(easy, CURLINFO_PRIVATE, (char **)&client);
        (void)curl_multi_remove_handle(worker->multi, easy);
        on_answer(client, result);
    }
}

void *worker_run(void *arg)
{
    struct worker *worker = arg;
    const struct profile *profile = worker->load->profile;
    unsigned count = profile->clients / profile->threads + (worker->number < profile->clients % profile->threads);
    struct client *clients = calloc(count, sizeof(*clients));
    worker->multi = curl_multi_init();
    if (clients == NULL || worker->multi == NULL) {
        die("out of memory");
    }
    (void)curl_multi_setopt(worker->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    (void)curl_multi_setopt(worker->multi, CURLMOPT_MAXCONNECTS, (long)count * 2);
    for (unsigned i = 0; i < count; i++) {
        client_init(&clients[i], worker, worker->number + i * profile->threads);
    }
    for (;;) {
        double wake = 0;
        unsigned busy = drive(worker, clients, count, &wake);
        if (busy == 0 && atomic_load(&worker->load->ending)) {
            break;
        }
        int running = 0;
        (void)curl_multi_perform(worker->multi, &running);
        take_answers(worker);
        double left = wake - now_s();
        (void)curl_multi_poll(worker->multi, NULL, 0, left > 0 ? (int)(left * 1e3) + 1 : 0, NULL);
    }
    for (unsigned i = 0; i < count; i++) {
        client_free(&clients[i]);
    }
    (void)curl_multi_cleanup(worker->multi);
    free(clients);
    return NULL;
}
