#include "api/server/workers.h"

#include "appliance/base/alloc.h"
#include "appliance/base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#define RUN_LEAST_MS 30000 /* a run may take this long though its period is shorter */
#define RUN_MOST_MS  60000 /* bounds the drain too */

const struct metric worker_failures_total = {
    "svc_worker_failures_total", METRIC_COUNTER, "Runs of periodic work that ended in a fault.", { "worker" }
};

struct job {
    const struct worker_row *row;
    mono_ns due;
    bool running;
};

struct workers {
    struct services *services;
    struct job *jobs;
    size_t count;
    pthread_mutex_t lock; /* guards jobs' due and running, and stopping */
    pthread_cond_t changed;
    bool stopping;
    pthread_t threads[WORKER_THREADS];
    size_t thread_count;
};

/* With the lock: the job that is due first and not running, or NULL. */
static struct job *next_locked(struct workers *workers)
{
    struct job *next = NULL;
    for (size_t i = 0; i < workers->count; i++) {
        struct job *job = &workers->jobs[i];
        if (!job->running && (next == NULL || job->due < next->due)) {
            next = job;
        }
    }
    return next;
}

/* With the lock: waits until `job` is due (NULL: until something changes). */
static void wait_locked(struct workers *workers, const struct job *job)
{
    if (job == NULL) {
        BUG_IF(pthread_cond_wait(&workers->changed, &workers->lock) != 0);
        return;
    }
    struct timespec at = { .tv_sec = job->due / NS_PER_S, .tv_nsec = job->due % NS_PER_S };
    int code = pthread_cond_timedwait(&workers->changed, &workers->lock, &at);
    BUG_IF(code != 0 && code != ETIMEDOUT);
}

static bool leads(const struct workers *workers)
{
    struct projector_state state;
    projector_state(workers->services->projector, &state);
    return state.leader;
}

static void run_job(struct workers *workers, const struct worker_row *row)
{
    if (row->leader_only && !leads(workers)) {
        return;
    }
    char subject[64];
    (void)snprintf(subject, sizeof(subject), "system:worker:%s", row->name);
    int limit = row->period_ms < RUN_LEAST_MS ? RUN_LEAST_MS : row->period_ms;
    CLEANUP(op_freep) struct op *op = NULL;
    struct fault fault = op_new(subject, (struct tenant_id){ 0 }, limit < RUN_MOST_MS ? limit : RUN_MOST_MS, &op);
    if (!FAULTED(fault)) {
        fault = row->run(op, workers->services);
    }
    if (FAULTED(fault)) {
        metrics_add(workers->services->metrics, &worker_failures_total, 1, (const char *const[]){ row->name });
        log_fault(LOG_LEVEL_WARN, "worker_failed", op, fault);
    }
}

static void *work(void *arg)
{
    struct workers *workers = arg;
    (void)pthread_setname_np(pthread_self(), "svc-periodic");
    BUG_IF(pthread_mutex_lock(&workers->lock) != 0);
    while (!workers->stopping) {
        struct job *job = next_locked(workers);
        if (job == NULL || job->due > clock_mono()) {
            wait_locked(workers, job);
            continue;
        }
        job->running = true;
        BUG_IF(pthread_mutex_unlock(&workers->lock) != 0);
        run_job(workers, job->row);
        BUG_IF(pthread_mutex_lock(&workers->lock) != 0);
        job->running = false;
        job->due = clock_mono() + job->row->period_ms * NS_PER_MS;
        BUG_IF(pthread_cond_broadcast(&workers->changed) != 0);
    }
    BUG_IF(pthread_mutex_unlock(&workers->lock) != 0);
    return NULL;
}

static struct fault gather(struct workers *workers, const struct feature *const *features, size_t count)
{
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        total += features[i]->worker_count;
    }
    TRY(mem_new(total, sizeof(*workers->jobs), &workers->jobs));
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < features[i]->worker_count; j++) {
            const struct worker_row *row = &features[i]->workers[j];
            REQUIRE(row->period_ms > 0, BAD_ARGUMENT);
            workers->jobs[workers->count++] =
                (struct job){ .row = row, .due = clock_mono() + row->period_ms * NS_PER_MS };
        }
    }
    return OK;
}

struct fault workers_start(struct services *services, const struct feature *const *features, size_t count,
                           struct workers **ret_workers)
{
    struct workers *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    made->services = services;
    BUG_IF(pthread_mutex_init(&made->lock, NULL) != 0);
    pthread_condattr_t clock;
    BUG_IF(pthread_condattr_init(&clock) != 0 || pthread_condattr_setclock(&clock, CLOCK_MONOTONIC) != 0 ||
           pthread_cond_init(&made->changed, &clock) != 0);
    (void)pthread_condattr_destroy(&clock);
    struct fault fault = gather(made, features, count);
    while (!FAULTED(fault) && made->count > 0 && made->thread_count < WORKER_THREADS) {
        bool started = pthread_create(&made->threads[made->thread_count], NULL, work, made) == 0;
        made->thread_count += started;
        fault = started ? OK : FAULT(NO_MEMORY);
    }
    if (FAULTED(fault)) {
        workers_stop(made);
        return fault;
    }
    *ret_workers = made;
    return OK;
}

void workers_stop_begin(struct workers *workers)
{
    if (workers != NULL) {
        BUG_IF(pthread_mutex_lock(&workers->lock) != 0);
        workers->stopping = true;
        BUG_IF(pthread_cond_broadcast(&workers->changed) != 0);
        BUG_IF(pthread_mutex_unlock(&workers->lock) != 0);
    }
}

void workers_stop(struct workers *workers)
{
    if (workers == NULL) {
        return;
    }
    workers_stop_begin(workers);
    for (size_t i = 0; i < workers->thread_count; i++) {
        BUG_IF(pthread_join(workers->threads[i], NULL) != 0);
    }
    BUG_IF(pthread_cond_destroy(&workers->changed) != 0 || pthread_mutex_destroy(&workers->lock) != 0);
    mem_free(workers->jobs);
    mem_free(workers);
}
