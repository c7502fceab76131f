/* The leader's thread that writes snapshots, and what is seen of it. */
#include "api/snapshot/internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/file.h"
#include "appliance/base/log.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <unistd.h>

#define TICK_NS    NS_PER_S
#define RETRY_NS   (60 * NS_PER_S)
#define LIMIT_MS   (6 * 3600 * 1000)
#define PAUSE_MOST (50 * NS_PER_MS)
#define NICENESS   10

struct snapshots {
    struct services *services;
    pthread_t thread;
    pthread_mutex_t lock; /* guards stopping */
    pthread_cond_t changed;
    bool stopping;
    mono_ns next;                 /* of the thread's: when to look again; 0 = not known yet */
    mono_ns since;                /* of the thread's: when the piece at hand was begun */
    _Atomic enum fault_code ails; /* how the last one ended */
    _Atomic uint64_t swept;       /* the activation before which nothing is left */
};

const struct metric snapshot_metrics[4] = {
    { "svc_read_model_snapshots_written_total",
      METRIC_COUNTER,
      "Snapshots of the read model that were written.",
      { 0 } },
    { "svc_read_model_snapshot_last_success_timestamp_seconds",
      METRIC_GAUGE,
      "When the newest snapshot of the read model was found whole and up to date; 0 = there is none. NaN in a process "
      "that does not lead.",
      { 0 } },
    { "svc_read_model_snapshot_failures_total",
      METRIC_COUNTER,
      "Snapshots of the read model that could not be written.",
      { 0 } },
    { "svc_read_model_snapshot_interval_seconds",
      METRIC_GAUGE,
      "Time between two snapshots of the read model, as configured; 0 = none are made.",
      { 0 } },
};
enum { WRITTEN, LAST_SUCCESS, FAILURES, INTERVAL };

static void enter(struct snapshots *snapshots)
{
    BUG_IF(pthread_mutex_lock(&snapshots->lock) != 0);
}

static void leave(struct snapshots *snapshots)
{
    BUG_IF(pthread_mutex_unlock(&snapshots->lock) != 0);
}

/* False when it is over. */
static bool pause_until(struct snapshots *snapshots, mono_ns until)
{
    struct timespec time = { .tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S };
    int waited = 0;
    enter(snapshots);
    while (!snapshots->stopping && waited == 0) {
        waited = pthread_cond_clockwait(&snapshots->changed, &snapshots->lock, CLOCK_MONOTONIC, &time);
        BUG_IF(waited != 0 && waited != ETIMEDOUT);
    }
    bool on = !snapshots->stopping;
    leave(snapshots);
    return on;
}

/* As long as the piece took, nothing is done: half of the disk and of the database is the others'. */
static struct fault pace(void *arg)
{
    struct snapshots *snapshots = arg;
    mono_ns now = clock_mono(), took = now - snapshots->since;
    bool on = pause_until(snapshots, now + (took < PAUSE_MOST ? took : PAUSE_MOST));
    snapshots->since = clock_mono();
    return on ? OK : FAULT(CANCELLED);
}

static bool leads(const struct services *services)
{
    struct projector_state state;
    projector_state(services->projector, &state);
    return state.leader;
}

static void tell_time(struct snapshots *snapshots, utc_us when)
{
    metrics_set(snapshots->services->metrics, &snapshot_metrics[LAST_SUCCESS], (double)when / 1e6, NULL);
}

static void tell(struct snapshots *snapshots, const struct op *op, struct fault fault, const struct snapshot_made *made)
{
    struct metrics *metrics = snapshots->services->metrics;
    if (fault.code == FAULT_CANCELLED) {
        return;
    }
    atomic_store(&snapshots->ails, fault.code);
    if (FAULTED(fault)) {
        metrics_add(metrics, &snapshot_metrics[FAILURES], 1, NULL);
        log_fault(LOG_LEVEL_WARN, "read_model_snapshot_failed", op, fault);
        return;
    }
    tell_time(snapshots, clock_utc());
    if (made->fresh) {
        metrics_add(metrics, &snapshot_metrics[WRITTEN], 1, NULL);
        log_write(INFO, "read_model_snapshot_written", LOG_TEXT("path", made->path),
                  LOG_INT("checkpoint", made->checkpoint), LOG_INT("rows", made->totals.rows),
                  LOG_INT("bytes", made->totals.bytes));
    }
}

static void write_one(struct snapshots *snapshots)
{
    const struct config *config = snapshots->services->config;
    struct snapshot_made made = { .fresh = false };
    CLEANUP(op_freep) struct op *op = NULL;
    struct fault fault = op_new("system:snapshot", (struct tenant_id){ 0 }, LIMIT_MS, &op);
    snapshots->since = clock_mono();
    if (!FAULTED(fault)) {
        fault = snapshot_make(op, config, snapshots->services->log, secret_span(snapshots->services->fingerprint_key),
                              pace, snapshots, &made);
    }
    tell(snapshots, op, fault, &made);
    int64_t later = FAULTED(fault) && config->snapshots_interval > RETRY_NS ? RETRY_NS : config->snapshots_interval;
    snapshots->next = clock_mono() + later;
}

/* When the newest one that is there was written, whoever wrote it. */
static struct fault newest_time(struct op *op, const struct config *config, utc_us *ret_time)
{
    CLEANUP(fd_closep) int folder = -1;
    uint64_t *there = NULL;
    size_t count = 0;
    TRY(snapshot_folder_open(op, config, &folder));
    TRY(snapshot_folder_list(op, folder, &there, &count));
    *ret_time = count > 0 ? snapshot_time(folder, there[0]) : 0;
    return OK;
}

/* A restart, or another leader with the same folder, goes on where the last one was. */
static void plan(struct snapshots *snapshots)
{
    const struct config *config = snapshots->services->config;
    CLEANUP(op_freep) struct op *op = NULL;
    utc_us newest = 0;
    snapshots->next = clock_mono();
    if (FAULTED(op_new("system:snapshot", (struct tenant_id){ 0 }, LIMIT_MS, &op)) ||
        FAULTED(newest_time(op, config, &newest)) || newest == 0) {
        tell_time(snapshots, 0);
        return; /* what is wrong with the folder is told by writing */
    }
    tell_time(snapshots, newest);
    int64_t age = (clock_utc() - newest) * 1000;
    if (age >= 0 && age < config->snapshots_interval) {
        snapshots->next += config->snapshots_interval - age;
    }
}

static void *work(void *arg)
{
    struct snapshots *snapshots = arg;
    (void)pthread_setname_np(pthread_self(), "svc-snapshot");
    (void)setpriority(PRIO_PROCESS, (id_t)gettid(), NICENESS);
    while (pause_until(snapshots, clock_mono() + TICK_NS)) {
        if (!leads(snapshots->services)) {
            snapshots->next = 0;
            metrics_set(snapshots->services->metrics, &snapshot_metrics[LAST_SUCCESS], NAN, NULL);
        } else if (snapshots->next == 0) {
            plan(snapshots);
        } else if (clock_mono() >= snapshots->next) {
            write_one(snapshots);
        }
    }
    return NULL;
}

struct fault snapshot_start(struct op *op, struct services *services)
{
    (void)op;
    struct snapshots *made = NULL;
    if (services->config->snapshots_dir == NULL || services->config->snapshots_dir[0] == '\0') {
        return OK;
    }
    TRY(mem_new(1, sizeof(*made), &made));
    made->services = services;
    BUG_IF(pthread_mutex_init(&made->lock, NULL) != 0 || pthread_cond_init(&made->changed, NULL) != 0);
    if (pthread_create(&made->thread, NULL, work, made) != 0) {
        mem_free(made);
        return FAULT(NO_MEMORY);
    }
    services->snapshots = made;
    metrics_set(services->metrics, &snapshot_metrics[INTERVAL],
                (double)services->config->snapshots_interval / (double)NS_PER_S, NULL);
    return OK;
}

void snapshot_stop(struct services *services)
{
    struct snapshots *snapshots = services->snapshots;
    services->snapshots = NULL;
    if (snapshots == NULL) {
        return;
    }
    enter(snapshots);
    snapshots->stopping = true;
    BUG_IF(pthread_cond_broadcast(&snapshots->changed) != 0);
    leave(snapshots);
    BUG_IF(pthread_join(snapshots->thread, NULL) != 0);
    BUG_IF(pthread_cond_destroy(&snapshots->changed) != 0 || pthread_mutex_destroy(&snapshots->lock) != 0);
    mem_free(snapshots);
}

struct fault snapshot_sweep(struct op *op, struct services *services)
{
    struct snapshots *snapshots = services->snapshots;
    uint64_t activated = event_log_activated(services->log);
    unsigned gone = 0;
    if (snapshots == NULL || activated <= atomic_load(&snapshots->swept)) {
        return OK;
    }
    struct fault fault = snapshot_forget(op, services->config, services->log, &gone);
    if (fault.code == FAULT_CONFLICT) {
        op->note = (struct fault_note){ 0 };
        return OK; /* what is being written now is not kept; the next look finds the rest */
    }
    TRY(fault);
    atomic_store(&snapshots->swept, activated);
    if (gone > 0) {
        log_write(INFO, "read_model_snapshots_forgotten", LOG_INT("files", gone), LOG_INT("activated", activated));
    }
    return OK;
}

struct fault snapshot_ready(struct op *op, struct services *services)
{
    const struct snapshots *snapshots = services->snapshots;
    struct fault fault = { snapshots != NULL ? atomic_load(&snapshots->ails) : FAULT_NONE };
    return FAULTED(fault) ? op_fail(op, fault, "the last snapshot of the read model failed") : OK;
}
