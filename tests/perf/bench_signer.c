/*
 * bench_signer CONFIG: how fast svc-signer signs through its door, for scripts/bench. Reads runs from its input, one a
 * line, and answers each with a JSON object, so that a script can let runs of several programs take turns:
 *   ALGORITHM default|pss THREADS SECONDS no|yes       -- yes: journalled, each under an operation id of its own
 * Threads sign as fast as they are answered. Makes a key of purpose codesign of each algorithm when it is first asked
 * for, and destroys them at the end.
 */
#include "appliance/base/alloc.h"
#include "signer-pkcs11/client/client.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define SAMPLES_MAX ((size_t)1 << 18)
#define THREADS_MAX 128

struct bench {
    struct config *config;
    struct signer_client *client;
    struct op *op;
    struct key_ref keys[KEY_ALGORITHM_COUNT];
    /* of the present run */
    struct key_ref key;
    enum key_algorithm algorithm;
    enum sign_scheme scheme;
    unsigned threads;
    double seconds;
    bool with_op_id;
    atomic_bool stop;
    pthread_barrier_t ready;
};

struct worker {
    struct bench *bench;
    pthread_t thread;
    uint32_t *samples; /* microseconds */
    size_t count;
    uint64_t failed;
    char failure[256];
};

static struct fault sign_once(struct worker *worker, struct op *op, struct buf *signature)
{
    struct bench *bench = worker->bench;
    uint8_t digest[32] = { 1 };
    struct sign_request request = {
        .key = bench->key, .scheme = bench->scheme, .hash = HASH_SHA256, .digest = SPAN_ARRAY(digest)
    };
    if (bench->with_op_id) {
        TRY(uuid_new(&request.op_id));
    }
    buf_clear(signature);
    op->deadline = clock_mono() + 10 * NS_PER_S;
    mono_ns begun = clock_mono();
    TRY(signer_sign(op, bench->client, &request, signature));
    if (worker->count < SAMPLES_MAX) {
        worker->samples[worker->count++] = (uint32_t)((clock_mono() - begun) / 1000);
    }
    return OK;
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    const struct sched_param none = { 0 };
    (void)sched_setscheduler(0, SCHED_BATCH, &none); /* as the request threads of svc-api */
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    CLEANUP(op_freep) struct op *op = NULL;
    BUG_IF(FAULTED(op_new("bench", worker->bench->key.tenant, 10000, &op)));
    (void)pthread_barrier_wait(&worker->bench->ready);
    while (!atomic_load_explicit(&worker->bench->stop, memory_order_relaxed)) {
        struct fault fault = sign_once(worker, op, &signature);
        if (FAULTED(fault)) {
            (void)snprintf(worker->failure, sizeof(worker->failure), "%s: %.200s", fault_row(fault.code)->text,
                           op->note.detail);
            worker->failed++;
        }
    }
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    uint32_t x, y;
    memcpy(&x, a, sizeof(x));
    memcpy(&y, b, sizeof(y));
    return (x > y) - (x < y);
}

static struct fault report(struct bench *bench, struct worker *workers, double seconds)
{
    CLEANUP(mem_freep) uint32_t *all = NULL;
    size_t count = 0;
    uint64_t failed = 0;
    TRY(mem_new(SAMPLES_MAX * bench->threads, sizeof(*all), &all));
    for (unsigned i = 0; i < bench->threads; i++) {
        memcpy(all + count, workers[i].samples, workers[i].count * sizeof(*all));
        count += workers[i].count;
        failed += workers[i].failed;
        if (workers[i].failure[0] != 0) {
            (void)fprintf(stderr, "bench_signer: %s\n", workers[i].failure);
        }
    }
    REQUIRE(count > 0, INTERNAL);
    qsort(all, count, sizeof(*all), by_value);
    (void)printf("{\"algorithm\":\"%s\",\"threads\":%u,\"op_id\":%s,\"per_second\":%.1f,"
                 "\"p50_us\":%u,\"p95_us\":%u,\"p99_us\":%u,\"max_us\":%u,\"count\":%zu,\"failed\":%llu}\n",
                 key_algorithm_text(bench->algorithm), bench->threads, bench->with_op_id ? "true" : "false",
                 (double)count / seconds, all[count / 2], all[count * 95 / 100], all[count * 99 / 100], all[count - 1],
                 count, (unsigned long long)failed);
    return OK;
}

static struct fault measure(struct bench *bench)
{
    static struct worker workers[THREADS_MAX];
    atomic_store(&bench->stop, false);
    BUG_IF(pthread_barrier_init(&bench->ready, NULL, bench->threads + 1) != 0);
    for (unsigned i = 0; i < bench->threads; i++) {
        uint32_t *samples = workers[i].samples;
        workers[i] = (struct worker){ .bench = bench, .samples = samples };
        if (samples == NULL) {
            TRY(mem_new(SAMPLES_MAX, sizeof(uint32_t), &workers[i].samples));
        }
        BUG_IF(pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0);
    }
    (void)pthread_barrier_wait(&bench->ready);
    mono_ns begun = clock_mono(), span = (mono_ns)(bench->seconds * 1e9);
    struct timespec until = { .tv_sec = span / NS_PER_S, .tv_nsec = span % NS_PER_S };
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &until, NULL);
    atomic_store(&bench->stop, true);
    double seconds = (double)(clock_mono() - begun) / 1e9;
    for (unsigned i = 0; i < bench->threads; i++) {
        BUG_IF(pthread_join(workers[i].thread, NULL) != 0);
    }
    (void)pthread_barrier_destroy(&bench->ready);
    return report(bench, workers, seconds);
}

static struct fault key_made(struct bench *bench)
{
    CLEANUP(buf_free) struct buf spki = BUF_INIT(SPKI_MAX);
    struct key_ref *key = &bench->keys[bench->algorithm];
    if (key->purpose == KEY_PURPOSE_NONE) {
        struct key_ref made = { .purpose = KEY_PURPOSE_CODESIGN };
        TRY(tenant_id_parse(span_text("bench"), &made.tenant));
        TRY(uuid_new(&made.id));
        bench->op->deadline = clock_mono() + 30 * NS_PER_S;
        TRY(signer_generate(bench->op, bench->client, &made, bench->algorithm, &spki));
        *key = made;
    }
    bench->key = *key;
    return OK;
}

static struct fault one_run(struct bench *bench, char *line)
{
    char *rest = NULL;
    const char *words[5] = { 0 };
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        words[i] = strtok_r(i == 0 ? line : NULL, " \n", &rest);
        REQUIRE(words[i] != NULL, BAD_ARGUMENT);
    }
    TRY(key_algorithm_parse(span_text(words[0]), &bench->algorithm));
    bench->scheme = strcmp(words[1], "pss") == 0 ? SIGN_SCHEME_RSA_PSS : key_default_scheme(bench->algorithm);
    bench->threads = (unsigned)strtoul(words[2], NULL, 10);
    bench->seconds = strtod(words[3], NULL);
    bench->with_op_id = strcmp(words[4], "yes") == 0;
    REQUIRE(bench->threads >= 1 && bench->threads <= THREADS_MAX && bench->seconds > 0, BAD_ARGUMENT);
    TRY(key_made(bench));
    TRY(measure(bench));
    REQUIRE(fflush(stdout) == 0, IO);
    return OK;
}

static struct fault all_runs(struct bench *bench)
{
    char line[256];
    struct fault fault = OK;
    while (!FAULTED(fault) && fgets(line, sizeof(line), stdin) != NULL) {
        fault = one_run(bench, line);
    }
    for (size_t i = 0; i < KEY_ALGORITHM_COUNT; i++) {
        if (bench->keys[i].purpose != KEY_PURPOSE_NONE) {
            bench->op->deadline = clock_mono() + 10 * NS_PER_S;
            struct fault gone = signer_destroy(bench->op, bench->client, &bench->keys[i]);
            fault = FAULTED(fault) ? fault : gone;
        }
    }
    return fault;
}

int main(int argc, char **argv)
{
    static struct bench bench;
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    if (argc != 2) {
        (void)fputs("usage: bench_signer CONFIG, and runs on its input\n", stderr);
        return 2;
    }
    struct fault fault = config_load(argv[1], &why, &bench.config);
    if (!FAULTED(fault)) {
        bench.config->signer_client_conns = THREADS_MAX - 16;
        fault = op_new("bench", (struct tenant_id){ 0 }, 30000, &bench.op);
    }
    if (!FAULTED(fault)) {
        fault = signer_client_new(bench.config, &bench.client);
    }
    if (!FAULTED(fault)) {
        fault = all_runs(&bench);
    }
    if (FAULTED(fault)) {
        (void)fprintf(stderr, "bench_signer: %s: %s%.*s\n", fault_row(fault.code)->text,
                      bench.op != NULL ? bench.op->note.detail : "", (int)why.len,
                      why.at != NULL ? (const char *)why.at : "");
        return 1;
    }
    return 0;
}
