#include "api/tsa/limits.h"

void tsa_limits_init(struct tsa_limits *limits, int64_t rate, int64_t burst, unsigned in_flight)
{
    limits->interval_ns = rate > 0 ? NS_PER_S / rate : 0;
    limits->tolerance_ns = limits->interval_ns * ((burst > 0 ? burst : rate) - 1);
    limits->in_flight = in_flight;
    atomic_init(&limits->due, 0);
    atomic_init(&limits->now, 0);
}

static struct fault take_turn(struct op *op, struct tsa_limits *limits, mono_ns now)
{
    int64_t due = atomic_load(&limits->due), from = 0;
    do {
        from = due > now ? due : now;
        if (from - now > limits->tolerance_ns) {
            int64_t wait_ns = from - now - limits->tolerance_ns;
            struct fault fault =
                op_fail(op, FAULT(RATE_LIMITED), "more time stamps a second than this tenant may have");
            if (op != NULL) {
                op->note.retry_after_s = (int)((wait_ns + NS_PER_S - 1) / NS_PER_S);
            }
            return fault;
        }
    } while (!atomic_compare_exchange_weak(&limits->due, &due, from + limits->interval_ns));
    return OK;
}

struct fault tsa_limits_enter(struct op *op, struct tsa_limits *limits, mono_ns now)
{
    unsigned inside = atomic_fetch_add(&limits->now, 1);
    if (limits->in_flight > 0 && inside >= limits->in_flight) {
        (void)atomic_fetch_sub(&limits->now, 1);
        return op_fail(op, FAULT(SATURATED), "this tenant has as many time stamps under way as it may have");
    }
    struct fault fault = limits->interval_ns > 0 ? take_turn(op, limits, now) : OK;
    if (FAULTED(fault)) {
        (void)atomic_fetch_sub(&limits->now, 1);
    }
    return fault;
}

void tsa_limits_leave(struct tsa_limits *limits)
{
    (void)atomic_fetch_sub(&limits->now, 1);
}
