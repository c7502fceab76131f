#include "api/scale/internal.h"

static const struct answer_field orchestration_answer[] = {
    { "credential_bands", "array", "Sizes of an inventory: credentials, status, and the last run (null: unmeasured)." },
    { "execution_lanes", "array", "Threads that work side by side: lane, threads, runs." },
    { "backpressure", "array", "Where the service refuses instead of queueing: control, name, limit, when_full." },
    { "release_gates", "array", "Gates of scripts/perf: gate, profile, command, asks, status and the last run." },
    { "residuals", "array", "What the figures do not say." },
};

static const struct answer_field ha_answer[] = {
    { "ingress_lanes", "array", "The instance that answers: instance, base_url, listen, state, leads_projection." },
    { "ingress_lanes_known", "string", "How much of the deployment an instance knows." },
    { "tenant_write_fences", "array", "What keeps two instances from writing twice: fence, how." },
    { "failover_gates", "array", "What has to hold before a failover counts: gate, state, recovery." },
    { "targets", "object", "rpo_seconds, rto_seconds, what they assume, and what is unsupported." },
    { "status", "string", "measured or not_measured." },
    { "last", "object", "The last failover that was measured (null: none)." },
};

static const struct route routes[] = {
    {
        .name = "scale.orchestration",
        .method = ROUTE_GET,
        .path = "/api/v1/scale/orchestration",
        .permission = PERMISSION_SYSTEM_READ,
        .bulkhead = BULKHEAD_API,
        .answer = orchestration_answer,
        .answer_count = COUNT_OF(orchestration_answer),
        .success_status = 200,
        .handler = route_scale_orchestration,
        .doc = "What this version was measured to carry, its limits, and what nobody measured.",
    },
    {
        .name = "scale.ha-issuance",
        .method = ROUTE_GET,
        .path = "/api/v1/scale/ha-issuance",
        .permission = PERMISSION_SYSTEM_READ,
        .bulkhead = BULKHEAD_API,
        .answer = ha_answer,
        .answer_count = COUNT_OF(ha_answer),
        .success_status = 200,
        .handler = route_scale_ha_issuance,
        .doc = "Several instances as one service: fences, gates of a failover, and what was measured of it.",
    },
};

static struct fault start(struct op *op, struct services *services)
{
    return scale_load(op, services->config->policy_dir, &services->scale);
}

static void stop(struct services *services)
{
    scale_free(TAKE(services->scale));
}

const struct feature scale_feature = {
    .name = "scale",
    .routes = routes,
    .route_count = COUNT_OF(routes),
    .start = start,
    .stop = stop,
};
