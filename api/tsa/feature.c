#include "api/tsa/tsa.h"

#include "api/ca/certificate.h"
#include "api/keys/keys.h"
#include "api/tsa/internal.h"
#include "api/tsa/routes.h"
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
    { "tsa.serial.leased", 1, NULL,
      "An instance took the serial numbers from its message's stream sequence * size on: instance, size." },
};

const struct metric tsa_metrics[TSA_METRIC_COUNT] = {
    [TSA_METRIC_TIMESTAMPS] = { "svc_tsa_timestamps_total",
                                METRIC_COUNTER,
                                "Answers to time-stamp requests by result: granted, or the RFC 3161 failure.",
                                { "result" } },
    [TSA_METRIC_SECONDS] = { "svc_tsa_duration_seconds",
                             METRIC_HISTOGRAM,
                             "Time from a whole request to its reply, event included.",
                             { NULL } },
    [TSA_METRIC_CLOCK_SYNCHRONISED] = { "svc_tsa_clock_synchronised",
                                        METRIC_GAUGE,
                                        "1 while the kernel says that its clock is synchronised, else 0.",
                                        { NULL } },
    [TSA_METRIC_CLOCK_ERROR] = { "svc_tsa_clock_max_error_seconds",
                                 METRIC_GAUGE,
                                 "How far off the clock can be, as measured; tokens state more.",
                                 { NULL } },
    [TSA_METRIC_CLOCK_OFFSET] = { "svc_tsa_clock_offset_seconds",
                                  METRIC_GAUGE,
                                  "What the time servers agree on, seen from this clock: positive = it is behind.",
                                  { NULL } },
    [TSA_METRIC_CLOCK_STATE] = { "svc_tsa_clock_state",
                                 METRIC_GAUGE,
                                 "1 for the state that holds: trusted, or why time stamps are refused.",
                                 { "state" } },
    [TSA_METRIC_CLOCK_JUMPS] = { "svc_tsa_clock_jumps_total",
                                 METRIC_COUNTER,
                                 "Steps of the wall clock beyond protocols.tsa.clock.max_offset.",
                                 { NULL } },
    [TSA_METRIC_CLOCK_REFUSALS] = { "svc_tsa_clock_refusals_total",
                                    METRIC_COUNTER,
                                    "Time stamps refused for want of a trusted time, by reason.",
                                    { "reason" } },
};

static struct fault load(struct op *op, struct services *services, struct tsa *tsa)
{
    uint64_t serial = 0;
    TRY(tsa_rules_init(op, services->config, &tsa->rules));
    TRY(tsa_unit_load(op, services, &tsa->unit));
    TRY(clock_watch_start(op, services, &tsa->clock));
    TRY(tsa_recorder_new(&tsa->recorder));
    TRY(tsa_serials_new(&tsa->serials));
    TRY(tsa_serial_next(op, services, tsa->serials, &serial)); /* the lease is taken before the first request */
    tsa->chain_pem = (struct buf)BUF_INIT((size_t)2 * TSA_TOKEN_MAX);
    TRY(certificate_pem(buf_span(&tsa->unit->leaf), &tsa->chain_pem));
    return certificate_pem(buf_span(&tsa->unit->root), &tsa->chain_pem);
}

static void tsa_free(struct tsa *tsa)
{
    if (tsa == NULL) {
        return;
    }
    clock_watch_stop(tsa->clock);
    tsa_rules_clear(&tsa->rules);
    tsa_unit_free(tsa->unit);
    tsa_recorder_free(tsa->recorder);
    tsa_serials_free(tsa->serials);
    buf_free(&tsa->chain_pem);
    mem_free(tsa);
}
DEFINE_FREEP(struct tsa, tsa_free)

static struct fault start_for_tenant(struct op *op, struct services *services)
{
    CLEANUP(tsa_freep) struct tsa *made = NULL;
    if (FAULTED(tenant_id_parse(span_text(services->config->tsa_tenant), &op->tenant))) {
        return op_fail_field(op, FAULT(CONFIG), "protocols.tsa.tenant_id",
                             "protocols.tsa.tenant_id: \"%s\" is no tenant id", services->config->tsa_tenant);
    }
    TRY(mem_new(1, sizeof(*made), &made));
    TRY(load(op, services, made));
    services->tsa = TAKE(made);
    return OK;
}

struct fault tsa_start(struct op *op, struct services *services)
{
    if (!services->config->tsa_enabled) {
        return OK;
    }
    struct tenant_id before = op->tenant;
    struct fault fault = start_for_tenant(op, services);
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
};

void tsa_stop(struct services *services)
{
    tsa_free(TAKE(services->tsa));
}

const struct feature tsa_feature = {
    .name = "tsa",
    .routes = tsa_routes,
    .route_count = TSA_ROUTE_COUNT,
    .events = events,
    .event_count = COUNT_OF(events),
    .readiness = readiness,
    .readiness_count = COUNT_OF(readiness),
    .metrics = tsa_metrics,
    .metric_count = TSA_METRIC_COUNT,
    .start = tsa_start,
    .stop = tsa_stop,
};
