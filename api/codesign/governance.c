/*
 * May it be signed? The policy's rules decide, and where they ask for approvals, the approvals' state does. Everything
 * is judged as of the moment at which the command was accepted, so that a try that comes again after a crash decides
 * the same.
 */
#include "api/codesign/internal.h"

#include "appliance/base/codec.h"

#include <stdio.h>

#define CANONICAL_MAX ((size_t)16 << 10)

/* What an approval binds: tenant, principal, key or identity, and the exact digests. */
static struct fault resource_of(struct op *op, const struct codesign_request *request,
                                const struct verified_identity *identity, char out[APPROVAL_RESOURCE_MAX + 1])
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(CANONICAL_MAX);
    CLEANUP(buf_free) struct buf canonical = BUF_INIT(CANONICAL_MAX);
    struct sha256 digest;
    char hex[2 * SHA256_LEN + 1];
    struct jout jout;
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key_text(&jout, "schema", "svc.codesign.approval.v1");
    jout_key_text(&jout, "action", "sign");
    jout_key_text(&jout, "tenant_id", op->tenant.text);
    jout_key_text(&jout, "principal", request->principal);
    if (request->mode == CODESIGN_KEY) {
        jout_key_text(&jout, "key_id", request->key_id.text);
    } else {
        jout_key_text(&jout, "issuer", identity->issuer);
        jout_key_text(&jout, "san", identity->san);
    }
    jout_key_text(&jout, "digest_algorithm", hash_algorithm_text(request->hash));
    jout_key(&jout, "digests");
    jout_array(&jout);
    for (size_t i = 0; i < request->count; i++) {
        jout_base64(&jout, request->digests[i]);
    }
    jout_array_end(&jout);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    TRY(json_canonical(buf_span(&json), &canonical));
    TRY(sha256_of(buf_span(&canonical), &digest));
    hex_text(SPAN_ARRAY(digest.at), hex, sizeof(hex));
    (void)snprintf(out, APPROVAL_RESOURCE_MAX + 1, APPROVAL_CODESIGN "%s", hex);
    return OK;
}

struct fault governance_look(struct op *op, struct services *services, const struct codesign_request *request,
                             const char *key_name, const struct verified_identity *identity, utc_us at,
                             struct governance *ret_governance)
{
    const struct config *config = services->config;
    struct governance made = { .enabled = config->policy_enabled || config->policy_approval };
    const struct may_sign input = {
        .tenant = op->tenant.text,
        .principal = request->principal,
        .roles = request->roles,
        .role_count = request->role_count,
        .keyless = request->mode == CODESIGN_KEYLESS,
        .key_id = request->mode == CODESIGN_KEY ? request->key_id.text : NULL,
        .key_name = key_name,
        .issuer = identity->issuer,
        .san = identity->san,
        .artifact_type = request->artifact_type,
        .digest_algorithm = hash_algorithm_text(request->hash),
        .now = at,
    };
    CLEANUP(permit_release) struct permit permit = { 0 };
    TRY(bulkheads_enter(op, services->bulkheads, BULKHEAD_POLICY, &permit));
    policy_decide(services->policy, config, &input, &made.decision);
    if (made.decision.outcome == POLICY_APPROVE) {
        TRY(resource_of(op, request, identity, made.resource));
        TRY(approvals_status(op, services, made.resource, made.decision.approvers, at, &made.approval));
    }
    *ret_governance = made;
    return OK;
}

struct fault governance_pass(struct op *op, struct services *services, const struct governance *governance,
                             struct uuid command_id, utc_us at)
{
    const struct policy_decision *decision = &governance->decision;
    if (decision->outcome == POLICY_ALLOW) {
        return OK;
    }
    if (decision->outcome == POLICY_DENY) {
        return op_fail(op, FAULT(POLICY_DENIED), "rule %s: %s", decision->rule,
                       decision->reason != NULL ? decision->reason : "not allowed");
    }
    /* Whatever the state is now: a signing that this very command took at an earlier try is still its own. */
    return approvals_use(op, services, governance->resource, decision->approvers, command_id, at);
}

bool governance_asks(const struct governance *governance)
{
    enum approval_state state = governance->approval.state;
    return governance->decision.outcome == POLICY_APPROVE &&
           (state == APPROVAL_NONE || state == APPROVAL_USED_UP || state == APPROVAL_APPROVED);
}
