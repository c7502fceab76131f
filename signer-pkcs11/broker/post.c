#include "signer-pkcs11/broker/post.h"

#include "fips/fips.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>

#include <stdio.h>

#define TIMEOUT_MS 60000 /* a hardware token may take that long to make an RSA key */

static const struct test {
    const char *name, *digest;
    enum key_algorithm algorithm;
    enum sign_scheme scheme;
    enum hash_algorithm hash;
} tests[] = {
    { "ecdsa-p256", "SHA2-256", KEY_ALGORITHM_EC_P256, SIGN_SCHEME_ECDSA, HASH_SHA256 },
    { "ecdsa-p384", "SHA2-384", KEY_ALGORITHM_EC_P384, SIGN_SCHEME_ECDSA, HASH_SHA384 },
    { "rsa-3072-pkcs1", "SHA2-256", KEY_ALGORITHM_RSA_3072, SIGN_SCHEME_RSA_PKCS1, HASH_SHA256 },
    { "rsa-3072-pss", "SHA2-256", KEY_ALGORITHM_RSA_3072, SIGN_SCHEME_RSA_PSS, HASH_SHA256 },
};

static void pkey_freep(EVP_PKEY **key)
{
    EVP_PKEY_free(*key);
}
static void ctx_freep(EVP_PKEY_CTX **ctx)
{
    EVP_PKEY_CTX_free(*ctx);
}

/* The module's verdict, so that the token is not the only witness for itself. CRYPTO: no verdict. */
static struct fault module_verify(const struct test *test, struct span spki, struct span digest, struct span signature,
                                  bool *ret_good)
{
    const unsigned char *at = spki.at;
    CLEANUP(pkey_freep) EVP_PKEY *key = d2i_PUBKEY_ex(NULL, &at, (long)spki.len, fips_libctx(), NULL);
    REQUIRE(key != NULL, CRYPTO);
    CLEANUP(ctx_freep) EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(fips_libctx(), key, NULL);
    REQUIRE(ctx != NULL && EVP_PKEY_verify_init(ctx) == 1, CRYPTO);
    char name[16];
    (void)snprintf(name, sizeof(name), "%s", test->digest);
    const OSSL_PARAM params[] = { OSSL_PARAM_construct_utf8_string("digest", name, 0), OSSL_PARAM_construct_end() };
    REQUIRE(EVP_PKEY_CTX_set_params(ctx, params) == 1, CRYPTO);
    if (test->scheme == SIGN_SCHEME_RSA_PSS) {
        REQUIRE(EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PSS_PADDING) == 1, CRYPTO);
        REQUIRE(EVP_PKEY_CTX_set_rsa_pss_saltlen(ctx, RSA_PSS_SALTLEN_DIGEST) == 1, CRYPTO);
    }
    *ret_good = EVP_PKEY_verify(ctx, signature.at, signature.len, digest.at, digest.len) == 1;
    ERR_clear_error();
    return OK;
}

static struct fault key_ready(struct op *op, struct token_session *session, const struct test *test,
                              struct key_ref *ret_key, struct buf *spki)
{
    struct span parts[] = { span_text(key_algorithm_text(test->algorithm)) };
    struct key_ref key = { .purpose = KEY_PURPOSE_POST };
    enum key_algorithm algorithm = KEY_ALGORITHM_NONE;
    TRY(uuid_derive("svc-signer/post", parts, COUNT_OF(parts), &key.id));
    struct fault fault = token_public_key(op, session, &key, &algorithm, spki);
    if (fault.code == FAULT_KEY_NOT_FOUND) {
        op->note.set = false;
        fault = token_generate(op, session, &key, test->algorithm, spki);
    }
    TRY(fault);
    *ret_key = key;
    return OK;
}

static struct fault known_answer(struct op *op, struct token_session *session, const struct test *test,
                                 const struct key_ref *key, struct span spki)
{
    CLEANUP(buf_free) struct buf signature = BUF_INIT(SIGNATURE_MAX);
    uint8_t digest[64];
    size_t len = hash_size(test->hash);
    memset(digest, 0xa5, sizeof(digest));
    TRY(token_sign(op, session, key, test->scheme, test->hash, span_of(digest, len), &signature));
    for (int altered = 0; altered <= 1; altered++) {
        bool module_good = false;
        digest[0] ^= (uint8_t)altered;
        struct span shown = span_of(digest, len);
        TRY(module_verify(test, spki, shown, buf_span(&signature), &module_good));
        struct fault fault = token_verify(op, session, key, test->scheme, test->hash, shown, buf_span(&signature));
        if (FAULTED(fault) && fault.code != FAULT_SIGNATURE_INVALID) {
            return fault;
        }
        op->note.set = false;
        bool token_good = !FAULTED(fault);
        if (module_good == altered || token_good == altered) {
            return op_fail(op, FAULT(FIPS_SELF_TEST), "%s %s the signature of %s digest",
                           token_good == altered ? "the token" : "the FIPS module", altered ? "accepts" : "refuses",
                           altered ? "another" : "the right");
        }
    }
    return OK;
}

static struct fault run_one(struct op *op, struct token *token, const struct test *test)
{
    CLEANUP(token_session_putp) struct token_session *session = NULL;
    CLEANUP(buf_free) struct buf spki = BUF_INIT(SPKI_MAX);
    struct key_ref key = { 0 };
    TRY(token_session_take(op, token, &session));
    TRY(key_ready(op, session, test, &key, &spki));
    return known_answer(op, session, test, &key, buf_span(&spki));
}

struct fault post_run(struct token *token, struct buf *why, struct buf *tested)
{
    unsigned passed = 0;
    for (size_t i = 0; i < COUNT_OF(tests); i++) {
        CLEANUP(op_freep) struct op *op = NULL;
        TRY(op_new("svc-signer", (struct tenant_id){ 0 }, TIMEOUT_MS, &op));
        struct fault fault = run_one(op, token, &tests[i]);
        if (fault.code == FAULT_TOKEN_MECHANISM) {
            continue;
        }
        if (FAULTED(fault)) {
            IGNORE(buf_printf(why, "the power-on test %s through the token failed: %s", tests[i].name,
                              op->note.set ? op->note.detail : fault_row(fault.code)->title));
            return fault;
        }
        TRY(buf_printf(tested, "%s%s", passed++ > 0 ? " " : "", tests[i].name));
    }
    if (passed == 0) {
        IGNORE(buf_text(why, "the token has none of the approved signature mechanisms: use another token"));
        return FAULT(FIPS_SELF_TEST);
    }
    return OK;
}
