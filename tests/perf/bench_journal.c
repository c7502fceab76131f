/*
 * bench_journal --folder NEW_FOLDER --threads N --seconds S --size BYTES
 *
 * N threads enter and commit operations of their own, with signatures of BYTES, as fast as the journal lets them; no
 * token, no socket. One JSON line: commits a second, how many of them shared one fdatasync, and the latency's
 * percentiles in microseconds. The folder's file system is what is measured; its files are left behind.
 */
#include "appliance/base/alloc.h"
#include "signer-pkcs11/broker/journal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SAMPLES_MAX ((size_t)1 << 20)
#define THREADS_MAX 256

/* Counts in the C library's place. */
static atomic_uint syncs;
int fdatasync(int fd);
int fdatasync(int fd)
{
    atomic_fetch_add_explicit(&syncs, 1, memory_order_relaxed);
    return (int)syscall(SYS_fdatasync, fd);
}

struct bench {
    const char *folder;
    struct journal *journal;
    unsigned threads, seconds, size;
    atomic_bool stop;
    pthread_barrier_t ready;
};

struct worker {
    struct bench *bench;
    pthread_t thread;
    uint32_t *samples; /* microseconds */
    size_t count;
    struct fault fault;
};

static struct fault commit_one(struct worker *worker, struct op *op, struct span made, struct buf *signature)
{
    CLEANUP(journal_leave) struct journal_entry entry = { 0 };
    struct sha256 request = { { 1 } };
    struct uuid id;
    bool replayed = false;
    TRY(uuid_new(&id));
    op->deadline = clock_mono() + 10 * NS_PER_S;
    mono_ns begun = clock_mono();
    TRY(journal_enter(op, worker->bench->journal, &id, &request, &entry, signature, &replayed));
    TRY(journal_commit(op, &entry, made));
    if (worker->count < SAMPLES_MAX) {
        worker->samples[worker->count++] = (uint32_t)((clock_mono() - begun) / 1000);
    }
    return OK;
}

static void *work(void *arg)
{
    struct worker *worker = arg;
    CLEANUP(op_freep) struct op *op = NULL;
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    static const uint8_t made[SIGNATURE_MAX] = { 1 };
    worker->fault = op_new("bench", (struct tenant_id){ "" }, 10000, &op);
    (void)pthread_barrier_wait(&worker->bench->ready);
    while (!FAULTED(worker->fault) && !atomic_load(&worker->bench->stop)) {
        worker->fault = commit_one(worker, op, span_of(made, worker->bench->size), &signature);
    }
    return NULL;
}

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static struct fault report(struct bench *bench, struct worker *workers, double seconds)
{
    CLEANUP(mem_freep) uint32_t *all = NULL;
    size_t count = 0, total = 0;
    for (unsigned i = 0; i < bench->threads; i++) {
        TRY(workers[i].fault);
        total += workers[i].count;
    }
    REQUIRE(total > 0, INTERNAL);
    TRY(mem_new(total, sizeof(*all), &all));
    for (unsigned i = 0; i < bench->threads; i++) {
        memcpy(all + count, workers[i].samples, workers[i].count * sizeof(*all));
        count += workers[i].count;
    }
    qsort(all, total, sizeof(*all), by_size);
    (void)printf("{\"threads\":%u,\"size\":%u,\"commits_per_second\":%.0f,\"records_per_sync\":%.2f,\"p50_us\":%u,"
                 "\"p99_us\":%u,\"p999_us\":%u,\"max_us\":%u}\n",
                 bench->threads, bench->size, (double)total / seconds, (double)total / (double)atomic_load(&syncs),
                 all[total / 2], all[total * 99 / 100], all[total * 999 / 1000], all[total - 1]);
    return OK;
}

static struct fault run(struct bench *bench, struct worker *workers)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(1024);
    uint64_t cut = 0;
    struct fault fault = journal_open(bench->folder, JOURNAL_RETENTION_MIN, &why, &cut, &bench->journal);
    if (FAULTED(fault)) {
        (void)fprintf(stderr, "%.*s\n", (int)why.len, (const char *)why.at);
        return fault;
    }
    BUG_IF(pthread_barrier_init(&bench->ready, NULL, bench->threads + 1) != 0);
    for (unsigned i = 0; i < bench->threads; i++) {
        workers[i].bench = bench;
        TRY(mem_new(SAMPLES_MAX, sizeof(uint32_t), &workers[i].samples));
        BUG_IF(pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0);
    }
    (void)pthread_barrier_wait(&bench->ready);
    mono_ns begun = clock_mono();
    atomic_store(&syncs, 0);
    struct timespec rest = { .tv_sec = bench->seconds };
    while (nanosleep(&rest, &rest) != 0) {
    }
    atomic_store(&bench->stop, true);
    for (unsigned i = 0; i < bench->threads; i++) {
        BUG_IF(pthread_join(workers[i].thread, NULL) != 0);
    }
    fault = report(bench, workers, (double)(clock_mono() - begun) / (double)NS_PER_S);
    for (unsigned i = 0; i < bench->threads; i++) {
        mem_free(workers[i].samples);
    }
    journal_close(bench->journal);
    return fault;
}

static unsigned number_in(const char *text, unsigned max)
{
    char *end = NULL;
    unsigned long value = strtoul(text, &end, 10);
    return *text != 0 && *end == 0 && value <= max ? (unsigned)value : 0;
}

int main(int argc, char **argv)
{
    static struct worker workers[THREADS_MAX];
    struct bench bench = { 0 };
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--folder") == 0) {
            bench.folder = argv[i + 1];
        } else if (strcmp(argv[i], "--threads") == 0) {
            bench.threads = number_in(argv[i + 1], THREADS_MAX);
        } else if (strcmp(argv[i], "--seconds") == 0) {
            bench.seconds = number_in(argv[i + 1], 3600);
        } else if (strcmp(argv[i], "--size") == 0) {
            bench.size = number_in(argv[i + 1], SIGNATURE_MAX);
        }
    }
    if (bench.folder == NULL || bench.threads == 0 || bench.seconds == 0 || bench.size == 0) {
        (void)fputs("usage: bench_journal --folder NEW_FOLDER --threads N --seconds S --size BYTES\n", stderr);
        return 2;
    }
    return FAULTED(run(&bench, workers)) ? 1 : 0;
}
