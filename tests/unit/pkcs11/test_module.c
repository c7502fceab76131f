/* The rules of PKCS#11 2.40 that need no appliance: initializing, forks, sessions, arguments, hashing. The appliance of
 * these tests is a port where nobody listens. */
#include "tests/testlib.h"

#include "appliance/base/codec.h"
#include "appliance/base/file.h"

#include <p11-kit/pkcs11.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static CK_FUNCTION_LIST *p11;

static int set_up(void **state)
{
    (void)state;
    assert_int_equal(setenv("SVC_BASE_URL", "https://127.0.0.1:1/", 1), 0);
    assert_int_equal(setenv("SVC_TOKEN", "a-token", 1), 0);
    assert_int_equal(setenv("SVC_PKCS11_LOG", "/dev/null", 1), 0);
    assert_int_equal(setenv("SVC_PKCS11_TIMEOUT", "1s", 1), 0);
    assert_int_equal(unsetenv("SVC_PKCS11_CONFIG"), 0);
    assert_int_equal(C_GetFunctionList(&p11), CKR_OK);
    return 0;
}

static CK_SESSION_HANDLE session_made(void)
{
    CK_SESSION_HANDLE session = 0;
    assert_int_equal(p11->C_OpenSession(0, CKF_SERIAL_SESSION, NULL, NULL, &session), CKR_OK);
    assert_int_not_equal(session, 0);
    return session;
}

static void start(void)
{
    assert_int_equal(p11->C_Initialize(NULL), CKR_OK);
}

static void stop(void)
{
    assert_int_equal(p11->C_Finalize(NULL), CKR_OK);
}

static void nothing_works_before_it_is_initialized(void **state)
{
    (void)state;
    CK_INFO info;
    CK_SLOT_ID slot;
    CK_ULONG count = 1;
    CK_SESSION_HANDLE session;
    uint8_t bytes[64];
    CK_ULONG len = sizeof(bytes);
    CK_RV answers[] = {
        p11->C_Finalize(NULL),
        p11->C_GetInfo(&info),
        p11->C_GetSlotList(CK_TRUE, &slot, &count),
        p11->C_OpenSession(0, CKF_SERIAL_SESSION, NULL, NULL, &session),
        p11->C_CloseSession(1),
        p11->C_CloseAllSessions(0),
        p11->C_FindObjectsInit(1, NULL, 0),
        p11->C_Login(1, CKU_USER, NULL, 0),
        p11->C_Sign(1, bytes, 1, bytes, &len),
    };
    for (size_t i = 0; i < COUNT_OF(answers); i++) {
        assert_int_equal(answers[i], CKR_CRYPTOKI_NOT_INITIALIZED);
    }
}

static void settings_that_are_missing_or_wrong_stop_it(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value;
    } bad[] = {
        { "SVC_BASE_URL", "" },
        { "SVC_BASE_URL", "http://127.0.0.1" },
        { "SVC_BASE_URL", "https://" },
        { "SVC_BASE_URL", "https:///" },
        { "SVC_BASE_URL", "https://a\nb" },
        { "SVC_PKCS11_TIMEOUT", "soon" },
        { "SVC_PKCS11_TIMEOUT", "0s" },
        { "SVC_PKCS11_TIMEOUT", "1h" },
        { "SVC_PKCS11_APPROVAL_WAIT", "-1s" },
        { "SVC_PKCS11_CONFIG", "/nowhere/at/all" },
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_int_equal(setenv(bad[i].name, bad[i].value, 1), 0);
        assert_int_equal(p11->C_Initialize(NULL), CKR_GENERAL_ERROR);
        assert_int_equal(unsetenv(bad[i].name), 0);
        set_up(NULL);
    }
    assert_int_equal(unsetenv("SVC_PKCS11_APPROVAL_WAIT"), 0);
}

static CK_RV mutex_made(CK_VOID_PTR_PTR mutex)
{
    *mutex = NULL;
    return CKR_OK;
}

static CK_RV mutex_used(CK_VOID_PTR mutex)
{
    (void)mutex;
    return CKR_OK;
}

static void locking_that_the_module_cannot_do_is_refused(void **state)
{
    (void)state;
    int reserved = 0;
    CK_C_INITIALIZE_ARGS all = { mutex_made, mutex_used, mutex_used, mutex_used, 0, NULL };
    CK_C_INITIALIZE_ARGS some = { mutex_made, NULL, mutex_used, mutex_used, CKF_OS_LOCKING_OK, NULL };
    CK_C_INITIALIZE_ARGS odd = { NULL, NULL, NULL, NULL, CKF_OS_LOCKING_OK, &reserved };
    CK_C_INITIALIZE_ARGS threadless = { NULL, NULL, NULL, NULL, CKF_LIBRARY_CANT_CREATE_OS_THREADS, NULL };
    assert_int_equal(p11->C_Initialize(&all), CKR_CANT_LOCK);
    assert_int_equal(p11->C_Initialize(&some), CKR_ARGUMENTS_BAD);
    assert_int_equal(p11->C_Initialize(&odd), CKR_ARGUMENTS_BAD);
    assert_int_equal(p11->C_Initialize(&threadless), CKR_NEED_TO_CREATE_THREADS);
    all.flags = CKF_OS_LOCKING_OK;
    assert_int_equal(p11->C_Initialize(&all), CKR_OK);
    assert_int_equal(p11->C_Initialize(NULL), CKR_CRYPTOKI_ALREADY_INITIALIZED);
    assert_int_equal(p11->C_Finalize(&reserved), CKR_ARGUMENTS_BAD);
    stop();
    assert_int_equal(p11->C_Finalize(NULL), CKR_CRYPTOKI_NOT_INITIALIZED);
}

static void missing_pointers_are_refused(void **state)
{
    (void)state;
    start();
    CK_SESSION_HANDLE session = session_made();
    assert_int_equal(C_GetFunctionList(NULL), CKR_ARGUMENTS_BAD);
    assert_int_equal(p11->C_GetInfo(NULL), CKR_ARGUMENTS_BAD);
    assert_int_equal(p11->C_GetSlotList(CK_TRUE, NULL, NULL), CKR_ARGUMENTS_BAD);
    assert_int_equal(p11->C_GetSlotInfo(0, NULL), CKR_ARGUMENTS_BAD);
    assert_int_equal(p11->C_GetTokenInfo(0, NULL), CKR_ARGUMENTS_BAD);
    assert_int_equal(p11->C_GetMechanismList(0, NULL, NULL), CKR_ARGUMENTS_BAD);
    assert_int_equal(p11->C_GetMechanismInfo(0, CKM_ECDSA, NULL), CKR_ARGUMENTS_BAD);
    assert_int_equal(p11->C_OpenSession(0, CKF_SERIAL_SESSION, NULL, NULL, NULL), CKR_ARGUMENTS_BAD);
    assert_int_equal(p11->C_GetSessionInfo(session, NULL), CKR_ARGUMENTS_BAD);
    assert_int_equal(p11->C_Login(session, CKU_USER, NULL, 4), CKR_ARGUMENTS_BAD);
    assert_int_equal(p11->C_FindObjectsInit(session, NULL, 1), CKR_ARGUMENTS_BAD);
    assert_int_equal(p11->C_FindObjects(session, NULL, 1, NULL), CKR_ARGUMENTS_BAD);
    assert_int_equal(p11->C_GetAttributeValue(session, 1, NULL, 0), CKR_ARGUMENTS_BAD);
    assert_int_equal(p11->C_DigestInit(session, NULL), CKR_ARGUMENTS_BAD);
    assert_int_equal(p11->C_SignInit(session, NULL, 1), CKR_ARGUMENTS_BAD);
    assert_int_equal(p11->C_VerifyInit(session, NULL, 1), CKR_ARGUMENTS_BAD);
    CK_ATTRIBUTE hollow = { CKA_LABEL, NULL, 3 };
    assert_int_equal(p11->C_FindObjectsInit(session, &hollow, 1), CKR_ARGUMENTS_BAD);
    stop();
}

static void handles_slots_and_flags_that_do_not_exist_are_refused(void **state)
{
    (void)state;
    CK_SESSION_INFO info;
    CK_SLOT_INFO slot;
    CK_TOKEN_INFO token;
    CK_ULONG count = 0;
    CK_MECHANISM_INFO mechanism;
    CK_SESSION_HANDLE session = 0;
    start();
    assert_int_equal(p11->C_GetSessionInfo(0, &info), CKR_SESSION_HANDLE_INVALID);
    assert_int_equal(p11->C_GetSessionInfo((CK_ULONG)-1, &info), CKR_SESSION_HANDLE_INVALID);
    assert_int_equal(p11->C_CloseSession(77), CKR_SESSION_HANDLE_INVALID);
    assert_int_equal(p11->C_GetSlotInfo(1, &slot), CKR_SLOT_ID_INVALID);
    assert_int_equal(p11->C_GetTokenInfo(1, &token), CKR_SLOT_ID_INVALID);
    assert_int_equal(p11->C_GetMechanismList(1, NULL, &count), CKR_SLOT_ID_INVALID);
    assert_int_equal(p11->C_GetMechanismInfo(0, CKM_AES_CBC, &mechanism), CKR_MECHANISM_INVALID);
    assert_int_equal(p11->C_CloseAllSessions(1), CKR_SLOT_ID_INVALID);
    assert_int_equal(p11->C_OpenSession(1, CKF_SERIAL_SESSION, NULL, NULL, &session), CKR_SLOT_ID_INVALID);
    assert_int_equal(p11->C_OpenSession(0, 0, NULL, NULL, &session), CKR_SESSION_PARALLEL_NOT_SUPPORTED);
    assert_int_equal(p11->C_OpenSession(0, CKF_SERIAL_SESSION | CKF_RW_SESSION, NULL, NULL, &session),
                     CKR_TOKEN_WRITE_PROTECTED);
    session = session_made();
    assert_int_equal(p11->C_CloseSession(session), CKR_OK);
    assert_int_equal(p11->C_GetSessionInfo(session, &info), CKR_SESSION_HANDLE_INVALID);
    assert_int_not_equal(session_made(), session); /* no handle comes again */
    assert_int_equal(p11->C_SignInit(session_made(), &(CK_MECHANISM){ CKM_ECDSA, NULL, 0 }, 1), CKR_KEY_HANDLE_INVALID);
    stop();
}

static void there_is_an_end_to_sessions(void **state)
{
    (void)state;
    CK_TOKEN_INFO token;
    CK_SESSION_HANDLE session = 0;
    CK_ULONG opened = 0;
    CK_RV rv = CKR_OK;
    start();
    while (rv == CKR_OK && opened < 100000) {
        rv = p11->C_OpenSession(0, CKF_SERIAL_SESSION, NULL, NULL, &session);
        opened += rv == CKR_OK;
    }
    assert_int_equal(rv, CKR_SESSION_COUNT);
    assert_int_equal(p11->C_GetTokenInfo(0, &token), CKR_OK);
    assert_int_equal(token.ulSessionCount, opened);
    assert_int_equal(token.ulMaxSessionCount, opened);
    assert_int_equal(p11->C_CloseAllSessions(0), CKR_OK);
    (void)session_made();
    stop();
}

static void what_the_token_does_not_do_is_not_supported(void **state)
{
    (void)state;
    CK_MECHANISM mechanism = { CKM_AES_CBC, NULL, 0 };
    CK_OBJECT_HANDLE object = 0;
    uint8_t bytes[8] = { 0 };
    start();
    CK_SESSION_HANDLE session = session_made();
    CK_RV answers[] = {
        p11->C_InitToken(0, bytes, 1, bytes),
        p11->C_InitPIN(session, bytes, 1),
        p11->C_SetPIN(session, bytes, 1, bytes, 1),
        p11->C_CreateObject(session, NULL, 0, &object),
        p11->C_DestroyObject(session, 1),
        p11->C_SetAttributeValue(session, 1, NULL, 0),
        p11->C_EncryptInit(session, &mechanism, 1),
        p11->C_DecryptInit(session, &mechanism, 1),
        p11->C_GenerateKey(session, &mechanism, NULL, 0, &object),
        p11->C_GenerateKeyPair(session, &mechanism, NULL, 0, NULL, 0, &object, &object),
        p11->C_WrapKey(session, &mechanism, 1, 1, bytes, NULL),
        p11->C_DeriveKey(session, &mechanism, 1, NULL, 0, &object),
        p11->C_GenerateRandom(session, bytes, 1),
        p11->C_SignRecoverInit(session, &mechanism, 1),
    };
    for (size_t i = 0; i < COUNT_OF(answers); i++) {
        assert_int_equal(answers[i], CKR_FUNCTION_NOT_SUPPORTED);
    }
    assert_int_equal(p11->C_GetFunctionStatus(session), CKR_FUNCTION_NOT_PARALLEL);
    stop();
}

static void every_place_of_the_table_is_taken(void **state)
{
    (void)state;
    void *const *entries = (void *const *)&p11->C_Initialize;
    size_t count = (sizeof(*p11) - offsetof(CK_FUNCTION_LIST, C_Initialize)) / sizeof(*entries);
    assert_int_equal(count, 68);
    for (size_t i = 0; i < count; i++) {
        assert_non_null(entries[i]);
    }
    assert_int_equal(p11->version.major, 2);
    assert_int_equal(p11->version.minor, 40);
}

static void an_interface_of_another_name_or_version_is_refused(void **state)
{
    (void)state;
    CK_INTERFACE *interface = NULL;
    CK_VERSION three = { 3, 0 }, ours = { 2, 40 };
    char other[] = "Vendor", name[] = "PKCS 11";
    CK_ULONG count = 0;
    assert_int_equal(C_GetInterface(NULL, NULL, NULL, 0), CKR_ARGUMENTS_BAD);
    assert_int_equal(C_GetInterface((CK_UTF8CHAR *)other, NULL, &interface, 0), CKR_FUNCTION_FAILED);
    assert_int_equal(C_GetInterface(NULL, &three, &interface, 0), CKR_FUNCTION_FAILED);
    assert_null(interface);
    assert_int_equal(C_GetInterface((CK_UTF8CHAR *)name, &ours, &interface, 0), CKR_OK);
    assert_ptr_equal(interface->pFunctionList, p11);
    assert_int_equal(C_GetInterfaceList(NULL, NULL), CKR_ARGUMENTS_BAD);
    assert_int_equal(C_GetInterfaceList(NULL, &count), CKR_OK);
    assert_int_equal(count, 1);
}

static void a_login_is_kept_for_forms_sake(void **state)
{
    (void)state;
    char pin[] = "1234";
    CK_SESSION_INFO info;
    start();
    CK_SESSION_HANDLE session = session_made();
    assert_int_equal(p11->C_Login(session, CKU_SO, (CK_UTF8CHAR *)pin, 4), CKR_USER_TYPE_INVALID);
    assert_int_equal(p11->C_Login(session, CKU_CONTEXT_SPECIFIC, (CK_UTF8CHAR *)pin, 4), CKR_OPERATION_NOT_INITIALIZED);
    assert_int_equal(p11->C_Logout(session), CKR_USER_NOT_LOGGED_IN);
    assert_int_equal(p11->C_Login(session, CKU_USER, (CK_UTF8CHAR *)pin, 4), CKR_OK);
    assert_int_equal(p11->C_Login(session, CKU_USER, NULL, 0), CKR_USER_ALREADY_LOGGED_IN);
    assert_int_equal(p11->C_GetSessionInfo(session, &info), CKR_OK);
    assert_int_equal(info.state, CKS_RO_USER_FUNCTIONS);
    assert_int_equal(p11->C_CloseSession(session), CKR_OK);
    session = session_made(); /* the last session took the login with it */
    assert_int_equal(p11->C_GetSessionInfo(session, &info), CKR_OK);
    assert_int_equal(info.state, CKS_RO_PUBLIC_SESSION);
    stop();
}

static void digests_ask_their_length_and_end(void **state)
{
    (void)state;
    static const uint8_t want[] = { 0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea }; /* SHA-256 of "abc" */
    uint8_t digest[64];
    char text[] = "abc";
    CK_ULONG len = 0;
    CK_MECHANISM mechanism = { CKM_SHA256, NULL, 0 };
    start();
    CK_SESSION_HANDLE session = session_made();
    assert_int_equal(p11->C_Digest(session, (CK_BYTE *)text, 3, digest, &len), CKR_OPERATION_NOT_INITIALIZED);
    assert_int_equal(p11->C_DigestInit(session, &(CK_MECHANISM){ CKM_ECDSA_SHA256, NULL, 0 }), CKR_MECHANISM_INVALID);
    assert_int_equal(p11->C_DigestInit(session, &mechanism), CKR_OK);
    assert_int_equal(p11->C_DigestInit(session, &mechanism), CKR_OPERATION_ACTIVE);
    assert_int_equal(p11->C_Digest(session, (CK_BYTE *)text, 3, NULL, &len), CKR_OK);
    assert_int_equal(len, 32);
    len = 31;
    assert_int_equal(p11->C_Digest(session, (CK_BYTE *)text, 3, digest, &len), CKR_BUFFER_TOO_SMALL);
    assert_int_equal(len, 32);
    assert_int_equal(p11->C_Digest(session, (CK_BYTE *)text, 3, digest, &len), CKR_OK);
    assert_memory_equal(digest, want, sizeof(want));
    assert_int_equal(p11->C_Digest(session, (CK_BYTE *)text, 3, digest, &len), CKR_OPERATION_NOT_INITIALIZED);
    assert_int_equal(p11->C_DigestInit(session, &mechanism), CKR_OK);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(p11->C_DigestUpdate(session, (CK_BYTE *)text + i, 1), CKR_OK);
    }
    len = sizeof(digest);
    assert_int_equal(p11->C_DigestFinal(session, digest, &len), CKR_OK);
    assert_memory_equal(digest, want, sizeof(want));
    assert_int_equal(p11->C_DigestInit(session, &mechanism), CKR_OK);
    assert_int_equal(p11->C_DigestUpdate(session, NULL, 3), CKR_ARGUMENTS_BAD); /* and it is over */
    assert_int_equal(p11->C_DigestFinal(session, digest, &len), CKR_OPERATION_NOT_INITIALIZED);
    stop();
}

static void nobody_there_is_a_device_error(void **state)
{
    (void)state;
    start();
    CK_SESSION_HANDLE session = session_made();
    assert_int_equal(p11->C_FindObjectsInit(session, NULL, 0), CKR_DEVICE_ERROR);
    assert_int_equal(p11->C_FindObjectsFinal(session), CKR_OPERATION_NOT_INITIALIZED);
    stop();
}

static void a_token_file_that_others_may_read_is_refused(void **state)
{
    (void)state;
    char path[] = "/tmp/svc-token-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "token", 5), 5);
    fd_close(fd);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(setenv("SVC_TOKEN_FILE", path, 1), 0);
    start();
    assert_int_equal(p11->C_FindObjectsInit(session_made(), NULL, 0), CKR_GENERAL_ERROR);
    stop();
    assert_int_equal(unsetenv("SVC_TOKEN_FILE"), 0);
    assert_int_equal(unlink(path), 0);
}

static void no_token_at_all_is_like_not_being_logged_in(void **state)
{
    (void)state;
    assert_int_equal(unsetenv("SVC_TOKEN"), 0);
    start();
    assert_int_equal(p11->C_FindObjectsInit(session_made(), NULL, 0), CKR_USER_NOT_LOGGED_IN);
    stop();
    set_up(NULL);
}

/* The child's exit code is the first thing that was not as it should be. */
static int child_work(CK_SESSION_HANDLE session)
{
    CK_INFO info;
    CK_SESSION_INFO session_info;
    if (p11->C_GetInfo(&info) != CKR_CRYPTOKI_NOT_INITIALIZED) {
        return 1;
    }
    if (p11->C_GetSessionInfo(session, &session_info) != CKR_CRYPTOKI_NOT_INITIALIZED) {
        return 2;
    }
    if (p11->C_Initialize(NULL) != CKR_OK || p11->C_GetInfo(&info) != CKR_OK) {
        return 3;
    }
    if (p11->C_GetSessionInfo(session, &session_info) != CKR_SESSION_HANDLE_INVALID) {
        return 4;
    }
    return p11->C_Finalize(NULL) == CKR_OK ? 0 : 5;
}

static void a_fork_must_initialize_again_and_leaves_the_parent_alone(void **state)
{
    (void)state;
    CK_SESSION_INFO info;
    int status = 0;
    start();
    CK_SESSION_HANDLE session = session_made();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(child_work(session));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    assert_int_equal(p11->C_GetSessionInfo(session, &info), CKR_OK);
    stop();
}

static void *churn(void *arg)
{
    CK_MECHANISM mechanism = { CKM_SHA384, NULL, 0 };
    CK_SESSION_HANDLE shared = *(CK_SESSION_HANDLE *)arg;
    for (int i = 0; i < 300; i++) {
        uint8_t digest[64];
        CK_ULONG len = sizeof(digest);
        CK_SESSION_HANDLE own = session_made();
        assert_int_equal(p11->C_DigestInit(own, &mechanism), CKR_OK);
        assert_int_equal(p11->C_Digest(own, digest, 1, digest, &len), CKR_OK);
        (void)p11->C_DigestInit(shared, &mechanism); /* whoever comes first */
        (void)p11->C_Digest(shared, digest, 1, digest, &len);
        assert_int_equal(p11->C_CloseSession(own), CKR_OK);
    }
    return NULL;
}

static void threads_may_share_the_module_and_even_a_session(void **state)
{
    (void)state;
    pthread_t threads[4];
    start();
    CK_SESSION_HANDLE shared = session_made();
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, churn, &shared), 0);
    }
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    stop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_works_before_it_is_initialized),
        cmocka_unit_test(settings_that_are_missing_or_wrong_stop_it),
        cmocka_unit_test(locking_that_the_module_cannot_do_is_refused),
        cmocka_unit_test(missing_pointers_are_refused),
        cmocka_unit_test(handles_slots_and_flags_that_do_not_exist_are_refused),
        cmocka_unit_test(there_is_an_end_to_sessions),
        cmocka_unit_test(what_the_token_does_not_do_is_not_supported),
        cmocka_unit_test(every_place_of_the_table_is_taken),
        cmocka_unit_test(an_interface_of_another_name_or_version_is_refused),
        cmocka_unit_test(a_login_is_kept_for_forms_sake),
        cmocka_unit_test(digests_ask_their_length_and_end),
        cmocka_unit_test(nobody_there_is_a_device_error),
        cmocka_unit_test(a_token_file_that_others_may_read_is_refused),
        cmocka_unit_test(no_token_at_all_is_like_not_being_logged_in),
        cmocka_unit_test(a_fork_must_initialize_again_and_leaves_the_parent_alone),
        cmocka_unit_test(threads_may_share_the_module_and_even_a_session),
    };
    return cmocka_run_group_tests_name("pkcs11_module", tests, set_up, NULL);
}
