#include "api/keys/keys.h"
#include "api/server/request.h"
#include "api/tsa/qualify.h"
#include "api/tsa/routes.h"

#define ANSWER_MAX 16384

#define NO_AUTHORITY "There is no time-stamping authority for the caller's tenant."
#define MOUNT_FIRST  "First have the authority served for this tenant."

static void look_at_signer(struct op *op, struct services *services, struct qualify *qualify)
{
    struct signer_health *health = NULL;
    struct fault fault = arena_take(op->arena, 1, sizeof(*health), &health);
    if (!FAULTED(fault)) {
        fault = signer_health(op, services->signer, health);
    }
    qualify_signer(qualify, fault, health, services->config->fips_required);
}

static void look_at_log(struct op *op, struct services *services, struct qualify *qualify)
{
    struct event_log_state log = { 0 };
    struct projector_state projection = { 0 };
    struct fault fault = event_log_state_now(op, services->log, &log);
    projector_state(services->projector, &projection);
    qualify_audit(qualify, fault, &log, &projection, services->config->nats_replicas);
}

static void look_at_capacity(const struct request *request, struct qualify *qualify)
{
    struct bulkhead_load load = { 0 };
    request_bulkhead(request, BULKHEAD_PROTOCOL, &load);
    qualify_capacity(qualify, load.limit, load.queue, load.in_use, load.waiting);
}

/* What is on record for the key in use; empty when nothing can be read or the key is not active. */
static struct span recorded_leaf(struct op *op, struct services *services, const struct tsa_unit *unit)
{
    struct managed_key key = { 0 };
    if (FAULTED(keys_get(op, services, unit->ref.id, &key)) || strcmp(key.state, "active") != 0 ||
        key.chain_count == 0) {
        return (struct span){ 0 };
    }
    return key.chain[0];
}

static void no_authority(const struct services *services, struct qualify *qualify)
{
    if (services->tsa == NULL) {
        qualify_find(qualify, QUALIFY_MOUNT, "Time stamping is switched off here.",
                     "Set protocols.tsa.enabled and protocols.tsa.tenant_id, and start again.");
    } else {
        qualify_find(
            qualify, QUALIFY_MOUNT, NO_AUTHORITY,
            "Ask the operator to bind protocols.tsa.tenant_id, or ask with a token of the tenant that has one.");
    }
    qualify_find(qualify, QUALIFY_PROFILE, NO_AUTHORITY, MOUNT_FIRST);
    qualify_find(qualify, QUALIFY_CERTIFICATE, NO_AUTHORITY, MOUNT_FIRST);
    qualify_find(qualify, QUALIFY_CLOCK, NO_AUTHORITY, MOUNT_FIRST);
}

static void look_at_profile(const struct tsa *tsa, const struct tsa_unit *unit, struct qualify *qualify)
{
    bool hashes = false;
    for (size_t i = 0; i < TST_HASH_COUNT; i++) {
        hashes = hashes || tsa->rules.hashes[i];
    }
    if (tsa->rules.policy_count == 0 || !hashes || (unit != NULL && unit->accuracy.len == 0)) {
        qualify_find(qualify, QUALIFY_PROFILE, "No policy, hash algorithm or accuracy is in force.",
                     "Set protocols.tsa.policy_oid, hash_algorithms and accuracy_ms, and start again.");
    }
}

static const char *clock_of(const struct clock_state *state)
{
    if (state->servers > 0) {
        return state->trusts_host ? "servers" : "kernel_and_servers";
    }
    return state->trusts_host ? "host" : "kernel";
}

static void look_at_unit(struct op *op, struct services *services, const struct tsa *tsa, const struct tsa_unit *unit,
                         struct qualify *qualify)
{
    look_at_profile(tsa, unit, qualify);
    if (unit != NULL) {
        qualify_certificate(qualify, unit, recorded_leaf(op, services, unit), clock_utc());
    } else {
        qualify_find(qualify, QUALIFY_CERTIFICATE, "No time-stamping unit is in place.",
                     "Certify the unit that waits (svc-cli tsa units csr, import) and activate it.");
    }
}

static struct fault look_at_authority(struct op *op, struct services *services, struct tsa *tsa,
                                      struct qualify *qualify, struct qualify_subject *subject)
{
    const struct config *config = tsa->settings.config;
    struct clock_state clock;
    clock_watch_state(tsa->clock, &clock);
    struct tsa_snapshot *held = tsa_current_take(&tsa->current);
    look_at_unit(op, services, tsa, held->unit, qualify);
    tsa_current_give(&tsa->current, held);
    qualify_clock(qualify, &clock, config->tsa_accuracy_ms);
    subject->policy = config->tsa_policy;
    subject->clock = clock_of(&clock);
    subject->trusts_host = clock.trusts_host;
    return OK;
}

struct fault tsa_qualify(struct request *request)
{
    struct op *op = request->op;
    struct services *services = request->services;
    struct qualify qualify = { 0 };
    struct qualify_subject subject = { 0 };
    struct tsa *tsa = tsa_of_tenant(services, op->tenant);
    if (tsa != NULL) {
        TRY(arena_printf(op->arena, &subject.endpoint, "%s/tsa%s%s", request_base_url(request),
                         tsa->settings.first ? "" : "/", tsa->settings.first ? "" : tsa->settings.tenant.text));
        TRY(look_at_authority(op, services, tsa, &qualify, &subject));
    } else {
        no_authority(services, &qualify);
    }
    look_at_signer(op, services, &qualify);
    look_at_log(op, services, &qualify);
    look_at_capacity(request, &qualify);
    CLEANUP(buf_free) struct buf json = BUF_INIT(ANSWER_MAX);
    TRY(qualify_print(&qualify, &subject, &json));
    return response_json(request, 0, &json);
}

const struct answer_field tsa_qualify_answer[TSA_QUALIFY_ANSWERS] = {
    { "ready", "boolean", "Every condition is met." },
    { "endpoint", "string", "Public address of the authority; null when the tenant has none." },
    { "policy_oid", "string", "Default policy; null when the tenant has no authority." },
    { "clock", "string",
      "What vouches for the time: kernel, servers, kernel_and_servers, or host (trusted as it is)." },
    { "conditions", "object",
      "By name, met or not: tenant_bound_mount, active_protocol_profile, timestamping_certificate, isolated_signer, "
      "immutable_audit_path, bounded_capacity, trusted_clock." },
    { "unmet", "array", "For each thing that is missing: condition, explanation, recovery." },
    { "notices", "array", "What holds and should be known." },
};
