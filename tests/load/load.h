/*
 * svc_load: a mixed, realistic load at running appliances. What it sends is told by a profile, to whom by a target;
 * README.md is the manual of both, of the journal and of the report.
 *
 * Threads share nothing but the journal, the phase and the count of operations; each has clients of its own, and each
 * client has one operation under way at most (client.c). A mutation is in the journal before its first byte leaves, and
 * is repeated with the same key until it is answered for good.
 */
#ifndef TESTS_LOAD_LOAD_H
#define TESTS_LOAD_LOAD_H

#include "appliance/base/json.h"

#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>

#define NAME_MAX_  64
#define ROWS_MAX   48
#define PHASES_MAX 16
#define CODES_MAX  40

enum kind { KIND_READ, KIND_MUTATION, KIND_SIGN, KIND_STAMP };

/* One row of the profile: what is sent, and how often among all rows. */
struct row {
    char name[NAME_MAX_], role[NAME_MAX_];
    enum kind kind;
    unsigned weight, pages;
    char *method, *path, *body; /* templates (operation.c) */
    bool large;                 /* an answer of any size: only its beginning is kept */
    size_t first_step;          /* its place among the measured ones: a signing has two, its preview first */
};
struct phase {
    char name[NAME_MAX_];
    double seconds;      /* 0: not ended by time */
    uint64_t operations; /* 0: not ended by number */
    double rate;         /* operations a second that arrive; 0: each client sends when it is free */
    unsigned clients;
};
struct profile {
    struct row rows[ROWS_MAX];
    struct phase phases[PHASES_MAX];
    size_t row_count, phase_count, step_count;
    const char *step_names[2 * ROWS_MAX];
    unsigned threads;
    double timeout, give_up; /* seconds */
    unsigned clients;        /* the most of any phase */
    double connection_age;   /* seconds after which a connection is made anew; 0 = never */
};

struct token {
    char role[NAME_MAX_];
    char *header; /* Authorization: Bearer ... */
};
struct tenant {
    char name[NAME_MAX_];
    unsigned weight;
    struct token tokens[8];
    size_t token_count, key_count;
    char *keys[64];
    char *stamp_path;
};
struct target {
    char *urls[8], *stamp_urls[8];
    size_t url_count, stamp_url_count;
    char *ca;
    struct tenant tenants[64];
    size_t tenant_count;
};

/* Exit with a line on stderr when the file is not as README.md has it. */
void profile_read(const char *path, struct profile *profile);
void target_read(const char *path, struct target *target);
[[noreturn]] void die(const char *format, ...) PRINTF(1, 2);
/* Of a program that cannot go on without: out of memory ends it. */
char *keep_text(const char *text, size_t len);
void put(struct buf *out, const char *text);

/* ---- what was measured (measure.c) ---- */

struct measure;
/* What is told of one answer. */
enum outcome {
    OUTCOME_DONE,    /* answered 2xx */
    OUTCOME_REFUSED, /* answered for good, and not 2xx */
    OUTCOME_UNKNOWN, /* never answered for good */
};
struct measure *measure_new(const struct profile *profile);
void measure_end(struct measure *measure, size_t phase, size_t step, enum outcome outcome, double seconds,
                 unsigned repeats, uint64_t bytes);
/* One answer, or lack of one, that was no success, by its code; also those that were repeated. */
void measure_code(struct measure *measure, size_t phase, size_t step, const char *code);
void measure_missed(struct measure *measure, size_t phase, uint64_t arrivals);
void measure_add(struct measure *sum, const struct measure *part);
struct phase_time {
    double seconds;
    utc_us begun;
};
void measure_print(const struct measure *sum, const struct phase_time *times, uint64_t seed, FILE *out);

/* ---- one run ---- */

struct journal {
    int fd; /* -1: none is kept */
};
struct load {
    const struct profile *profile;
    const struct target *target;
    struct journal journal;
    uint64_t seed;
    atomic_size_t phase;
    atomic_ullong started;    /* operations of this phase */
    atomic_ullong numbers;    /* of operations, for all time */
    atomic_bool ending, dead; /* nothing new begins; nothing goes on */
    pthread_mutex_t lock;
    pthread_cond_t changed;
};
struct worker {
    pthread_t thread;
    struct load *load;
    struct measure *measure;
    CURLM *multi;
    uint64_t random;
    unsigned number;
    size_t phase;
    double next_arrival;
};

/* ---- an operation of a client (operation.c, client.c, journal.c) ---- */

enum client_state { CLIENT_IDLE, CLIENT_SENDING, CLIENT_WAITING };
struct client {
    struct worker *worker;
    CURL *easy;
    struct curl_slist *headers;
    enum client_state state;
    const struct row *row;
    const struct tenant *tenant;
    uint64_t number;
    size_t phase, step; /* step: of the profile's steps */
    unsigned tries, pages_left, url;
    double due, begun, wake; /* begun: of this step */
    char key[33], trace[33], error[CURL_ERROR_SIZE];
    struct buf path, body, answer, first_body; /* first_body: of the preview that a signing makes its body from */
    uint64_t answer_bytes;
    double retry_after;
    bool replayed;
};

double now_s(void);
uint64_t chance(struct worker *worker);
/* Chooses a row and a tenant and fills in the request. */
void operation_begin(struct client *client, double due);
/* After a preview: the request that executes it. False when the answer has no fingerprint. */
bool operation_execute(struct client *client);
/* After a page: the request for the next one. False when there is none. */
bool operation_next_page(struct client *client);
bool operation_is_preview(const struct client *client);
bool operation_is_kept(const struct client *client); /* has a journal entry: mutations and time stamps */
const char *operation_method(const struct client *client);
bool stamp_granted(struct span answer);
/* The value of a string member, without escapes, copied; false when there is none. */
bool member_text(struct span json, const char *name, char *out, size_t size);

void journal_open_at(struct journal *journal, const char *path);
void journal_send(struct journal *journal, const struct client *client);
void journal_again(struct journal *journal, const struct client *client, const char *why);
void journal_end(struct journal *journal, const struct client *client, enum outcome outcome, long status,
                 const char *code);

/* A worker's whole life. */
void *worker_run(void *arg);

#endif
