/* The thread that empties the queue of spans. A batch that the receiver wants later is held for a few attempts; what
 * comes meanwhile fills the queue, and then is dropped. */
#include "api/telemetry/otlp_internal.h"
#include "appliance/base/alloc.h"
#include "appliance/base/log.h"
#include "appliance/http/http.h"

#include <errno.h>
#include <pthread.h>

#define BATCH        512u
#define ATTEMPTS     5u
#define LOOK_MOST_NS (200 * NS_PER_MS)

enum { EXPORTED, DROPPED, QUEUED };
const struct metric otlp_metrics[] = {
    [EXPORTED] = { "svc_otlp_spans_exported_total", METRIC_COUNTER, "Spans that the receiver accepted.", { 0 } },
    [DROPPED] = { "svc_otlp_spans_dropped_total",
                  METRIC_COUNTER,
                  "Spans that were not exported: the queue was full, or the receiver did not take them.",
                  { 0 } },
    [QUEUED] = { "svc_otlp_spans_queued", METRIC_GAUGE, "Spans that wait for their export.", { 0 } },
};
const size_t otlp_metric_count = COUNT_OF(otlp_metrics);
const struct metric otlp_export_failures = {
    "svc_otlp_export_failures_total",
    METRIC_COUNTER,
    "Exchanges with the OTLP receiver that were not accepted, by signal (traces, logs).",
    { "signal" },
};

struct otlp {
    struct otlp_settings settings;
    struct metrics *metrics;
    struct otlp_queue *queue;
    struct otlp_sender *sender;
    pthread_t thread;
    bool runs, recording;
    struct trace_record *batch; /* the thread's, as is what follows */
    struct buf body;
    bool told; /* that it fails */

    atomic_bool give_up; /* of an exchange that lasts */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool stopping; /* guarded by the lock, as are: */
    bool over;
    mono_ns flush_until;
};

static void drop(struct otlp *otlp, size_t count)
{
    metrics_add(otlp->metrics, &otlp_metrics[DROPPED], (double)count, NULL);
}

static void put(void *arg, const struct trace_record *record)
{
    struct otlp *otlp = arg;
    if (!otlp_queue_put(otlp->queue, record)) {
        drop(otlp, 1);
    }
}

/* Until then or the stop. True: it is stopping; then *ret_until is the end of the flush. */
static bool wait_until(struct otlp *otlp, mono_ns until, mono_ns *ret_until)
{
    struct timespec time = { .tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S };
    BUG_IF(pthread_mutex_lock(&otlp->lock) != 0);
    int waited = 0;
    while (!otlp->stopping && waited == 0 && clock_mono() < until) {
        waited = pthread_cond_clockwait(&otlp->changed, &otlp->lock, CLOCK_MONOTONIC, &time);
    }
    bool stopping = otlp->stopping;
    *ret_until = otlp->flush_until;
    BUG_IF(pthread_mutex_unlock(&otlp->lock) != 0);
    BUG_IF(waited != 0 && waited != ETIMEDOUT);
    return stopping;
}

static void tell(struct otlp *otlp, const struct otlp_reply *reply)
{
    bool fails = reply->outcome != OTLP_ACCEPTED || reply->rejected > 0;
    if (reply->outcome != OTLP_ACCEPTED) {
        metrics_add(otlp->metrics, &otlp_export_failures, 1, (const char *const[]){ "traces" });
    }
    if (fails && !otlp->told) {
        log_write(WARN, "otlp_export_failed", LOG_TEXT("signal", "traces"), LOG_INT("status", reply->status),
                  LOG_INT("rejected", reply->rejected), LOG_TEXT("cause", reply->why));
    } else if (!fails && otlp->told) {
        log_write(INFO, "otlp_export_recovered", LOG_TEXT("signal", "traces"));
    }
    otlp->told = fails;
}

/* Attempts until it is over, one way or the other; while stopping, as long as the flush lasts. */
static void send_batch(struct otlp *otlp, size_t count)
{
    struct otlp_reply reply = { .outcome = OTLP_REFUSED };
    buf_clear(&otlp->body);
    struct fault fault = otlp_encode_spans(&otlp->settings, otlp->batch, count, &otlp->body);
    for (unsigned attempt = 1; !FAULTED(fault) && attempt <= ATTEMPTS; attempt++) {
        mono_ns until = 0;
        bool stopping = wait_until(otlp, 0, &until);
        int64_t most = stopping ? until - clock_mono() : INT64_MAX;
        if (most <= 0) {
            break;
        }
        otlp_send(otlp->sender, buf_span(&otlp->body), most, &otlp->give_up, &reply);
        tell(otlp, &reply);
        if (reply.outcome != OTLP_LATER || stopping) {
            break;
        }
        (void)wait_until(otlp, clock_mono() + otlp_wait_ns(&reply, attempt), &until);
    }
    size_t refused = reply.outcome == OTLP_ACCEPTED ? (size_t)reply.rejected : count;
    refused = refused < count ? refused : count;
    drop(otlp, refused);
    metrics_add(otlp->metrics, &otlp_metrics[EXPORTED], (double)(count - refused), NULL);
}

static void *run(void *arg)
{
    struct otlp *otlp = arg;
    mono_ns gathered = clock_mono(), until = 0;
    bool stopping = false;
    (void)pthread_setname_np(pthread_self(), "svc-otlp");
    while (!stopping) {
        mono_ns look = otlp->settings.interval_ns < LOOK_MOST_NS ? otlp->settings.interval_ns : LOOK_MOST_NS;
        stopping = wait_until(otlp, clock_mono() + look, &until);
        size_t length = otlp_queue_length(otlp->queue), count = 1;
        bool due = stopping || length >= BATCH || clock_mono() >= gathered + otlp->settings.interval_ns;
        while (due && count > 0) {
            count = otlp_queue_take(otlp->queue, otlp->batch, BATCH);
            gathered = clock_mono();
            if (count > 0) {
                send_batch(otlp, count);
            }
        }
        metrics_set(otlp->metrics, &otlp_metrics[QUEUED], (double)otlp_queue_length(otlp->queue), NULL);
    }
    BUG_IF(pthread_mutex_lock(&otlp->lock) != 0);
    otlp->over = true;
    BUG_IF(pthread_cond_broadcast(&otlp->changed) != 0);
    BUG_IF(pthread_mutex_unlock(&otlp->lock) != 0);
    return NULL;
}

static struct fault start(struct otlp *otlp, struct buf *why)
{
    TRY(otlp_sender_new(&otlp->settings, "/v1/traces", why, &otlp->sender));
    TRY(otlp_queue_new(otlp->settings.queue, &otlp->queue));
    TRY(mem_new(BATCH, sizeof(*otlp->batch), &otlp->batch));
    TRY(metrics_register(otlp->metrics, otlp_metrics, otlp_metric_count));
    TRY(metrics_register(otlp->metrics, &otlp_export_failures, 1));
    otlp->runs = pthread_create(&otlp->thread, NULL, run, otlp) == 0;
    REQUIRE(otlp->runs, NO_MEMORY);
    otlp->recording = true;
    trace_start(put, otlp, otlp->settings.sample_ppm);
    return OK;
}

struct fault otlp_new(const struct otlp_settings *settings, struct metrics *metrics, struct buf *why,
                      struct otlp **ret_otlp)
{
    CLEANUP(otlp_freep) struct otlp *otlp = NULL;
    TRY(mem_new(1, sizeof(*otlp), &otlp));
    otlp->settings = *settings;
    otlp->metrics = metrics;
    otlp->body = (struct buf)BUF_INIT(OTLP_BODY_MAX);
    BUG_IF(pthread_mutex_init(&otlp->lock, NULL) != 0 || pthread_cond_init(&otlp->changed, NULL) != 0);
    TRY(start(otlp, why));
    *ret_otlp = TAKE(otlp);
    return OK;
}

void otlp_stop(struct otlp *otlp)
{
    if (otlp->recording) {
        trace_stop();
        otlp->recording = false;
    }
    if (!otlp->runs) {
        return;
    }
    BUG_IF(pthread_mutex_lock(&otlp->lock) != 0);
    otlp->stopping = true;
    otlp->flush_until = clock_mono() + OTLP_FLUSH_NS;
    BUG_IF(pthread_cond_broadcast(&otlp->changed) != 0);
    struct timespec time = { .tv_sec = otlp->flush_until / NS_PER_S, .tv_nsec = otlp->flush_until % NS_PER_S };
    int waited = 0;
    while (!otlp->over && waited == 0) {
        waited = pthread_cond_clockwait(&otlp->changed, &otlp->lock, CLOCK_MONOTONIC, &time);
    }
    BUG_IF(pthread_mutex_unlock(&otlp->lock) != 0);
    BUG_IF(waited != 0 && waited != ETIMEDOUT);
    atomic_store(&otlp->give_up, true); /* an exchange that began before may have a longer time limit */
    BUG_IF(pthread_join(otlp->thread, NULL) != 0);
    otlp->runs = false;
}

void otlp_free(struct otlp *otlp)
{
    if (otlp == NULL) {
        return;
    }
    otlp_stop(otlp);
    http_forget();
    otlp_sender_free(otlp->sender);
    otlp_queue_free(otlp->queue);
    buf_free(&otlp->body);
    mem_free(otlp->batch);
    BUG_IF(pthread_cond_destroy(&otlp->changed) != 0 || pthread_mutex_destroy(&otlp->lock) != 0);
    mem_free(otlp);
}
