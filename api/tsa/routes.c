#include "api/tsa/routes.h"

#include "api/server/request.h"
#include "api/tsa/internal.h"

#include <stdio.h>

/* The endpoint is public, and belongs to one tenant: what it does is done for that tenant by nobody in particular. */
static struct fault enter(struct request *request)
{
    struct op *op = request->op;
    if (request->services->tsa == NULL) {
        return op_fail(op, FAULT(TSA_DISABLED), "time stamping is switched off here (protocols.tsa.enabled)");
    }
    op->principal = (struct principal){ .subject = "tsa:anonymous" };
    return tenant_id_parse(span_text(request->services->config->tsa_tenant), &op->tenant);
}

/* RFC 3161 3.4: HTTP tells of the transport only, a rejection is an answer too. */
static struct fault timestamp(struct request *request)
{
    struct span reply;
    TRY(enter(request));
    TRY(tsa_answer(request->op, request->services, request->raw_body, &reply));
    return response_bytes(request, 200, "application/timestamp-reply", reply);
}

static struct fault chain(struct request *request)
{
    TRY(enter(request));
    return response_bytes(request, 200, "application/pem-certificate-chain",
                          buf_span(&request->services->tsa->chain_pem));
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
        .doc = "The certificates of the time-stamping unit, leaf first, as PEM. Pin the last one as root.",
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
};
