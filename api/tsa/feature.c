#include "api/tsa/tsa.h"

#include "api/tsa/internal.h"
#include "api/tsa/routes.h"
#include "api/tsa/units.h"
#include "appliance/base/alloc.h"

static const struct event_row events[] = {
    { "tsa.timestamp.issued", 1, keys_project_use_of,
      "A time-stamp token left, or was about to: serial, gen_time, policy, hash_algorithm, imprint, token_sha256, "
      "key_id." },
    { "tsa.clock.trusted", 1, NULL,
      "An instance began to trust its clock: instance, reason, since, trusts_host, kernel_synchronised, servers, "
      "servers_agreed, max_error_us, offset_us." },
    { "tsa.clock.lost", 1, NULL,
      "An instance stopped to trust its clock, and stamps nothing until it does again: as tsa.clock.trusted." },
    { "tsa.unit.prepared", 1, project_unit_prepared,
      "A time-stamping unit was made, with a key of its own: unit_id, number, algorithm, issuance, command_id." },
    { "tsa.unit.certified", 1, project_unit_certified,
      "A unit that waits got its certificate: unit_id, certificate_chain, not_before, not_after, usage_end, command_id." },
    { "tsa.unit.activated", 1, project_unit_activated,
      "A unit stamps from now on, in the place of another: unit_id, replaces, command_id." },
    { "tsa.unit.retired", 1, project_unit_retired,
      "A unit stamps no more and its key leaves the token: unit_id, reason, command_id." },
    { "tsa.serial.leased", 1, NULL,
      "An instance took the serial numbers from its message's stream sequence * size on: instance, size." },
};

struct fault tsa_new(struct op *op, const struct tsa_settings *settings, struct tsa **ret_tsa)
{
    CLEANUP(tsa_freep) struct tsa *made = NULL;
    struct tsa_snapshot *nothing = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    made->settings = *settings;
    BUG_IF(pthread_mutex_init(&made->follow_lock, NULL) != 0);
    atomic_init(&made->mark, 0);
    atomic_init(&made->known, settings->first);
    tsa_limits_init(&made->limits, settings->rate, settings->burst, (unsigned)settings->in_flight);
    TRY(mem_new(1, sizeof(*nothing), &nothing));
    tsa_current_init(&made->current, nothing);
    TRY(tsa_recorder_new(&made->recorder));
    TRY(tsa_press_new(&made->press));
    TRY(tsa_serials_new(&made->serials));
    TRY(tsa_rules_init(op, settings->config, &made->rules));
    *ret_tsa = TAKE(made);
    return OK;
}

void tsa_free(struct tsa *tsa)
{
    if (tsa == NULL) {
        return;
    }
    tsa_current_clear(&tsa->current);
    tsa_rules_clear(&tsa->rules);
    tsa_press_free(tsa->press);
    tsa_recorder_free(tsa->recorder);
    tsa_serials_free(tsa->serials);
    BUG_IF(pthread_mutex_destroy(&tsa->follow_lock) != 0);
    mem_free(tsa);
}

static struct fault load(struct op *op, const struct config *config, struct tsa_tenants **ret_tenants)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(2048);
    struct fault fault = tsa_tenants_load(config, &why, ret_tenants);
    if (fault.code == FAULT_CONFIG) {
        return op_fail(op, fault, "%.*s", (int)why.len, (const char *)why.at);
    }
    return fault;
}

/* The first one has to work before anything is served; further ones follow when they can. */
static struct fault start_first(struct op *op, struct services *services)
{
    struct tsa *tsa = services->tsa;
    op->tenant = tsa->settings.tenant;
    TRY(units_keep(op, services, &tsa->settings, true));
    TRY(clock_watch_start(op, services, &tsa->clock));
    return tsa_follow(op, services, tsa);
}

static struct fault start_all(struct op *op, struct services *services)
{
    struct tsa **end = &services->tsa;
    TRY(load(op, services->config, &services->tsa_tenants));
    for (size_t i = 0; i < tsa_tenants_count(services->tsa_tenants); i++) {
        const struct tsa_settings *settings = tsa_tenants_at(services->tsa_tenants, i);
        struct fault fault = tsa_new(op, settings, end);
        if (FAULTED(fault)) {
            op_note_log(op, "tenant %s", settings->tenant.text);
            return fault;
        }
        end = &(*end)->next;
    }
    TRY(start_first(op, services));
    for (struct tsa *tsa = services->tsa->next; tsa != NULL; tsa = tsa->next) {
        tsa->clock = services->tsa->clock;
    }
    if (services->tsa->next != NULL) {
        IGNORE(tsa_keep_all(op, services)); /* which the workers try again */
        op->note = (struct fault_note){ 0 };
    }
    return OK;
}

struct fault tsa_start(struct op *op, struct services *services)
{
    if (!services->config->tsa_enabled) {
        return OK;
    }
    struct tenant_id before = op->tenant;
    struct fault fault = start_all(op, services);
    op->tenant = before;
    return fault;
}

/* Without a trusted time nothing is stamped, and everything else works. */
static struct fault check_clock(struct op *op, struct services *services)
{
    struct clock_state state = { .reason = CLOCK_TRUSTED };
    if (services->tsa != NULL) {
        clock_watch_state(services->tsa->clock, &state);
    }
    return state.reason == CLOCK_TRUSTED ? OK : op_fail(op, FAULT(TSA_TIME), "%s", clock_reason_says(state.reason));
}

static const struct readiness_row readiness[] = {
    { .name = "tsa", .check = check_clock, .degrades = true },
    { .name = "tsa_units", .check = tsa_units_ready, .degrades = true },
};

static const struct worker_row workers[] = {
    { .name = "tsa-units", .period_ms = 2000, .leader_only = true, .run = tsa_keep_all },
    { .name = "tsa-follow", .period_ms = 1000, .run = tsa_follow_all },
};

void tsa_stop(struct services *services)
{
    struct tsa *next = TAKE(services->tsa);
    if (next != NULL) {
        clock_watch_stop(next->clock);
    }
    while (next != NULL) {
        struct tsa *tsa = next;
        next = tsa->next;
        tsa_free(tsa);
    }
    tsa_tenants_free(TAKE(services->tsa_tenants));
}

const struct feature tsa_feature = {
    .name = "tsa",
    .routes = tsa_routes,
    .route_count = TSA_ROUTE_COUNT,
    .events = events,
    .event_count = COUNT_OF(events),
    .workers = workers,
    .worker_count = COUNT_OF(workers),
    .readiness = readiness,
    .readiness_count = COUNT_OF(readiness),
    .metrics = tsa_metrics,
    .metric_count = TSA_METRIC_COUNT,
    .start = tsa_start,
    .stop = tsa_stop,
};
