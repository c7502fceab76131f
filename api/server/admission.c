#include "api/server/admission.h"

#define LAST_PART 4 /* one in so many threads of a listener is not for those who would wait */

static struct fault no_thread(struct op *op)
{
    return op_fail(op, FAULT(SATURATED), "too many requests are being handled: repeat this one as it is");
}

/* Whoever waits for a turn has a thread meanwhile. So the queue of one bulkhead never takes those that requests of
 * another one need. */
static bool would_only_wait(const struct core *core, const struct route *route, const struct admission *admission,
                            unsigned before)
{
    struct bulkhead_load load;
    if (before < admission->max - admission->max / LAST_PART) {
        return false;
    }
    bulkheads_load(core->services->bulkheads, route->bulkhead, &load);
    return load.limit > 0 && load.in_use == load.limit;
}

struct fault admission_join(struct op *op, struct core *core, struct admission *admission, const struct route *route,
                            struct stay *stay)
{
    if ((route->flags & ROUTE_PROBE) != 0) {
        return OK;
    }
    if (atomic_load(&core->draining)) {
        return op_fail(op, FAULT(CANCELLED), "this instance is stopping: repeat the request as it is");
    }
    if (admission != NULL) {
        stay->admission = admission;
        unsigned before = atomic_fetch_add(&admission->handling, 1);
        if (before >= admission->max || would_only_wait(core, route, admission, before)) {
            return no_thread(op);
        }
    }
    return bulkheads_join(op, core->services->bulkheads, route->bulkhead, &stay->permit);
}

/* What is appended now would be seen so late that its caller would not wait for it. */
static struct fault check_backlog(struct op *op, const struct services *services)
{
    struct bulkhead *backlog = bulkheads_get(services->bulkheads, BULKHEAD_PROJECTION);
    if (backlog == NULL || services->projector == NULL) {
        return OK;
    }
    struct projector_state state;
    projector_state(services->projector, &state);
    if (FAULTED(bulkhead_backlog_fits(backlog, state.lag))) {
        return op_fail(op, FAULT(SATURATED),
                       "the read model is %llu messages behind: nothing was changed, repeat the request as it is",
                       (unsigned long long)state.lag);
    }
    return OK;
}

struct fault admission_turn(struct op *op, struct core *core, const struct route *route, struct stay *stay)
{
    if ((route->flags & ROUTE_PROBE) != 0) {
        return OK;
    }
    if ((route->flags & ROUTE_MUTATION) != 0) {
        TRY(check_backlog(op, core->services));
    }
    return bulkheads_turn(op, core->services->bulkheads, route->bulkhead, &stay->permit);
}

void admission_leave(struct stay *stay)
{
    permit_release(&stay->permit);
    struct admission *admission = TAKE(stay->admission);
    if (admission != NULL) {
        (void)atomic_fetch_sub(&admission->handling, 1);
    }
}
