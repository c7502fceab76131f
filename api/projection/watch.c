/* The thread that keeps looking whether the log is still the one that was applied. */
#include "api/projection/internal.h"

#include "appliance/base/log.h"

#define TICK_NS       (250 * NS_PER_MS)
#define GLANCE_NS     (5 * NS_PER_S)
#define WALK_PAUSE_NS (50 * NS_PER_MS)
#define WALK_AGAIN_NS (3600 * NS_PER_S)
#define BAD_AGAIN_NS  (5 * NS_PER_S)
#define WATCH_MS      10000

struct watch {
    struct projector *projector;
    struct op *op;
    uint64_t sample_at;
    unsigned connects; /* as of the last glance */
    mono_ns glance_due, walk_due;
    struct trust_walk walk;
    bool glance_good;
};

static struct trust_verdict verdict_of(struct projector *projector)
{
    projector_lock(projector);
    struct trust_verdict verdict = projector->verdict;
    projector_unlock(projector);
    return verdict;
}

static void set_verdict(struct projector *projector, const struct trust_verdict *verdict)
{
    event_log_distrust(projector->config.log, verdict->cause != TRUST_GOOD ? verdict->first_bad_seq : 0);
    projector_lock(projector);
    projector->verdict = *verdict;
    projector->looked = true;
    BUG_IF(pthread_cond_broadcast(&projector->changed) != 0);
    projector_unlock(projector);
}

void projector_found_bad(struct projector *projector, struct trust_verdict found)
{
    struct trust_verdict now = verdict_of(projector);
    if (now.cause != TRUST_GOOD && now.first_bad_seq <= found.first_bad_seq) {
        return;
    }
    if (now.cause == TRUST_REWIND) {
        found.cause = TRUST_REWIND; /* the walk tells from where on; why is known */
    }
    set_verdict(projector, &found);
    log_write(ERROR, "event_log_untrusted", LOG_TEXT("cause", trust_cause_text(found.cause)),
              LOG_INT("first_bad_seq", found.first_bad_seq));
}

static void glance(struct watch *watch, unsigned connects)
{
    struct projector *projector = watch->projector;
    struct trust_verdict found = { 0 };
    struct fault fault =
        trust_glance(watch->op, projector->config.store, projector->config.log, &watch->sample_at, &found);
    watch->glance_due = clock_mono() + GLANCE_NS;
    if (FAULTED(fault)) {
        watch->glance_due = clock_mono() + TICK_NS;
        return; /* nothing was learnt */
    }
    watch->connects = connects;
    watch->glance_good = found.cause == TRUST_GOOD;
    if (!watch->glance_good) {
        bool new = verdict_of(projector).cause == TRUST_GOOD;
        projector_found_bad(projector, found);
        if (new) {
            trust_walk_stop(&watch->walk);
            watch->walk_due = 0; /* find the first bad one */
        }
    } else if (verdict_of(projector).cause == TRUST_GOOD) {
        set_verdict(projector, &found);
    }
}

static void walk_ended(struct watch *watch, const struct trust_verdict *found)
{
    struct projector *projector = watch->projector;
    trust_walk_stop(&watch->walk);
    if (found->cause != TRUST_GOOD) {
        projector_found_bad(projector, *found);
    } else if (watch->glance_good && verdict_of(projector).cause != TRUST_GOOD) {
        set_verdict(projector, found);
        log_write(INFO, "event_log_trusted");
    }
    bool good = verdict_of(projector).cause == TRUST_GOOD;
    watch->walk_due = clock_mono() + (good ? WALK_AGAIN_NS : BAD_AGAIN_NS);
}

static void walk(struct watch *watch)
{
    struct projector_config *config = &watch->projector->config;
    struct trust_verdict found = { 0 };
    bool end = false;
    struct fault fault = OK;
    if (watch->walk.reader == NULL) {
        fault = trust_walk_start(watch->op, config->store, config->log, &watch->walk);
    }
    if (!FAULTED(fault)) {
        fault = trust_walk_step(watch->op, config->store, &watch->walk, &found, &end);
    }
    if (FAULTED(fault)) {
        trust_walk_stop(&watch->walk); /* from the beginning, a little later */
        watch->walk_due = clock_mono() + GLANCE_NS;
    } else if (end) {
        walk_ended(watch, &found);
    }
}

static void tick(struct watch *watch)
{
    struct event_log_state state;
    event_log_reload(watch->projector->config.log);
    batch_op_reset(watch->op, WATCH_MS);
    struct fault fault = event_log_state(watch->op, watch->projector->config.log, &state);
    if (FAULTED(fault) || !state.connected) {
        return;
    }
    if (state.connects != watch->connects || clock_mono() >= watch->glance_due) {
        glance(watch, state.connects);
    }
    if (watch->walk.reader != NULL || clock_mono() >= watch->walk_due) {
        batch_op_reset(watch->op, WATCH_MS);
        walk(watch);
    }
}

void *projector_watch(void *arg)
{
    struct watch watch = { .projector = arg };
    struct fault fault = batch_op_new("system:log-watch", &watch.op);
    BUG_IF(FAULTED(fault));
    bool going = true;
    while (going) {
        tick(&watch);
        bool fast = watch.walk.reader != NULL && verdict_of(watch.projector).cause != TRUST_GOOD;
        mono_ns pause = watch.walk.reader == NULL ? TICK_NS : (fast ? 0 : WALK_PAUSE_NS);
        projector_lock(watch.projector);
        going = projector_pause(watch.projector, clock_mono() + pause);
        projector_unlock(watch.projector);
    }
    trust_walk_stop(&watch.walk);
    op_free(watch.op);
    return NULL;
}
