#include "api/tsa/routes.h"

#include "api/server/request.h"
#include "api/tsa/internal.h"
#include "api/tsa/units_route.h"

#define PEM_CHAIN "application/pem-certificate-chain"

static struct fault no_authority(struct op *op)
{
    return op_fail(op, FAULT(NOT_FOUND), "no time-stamping authority at this address");
}

static struct fault enter(struct request *request, struct tsa **ret_tsa)
{
    struct op *op = request->op;
    if (request->services->tsa == NULL) {
        return op_fail(op, FAULT(TSA_DISABLED), "time stamping is switched off here (protocols.tsa.enabled)");
    }
    *ret_tsa = request->services->tsa;
    tsa_enter_as(op, *ret_tsa);
    return OK;
}

/* An authority that is not public is not there for those who have no token of its tenant, nor in plain text. */
static struct fault check_caller(struct request *request, const struct tsa *tsa)
{
    struct op *op = request->op;
    const struct services *services = request->services;
    if (request->plain ||
        FAULTED(
            identity_authenticate(op, services->identity, services->store, request_header(request, "Authorization"))) ||
        !tenant_id_equal(op->tenant, tsa->settings.tenant)) {
        op->note = (struct fault_note){ 0 };
        return no_authority(op);
    }
    return OK;
}

/* One of the further ones. What is unknown, disabled, not there yet or not the caller's looks the same. */
static struct fault enter_named(struct request *request, struct tsa **ret_tsa)
{
    struct tenant_id tenant;
    const struct services *services = request->services;
    if (FAULTED(tenant_id_parse(span_text(request_path(request, "tenant")), &tenant))) {
        return no_authority(request->op);
    }
    struct tsa *tsa = tsa_of_tenant(services, tenant);
    if (tsa == NULL || tsa->settings.first) {
        return no_authority(request->op);
    }
    if (tsa->settings.open) {
        tsa_enter_as(request->op, tsa);
    } else {
        TRY(check_caller(request, tsa));
    }
    *ret_tsa = tsa;
    return OK;
}

/* RFC 3161 3.4: HTTP tells of the transport only, a rejection is an answer too. */
static struct fault answer(struct request *request, struct tsa *tsa)
{
    struct span reply;
    TRY(tsa_answer(request->op, request->services, tsa, request->raw_body, &reply));
    return response_bytes(request, 200, "application/timestamp-reply", reply);
}

static struct fault timestamp(struct request *request)
{
    struct tsa *tsa = NULL;
    TRY(enter(request, &tsa));
    return answer(request, tsa);
}

static struct fault timestamp_named(struct request *request)
{
    struct tsa *tsa = NULL;
    TRY(enter_named(request, &tsa));
    struct fault fault = tsa_limits_enter(request->op, &tsa->limits, clock_mono());
    if (FAULTED(fault)) {
        const char *const labels[METRIC_LABELS_MAX] = { tsa->settings.tenant.text,
                                                        fault.code == FAULT_RATE_LIMITED ? "rate" : "in_flight" };
        metrics_add(request->services->metrics, &tsa_metrics[TSA_METRIC_LIMITED], 1, labels);
        return fault;
    }
    fault = answer(request, tsa);
    tsa_limits_leave(&tsa->limits);
    return fault;
}

static struct fault chain_of(struct request *request, const struct tsa_snapshot *snapshot)
{
    if (snapshot->chain_pem.len == 0) {
        return op_fail(request->op, FAULT(TSA_NO_UNIT), "no time-stamping unit has been certified yet");
    }
    TRY(response_header(request, "Cache-Control", "public, max-age=300"));
    TRY(response_header(request, "ETag", snapshot->etag));
    const char *known = request_header(request, "If-None-Match");
    if (known != NULL && strcmp(known, snapshot->etag) == 0) {
        return response_bytes(request, 304, PEM_CHAIN, (struct span){ 0 });
    }
    return response_bytes(request, 200, PEM_CHAIN, buf_span(&snapshot->chain_pem));
}

static struct fault answer_chain(struct request *request, struct tsa *tsa)
{
    struct tsa_snapshot *held = tsa_current_take(&tsa->current);
    struct fault fault = chain_of(request, held);
    tsa_current_give(&tsa->current, held);
    return fault;
}

static struct fault chain(struct request *request)
{
    struct tsa *tsa = NULL;
    TRY(enter(request, &tsa));
    return answer_chain(request, tsa);
}

static struct fault chain_named(struct request *request)
{
    struct tsa *tsa = NULL;
    TRY(enter_named(request, &tsa));
    return answer_chain(request, tsa);
}

static struct fault page(struct request *request)
{
    struct tsa *tsa = NULL;
    TRY(enter(request, &tsa));
    return tsa_page(request, tsa);
}

static struct fault page_named(struct request *request)
{
    struct tsa *tsa = NULL;
    TRY(enter_named(request, &tsa));
    return tsa_page(request, tsa);
}

const struct route tsa_routes[TSA_ROUTE_COUNT] = {
    {
        .name = "tsa.timestamp",
        .method = ROUTE_POST,
        .path = "/tsa",
        .permission = PERMISSION_PUBLIC,
        .flags = ROUTE_RAW_BODY | ROUTE_PLAIN_TOO,
        .bulkhead = BULKHEAD_PROTOCOL,
        .body_max = TSA_REQUEST_MAX,
        .content_type = "application/timestamp-query",
        .success_status = 200,
        .handler = timestamp,
        .doc = "RFC 3161 time stamp: a DER TimeStampReq in, a DER TimeStampResp (application/timestamp-reply) out. "
               "A request that is refused is answered with status 200, rejection and a PKIFailureInfo.",
    },
    {
        .name = "tsa.chain",
        .method = ROUTE_GET,
        .path = "/tsa/chain.pem",
        .permission = PERMISSION_PUBLIC,
        .flags = ROUTE_PLAIN_TOO,
        .bulkhead = BULKHEAD_PROTOCOL,
        .success_status = 200,
        .handler = chain,
        .doc = "Certificates as PEM: of the time-stamping unit in place first, then of former ones that still verify, "
               "roots last. Pin the last one as root.",
    },
    {
        .name = "tsa.tenant.timestamp",
        .method = ROUTE_POST,
        .path = "/tsa/{tenant}",
        .permission = PERMISSION_PUBLIC,
        .flags = ROUTE_RAW_BODY | ROUTE_PLAIN_TOO,
        .bulkhead = BULKHEAD_PROTOCOL,
        .body_max = TSA_REQUEST_MAX,
        .content_type = "application/timestamp-query",
        .success_status = 200,
        .handler = timestamp_named,
        .doc = "RFC 3161 time stamp by the authority of a further tenant (protocols.tsa.tenants_file), within that "
               "tenant's limits: 429 or 503 with Retry-After beyond them. 404 where there is none for the caller.",
    },
    {
        .name = "tsa.tenant.chain",
        .method = ROUTE_GET,
        .path = "/tsa/{tenant}/chain.pem",
        .permission = PERMISSION_PUBLIC,
        .flags = ROUTE_PLAIN_TOO,
        .bulkhead = BULKHEAD_PROTOCOL,
        .success_status = 200,
        .handler = chain_named,
        .doc = "As /tsa/chain.pem, of a further tenant's authority.",
    },
    {
        .name = "protocols.tsa.units.list",
        .method = ROUTE_GET,
        .path = UNITS_PATH,
        .permission = PERMISSION_CERTS_READ,
        .bulkhead = BULKHEAD_API,
        .answer = units_answer,
        .answer_count = COUNT_OF(units_answer),
        .success_status = 200,
        .handler = route_units_list,
        .doc = "The time-stamping units of the caller's tenant, in the order of their making.",
    },
    {
        .name = "protocols.tsa.units.prepare",
        .method = ROUTE_POST,
        .path = UNITS_PATH,
        .permission = PERMISSION_KEYS_ADMIN,
        .flags = ROUTE_MUTATION,
        .bulkhead = BULKHEAD_API,
        .answer = unit_answer,
        .answer_count = COUNT_OF(unit_answer),
        .success_status = 201,
        .handler = route_unit_prepare,
        .doc = "Makes the next unit: a key, and a certificate where the appliance's root issues it. One may wait. "
               "No body.",
    },
    {
        .name = "protocols.tsa.units.csr",
        .method = ROUTE_POST,
        .path = UNITS_PATH "/{id}/csr",
        .permission = PERMISSION_KEYS_ADMIN,
        .flags = ROUTE_MUTATION,
        .bulkhead = BULKHEAD_API,
        .body = unit_csr_body,
        .body_count = COUNT_OF(unit_csr_body),
        .body_size = sizeof(struct unit_csr_request),
        .answer = unit_csr_answer,
        .answer_count = COUNT_OF(unit_csr_answer),
        .success_status = 200,
        .handler = route_unit_csr,
        .doc = "A certificate request by a unit that waits, for an authority elsewhere.",
    },
    {
        .name = "protocols.tsa.units.certify",
        .method = ROUTE_POST,
        .path = UNITS_PATH "/{id}/certificates",
        .permission = PERMISSION_KEYS_ADMIN,
        .flags = ROUTE_MUTATION,
        .bulkhead = BULKHEAD_API,
        .body = unit_chain_body,
        .body_count = COUNT_OF(unit_chain_body),
        .body_size = sizeof(struct unit_chain_request),
        .answer = unit_answer,
        .answer_count = COUNT_OF(unit_answer),
        .success_status = 200,
        .handler = route_unit_certify,
        .doc = "Gives a unit that waits its certificate, with the whole chain up to the root.",
    },
    {
        .name = "protocols.tsa.units.activate",
        .method = ROUTE_POST,
        .path = UNITS_PATH "/{id}/activate",
        .permission = PERMISSION_KEYS_ADMIN,
        .flags = ROUTE_MUTATION,
        .bulkhead = BULKHEAD_API,
        .answer = unit_answer,
        .answer_count = COUNT_OF(unit_answer),
        .success_status = 200,
        .handler = route_unit_activate,
        .doc = "The certified unit that waits takes over from the active one. Requests under way are finished by the "
               "unit that they began with. No body.",
    },
    {
        .name = "protocols.tsa.units.retire",
        .method = ROUTE_POST,
        .path = UNITS_PATH "/{id}/retire",
        .permission = PERMISSION_KEYS_ADMIN,
        .flags = ROUTE_MUTATION,
        .bulkhead = BULKHEAD_API,
        .body = unit_retire_body,
        .body_count = COUNT_OF(unit_retire_body),
        .body_size = sizeof(struct unit_retire_request),
        .answer = unit_answer,
        .answer_count = COUNT_OF(unit_answer),
        .success_status = 200,
        .handler = route_unit_retire,
        .doc = "Ends a unit: its key leaves the token for ever, its certificate stays for verification.",
    },
    {
        .name = "protocols.tsa.qualify",
        .method = ROUTE_POST,
        .path = "/api/v1/protocols/tsa/qualification",
        .permission = PERMISSION_CERTS_READ,
        .flags = ROUTE_EFFECT_FREE,
        .bulkhead = BULKHEAD_API, /* asked when the protocol's own is full, too */
        .answer = tsa_qualify_answer,
        .answer_count = TSA_QUALIFY_ANSWERS,
        .success_status = 200,
        .handler = tsa_qualify,
        .doc = "Whether the time-stamping authority of the caller's tenant can be relied on as it stands: conditions, "
               "and for each that is not met what to do. Nothing is signed or recorded. No body.",
    },
    {
        .name = "protocols.tsa.verify",
        .method = ROUTE_POST,
        .path = "/api/v1/protocols/tsa/verify",
        .permission = PERMISSION_CERTS_READ,
        .flags = ROUTE_EFFECT_FREE,
        .bulkhead = BULKHEAD_API,
        .body = tsa_verify_body,
        .body_count = TSA_VERIFY_MEMBERS,
        .body_size = sizeof(struct tsa_verify_request),
        .answer = tsa_verify_answer,
        .answer_count = TSA_VERIFY_ANSWERS,
        .success_status = 200,
        .handler = tsa_verify,
        .doc = "Judges a time stamp (response or token) of any authority at the time that it states: by roots_pem, or "
               "by the roots of this appliance's own authorities. A stamp that does not hold is an answer, too: 200 "
               "with verified false.",
    },
    {
        .name = "tsa.page",
        .method = ROUTE_GET,
        .path = "/tsa",
        .permission = PERMISSION_PUBLIC,
        .flags = ROUTE_PLAIN_TOO,
        .bulkhead = BULKHEAD_PROTOCOL,
        .success_status = 200,
        .handler = page,
        .doc = "A page (text/html) for people: what this is, the state of its clock, its policies, certificates and "
               "how to use it.",
    },
    {
        .name = "tsa.tenant.page",
        .method = ROUTE_GET,
        .path = "/tsa/{tenant}",
        .permission = PERMISSION_PUBLIC,
        .flags = ROUTE_PLAIN_TOO,
        .bulkhead = BULKHEAD_PROTOCOL,
        .success_status = 200,
        .handler = page_named,
        .doc = "As GET /tsa, of a further tenant's authority.",
    },
};
