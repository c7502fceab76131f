#include "api/tsa/clock.h"

#include "appliance/base/alloc.h"

#include <pthread.h>
#include <stdatomic.h>

#define REREADS 8
#define RACE_US 1000 /* two reads of one clock on two processors; a token states milliseconds */

/* What a stamp needs, written by the checks alone, read without a lock: `turn` is odd while it is being written, and
 * whoever saw it change reads again. */
struct published {
    atomic_uint turn;
    _Atomic int64_t wall_minus_boot_ns;
    _Atomic int64_t good_until_boot_ns;
    atomic_int reason, then;
};

struct seen {
    int64_t wall_minus_boot_ns, good_until_boot_ns;
    enum clock_reason reason, then;
};

struct clock_gate {
    struct clock_rules rules; /* immutable, as is source */
    struct clock_source source;
    struct published published;
    _Atomic int64_t last_us; /* the latest time handed out, or raised to */
    pthread_mutex_t lock;
    struct clock_facts facts; /* all below guarded by lock */
    struct clock_verdict verdict;
    bool checked, wants_round;
    bool behind;     /* at the last check: what was issued is later than this clock */
    int64_t base_ns; /* wall minus boot at the last check */
    uint64_t steps;
    unsigned answered;
};

struct fault clock_gate_new(const struct clock_rules *rules, const struct clock_source *source,
                            struct clock_gate **ret_gate)
{
    struct clock_gate *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    made->rules = *rules;
    made->source = *source;
    made->verdict.reason = CLOCK_STARTING;
    made->wants_round = true;
    atomic_init(&made->published.turn, 0);
    atomic_init(&made->published.wall_minus_boot_ns, 0);
    atomic_init(&made->published.good_until_boot_ns, INT64_MAX);
    atomic_init(&made->published.reason, CLOCK_STARTING);
    atomic_init(&made->published.then, CLOCK_STARTING);
    atomic_init(&made->last_us, 0);
    BUG_IF(pthread_mutex_init(&made->lock, NULL) != 0);
    *ret_gate = made;
    return OK;
}

void clock_gate_free(struct clock_gate *gate)
{
    if (gate == NULL) {
        return;
    }
    BUG_IF(pthread_mutex_destroy(&gate->lock) != 0);
    mem_free(gate);
}

/* Each store after the odd turn is a release, each load before the second look an acquire: whoever sees a new value
 * also sees the new turn. */
static void publish(struct published *published, const struct seen *now)
{
    unsigned turn = atomic_load_explicit(&published->turn, memory_order_relaxed);
    atomic_store_explicit(&published->turn, turn + 1, memory_order_relaxed);
    atomic_store_explicit(&published->wall_minus_boot_ns, now->wall_minus_boot_ns, memory_order_release);
    atomic_store_explicit(&published->good_until_boot_ns, now->good_until_boot_ns, memory_order_release);
    atomic_store_explicit(&published->reason, (int)now->reason, memory_order_release);
    atomic_store_explicit(&published->then, (int)now->then, memory_order_release);
    atomic_store_explicit(&published->turn, turn + 2, memory_order_release);
}

static struct seen look(struct published *published)
{
    struct seen seen;
    unsigned before, after;
    do {
        before = atomic_load_explicit(&published->turn, memory_order_acquire);
        seen.wall_minus_boot_ns = atomic_load_explicit(&published->wall_minus_boot_ns, memory_order_acquire);
        seen.good_until_boot_ns = atomic_load_explicit(&published->good_until_boot_ns, memory_order_acquire);
        seen.reason = (enum clock_reason)atomic_load_explicit(&published->reason, memory_order_acquire);
        seen.then = (enum clock_reason)atomic_load_explicit(&published->then, memory_order_acquire);
        after = atomic_load_explicit(&published->turn, memory_order_relaxed);
    } while (before != after || before % 2 != 0);
    return seen;
}

static void lock(struct clock_gate *gate)
{
    BUG_IF(pthread_mutex_lock(&gate->lock) != 0);
}

static void unlock(struct clock_gate *gate)
{
    BUG_IF(pthread_mutex_unlock(&gate->lock) != 0);
}

/* The wall clock against the other one, which nobody can set. At an announced leap second a step of one second is the
 * leap second; what the servers said before it is then no longer about this clock. */
static void look_for_step_locked(struct clock_gate *gate)
{
    struct clock_facts *facts = &gate->facts;
    int64_t now_ns = facts->now.wall_ns - facts->now.boot_ns;
    int64_t moved_us = gate->checked ? (now_ns - gate->base_ns) / 1000 : 0;
    int64_t size_us = moved_us < 0 ? -moved_us : moved_us;
    gate->base_ns = now_ns;
    facts->calm_checks += facts->calm_checks < CLOCK_CALM_CHECKS;
    int64_t from_second = size_us < US_PER_S ? US_PER_S - size_us : size_us - US_PER_S;
    bool leap = gate->rules.leap == CLOCK_LEAP_PAUSE && facts->leap_wall_ns != 0 &&
                from_second <= gate->rules.max_offset_us / 2 && size_us > US_PER_S / 2;
    if (leap) {
        facts->agreement = (struct clock_agreement){ 0 };
        gate->wants_round = true;
    } else if (size_us > gate->rules.max_offset_us) {
        facts->stepped_boot_ns = facts->now.boot_ns;
        facts->calm_checks = 0;
        gate->steps++;
        gate->wants_round = true;
    }
}

/* That the clock is behind is decided for each stamp, to the microsecond; here it is only told. */
static enum clock_reason shown_locked(const struct clock_gate *gate, enum clock_reason reason)
{
    return reason == CLOCK_TRUSTED && gate->behind ? CLOCK_BEHIND : reason;
}

enum clock_reason clock_gate_check(struct clock_gate *gate)
{
    int64_t last_us = atomic_load(&gate->last_us); /* before the clock is read: stamps go on meanwhile */
    struct clock_kernel kernel = gate->source.kernel(gate->source.arg);
    struct clock_reading now = gate->source.read(gate->source.arg);
    lock(gate);
    gate->facts.now = now;
    gate->facts.kernel = kernel;
    int64_t leap_before = gate->facts.leap_wall_ns;
    gate->facts.leap_wall_ns = clock_leap_midnight(&gate->facts, leap_before);
    look_for_step_locked(gate);
    gate->verdict = clock_judge(&gate->rules, &gate->facts);
    gate->checked = true;
    gate->behind = now.wall_ns / 1000 + RACE_US < last_us;
    if (gate->facts.stepped_boot_ns != 0 && gate->verdict.reason == CLOCK_TRUSTED) {
        gate->facts.stepped_boot_ns = 0;
    }
    const struct seen next = { .wall_minus_boot_ns = now.wall_ns - now.boot_ns,
                               .good_until_boot_ns = now.boot_ns + gate->verdict.good_ns,
                               .reason = gate->verdict.reason,
                               .then = gate->verdict.then };
    publish(&gate->published, &next);
    enum clock_reason reason = shown_locked(gate, next.reason);
    unlock(gate);
    return reason;
}

void clock_gate_agreed(struct clock_gate *gate, const struct clock_agreement *agreement)
{
    lock(gate);
    gate->facts.agreement = *agreement;
    unlock(gate);
}

void clock_gate_round_over(struct clock_gate *gate, unsigned answered)
{
    lock(gate);
    gate->facts.rounds_over = true;
    gate->answered = answered;
    unlock(gate);
}

bool clock_gate_wants_round(struct clock_gate *gate)
{
    lock(gate);
    bool wants = gate->wants_round;
    gate->wants_round = false;
    unlock(gate);
    return wants;
}

void clock_gate_raise(struct clock_gate *gate, utc_us mark)
{
    int64_t last = atomic_load(&gate->last_us);
    while (last < mark && !atomic_compare_exchange_weak(&gate->last_us, &last, mark)) {
    }
}

/* Is it later than all that was handed out? Then it is the latest. */
static bool claim(struct clock_gate *gate, int64_t now_us, int64_t *ret_last)
{
    int64_t last = atomic_load_explicit(&gate->last_us, memory_order_relaxed);
    while (last < now_us) {
        if (atomic_compare_exchange_weak_explicit(&gate->last_us, &last, now_us, memory_order_acq_rel,
                                                  memory_order_relaxed)) {
            return true;
        }
    }
    *ret_last = last;
    return last == now_us;
}

static struct fault refuse(struct op *op, enum clock_reason reason, enum clock_reason *ret_reason)
{
    if (ret_reason != NULL) {
        *ret_reason = reason;
    }
    return op_fail(op, FAULT(TSA_TIME), "%s", clock_reason_says(reason));
}

/* A thread that was put aside between its read and its claim finds that others went ahead: it reads again. What is
 * still behind then, by no more than clocks of processors may differ, gets the time of the last; all else is refused.
 */
struct fault clock_gate_now(struct op *op, struct clock_gate *gate, utc_us *ret_now, enum clock_reason *ret_reason)
{
    int64_t now_us = 0;
    int64_t last_us = 0;
    for (int i = 0; i < REREADS; i++) {
        struct seen seen = look(&gate->published);
        int64_t boot_ns = gate->source.boot(gate->source.arg);
        enum clock_reason reason = boot_ns > seen.good_until_boot_ns ? seen.then : seen.reason;
        if (reason != CLOCK_TRUSTED) {
            return refuse(op, reason, ret_reason);
        }
        now_us = (boot_ns + seen.wall_minus_boot_ns) / 1000;
        if (claim(gate, now_us, &last_us)) {
            *ret_now = now_us;
            return OK;
        }
    }
    if (last_us - now_us > RACE_US) {
        return refuse(op, CLOCK_BEHIND, ret_reason);
    }
    *ret_now = last_us;
    return OK;
}

void clock_gate_state(struct clock_gate *gate, struct clock_state *ret_state)
{
    struct seen seen = look(&gate->published);
    bool over = gate->source.boot(gate->source.arg) > seen.good_until_boot_ns;
    lock(gate);
    *ret_state = (struct clock_state){
        .reason = shown_locked(gate, over ? seen.then : seen.reason),
        .kernel_synchronised = gate->facts.kernel.synchronised,
        .trusts_host = gate->rules.trust_host,
        .bound_us = gate->verdict.bound_us,
        .kernel_error_us = gate->facts.kernel.max_error_us,
        .offset_known = gate->verdict.offset_known,
        .offset_us = gate->verdict.offset_us,
        .servers = gate->rules.servers,
        .answered = gate->answered,
        .agreed = gate->facts.agreement.agreed,
        .steps = gate->steps,
        .last_issued = atomic_load(&gate->last_us),
    };
    unlock(gate);
}
