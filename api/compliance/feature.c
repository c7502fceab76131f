#include "api/compliance/compliance.h"

#include "api/compliance/internal.h"

static const char *const sample_query[] = { "control", "prerequisite", "n", "seed", "to", "head_sequence", NULL };

static const struct answer_field pack_answer[] = {
    { "format", "string", "svc.compliance.evidence-pack.v5" },
    { "framework", "string", "Id of the framework that was evaluated." },
    { "signed_export", "object",
      "manifest, manifest_sha256, algorithm, key_id, jws (over the manifest's canonical bytes) and timestamp: verify "
      "this, and read nothing else." },
    { "public_key_der", "string", "PKIX DER of the key that signed, base64: compare it with the one that you pinned." },
    { "custody", "object", "Convenience copy of signed_export.manifest.custody." },
    { "adcs", "object", "Convenience copy of signed_export.manifest.adcs." },
    { "crypto_readiness", "object", "Convenience copy of signed_export.manifest.crypto_readiness." },
};
static const struct answer_field key_answer[] = {
    { "keys", "array",
      "JWK set of every key that ever signed an evidence pack or report of this tenant, each with svc_not_before and, "
      "once another one took over, svc_not_after." },
};
static const struct answer_field rotated_answer[] = {
    { "key_id", "string", "Id of the new key." },
    { "jwk", "object", "Its public half: pin it beside the former ones." },
};
static const struct answer_field sample_answer[] = {
    { "format", "string", "svc.compliance.population-sample.v1" },
    { "tenant_id", "string", "Whose records." },
    { "framework", "string", "As asked." },
    { "control", "string", "As asked; null = every record of the window." },
    { "prerequisite", "string", "As asked, or null." },
    { "evidence_window", "object", "days, from and to, both ends included." },
    { "population", "object", "query, types (of a prerequisite), total, first_sequence and last_sequence." },
    { "audit", "object", "archived_through, head_sequence and generation: as of what the population was counted." },
    { "algorithm", "string", "svc.population.sample.v1: how ranks come from the seed." },
    { "seed", "string", "As asked." },
    { "ranks", "array", "The ranks that were drawn, in the order of their drawing." },
    { "records", "array", "Each: rank, reference (as in an evidence pack) and record, exactly as hashed." },
};

static const struct route routes[] = {
    {
        .name = "compliance.evidence-pack",
        .method = ROUTE_GET,
        .path = "/api/v1/compliance/evidence-packs/{framework}",
        .permission = PERMISSION_AUDIT_READ,
        .bulkhead = BULKHEAD_EVIDENCE,
        .answer = pack_answer,
        .answer_count = COUNT_OF(pack_answer),
        .success_status = 200,
        .handler = route_evidence_pack,
        .doc =
            "What is evidenced of a framework's controls in the last 90 days, what is missing, and the datasets that "
            "it rests on, signed. Recorded as compliance.pack.read.",
    },
    {
        .name = "compliance.sample",
        .method = ROUTE_GET,
        .path = "/api/v1/compliance/populations/{framework}/sample",
        .permission = PERMISSION_AUDIT_READ,
        .bulkhead = BULKHEAD_EVIDENCE,
        .query = sample_query,
        .answer = sample_answer,
        .answer_count = COUNT_OF(sample_answer),
        .success_status = 200,
        .handler = route_population_sample,
        .doc = "n records (1 to 500, else 25) of the population of a control's prerequisite, or of every record of the "
               "window, drawn from a seed so that the same ones are drawn again; to (RFC 3339) and head_sequence: the "
               "window's end and the head of the trail of an earlier pack. Recorded as compliance.pack.read.",
    },
    {
        .name = "compliance.verification-keys",
        .method = ROUTE_GET,
        .path = "/api/v1/compliance/verification-keys",
        .permission = PERMISSION_AUDIT_READ,
        .bulkhead = BULKHEAD_API,
        .answer = key_answer,
        .answer_count = COUNT_OF(key_answer),
        .success_status = 200,
        .handler = route_evidence_keys,
        .doc = "The JWK set to pin for offline verification of evidence packs and reports.",
    },
    {
        .name = "compliance.rotate-key",
        .method = ROUTE_POST,
        .path = "/api/v1/compliance/verification-keys/rotations",
        .permission = PERMISSION_AUDIT_WRITE,
        .flags = ROUTE_MUTATION,
        .bulkhead = BULKHEAD_API,
        .answer = rotated_answer,
        .answer_count = COUNT_OF(rotated_answer),
        .success_status = 201,
        .handler = route_evidence_key_rotate,
        .doc = "A new key signs evidence packs and reports from now on; what former ones have signed stays verifiable.",
    },
};

static const struct event_row events[] = {
    { PACK_READ_EVENT, 1, NULL,
      "An evidence pack, a sample or a generated report was handed out: to whom, of which framework, and its digest." },
};

/* Read-only between start and stop. */
static struct frameworks *loaded;

const struct frameworks *compliance_frameworks(void)
{
    BUG_IF(loaded == NULL);
    return loaded;
}

/* The key of the first tenant exists from the start, so that its public half is in the log before it is needed. */
static struct fault start(struct op *op, struct services *services)
{
    CLEANUP(frameworks_freep) struct frameworks *frameworks = NULL;
    struct managed_key key;
    const char *folder = NULL;
    TRY(arena_printf(op->arena, &folder, "%s/frameworks", services->config->policy_dir));
    TRY(frameworks_load(op, folder, &frameworks));
    TRY(pack_key(op, services, &key));
    frameworks_free(loaded);
    loaded = TAKE(frameworks);
    return OK;
}

static void stop(struct services *services)
{
    (void)services;
    frameworks_free(TAKE(loaded));
}

const struct feature compliance_feature = {
    .name = "compliance",
    .routes = routes,
    .route_count = COUNT_OF(routes),
    .events = events,
    .event_count = COUNT_OF(events),
    .start = start,
    .stop = stop,
};
