#include "api/tsa/clock_watch.h"

#include "api/tsa/clock_servers.h"
#include "api/tsa/internal.h"
#include "appliance/base/alloc.h"
#include "appliance/base/log.h"

#include <errno.h>
#include <pthread.h>

#define CHECK_NS  NS_PER_S
#define LOOK_NS   (250 * NS_PER_MS) /* how often the second thread looks for work */
#define BEHIND_MS 5000              /* for one append or one look at the log */
#define AGAIN_NS  NS_PER_S          /* after an append that failed */

struct clock_watch {
    struct services *services;
    struct tenant_id tenant;
    struct clock_rules rules;
    struct clock_gate *gate;
    struct clock_servers *servers; /* the second thread's own; NULL without any */
    atomic_bool stopping;
    pthread_mutex_t lock;
    pthread_cond_t stopped;       /* on CLOCK_MONOTONIC */
    struct clock_changes changes; /* guarded by lock */
    pthread_t checker, helper;
    bool checks, helps; /* which threads run */
    uint64_t steps;     /* counted so far; the checker's own */
};

static void lock(struct clock_watch *watch)
{
    BUG_IF(pthread_mutex_lock(&watch->lock) != 0);
}

static void unlock(struct clock_watch *watch)
{
    BUG_IF(pthread_mutex_unlock(&watch->lock) != 0);
}

/* False when it is to stop. */
static bool wait_until(struct clock_watch *watch, mono_ns until)
{
    struct timespec at = { .tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S };
    int code = 0;
    lock(watch);
    while (!atomic_load(&watch->stopping) && code == 0) {
        code = pthread_cond_timedwait(&watch->stopped, &watch->lock, &at);
        BUG_IF(code != 0 && code != ETIMEDOUT);
    }
    unlock(watch);
    return !atomic_load(&watch->stopping);
}

static void gauge(const struct clock_watch *watch, enum tsa_metric metric, double value)
{
    metrics_set(watch->services->metrics, &tsa_metrics[metric], value, NULL);
}

static void show(const struct clock_watch *watch, const struct clock_state *state)
{
    gauge(watch, TSA_METRIC_CLOCK_SYNCHRONISED, state->kernel_synchronised);
    if (state->bound_us >= 0) {
        gauge(watch, TSA_METRIC_CLOCK_ERROR, (double)state->bound_us / (double)US_PER_S);
    }
    if (state->offset_known) {
        gauge(watch, TSA_METRIC_CLOCK_OFFSET, (double)state->offset_us / (double)US_PER_S);
    }
    for (int reason = 0; reason < CLOCK_REASON_COUNT; reason++) {
        const char *const labels[] = { clock_reason_text((enum clock_reason)reason) };
        metrics_set(watch->services->metrics, &tsa_metrics[TSA_METRIC_CLOCK_STATE],
                    state->reason == (enum clock_reason)reason, labels);
    }
}

static void tell(const struct clock_state *state)
{
    if (state->reason == CLOCK_TRUSTED) {
        log_write(INFO, "tsa_clock_trusted", LOG_INT("max_error_us", state->bound_us),
                  LOG_INT("servers_agreed", state->agreed), LOG_TEXT("trusts", state->trusts_host ? "host" : NULL));
    } else {
        log_write(WARN, "tsa_clock_lost", LOG_TEXT("reason", clock_reason_text(state->reason)),
                  LOG_TEXT("detail", clock_reason_says(state->reason)),
                  LOG_TEXT("recovery", clock_reason_recovery(state->reason)));
    }
}

/* By both threads: that the checks have stopped is told, too. */
static void note(struct clock_watch *watch, const struct clock_state *state)
{
    lock(watch);
    bool changed = clock_changes_note(&watch->changes, state, clock_utc());
    unlock(watch);
    if (changed) {
        tell(state);
    }
}

static void check(struct clock_watch *watch)
{
    struct clock_state state;
    (void)clock_gate_check(watch->gate);
    clock_gate_state(watch->gate, &state);
    show(watch, &state);
    if (state.steps > watch->steps) {
        metrics_add(watch->services->metrics, &tsa_metrics[TSA_METRIC_CLOCK_JUMPS],
                    (double)(state.steps - watch->steps), NULL);
        log_write(WARN, "tsa_clock_stepped", LOG_INT("steps", state.steps));
        watch->steps = state.steps;
    }
    note(watch, &state);
}

static void *run_checker(void *arg)
{
    struct clock_watch *watch = arg;
    (void)pthread_setname_np(pthread_self(), "svc-clock");
    mono_ns next = clock_mono();
    do {
        check(watch);
        next += CHECK_NS;
        next = next < clock_mono() ? clock_mono() : next; /* after a pause of the machine no checks are made up for */
    } while (wait_until(watch, next));
    return NULL;
}

static void ask_servers(struct clock_watch *watch)
{
    struct clock_agreement agreement = { 0 };
    bool agreed = clock_servers_ask(watch->servers, &watch->stopping, &agreement);
    if (atomic_load(&watch->stopping)) {
        return;
    }
    if (agreed) {
        clock_gate_agreed(watch->gate, &agreement);
    } else {
        log_write(WARN, "tsa_clock_no_agreement", LOG_INT("answered", agreement.answered),
                  LOG_INT("quorum", watch->rules.quorum));
    }
    clock_gate_round_over(watch->gate, agreement.answered);
}

static struct fault read_mark(struct op *op, struct clock_watch *watch)
{
    utc_us mark = 0;
    TRY(clock_mark_read(op, watch->services, &mark));
    clock_gate_raise(watch->gate, mark);
    return OK;
}

/* With the database or the log away, what was read last stands: nothing can be stamped then anyway. */
static void look_at_mark(struct clock_watch *watch)
{
    CLEANUP(op_freep) struct op *op = NULL;
    struct fault fault = op_new("system:tsa-clock", watch->tenant, BEHIND_MS, &op);
    if (!FAULTED(fault)) {
        fault = read_mark(op, watch);
    }
    if (FAULTED(fault)) {
        log_fault(LOG_LEVEL_DEBUG, "tsa_clock_mark_not_read", op, fault);
    }
}

/* False when there is one that could not be sent. */
static bool send_change(struct clock_watch *watch)
{
    struct clock_change change;
    lock(watch);
    bool any = watch->changes.count > 0;
    change = watch->changes.waiting[0];
    unlock(watch);
    if (!any) {
        return true;
    }
    CLEANUP(op_freep) struct op *op = NULL;
    struct fault fault = op_new("system:tsa-clock", watch->tenant, BEHIND_MS, &op);
    if (!FAULTED(fault)) {
        fault = clock_changes_send(op, watch->services->log, watch->services->instance, &change);
    }
    if (FAULTED(fault)) {
        log_fault(LOG_LEVEL_WARN, "tsa_clock_change_not_recorded", op, fault);
        return false;
    }
    lock(watch);
    clock_changes_sent(&watch->changes, change.number);
    unlock(watch);
    return true;
}

static void *run_helper(void *arg)
{
    struct clock_watch *watch = arg;
    mono_ns round_due = 0, mark_due = clock_mono() + CLOCK_MARK_NS, change_due = 0;
    (void)pthread_setname_np(pthread_self(), "svc-clock-help");
    do {
        bool asked_for = clock_gate_wants_round(watch->gate);
        if (watch->servers != NULL && (asked_for || clock_mono() >= round_due)) {
            ask_servers(watch);
            round_due = clock_mono() + watch->rules.interval_ns;
        }
        struct clock_state state;
        clock_gate_state(watch->gate, &state);
        note(watch, &state);
        if (clock_mono() >= change_due) {
            change_due = send_change(watch) ? 0 : clock_mono() + AGAIN_NS;
        }
        if (clock_mono() >= mark_due) {
            look_at_mark(watch);
            mark_due = clock_mono() + CLOCK_MARK_NS;
        }
    } while (wait_until(watch, clock_mono() + LOOK_NS));
    return NULL;
}

static struct fault begin(struct op *op, struct clock_watch *watch)
{
    const struct config *config = watch->services->config;
    TRY(clock_rules_init(op, config, &watch->rules));
    TRY(clock_gate_new(&watch->rules, &clock_source_host, &watch->gate));
    if (watch->rules.servers > 0) {
        TRY(clock_servers_new(op, &config->tsa_clock_servers, watch->rules.quorum, &clock_source_host,
                              &watch->servers));
    }
    TRY(read_mark(op, watch));
    if (watch->rules.trust_host) {
        log_write(WARN, "tsa_trusts_host_clock",
                  LOG_TEXT("detail", "time stamps state the time of this host whether or not it is synchronised "
                                     "(protocols.tsa.clock.trust_host)"));
    }
    check(watch);
    (void)send_change(watch); /* if it fails, the helper tries again */
    watch->checks = pthread_create(&watch->checker, NULL, run_checker, watch) == 0;
    REQUIRE(watch->checks, NO_MEMORY);
    watch->helps = pthread_create(&watch->helper, NULL, run_helper, watch) == 0;
    REQUIRE(watch->helps, NO_MEMORY);
    return OK;
}

struct fault clock_watch_start(struct op *op, struct services *services, struct clock_watch **ret_watch)
{
    CLEANUP(clock_watch_stopp) struct clock_watch *made = NULL;
    pthread_condattr_t monotonic;
    TRY(mem_new(1, sizeof(*made), &made));
    made->services = services;
    made->tenant = op->tenant;
    made->changes.instance = services->instance;
    atomic_init(&made->stopping, false);
    BUG_IF(pthread_mutex_init(&made->lock, NULL) != 0 || pthread_condattr_init(&monotonic) != 0 ||
           pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) != 0 ||
           pthread_cond_init(&made->stopped, &monotonic) != 0 || pthread_condattr_destroy(&monotonic) != 0);
    TRY(begin(op, made));
    *ret_watch = TAKE(made);
    return OK;
}

void clock_watch_stop(struct clock_watch *watch)
{
    if (watch == NULL) {
        return;
    }
    lock(watch);
    atomic_store(&watch->stopping, true);
    BUG_IF(pthread_cond_broadcast(&watch->stopped) != 0);
    unlock(watch);
    BUG_IF(watch->checks && pthread_join(watch->checker, NULL) != 0);
    BUG_IF(watch->helps && pthread_join(watch->helper, NULL) != 0);
    clock_servers_free(watch->servers);
    clock_gate_free(watch->gate);
    BUG_IF(pthread_cond_destroy(&watch->stopped) != 0 || pthread_mutex_destroy(&watch->lock) != 0);
    mem_free(watch);
}

struct fault clock_watch_now(struct op *op, struct clock_watch *watch, utc_us *ret_now)
{
    enum clock_reason reason = CLOCK_TRUSTED;
    struct fault fault = clock_gate_now(op, watch->gate, ret_now, &reason);
    if (FAULTED(fault)) {
        metrics_add(watch->services->metrics, &tsa_metrics[TSA_METRIC_CLOCK_REFUSALS], 1,
                    (const char *const[]){ clock_reason_text(reason) });
    }
    return fault;
}

void clock_watch_state(struct clock_watch *watch, struct clock_state *ret_state)
{
    clock_gate_state(watch->gate, ret_state);
}
