/*
 * bench_signer --config FILE --algorithm ec-p256|rsa-3072|... --threads N --seconds S --op-id no|yes [--keep]
 *
 * N threads sign through svc-signer's socket as fast as they are answered, with one key of purpose codesign that is
 * made for it and destroyed afterwards. One JSON line: how many a second, and the latency's percentiles in
 * microseconds.
 */
#include "appliance/base/alloc.h"
#include "signer-pkcs11/client/client.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define SAMPLES_MAX ((size_t)1 << 20)
#define THREADS_MAX 256

struct bench {
    struct config *config;
    struct signer_client *client;
    struct key_ref key;
    enum key_algorithm algorithm;
    unsigned threads, seconds;
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
    struct sign_request request = { .key = bench->key,
                                    .scheme = key_default_scheme(bench->algorithm),
                                    .hash = HASH_SHA256,
                                    .digest = SPAN_ARRAY(digest) };
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
    (void)printf("{\"what\":\"signer\",\"algorithm\":\"%s\",\"threads\":%u,\"op_id\":%s,\"per_second\":%.1f,"
                 "\"p50_us\":%u,\"p95_us\":%u,\"p99_us\":%u,\"max_us\":%u,\"count\":%zu,\"failed\":%llu}\n",
                 key_algorithm_text(bench->algorithm), bench->threads, bench->with_op_id ? "true" : "false",
                 (double)count / seconds, all[count / 2], all[count * 95 / 100], all[count * 99 / 100], all[count - 1],
                 count, (unsigned long long)failed);
    return OK;
}

static struct fault measure(struct bench *bench)
{
    static struct worker workers[THREADS_MAX];
    BUG_IF(pthread_barrier_init(&bench->ready, NULL, bench->threads + 1) != 0);
    for (unsigned i = 0; i < bench->threads; i++) {
        workers[i] = (struct worker){ .bench = bench };
        TRY(mem_new(SAMPLES_MAX, sizeof(uint32_t), &workers[i].samples));
        BUG_IF(pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0);
    }
    (void)pthread_barrier_wait(&bench->ready);
    mono_ns begun = clock_mono();
    struct timespec until = { .tv_sec = bench->seconds };
    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &until, NULL);
    atomic_store(&bench->stop, true);
    double seconds = (double)(clock_mono() - begun) / 1e9;
    for (unsigned i = 0; i < bench->threads; i++) {
        BUG_IF(pthread_join(workers[i].thread, NULL) != 0);
    }
    return report(bench, workers, seconds);
}

static struct fault run(struct bench *bench, struct op *op)
{
    CLEANUP(buf_free) struct buf spki = BUF_INIT(SPKI_MAX);
    TRY(tenant_id_parse(span_text("bench"), &bench->key.tenant));
    TRY(uuid_new(&bench->key.id));
    bench->key.purpose = KEY_PURPOSE_CODESIGN;
    TRY(signer_generate(op, bench->client, &bench->key, bench->algorithm, &spki));
    struct fault fault = measure(bench);
    op->deadline = clock_mono() + 10 * NS_PER_S;
    struct fault gone = signer_destroy(op, bench->client, &bench->key);
    return FAULTED(fault) ? fault : gone;
}

static unsigned number(const char *text)
{
    unsigned value = 0;
    for (; *text >= '0' && *text <= '9' && value < 1000000; text++) {
        value = value * 10 + (unsigned)(*text - '0');
    }
    return value;
}

static bool arguments(int argc, char **argv, struct bench *bench, const char **ret_config)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *value = argv[i + 1];
        if (strcmp(argv[i], "--config") == 0) {
            *ret_config = value;
        } else if (strcmp(argv[i], "--algorithm") == 0) {
            IGNORE(key_algorithm_parse(span_text(value), &bench->algorithm));
        } else if (strcmp(argv[i], "--threads") == 0) {
            bench->threads = number(value);
        } else if (strcmp(argv[i], "--seconds") == 0) {
            bench->seconds = number(value);
        } else if (strcmp(argv[i], "--op-id") == 0) {
            bench->with_op_id = strcmp(value, "yes") == 0;
        } else {
            return false;
        }
    }
    return argc % 2 == 1 && *ret_config != NULL && bench->algorithm != KEY_ALGORITHM_NONE && bench->threads > 0 &&
           bench->threads <= THREADS_MAX && bench->seconds > 0;
}

int main(int argc, char **argv)
{
    static struct bench bench = { .threads = 1, .seconds = 4 };
    const char *path = NULL;
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    if (!arguments(argc, argv, &bench, &path)) {
        (void)fputs("usage: bench_signer --config FILE --algorithm A --threads N --seconds S --op-id no|yes\n", stderr);
        return 2;
    }
    struct fault fault = config_load(path, &why, &bench.config);
    CLEANUP(op_freep) struct op *op = NULL;
    if (!FAULTED(fault)) {
        bench.config->signer_client_conns = bench.threads;
        fault = op_new("bench", (struct tenant_id){ 0 }, 30000, &op);
    }
    if (!FAULTED(fault)) {
        fault = signer_client_new(bench.config, &bench.client);
    }
    if (!FAULTED(fault)) {
        fault = run(&bench, op);
    }
    if (FAULTED(fault)) {
        (void)fprintf(stderr, "bench_signer: %s: %s%.*s\n", fault_row(fault.code)->text,
                      op != NULL ? op->note.detail : "", (int)why.len, why.at != NULL ? (const char *)why.at : "");
        return 1;
    }
    return 0;
}
