#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/provider/token.h"

#include "fips/fips.h"
#include "signer-pkcs11/provider/internal.h"

#include <openssl/cms.h>
#include <openssl/pkcs7.h>
#include <openssl/provider.h>
#include <openssl/ts.h>
#include <openssl/x509v3.h>
#include <pthread.h>

#define assert_fault(expr, sym) assert_int_equal((expr).code, FAULT_##sym)

enum { P256, P384, RSA3072, KIND_COUNT };
static const char *const types[KIND_COUNT] = { "P-256", "P-384", "RSA" };
static const char *const digests[KIND_COUNT] = { "SHA256", "SHA384", "SHA256" };

static struct bench {
    OSSL_LIB_CTX *libctx;
    struct op *op;
    struct key_ref refs[KIND_COUNT];
    struct buf spkis[KIND_COUNT];
    EVP_PKEY *keys[KIND_COUNT];    /* of the provider */
    EVP_PKEY *publics[KIND_COUNT]; /* of the module */
} bench;

static const struct uuid no_op_id;

struct signing {
    int kind;
    const char *digest;
    bool pss;
};

static int sign_with(const struct signing *how, struct span message, uint8_t *out, size_t *len)
{
    CLEANUP(EVP_MD_CTX_freep) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    EVP_PKEY_CTX *options = NULL;
    if (EVP_DigestSignInit_ex(ctx, &options, how->digest, bench.libctx, NULL, bench.keys[how->kind], NULL) != 1) {
        return 0;
    }
    if (how->pss && (EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING) != 1 ||
                     EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_DIGEST) != 1)) {
        return 0;
    }
    return EVP_DigestSign(ctx, out, len, message.at, message.len);
}

static int verify_with(const struct signing *how, struct span message, struct span signature)
{
    CLEANUP(EVP_MD_CTX_freep) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    EVP_PKEY_CTX *options = NULL;
    assert_int_equal(
        EVP_DigestVerifyInit_ex(ctx, &options, how->digest, bench.libctx, NULL, bench.publics[how->kind], NULL), 1);
    if (how->pss) {
        assert_int_equal(EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING), 1);
        assert_int_equal(EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_DIGEST), 1);
    }
    return EVP_DigestVerify(ctx, signature.at, signature.len, message.at, message.len);
}

static void nothing_is_signed_without_a_bound_operation(void **state)
{
    (void)state;
    uint8_t out[SIGNATURE_MAX];
    size_t len = sizeof(out);
    unsigned before = atomic_load(&token.signatures);
    struct signing how = { P256, "SHA256", false };
    assert_int_not_equal(sign_with(&how, span_text("x"), out, &len), 1);
    assert_fault(svc_provider_fault(), CANCELLED);
    assert_int_equal(atomic_load(&token.signatures), before);
}

static void the_fault_of_the_signer_can_be_told(void **state)
{
    (void)state;
    uint8_t out[SIGNATURE_MAX];
    size_t len = sizeof(out);
    struct signing how = { P256, "SHA256", false };
    token.refuse = FAULT(TOKEN_UNAVAILABLE);
    svc_provider_bind(bench.op, no_op_id);
    assert_int_not_equal(sign_with(&how, span_text("x"), out, &len), 1);
    svc_provider_unbind();
    token.refuse = OK;
    assert_fault(svc_provider_fault(), TOKEN_UNAVAILABLE);
    svc_provider_bind(bench.op, no_op_id); /* the next operation starts clean */
    assert_fault(svc_provider_fault(), NONE);
    svc_provider_unbind();
}

static void digests_outside_the_table_are_refused(void **state)
{
    (void)state;
    uint8_t out[SIGNATURE_MAX];
    static const char *const names[] = { "SHA1", "MD5", "SHA224", "SHA3-256", "nonsense" };
    svc_provider_bind(bench.op, no_op_id);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        size_t len = sizeof(out);
        struct signing how = { RSA3072, names[i], false };
        assert_int_not_equal(sign_with(&how, span_text("x"), out, &len), 1);
    }
    svc_provider_unbind();
}

static void paddings_that_the_signer_does_not_know_are_refused(void **state)
{
    (void)state;
    CLEANUP(EVP_MD_CTX_freep) EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    EVP_PKEY_CTX *options = NULL;
    assert_int_equal(EVP_DigestSignInit_ex(ctx, &options, "SHA256", bench.libctx, NULL, bench.keys[RSA3072], NULL), 1);
    assert_int_not_equal(EVP_PKEY_CTX_set_rsa_padding(options, RSA_NO_PADDING), 1);
    assert_int_not_equal(EVP_PKEY_CTX_set_rsa_padding(options, RSA_X931_PADDING), 1);
    assert_int_equal(EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING), 1);
    assert_int_not_equal(EVP_PKEY_CTX_set_rsa_pss_saltlen(options, 20), 1);
    assert_int_not_equal(EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_MAX), 1);
    assert_int_not_equal(EVP_PKEY_CTX_set_rsa_mgf1_md_name(options, "SHA512", NULL), 1);
    assert_int_equal(EVP_PKEY_CTX_set_rsa_pss_saltlen(options, 32), 1);
    assert_int_equal(EVP_PKEY_CTX_set_rsa_mgf1_md_name(options, "SHA256", NULL), 1);
}

static void the_private_half_cannot_be_had(void **state)
{
    (void)state;
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        OSSL_PARAM *params = NULL;
        unsigned char *der = NULL;
        BIGNUM *number = NULL;
        EVP_PKEY *key = bench.keys[kind];
        assert_int_not_equal(EVP_PKEY_todata(key, EVP_PKEY_KEYPAIR, &params), 1);
        assert_true(i2d_PrivateKey(key, &der) <= 0);
        assert_int_not_equal(EVP_PKEY_get_bn_param(key, kind == RSA3072 ? "d" : "priv", &number), 1);
    }
}

static void a_key_in_hand_cannot_become_one_of_the_tokens(void **state)
{
    (void)state;
    OSSL_PARAM *params = NULL;
    EVP_PKEY *foreign = EVP_PKEY_Q_keygen(bench.libctx, NULL, "EC", "P-256");
    assert_int_equal(EVP_PKEY_todata(foreign, EVP_PKEY_KEYPAIR, &params), 1);
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(bench.libctx, "EC", "provider=svc");
    EVP_PKEY *made = NULL;
    assert_int_equal(EVP_PKEY_fromdata_init(ctx), 1);
    assert_int_not_equal(EVP_PKEY_fromdata(ctx, &made, EVP_PKEY_KEYPAIR, params), 1);
    EVP_PKEY_CTX_free(ctx);
    OSSL_PARAM_free(params);
    EVP_PKEY_free(foreign);
}

static void a_broken_public_key_is_refused(void **state)
{
    (void)state;
    EVP_PKEY *untouched = NULL;
    struct span cut = span_of(bench.spkis[P256].at, bench.spkis[P256].len - 1);
    assert_fault(svc_pkey_new(bench.libctx, &bench.refs[P256], cut, &untouched), CRYPTO);
    assert_fault(svc_pkey_new(bench.libctx, &bench.refs[P256], span_text("rubbish"), &untouched), CRYPTO);
    assert_null(untouched);
}

static const char *provider_of(EVP_PKEY *key)
{
    return OSSL_PROVIDER_get0_name(EVP_PKEY_get0_provider(key));
}

static void other_keys_stay_with_the_module(void **state)
{
    (void)state;
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        assert_string_equal(provider_of(bench.keys[kind]), "svc");
        assert_string_equal(provider_of(bench.publics[kind]), "fips");
    }
    EVP_PKEY *made = EVP_PKEY_Q_keygen(bench.libctx, NULL, "EC", "P-256");
    assert_string_equal(provider_of(made), "fips");
    EVP_PKEY_free(made);
}

static void the_public_half_is_the_tokens(void **state)
{
    (void)state;
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        EVP_PKEY *key = bench.keys[kind];
        unsigned char *der = NULL;
        int len = i2d_PUBKEY(key, &der);
        assert_true(len > 0 && span_equal(span_of(der, (size_t)len), buf_span(&bench.spkis[kind])));
        OPENSSL_free(der);
        assert_int_equal(EVP_PKEY_eq(key, bench.publics[kind]), 1);
        assert_int_equal(EVP_PKEY_eq(bench.publics[kind], key), 1);
        assert_int_equal(EVP_PKEY_eq(key, key), 1);
        assert_int_not_equal(EVP_PKEY_eq(key, bench.publics[(kind + 1) % KIND_COUNT]), 1);
        assert_int_equal(EVP_PKEY_get_bits(key), EVP_PKEY_get_bits(bench.publics[kind]));
        assert_int_equal(EVP_PKEY_get_size(key), EVP_PKEY_get_size(bench.publics[kind]));
        EVP_PKEY *copy = EVP_PKEY_dup(key);
        assert_non_null(copy);
        assert_int_equal(EVP_PKEY_eq(copy, key), 1);
        EVP_PKEY_free(copy);
    }
}

static void every_scheme_signs_what_the_module_verifies(void **state)
{
    (void)state;
    static const struct signing ways[] = {
        { P256, "SHA256", false },    { P256, "SHA384", false },    { P384, "SHA384", false },
        { RSA3072, "SHA256", false }, { RSA3072, "SHA512", false }, { RSA3072, "SHA256", true },
        { RSA3072, "SHA384", true },  { RSA3072, "SHA512", true },
    };
    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        uint8_t out[SIGNATURE_MAX];
        size_t len = sizeof(out);
        struct uuid op_id;
        assert_fault(uuid_new(&op_id), NONE);
        svc_provider_bind(bench.op, op_id);
        assert_int_equal(sign_with(&ways[i], span_text("a message"), out, &len), 1);
        svc_provider_unbind();
        assert_true(uuid_equal(token_last_op_id, op_id));
        assert_int_equal(verify_with(&ways[i], span_text("a message"), span_of(out, len)), 1);
        assert_int_not_equal(verify_with(&ways[i], span_text("another"), span_of(out, len)), 1);
    }
}

static void asking_for_the_size_does_not_sign(void **state)
{
    (void)state;
    size_t len = 0;
    unsigned before = atomic_load(&token.signatures);
    struct signing how = { P256, "SHA256", false };
    assert_int_equal(sign_with(&how, span_text("x"), NULL, &len), 1);
    assert_int_equal(len, EVP_PKEY_get_size(bench.publics[P256]));
    assert_int_equal(atomic_load(&token.signatures), before);
}

static void a_digest_by_itself_is_signed(void **state)
{
    (void)state;
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        uint8_t digest[EVP_MAX_MD_SIZE];
        uint8_t out[SIGNATURE_MAX];
        size_t digest_len = sizeof(digest);
        size_t len = sizeof(out);
        struct signing how = { kind, digests[kind], false };
        assert_int_equal(EVP_Q_digest(bench.libctx, digests[kind], NULL, "m", 1, digest, &digest_len), 1);
        EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(bench.libctx, bench.keys[kind], NULL);
        assert_int_equal(EVP_PKEY_sign_init(ctx), 1);
        svc_provider_bind(bench.op, no_op_id);
        assert_int_not_equal(EVP_PKEY_sign(ctx, out, &len, digest, digest_len - 1), 1);
        len = sizeof(out);
        assert_int_equal(EVP_PKEY_sign(ctx, out, &len, digest, digest_len), 1);
        svc_provider_unbind();
        EVP_PKEY_CTX_free(ctx);
        assert_int_equal(verify_with(&how, span_text("m"), span_of(out, len)), 1);
    }
}

/* What OpenSSL itself writes for the same scheme, with a key of its own. */
static void the_algorithm_identifiers_are_openssls(void **state)
{
    (void)state;
    static const char *const names[] = { "", "SHA256", "SHA384", "SHA512" };
    static const struct {
        enum sign_scheme scheme;
        const char *type;
    } schemes[] = { { SIGN_SCHEME_ECDSA, "P-256" }, { SIGN_SCHEME_RSA_PKCS1, "RSA" }, { SIGN_SCHEME_RSA_PSS, "RSA" } };
    for (size_t i = 0; i < COUNT_OF(schemes); i++) {
        EVP_PKEY *key = strcmp(schemes[i].type, "RSA") == 0 ? EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)2048)
                                                            : EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
        for (int hash = HASH_SHA256; hash < HASH_COUNT; hash++) {
            EVP_MD_CTX *ctx = EVP_MD_CTX_new();
            EVP_PKEY_CTX *options = NULL;
            assert_int_equal(EVP_DigestSignInit_ex(ctx, &options, names[hash], NULL, NULL, key, NULL), 1);
            if (schemes[i].scheme == SIGN_SCHEME_RSA_PSS) {
                assert_int_equal(EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING), 1);
                assert_int_equal(EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_DIGEST), 1);
            }
            uint8_t id[128];
            OSSL_PARAM params[] = { OSSL_PARAM_octet_string("algorithm-id", id, sizeof(id)), OSSL_PARAM_END };
            assert_int_equal(EVP_PKEY_CTX_get_params(options, params), 1);
            struct span ours = svc_algorithm_id(schemes[i].scheme, (enum hash_algorithm)hash);
            assert_int_equal(ours.len, params[0].return_size);
            assert_memory_equal(ours.at, id, ours.len);
            EVP_MD_CTX_free(ctx);
        }
        EVP_PKEY_free(key);
    }
}

static X509 *self_signed(int kind, bool pss)
{
    X509 *made = X509_new_ex(bench.libctx, NULL);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    EVP_PKEY_CTX *options = NULL;
    assert_int_equal(X509_set_version(made, X509_VERSION_3), 1);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(made), 7), 1);
    assert_int_equal(X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_ASC,
                                                (const unsigned char *)"test", -1, -1, 0),
                     1);
    assert_int_equal(X509_set_issuer_name(made, X509_get_subject_name(made)), 1);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(made), -60));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(made), 3600));
    assert_int_equal(X509_set_pubkey(made, bench.keys[kind]), 1); /* the provider's key, not the module's */
    X509_EXTENSION *usage = X509V3_EXT_conf_nid(NULL, NULL, NID_ext_key_usage, "critical,timeStamping");
    assert_int_equal(X509_add_ext(made, usage, -1), 1);
    X509_EXTENSION_free(usage);
    assert_int_equal(EVP_DigestSignInit_ex(ctx, &options, digests[kind], bench.libctx, NULL, bench.keys[kind], NULL),
                     1);
    if (pss) {
        assert_int_equal(EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING), 1);
        assert_int_equal(EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_DIGEST), 1);
    }
    svc_provider_bind(bench.op, no_op_id);
    assert_true(X509_sign_ctx(made, ctx) > 0);
    svc_provider_unbind();
    EVP_MD_CTX_free(ctx);

    /* As a reader gets it: the decoded certificate's public key is the module's, and verifies there. */
    unsigned char *der = NULL;
    int len = i2d_X509(made, &der);
    const unsigned char *at = der;
    X509 *read = X509_new_ex(bench.libctx, NULL);
    assert_non_null(d2i_X509(&read, &at, len));
    OPENSSL_free(der);
    X509_free(made);
    return read;
}

static void certificates_are_signed_and_verify(void **state)
{
    (void)state;
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        CLEANUP(X509_freep) X509 *made = self_signed(kind, false);
        CLEANUP(EVP_PKEY_freep) EVP_PKEY *decoded = X509_get_pubkey(made);
        assert_int_equal(X509_verify(made, bench.publics[kind]), 1);
        assert_int_equal(EVP_PKEY_eq(decoded, bench.keys[kind]), 1);
        assert_int_equal(X509_check_private_key(made, bench.keys[kind]), 1);
        svc_provider_bind(bench.op, no_op_id);
        EVP_MD *md = EVP_MD_fetch(bench.libctx, digests[kind], NULL);
        assert_true(X509_sign(made, bench.keys[kind], md) > 0);
        EVP_MD_free(md);
        svc_provider_unbind();
        assert_int_equal(X509_verify(made, bench.publics[kind]), 1);
    }
    CLEANUP(X509_freep) X509 *pss = self_signed(RSA3072, true);
    assert_int_equal(X509_verify(pss, bench.publics[RSA3072]), 1);
}

static void revocation_lists_are_signed_and_verify(void **state)
{
    (void)state;
    CLEANUP(X509_freep) X509 *issuer = self_signed(P384, false);
    X509_CRL *crl = X509_CRL_new_ex(bench.libctx, NULL);
    ASN1_TIME *now = ASN1_TIME_set(NULL, time(NULL));
    assert_int_equal(X509_CRL_set_version(crl, 1), 1);
    assert_int_equal(X509_CRL_set_issuer_name(crl, X509_get_subject_name(issuer)), 1);
    assert_int_equal(X509_CRL_set1_lastUpdate(crl, now), 1);
    assert_int_equal(X509_CRL_set1_nextUpdate(crl, now), 1);
    EVP_MD *md = EVP_MD_fetch(bench.libctx, "SHA384", NULL);
    svc_provider_bind(bench.op, no_op_id);
    assert_true(X509_CRL_sign(crl, bench.keys[P384], md) > 0);
    svc_provider_unbind();
    assert_int_equal(X509_CRL_verify(crl, bench.publics[P384]), 1);
    EVP_MD_free(md);
    ASN1_TIME_free(now);
    X509_CRL_free(crl);
}

static void cms_and_pkcs7_are_signed_and_verify(void **state)
{
    (void)state;
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        CLEANUP(X509_freep) X509 *signer = self_signed(kind, false);
        EVP_MD *md = EVP_MD_fetch(bench.libctx, digests[kind], NULL);
        BIO *content = BIO_new_mem_buf("content", -1);
        CMS_ContentInfo *cms = CMS_sign_ex(NULL, NULL, NULL, content, CMS_PARTIAL | CMS_BINARY, bench.libctx, NULL);
        assert_non_null(cms);
        svc_provider_bind(bench.op, no_op_id);
        assert_non_null(CMS_add1_signer(cms, signer, bench.keys[kind], md, CMS_BINARY));
        assert_int_equal(CMS_final(cms, content, NULL, CMS_BINARY), 1);
        svc_provider_unbind();
        /* Read back, as the verifier is somebody else: the writer's own structure still holds the token's key. */
        unsigned char *der = NULL;
        int len = i2d_CMS_ContentInfo(cms, &der);
        const unsigned char *at = der;
        CMS_ContentInfo *read = CMS_ContentInfo_new_ex(bench.libctx, NULL);
        assert_non_null(d2i_CMS_ContentInfo(&read, &at, len));
        assert_int_equal(CMS_verify(read, NULL, NULL, NULL, NULL, CMS_NO_SIGNER_CERT_VERIFY | CMS_BINARY), 1);
        CMS_ContentInfo_free(read);
        CMS_ContentInfo_free(cms);
        OPENSSL_free(der);

        assert_int_equal(BIO_reset(content), 1);
        PKCS7 *pkcs7 = PKCS7_sign_ex(NULL, NULL, NULL, content, PKCS7_PARTIAL | PKCS7_BINARY, bench.libctx, NULL);
        assert_non_null(pkcs7);
        svc_provider_bind(bench.op, no_op_id);
        assert_non_null(PKCS7_sign_add_signer(pkcs7, signer, bench.keys[kind], md, PKCS7_BINARY));
        assert_int_equal(PKCS7_final(pkcs7, content, PKCS7_BINARY), 1);
        svc_provider_unbind();
        assert_int_equal(PKCS7_verify(pkcs7, NULL, NULL, NULL, NULL, PKCS7_NOVERIFY | PKCS7_BINARY), 1);
        PKCS7_free(pkcs7);
        BIO_free(content);
        EVP_MD_free(md);
    }
}

static ASN1_INTEGER *serial_of_one(TS_RESP_CTX *ctx, void *arg)
{
    (void)ctx;
    (void)arg;
    ASN1_INTEGER *serial = ASN1_INTEGER_new();
    BUG_IF(serial == NULL || ASN1_INTEGER_set(serial, 1) != 1);
    return serial;
}

/* openssl ts -query over SHA-256 of nothing, with certReq. */
static const uint8_t query[] = {
    0x30, 0x39, 0x02, 0x01, 0x01, 0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01,
    0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04, 0x20, 0xe3, 0xb0, 0xc4, 0x42, 0x98, 0xfc,
    0x1c, 0x14, 0x9a, 0xfb, 0xf4, 0xc8, 0x99, 0x6f, 0xb9, 0x24, 0x27, 0xae, 0x41, 0xe4, 0x64,
    0x9b, 0x93, 0x4c, 0xa4, 0x95, 0x99, 0x1b, 0x78, 0x52, 0xb8, 0x55, 0x01, 0x01, 0xff,
};

static void openssls_time_stamp_responder_signs_with_a_token_key(void **state)
{
    (void)state;
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        CLEANUP(X509_freep) X509 *signer = self_signed(kind, false);
        EVP_MD *md = EVP_MD_fetch(bench.libctx, digests[kind], NULL);
        ASN1_OBJECT *policy = OBJ_txt2obj("1.2.3.4.1", 1);
        TS_RESP_CTX *ctx = TS_RESP_CTX_new_ex(bench.libctx, NULL);
        TS_RESP_CTX_set_serial_cb(ctx, serial_of_one, NULL);
        assert_int_equal(TS_RESP_CTX_set_signer_cert(ctx, signer), 1);
        assert_int_equal(TS_RESP_CTX_set_signer_key(ctx, bench.keys[kind]), 1);
        assert_int_equal(TS_RESP_CTX_set_signer_digest(ctx, md), 1);
        assert_int_equal(TS_RESP_CTX_set_ess_cert_id_digest(ctx, EVP_sha256()), 1);
        assert_int_equal(TS_RESP_CTX_set_def_policy(ctx, policy), 1);
        assert_int_equal(TS_RESP_CTX_add_md(ctx, EVP_sha256()), 1);
        BIO *request = BIO_new_mem_buf(query, sizeof(query));
        svc_provider_bind(bench.op, no_op_id);
        TS_RESP *response = TS_RESP_create_response(ctx, request);
        svc_provider_unbind();
        assert_non_null(response);
        assert_int_equal(ASN1_INTEGER_get(TS_STATUS_INFO_get0_status(TS_RESP_get_status_info(response))), 0);
        TS_RESP_free(response);
        BIO_free(request);
        TS_RESP_CTX_free(ctx);
        ASN1_OBJECT_free(policy);
        EVP_MD_free(md);
    }
}

static void *sign_many(void *arg)
{
    struct op *op = NULL;
    struct signing how = { *(int *)arg, digests[*(int *)arg], false };
    BUG_IF(FAULTED(op_new("test", (struct tenant_id){ "default" }, 60000, &op)));
    for (int i = 0; i < 50; i++) {
        uint8_t out[SIGNATURE_MAX];
        size_t len = sizeof(out);
        svc_provider_bind(op, no_op_id);
        BUG_IF(sign_with(&how, span_text("thread"), out, &len) != 1);
        svc_provider_unbind();
        BUG_IF(verify_with(&how, span_text("thread"), span_of(out, len)) != 1);
    }
    op_free(op);
    return NULL;
}

static void threads_sign_with_one_key_at_once(void **state)
{
    (void)state;
    pthread_t threads[4];
    int kinds[4] = { P256, P256, P384, RSA3072 };
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, sign_many, &kinds[i]), 0);
    }
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
}

static int setup(void **state)
{
    (void)state;
    struct config config = { .fips_required = true, .fips_module = "/usr/lib/x86_64-linux-gnu/ossl-modules/fips.so" };
    struct buf detail = BUF_INIT(2048);
    BUG_IF(FAULTED(fips_start(&config, &detail)));
    buf_free(&detail);
    bench.libctx = fips_libctx();
    BUG_IF(FAULTED(svc_provider_load(bench.libctx, token_client())));
    BUG_IF(FAULTED(op_new("test", (struct tenant_id){ "default" }, 60000, &bench.op)));
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        bench.refs[kind] = token_make_key(types[kind], KEY_PURPOSE_TSA, &bench.spkis[kind]);
        struct span spki = buf_span(&bench.spkis[kind]);
        const unsigned char *at = spki.at;
        BUG_IF(FAULTED(svc_pkey_new(bench.libctx, &bench.refs[kind], spki, &bench.keys[kind])));
        bench.publics[kind] = d2i_PUBKEY_ex(NULL, &at, (long)spki.len, bench.libctx, NULL);
        BUG_IF(bench.publics[kind] == NULL);
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        EVP_PKEY_free(bench.keys[kind]);
        EVP_PKEY_free(bench.publics[kind]);
        buf_free(&bench.spkis[kind]);
    }
    op_free(bench.op);
    token_clear();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_signed_without_a_bound_operation),
        cmocka_unit_test(the_fault_of_the_signer_can_be_told),
        cmocka_unit_test(digests_outside_the_table_are_refused),
        cmocka_unit_test(paddings_that_the_signer_does_not_know_are_refused),
        cmocka_unit_test(the_private_half_cannot_be_had),
        cmocka_unit_test(a_key_in_hand_cannot_become_one_of_the_tokens),
        cmocka_unit_test(a_broken_public_key_is_refused),
        cmocka_unit_test(other_keys_stay_with_the_module),
        cmocka_unit_test(the_public_half_is_the_tokens),
        cmocka_unit_test(every_scheme_signs_what_the_module_verifies),
        cmocka_unit_test(asking_for_the_size_does_not_sign),
        cmocka_unit_test(a_digest_by_itself_is_signed),
        cmocka_unit_test(the_algorithm_identifiers_are_openssls),
        cmocka_unit_test(certificates_are_signed_and_verify),
        cmocka_unit_test(revocation_lists_are_signed_and_verify),
        cmocka_unit_test(cms_and_pkcs7_are_signed_and_verify),
        cmocka_unit_test(openssls_time_stamp_responder_signs_with_a_token_key),
        cmocka_unit_test(threads_sign_with_one_key_at_once),
    };
    return cmocka_run_group_tests_name("provider", tests, setup, teardown);
}
