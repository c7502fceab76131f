/* Signing through the module with an appliance that misbehaves when it is told to. */
#include "tests/testlib.h"

#include "tests/unit/pkcs11/fake_appliance.h"

#include <p11-kit/pkcs11.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define SIGN                "code-signing/sign"
#define PROBLEM(code, more) "{\"type\":\"x\",\"title\":\"t\",\"code\":\"" code "\"" more "}"

static CK_FUNCTION_LIST *p11;
static struct fake *fake;
static char log_file[128];

static int start_fake(void **state)
{
    (void)state;
    fake = fake_start();
    (void)snprintf(log_file, sizeof(log_file), "%s/log", fake->folder);
    return C_GetFunctionList(&p11) == CKR_OK ? 0 : -1;
}

static int stop_fake(void **state)
{
    (void)state;
    (void)unlink(log_file);
    fake_stop(fake);
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    fake_reset(fake);
    fake_environment(fake);
    (void)unlink(log_file);
    assert_int_equal(setenv("SVC_PKCS11_LOG", log_file, 1), 0);
    assert_int_equal(p11->C_Initialize(NULL), CKR_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return p11->C_Finalize(NULL) == CKR_OK ? 0 : -1;
}

static void again_with(const char *name, const char *value)
{
    assert_int_equal(p11->C_Finalize(NULL), CKR_OK);
    assert_int_equal(setenv(name, value, 1), 0);
    assert_int_equal(p11->C_Initialize(NULL), CKR_OK);
}

static CK_SESSION_HANDLE session_made(void)
{
    CK_SESSION_HANDLE session = 0;
    assert_int_equal(p11->C_OpenSession(0, CKF_SERIAL_SESSION, NULL, NULL, &session), CKR_OK);
    return session;
}

static CK_RV find(CK_SESSION_HANDLE session, CK_OBJECT_CLASS class, const char *label, CK_OBJECT_HANDLE *ret_object)
{
    CK_ATTRIBUTE wanted[] = { { CKA_CLASS, &class, sizeof(class) }, { CKA_LABEL, (char *)label, strlen(label) } };
    CK_ULONG count = 0;
    CK_RV rv = p11->C_FindObjectsInit(session, wanted, COUNT_OF(wanted));
    if (rv != CKR_OK) {
        return rv;
    }
    assert_int_equal(p11->C_FindObjects(session, ret_object, 1, &count), CKR_OK);
    assert_int_equal(p11->C_FindObjectsFinal(session), CKR_OK);
    return count == 1 ? CKR_OK : CKR_OBJECT_HANDLE_INVALID;
}

static CK_RV sign(CK_SESSION_HANDLE session, CK_MECHANISM_TYPE type, const char *key, struct span data,
                  CK_BYTE signature[512], CK_ULONG *len)
{
    CK_OBJECT_HANDLE object = 0;
    assert_int_equal(find(session, CKO_PRIVATE_KEY, key, &object), CKR_OK);
    assert_int_equal(p11->C_SignInit(session, &(CK_MECHANISM){ type, NULL, 0 }, object), CKR_OK);
    *len = 512;
    return p11->C_Sign(session, (CK_BYTE *)data.at, data.len, signature, len);
}

static CK_RV sign_text(CK_SESSION_HANDLE session)
{
    CK_BYTE signature[512];
    CK_ULONG len = 0;
    return sign(session, CKM_ECDSA_SHA256, "ec-key", span_text("text"), signature, &len);
}

static bool log_says(const char *what)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(65536);
    const char *all = NULL;
    return !FAULTED(file_read(log_file, &text)) && !FAULTED(buf_cstr(&text, &all)) && strstr(all, what) != NULL;
}

static void refusals_have_a_code_of_their_own_and_a_line(void **state)
{
    (void)state;
    static const struct {
        int status;
        const char *body, *line;
        CK_RV rv;
    } rows[] = {
        { 401, PROBLEM("unauthenticated", ""), "unauthenticated", CKR_USER_NOT_LOGGED_IN },
        { 401, PROBLEM("token_expired", ""), "SVC_TOKEN_FILE", CKR_PIN_EXPIRED },
        { 401, PROBLEM("token_revoked", ""), "token_revoked", CKR_USER_NOT_LOGGED_IN },
        { 403, PROBLEM("forbidden", ""), "forbidden", CKR_ACTION_PROHIBITED },
        { 403, PROBLEM("policy_denied", ",\"detail\":\"rule 7\""), "policy_denied: rule 7", CKR_FUNCTION_REJECTED },
        { 403, PROBLEM("approval_required", ",\"resource\":\"approval_required:codesign:00ff\",\"trace_id\":\"abc\""),
          "; resource approval_required:codesign:00ff; somebody else than you", CKR_FUNCTION_REJECTED },
        { 403, PROBLEM("approval_denied", ""), "approval_denied", CKR_FUNCTION_REJECTED },
        { 404, PROBLEM("key_not_found", ""), "key_not_found", CKR_KEY_HANDLE_INVALID },
        { 409, PROBLEM("key_not_active", ""), "key_not_active", CKR_KEY_HANDLE_INVALID },
        { 409, PROBLEM("idempotency_indeterminate", ""), "idempotency_indeterminate", CKR_FUNCTION_FAILED },
        { 400, PROBLEM("json_field", ",\"pointer\":\"/digest\""), "; at /digest", CKR_FUNCTION_FAILED },
        { 500, PROBLEM("internal", ""), "internal", CKR_DEVICE_ERROR },
        { 501, PROBLEM("token_mechanism", ""), "token_mechanism", CKR_MECHANISM_INVALID },
        { 418, PROBLEM("a_code_of_next_year", ""), "a_code_of_next_year", CKR_FUNCTION_FAILED },
        { 404, "", "unexpected_answer", CKR_FUNCTION_FAILED },
    };
    CK_SESSION_HANDLE session = session_made();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        (void)unlink(log_file);
        fake_next(fake, "/sign", FAKE_STATUS, rows[i].status, rows[i].body);
        assert_int_equal(sign_text(session), rows[i].rv);
        assert_true(log_says("sign with ec-key (" FAKE_EC_ID "): "));
        assert_true(log_says(rows[i].line));
    }
    assert_true(log_says("is SVC_BASE_URL the address"));
    assert_int_equal(fake_signings(fake), 0);
    assert_int_equal(sign_text(session), CKR_OK); /* and nothing of it lasts */
}

static void a_refused_preview_is_never_executed(void **state)
{
    (void)state;
    fake_next(fake, "/preview", FAKE_STATUS, 403, PROBLEM("forbidden", ""));
    assert_int_equal(sign_text(session_made()), CKR_ACTION_PROHIBITED);
    assert_int_equal(fake_seen_of(fake, SIGN), 0);
}

static void control_characters_of_an_answer_stay_out_of_the_log(void **state)
{
    (void)state;
    fake_next(fake, "/sign", FAKE_STATUS, 403,
              PROBLEM("forbidden", ",\"detail\":\"a\\u001b[2Jb\\nsvc-pkcs11 forged\""));
    assert_int_equal(sign_text(session_made()), CKR_ACTION_PROHIBITED);
    assert_true(log_says("a?[2Jb?svc-pkcs11 forged"));
}

static void a_signature_that_does_not_verify_is_not_handed_out(void **state)
{
    (void)state;
    CK_BYTE signature[512] = { 0 };
    CK_ULONG len = 0;
    CK_SESSION_HANDLE session = session_made();
    fake_next(fake, "/sign", FAKE_WRONG_SIGNATURE, 0, "");
    assert_int_equal(sign(session, CKM_ECDSA_SHA256, "ec-key", span_text("text"), signature, &len), CKR_DEVICE_ERROR);
    fake_next(fake, "/sign", FAKE_WRONG_SIGNATURE, 0, "");
    assert_int_equal(sign(session, CKM_SHA256_RSA_PKCS, "rsa-key", span_text("text"), signature, &len),
                     CKR_DEVICE_ERROR);
    for (size_t i = 0; i < sizeof(signature); i++) {
        assert_int_equal(signature[i], 0);
    }
    assert_true(log_says("signature_invalid"));
}

static void answers_that_are_nonsense_are_told_as_such(void **state)
{
    (void)state;
    static const char *const nonsense[] = { "",
                                            "{",
                                            "[]",
                                            "7",
                                            "{\"signature\":7}",
                                            "{\"signature\":\"?\"}",
                                            "{\"signature\":\"\"}",
                                            "{\"signature\":\"AAAA\"}" };
    CK_SESSION_HANDLE session = session_made();
    for (size_t i = 0; i < COUNT_OF(nonsense); i++) {
        fake_next(fake, "/sign", FAKE_GARBAGE, 200, nonsense[i]);
        CK_RV rv = sign_text(session);
        assert_true(rv == CKR_DEVICE_ERROR || rv == CKR_FUNCTION_FAILED);
        fake_next(fake, "/preview", FAKE_GARBAGE, 200, nonsense[i]);
        rv = sign_text(session);
        assert_true(rv == CKR_DEVICE_ERROR || rv == CKR_FUNCTION_FAILED);
    }
}

/* The connection breaks after the appliance signed and before it answered. */
static void a_lost_answer_is_asked_for_again_with_the_same_key(void **state)
{
    (void)state;
    fake_next(fake, "/sign", FAKE_DROP, 0, "");
    fake_next(fake, "/sign", FAKE_DROP, 0, "");
    assert_int_equal(sign_text(session_made()), CKR_OK);
    assert_int_equal(fake_signings(fake), 1);
    assert_int_equal(fake_seen_of(fake, SIGN), 3);
    assert_int_equal(strlen(fake_last(fake, SIGN, 0).key), 36);
    assert_string_equal(fake_last(fake, SIGN, 0).key, fake_last(fake, SIGN, 1).key);
    assert_string_equal(fake_last(fake, SIGN, 0).key, fake_last(fake, SIGN, 2).key);
}

static void later_is_taken_at_its_word_with_the_same_key(void **state)
{
    (void)state;
    fake_next(fake, "/sign", FAKE_STATUS, 503, "Retry-After: 1\r\n" PROBLEM("bulkhead_saturated", ""));
    fake_next(fake, "/sign", FAKE_STATUS, 409, PROBLEM("idempotency_in_progress", ""));
    assert_int_equal(sign_text(session_made()), CKR_OK);
    assert_int_equal(fake_signings(fake), 1);
    assert_int_equal(fake_seen_of(fake, SIGN), 3);
    assert_string_equal(fake_last(fake, SIGN, 0).key, fake_last(fake, SIGN, 2).key);
}

/* Nobody answers under that key any more for a long time; the signature is in the list of operations. */
static void what_a_dead_process_had_signed_is_found_in_the_list(void **state)
{
    (void)state;
    CK_BYTE signature[512];
    CK_ULONG len = 0;
    CK_SESSION_HANDLE session = session_made();
    fake_next(fake, "/sign", FAKE_VANISH, 0, "");
    fake_next(fake, "/operations", FAKE_STATUS, 503, PROBLEM("store_unavailable", ""));
    assert_int_equal(sign(session, CKM_ECDSA_SHA256, "ec-key", span_text("text"), signature, &len), CKR_OK);
    assert_int_equal(fake_signings(fake), 1);
    assert_true(fake_seen_of(fake, "/operations?mode=key&key_id=" FAKE_EC_ID "&state=completed") > 0);
    fake_reset(fake);
    fake_next(fake, "/sign", FAKE_VANISH, 0, "");
    assert_int_equal(sign(session, CKM_SHA384_RSA_PKCS, "rsa-key", span_text("text"), signature, &len), CKR_OK);
    assert_int_equal(fake_signings(fake), 1);
}

/* The right digest (of "text"), artifact type and encoding: by whom, and when, still decides. */
#define SIGNED(by, when)                                                                                     \
    "{\"signature\":\"AAAA\",\"digest\":\"mC2ePrmW9VnmM/TRlN7zdh2Qn1o7ZH0ahR/q1nwyydE=\",\"artifact_type\":" \
    "\"pkcs11\",\"signature_encoding\":\"ecdsa-der\",\"principal\":\"" by "\",\"created_at\":\"" when "\"}"

static void what_others_signed_is_not_taken_for_ours(void **state)
{
    (void)state;
    again_with("SVC_PKCS11_TIMEOUT", "2s");
    static const char *const others[] = {
        "",
        "{\"signature\":\"AAAA\"}",
        "{\"signature\":\"AAAA\",\"digest\":\"AAAA\",\"created_at\":\"2999-01-01T00:00:00Z\"}",
        SIGNED("builder", "2020-01-01T00:00:00Z"),
        SIGNED("somebody-else", "2999-01-01T00:00:00Z"),
    };
    CK_SESSION_HANDLE session = session_made();
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        fake_reset(fake);
        fake_next(fake, "/sign", FAKE_VANISH, 0, "");
        for (int k = 0; k < 14; k++) {
            char page[512];
            (void)snprintf(page, sizeof(page), "{\"items\":[%s]}", others[i]);
            fake_next(fake, "/operations", FAKE_GARBAGE, 200, page);
        }
        assert_int_equal(sign_text(session), CKR_FUNCTION_FAILED);
        assert_true(log_says("idempotency_in_progress"));
    }
}

static void there_is_an_end_to_repeating(void **state)
{
    (void)state;
    again_with("SVC_PKCS11_TIMEOUT", "2s");
    for (int i = 0; i < 10; i++) {
        fake_next(fake, "/sign", FAKE_STATUS, 503, PROBLEM("signer_unavailable", ""));
    }
    assert_int_equal(sign_text(session_made()), CKR_DEVICE_ERROR);
    assert_int_equal(fake_signings(fake), 0);
    assert_true(log_says("signer_unavailable"));
}

static void what_changed_since_the_preview_is_previewed_again(void **state)
{
    (void)state;
    fake_next(fake, "/sign", FAKE_STATUS, 409, PROBLEM("preview_changed", ""));
    assert_int_equal(sign_text(session_made()), CKR_OK);
    assert_int_equal(fake_seen_of(fake, "/preview"), 2);
    assert_int_equal(fake_signings(fake), 1);
    assert_string_not_equal(fake_last(fake, SIGN, 0).key, fake_last(fake, SIGN, 1).key);
    fake_next(fake, "/sign", FAKE_STATUS, 409, PROBLEM("preview_changed", ""));
    fake_next(fake, "/sign", FAKE_STATUS, 409, PROBLEM("preview_changed", ""));
    assert_int_equal(sign_text(session_made()), CKR_FUNCTION_FAILED);
}

static void an_approval_is_waited_for_when_the_settings_say_so(void **state)
{
    (void)state;
    again_with("SVC_PKCS11_APPROVAL_WAIT", "60s");
    fake_next(fake, "/sign", FAKE_STATUS, 403, PROBLEM("approval_required", ",\"resource\":\"the-resource\""));
    fake_approval(fake, "approved");
    assert_int_equal(sign_text(session_made()), CKR_OK);
    assert_int_equal(fake_signings(fake), 1);
    assert_true(log_says("waiting up to 60 s for the approval of resource the-resource"));
    again_with("SVC_PKCS11_APPROVAL_WAIT", "1s");
    fake_approval(fake, "pending");
    fake_next(fake, "/sign", FAKE_STATUS, 403, PROBLEM("approval_required", ",\"resource\":\"the-resource\""));
    assert_int_equal(sign_text(session_made()), CKR_FUNCTION_REJECTED);
    assert_int_equal(fake_signings(fake), 1);
}

static void a_question_about_the_length_asks_nobody(void **state)
{
    (void)state;
    CK_OBJECT_HANDLE key = 0;
    CK_BYTE signature[512];
    CK_ULONG len = 0;
    char text[] = "text";
    CK_SESSION_HANDLE session = session_made();
    assert_int_equal(find(session, CKO_PRIVATE_KEY, "ec-key", &key), CKR_OK);
    assert_int_equal(p11->C_SignInit(session, &(CK_MECHANISM){ CKM_ECDSA_SHA256, NULL, 0 }, key), CKR_OK);
    assert_int_equal(p11->C_SignInit(session, &(CK_MECHANISM){ CKM_ECDSA_SHA256, NULL, 0 }, key), CKR_OPERATION_ACTIVE);
    assert_int_equal(p11->C_Sign(session, (CK_BYTE *)text, 4, NULL, &len), CKR_OK);
    assert_int_equal(len, 64);
    len = 63;
    assert_int_equal(p11->C_Sign(session, (CK_BYTE *)text, 4, signature, &len), CKR_BUFFER_TOO_SMALL);
    assert_int_equal(len, 64);
    assert_int_equal(fake_seen_of(fake, "code-signing"), 0);
    assert_int_equal(p11->C_Sign(session, (CK_BYTE *)text, 4, signature, &len), CKR_OK);
    assert_int_equal(p11->C_Sign(session, (CK_BYTE *)text, 4, signature, &len), CKR_OPERATION_NOT_INITIALIZED);
    assert_int_equal(fake_signings(fake), 1);
}

static void what_is_no_digest_is_refused_here(void **state)
{
    (void)state;
    CK_BYTE data[300] = { 0 }, signature[512];
    CK_ULONG len = 0;
    CK_SESSION_HANDLE session = session_made();
    assert_int_equal(sign(session, CKM_ECDSA, "ec-key", span_of(data, 20), signature, &len), CKR_DATA_LEN_RANGE);
    assert_int_equal(sign(session, CKM_ECDSA, "ec-key", span_of(data, 300), signature, &len), CKR_DATA_LEN_RANGE);
    assert_int_equal(sign(session, CKM_RSA_PKCS, "rsa-key", span_of(data, 32), signature, &len), CKR_DATA_INVALID);
    assert_true(log_says("a DigestInfo of SHA-256"));
    assert_int_equal(fake_seen_of(fake, "code-signing"), 0);
}

static void keys_do_only_what_they_are_for(void **state)
{
    (void)state;
    CK_OBJECT_HANDLE private_key = 0, public_key = 0;
    CK_MECHANISM ecdsa = { CKM_ECDSA, NULL, 0 }, rsa = { CKM_RSA_PKCS, NULL, 0 }, sha = { CKM_SHA256, NULL, 0 };
    CK_SESSION_HANDLE session = session_made();
    assert_int_equal(find(session, CKO_PRIVATE_KEY, "ec-key", &private_key), CKR_OK);
    assert_int_equal(find(session, CKO_PUBLIC_KEY, "ec-key", &public_key), CKR_OK);
    assert_int_equal(p11->C_SignInit(session, &ecdsa, public_key), CKR_KEY_FUNCTION_NOT_PERMITTED);
    assert_int_equal(p11->C_VerifyInit(session, &ecdsa, private_key), CKR_KEY_FUNCTION_NOT_PERMITTED);
    assert_int_equal(p11->C_SignInit(session, &rsa, private_key), CKR_KEY_TYPE_INCONSISTENT);
    assert_int_equal(p11->C_SignInit(session, &sha, private_key), CKR_MECHANISM_INVALID);
    assert_int_equal(p11->C_SignInit(session, &ecdsa, 4711), CKR_KEY_HANDLE_INVALID);
}

/* Signs in parts and verifies in the module, for every mechanism. */
static void check_round(CK_SESSION_HANDLE session, CK_MECHANISM *mechanism, const char *label, struct span data)
{
    CK_OBJECT_HANDLE private_key = 0, public_key = 0;
    CK_BYTE signature[512];
    CK_ULONG len = sizeof(signature);
    assert_int_equal(find(session, CKO_PRIVATE_KEY, label, &private_key), CKR_OK);
    assert_int_equal(find(session, CKO_PUBLIC_KEY, label, &public_key), CKR_OK);
    assert_int_equal(p11->C_SignInit(session, mechanism, private_key), CKR_OK);
    assert_int_equal(p11->C_SignUpdate(session, (CK_BYTE *)data.at, data.len / 2), CKR_OK);
    assert_int_equal(p11->C_SignUpdate(session, (CK_BYTE *)data.at + data.len / 2, data.len - data.len / 2), CKR_OK);
    assert_int_equal(p11->C_SignFinal(session, signature, &len), CKR_OK);
    assert_int_equal(p11->C_VerifyInit(session, mechanism, public_key), CKR_OK);
    assert_int_equal(p11->C_Verify(session, (CK_BYTE *)data.at, data.len, signature, len), CKR_OK);
    assert_int_equal(p11->C_VerifyInit(session, mechanism, public_key), CKR_OK);
    assert_int_equal(p11->C_VerifyUpdate(session, (CK_BYTE *)data.at, data.len), CKR_OK);
    assert_int_equal(p11->C_VerifyFinal(session, signature, len - 1), CKR_SIGNATURE_LEN_RANGE);
    signature[len / 2] ^= 1;
    assert_int_equal(p11->C_VerifyInit(session, mechanism, public_key), CKR_OK);
    assert_int_equal(p11->C_Verify(session, (CK_BYTE *)data.at, data.len, signature, len), CKR_SIGNATURE_INVALID);
}

static void every_mechanism_signs_and_verifies(void **state)
{
    (void)state;
    static const uint8_t info[51] = { 0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01,
                                      0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04, 0x20, 1 };
    static const uint8_t digest[64] = { 1, 2, 3 };
    CK_RSA_PKCS_PSS_PARAMS pss[] = { { CKM_SHA256, CKG_MGF1_SHA256, 32 },
                                     { CKM_SHA384, CKG_MGF1_SHA384, 48 },
                                     { CKM_SHA512, CKG_MGF1_SHA512, 64 } };
    const struct {
        CK_MECHANISM mechanism;
        const char *label;
        struct span data;
    } rows[] = {
        { { CKM_ECDSA, NULL, 0 }, "ec-key", span_of(digest, 32) },
        { { CKM_ECDSA, NULL, 0 }, "ec-key", span_of(digest, 48) },
        { { CKM_ECDSA, NULL, 0 }, "ec-key", span_of(digest, 64) },
        { { CKM_ECDSA_SHA256, NULL, 0 }, "ec-key", span_text("text") },
        { { CKM_ECDSA_SHA384, NULL, 0 }, "ec-key", span_text("text") },
        { { CKM_ECDSA_SHA512, NULL, 0 }, "ec-key", span_text("text") },
        { { CKM_RSA_PKCS, NULL, 0 }, "rsa-key", SPAN_ARRAY(info) },
        { { CKM_SHA256_RSA_PKCS, NULL, 0 }, "rsa-key", span_text("text") },
        { { CKM_SHA384_RSA_PKCS, NULL, 0 }, "rsa-key", span_text("text") },
        { { CKM_SHA512_RSA_PKCS, NULL, 0 }, "rsa-key", span_text("") },
        { { CKM_RSA_PKCS_PSS, &pss[0], sizeof(pss[0]) }, "rsa-key", span_of(digest, 32) },
        { { CKM_SHA256_RSA_PKCS_PSS, &pss[0], sizeof(pss[0]) }, "rsa-key", span_text("text") },
        { { CKM_SHA384_RSA_PKCS_PSS, &pss[1], sizeof(pss[1]) }, "rsa-key", span_text("text") },
        { { CKM_SHA512_RSA_PKCS_PSS, &pss[2], sizeof(pss[2]) }, "rsa-key", span_text("text") },
    };
    CK_SESSION_HANDLE session = session_made();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CK_MECHANISM mechanism = rows[i].mechanism;
        check_round(session, &mechanism, rows[i].label, rows[i].data);
    }
    assert_int_equal(fake_signings(fake), COUNT_OF(rows));
}

static void a_token_file_that_is_renewed_is_taken(void **state)
{
    (void)state;
    CK_SESSION_HANDLE session = session_made();
    assert_int_equal(sign_text(session), CKR_OK);
    assert_string_equal(fake_last(fake, SIGN, 0).token, "a-token");
    assert_fault(file_write(fake->token_file, span_text("another"), 0600), NONE);
    assert_int_equal(sign_text(session), CKR_OK);
    assert_string_equal(fake_last(fake, SIGN, 0).token, "another");
    assert_fault(file_write(fake->token_file, span_text("a-token\n"), 0600), NONE);
}

static void keys_that_are_not_asked_for_are_not_shown(void **state)
{
    (void)state;
    CK_OBJECT_HANDLE object = 0;
    again_with("SVC_PKCS11_KEYS", "something, " FAKE_RSA_ID);
    CK_SESSION_HANDLE session = session_made();
    assert_int_equal(find(session, CKO_PRIVATE_KEY, "ec-key", &object), CKR_OBJECT_HANDLE_INVALID);
    assert_int_equal(find(session, CKO_PRIVATE_KEY, "rsa-key", &object), CKR_OK);
    again_with("SVC_PKCS11_KEYS", "ec-key");
    session = session_made();
    assert_int_equal(find(session, CKO_PRIVATE_KEY, "ec-key", &object), CKR_OK);
    assert_int_equal(find(session, CKO_PRIVATE_KEY, "rsa-key", &object), CKR_OBJECT_HANDLE_INVALID);
}

static void the_list_is_asked_for_once_in_a_while_and_after_doubt(void **state)
{
    (void)state;
    CK_OBJECT_HANDLE before = 0, after = 0;
    CK_SESSION_HANDLE session = session_made();
    assert_int_equal(find(session, CKO_PRIVATE_KEY, "ec-key", &before), CKR_OK);
    assert_int_equal(find(session, CKO_PRIVATE_KEY, "ec-key", &after), CKR_OK);
    assert_int_equal(fake_seen_of(fake, "/keys"), 2); /* its two pages */
    fake_next(fake, "/sign", FAKE_STATUS, 404, PROBLEM("key_not_found", ""));
    assert_int_equal(sign_text(session), CKR_KEY_HANDLE_INVALID);
    assert_int_equal(find(session, CKO_PRIVATE_KEY, "ec-key", &after), CKR_OK);
    assert_int_equal(fake_seen_of(fake, "/keys"), 4);
    assert_int_equal(before, after);
}

static void a_child_signs_on_connections_of_its_own(void **state)
{
    (void)state;
    int status = 0;
    CK_SESSION_HANDLE session = session_made();
    assert_int_equal(sign_text(session), CKR_OK);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        bool fine = p11->C_Initialize(NULL) == CKR_OK && sign_text(session_made()) == CKR_OK;
        _exit(fine && p11->C_Finalize(NULL) == CKR_OK ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    size_t connections = fake_connections(fake);
    assert_int_equal(sign_text(session), CKR_OK);
    assert_int_equal(fake_connections(fake), connections); /* the parent's one still stands */
    assert_int_equal(fake_signings(fake), 3);
}

struct finalizing {
    CK_RV rv;
};

static void *sign_slowly(void *arg)
{
    struct finalizing *finalizing = arg;
    finalizing->rv = sign_text(session_made());
    return NULL;
}

static void finalizing_takes_nothing_away_from_under_a_call(void **state)
{
    (void)state;
    struct finalizing finalizing = { 0 };
    pthread_t thread;
    fake_next(fake, "/sign", FAKE_STATUS, 503, "Retry-After: 1\r\n" PROBLEM("bulkhead_saturated", ""));
    assert_int_equal(pthread_create(&thread, NULL, sign_slowly, &finalizing), 0);
    while (fake_seen_of(fake, SIGN) == 0) {
        (void)sched_yield();
    }
    assert_int_equal(p11->C_Finalize(NULL), CKR_OK);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(finalizing.rv, CKR_OK); /* it was under way */
    assert_int_equal(p11->C_Initialize(NULL), CKR_OK);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(refusals_have_a_code_of_their_own_and_a_line),
        TEST(a_refused_preview_is_never_executed),
        TEST(control_characters_of_an_answer_stay_out_of_the_log),
        TEST(a_signature_that_does_not_verify_is_not_handed_out),
        TEST(answers_that_are_nonsense_are_told_as_such),
        TEST(a_lost_answer_is_asked_for_again_with_the_same_key),
        TEST(later_is_taken_at_its_word_with_the_same_key),
        TEST(what_a_dead_process_had_signed_is_found_in_the_list),
        TEST(what_others_signed_is_not_taken_for_ours),
        TEST(there_is_an_end_to_repeating),
        TEST(what_changed_since_the_preview_is_previewed_again),
        TEST(an_approval_is_waited_for_when_the_settings_say_so),
        TEST(a_question_about_the_length_asks_nobody),
        TEST(what_is_no_digest_is_refused_here),
        TEST(keys_do_only_what_they_are_for),
        TEST(every_mechanism_signs_and_verifies),
        TEST(a_token_file_that_is_renewed_is_taken),
        TEST(keys_that_are_not_asked_for_are_not_shown),
        TEST(the_list_is_asked_for_once_in_a_while_and_after_doubt),
        TEST(a_child_signs_on_connections_of_its_own),
        TEST(finalizing_takes_nothing_away_from_under_a_call),
    };
    return cmocka_run_group_tests_name("pkcs11_signing", tests, start_fake, stop_fake);
}
