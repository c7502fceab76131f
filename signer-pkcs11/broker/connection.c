#include "signer-pkcs11/broker/broker_internal.h"

#include "appliance/base/file.h"

#include <limits.h>
#include <sched.h>

#define STACK_BYTES ((size_t)1 << 20) /* a module's code runs on it */

/* ---- the slot's thread ---- */

static void log_report(struct connection *c, const struct tls_report *report)
{
    uint64_t left_out = 0;
    if (report->reload == TLS_RELOAD_DONE) {
        log_write(INFO, "tls_files_reloaded", LOG_TEXT("peer", report->peer));
    } else if (report->reload == TLS_RELOAD_REFUSED) {
        log_write(ERROR, "tls_files_refused", LOG_TEXT("detail", report->reload_detail));
    }
    if (report->refusal != TLS_REFUSAL_NONE && noise_allows(&c->broker->noise, &left_out)) {
        log_write(WARN, "peer_refused", LOG_TEXT("reason", tls_refusal_text(report->refusal)),
                  LOG_TEXT("detail", report->detail));
    }
}

static struct fault admit(struct connection *c)
{
    struct tls_report report = { 0 };
    struct tls_stream *tls = NULL;
    struct fault fault = door_admit(c->broker->parts.listeners, c->kind, c->fd, &report, &tls);
    if (c->kind == LISTENER_TLS) {
        log_report(c, &report);
    }
    TRY(fault);
    fault = frame_stream_init(&c->stream, c->fd, tls);
    if (FAULTED(fault)) {
        tls_stream_free(tls);
    }
    return fault;
}

static struct fault furnish(struct connection *c)
{
    c->stream = (struct frame_stream)FRAME_STREAM_NONE;
    c->in_vain = 0;
    c->result = (struct buf)BUF_INIT(WIRE_RESULT_MAX);
    c->frame = (struct buf)BUF_INIT(FRAME_HEADER + FRAME_MAX);
    TRY(arena_new(WIRE_ARENA_MAX, &c->arena));
    TRY(op_new("svc-signer", (struct tenant_id){ 0 }, 0, &c->op));
    return admit(c);
}

/* The descriptor is closed under the lock: nobody shuts down another's that got the same number. */
static void clear(struct connection *c)
{
    broker_lock(&c->lock);
    if (c->stream.at == NULL) {
        fd_close(c->fd);
    }
    frame_stream_clear(&c->stream);
    c->fd = -1;
    c->phase = PHASE_FREE;
    broker_unlock(&c->lock);
    arena_free(TAKE(c->arena));
    op_free(TAKE(c->op));
    buf_free(&c->result);
    buf_free(&c->frame);
}

static void give_slot_back(struct connection *c)
{
    struct broker *broker = c->broker;
    broker_lock(&broker->lock);
    broker->count--;
    broker->api_count -= (c->askers & ASKER_API) != 0;
    c->askers = 0;
    if (broker->count == 0) {
        BUG_IF(pthread_cond_signal(&broker->emptied) != 0);
    }
    broker_unlock(&broker->lock);
}

/* False: the broker ends. */
static bool await_handed(struct connection *c)
{
    broker_lock(&c->lock);
    while (c->fd < 0 && c->phase == PHASE_FREE) {
        BUG_IF(pthread_cond_wait(&c->handed, &c->lock) != 0);
    }
    bool handed = c->fd >= 0;
    broker_unlock(&c->lock);
    return handed;
}

static void *connection_main(void *arg)
{
    struct connection *c = arg;
    (void)pthread_setname_np(pthread_self(), "connection");
    while (await_handed(c)) {
        if (!FAULTED(furnish(c))) {
            connection_serve(c);
        }
        clear(c);
        give_slot_back(c);
    }
    return NULL;
}

static struct fault connection_start(struct connection *c)
{
    pthread_attr_t attr;
    size_t stack = STACK_BYTES > (size_t)PTHREAD_STACK_MIN ? STACK_BYTES : (size_t)PTHREAD_STACK_MIN;
    BUG_IF(pthread_attr_init(&attr) != 0 || pthread_attr_setstacksize(&attr, stack) != 0);
    int rc = pthread_create(&c->thread, &attr, connection_main, c);
    BUG_IF(pthread_attr_destroy(&attr) != 0);
    REQUIRE(rc == 0, NO_MEMORY);
    c->runs = true;
    return OK;
}

static struct fault start_all(struct broker *broker)
{
    for (size_t i = 0; i < BROKER_CONNECTIONS_MAX; i++) {
        TRY(connection_start(&broker->connections[i]));
    }
    return OK;
}

/* They inherit SCHED_BATCH: a thread that is woken then takes no processor from one that works, which spares two
 * changes of process for each signature. svc-api's threads do likewise. Where that is not allowed, all stays as it was.
 */
struct fault connections_start(struct broker *broker)
{
    const struct sched_param none = { 0 };
    int before = sched_getscheduler(0);
    bool batch = before >= 0 && sched_setscheduler(0, SCHED_BATCH, &none) == 0;
    struct fault fault = start_all(broker);
    if (batch) {
        (void)sched_setscheduler(0, before, &none);
    }
    return fault;
}

void connections_stop(struct broker *broker)
{
    for (size_t i = 0; i < BROKER_CONNECTIONS_MAX; i++) {
        struct connection *c = &broker->connections[i];
        broker_lock(&c->lock);
        c->phase = PHASE_OPEN; /* without a descriptor: there is none to come */
        BUG_IF(pthread_cond_signal(&c->handed) != 0);
        broker_unlock(&c->lock);
    }
    for (size_t i = 0; i < BROKER_CONNECTIONS_MAX; i++) {
        struct connection *c = &broker->connections[i];
        BUG_IF(c->runs && pthread_join(c->thread, NULL) != 0);
        c->runs = false;
    }
}

/* ---- from the serving thread ---- */

static struct connection *take_slot(struct broker *broker, unsigned askers)
{
    bool api = (askers & ASKER_API) != 0;
    struct connection *slot = NULL;
    broker_lock(&broker->lock);
    if (broker->count < BROKER_CONNECTIONS_MAX && (!api || broker->api_count < BROKER_API_MAX)) {
        slot = broker->connections;
        while (slot->askers != 0) {
            slot++;
        }
        slot->askers = askers;
        broker->count++;
        broker->api_count += api;
    }
    broker_unlock(&broker->lock);
    return slot;
}

struct fault connection_open(struct broker *broker, int fd, enum listener_kind kind, unsigned askers)
{
    BUG_IF(askers == 0);
    struct connection *c = take_slot(broker, askers);
    if (c == NULL) {
        fd_close(fd);
        return FAULT(SATURATED);
    }
    broker_lock(&c->lock);
    c->fd = fd;
    c->kind = kind;
    c->phase = PHASE_OPEN;
    BUG_IF(pthread_cond_signal(&c->handed) != 0);
    broker_unlock(&c->lock);
    return OK;
}

/* ---- around an operation ---- */

void connection_run_begin(struct connection *c)
{
    atomic_fetch_add_explicit(&c->broker->running, 1, memory_order_relaxed);
    broker_lock(&c->lock);
    c->phase = PHASE_RUNNING;
    c->deadline = c->op->deadline;
    broker_unlock(&c->lock);
}

bool connection_run_end(struct connection *c)
{
    broker_lock(&c->lock);
    bool ours = c->phase == PHASE_RUNNING;
    c->phase = ours ? PHASE_OPEN : c->phase;
    broker_unlock(&c->lock);
    atomic_fetch_sub_explicit(&c->broker->running, 1, memory_order_relaxed);
    return ours;
}

void connection_holds(struct connection *c, struct token_session *session)
{
    broker_lock(&c->lock);
    c->session = session;
    broker_unlock(&c->lock);
}
