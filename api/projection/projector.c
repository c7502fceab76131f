/* The projector's thread: leads or follows, reads what the log has, applies it, stops where it does not apply. */
#include "api/projection/internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/log.h"

#include <errno.h>

#define READ_NS          (100 * NS_PER_MS)
#define BACKLOG_MESSAGES (BATCH_MESSAGES / 2)
#ifndef GATHER_NS                  /* tests have more patience */
#define GATHER_NS (40 * NS_PER_MS) /* between batches, while nobody waits for one */
#endif
#define APPLY_MS         30000
#define FOLLOW_NS        (250 * NS_PER_MS)
#define FOLLOW_AWAITED   (10 * NS_PER_MS)
#define LEAD_AGAIN_NS    NS_PER_S
#define BACKOFF_FIRST_NS (100 * NS_PER_MS)
#define BACKOFF_MOST_NS  (10 * NS_PER_S)
#define TRANSIENT_MAX    20u /* repeated so often, a passing failure of one message counts as a lasting one */

struct run {
    struct projector *projector;
    struct op *op;
    struct op *look_op; /* looking forgets its arena */
    struct leadership *leadership;
    struct event_reader *reader;
    unsigned joins; /* of the reader, when the log was last looked at; 0 = not yet */
    uint64_t sample_at;
    mono_ns lead_due;
    mono_ns applied_at; /* when the last batch was applied */
    size_t last_count;  /* messages that were read for it */
    mono_ns backoff;
    uint64_t passing_seq; /* the message at which passing failures repeat */
    unsigned passing;
    struct event_message messages[BATCH_MESSAGES];
};

/* ---- what the others see ---- */

static void publish(struct projector *projector, uint64_t applied, uint64_t failed_seq)
{
    projector_lock(projector);
    if (applied != projector->applied) {
        projector->generation++;
    }
    projector->applied = applied;
    projector->failed_seq = failed_seq;
    BUG_IF(pthread_cond_broadcast(&projector->changed) != 0);
    projector_unlock(projector);
}

static void publish_leader(struct projector *projector, bool leader)
{
    projector_lock(projector);
    projector->leader = leader;
    projector_unlock(projector);
}

static bool pause_for(struct run *run, mono_ns length)
{
    projector_lock(run->projector);
    bool going = projector_pause(run->projector, clock_mono() + length);
    projector_unlock(run->projector);
    return going;
}

static void back_off(struct run *run)
{
    run->backoff = run->backoff == 0 ? BACKOFF_FIRST_NS : run->backoff * 2;
    run->backoff = run->backoff > BACKOFF_MOST_NS ? BACKOFF_MOST_NS : run->backoff;
    mono_ns until = clock_mono() + run->backoff;
    projector_lock(run->projector);
    while (clock_mono() < until && projector_pause(run->projector, until)) {
    }
    projector_unlock(run->projector);
}

/* ---- leading ---- */

static void drop_reader(struct run *run)
{
    event_reader_free(TAKE(run->reader));
    run->joins = 0;
}

static void step_down(struct run *run)
{
    drop_reader(run);
    if (run->leadership != NULL) {
        leadership_free(TAKE(run->leadership));
        publish_leader(run->projector, false);
        log_write(INFO, "projector_stepped_down");
    }
    run->lead_due = clock_mono() + LEAD_AGAIN_NS;
}

static struct fault try_to_lead(struct run *run)
{
    struct projector *projector = run->projector;
    bool held = false;
    run->lead_due = clock_mono() + LEAD_AGAIN_NS;
    batch_op_reset(run->op, APPLY_MS);
    TRY(leadership_try(run->op, projector->config.store, &projector->renewed, &run->leadership, &held));
    if (!held) {
        return OK;
    }
    struct fault loaded = applier_load(run->op, projector->applier);
    if (FAULTED(loaded)) {
        step_down(run);
        return loaded;
    }
    publish_leader(projector, true);
    publish(projector, projector->applier->checkpoint, 0);
    log_write(INFO, "projector_leads", LOG_INT("checkpoint", projector->applier->checkpoint));
    return OK;
}

/* Reads where the leader is, for the waiters of this process. */
static void follow(struct run *run)
{
    struct projector *projector = run->projector;
    struct sha256 rolling;
    uint64_t checkpoint = 0, failed = 0;
    batch_op_reset(run->op, APPLY_MS);
    struct fault fault = projection_where(run->op, projector->config.store, &checkpoint, &failed, &rolling);
    if (!FAULTED(fault)) {
        publish(projector, checkpoint, failed);
    }
    projector_lock(projector);
    mono_ns length = projector->waiters > 0 ? FOLLOW_AWAITED : FOLLOW_NS;
    projector_unlock(projector);
    (void)pause_for(run, length);
}

/* ---- applying ---- */

static struct fault apply(struct run *run, const struct event_message *messages, size_t count)
{
    struct projector *projector = run->projector;
    bool outbox = false;
    uint64_t bad_seq = 0;
    run->op->note = (struct fault_note){ 0 };
    mono_ns began = clock_mono();
    run->op->deadline = began + APPLY_MS * NS_PER_MS;
    struct fault fault = applier_apply(run->op, projector->applier, messages, count, &outbox, &bad_seq);
    if (fault.code == FAULT_LOG_UNTRUSTED) {
        projector_found_bad(projector, (struct trust_verdict){ .cause = TRUST_ALTERED, .first_bad_seq = bad_seq });
    }
    TRY(fault);
    projection_traced(messages, count, began);
    run->backoff = 0;
    run->passing = 0;
    run->applied_at = clock_mono();
    if (projector->config.on_applied != NULL) {
        projector->config.on_applied(projector->config.arg, count, run->applied_at - began);
    }
    publish(projector, projector->applier->checkpoint, 0);
    if (outbox && projector->config.on_outbox != NULL) {
        projector->config.on_outbox(projector->config.arg);
    }
    return OK;
}

/* Of the message's making, not of the moment's. */
static bool of_the_message(struct fault fault)
{
    return fault.code == FAULT_PROJECTION_FAILED ||
           (fault_row(fault.code)->retry == FAULT_RETRY_NO && fault.code != FAULT_CONFLICT);
}

static bool is_lasting(struct run *run, struct fault fault, uint64_t seq)
{
    if (of_the_message(fault)) {
        return true;
    }
    run->passing = run->passing_seq == seq && fault.code != FAULT_STORE_UNAVAILABLE ? run->passing + 1 : 0;
    run->passing_seq = seq;
    return run->passing >= TRANSIENT_MAX;
}

/* The projector stands here until the message applies. */
static void stand(struct run *run, uint64_t seq, struct fault fault)
{
    struct projector *projector = run->projector;
    log_fault(LOG_LEVEL_ERROR, "projection_failed", run->op, fault);
    batch_op_reset(run->op, APPLY_MS);
    struct fault recorded = applier_record_failure(run->op, projector->applier, seq, fault);
    if (FAULTED(recorded)) {
        log_fault(LOG_LEVEL_WARN, "projection_failure_not_recorded", run->op, recorded);
    }
    publish(projector, projector->applier->checkpoint, seq);
}

static void failed(struct run *run, struct fault fault)
{
    uint64_t seq = run->projector->applier->checkpoint + 1;
    drop_reader(run); /* what was read and not applied is read again */
    if (fault.code == FAULT_LOG_UNTRUSTED) {
        return;
    }
    if (fault.code == FAULT_CONFLICT) {
        step_down(run);
        return;
    }
    if (is_lasting(run, fault, seq)) {
        stand(run, seq, fault);
    }
    back_off(run);
}

static struct fault apply_piece(struct run *run, const struct event_message *messages, size_t count)
{
    struct fault fault = apply(run, messages, count);
    if (FAULTED(fault) && of_the_message(fault) && count > 1) {
        fault = OK; /* one by one: all before the failing one are good */
        for (size_t i = 0; i < count && !FAULTED(fault); i++) {
            fault = apply(run, &messages[i], 1);
        }
    }
    return fault;
}

static struct fault apply_batch(struct run *run, const struct event_message *messages, size_t count)
{
    struct fault fault = OK;
    for (size_t at = 0; at < count && !FAULTED(fault);) {
        size_t piece = batch_piece(&messages[at], count - at);
        fault = apply_piece(run, &messages[at], piece);
        at += piece;
    }
    return fault;
}

static void read_failed(struct run *run, struct fault fault)
{
    uint64_t seq = event_reader_seq(run->reader);
    if (fault.code == FAULT_DEADLINE) {
        return; /* nothing there */
    }
    if (fault.code == FAULT_LOG_UNTRUSTED) {
        projector_found_bad(run->projector, (struct trust_verdict){ .cause = TRUST_GAP, .first_bad_seq = seq });
    }
    failed(run, fault);
}

/* A stream that was deleted and made again forgets its readers. So before the first message after each joining is
 * applied, what stands behind it has to be what was applied. */
static struct fault look_after_joining(struct run *run, unsigned joins)
{
    struct projector *projector = run->projector;
    struct trust_verdict found = { 0 };
    if (joins == run->joins) {
        return OK;
    }
    batch_op_reset(run->look_op, APPLY_MS);
    TRY(trust_glance(run->look_op, projector->config.store, projector->config.log, &run->sample_at, &found));
    if (found.cause != TRUST_GOOD) {
        projector_found_bad(projector, found);
        return FAULT(LOG_UNTRUSTED);
    }
    run->joins = joins;
    return OK;
}

/* A batch costs the database much the same whether it holds one message or a hundred. So while messages keep coming
 * and nobody waits for them, they are gathered; whoever begins to wait is served at once, and what is behind is not
 * kept waiting. */
static void gather(struct run *run)
{
    struct projector *projector = run->projector;
    mono_ns until = run->applied_at + GATHER_NS;
    struct timespec time = { .tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S };
    if (clock_mono() >= until || run->last_count >= BACKLOG_MESSAGES) {
        return;
    }
    projector_lock(projector);
    projector->gathering = true;
    int waited = 0;
    while (projector->waiters == 0 && projector->wanted <= projector->applied && !projector->stopping && waited == 0) {
        waited = pthread_cond_clockwait(&projector->hurried, &projector->lock, CLOCK_MONOTONIC, &time);
    }
    projector->gathering = false;
    projector_unlock(projector);
    BUG_IF(waited != 0 && waited != ETIMEDOUT);
}

/* Nothing is applied before the log was looked at, nor while it is untrusted. */
static bool may_apply(struct projector *projector)
{
    projector_lock(projector);
    bool may = projector->looked && projector->verdict.cause == TRUST_GOOD;
    projector_unlock(projector);
    return may;
}

static struct fault apply_ahead(struct run *run, struct ahead_batch *batch)
{
    struct op *own = run->op;
    batch_op_reset(own, APPLY_MS);
    struct fault fault = look_after_joining(run, batch->joins);
    if (!FAULTED(fault)) {
        run->op = batch->op;
        fault = apply_batch(run, batch->messages, batch->count);
        run->op = own;
        own->note = batch->op->note;
    }
    return fault;
}

/* Far behind: the next batch is read while one is applied, until little is left. What was read and not applied by then
 * is read again. */
static void work_off(struct run *run)
{
    struct ahead *ahead = NULL;
    struct ahead_batch *batch = NULL;
    size_t count = BACKLOG_MESSAGES;
    bool applying = false;
    struct fault fault = ahead_start("system:projector", run->reader, UINT64_MAX - 1, &ahead);
    while (!FAULTED(fault) && count >= BACKLOG_MESSAGES / 2 && projector_going(run->projector) &&
           may_apply(run->projector) && leadership_held(run->leadership)) {
        fault = ahead_next(ahead, clock_mono() + READ_NS, &batch);
        applying = !FAULTED(fault);
        if (applying) {
            count = batch->count;
            fault = apply_ahead(run, batch);
        }
    }
    ahead_free(ahead);
    if (applying && FAULTED(fault)) {
        failed(run, fault);
    } else if (FAULTED(fault)) {
        read_failed(run, fault);
    }
    drop_reader(run);
}

static void lead(struct run *run)
{
    struct projector *projector = run->projector;
    size_t count = 0;
    if (!leadership_held(run->leadership)) {
        step_down(run);
        return;
    }
    gather(run);
    batch_op_reset(run->op, APPLY_MS);
    struct fault fault = OK;
    if (run->reader == NULL) {
        fault = event_reader_new(projector->config.log, projector->applier->checkpoint + 1, &run->reader);
    }
    if (!FAULTED(fault)) {
        size_t most = run->passing > 0 ? 1 : BATCH_MESSAGES; /* after a failure one by one: it may be one message's */
        fault = batch_read(run->op, run->reader, clock_mono() + READ_NS, run->messages, most, &count);
    }
    run->last_count = count;
    if (FAULTED(fault)) {
        read_failed(run, fault);
        return;
    }
    fault = look_after_joining(run, event_reader_joins(run->reader));
    fault = FAULTED(fault) ? fault : apply_batch(run, run->messages, count);
    if (FAULTED(fault)) {
        failed(run, fault);
    } else if (count >= BACKLOG_MESSAGES) {
        work_off(run);
    }
}

void *projector_run(void *arg)
{
    struct run *run = NULL;
    BUG_IF(FAULTED(mem_new(1, sizeof(*run), &run)));
    run->projector = arg;
    BUG_IF(FAULTED(batch_op_new("system:projector", &run->op)));
    BUG_IF(FAULTED(batch_op_new("system:projector", &run->look_op)));
    while (projector_going(run->projector)) {
        if (!may_apply(run->projector)) {
            drop_reader(run);
            follow(run); /* how far it was applied is told all the same */
            continue;
        }
        if (run->leadership == NULL && clock_mono() >= run->lead_due) {
            struct fault fault = try_to_lead(run);
            if (FAULTED(fault)) {
                log_fault(LOG_LEVEL_WARN, "projector_cannot_lead", run->op, fault);
            }
        }
        if (run->leadership == NULL) {
            follow(run);
        } else {
            lead(run);
        }
    }
    step_down(run);
    op_free(run->op);
    op_free(run->look_op);
    mem_free(run);
    return NULL;
}
