/* The token room against a real SoftHSM token. */
#include "tests/unit/token/softhsm.h"

#include <dlfcn.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/sha.h>
#include <openssl/x509.h>
#include <p11-kit/pkcs11.h>
#include <pthread.h>
#include <stdatomic.h>

static struct softhsm hsm;
static struct token_settings settings;
static struct secret *pin;
static struct token *token;

static int token_for_all(void **state)
{
    (void)state;
    softhsm_new(&hsm);
    pin = pin_of(SOFTHSM_PIN);
    settings = softhsm_settings(TEST_MODULE, pin);
    assert_ok(token_open(&settings, NULL, &token));
    return 0;
}

static int no_token_for_all(void **state)
{
    (void)state;
    token_close(TAKE(token));
    secret_free(TAKE(pin));
    softhsm_free(&hsm);
    return 0;
}

/* One call with its own operation and session. */
struct turn {
    struct op *op;
    struct token_session *session;
};

static struct turn turn_new(void)
{
    struct turn turn = { .op = op_within(20000) };
    assert_ok(token_session_take(turn.op, token, &turn.session));
    return turn;
}

static void turn_end(struct turn *turn)
{
    token_session_put(TAKE(turn->session));
    op_free(TAKE(turn->op));
}
#define TURN      CLEANUP(turn_end) struct turn turn = turn_new()
#define BUF(name) CLEANUP(buf_free) struct buf name = BUF_INIT(1 << 16)

static struct key_ref key_made(enum key_purpose purpose, enum key_algorithm algorithm, struct buf *spki)
{
    struct key_ref key = key_new(purpose);
    TURN;
    assert_ok(token_generate(turn.op, turn.session, &key, algorithm, spki));
    return key;
}

static const char message[] = "the quick brown fox";

static struct span digest_of(enum hash_algorithm hash, uint8_t out[64])
{
    unsigned len = 0;
    assert_int_equal(
        EVP_Digest(message, sizeof(message), out, &len, EVP_get_digestbyname(hash_algorithm_text(hash)), NULL), 1);
    return span_of(out, len);
}

/* Not by the room's own verifier: the message is hashed again, by OpenSSL alone. */
static bool openssl_accepts(struct span spki, enum sign_scheme scheme, enum hash_algorithm hash, struct span signature)
{
    const unsigned char *at = spki.at;
    EVP_PKEY *key = d2i_PUBKEY(NULL, &at, (long)spki.len);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    EVP_PKEY_CTX *options = NULL;
    assert_non_null(key);
    assert_ptr_equal(at, spki.at + spki.len);
    assert_int_equal(EVP_DigestVerifyInit(ctx, &options, EVP_get_digestbyname(hash_algorithm_text(hash)), NULL, key),
                     1);
    if (scheme == SIGN_SCHEME_RSA_PSS) {
        assert_int_equal(EVP_PKEY_CTX_set_rsa_padding(options, RSA_PKCS1_PSS_PADDING), 1);
        assert_int_equal(EVP_PKEY_CTX_set_rsa_pss_saltlen(options, RSA_PSS_SALTLEN_DIGEST), 1);
    }
    int verdict = EVP_DigestVerify(ctx, signature.at, signature.len, (const uint8_t *)message, sizeof(message));
    EVP_MD_CTX_free(ctx);
    EVP_PKEY_free(key);
    return verdict == 1;
}

/* ---- opening ---- */

static void close_and_reopen(void (*between)(void))
{
    token_close(TAKE(token));
    between();
    assert_ok(token_open(&settings, NULL, &token));
}

static void assert_open_fails(const struct token_settings *with, const char *module, const char *pin_text,
                              enum fault_code code, const char *says)
{
    struct token *none = NULL;
    const char *text = NULL;
    BUF(why);
    CLEANUP(secret_freep) struct secret *other = pin_of(pin_text);
    struct token_settings changed = *with;
    changed.module = module;
    changed.pin = other;
    assert_int_equal(token_open(&changed, &why, &none).code, code);
    assert_null(none);
    assert_ok(buf_cstr(&why, &text));
    if (strstr(text, says) == NULL) {
        fail_msg("'%s' does not say '%s'", text, says);
    }
}

static void try_missing_modules(void)
{
    assert_open_fails(&settings, "/nowhere/module.so", SOFTHSM_PIN, FAULT_TOKEN_UNAVAILABLE, "/nowhere/module.so");
    assert_open_fails(&settings, "libm.so.6", SOFTHSM_PIN, FAULT_TOKEN_UNAVAILABLE, "not a PKCS#11 module");
}
static void opening_refuses_a_module_that_is_missing_or_none(void **state)
{
    (void)state;
    close_and_reopen(try_missing_modules);
}

static void try_wrong_tokens(void)
{
    struct token_settings other = settings;
    other.label = "svc-tes";
    assert_open_fails(&other, TEST_MODULE, SOFTHSM_PIN, FAULT_TOKEN_UNAVAILABLE, "labelled 'svc-tes'");
    other = settings;
    other.serial = "0000";
    assert_open_fails(&other, TEST_MODULE, SOFTHSM_PIN, FAULT_TOKEN_UNAVAILABLE, "serial 0000");
    if (test_token_is_nss()) {
        return; /* its tokens are its slots: two of one label cannot be made */
    }
    softhsm_init_token("twin");
    softhsm_init_token("twin");
    other = settings;
    other.label = "twin";
    assert_open_fails(&other, TEST_MODULE, SOFTHSM_PIN, FAULT_TOKEN_UNAVAILABLE, "token.serial");
}
static void opening_refuses_a_token_that_is_unknown_or_ambiguous(void **state)
{
    (void)state;
    close_and_reopen(try_wrong_tokens);
}

static void try_wrong_pins(void)
{
    assert_open_fails(&settings, TEST_MODULE, "1234-wrong", FAULT_TOKEN_PIN, "the PIN is wrong");
    assert_open_fails(&settings, TEST_MODULE, "1", FAULT_TOKEN_PIN, "PIN");
}
static void opening_refuses_a_wrong_pin(void **state)
{
    (void)state;
    close_and_reopen(try_wrong_pins);
}

static void the_status_names_the_token(void **state)
{
    (void)state;
    struct token_status status;
    token_status(token, &status);
    assert_int_equal(status.state, TOKEN_OK);
    assert_string_equal(status.label, SOFTHSM_LABEL);
    assert_string_equal(status.model, test_token_is_nss() ? "NSS 3" : "SoftHSM v2");
    assert_true(status.serial[0] != '\0');
    assert_string_equal(status.cause, "");
    assert_false(status.restart_advised);
}

/* ---- refusals ---- */

static void a_key_that_is_not_there_is_not_found(void **state)
{
    (void)state;
    uint8_t digest[64];
    enum key_algorithm algorithm = KEY_ALGORITHM_NONE;
    BUF(out);
    struct key_ref key = key_new(KEY_PURPOSE_CODESIGN);
    TURN;
    assert_fault(
        token_sign(turn.op, turn.session, &key, SIGN_SCHEME_ECDSA, HASH_SHA256, digest_of(HASH_SHA256, digest), &out),
        KEY_NOT_FOUND);
    assert_fault(token_public_key(turn.op, turn.session, &key, &algorithm, &out), KEY_NOT_FOUND);
    assert_fault(token_destroy(turn.op, turn.session, &key), KEY_NOT_FOUND);
    assert_fault(token_seal(turn.op, turn.session, &key, SPAN_ARRAY("a"), SPAN_ARRAY("b"), &out), KEY_NOT_FOUND);
    assert_int_equal(out.len, 0);
    assert_int_equal(algorithm, KEY_ALGORITHM_NONE);
}

static void a_key_of_another_tenant_or_purpose_is_not_found(void **state)
{
    (void)state;
    uint8_t digest[64];
    BUF(spki);
    BUF(out);
    struct key_ref key = key_made(KEY_PURPOSE_CODESIGN, KEY_ALGORITHM_EC_P256, &spki);
    TURN;
    struct span bytes = digest_of(HASH_SHA256, digest);
    struct key_ref other = key;
    other.tenant = (struct tenant_id){ "acme-2" };
    assert_fault(token_sign(turn.op, turn.session, &other, SIGN_SCHEME_ECDSA, HASH_SHA256, bytes, &out), KEY_NOT_FOUND);
    other = key;
    other.purpose = KEY_PURPOSE_TSA;
    assert_fault(token_sign(turn.op, turn.session, &other, SIGN_SCHEME_ECDSA, HASH_SHA256, bytes, &out), KEY_NOT_FOUND);
    assert_fault(token_destroy(turn.op, turn.session, &other), KEY_NOT_FOUND);
    assert_int_equal(out.len, 0);
}

static void a_malformed_key_reference_is_refused(void **state)
{
    (void)state;
    uint8_t digest[64];
    BUF(out);
    TURN;
    struct span bytes = digest_of(HASH_SHA256, digest);
    struct key_ref good = key_new(KEY_PURPOSE_CODESIGN);
    struct key_ref bad[] = { good, good, good, good };
    bad[0].purpose = KEY_PURPOSE_COUNT;
    bad[1].id = (struct uuid){ "../../../etc" };
    bad[2].tenant = (struct tenant_id){ "" };
    bad[3].tenant = (struct tenant_id){ "a/b" };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_fault(token_sign(turn.op, turn.session, &bad[i], SIGN_SCHEME_ECDSA, HASH_SHA256, bytes, &out),
                     BAD_ARGUMENT);
        assert_fault(token_generate(turn.op, turn.session, &bad[i], KEY_ALGORITHM_EC_P256, &out), BAD_ARGUMENT);
    }
}

static void a_digest_of_the_wrong_length_is_refused(void **state)
{
    (void)state;
    uint8_t digest[65] = { 0 };
    BUF(spki);
    BUF(out);
    struct key_ref key = key_made(KEY_PURPOSE_CODESIGN, KEY_ALGORITHM_EC_P256, &spki);
    static const size_t wrong[] = { 0, 31, 33, 64 };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        TURN;
        assert_fault(
            token_sign(turn.op, turn.session, &key, SIGN_SCHEME_ECDSA, HASH_SHA256, span_of(digest, wrong[i]), &out),
            DIGEST_LENGTH);
        assert_true(turn.op->note.detail[0] != '\0');
    }
    assert_int_equal(out.len, 0);
}

static void a_scheme_that_does_not_go_with_the_key_is_refused(void **state)
{
    (void)state;
    uint8_t digest[64];
    BUF(spki);
    BUF(out);
    struct key_ref ec = key_made(KEY_PURPOSE_CODESIGN, KEY_ALGORITHM_EC_P256, &spki);
    struct key_ref aes = key_made(KEY_PURPOSE_SEAL, KEY_ALGORITHM_AES_256, &spki);
    TURN;
    struct span bytes = digest_of(HASH_SHA256, digest);
    for (int scheme = SIGN_SCHEME_NONE; scheme <= SIGN_SCHEME_COUNT; scheme++) {
        if (scheme != SIGN_SCHEME_ECDSA) {
            assert_fault(token_sign(turn.op, turn.session, &ec, (enum sign_scheme)scheme, HASH_SHA256, bytes, &out),
                         BAD_ARGUMENT);
        }
        assert_fault(token_sign(turn.op, turn.session, &aes, (enum sign_scheme)scheme, HASH_SHA256, bytes, &out),
                     BAD_ARGUMENT);
    }
    assert_fault(token_sign(turn.op, turn.session, &ec, SIGN_SCHEME_ECDSA, HASH_NONE, bytes, &out), BAD_ARGUMENT);
    assert_fault(token_seal(turn.op, turn.session, &ec, SPAN_ARRAY("a"), SPAN_ARRAY("b"), &out), BAD_ARGUMENT);
    assert_int_equal(out.len, 0);
}

static void a_second_key_of_the_same_place_is_refused(void **state)
{
    (void)state;
    BUF(first);
    BUF(again);
    BUF(kept);
    enum key_algorithm algorithm = KEY_ALGORITHM_NONE;
    struct key_ref key = key_made(KEY_PURPOSE_CODESIGN, KEY_ALGORITHM_EC_P256, &first);
    TURN;
    assert_fault(token_generate(turn.op, turn.session, &key, KEY_ALGORITHM_EC_P256, &again), KEY_EXISTS);
    assert_fault(token_generate(turn.op, turn.session, &key, KEY_ALGORITHM_RSA_3072, &again), KEY_EXISTS);
    assert_int_equal(again.len, 0);
    assert_ok(token_public_key(turn.op, turn.session, &key, &algorithm, &kept));
    assert_int_equal(algorithm, KEY_ALGORITHM_EC_P256);
    assert_true(span_equal(buf_span(&first), buf_span(&kept)));
}

static CK_FUNCTION_LIST *raw_module(void)
{
    CK_RV (*function_list)(CK_FUNCTION_LIST **) = NULL;
    CK_FUNCTION_LIST *list = NULL;
    void *library = dlopen(TEST_MODULE, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    *(void **)&function_list = dlsym(library, "C_GetFunctionList");
    assert_int_equal(function_list(&list), CKR_OK);
    return list;
}

static CK_SESSION_HANDLE raw_session(CK_FUNCTION_LIST *raw)
{
    CK_SLOT_ID slots[8];
    CK_ULONG count = COUNT_OF(slots);
    CK_SESSION_HANDLE session = 0;
    assert_int_equal(raw->C_GetSlotList(CK_TRUE, slots, &count), CKR_OK);
    for (CK_ULONG i = 0; i < count; i++) {
        CK_TOKEN_INFO info;
        assert_int_equal(raw->C_GetTokenInfo(slots[i], &info), CKR_OK);
        if (memcmp(info.label, SOFTHSM_LABEL " ", sizeof(SOFTHSM_LABEL)) == 0) {
            assert_int_equal(raw->C_OpenSession(slots[i], CKF_SERIAL_SESSION | CKF_RW_SESSION, NULL, NULL, &session),
                             CKR_OK);
        }
    }
    assert_int_not_equal(session, 0);
    return session;
}

static CK_OBJECT_HANDLE raw_find(CK_FUNCTION_LIST *raw, CK_SESSION_HANDLE session, CK_OBJECT_CLASS class,
                                 const char *label)
{
    CK_ATTRIBUTE wanted[] = { { CKA_CLASS, &class, sizeof(class) },
                              { CKA_LABEL, (void *)(uintptr_t)label, strlen(label) } };
    CK_OBJECT_HANDLE found[2];
    CK_ULONG count = 0;
    assert_int_equal(raw->C_FindObjectsInit(session, wanted, COUNT_OF(wanted)), CKR_OK);
    assert_int_equal(raw->C_FindObjects(session, found, COUNT_OF(found), &count), CKR_OK);
    assert_int_equal(raw->C_FindObjectsFinal(session), CKR_OK);
    assert_int_equal(count, 1);
    return found[0];
}

static void label_of(const struct key_ref *key, const char *algorithm, char out[256])
{
    (void)snprintf(out, 256, "svc/1/%s/%s/%s/%s", key->tenant.text[0] != '\0' ? key->tenant.text : "_",
                   key_purpose_text(key->purpose), algorithm, key->id.text);
}

static void two_keys_of_one_label_are_refused(void **state)
{
    (void)state;
    NEEDS_SOFTHSM; /* quirk one-per-id */
    uint8_t digest[64];
    char label[256];
    enum key_algorithm algorithm = KEY_ALGORITHM_NONE;
    BUF(spki);
    BUF(out);
    struct key_ref key = key_made(KEY_PURPOSE_CODESIGN, KEY_ALGORITHM_EC_P256, &spki);
    label_of(&key, "ec-p256", label);
    CK_FUNCTION_LIST *raw = raw_module();
    CK_SESSION_HANDLE session = raw_session(raw);
    CK_OBJECT_HANDLE copy = 0;
    CK_BBOOL yes = CK_TRUE;
    CK_ATTRIBUTE template[] = { { CKA_TOKEN, &yes, sizeof(yes) } };
    assert_int_equal(raw->C_CopyObject(session, raw_find(raw, session, CKO_PRIVATE_KEY, label), template, 1, &copy),
                     CKR_OK);
    {
        TURN;
        assert_fault(token_sign(turn.op, turn.session, &key, SIGN_SCHEME_ECDSA, HASH_SHA256,
                                digest_of(HASH_SHA256, digest), &out),
                     INTERNAL);
        assert_non_null(strstr(turn.op->note.detail, "more than one key"));
    }
    {
        TURN;
        assert_fault(token_public_key(turn.op, turn.session, &key, &algorithm, &out), INTERNAL);
    }
    {
        TURN;
        assert_fault(token_destroy(turn.op, turn.session, &key), INTERNAL);
    }
    assert_int_equal(raw->C_DestroyObject(session, copy), CKR_OK);
    assert_int_equal(raw->C_CloseSession(session), CKR_OK);
    TURN;
    assert_ok(
        token_sign(turn.op, turn.session, &key, SIGN_SCHEME_ECDSA, HASH_SHA256, digest_of(HASH_SHA256, digest), &out));
}

/* ---- what it does ---- */

static void private_keys_stay_in_the_token_and_only_sign(void **state)
{
    (void)state;
    BUF(spki);
    static const struct {
        enum key_algorithm algorithm;
        CK_OBJECT_CLASS class;
        enum key_purpose purpose;
    } kinds[] = { { KEY_ALGORITHM_EC_P384, CKO_PRIVATE_KEY, KEY_PURPOSE_TSA },
                  { KEY_ALGORITHM_RSA_3072, CKO_PRIVATE_KEY, KEY_PURPOSE_CODESIGN },
                  { KEY_ALGORITHM_AES_256, CKO_SECRET_KEY, KEY_PURPOSE_SEAL } };
    CK_FUNCTION_LIST *raw = raw_module();
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        char label[256];
        struct key_ref key = key_made(kinds[i].purpose, kinds[i].algorithm, &spki);
        label_of(&key, key_algorithm_text(kinds[i].algorithm), label);
        CK_SESSION_HANDLE session = raw_session(raw);
        CK_OBJECT_HANDLE object = raw_find(raw, session, kinds[i].class, label);
        CK_BBOOL sensitive = 0, extractable = 1, stored = 0, hidden = 0, never = 0, sign = 2, decrypt = 2, unwrap = 2;
        uint8_t id[32];
        CK_ATTRIBUTE shown[] = {
            { CKA_SENSITIVE, &sensitive, 1 }, { CKA_EXTRACTABLE, &extractable, 1 }, { CKA_TOKEN, &stored, 1 },
            { CKA_PRIVATE, &hidden, 1 },      { CKA_NEVER_EXTRACTABLE, &never, 1 }, { CKA_SIGN, &sign, 1 },
            { CKA_DECRYPT, &decrypt, 1 },     { CKA_UNWRAP, &unwrap, 1 },           { CKA_ID, id, sizeof(id) }
        };
        bool signs = kinds[i].class == CKO_PRIVATE_KEY;
        assert_int_equal(raw->C_GetAttributeValue(session, object, shown, COUNT_OF(shown)), CKR_OK);
        assert_true(sensitive && !extractable && stored && hidden && never);
        assert_int_equal(sign, signs ? CK_TRUE : CK_FALSE);
        if (kinds[i].algorithm == KEY_ALGORITHM_RSA_3072) {
            assert_int_equal(decrypt, CK_FALSE);
        }
        if (kinds[i].algorithm != KEY_ALGORITHM_EC_P384) {
            assert_int_equal(unwrap, CK_FALSE);
        }
        assert_int_equal(shown[8].ulValueLen, 16);
        assert_int_equal(raw->C_CloseSession(session), CKR_OK);
    }
}

static void sign_and_check(const struct key_ref *key, struct span spki, enum sign_scheme scheme,
                           enum hash_algorithm hash)
{
    uint8_t digest[64];
    BUF(signature);
    TURN;
    struct span bytes = digest_of(hash, digest);
    assert_ok(token_sign(turn.op, turn.session, key, scheme, hash, bytes, &signature));
    assert_true(openssl_accepts(spki, scheme, hash, buf_span(&signature)));
    assert_ok(token_verify(turn.op, turn.session, key, scheme, hash, bytes, buf_span(&signature)));
    assert_ok(token_verify_under(turn.op, spki, scheme, hash, bytes, buf_span(&signature)));
    assert_fault(token_verify_under(turn.op, span_of(spki.at, spki.len - 1), scheme, hash, bytes, buf_span(&signature)),
                 BAD_ARGUMENT);
    signature.at[signature.len - 1] ^= 1;
    assert_fault(token_verify_under(turn.op, spki, scheme, hash, bytes, buf_span(&signature)), SIGNATURE_INVALID);
    assert_fault(token_verify(turn.op, turn.session, key, scheme, hash, bytes, buf_span(&signature)),
                 SIGNATURE_INVALID);
    signature.at[signature.len - 1] ^= 1;
    digest[0] ^= 1;
    assert_fault(token_verify(turn.op, turn.session, key, scheme, hash, bytes, buf_span(&signature)),
                 SIGNATURE_INVALID);
    assert_fault(token_verify(turn.op, turn.session, key, scheme, hash, bytes, (struct span){ 0 }), SIGNATURE_INVALID);
}

static void ecdsa_signatures_are_good_for_openssl(void **state)
{
    (void)state;
    static const enum key_algorithm algorithms[] = { KEY_ALGORITHM_EC_P256, KEY_ALGORITHM_EC_P384 };
    for (size_t i = 0; i < COUNT_OF(algorithms); i++) {
        BUF(spki);
        BUF(again);
        enum key_algorithm found = KEY_ALGORITHM_NONE;
        struct key_ref key = key_made(KEY_PURPOSE_CODESIGN, algorithms[i], &spki);
        for (int hash = HASH_SHA256; hash < HASH_COUNT; hash++) {
            sign_and_check(&key, buf_span(&spki), SIGN_SCHEME_ECDSA, (enum hash_algorithm)hash);
        }
        TURN;
        assert_ok(token_public_key(turn.op, turn.session, &key, &found, &again));
        assert_int_equal(found, algorithms[i]);
        assert_true(span_equal(buf_span(&spki), buf_span(&again)));
    }
}

/* r and s come with leading zeros now and then, and with a set top bit every other time. */
static void ecdsa_signatures_are_der_every_time(void **state)
{
    (void)state;
    BUF(spki);
    uint8_t digest[64];
    struct key_ref key = key_made(KEY_PURPOSE_CODESIGN, KEY_ALGORITHM_EC_P256, &spki);
    TURN;
    struct span bytes = digest_of(HASH_SHA256, digest);
    for (int i = 0; i < 600; i++) {
        BUF(signature);
        assert_ok(token_sign(turn.op, turn.session, &key, SIGN_SCHEME_ECDSA, HASH_SHA256, bytes, &signature));
        assert_true(openssl_accepts(buf_span(&spki), SIGN_SCHEME_ECDSA, HASH_SHA256, buf_span(&signature)));
    }
}

static void rsa_signatures_are_good_for_openssl(void **state)
{
    (void)state;
    BUF(spki);
    struct key_ref key = key_made(KEY_PURPOSE_CODESIGN, KEY_ALGORITHM_RSA_3072, &spki);
    for (int hash = HASH_SHA256; hash < HASH_COUNT; hash++) {
        sign_and_check(&key, buf_span(&spki), SIGN_SCHEME_RSA_PKCS1, (enum hash_algorithm)hash);
        sign_and_check(&key, buf_span(&spki), SIGN_SCHEME_RSA_PSS, (enum hash_algorithm)hash);
    }
}

static void the_post_key_has_no_tenant(void **state)
{
    (void)state;
    BUF(spki);
    struct key_ref key = key_new(KEY_PURPOSE_POST);
    key.tenant = (struct tenant_id){ "" };
    {
        TURN;
        assert_ok(token_generate(turn.op, turn.session, &key, KEY_ALGORITHM_EC_P256, &spki));
    }
    sign_and_check(&key, buf_span(&spki), SIGN_SCHEME_ECDSA, HASH_SHA256);
}

static void a_destroyed_key_is_gone_at_once(void **state)
{
    (void)state;
    uint8_t digest[64];
    enum key_algorithm algorithm = KEY_ALGORITHM_NONE;
    BUF(spki);
    BUF(out);
    struct key_ref key = key_made(KEY_PURPOSE_CODESIGN, KEY_ALGORITHM_EC_P256, &spki);
    TURN;
    struct span bytes = digest_of(HASH_SHA256, digest);
    assert_ok(token_sign(turn.op, turn.session, &key, SIGN_SCHEME_ECDSA, HASH_SHA256, bytes, &out));
    assert_ok(token_destroy(turn.op, turn.session, &key));
    buf_clear(&out);
    assert_fault(token_sign(turn.op, turn.session, &key, SIGN_SCHEME_ECDSA, HASH_SHA256, bytes, &out), KEY_NOT_FOUND);
    assert_fault(token_public_key(turn.op, turn.session, &key, &algorithm, &out), KEY_NOT_FOUND);
    assert_fault(token_destroy(turn.op, turn.session, &key), KEY_NOT_FOUND);
    assert_ok(token_generate(turn.op, turn.session, &key, KEY_ALGORITHM_EC_P384, &out));
}

static void unsealing_refuses_every_altered_byte_context_and_key(void **state)
{
    (void)state;
    BUF(none);
    BUF(sealed);
    BUF(plain);
    struct key_ref key = key_made(KEY_PURPOSE_SEAL, KEY_ALGORITHM_AES_256, &none);
    struct key_ref other = key_made(KEY_PURPOSE_SEAL, KEY_ALGORITHM_AES_256, &none);
    assert_int_equal(none.len, 0);
    struct span aad = span_text("tenant acme, operation 7"), secret = span_text("the sealed command");
    TURN;
    assert_ok(token_seal(turn.op, turn.session, &key, aad, secret, &sealed));
    assert_int_equal(sealed.len, 1 + 16 + 12 + secret.len + 16);
    for (size_t i = 0; i < sealed.len; i++) {
        sealed.at[i] ^= 0x01;
        assert_fault(token_unseal(turn.op, turn.session, &key, aad, buf_span(&sealed), &plain), UNSEAL);
        sealed.at[i] ^= 0x01;
    }
    for (size_t len = 0; len < sealed.len; len++) {
        assert_fault(token_unseal(turn.op, turn.session, &key, aad, span_of(sealed.at, len), &plain), UNSEAL);
    }
    assert_fault(
        token_unseal(turn.op, turn.session, &key, span_text("tenant acme, operation 8"), buf_span(&sealed), &plain),
        UNSEAL);
    assert_fault(token_unseal(turn.op, turn.session, &key, (struct span){ 0 }, buf_span(&sealed), &plain), UNSEAL);
    assert_fault(token_unseal(turn.op, turn.session, &other, aad, buf_span(&sealed), &plain), UNSEAL);
    uint8_t id[16], byte = 0;
    for (size_t i = 0, at = 0; i < 16; i++) { /* the same bytes, renamed to the other key */
        at += other.id.text[at] == '-';
        assert_int_equal(sscanf(other.id.text + at, "%2hhx", &byte), 1);
        id[i] = byte;
        at += 2;
    }
    memcpy(sealed.at + 1, id, sizeof(id));
    assert_fault(token_unseal(turn.op, turn.session, &other, aad, buf_span(&sealed), &plain), UNSEAL);
    assert_int_equal(plain.len, 0);
    struct token_status status;
    token_status(token, &status);
    assert_int_equal(status.state, TOKEN_OK); /* altered bytes are no trouble of the token's */
    assert_int_equal(status.recoveries, 0);
}

static void sealed_bytes_open_again(void **state)
{
    (void)state;
    BUF(none);
    struct key_ref key = key_made(KEY_PURPOSE_SEAL, KEY_ALGORITHM_AES_256, &none);
    static uint8_t large[60000];
    memset(large, 0xa5, sizeof(large));
    const struct span plains[] = { { NULL, 0 },   { large, 0 },  { large, 1 },
                                   { large, 16 }, { large, 17 }, { large, sizeof(large) } };
    for (size_t i = 0; i < COUNT_OF(plains); i++) {
        BUF(sealed);
        BUF(twice);
        BUF(plain);
        TURN;
        assert_ok(token_seal(turn.op, turn.session, &key, span_text("aad"), plains[i], &sealed));
        assert_ok(token_seal(turn.op, turn.session, &key, span_text("aad"), plains[i], &twice));
        assert_false(span_equal(buf_span(&sealed), buf_span(&twice))); /* another IV each time */
        assert_ok(token_unseal(turn.op, turn.session, &key, span_text("aad"), buf_span(&sealed), &plain));
        assert_true(span_equal(buf_span(&plain), plains[i]));
        buf_clear(&plain);
        buf_clear(&sealed);
        assert_ok(token_seal(turn.op, turn.session, &key, (struct span){ 0 }, plains[i], &sealed));
        assert_ok(token_unseal(turn.op, turn.session, &key, (struct span){ 0 }, buf_span(&sealed), &plain));
        assert_true(span_equal(buf_span(&plain), plains[i]));
    }
}

static void forgetting_handles_loses_nothing(void **state)
{
    (void)state;
    BUF(spki);
    struct key_ref key = key_made(KEY_PURPOSE_CODESIGN, KEY_ALGORITHM_EC_P256, &spki);
    sign_and_check(&key, buf_span(&spki), SIGN_SCHEME_ECDSA, HASH_SHA256);
    token_forget_handles(token);
    sign_and_check(&key, buf_span(&spki), SIGN_SCHEME_ECDSA, HASH_SHA256);
}

static void keys_are_found_again_by_the_next_process(void **state)
{
    (void)state;
    BUF(spki);
    struct key_ref key = key_made(KEY_PURPOSE_CODESIGN, KEY_ALGORITHM_EC_P256, &spki);
    token_close(TAKE(token));
    assert_ok(token_open(&settings, NULL, &token));
    sign_and_check(&key, buf_span(&spki), SIGN_SCHEME_ECDSA, HASH_SHA256);
}

/* ---- many at once ---- */

static void a_pool_that_is_empty_refuses_at_the_deadline(void **state)
{
    (void)state;
    struct token_session *held[4] = { NULL }, *none = NULL;
    CLEANUP(op_freep) struct op *op = op_within(20000);
    CLEANUP(op_freep) struct op *hasty = op_within(1);
    for (size_t i = 0; i < COUNT_OF(held); i++) {
        assert_ok(token_session_take(op, token, &held[i]));
    }
    assert_fault(token_session_take(hasty, token, &none), SATURATED);
    assert_null(none);
    token_session_put(held[0]);
    assert_ok(token_session_take(op, token, &held[0]));
    for (size_t i = 0; i < COUNT_OF(held); i++) {
        token_session_put(held[i]);
    }
}

struct crowd {
    struct key_ref keys[6];
    struct span spki[6];
};

static void *sign_in_a_crowd(void *arg)
{
    const struct crowd *crowd = arg;
    uint8_t digest[64];
    struct span bytes = digest_of(HASH_SHA256, digest);
    for (unsigned i = 0; i < 60; i++) {
        BUF(signature);
        TURN;
        unsigned which = i % 6;
        if (i % 20 == 19) {
            token_forget_handles(token);
        }
        assert_ok(
            token_sign(turn.op, turn.session, &crowd->keys[which], SIGN_SCHEME_ECDSA, HASH_SHA256, bytes, &signature));
        assert_true(openssl_accepts(crowd->spki[which], SIGN_SCHEME_ECDSA, HASH_SHA256, buf_span(&signature)));
    }
    return NULL;
}

static void many_threads_sign_with_many_keys(void **state)
{
    (void)state;
    struct crowd crowd;
    struct buf spki[6];
    pthread_t threads[8];
    for (size_t i = 0; i < COUNT_OF(crowd.keys); i++) {
        spki[i] = (struct buf)BUF_INIT(4096);
        crowd.keys[i] = key_made(KEY_PURPOSE_CODESIGN, KEY_ALGORITHM_EC_P256, &spki[i]);
        crowd.spki[i] = buf_span(&spki[i]);
    }
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, sign_in_a_crowd, &crowd), 0);
    }
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    for (size_t i = 0; i < COUNT_OF(spki); i++) {
        buf_free(&spki[i]);
    }
}

struct race {
    struct key_ref key;
    atomic_uint made, existed;
};

static void *make_the_same_key(void *arg)
{
    struct race *race = arg;
    BUF(spki);
    TURN;
    struct fault fault = token_generate(turn.op, turn.session, &race->key, KEY_ALGORITHM_EC_P256, &spki);
    if (fault.code == FAULT_NONE) {
        atomic_fetch_add(&race->made, 1);
    } else if (fault.code == FAULT_KEY_EXISTS) {
        atomic_fetch_add(&race->existed, 1);
    }
    return NULL;
}

static void of_many_that_make_the_same_key_one_makes_it(void **state)
{
    (void)state;
    for (int round = 0; round < 5; round++) {
        struct race race = { .key = key_new(KEY_PURPOSE_CODESIGN) };
        pthread_t threads[4];
        for (size_t i = 0; i < COUNT_OF(threads); i++) {
            assert_int_equal(pthread_create(&threads[i], NULL, make_the_same_key, &race), 0);
        }
        for (size_t i = 0; i < COUNT_OF(threads); i++) {
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        }
        assert_int_equal(atomic_load(&race.made), 1);
        assert_int_equal(atomic_load(&race.existed), 3);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(opening_refuses_a_module_that_is_missing_or_none),
        cmocka_unit_test(opening_refuses_a_token_that_is_unknown_or_ambiguous),
        cmocka_unit_test(opening_refuses_a_wrong_pin),
        cmocka_unit_test(the_status_names_the_token),
        cmocka_unit_test(a_key_that_is_not_there_is_not_found),
        cmocka_unit_test(a_key_of_another_tenant_or_purpose_is_not_found),
        cmocka_unit_test(a_malformed_key_reference_is_refused),
        cmocka_unit_test(a_digest_of_the_wrong_length_is_refused),
        cmocka_unit_test(a_scheme_that_does_not_go_with_the_key_is_refused),
        cmocka_unit_test(a_second_key_of_the_same_place_is_refused),
        cmocka_unit_test(two_keys_of_one_label_are_refused),
        cmocka_unit_test(private_keys_stay_in_the_token_and_only_sign),
        cmocka_unit_test(ecdsa_signatures_are_good_for_openssl),
        cmocka_unit_test(ecdsa_signatures_are_der_every_time),
        cmocka_unit_test(rsa_signatures_are_good_for_openssl),
        cmocka_unit_test(the_post_key_has_no_tenant),
        cmocka_unit_test(a_destroyed_key_is_gone_at_once),
        cmocka_unit_test(unsealing_refuses_every_altered_byte_context_and_key),
        cmocka_unit_test(sealed_bytes_open_again),
        cmocka_unit_test(forgetting_handles_loses_nothing),
        cmocka_unit_test(keys_are_found_again_by_the_next_process),
        cmocka_unit_test(a_pool_that_is_empty_refuses_at_the_deadline),
        cmocka_unit_test(many_threads_sign_with_many_keys),
        cmocka_unit_test(of_many_that_make_the_same_key_one_makes_it),
    };
    return cmocka_run_group_tests_name("token", tests, token_for_all, no_token_for_all);
}
