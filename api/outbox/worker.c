/*
 * A worker thread: runs what is leased; when nothing is, one of the idle workers leases for all of them, takes the
 * first row itself and wakes the others. So from the projector's wake to a running handler there is one transaction.
 */
#include "api/outbox/internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/log.h"

#include <errno.h>

#define POLL_NS       NS_PER_S
#define LEASE_MS      5000
#define OUTCOME_MS    5000
#define OUTCOME_TRIES 3

static void lock(struct outbox *outbox)
{
    BUG_IF(pthread_mutex_lock(&outbox->lock) != 0);
}

static void unlock(struct outbox *outbox)
{
    BUG_IF(pthread_mutex_unlock(&outbox->lock) != 0);
}

static void announce(struct outbox *outbox)
{
    BUG_IF(pthread_cond_broadcast(&outbox->changed) != 0);
}

/* So many of those who wait, and not all 64. */
static void rouse(struct outbox *outbox, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        BUG_IF(pthread_cond_signal(&outbox->changed) != 0);
    }
}

static void renew(struct op *op, int timeout_ms)
{
    arena_clear(op->arena);
    op->note = (struct fault_note){ 0 };
    op->deadline = clock_mono() + timeout_ms * NS_PER_MS;
}

/* ---- leasing ---- */

struct harvest {
    struct job *jobs;
    unsigned count;
    bool more; /* there may be more than was taken */
    struct pair last;
};

static struct fault lease_in(struct tx **tx, struct outbox *outbox, unsigned capacity, bool sweep,
                             const struct pair *cursor, struct harvest *harvest)
{
    struct pair pairs[OUTBOX_PAIRS_MAX];
    size_t count = 0;
    TRY(lease_async(*tx));
    if (sweep) {
        TRY(lease_sweep(*tx));
    }
    TRY(lease_pairs(*tx, outbox, cursor, pairs, &count));
    lock(outbox); /* flights change with every row that ends */
    share_out(outbox, capacity, pairs, &count);
    unlock(outbox);
    if (count > 0) {
        TRY(lease_take(*tx, outbox, pairs, count, &harvest->jobs, &harvest->count));
        harvest->last = pairs[count - 1];
    }
    return tx_commit(tx);
}

static void drop_jobs(struct harvest *harvest)
{
    while (harvest->jobs != NULL) {
        struct job *job = harvest->jobs;
        harvest->jobs = job->next;
        job_free(job);
    }
    harvest->count = 0;
}

static void lease(struct outbox *outbox, struct op *op, unsigned capacity, bool sweep, const struct pair *cursor,
                  struct harvest *harvest)
{
    struct tx *tx = NULL;
    renew(op, LEASE_MS);
    struct fault fault = tx_begin(op, outbox->config.store, STORE_BOOKKEEPING, &tx);
    if (!FAULTED(fault)) {
        fault = lease_in(&tx, outbox, capacity, sweep, cursor, harvest);
    }
    tx_rollback(tx);
    if (FAULTED(fault)) {
        drop_jobs(harvest); /* if the rows were leased after all, the leases run out */
        log_fault(LOG_LEVEL_WARN, "outbox_lease_failed", op, fault);
    }
}

static void take_in(struct outbox *outbox, struct harvest *harvest)
{
    while (harvest->jobs != NULL) {
        struct job *job = harvest->jobs;
        harvest->jobs = job->next;
        job->next = NULL;
        *outbox->ready_end = job;
        outbox->ready_end = &job->next;
        outbox->ready_count++;
        flight_of(outbox, job->row, job->tenant)->count++;
    }
    if (harvest->count > 0) {
        outbox->cursor = harvest->last;
    }
}

/* With the lock held; gives it up meanwhile. */
static void lease_for_all(struct outbox *outbox, struct op *op)
{
    mono_ns now = clock_mono();
    unsigned capacity = outbox->idle + 1 - outbox->ready_count;
    bool sweep = now >= outbox->sweep_due;
    struct pair cursor = outbox->cursor;
    struct harvest harvest = { 0 };
    outbox->leasing = true;
    outbox->leased = now;
    outbox->wake = false;
    outbox->poll_due = now + POLL_NS; /* an outcome meanwhile may bring it forward */
    outbox->sweep_due = sweep ? now + POLL_NS : outbox->sweep_due;
    unlock(outbox);
    lease(outbox, op, capacity, sweep, &cursor, &harvest);
    lock(outbox);
    outbox->leasing = false;
    outbox->wake = outbox->wake || harvest.count > 0; /* look again, until there is nothing */
    take_in(outbox, &harvest);
    rouse(outbox, harvest.count); /* one for each row, less our own, and one more to look again */
}

/* ---- running ---- */

static enum outcome judge(const struct job *job, struct fault fault)
{
    if (!FAULTED(fault)) {
        return OUTCOME_DELIVERED;
    }
    bool later = fault_row(fault.code)->retry == FAULT_RETRY_LATER || fault.code == FAULT_DEADLINE;
    return later && job->attempt < job->row->attempts ? OUTCOME_RETRY : OUTCOME_DEAD;
}

/* What is tried again for a day is told of less and less often: at the 1st, 2nd, 4th, 8th ... attempt. */
static bool is_told(int64_t attempt)
{
    return (attempt & (attempt - 1)) == 0;
}

static void say(const struct job *job, const struct op *op, struct fault fault, enum outcome outcome)
{
    const char *code = fault_row(fault.code)->text;
    log_fault(LOG_LEVEL_WARN, outcome == OUTCOME_DEAD ? "outbox_dead_lettered" : "outbox_retry", op, fault);
    log_write(WARN, "outbox_attempt_failed", LOG_TEXT("destination", job->row->destination),
              LOG_TEXT("tenant_id", job->tenant.text), LOG_TEXT("code", code), LOG_INT("attempt", job->attempt),
              LOG_INT("outbox_id", job->id));
}

static void tell(struct outbox *outbox, const struct job *job, const struct op *op, struct fault fault,
                 enum outcome outcome, mono_ns began)
{
    static const char *const results[] = {
        [OUTCOME_DELIVERED] = "delivered", [OUTCOME_RETRY] = "retry", [OUTCOME_DEAD] = "dead-lettered"
    };
    if (outbox->config.on_attempt != NULL) {
        double seconds = (double)(clock_mono() - began) / (double)NS_PER_S;
        outbox->config.on_attempt(outbox->config.arg, job->row->destination, results[outcome], seconds);
    }
    if (!FAULTED(fault)) {
        return;
    }
    if (outcome == OUTCOME_DEAD || is_told(job->attempt)) {
        say(job, op, fault, outcome);
    }
    if ((fault.code == FAULT_DEADLINE || op_expired(op)) && outbox->config.on_timeout != NULL) {
        outbox->config.on_timeout(outbox->config.arg, job->tenant.text, job->row->destination);
    }
}

static struct fault handle(struct outbox *outbox, struct job *job, struct op *op)
{
    struct span parts[] = { span_text(job->tenant.text), span_text(job->row->destination), span_text(job->key) };
    struct outbox_item item = {
        .key = job->key,
        .payload = buf_span(&job->payload),
        .attempt = (unsigned)job->attempt,
        .last_attempt = job->attempt >= job->row->attempts,
        .id = (uint64_t)job->id,
        .stopping = &outbox->stop_told,
    };
    outbox_trace_begin(op, job);
    TRY(uuid_derive("svc.outbox", parts, COUNT_OF(parts), &op->command_id));
    return job->row->handler(op, outbox->config.services, &item);
}

static void record(struct outbox *outbox, struct op *op, const struct job *job, enum outcome outcome, int64_t delay_us,
                   struct fault met)
{
    struct fault fault = OK;
    for (int i = 0; i < OUTCOME_TRIES; i++) {
        renew(op, OUTCOME_MS);
        fault = lease_outcome(op, outbox, job, outcome, delay_us, fault_row(met.code)->text);
        if (!FAULTED(fault)) {
            return;
        }
    }
    log_fault(LOG_LEVEL_WARN, "outbox_outcome_not_recorded", op, fault); /* the lease runs out */
}

/* Without the lock. */
static void run_job(struct outbox *outbox, struct op *own, struct job *job)
{
    struct op *op = NULL;
    mono_ns began = clock_mono();
    struct fault fault = op_new("system:outbox", job->tenant, job->row->deadline_ms, &op);
    if (!FAULTED(fault)) {
        fault = handle(outbox, job, op);
        BUG_IF(op->tx_open != 0); /* a handler left a transaction open */
        outbox_trace_end(op, job, fault, began);
    }
    enum outcome outcome = judge(job, fault);
    int64_t delay_us = outcome == OUTCOME_RETRY ? retry_delay_us(job->attempt) : 0;
    tell(outbox, job, op, fault, outcome, began);
    op_free(op);
    record(outbox, own, job, outcome, delay_us, fault);
    if (outcome == OUTCOME_RETRY) {
        mono_ns due = clock_mono() + delay_us * 1000 + NS_PER_MS;
        lock(outbox);
        if (due < outbox->poll_due) {
            outbox->poll_due = due;
            rouse(outbox, 1);
        }
        unlock(outbox);
    }
}

static struct job *take_ready(struct outbox *outbox)
{
    struct job *job = outbox->ready;
    if (job != NULL) {
        outbox->ready = job->next;
        outbox->ready_end = outbox->ready == NULL ? &outbox->ready : outbox->ready_end;
        outbox->ready_count--;
        job->next = NULL;
    }
    return job;
}

/* With the lock held; gives it up meanwhile. */
static void run_ready(struct outbox *outbox, struct op *own)
{
    struct job *job = take_ready(outbox);
    unlock(outbox);
    run_job(outbox, own, job);
    lock(outbox);
    flight_of(outbox, job->row, job->tenant)->count--;
    outbox->wake = true; /* a cap may have held rows back */
    job_free(job);
}

/* While one leases the others wait longer, never for ever: whoever is roused may be busy when the next poll is due. */
static void wait_idle(struct outbox *outbox)
{
    mono_ns due = outbox->leasing ? clock_mono() + POLL_NS : outbox->poll_due;
    struct timespec until = { .tv_sec = due / NS_PER_S, .tv_nsec = due % NS_PER_S };
    outbox->idle++;
    int waited = pthread_cond_clockwait(&outbox->changed, &outbox->lock, CLOCK_MONOTONIC, &until);
    BUG_IF(waited != 0 && waited != ETIMEDOUT);
    outbox->idle--;
}

/* Leased and not begun when the process stops: another one may have them at once. */
static void give_back(struct outbox *outbox, struct op *own)
{
    struct job *job = take_ready(outbox);
    unlock(outbox);
    record(outbox, own, job, OUTCOME_GIVE_BACK, 0, OK);
    lock(outbox);
    flight_of(outbox, job->row, job->tenant)->count--;
    job_free(job);
}

void *outbox_run(void *arg)
{
    struct outbox *outbox = arg;
    struct op *own = NULL;
    BUG_IF(FAULTED(op_new("system:outbox", (struct tenant_id){ "" }, LEASE_MS, &own)));
    lock(outbox);
    while (!outbox->stopping || outbox->leasing || outbox->ready != NULL) {
        if (outbox->ready != NULL && outbox->stopping) {
            give_back(outbox, own);
        } else if (outbox->ready != NULL) {
            run_ready(outbox, own);
        } else if (!outbox->stopping && !outbox->leasing && (outbox->wake || clock_mono() >= outbox->poll_due)) {
            lease_for_all(outbox, own);
        } else {
            wait_idle(outbox);
        }
    }
    announce(outbox);
    unlock(outbox);
    op_free(own);
    return NULL;
}
