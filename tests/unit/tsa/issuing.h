/* The whole way from a request's bytes to a reply's, in this process: authority.h's units, log.h's event log, a clock
 * that is always trusted. Included by one file per program. */
#ifndef TESTS_TSA_ISSUING_H
#define TESTS_TSA_ISSUING_H

#include "appliance/base/alloc.h"
#include "tests/unit/tsa/authority.h"
#include "tests/unit/tsa/log.h"

#define POLICY_FIRST  "1.3.6.1.4.1.57264.2.1.1"
#define POLICY_SECOND "1.2.3.4.5.6"

static struct {
    struct config config;
    struct services services;
    struct tsa tsa;
    struct fault clock; /* what the clock answers */
} issuing;

struct fault clock_watch_now(struct op *op, struct clock_watch *watch, utc_us *ret_now)
{
    (void)watch;
    if (FAULTED(issuing.clock)) {
        return op_fail(op, issuing.clock, "%s", clock_reason_says(CLOCK_UNSYNCHRONISED));
    }
    *ret_now = clock_utc();
    return OK;
}

/* A unit of its own, as a snapshot owns what it shows. */
static struct tsa_unit *issuing_unit(int kind)
{
    struct tsa_unit *unit = NULL;
    authority_unit(kind, authority.leaves[kind], &unit);
    return unit;
}

static void issuing_show(struct tsa_unit *unit)
{
    struct tsa_snapshot *next = NULL;
    BUG_IF(FAULTED(mem_new(1, sizeof(*next), &next)));
    next->unit = unit;
    BUG_IF(FAULTED(tsa_current_show(&issuing.tsa.current, &next)));
}

static void issuing_start(void)
{
    static const char *hashes[] = { "sha256", "sha384", "sha512" };
    static const char *policies[] = { POLICY_SECOND };
    struct tsa_snapshot *nothing = NULL;
    authority_start();
    issuing.config = (struct config){ .tsa_policy = POLICY_FIRST,
                                      .tsa_policies = { policies, 1 },
                                      .tsa_hashes = { hashes, 3 },
                                      .tsa_accuracy_ms = 1000,
                                      .tsa_time_digits = 3,
                                      .tsa_verify_every = 1 };
    issuing.services = (struct services){ .config = &issuing.config, .log = log_handle(), .signer = token_client() };
    BUG_IF(FAULTED(metrics_new(&issuing.services.metrics)) || FAULTED(uuid_new(&issuing.services.instance)));
    issuing.tsa.settings = (struct tsa_settings){ .config = &issuing.config, .first = true };
    BUG_IF(FAULTED(tsa_rules_init(authority.op, &issuing.config, &issuing.tsa.rules)));
    BUG_IF(FAULTED(tsa_serials_new(&issuing.tsa.serials)) || FAULTED(tsa_recorder_new(&issuing.tsa.recorder)));
    BUG_IF(FAULTED(tsa_press_new(&issuing.tsa.press)));
    BUG_IF(FAULTED(mem_new(1, sizeof(*nothing), &nothing)));
    tsa_current_init(&issuing.tsa.current, nothing);
    issuing_show(issuing_unit(UNIT_P256));
}

/* As after the start, for the next test. */
[[maybe_unused]] static void issuing_renew(void)
{
    metrics_free(TAKE(issuing.services.metrics));
    BUG_IF(FAULTED(metrics_new(&issuing.services.metrics)));
    issuing.config.tsa_verify_every = 1;
    issuing.clock = OK;
    atomic_store(&issuing.tsa.made, 0);
    atomic_store(&issuing.tsa.mark, 0);
    log_reset();
    issuing_show(issuing_unit(UNIT_P256));
}

[[maybe_unused]] static void issuing_stop(void)
{
    tsa_current_clear(&issuing.tsa.current);
    tsa_rules_clear(&issuing.tsa.rules);
    tsa_serials_free(issuing.tsa.serials);
    tsa_press_free(issuing.tsa.press);
    tsa_recorder_free(issuing.tsa.recorder);
    metrics_free(issuing.services.metrics);
    authority_stop();
}

#endif
