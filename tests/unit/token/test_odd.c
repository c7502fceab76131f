/*
 * Tokens of other makers, as tests/p11odd plays them: without the quirk that helps, the odd token is refused with a
 * clear fault; with it, keys are made, found, used and destroyed as ever.
 */
#include "tests/p11odd/p11odd.h"
#include "tests/unit/token/softhsm.h"

#include "appliance/base/crypto.h"
#include "appliance/base/file.h"

#include <dlfcn.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <p11-kit/pkcs11.h>

#define BUF(name) CLEANUP(buf_free) struct buf name = BUF_INIT(1 << 16)
#define BIT(odd)  (1u << P11ODD_##odd)

static struct softhsm hsm;
static struct secret *pin;
static p11odd_set_fn *set_odd;
static p11odd_info_fn *set_info;

static int hsm_for_all(void **state)
{
    (void)state;
    softhsm_new(&hsm);
    assert_int_equal(setenv("P11ODD_MODULE", TEST_MODULE, 1), 0);
    assert_int_equal(setenv("P11ODD_PIN", SOFTHSM_PIN, 1), 0);
    pin = pin_of(SOFTHSM_PIN);
    void *library = dlopen(P11ODD_MODULE, RTLD_NOW | RTLD_LOCAL); /* stays mapped until the end */
    assert_non_null(library);
    *(void **)&set_odd = dlsym(library, "p11odd_set");
    *(void **)&set_info = dlsym(library, "p11odd_info");
    assert_true(set_odd != NULL && set_info != NULL);
    return 0;
}

static int no_hsm_for_all(void **state)
{
    (void)state;
    secret_free(TAKE(pin));
    softhsm_free(&hsm);
    return 0;
}

/* One open token, one session and one operation. */
struct bench {
    struct token_settings settings;
    struct token *token;
    struct op *op;
    struct token_session *session;
};

static void bench_open(struct bench *bench, unsigned oddities, const char *const *quirks)
{
    *bench = (struct bench){ .settings = softhsm_settings(P11ODD_MODULE, pin), .op = op_within(30000) };
    for (; quirks != NULL && *quirks != NULL; quirks++) {
        assert_ok(quirk_parse(span_text(*quirks), &bench->settings.quirks, NULL));
    }
    set_odd(oddities);
}

static void bench_start(struct bench *bench)
{
    BUF(why);
    struct fault fault = token_open(&bench->settings, &why, &bench->token);
    if (FAULTED(fault)) {
        fail_msg("%.*s", (int)why.len, (const char *)why.at);
    }
    assert_ok(token_session_take(bench->op, bench->token, &bench->session));
}

static void bench_close(struct bench *bench)
{
    token_session_put(TAKE(bench->session));
    token_close(TAKE(bench->token));
    op_free(TAKE(bench->op));
    set_odd(0);
}
#define BENCH(oddities, ...)                                                                  \
    CLEANUP(bench_close) struct bench bench;                                                  \
    bench_open(&bench, (oddities), (const char *const[]){ __VA_ARGS__ __VA_OPT__(, ) NULL }); \
    bench_start(&bench)

/* By OpenSSL alone. */
static bool good_signature(struct span spki, enum sign_scheme scheme, struct span digest, struct span signature)
{
    const unsigned char *at = spki.at;
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = d2i_PUBKEY(NULL, &at, (long)spki.len);
    CLEANUP(EVP_PKEY_CTX_freep) EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(key, NULL);
    assert_int_equal(EVP_PKEY_verify_init(ctx), 1);
    assert_int_equal(EVP_PKEY_CTX_set_signature_md(ctx, digest.len == 32   ? EVP_sha256()
                                                        : digest.len == 48 ? EVP_sha384()
                                                                           : EVP_sha512()),
                     1);
    if (scheme == SIGN_SCHEME_RSA_PSS) {
        assert_int_equal(EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PSS_PADDING), 1);
        assert_int_equal(EVP_PKEY_CTX_set_rsa_pss_saltlen(ctx, RSA_PSS_SALTLEN_DIGEST), 1);
    }
    return EVP_PKEY_verify(ctx, signature.at, signature.len, digest.at, digest.len) == 1;
}

static const uint8_t digest_bytes[64] = { 1, 2, 3, 4 };

static struct fault sign_with(struct bench *bench, const struct key_ref *key, enum sign_scheme scheme,
                              enum hash_algorithm hash, struct span spki)
{
    BUF(signature);
    struct span digest = span_of(digest_bytes, hash_size(hash));
    TRY(token_sign(bench->op, bench->session, key, scheme, hash, digest, &signature));
    assert_true(good_signature(spki, scheme, digest, buf_span(&signature)));
    return OK;
}

/* Made, found, shown, used under each scheme that fits, and destroyed. */
static void whole_life(struct bench *bench, enum key_algorithm algorithm)
{
    BUF(made);
    BUF(shown);
    enum key_algorithm found = KEY_ALGORITHM_NONE;
    struct key_ref key = key_new(KEY_PURPOSE_CODESIGN);
    struct fault fault = token_generate(bench->op, bench->session, &key, algorithm, &made);
    if (FAULTED(fault)) {
        fail_msg("generate: %s (%s)", bench->op->note.detail, bench->op->note.log_detail);
    }
    assert_fault(token_generate(bench->op, bench->session, &key, algorithm, &shown), KEY_EXISTS);
    assert_ok(token_public_key(bench->op, bench->session, &key, &found, &shown));
    assert_int_equal(found, algorithm);
    assert_true(span_equal(buf_span(&made), buf_span(&shown)));
    token_forget_handles(bench->token);
    bool rsa = algorithm == KEY_ALGORITHM_RSA_3072;
    assert_ok(sign_with(bench, &key, rsa ? SIGN_SCHEME_RSA_PKCS1 : SIGN_SCHEME_ECDSA, HASH_SHA256, buf_span(&made)));
    assert_ok(sign_with(bench, &key, rsa ? SIGN_SCHEME_RSA_PSS : SIGN_SCHEME_ECDSA, HASH_SHA384, buf_span(&made)));
    assert_ok(sign_with(bench, &key, rsa ? SIGN_SCHEME_RSA_PSS : SIGN_SCHEME_ECDSA, HASH_SHA512, buf_span(&made)));
    assert_ok(token_destroy(bench->op, bench->session, &key));
    assert_fault(token_public_key(bench->op, bench->session, &key, &found, &shown), KEY_NOT_FOUND);
}

static struct fault try_generate(struct bench *bench, enum key_algorithm algorithm, struct key_ref *ret_key)
{
    BUF(spki);
    *ret_key = key_new(KEY_PURPOSE_CODESIGN);
    return token_generate(bench->op, bench->session, ret_key, algorithm, &spki);
}

static void assert_not_made(unsigned oddities, enum key_algorithm algorithm)
{
    struct key_ref key;
    enum key_algorithm found;
    BUF(spki);
    BENCH(oddities, );
    assert_true(FAULTED(try_generate(&bench, algorithm, &key)));
    assert_true(bench.op->note.detail[0] != '\0');
    bench.op->note = (struct fault_note){ 0 };
    set_odd(0);
    assert_fault(token_public_key(bench.op, bench.session, &key, &found, &spki), KEY_NOT_FOUND);
}

/* ---- ids and labels ---- */

static void ids_that_must_be_text_need_their_quirk(void **state)
{
    (void)state;
    assert_not_made(BIT(TEXT_IDS), KEY_ALGORITHM_EC_P256);
    BENCH(BIT(TEXT_IDS), "id-text");
    whole_life(&bench, KEY_ALGORITHM_EC_P256);
    whole_life(&bench, KEY_ALGORITHM_RSA_3072);
}

static void keys_without_ids_are_found_by_label(void **state)
{
    (void)state;
    BENCH(BIT(NO_IDS), "id-none");
    whole_life(&bench, KEY_ALGORITHM_EC_P384);
    whole_life(&bench, KEY_ALGORITHM_RSA_3072);
}

static void labels_of_32_bytes_need_their_quirk(void **state)
{
    (void)state;
    assert_not_made(BIT(SHORT_LABELS), KEY_ALGORITHM_EC_P256);
    BENCH(BIT(SHORT_LABELS), "short-labels");
    whole_life(&bench, KEY_ALGORITHM_EC_P256);
}

static void short_labels_still_tell_tenants_and_purposes_apart(void **state)
{
    (void)state;
    BUF(out);
    enum key_algorithm found;
    struct key_ref key, other;
    BENCH(BIT(SHORT_LABELS), "short-labels");
    assert_ok(try_generate(&bench, KEY_ALGORITHM_EC_P256, &key));
    other = key;
    other.tenant = (struct tenant_id){ "acme-2" };
    assert_fault(token_public_key(bench.op, bench.session, &other, &found, &out), KEY_NOT_FOUND);
    other = key;
    other.purpose = KEY_PURPOSE_TSA;
    assert_fault(token_public_key(bench.op, bench.session, &other, &found, &out), KEY_NOT_FOUND);
    assert_ok(token_destroy(bench.op, bench.session, &key));
}

/* ---- templates ---- */

static void attributes_that_a_token_does_not_know_are_left_out(void **state)
{
    (void)state;
    assert_not_made(BIT(NO_DERIVE), KEY_ALGORITHM_EC_P256);
    BENCH(BIT(NO_DERIVE) | BIT(NO_WRAP), "omit:CKA_DERIVE", "omit:CKA_WRAP", "omit:CKA_UNWRAP");
    whole_life(&bench, KEY_ALGORITHM_EC_P256);
    whole_life(&bench, KEY_ALGORITHM_RSA_3072);
}

static void a_curve_by_name_needs_its_quirk(void **state)
{
    (void)state;
    assert_not_made(BIT(PARAMS_NAME), KEY_ALGORITHM_EC_P256);
    BENCH(BIT(PARAMS_NAME), "ec-params-name");
    whole_life(&bench, KEY_ALGORITHM_EC_P256);
    whole_life(&bench, KEY_ALGORITHM_EC_P384);
}

static void an_older_rsa_generator_is_noticed(void **state)
{
    (void)state;
    BENCH(BIT(X9_31), );
    whole_life(&bench, KEY_ALGORITHM_RSA_3072);
}

static void keys_are_bound_to_their_mechanisms_where_the_site_wants_it(void **state)
{
    (void)state;
    NEEDS_SOFTHSM; /* NSS answers the attribute with CKR_GENERAL_ERROR */
    BENCH(0, "allowed-mechanisms");
    whole_life(&bench, KEY_ALGORITHM_EC_P256);
    whole_life(&bench, KEY_ALGORITHM_RSA_3072);
}

static void a_key_that_always_authenticates_gets_the_pin_for_each_signature(void **state)
{
    (void)state;
    BENCH(0, "set:CKA_ALWAYS_AUTHENTICATE=yes");
    whole_life(&bench, KEY_ALGORITHM_EC_P256);
    whole_life(&bench, KEY_ALGORITHM_RSA_3072);
}

/* ---- public keys ---- */

static struct key_ref made_openly(struct bench *bench, enum key_algorithm algorithm, struct buf *spki)
{
    struct key_ref key = key_new(KEY_PURPOSE_CODESIGN);
    assert_ok(token_generate(bench->op, bench->session, &key, algorithm, spki));
    return key;
}

static void assert_shows(struct bench *bench, const struct key_ref *key, struct span spki)
{
    BUF(shown);
    enum key_algorithm algorithm;
    struct fault fault = token_public_key(bench->op, bench->session, key, &algorithm, &shown);
    if (FAULTED(fault)) {
        fail_msg("public key: %s (%s)", bench->op->note.detail, bench->op->note.log_detail);
    }
    assert_true(span_equal(buf_span(&shown), spki));
}

static void assert_shows_nothing(struct bench *bench, const struct key_ref *key)
{
    BUF(shown);
    enum key_algorithm algorithm;
    assert_fault(token_public_key(bench->op, bench->session, key, &algorithm, &shown), INTERNAL);
    assert_non_null(strstr(bench->op->note.detail, "token.public_keys_dir"));
    assert_int_equal(shown.len, 0);
    bench->op->note = (struct fault_note){ 0 };
}

static void a_bare_point_is_told_by_its_length(void **state)
{
    (void)state;
    BENCH(BIT(RAW_POINT), );
    whole_life(&bench, KEY_ALGORITHM_EC_P256);
    whole_life(&bench, KEY_ALGORITHM_EC_P384);
}

static void a_public_half_that_is_nowhere_is_a_clear_fault(void **state)
{
    (void)state;
    BUF(spki);
    BENCH(0, );
    struct key_ref key = made_openly(&bench, KEY_ALGORITHM_EC_P256, &spki);
    set_odd(BIT(NO_PUBLIC) | BIT(HIDE_INFO));
    assert_shows_nothing(&bench, &key);
    set_odd(0);
    assert_ok(token_destroy(bench.op, bench.session, &key));
}

static void a_public_half_is_read_from_the_private_key(void **state)
{
    (void)state;
    BUF(ec);
    BUF(rsa);
    BENCH(0, );
    struct key_ref ec_key = made_openly(&bench, KEY_ALGORITHM_EC_P384, &ec);
    struct key_ref rsa_key = made_openly(&bench, KEY_ALGORITHM_RSA_3072, &rsa);
    set_odd(BIT(NO_PUBLIC));
    assert_shows(&bench, &rsa_key, buf_span(&rsa));
    set_odd(BIT(NO_PUBLIC) | BIT(HIDE_INFO) | BIT(SHOW_POINT));
    assert_shows(&bench, &ec_key, buf_span(&ec));
    set_odd(BIT(NO_PUBLIC) | BIT(HIDE_INFO) | BIT(SHOW_INFO));
    set_info(ec.at, ec.len);
    assert_shows(&bench, &ec_key, buf_span(&ec));
    set_info(rsa.at, rsa.len);
    assert_shows(&bench, &rsa_key, buf_span(&rsa));
    BUF(out);
    enum key_algorithm algorithm;
    assert_fault(token_public_key(bench.op, bench.session, &ec_key, &algorithm, &out), INTERNAL); /* another's */
    set_odd(0);
    bench.op->note = (struct fault_note){ 0 };
    assert_ok(token_destroy(bench.op, bench.session, &ec_key));
    assert_ok(token_destroy(bench.op, bench.session, &rsa_key));
}

static void a_public_half_is_read_from_a_file(void **state)
{
    (void)state;
    BUF(spki);
    char path[256], folder[128];
    BENCH(0, );
    (void)snprintf(folder, sizeof(folder), "%s/public", hsm.folder);
    assert_ok(file_make_dirs(folder, 0700));
    bench.settings.public_keys_dir = folder;
    struct key_ref key = made_openly(&bench, KEY_ALGORITHM_EC_P256, &spki);
    set_odd(BIT(NO_PUBLIC) | BIT(HIDE_INFO));
    assert_shows_nothing(&bench, &key);
    (void)snprintf(path, sizeof(path), "%s/%s.der", folder, key.id.text);
    assert_ok(file_write(path, buf_span(&spki), 0644));
    assert_shows(&bench, &key, buf_span(&spki));
    assert_int_equal(remove(path), 0);
    assert_shows_nothing(&bench, &key);
    const unsigned char *at = spki.at;
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *public_key = d2i_PUBKEY(NULL, &at, (long)spki.len);
    CLEANUP(BIO_free_allp) BIO *pem = BIO_new(BIO_s_mem());
    char *text = NULL;
    assert_int_equal(PEM_write_bio_PUBKEY(pem, public_key), 1);
    long len = BIO_get_mem_data(pem, &text);
    (void)snprintf(path, sizeof(path), "%s/%s.pem", folder, key.id.text);
    assert_ok(file_write(path, span_of(text, (size_t)len), 0644));
    assert_shows(&bench, &key, buf_span(&spki));
    assert_ok(file_write(path, span_text("no key"), 0644));
    assert_shows_nothing(&bench, &key);
    set_odd(0);
    assert_ok(token_destroy(bench.op, bench.session, &key));
}

/* A certificate object beside the private key, as a registration tool leaves it. */
static void put_certificate(struct span spki, const struct key_ref *key)
{
    const unsigned char *at = spki.at;
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *subject = d2i_PUBKEY(NULL, &at, (long)spki.len);
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *issuer = EVP_EC_gen("P-256");
    CLEANUP(X509_freep) X509 *certificate = X509_new();
    unsigned char *der = NULL, name[] = { 0x30, 0x00 };
    assert_int_equal(X509_set_pubkey(certificate, subject), 1);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(certificate), 0));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(certificate), 3600));
    assert_true(X509_sign(certificate, issuer, EVP_sha256()) > 0);
    int len = i2d_X509(certificate, &der);
    assert_true(len > 0);
    CK_RV (*function_list)(CK_FUNCTION_LIST **) = NULL;
    CK_FUNCTION_LIST *raw = NULL;
    CK_SLOT_ID slots[8];
    CK_ULONG count = COUNT_OF(slots);
    CK_SESSION_HANDLE session = 0;
    CK_OBJECT_HANDLE object = 0;
    void *library = dlopen(P11ODD_MODULE, RTLD_NOW | RTLD_LOCAL);
    *(void **)&function_list = dlsym(library, "C_GetFunctionList");
    assert_int_equal(function_list(&raw), CKR_OK);
    assert_int_equal(raw->C_GetSlotList(CK_TRUE, slots, &count), CKR_OK);
    for (CK_ULONG i = 0; i < count; i++) {
        CK_TOKEN_INFO info;
        assert_int_equal(raw->C_GetTokenInfo(slots[i], &info), CKR_OK);
        if (memcmp(info.label, SOFTHSM_LABEL " ", sizeof(SOFTHSM_LABEL)) == 0) {
            assert_int_equal(raw->C_OpenSession(slots[i], CKF_SERIAL_SESSION | CKF_RW_SESSION, NULL, NULL, &session),
                             CKR_OK);
        }
    }
    CK_OBJECT_CLASS class = CKO_CERTIFICATE;
    CK_CERTIFICATE_TYPE type = CKC_X_509;
    CK_BBOOL yes = CK_TRUE, no = CK_FALSE;
    uint8_t id[16];
    for (size_t i = 0, k = 0; i < sizeof(id); i++, k += 2) {
        k += key->id.text[k] == '-';
        unsigned value = 0;
        assert_int_equal(sscanf(key->id.text + k, "%2x", &value), 1);
        id[i] = (uint8_t)value;
    }
    CK_ATTRIBUTE template[] = {
        { CKA_CLASS, &class, sizeof(class) },      { CKA_CERTIFICATE_TYPE, &type, sizeof(type) },
        { CKA_TOKEN, &yes, sizeof(yes) },          { CKA_PRIVATE, &no, sizeof(no) },
        { CKA_SUBJECT, name, sizeof(name) },       { CKA_ISSUER, name, sizeof(name) },
        { CKA_SERIAL_NUMBER, name, sizeof(name) }, { CKA_ID, id, sizeof(id) },
        { CKA_VALUE, der, (CK_ULONG)len }
    };
    assert_int_equal(raw->C_CreateObject(session, template, COUNT_OF(template), &object), CKR_OK);
    assert_int_equal(raw->C_CloseSession(session), CKR_OK);
    OPENSSL_free(der);
}

static void a_public_half_is_read_from_a_certificate(void **state)
{
    (void)state;
    BUF(spki);
    BENCH(0, );
    struct key_ref key = made_openly(&bench, KEY_ALGORITHM_EC_P256, &spki);
    set_odd(BIT(NO_PUBLIC) | BIT(HIDE_INFO));
    assert_shows_nothing(&bench, &key);
    put_certificate(buf_span(&spki), &key);
    assert_shows(&bench, &key, buf_span(&spki));
    set_odd(0);
    assert_ok(token_destroy(bench.op, bench.session, &key));
}

static void a_token_without_room_for_public_keys_needs_its_quirk(void **state)
{
    (void)state;
    char folder[128];
    (void)snprintf(folder, sizeof(folder), "%s/kept", hsm.folder);
    assert_ok(file_make_dirs(folder, 0700));
    BENCH(BIT(NO_ROOM) | BIT(HIDE_INFO), "public-in-session");
    struct key_ref key;
    assert_fault(try_generate(&bench, KEY_ALGORITHM_EC_P256, &key), INTERNAL); /* it would be lost */
    bench.op->note = (struct fault_note){ 0 };
    BUF(out);
    enum key_algorithm found;
    assert_fault(token_public_key(bench.op, bench.session, &key, &found, &out), KEY_NOT_FOUND);
    bench.settings.public_keys_dir = folder;
    whole_life(&bench, KEY_ALGORITHM_EC_P256);
    whole_life(&bench, KEY_ALGORITHM_RSA_3072);
}

/* ---- signing and sealing ---- */

static void pss_without_the_mechanism_needs_its_quirk(void **state)
{
    (void)state;
    BUF(spki);
    BUF(out);
    {
        BENCH(BIT(NO_PSS), );
        struct key_ref key = made_openly(&bench, KEY_ALGORITHM_RSA_3072, &spki);
        assert_fault(token_sign(bench.op, bench.session, &key, SIGN_SCHEME_RSA_PSS, HASH_SHA256,
                                span_of(digest_bytes, 32), &out),
                     TOKEN_MECHANISM);
        assert_ok(token_destroy(bench.op, bench.session, &key));
    }
    BENCH(BIT(NO_PSS), "pss-raw");
    for (int i = 0; i < 4; i++) {
        whole_life(&bench, KEY_ALGORITHM_RSA_3072);
    }
}

static void short_digests_need_padding_on_some_tokens(void **state)
{
    (void)state;
    BUF(spki);
    BUF(out);
    {
        BENCH(BIT(WANT_FIELD), );
        struct key_ref key = made_openly(&bench, KEY_ALGORITHM_EC_P384, &spki);
        assert_fault(
            token_sign(bench.op, bench.session, &key, SIGN_SCHEME_ECDSA, HASH_SHA256, span_of(digest_bytes, 32), &out),
            BAD_ARGUMENT);
        assert_ok(token_destroy(bench.op, bench.session, &key));
    }
    BENCH(BIT(WANT_FIELD), "ecdsa-pad");
    whole_life(&bench, KEY_ALGORITHM_EC_P384);
    whole_life(&bench, KEY_ALGORITHM_EC_P256);
}

static struct fault seal_round(struct bench *bench)
{
    BUF(spki);
    BUF(sealed);
    BUF(again);
    BUF(plain);
    struct key_ref key = key_new(KEY_PURPOSE_SEAL);
    static const char secret[] = "what nobody may read";
    TRY(token_generate(bench->op, bench->session, &key, KEY_ALGORITHM_AES_256, &spki));
    TRY(token_seal(bench->op, bench->session, &key, span_text("context"), SPAN_ARRAY(secret), &sealed));
    TRY(token_seal(bench->op, bench->session, &key, span_text("context"), SPAN_ARRAY(secret), &again));
    assert_false(span_equal(buf_span(&sealed), buf_span(&again)));
    TRY(token_unseal(bench->op, bench->session, &key, span_text("context"), buf_span(&sealed), &plain));
    assert_true(span_equal(buf_span(&plain), SPAN_ARRAY(secret)));
    assert_fault(token_unseal(bench->op, bench->session, &key, span_text("another"), buf_span(&sealed), &plain),
                 UNSEAL);
    sealed.at[sealed.len - 1] ^= 1;
    assert_fault(token_unseal(bench->op, bench->session, &key, span_text("context"), buf_span(&sealed), &plain),
                 UNSEAL);
    return token_destroy(bench->op, bench->session, &key);
}

static void sealing_takes_the_parameters_that_a_token_wants(void **state)
{
    (void)state;
    static const struct {
        unsigned oddity;
        const char *quirk;
    } rows[] = { { BIT(GCM_SHORT), "gcm-no-iv-bits" },
                 { BIT(GCM_OWN_IV), "gcm-token-iv" },
                 { BIT(NO_RNG), "gcm-host-iv" } };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        {
            BENCH(rows[i].oddity, );
            assert_true(FAULTED(seal_round(&bench)));
        }
        BENCH(rows[i].oddity, rows[i].quirk);
        assert_ok(seal_round(&bench));
    }
}

static void nss_takes_the_older_parameters_too(void **state)
{
    (void)state;
    if (!test_token_is_nss()) {
        skip();
    }
    BENCH(0, "gcm-no-iv-bits");
    assert_ok(seal_round(&bench));
}

static void an_iv_that_the_token_did_not_make_is_refused(void **state)
{
    (void)state;
    BENCH(0, "gcm-token-iv");
    assert_fault(seal_round(&bench), INTERNAL);
    assert_non_null(strstr(bench.op->note.detail, "gcm-token-iv"));
}

/* ---- sessions and login ---- */

static void a_token_of_few_sessions_gives_no_more(void **state)
{
    (void)state;
    struct token_session *second = NULL, *third = NULL;
    CLEANUP(op_freep) struct op *hasty = op_within(1);
    BENCH(BIT(FEW), );
    assert_ok(token_session_take(bench.op, bench.token, &second));
    assert_fault(token_session_take(hasty, bench.token, &third), SATURATED); /* the settings would allow four */
    whole_life(&bench, KEY_ALGORITHM_EC_P256);
    token_session_put(second);
}

static void a_pin_pad_gets_no_pin(void **state)
{
    (void)state;
    CLEANUP(bench_close) struct bench bench;
    BUF(why);
    bench_open(&bench, BIT(PIN_PAD), NULL);
    assert_true(FAULTED(token_open(&bench.settings, &why, &bench.token)));
    bench.settings.login = TOKEN_LOGIN_PROTECTED;
    bench.settings.pin = NULL;
    bench_start(&bench);
    whole_life(&bench, KEY_ALGORITHM_EC_P256);
}

static void a_pin_pad_that_is_not_there_is_refused(void **state)
{
    (void)state;
    CLEANUP(bench_close) struct bench bench;
    BUF(why);
    const char *text = "";
    bench_open(&bench, 0, NULL);
    bench.settings.login = TOKEN_LOGIN_PROTECTED;
    assert_fault(token_open(&bench.settings, &why, &bench.token), TOKEN_UNAVAILABLE);
    assert_ok(buf_cstr(&why, &text));
    assert_non_null(strstr(text, "no PIN pad"));
}

static void a_token_without_login_keeps_keys_that_need_none(void **state)
{
    (void)state;
    NEEDS_SOFTHSM; /* quirk login-first */
    CLEANUP(bench_close) struct bench bench;
    bench_open(&bench, 0, (const char *const[]){ "set:CKA_PRIVATE=no", NULL });
    bench.settings.login = TOKEN_LOGIN_NONE;
    bench.settings.pin = NULL;
    bench_start(&bench);
    whole_life(&bench, KEY_ALGORITHM_EC_P256);
}

static void a_token_that_cannot_be_written_still_signs(void **state)
{
    (void)state;
    BUF(spki);
    BUF(why);
    struct key_ref key;
    {
        BENCH(0, );
        key = made_openly(&bench, KEY_ALGORITHM_EC_P256, &spki);
    }
    {
        CLEANUP(bench_close) struct bench bench;
        bench_open(&bench, BIT(READ_ONLY), NULL);
        assert_true(FAULTED(token_open(&bench.settings, &why, &bench.token)));
    }
    struct key_ref none;
    BENCH(BIT(READ_ONLY), "read-only");
    assert_ok(sign_with(&bench, &key, SIGN_SCHEME_ECDSA, HASH_SHA256, buf_span(&spki)));
    assert_true(FAULTED(try_generate(&bench, KEY_ALGORITHM_EC_P256, &none)));
}

static void a_token_is_chosen_by_its_slot(void **state)
{
    (void)state;
    CLEANUP(bench_close) struct bench bench;
    BUF(why);
    struct token_status status;
    bench_open(&bench, 0, NULL);
    bench.settings.label = "";
    bench.settings.slot_set = true;
    bench.settings.slot = 99;
    assert_fault(token_open(&bench.settings, &why, &bench.token), TOKEN_UNAVAILABLE);
    assert_non_null(memmem(why.at, why.len, "in slot 99", 10));
    if (test_token_is_nss()) {
        bench.settings.slot = NSS_SLOT;
        bench_start(&bench);
        token_status(bench.token, &status);
        assert_string_equal(status.label, SOFTHSM_LABEL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_that_must_be_text_need_their_quirk),
        cmocka_unit_test(keys_without_ids_are_found_by_label),
        cmocka_unit_test(labels_of_32_bytes_need_their_quirk),
        cmocka_unit_test(short_labels_still_tell_tenants_and_purposes_apart),
        cmocka_unit_test(attributes_that_a_token_does_not_know_are_left_out),
        cmocka_unit_test(a_curve_by_name_needs_its_quirk),
        cmocka_unit_test(an_older_rsa_generator_is_noticed),
        cmocka_unit_test(keys_are_bound_to_their_mechanisms_where_the_site_wants_it),
        cmocka_unit_test(a_key_that_always_authenticates_gets_the_pin_for_each_signature),
        cmocka_unit_test(a_bare_point_is_told_by_its_length),
        cmocka_unit_test(a_public_half_that_is_nowhere_is_a_clear_fault),
        cmocka_unit_test(a_public_half_is_read_from_the_private_key),
        cmocka_unit_test(a_public_half_is_read_from_a_file),
        cmocka_unit_test(a_public_half_is_read_from_a_certificate),
        cmocka_unit_test(a_token_without_room_for_public_keys_needs_its_quirk),
        cmocka_unit_test(pss_without_the_mechanism_needs_its_quirk),
        cmocka_unit_test(short_digests_need_padding_on_some_tokens),
        cmocka_unit_test(sealing_takes_the_parameters_that_a_token_wants),
        cmocka_unit_test(nss_takes_the_older_parameters_too),
        cmocka_unit_test(an_iv_that_the_token_did_not_make_is_refused),
        cmocka_unit_test(a_token_of_few_sessions_gives_no_more),
        cmocka_unit_test(a_pin_pad_gets_no_pin),
        cmocka_unit_test(a_pin_pad_that_is_not_there_is_refused),
        cmocka_unit_test(a_token_without_login_keeps_keys_that_need_none),
        cmocka_unit_test(a_token_that_cannot_be_written_still_signs),
        cmocka_unit_test(a_token_is_chosen_by_its_slot),
    };
    return cmocka_run_group_tests_name("odd", tests, hsm_for_all, no_hsm_for_all);
}
