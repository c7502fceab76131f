/* Start, stop and waiting: what other threads do with a projector. */
#include "api/projection/internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/tracing.h"

#include <errno.h>
#include <stdio.h>

void projector_lock(struct projector *projector)
{
    BUG_IF(pthread_mutex_lock(&projector->lock) != 0);
}

void projector_unlock(struct projector *projector)
{
    BUG_IF(pthread_mutex_unlock(&projector->lock) != 0);
}

bool projector_pause(struct projector *projector, mono_ns until)
{
    struct timespec time = { .tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S };
    if (!projector->stopping) {
        int waited = pthread_cond_clockwait(&projector->changed, &projector->lock, CLOCK_MONOTONIC, &time);
        BUG_IF(waited != 0 && waited != ETIMEDOUT);
    }
    return !projector->stopping;
}

bool projector_going(struct projector *projector)
{
    projector_lock(projector);
    bool going = !projector->stopping;
    projector_unlock(projector);
    return going;
}

struct fault projector_start(const struct projector_config *config, struct projector **ret_projector)
{
    struct projector *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    made->config = *config;
    made->generation = 1;
    BUG_IF(pthread_mutex_init(&made->lock, NULL) != 0);
    BUG_IF(pthread_cond_init(&made->changed, NULL) != 0 || pthread_cond_init(&made->hurried, NULL) != 0);
    struct fault fault = applier_new(config, &made->applier);
    if (!FAULTED(fault)) {
        made->thread_runs = pthread_create(&made->thread, NULL, projector_run, made) == 0;
        made->watcher_runs = pthread_create(&made->watcher, NULL, projector_watch, made) == 0;
        fault = made->thread_runs && made->watcher_runs ? OK : FAULT(NO_MEMORY);
    }
    if (FAULTED(fault)) {
        projector_stop(made);
        return fault;
    }
    *ret_projector = made;
    return OK;
}

void projector_stop(struct projector *projector)
{
    if (projector == NULL) {
        return;
    }
    projector_lock(projector);
    projector->stopping = true;
    BUG_IF(pthread_cond_broadcast(&projector->changed) != 0 || pthread_cond_signal(&projector->hurried) != 0);
    projector_unlock(projector);
    if (projector->thread_runs) {
        BUG_IF(pthread_join(projector->thread, NULL) != 0);
    }
    if (projector->watcher_runs) {
        BUG_IF(pthread_join(projector->watcher, NULL) != 0);
    }
    applier_free(projector->applier);
    BUG_IF(projector->waiters != 0);
    BUG_IF(pthread_cond_destroy(&projector->changed) != 0 || pthread_cond_destroy(&projector->hurried) != 0);
    BUG_IF(pthread_mutex_destroy(&projector->lock) != 0);
    mem_free(projector);
}

/* ---- waiting ---- */

static void begin_to_wait_locked(struct projector *projector)
{
    projector->waiters++;
    if (projector->gathering) {
        BUG_IF(pthread_cond_signal(&projector->hurried) != 0);
    }
}

static struct fault untrusted(struct op *op, const struct trust_verdict *verdict)
{
    return op_fail(op, FAULT(LOG_UNTRUSTED), "the event log does not match the verified copies from message %llu on",
                   (unsigned long long)verdict->first_bad_seq);
}

/* OK = there; DEADLINE = not yet. */
static struct fault reached(struct op *op, const struct projector *projector, uint64_t stream_seq)
{
    if (projector->applied >= stream_seq) {
        return OK;
    }
    if (projector->verdict.cause != TRUST_GOOD) {
        return untrusted(op, &projector->verdict);
    }
    if (projector->failed_seq != 0 && projector->failed_seq <= stream_seq) {
        return op_fail(op, FAULT(PROJECTION_FAILED), "the projection stands at message %llu",
                       (unsigned long long)projector->failed_seq);
    }
    return projector->stopping ? FAULT(CANCELLED) : FAULT(DEADLINE);
}

static struct fault wait_for(struct op *op, struct projector *projector, uint64_t stream_seq)
{
    BUG_IF(op->tx_open != 0);
    projector_lock(projector);
    begin_to_wait_locked(projector);
    struct fault fault = reached(op, projector, stream_seq);
    while (fault.code == FAULT_DEADLINE && !op_expired(op)) {
        (void)projector_pause(projector, op->deadline);
        fault = reached(op, projector, stream_seq);
    }
    projector->waiters--;
    projector_unlock(projector);
    return fault.code != FAULT_DEADLINE
               ? fault
               : op_fail(op, fault, "recorded, and not yet visible: the projection is behind; ask again");
}

void projector_hurry(struct projector *projector, uint64_t stream_seq)
{
    projector_lock(projector);
    projector->wanted = stream_seq > projector->wanted ? stream_seq : projector->wanted;
    if (projector->gathering) {
        BUG_IF(pthread_cond_signal(&projector->hurried) != 0);
    }
    projector_unlock(projector);
}

struct fault projector_wait(struct op *op, struct projector *projector, uint64_t stream_seq)
{
    return TRACED(op, TRACE_INTERNAL, "projection wait", NULL, NULL, wait_for(op, projector, stream_seq));
}

struct fault projector_catch_up(struct op *op, struct projector *projector)
{
    struct event_log_state state;
    TRY(event_log_state_now(op, projector->config.log, &state));
    projector_lock(projector);
    while (!projector->looked && !op_expired(op) && projector_pause(projector, op->deadline)) {
    }
    bool looked = projector->looked;
    struct trust_verdict verdict = projector->verdict;
    projector_unlock(projector);
    REQUIRE(looked, DEADLINE);
    if (verdict.cause != TRUST_GOOD) { /* a log that lost its tail ends before the checkpoint */
        return untrusted(op, &verdict);
    }
    return projector_wait(op, projector, state.last_seq);
}

struct fault projector_changed(struct op *op, struct projector *projector, uint64_t *seen, mono_ns deadline)
{
    BUG_IF(op->tx_open != 0);
    mono_ns until = deadline < op->deadline ? deadline : op->deadline;
    projector_lock(projector);
    begin_to_wait_locked(projector);
    while (projector->generation == *seen && clock_mono() < until && projector_pause(projector, until)) {
    }
    bool news = projector->generation != *seen, stopping = projector->stopping;
    *seen = projector->generation;
    projector->waiters--;
    projector_unlock(projector);
    REQUIRE(news || !stopping, CANCELLED);
    REQUIRE(news, DEADLINE);
    return OK;
}

void projector_state(struct projector *projector, struct projector_state *ret_state)
{
    projector_lock(projector);
    struct projector_state state = {
        .checkpoint = projector->applied,
        .log_last = event_log_seen(projector->config.log),
        .leader = projector->leader && clock_mono() - atomic_load(&projector->renewed) < LEADERSHIP_LEASE_NS,
        .stopped_at_failure = projector->failed_seq != 0,
        .failed_seq = projector->failed_seq,
        .log_trusted = projector->looked && projector->verdict.cause == TRUST_GOOD,
        .first_bad_seq = projector->verdict.first_bad_seq,
    };
    (void)snprintf(state.cause, sizeof(state.cause), "%s", trust_cause_text(projector->verdict.cause));
    projector_unlock(projector);
    state.lag = state.log_last > state.checkpoint ? state.log_last - state.checkpoint : 0;
    *ret_state = state;
}
