/* rooms: fips */
/*
 * Key sets of others. Oracles: what is kept is a public key for signatures, RSA of 2048 to 4096 bits or one of two
 * curves, with a name and with at least one algorithm that it takes; what the strict parser of our own sets accepts
 * holds every key that this one keeps.
 */
#include "fips/jws.h"

#include <openssl/core_names.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/params.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static struct op *op;

static void check_key(const struct jwk *jwk)
{
    static const char *const algs[] = { "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384" };
    static const char *const others[] = { "none", "HS256", "HS384", "ES512", "EdDSA", "" };
    OSSL_PARAM *private = NULL;
    bool rsa = EVP_PKEY_is_a(jwk->key, "RSA") == 1;
    int bits = EVP_PKEY_get_bits(jwk->key);
    unsigned takes = 0;
    for (size_t i = 0; i < COUNT_OF(algs); i++) {
        takes += jwk_takes(jwk, algs[i]);
    }
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        BUG_IF(jwk_takes(jwk, others[i]));
    }
    BUG_IF(takes != (jwk->alg != NULL || !rsa ? 1U : 6U));
    BUG_IF(jwk->kid == NULL || jwk->kid[0] == '\0' || (jwk->alg != NULL && !jws_alg_known(jwk->alg)));
    BUG_IF(rsa ? bits < 2048 || bits > 4096 : bits != 256 && bits != 384);
    BUG_IF(EVP_PKEY_todata(jwk->key, EVP_PKEY_KEYPAIR, &private) == 1 &&
           OSSL_PARAM_locate(private, rsa ? OSSL_PKEY_PARAM_RSA_D : OSSL_PKEY_PARAM_PRIV_KEY) != NULL);
    OSSL_PARAM_free(private);
}

static bool is_among(const struct jwk *jwk, const struct jwk_set *set)
{
    for (size_t i = 0; i < set->count; i++) {
        if (strcmp(set->at[i].kid, jwk->kid) == 0 && EVP_PKEY_eq(set->at[i].key, jwk->key) == 1) {
            return true;
        }
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (op == NULL) {
        BUG_IF(FAULTED(op_new("fuzz", (struct tenant_id){ "default" }, 1 << 30, &op)));
    }
    CLEANUP(jwk_set_free) struct jwk_set set = { 0 };
    CLEANUP(jwk_set_free) struct jwk_set strict = { 0 };
    size_t left_out = 0;
    op->note = (struct fault_note){ 0 };
    arena_clear(op->arena);
    struct fault fault = jwk_set_parse_foreign(op, span_of(bytes, len), &set, &left_out);
    BUG_IF(FAULTED(fault) ? set.count != 0 || !op->note.set : set.count == 0 || set.count + left_out > 64);
    for (size_t i = 0; i < set.count; i++) {
        check_key(&set.at[i]);
    }
    op->note = (struct fault_note){ 0 };
    if (!FAULTED(jwk_set_parse(op, span_of(bytes, len), &strict))) {
        for (size_t i = 0; i < set.count; i++) {
            BUG_IF(!is_among(&set.at[i], &strict));
        }
    }
    ERR_clear_error();
    return 0;
}
