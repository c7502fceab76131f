#include "api/tsa/tsa.h"

#include "api/ca/certificate.h"
#include "api/tsa/internal.h"
#include "api/tsa/routes.h"
#include "appliance/base/alloc.h"

static const struct event_row events[] = {
    { "tsa.timestamp.issued", 1, NULL,
      "A time-stamp token left, or was about to: serial, gen_time, policy, hash_algorithm, imprint, token_sha256, "
      "key_id." },
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
};

static struct fault load(struct op *op, struct services *services, struct tsa *tsa)
{
    uint64_t serial = 0;
    TRY(tsa_rules_init(op, services->config, &tsa->rules));
    TRY(tsa_unit_load(op, services, &tsa->unit));
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
    .metrics = tsa_metrics,
    .metric_count = TSA_METRIC_COUNT,
    .start = tsa_start,
    .stop = tsa_stop,
};
