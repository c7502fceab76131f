#include "api/inventory/adcs.h"

static const char *const list_query[] = { "domain", "history", "limit", "cursor", NULL };
static const char *const drift_query[] = { "domain", "limit", "cursor", NULL };

static const struct answer_field observe_answer[] = {
    { "observation_id", "string", "Of the observation." },
    { "domain", "string", "As normalised." },
    { "observed_at", "string", "As given." },
    { "schema_version", "integer", "1 is history only." },
    { "complete", "boolean", "As given." },
    { "latest", "boolean", "It is the domain's latest complete observation, which evidence rests on." },
    { "sequence", "integer", "Audit sequence of its event." },
    { "changes", "integer", "Against the one before; recorded as inventory.adcs.drifted when there are any." },
};
static const struct answer_field get_answer[] = {
    { "observation_id", "string", "Of the observation." },
    { "domain", "string", "Of Active Directory." },
    { "observed_at", "string", "When the collector looked." },
    { "recorded_at", "string", "When it was handed in." },
    { "recorded_by", "string", "Subject of the collector's token." },
    { "source_id", "string", "The collector." },
    { "run_id", "string", "Its run." },
    { "relay_id", "string", "What passed it on." },
    { "schema_version", "integer", "1 is history only." },
    { "complete", "boolean", "As the collector said." },
    { "latest", "boolean", "It is the domain's latest complete observation." },
    { "event_id", "string", "Of its event." },
    { "sequence", "integer", "Audit sequence of its event." },
    { "chain", "string", "Chain digest there, hex." },
    { "observation", "object", "As recorded, normalised." },
    { "findings", "array", "Made from it by the rules: rule, severity, kind, name, principals, rests_on, title." },
};
static const struct answer_field list_answer[] = {
    { "items", "array", "Newest first." },
    { "next_cursor", "string", "Present when there are more." },
};

static const struct route routes[] = {
    {
        .name = "adcs.observations.create",
        .method = ROUTE_POST,
        .path = "/api/v1/adcs/observations",
        .permission = PERMISSION_ADCS_OBSERVE,
        .flags = ROUTE_MUTATION,
        .bulkhead = BULKHEAD_HEAVY,
        .body_max = ADCS_BODY_MAX,
        .body = adcs_body_fields,
        .body_count = ADCS_BODY_FIELDS,
        .body_size = sizeof(struct adcs_body),
        .answer = observe_answer,
        .answer_count = COUNT_OF(observe_answer),
        .success_status = 201,
        .handler = route_adcs_observe,
        .doc = "Hand in what a collector saw of a domain's AD CS.",
    },
    {
        .name = "adcs.observations.list",
        .method = ROUTE_GET,
        .path = "/api/v1/adcs/observations",
        .permission = PERMISSION_AUDIT_READ,
        .bulkhead = BULKHEAD_API,
        .query = list_query,
        .answer = list_answer,
        .answer_count = COUNT_OF(list_answer),
        .success_status = 200,
        .handler = route_adcs_list,
        .doc = "The latest complete observation of each domain, or with history=true all of them.",
    },
    {
        .name = "adcs.observations.get",
        .method = ROUTE_GET,
        .path = "/api/v1/adcs/observations/{id}",
        .permission = PERMISSION_AUDIT_READ,
        .bulkhead = BULKHEAD_API,
        .answer = get_answer,
        .answer_count = COUNT_OF(get_answer),
        .success_status = 200,
        .handler = route_adcs_get,
        .doc = "One observation whole, with its findings.",
    },
    {
        .name = "adcs.drift",
        .method = ROUTE_GET,
        .path = "/api/v1/adcs/drift",
        .permission = PERMISSION_AUDIT_READ,
        .bulkhead = BULKHEAD_API,
        .query = drift_query,
        .answer = list_answer,
        .answer_count = COUNT_OF(list_answer),
        .success_status = 200,
        .handler = route_adcs_drift,
        .doc = "How domains changed from one complete observation to the next.",
    },
};

static const struct event_row events[] = {
    { ADCS_OBSERVED, 1, adcs_project_observed, "Templates of AD CS as a collector saw them: history only." },
    { ADCS_OBSERVED, 2, adcs_project_observed, "AD CS as a collector saw it, with the evidence of its services." },
    { ADCS_DRIFTED, 2, adcs_project_drifted, "What changed between two complete observations of an AD CS domain." },
};

/* A SID that is misspelt would make findings of what was meant to be none: refused at start instead. */
static struct fault start(struct op *op, struct services *services)
{
    const struct config_list *list = &services->config->adcs_administrators;
    for (size_t i = 0; i < list->count; i++) {
        const char *sid = list->at[i];
        struct fault fault = adcs_check_sid(op, "inventory.adcs.administrators", &sid);
        REQUIRE(fault.code != FAULT_JSON_FIELD && (FAULTED(fault) || strcmp(sid, list->at[i]) == 0), CONFIG);
        TRY(fault);
    }
    return OK;
}

const struct feature inventory_adcs_feature = {
    .name = "inventory-adcs",
    .routes = routes,
    .route_count = COUNT_OF(routes),
    .events = events,
    .event_count = COUNT_OF(events),
    .start = start,
};
