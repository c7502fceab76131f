#include "api/codesign/internal.h"

#include "appliance/base/codec.h"

static const struct {
    enum sign_scheme scheme;
    const char *text;
} schemes[] = {
    { SIGN_SCHEME_ECDSA, "ecdsa" },
    { SIGN_SCHEME_RSA_PKCS1, "rsa-pkcs1v15" },
    { SIGN_SCHEME_RSA_PSS, "rsa-pss" },
    { SIGN_SCHEME_ML_DSA, "ml-dsa" },
};

const char *codesign_mode_text(enum codesign_mode mode)
{
    return mode == CODESIGN_KEYLESS ? "keyless" : "key";
}

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
    bool either_rsa = usual == SIGN_SCHEME_RSA_PKCS1 && wanted == SIGN_SCHEME_RSA_PSS;
    if (wanted == usual || either_rsa) {
        *ret_scheme = wanted;
        return OK;
    }
    return op_fail_field(op, FAULT(JSON_FIELD), "/signature_scheme",
                         "signature_scheme must be ecdsa for an EC key, rsa-pkcs1v15 or rsa-pss for an RSA key, ml-dsa "
                         "for an ML-DSA key");
}

static struct fault check_text(struct op *op, const char *pointer, const char *text)
{
    for (const unsigned char *c = (const unsigned char *)text; text != NULL && *c != '\0'; c++) {
        if (*c < ' ' || *c == 0x7f) {
            return op_fail_field(op, FAULT(JSON_FIELD), pointer, "%s must not have control characters", pointer + 1);
        }
    }
    return OK;
}

static struct fault read_hash(struct op *op, const char *text, enum hash_algorithm *ret_hash)
{
    if (text == NULL) {
        *ret_hash = HASH_SHA256;
        return OK;
    }
    if (FAULTED(hash_algorithm_parse(span_text(text), ret_hash))) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/digest_algorithm",
                             "digest_algorithm must be sha256, sha384 or sha512");
    }
    return OK;
}

static struct fault check_digest(struct op *op, const char *pointer, enum hash_algorithm hash, struct span digest)
{
    if (digest.len != hash_size(hash)) {
        return op_fail_field(op, FAULT(DIGEST_LENGTH), pointer,
                             "a digest must be the base64 of exactly %zu bytes (%s), these are %zu", hash_size(hash),
                             hash_algorithm_text(hash), digest.len);
    }
    return OK;
}

static struct fault read_one(struct op *op, const struct codesign_body *body, struct codesign_request *request)
{
    struct span *digests = NULL;
    TRY(check_digest(op, "/digest", request->hash, body->digest));
    TRY(arena_take(op->arena, 1, sizeof(*digests), &digests));
    digests[0] = body->digest;
    request->digests = digests;
    request->count = 1;
    return OK;
}

static struct fault read_many(struct op *op, const struct codesign_body *body, struct codesign_request *request)
{
    struct span *digests = NULL;
    TRY(arena_take(op->arena, body->digests.count, sizeof(*digests), &digests));
    for (size_t i = 0; i < body->digests.count; i++) {
        CLEANUP(buf_free) struct buf bytes = BUF_INIT(1024);
        const char *pointer = NULL;
        TRY(arena_printf(op->arena, &pointer, "/digests/%zu", i));
        if (FAULTED(base64_decode(span_text(body->digests.at[i]), &bytes))) {
            return op_fail_field(op, FAULT(JSON_FIELD), pointer, "not base64");
        }
        TRY(check_digest(op, pointer, request->hash, buf_span(&bytes)));
        TRY(arena_copy(op->arena, buf_span(&bytes), &digests[i]));
    }
    request->digests = digests;
    request->count = body->digests.count;
    return OK;
}

static struct fault read_roles(struct op *op, struct codesign_request *request)
{
    const char **roles = NULL;
    TRY(arena_take(op->arena, OP_ROLES_MAX, sizeof(*roles), &roles));
    for (size_t i = 0; i < op->principal.role_count; i++) {
        roles[i] = op->principal.roles[i];
    }
    request->roles = roles;
    request->role_count = op->principal.role_count;
    return OK;
}

struct fault codesign_request_read(struct op *op, enum codesign_form form, const struct codesign_body *body,
                                   struct codesign_request *ret_request)
{
    struct codesign_request request = {
        .mode = form == FORM_KEYLESS ? CODESIGN_KEYLESS : CODESIGN_KEY,
        .artifact_type = body->artifact_type,
        .identity_method = body->identity_method,
        .expected_san = body->expected_san,
        .expected_issuer = body->expected_issuer,
        .proof = body->identity_payload,
        .principal = op->principal.subject,
    };
    TRY(check_text(op, "/artifact_type", body->artifact_type));
    TRY(check_text(op, "/expected_san", body->expected_san));
    TRY(check_text(op, "/expected_issuer", body->expected_issuer));
    TRY(read_hash(op, body->digest_algorithm, &request.hash));
    TRY(form == FORM_BATCH ? read_many(op, body, &request) : read_one(op, body, &request));
    TRY(read_roles(op, &request));
    *ret_request = request;
    return OK;
}

static void print_optional(struct jout *jout, const char *key, const char *text)
{
    if (text != NULL) {
        jout_key_text(jout, key, text);
    }
}

void codesign_artifact_print(struct jout *jout, const struct codesign_request *request)
{
    jout_key_text(jout, "artifact_type", request->artifact_type);
    jout_key_text(jout, "digest_algorithm", hash_algorithm_text(request->hash));
    jout_key_text(jout, "signature_scheme", codesign_scheme_text(request->scheme));
    jout_key(jout, "digests");
    jout_array(jout);
    for (size_t i = 0; i < request->count; i++) {
        jout_base64(jout, request->digests[i]);
    }
    jout_array_end(jout);
}

void codesign_signer_print(struct jout *jout, const struct codesign_request *request)
{
    jout_key_text(jout, "mode", codesign_mode_text(request->mode));
    if (request->mode == CODESIGN_KEY) {
        jout_key_text(jout, "key_id", request->key_id.text);
        return;
    }
    jout_key_text(jout, "identity_method", request->identity_method);
    jout_key_base64(jout, "identity_payload", request->proof);
    print_optional(jout, "expected_san", request->expected_san);
    print_optional(jout, "expected_issuer", request->expected_issuer);
}

void codesign_request_print(struct jout *jout, const struct codesign_request *request)
{
    jout_key_text(jout, "principal", request->principal);
    codesign_artifact_print(jout, request);
    codesign_signer_print(jout, request);
}
