#include "fips/jws_internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/codec.h"
#include "appliance/base/crypto.h"
#include "appliance/base/json.h"

#include <openssl/core_names.h>
#include <openssl/param_build.h>

#define JWK_SET_MAX     64
#define JWK_SET_BYTES   262144
#define JWK_TEXT_MAX    128
#define JWK_MODULUS_MAX 1024 /* base64url characters: 4096 bits and some room */
#define COORDINATE_MAX  48
#define RSA_BITS_MIN    2048
#define RSA_BITS_MAX    4096

DEFINE_FREEP(OSSL_PARAM, OSSL_PARAM_free)
DEFINE_FREEP(OSSL_PARAM_BLD, OSSL_PARAM_BLD_free)

/* Every algorithm that exists here (RFC 7518 3.1); the key decides which one a signature may use. */
static const struct jws_algorithm algorithms[] = {
    { "ES256", "P-256", "SHA256", 32, false, false }, { "ES384", "P-384", "SHA384", 48, false, false },
    { "RS256", NULL, "SHA256", 0, false, false },     { "PS256", NULL, "SHA256", 0, true, false },
    { "RS384", NULL, "SHA384", 0, false, true },      { "RS512", NULL, "SHA512", 0, false, true },
    { "PS384", NULL, "SHA384", 0, true, true },       { "PS512", NULL, "SHA512", 0, true, true },
};

const struct jws_algorithm *jws_algorithm_find(const char *name)
{
    const struct jws_algorithm *found = jws_algorithm_find_foreign(name);
    return found != NULL && !found->foreign ? found : NULL;
}

const struct jws_algorithm *jws_algorithm_find_foreign(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(algorithms); i++) {
        if (strcmp(algorithms[i].name, name) == 0) {
            return &algorithms[i];
        }
    }
    return NULL;
}

void jwk_set_free(struct jwk_set *set)
{
    for (size_t i = 0; set->at != NULL && i < set->count; i++) {
        mem_free((void *)set->at[i].kid);
        EVP_PKEY_free(set->at[i].key);
    }
    mem_free(set->at);
    *set = (struct jwk_set){ 0 };
}

struct fault jwk_kid(struct span spki, char ret_kid[44])
{
    struct sha256 digest;
    TRY(sha256_of(spki, &digest));
    CLEANUP(buf_free) struct buf text = BUF_INIT(44);
    TRY(base64url_encode(SPAN_ARRAY(digest.at), &text));
    BUG_IF(text.len != 43);
    memcpy(ret_kid, text.at, 43);
    ret_kid[43] = '\0';
    return OK;
}

/* "P-256" as OpenSSL may also say it: "prime256v1". NULL for another curve or no EC key. */
static const char *curve_of(EVP_PKEY *key)
{
    char group[64];
    size_t len = 0;
    if (EVP_PKEY_is_a(key, "EC") != 1 || EVP_PKEY_get_group_name(key, group, sizeof(group), &len) != 1) {
        return NULL;
    }
    if (strcmp(group, "prime256v1") == 0 || strcmp(group, "P-256") == 0) {
        return "P-256";
    }
    return strcmp(group, "secp384r1") == 0 || strcmp(group, "P-384") == 0 ? "P-384" : NULL;
}

bool jws_algorithm_fits(const struct jws_algorithm *algorithm, EVP_PKEY *key)
{
    if (algorithm->curve == NULL) {
        return EVP_PKEY_is_a(key, "RSA") == 1;
    }
    const char *curve = curve_of(key);
    return curve != NULL && strcmp(curve, algorithm->curve) == 0;
}

struct fault jwk_alg(EVP_PKEY *key, const char **ret_alg)
{
    static const char *const preferred[] = { "ES256", "ES384", "PS256" };
    for (size_t i = 0; i < COUNT_OF(preferred); i++) {
        if (jws_algorithm_fits(jws_algorithm_find(preferred[i]), key)) {
            *ret_alg = preferred[i];
            return OK;
        }
    }
    return FAULT(UNSUPPORTED);
}

static struct fault print_number(struct jout *json, const char *name, EVP_PKEY *key, const char *param, size_t width)
{
    CLEANUP(BN_freep) BIGNUM *number = NULL;
    uint8_t bytes[RSA_BITS_MAX / 8];
    REQUIRE(EVP_PKEY_get_bn_param(key, param, &number) == 1, CRYPTO);
    size_t len = width != 0 ? width : (size_t)BN_num_bytes(number);
    REQUIRE(len <= sizeof(bytes) && BN_bn2binpad(number, bytes, (int)len) == (int)len, UNSUPPORTED);
    CLEANUP(buf_free) struct buf text = BUF_INIT(JWK_MODULUS_MAX);
    TRY(base64url_encode(span_of(bytes, len), &text));
    jout_key(json, name);
    jout_span_text(json, buf_span(&text));
    return OK;
}

struct fault jwk_print(struct span spki, struct buf *out)
{
    return jwk_print_window(spki, 0, 0, out);
}

struct fault jwk_print_window(struct span spki, utc_us not_before, utc_us not_after, struct buf *out)
{
    const unsigned char *at = spki.at;
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = d2i_PUBKEY_ex(NULL, &at, (long)spki.len, crypto_context(), NULL);
    REQUIRE(key != NULL, CRYPTO);
    char kid[44];
    const char *alg = NULL;
    TRY(jwk_kid(spki, kid));
    TRY(jwk_alg(key, &alg));
    const struct jws_algorithm *algorithm = jws_algorithm_find(alg);

    struct jout json;
    jout_init(&json, out);
    jout_object(&json);
    jout_key_text(&json, "alg", alg);
    if (algorithm->curve != NULL) {
        jout_key_text(&json, "crv", algorithm->curve);
    } else {
        TRY(print_number(&json, "e", key, OSSL_PKEY_PARAM_RSA_E, 0));
    }
    jout_key_text(&json, "kid", kid);
    jout_key_text(&json, "kty", algorithm->curve != NULL ? "EC" : "RSA");
    if (algorithm->curve == NULL) {
        TRY(print_number(&json, "n", key, OSSL_PKEY_PARAM_RSA_N, 0));
    }
    if (not_after != 0) {
        jout_key_time(&json, "svc_not_after", not_after);
    }
    if (not_before != 0) {
        jout_key_time(&json, "svc_not_before", not_before);
    }
    jout_key_text(&json, "use", "sig");
    if (algorithm->curve != NULL) {
        TRY(print_number(&json, "x", key, OSSL_PKEY_PARAM_EC_PUB_X, algorithm->coordinate));
        TRY(print_number(&json, "y", key, OSSL_PKEY_PARAM_EC_PUB_Y, algorithm->coordinate));
    }
    jout_object_end(&json);
    return jout_end(&json);
}

/* Whatever else stands there, above all a private member, is refused as unknown. */
static const struct jin_field jwk_fields[] = {
    JIN_TEXT(struct jwk_members, kty, JIN_REQUIRED, 1, 8),
    JIN_TEXT(struct jwk_members, crv, JIN_OPTIONAL, 1, 16),
    JIN_TEXT(struct jwk_members, x, JIN_OPTIONAL, 1, 96),
    JIN_TEXT(struct jwk_members, y, JIN_OPTIONAL, 1, 96),
    JIN_TEXT(struct jwk_members, n, JIN_OPTIONAL, 1, JWK_MODULUS_MAX),
    JIN_TEXT(struct jwk_members, e, JIN_OPTIONAL, 1, 16),
    JIN_TEXT(struct jwk_members, alg, JIN_OPTIONAL, 1, 16),
    JIN_TEXT(struct jwk_members, use, JIN_OPTIONAL, 1, 8),
    JIN_TEXT(struct jwk_members, kid, JIN_OPTIONAL, 1, JWK_TEXT_MAX),
    JIN_TEXTS(struct jwk_members, key_ops, JIN_OPTIONAL, 0, 8),
    JIN_BOOL(struct jwk_members, ext, JIN_OPTIONAL),
    JIN_TIME(struct jwk_members, svc_not_before, JIN_OPTIONAL),
    JIN_TIME(struct jwk_members, svc_not_after, JIN_OPTIONAL),
};

static struct fault build_key(const char *type, OSSL_PARAM_BLD *build, EVP_PKEY **ret_key)
{
    CLEANUP(OSSL_PARAM_freep) OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(build);
    CLEANUP(EVP_PKEY_CTX_freep) EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(crypto_context(), type, NULL);
    REQUIRE(params != NULL && ctx != NULL, NO_MEMORY);
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = NULL;
    REQUIRE(EVP_PKEY_fromdata_init(ctx) == 1 && EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_PUBLIC_KEY, params) == 1,
            JWS_FORMAT);
    CLEANUP(EVP_PKEY_CTX_freep) EVP_PKEY_CTX *check = EVP_PKEY_CTX_new_from_pkey(crypto_context(), key, NULL);
    REQUIRE(check != NULL && EVP_PKEY_public_check_quick(check) == 1, JWS_FORMAT);
    *ret_key = TAKE(key);
    return OK;
}

static struct fault ec_key(const struct jwk_members *members, EVP_PKEY **ret_key)
{
    REQUIRE(members->crv != NULL && members->x != NULL && members->y != NULL && members->n == NULL &&
                members->e == NULL,
            JWS_FORMAT);
    size_t width = strcmp(members->crv, "P-256") == 0 ? 32 : strcmp(members->crv, "P-384") == 0 ? 48 : 0;
    REQUIRE(width != 0, JWS_FORMAT);
    CLEANUP(buf_free) struct buf point = BUF_INIT(1 + 2 * COORDINATE_MAX);
    TRY(buf_u8(&point, 0x04));
    REQUIRE(!FAULTED(base64url_decode(span_text(members->x), &point)) && point.len == 1 + width, JWS_FORMAT);
    REQUIRE(!FAULTED(base64url_decode(span_text(members->y), &point)) && point.len == 1 + 2 * width, JWS_FORMAT);
    CLEANUP(OSSL_PARAM_BLD_freep) OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    REQUIRE(build != NULL && OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, members->crv, 0) == 1 &&
                OSSL_PARAM_BLD_push_octet_string(build, OSSL_PKEY_PARAM_PUB_KEY, point.at, point.len) == 1,
            NO_MEMORY);
    return build_key("EC", build, ret_key);
}

/* RFC 7518 6.3.1.1: a Base64urlUInt has no leading zero octets. */
static struct fault decode_number(const char *text, BIGNUM **ret_number)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(JWK_MODULUS_MAX);
    REQUIRE(!FAULTED(base64url_decode(span_text(text), &bytes)) && bytes.len > 0 && bytes.at[0] != 0, JWS_FORMAT);
    BIGNUM *number = BN_bin2bn(bytes.at, (int)bytes.len, NULL);
    REQUIRE(number != NULL, NO_MEMORY);
    *ret_number = number;
    return OK;
}

static struct fault rsa_key(const struct jwk_members *members, EVP_PKEY **ret_key)
{
    REQUIRE(members->n != NULL && members->e != NULL && members->crv == NULL && members->x == NULL &&
                members->y == NULL,
            JWS_FORMAT);
    CLEANUP(BN_freep) BIGNUM *modulus = NULL;
    CLEANUP(BN_freep) BIGNUM *exponent = NULL;
    TRY(decode_number(members->n, &modulus));
    TRY(decode_number(members->e, &exponent));
    int bits = BN_num_bits(modulus);
    REQUIRE(bits >= RSA_BITS_MIN && bits <= RSA_BITS_MAX && BN_is_odd(exponent), JWS_FORMAT);
    CLEANUP(OSSL_PARAM_BLD_freep) OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    REQUIRE(build != NULL && OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_N, modulus) == 1 &&
                OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_E, exponent) == 1,
            NO_MEMORY);
    return build_key("RSA", build, ret_key);
}

struct fault jwk_build(const struct jwk_members *members, EVP_PKEY **ret_key)
{
    if (strcmp(members->kty, "EC") == 0) {
        return ec_key(members, ret_key);
    }
    return strcmp(members->kty, "RSA") == 0 ? rsa_key(members, ret_key) : FAULT(JWS_FORMAT);
}

static struct fault key_of(struct op *op, const struct jwk_members *members, EVP_PKEY **ret_key)
{
    struct fault fault = jwk_build(members, ret_key);
    if (!FAULTED(fault)) {
        return OK;
    }
    char reason[256];
    crypto_last_error(reason, sizeof(reason));
    fault =
        op_fail(op, fault,
                "a JWK is not a usable public key: kty EC (P-256, P-384) with x and y, or RSA (2048 to 4096 bits) with "
                "n and e");
    op_note_log(op, "OpenSSL: %s", reason);
    return fault;
}

struct fault jwk_own_kid(EVP_PKEY *key, char ret_kid[44])
{
    unsigned char *der = NULL;
    int len = i2d_PUBKEY(key, &der);
    REQUIRE(len > 0, CRYPTO);
    struct fault fault = jwk_kid(span_of(der, (size_t)len), ret_kid);
    OPENSSL_free(der);
    return fault;
}

static struct fault parse_one(struct op *op, struct span json, struct jwk *ret_jwk)
{
    struct jwk_members members = { 0 };
    TRY(jin_decode(op, json, jwk_fields, COUNT_OF(jwk_fields), &members));
    if (members.use != NULL && strcmp(members.use, "sig") != 0) {
        return op_fail(op, FAULT(JWS_FORMAT), "a JWK has use \"%s\"; only signature keys (\"sig\") belong here",
                       members.use);
    }
    if (members.svc_not_after != 0 && members.svc_not_after < members.svc_not_before) {
        return op_fail(op, FAULT(JWS_FORMAT), "a JWK's svc_not_after lies before its svc_not_before");
    }
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = NULL;
    TRY(key_of(op, &members, &key));
    const char *alg = members.alg;
    if (alg == NULL) {
        TRY(jwk_alg(key, &alg));
    }
    const struct jws_algorithm *algorithm = jws_algorithm_find(alg);
    if (algorithm == NULL || !jws_algorithm_fits(algorithm, key)) {
        return op_fail(op, FAULT(JWS_FORMAT), "a JWK has alg \"%s\", which does not go with its key", alg);
    }
    char own_kid[44];
    if (members.kid == NULL) {
        TRY(jwk_own_kid(key, own_kid));
        members.kid = own_kid;
    }
    char *kid = NULL;
    TRY(mem_dup_text(members.kid, JWK_TEXT_MAX, &kid));
    *ret_jwk = (struct jwk){ .kid = kid,
                             .alg = algorithm->name,
                             .key = TAKE(key),
                             .not_before = members.svc_not_before,
                             .not_after = members.svc_not_after };
    return OK;
}

struct jwks_members {
    struct span keys;
};
static const struct jin_field jwks_fields[] = {
    JIN_RAW(struct jwks_members, keys, JIN_REQUIRED, 2, JWK_SET_BYTES),
};

static struct fault parse_set(struct op *op, struct span json, struct jwk_set *ret_set)
{
    struct jwks_members members = { 0 };
    struct span *items = NULL;
    size_t count = 0;
    TRY(jin_decode(op, json, jwks_fields, COUNT_OF(jwks_fields), &members));
    TRY(jin_array(op, members.keys, JWK_SET_MAX, &items, &count));
    if (count == 0) {
        return op_fail(op, FAULT(JWS_FORMAT), "the JWK set has no keys");
    }
    CLEANUP(jwk_set_free) struct jwk_set set = { 0 };
    TRY(mem_new(count, sizeof(*set.at), &set.at));
    for (size_t i = 0; i < count; i++) {
        TRY(parse_one(op, items[i], &set.at[i]));
        set.count++;
        for (size_t j = 0; j < i; j++) {
            if (strcmp(set.at[j].kid, set.at[i].kid) == 0) {
                return op_fail(op, FAULT(JWS_FORMAT), "two keys of the JWK set have the kid \"%s\"", set.at[i].kid);
            }
        }
    }
    *ret_set = (struct jwk_set){ .at = TAKE(set.at), .count = set.count };
    return OK;
}

struct fault jwk_set_parse(struct op *op, struct span json, struct jwk_set *ret_set)
{
    struct fault fault = parse_set(op, json, ret_set);
    return fault.code == FAULT_JSON_SYNTAX || fault.code == FAULT_JSON_FIELD ? FAULT(JWS_FORMAT) : fault;
}
