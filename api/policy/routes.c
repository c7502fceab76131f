#include "api/policy/internal.h"

#include "api/keys/keys.h"
#include "api/server/request.h"

static struct fault take_mode(struct op *op, const struct explain_body *body, struct may_sign *input)
{
    bool identity = body->issuer != NULL || body->san != NULL, key = body->key_id != NULL || body->key_name != NULL;
    input->keyless = identity;
    if (body->mode != NULL) {
        input->keyless = strcmp(body->mode, "keyless") == 0;
        if (!input->keyless && strcmp(body->mode, "key") != 0) {
            return op_fail_field(op, FAULT(JSON_FIELD), "/mode", "/mode: must be key or keyless");
        }
    }
    if (input->keyless && key) {
        return op_fail_field(op, FAULT(JSON_FIELD), body->key_id != NULL ? "/key_id" : "/key_name",
                             "a keyless signing has no key: leave out key_id and key_name, or issuer and san");
    }
    if (!input->keyless && identity) {
        return op_fail_field(op, FAULT(JSON_FIELD), body->issuer != NULL ? "/issuer" : "/san",
                             "a signing with a key has no issuer and san: leave them out, or say mode: keyless");
    }
    return OK;
}

/* Rules name keys by name or id, so both are looked up. A name that no key has yet may be asked about. */
static struct fault take_key(struct request *request, const struct explain_body *body, struct may_sign *input)
{
    struct managed_key *key = NULL;
    struct uuid id;
    TRY(arena_take(request->op->arena, 1, sizeof(*key), &key));
    input->key_name = body->key_name;
    if (body->key_id != NULL && body->key_name != NULL) {
        return op_fail_field(request->op, FAULT(JSON_FIELD), "/key_name",
                             "/key_name: give key_id or key_name, not both");
    }
    struct fault fault = OK;
    if (body->key_id != NULL) {
        bool good = !FAULTED(uuid_parse(span_text(body->key_id), &id));
        fault = good ? keys_get(request->op, request->services, id, key) : FAULT(KEY_NOT_FOUND);
        if (fault.code == FAULT_KEY_NOT_FOUND || (!FAULTED(fault) && key->ref.purpose != KEY_PURPOSE_CODESIGN)) {
            request->op->note = (struct fault_note){ 0 };
            return op_fail_field(request->op, FAULT(KEY_NOT_FOUND), "/key_id",
                                 "no such code-signing key: list them with GET /api/v1/keys?purpose=codesign");
        }
    } else if (body->key_name != NULL) {
        fault = keys_newest(request->op, request->services, KEY_PURPOSE_CODESIGN, body->key_name, key);
        if (fault.code == FAULT_KEY_NOT_FOUND) {
            request->op->note = (struct fault_note){ 0 };
            return OK;
        }
    } else {
        return OK;
    }
    TRY(fault);
    input->key_id = key->ref.id.text;
    input->key_name = key->name;
    return OK;
}

/* The caller, unless somebody else is asked about: then only the roles that are given count. */
static struct fault take_principal(struct request *request, const struct explain_body *body, struct may_sign *input)
{
    const struct principal *caller = &request->op->principal;
    const char **roles = NULL;
    input->principal = body->principal != NULL ? body->principal : caller->subject;
    input->roles = body->roles.at;
    input->role_count = body->roles.count;
    if (body->principal == NULL && body->roles.at == NULL) {
        TRY(arena_take(request->op->arena, OP_ROLES_MAX, sizeof(*roles), &roles));
        for (size_t i = 0; i < caller->role_count; i++) {
            roles[i] = caller->roles[i];
        }
        input->roles = roles;
        input->role_count = caller->role_count;
    }
    return OK;
}

static struct fault take_question(struct request *request, struct may_sign *input)
{
    const struct explain_body *body = request->body;
    enum hash_algorithm hash = HASH_SHA256;
    if (body->digest_algorithm != NULL && FAULTED(hash_algorithm_parse(span_text(body->digest_algorithm), &hash))) {
        return op_fail_field(request->op, FAULT(JSON_FIELD), "/digest_algorithm",
                             "/digest_algorithm: must be sha256, sha384 or sha512");
    }
    *input = (struct may_sign){ .tenant = request->op->tenant.text,
                                .issuer = body->issuer,
                                .san = body->san,
                                .artifact_type = body->artifact_type,
                                .digest_algorithm = hash_algorithm_text(hash),
                                .now = body->at != 0 ? body->at : clock_utc() };
    TRY(take_mode(request->op, body, input));
    TRY(take_principal(request, body, input));
    return take_key(request, body, input);
}

struct fault route_policy_explain(struct request *request)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(POLICY_JSON_MAX);
    struct may_sign input;
    struct jout jout;
    TRY(take_question(request, &input));
    CLEANUP(permit_release) struct permit permit = { 0 };
    TRY(bulkheads_enter(request->op, request->services->bulkheads, BULKHEAD_POLICY, &permit));
    jout_init(&jout, &out);
    policy_explain(&jout, request->services->policy, request->services->config, &input);
    TRY(jout_end(&jout));
    return response_json(request, 0, &out);
}

struct fault route_policy_get(struct request *request)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(POLICY_JSON_MAX);
    struct jout jout;
    jout_init(&jout, &out);
    policy_print(&jout, request->services->policy, request->services->config, request->op->tenant.text);
    TRY(jout_end(&jout));
    return response_json(request, 0, &out);
}
