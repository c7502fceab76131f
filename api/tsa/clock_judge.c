#include "api/tsa/clock.h"

#include <time.h>

#define LEAP_GUARD_NS (2 * NS_PER_S) /* on either side of the midnight, by the wall clock */
#define SMEAR_US      (US_PER_S / 2) /* a smeared clock is off UTC by at most this */
#define ROUNDS_HELD   4              /* an agreement counts for so many intervals */
#define DRIFT_PPM     500            /* the kernel slews no faster */
#define DAY_NS        (86400 * NS_PER_S)
#define ROUND_ROOM_NS (10 * NS_PER_S) /* a round takes its time */

static const struct {
    const char *text, *says, *recovery;
} reasons[CLOCK_REASON_COUNT] = {
    [CLOCK_TRUSTED] = { "trusted", "the clock is trusted", "" },
    [CLOCK_STARTING] = { "starting", "the time servers have not answered yet since the start; try again",
                         "wait for the first round, some seconds; look at the reachability of UDP port 123 if it stays" },
    [CLOCK_UNSYNCHRONISED] = { "unsynchronised",
                               "the clock of this host is not synchronised; its operator has to run a time service",
                               "run chrony or another time service on the host until the kernel's clock is synchronised "
                               "(chronyc tracking, timedatectl)" },
    [CLOCK_ERROR] = { "error_too_large",
                      "the clock of this host may be further off than the accuracy that is stated here",
                      "let the host's time service reach better sources, or state a wider protocols.tsa.accuracy_ms" },
    [CLOCK_SERVERS] = { "no_quorum", "too few of the time servers agree on the time",
                        "look at the reachability and the health of protocols.tsa.clock.servers" },
    [CLOCK_OFFSET] = { "offset", "the clock of this host is off from what the time servers agree on",
                       "have the host's time service correct the clock; look at whether it uses sound sources" },
    [CLOCK_BOUND] = { "bound", "the time servers cannot confirm the accuracy that is stated here",
                      "use nearer time servers or a shorter protocols.tsa.clock.interval, or state a wider "
                      "protocols.tsa.accuracy_ms" },
    [CLOCK_STEPPED] = { "stepped", "the clock of this host was set; it is not confirmed yet; try again",
                        "find out who set the clock; it is trusted again once it is confirmed" },
    [CLOCK_LEAP_SECOND] = { "leap_second", "no time stamps around a leap second; try again in some seconds",
                            "nothing: it ends by itself some seconds after midnight UTC" },
    [CLOCK_BEHIND] = { "behind", "the clock of this host is before the last time that was stamped here",
                       "compare the clocks of all instances; stamping goes on when the time that was issued last has "
                       "passed" },
    [CLOCK_STALE] = { "stale", "the clock of this host is not being checked", "start the instance again" },
};

const char *clock_reason_text(enum clock_reason reason)
{
    return reasons[reason].text;
}

const char *clock_reason_says(enum clock_reason reason)
{
    return reasons[reason].says;
}

const char *clock_reason_recovery(enum clock_reason reason)
{
    return reasons[reason].recovery;
}

static struct fault refuse(struct op *op, const char *key, const char *what)
{
    return op_fail_field(op, FAULT(CONFIG), key, "%s: %s", key, what);
}

struct fault clock_rules_init(struct op *op, const struct config *config, struct clock_rules *ret_rules)
{
    struct clock_rules rules = {
        .trust_host = config->tsa_trust_host,
        .accuracy_us = config->tsa_accuracy_ms * 1000,
        .max_offset_us = config->tsa_clock_max_offset / 1000,
        .interval_ns = config->tsa_clock_interval,
        .servers = (unsigned)config->tsa_clock_servers.count,
        .quorum = (unsigned)config->tsa_clock_quorum,
    };
    unsigned majority = rules.servers / 2 + 1;
    if (config->tsa_clock_servers.count > CLOCK_SERVERS_MAX) {
        return refuse(op, "protocols.tsa.clock.servers", "at most 16 servers");
    }
    if (rules.servers == 0) {
        majority = 0;
    }
    rules.quorum = rules.quorum == 0 ? majority : rules.quorum;
    if (rules.quorum < majority || rules.quorum > rules.servers) {
        return refuse(op, "protocols.tsa.clock.quorum",
                      "more than half of the servers, and no more than there are: fewer could be outvoted by liars");
    }
    if (strcmp(config->tsa_clock_leap, "smear") == 0) {
        rules.leap = CLOCK_LEAP_SMEAR;
    } else if (strcmp(config->tsa_clock_leap, "pause") != 0) {
        return refuse(op, "protocols.tsa.clock.leap", "pause or smear");
    }
    if (rules.leap == CLOCK_LEAP_SMEAR && rules.accuracy_us <= SMEAR_US) {
        return refuse(
            op, "protocols.tsa.clock.leap",
            "with smear protocols.tsa.accuracy_ms has to be more than 500: a smeared clock is off by as much");
    }
    *ret_rules = rules;
    return OK;
}

static int64_t absolute(int64_t value)
{
    return value < 0 ? -value : value;
}

/* A smear may be under way without a sign of it, so its share of the accuracy is never given away. */
static int64_t allowed_us(const struct clock_rules *rules)
{
    return rules->leap == CLOCK_LEAP_SMEAR ? rules->accuracy_us - SMEAR_US : rules->accuracy_us;
}

static enum clock_reason judge_kernel(const struct clock_rules *rules, const struct clock_kernel *kernel)
{
    if (rules->trust_host) {
        return CLOCK_TRUSTED;
    }
    if (!kernel->synchronised) {
        return CLOCK_UNSYNCHRONISED;
    }
    return kernel->max_error_us > allowed_us(rules) ? CLOCK_ERROR : CLOCK_TRUSTED;
}

static enum clock_reason judge_leap(const struct clock_rules *rules, const struct clock_facts *facts)
{
    if (rules->leap == CLOCK_LEAP_SMEAR) {
        return CLOCK_TRUSTED;
    }
    bool near = facts->leap_wall_ns != 0 && absolute(facts->now.wall_ns - facts->leap_wall_ns) <= LEAP_GUARD_NS;
    return facts->kernel.leap_now || near ? CLOCK_LEAP_SECOND : CLOCK_TRUSTED;
}

/* A step is settled by servers that were asked after it, or, without servers, by time without another. */
static enum clock_reason judge_step(const struct clock_rules *rules, const struct clock_facts *facts)
{
    if (facts->stepped_boot_ns == 0) {
        return CLOCK_TRUSTED;
    }
    bool settled = rules->servers > 0 ? facts->agreement.at_boot_ns > facts->stepped_boot_ns
                                      : facts->calm_checks >= CLOCK_CALM_CHECKS;
    return settled ? CLOCK_TRUSTED : CLOCK_STEPPED;
}

static enum clock_reason judge_servers(const struct clock_rules *rules, const struct clock_facts *facts,
                                       struct clock_verdict *verdict)
{
    const struct clock_agreement *agreement = &facts->agreement;
    if (rules->servers == 0) {
        return CLOCK_TRUSTED;
    }
    int64_t age_ns = facts->now.boot_ns - agreement->at_boot_ns;
    if (agreement->at_boot_ns == 0 || age_ns > ROUNDS_HELD * rules->interval_ns + ROUND_ROOM_NS) {
        return facts->rounds_over ? CLOCK_SERVERS : CLOCK_STARTING;
    }
    int64_t ours_ns = facts->now.wall_ns - facts->now.boot_ns;
    int64_t low_us = (agreement->low_ns - ours_ns) / 1000;
    int64_t high_us = (agreement->high_ns - ours_ns) / 1000;
    int64_t worst_us = absolute(low_us) > absolute(high_us) ? absolute(low_us) : absolute(high_us);
    int64_t bound_us = worst_us + age_ns / 1000 * DRIFT_PPM / 1000000 + 1;
    verdict->offset_known = true;
    verdict->offset_us = low_us + (high_us - low_us) / 2;
    verdict->bound_us = bound_us > verdict->bound_us ? bound_us : verdict->bound_us;
    if (absolute(verdict->offset_us) > rules->max_offset_us) {
        return CLOCK_OFFSET;
    }
    return bound_us > allowed_us(rules) ? CLOCK_BOUND : CLOCK_TRUSTED;
}

struct clock_verdict clock_judge(const struct clock_rules *rules, const struct clock_facts *facts)
{
    struct clock_verdict verdict = {
        .then = CLOCK_STALE,
        .good_ns = CLOCK_FRESH_NS,
        .bound_us = rules->trust_host ? -1 : facts->kernel.max_error_us,
    };
    enum clock_reason found[] = {
        judge_leap(rules, facts),
        judge_kernel(rules, &facts->kernel),
        judge_step(rules, facts),
        judge_servers(rules, facts, &verdict),
    };
    for (size_t i = 0; i < COUNT_OF(found) && verdict.reason == CLOCK_TRUSTED; i++) {
        verdict.reason = found[i];
    }
    /* The pause begins on its second, though the next check may come later. */
    int64_t pause_ns = facts->leap_wall_ns - LEAP_GUARD_NS - facts->now.wall_ns;
    if (rules->leap == CLOCK_LEAP_PAUSE && facts->leap_wall_ns != 0 && pause_ns > 0 && pause_ns < verdict.good_ns) {
        verdict.good_ns = pause_ns;
        verdict.then = CLOCK_LEAP_SECOND;
    }
    return verdict;
}

/* Servers may announce for a month what comes at its end; the kernel's flag is about this day. */
static bool begins_a_month(int64_t midnight_ns)
{
    time_t seconds = (time_t)(midnight_ns / NS_PER_S);
    struct tm parts;
    return gmtime_r(&seconds, &parts) != NULL && parts.tm_mday == 1;
}

int64_t clock_leap_midnight(const struct clock_facts *facts, int64_t before)
{
    if (before != 0 && absolute(facts->now.wall_ns - before) <= LEAP_GUARD_NS) {
        return before; /* an inserted second is gone through twice */
    }
    int64_t midnight = (facts->now.wall_ns / DAY_NS + 1) * DAY_NS;
    bool ahead = facts->kernel.leap_ahead || (facts->agreement.leap_ahead && begins_a_month(midnight));
    return ahead ? midnight : 0;
}
