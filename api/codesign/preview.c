#include "api/codesign/internal.h"

#include "appliance/base/codec.h"
#include "appliance/base/secret.h"

#define CANONICAL_MAX ((size_t)16 << 10)

static const struct {
    enum sign_scheme scheme;
    const char *text;
} schemes[] = {
    { SIGN_SCHEME_ECDSA, "ecdsa" },
    { SIGN_SCHEME_RSA_PKCS1, "rsa-pkcs1v15" },
    { SIGN_SCHEME_RSA_PSS, "rsa-pss" },
};

const char *codesign_scheme_text(enum sign_scheme scheme)
{
    for (size_t i = 0; i < COUNT_OF(schemes); i++) {
        if (schemes[i].scheme == scheme) {
            return schemes[i].text;
        }
    }
    return "";
}

enum sign_scheme codesign_scheme_parse(const char *text)
{
    for (size_t i = 0; i < COUNT_OF(schemes); i++) {
        if (strcmp(schemes[i].text, text) == 0) {
            return schemes[i].scheme;
        }
    }
    return SIGN_SCHEME_NONE;
}

struct fault codesign_scheme_choose(struct op *op, const char *text, enum key_algorithm algorithm,
                                    enum sign_scheme *ret_scheme)
{
    enum sign_scheme usual = key_default_scheme(algorithm);
    REQUIRE(usual != SIGN_SCHEME_NONE, KEY_STATE);
    if (text == NULL) {
        *ret_scheme = usual;
        return OK;
    }
    enum sign_scheme wanted = codesign_scheme_parse(text);
    if (wanted != SIGN_SCHEME_NONE && (wanted == SIGN_SCHEME_ECDSA) == (usual == SIGN_SCHEME_ECDSA)) {
        *ret_scheme = wanted;
        return OK;
    }
    return op_fail_field(op, FAULT(JSON_FIELD), "/signature_scheme",
                         "signature_scheme must be ecdsa for an EC key, rsa-pkcs1v15 or rsa-pss for an RSA key");
}

/* Everything outside the request whose change must void a preview. */
static struct fault print_configuration(const struct codesign_plan *plan, struct buf *out)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(CANONICAL_MAX);
    struct sha256 spki;
    struct jout jout;
    TRY(sha256_of(plan->key.spki, &spki));
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key_text(&jout, "schema", "svc.codesign.configuration.v1");
    jout_key_bool(&jout, "approval_required", false);
    jout_key_text(&jout, "key_state", plan->key.state);
    jout_key_text(&jout, "algorithm", key_algorithm_text(plan->key.algorithm));
    jout_key_hex(&jout, "public_key_sha256", SPAN_ARRAY(spki.at));
    jout_key_text(&jout, "transparency_destination", CODESIGN_TRANSPARENCY);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return json_canonical(buf_span(&json), out);
}

static struct fault print_request(struct tenant_id tenant, const struct codesign_plan *plan, struct buf *out)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(CANONICAL_MAX);
    const struct codesign_request *request = &plan->request;
    struct jout jout;
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key_text(&jout, "schema", "svc.codesign.preview.v1");
    jout_key_text(&jout, "tenant_id", tenant.text);
    jout_key_text(&jout, "principal", request->principal);
    jout_key_text(&jout, "key_id", request->key_id.text);
    jout_key_text(&jout, "algorithm", key_algorithm_text(plan->key.algorithm));
    jout_key_text(&jout, "signature_scheme", codesign_scheme_text(request->scheme));
    jout_key_text(&jout, "artifact_type", request->artifact_type);
    jout_key_base64(&jout, "digest", request->digest);
    jout_key_text(&jout, "configuration_fingerprint", plan->configuration_fingerprint);
    jout_key_text(&jout, "transparency_destination", CODESIGN_TRANSPARENCY);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return json_canonical(buf_span(&json), out);
}

struct fault codesign_fingerprints(struct tenant_id tenant, struct span fingerprint_key, struct codesign_plan *plan)
{
    CLEANUP(buf_free) struct buf configuration = BUF_INIT(CANONICAL_MAX);
    CLEANUP(buf_free) struct buf request = BUF_INIT(CANONICAL_MAX);
    struct sha256 digest, mac;
    TRY(print_configuration(plan, &configuration));
    TRY(sha256_of(buf_span(&configuration), &digest));
    hex_text(SPAN_ARRAY(digest.at), plan->configuration_fingerprint, sizeof(plan->configuration_fingerprint));
    TRY(print_request(tenant, plan, &request));
    const struct span parts[] = { buf_span(&request) };
    TRY(hmac_sha256(fingerprint_key, parts, COUNT_OF(parts), &mac));
    hex_text(SPAN_ARRAY(mac.at), plan->request_fingerprint, sizeof(plan->request_fingerprint));
    return OK;
}

static struct fault check_body(struct op *op, const struct codesign_body *body)
{
    if (body->digest.len != SHA256_LEN) {
        return op_fail_field(op, FAULT(DIGEST_LENGTH), "/digest",
                             "digest must be the base64 of exactly 32 bytes (SHA-256), these are %zu",
                             body->digest.len);
    }
    for (const unsigned char *c = (const unsigned char *)body->artifact_type; *c != '\0'; c++) {
        if (*c < ' ' || *c == 0x7f) {
            return op_fail_field(op, FAULT(JSON_FIELD), "/artifact_type",
                                 "artifact_type must not have control characters");
        }
    }
    return OK;
}

/* Unknown, of another tenant, or of another purpose: the same answer. */
static struct fault find_key(struct op *op, struct services *services, const char *id, struct managed_key *ret_key)
{
    struct uuid key_id;
    struct fault fault = uuid_parse(span_text(id), &key_id);
    if (!FAULTED(fault)) {
        fault = keys_get(op, services, key_id, ret_key);
    }
    bool wrong_purpose = !FAULTED(fault) && ret_key->ref.purpose != KEY_PURPOSE_CODESIGN;
    if (fault.code == FAULT_BAD_ARGUMENT || fault.code == FAULT_KEY_NOT_FOUND || wrong_purpose) {
        op->note = (struct fault_note){ 0 };
        return op_fail_field(op, FAULT(KEY_NOT_FOUND), "/key_id",
                             "no such code-signing key: list them with "
                             "GET /api/v1/keys?purpose=codesign");
    }
    return fault;
}

struct fault codesign_plan_make(struct request *request, const struct codesign_body *body,
                                struct codesign_plan *ret_plan)
{
    struct op *op = request->op;
    struct codesign_plan plan = { 0 };
    TRY(check_body(op, body));
    TRY(find_key(op, request->services, body->key_id, &plan.key));
    BUG_IF(plan.key.state == NULL);
    if (strcmp(plan.key.state, "active") != 0) {
        return op_fail_field(op, FAULT(KEY_STATE), "/key_id", "the key is %s and signs nothing any more",
                             plan.key.state);
    }
    plan.request = (struct codesign_request){
        .key_id = plan.key.ref.id,
        .artifact_type = body->artifact_type,
        .digest = body->digest,
        .principal = op->principal.subject,
    };
    TRY(codesign_scheme_choose(op, body->signature_scheme, plan.key.algorithm, &plan.request.scheme));
    TRY(codesign_fingerprints(op->tenant, secret_span(request->services->fingerprint_key), &plan));
    *ret_plan = plan;
    return OK;
}
