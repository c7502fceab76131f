/*
 * The doctor as its users run it: each run is a process of its own (forked, so that a hanging or crashing module takes
 * nothing along) whose JSON is read here. Odd tokens are those of tests/p11odd, failing ones those of tests/p11fault.
 */
#include "tests/unit/token/softhsm.h"

#include "appliance/base/file.h"
#include "signer-pkcs11/doctor/doctor.h"

#include <fcntl.h>
#include <p11-kit/pkcs11.h>
#include <signal.h>
#include <unistd.h>

#define WORDS_MAX 24
#define BUF(name) CLEANUP(buf_free) struct buf name = BUF_INIT(1 << 20)

static struct softhsm hsm;
static char pin_path[128], wrong_path[128], out_path[128], control_path[128], counts_path[128];

static int hsm_for_all(void **state)
{
    (void)state;
    softhsm_new(&hsm);
    (void)snprintf(pin_path, sizeof(pin_path), "%s/pin", hsm.folder);
    (void)snprintf(wrong_path, sizeof(wrong_path), "%s/wrong", hsm.folder);
    (void)snprintf(out_path, sizeof(out_path), "%s/out", hsm.folder);
    (void)snprintf(control_path, sizeof(control_path), "%s/control", hsm.folder);
    (void)snprintf(counts_path, sizeof(counts_path), "%s/counts", hsm.folder);
    assert_ok(file_write(pin_path, span_text(SOFTHSM_PIN "\n"), 0600));
    assert_ok(file_write(wrong_path, span_text("1234-wrong\n"), 0600));
    assert_int_equal(setenv("P11ODD_MODULE", TEST_MODULE, 1), 0);
    assert_int_equal(setenv("P11FAULT_CONTROL", control_path, 1), 0);
    assert_int_equal(setenv("P11FAULT_COUNTS", counts_path, 1), 0);
    return 0;
}

static int no_hsm_for_all(void **state)
{
    (void)state;
    softhsm_free(&hsm);
    return 0;
}

/* ---- running it ---- */

static pid_t start(const char *const *words)
{
    char *list[WORDS_MAX] = { 0 };
    int count = 0;
    for (; words[count] != NULL; count++) {
        list[count] = (char *)(uintptr_t)words[count];
    }
    (void)fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        secret_forked();
        int fd = open(out_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
        if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0) {
            _exit(99);
        }
        int code = (int)doctor_main(count, list);
        (void)fflush(NULL);
        _exit(code);
    }
    return pid;
}

static int ended(pid_t pid)
{
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Waits until a run through p11fault has made its first signature, so both halves of its first key are there. The token
 * itself is not asked: readers of SoftHSM's files that never pause keep its writers from their locks. */
static void await_first_signature(pid_t pid)
{
    BUF(out);
    for (const char *text = "";;) {
        buf_clear(&out);
        if (!FAULTED(file_read(counts_path, &out)) && memmem(out.at, out.len, "C_SignInit ", 11) != NULL) {
            return;
        }
        siginfo_t how = { 0 };
        assert_int_equal(waitid(P_PID, (id_t)pid, &how, WEXITED | WNOHANG | WNOWAIT), 0);
        if (how.si_pid == pid) {
            buf_clear(&out);
            assert_ok(file_read(out_path, &out));
            assert_ok(buf_cstr(&out, &text));
            fail_msg("it ended first: %s", text);
        }
        assert_int_equal(usleep(2000), 0);
    }
}

static const char *said(struct buf *out)
{
    const char *text = "";
    buf_clear(out);
    assert_ok(file_read(out_path, out));
    assert_ok(buf_cstr(out, &text));
    return text;
}

static void assert_says(const char *text, const char *what)
{
    if (strstr(text, what) == NULL) {
        fail_msg("'%s' is not in:\n%s", what, text);
    }
}

static int examine(const char *module, const char *pin, const char *const *more)
{
    const char *words[WORDS_MAX] = { "--json", "--module", module, "--label", SOFTHSM_LABEL, "--pin-file", pin };
    int count = 7;
    if (hsm.init_args[0] != '\0') {
        words[count++] = "--init-args";
        words[count++] = hsm.init_args;
    }
    for (; more != NULL && *more != NULL; more++) {
        words[count++] = *more;
    }
    return ended(start(words));
}

/* Through another module of the test's: are there no objects at all? */
static unsigned objects_left(void)
{
    CK_RV (*function_list)(CK_FUNCTION_LIST **) = NULL;
    CK_FUNCTION_LIST *raw = NULL;
    CK_SLOT_ID slots[8];
    CK_OBJECT_HANDLE found[16];
    CK_ULONG count = COUNT_OF(slots), objects = 0;
    CK_C_INITIALIZE_ARGS args = { .flags = CKF_OS_LOCKING_OK,
                                  .pReserved = hsm.init_args[0] != '\0' ? hsm.init_args : NULL };
    void *library = dlopen(TEST_MODULE, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    *(void **)&function_list = dlsym(library, "C_GetFunctionList");
    assert_int_equal(function_list(&raw), CKR_OK);
    assert_int_equal(raw->C_Initialize(&args), CKR_OK);
    assert_int_equal(raw->C_GetSlotList(CK_TRUE, slots, &count), CKR_OK);
    for (CK_ULONG i = 0; i < count; i++) {
        CK_TOKEN_INFO info;
        CK_SESSION_HANDLE session = 0;
        CK_OBJECT_CLASS classes[] = { CKO_PRIVATE_KEY, CKO_PUBLIC_KEY, CKO_SECRET_KEY };
        assert_int_equal(raw->C_GetTokenInfo(slots[i], &info), CKR_OK);
        if (memcmp(info.label, SOFTHSM_LABEL " ", sizeof(SOFTHSM_LABEL)) != 0) {
            continue;
        }
        assert_int_equal(raw->C_OpenSession(slots[i], CKF_SERIAL_SESSION, NULL, NULL, &session), CKR_OK);
        assert_int_equal(raw->C_Login(session, CKU_USER, (CK_BYTE *)(uintptr_t)SOFTHSM_PIN, strlen(SOFTHSM_PIN)),
                         CKR_OK);
        for (size_t k = 0; k < COUNT_OF(classes); k++) {
            CK_ATTRIBUTE wanted = { CKA_CLASS, &classes[k], sizeof(classes[k]) };
            CK_ULONG more = 0;
            assert_int_equal(raw->C_FindObjectsInit(session, &wanted, 1), CKR_OK);
            assert_int_equal(raw->C_FindObjects(session, found, COUNT_OF(found), &more), CKR_OK);
            assert_int_equal(raw->C_FindObjectsFinal(session), CKR_OK);
            objects += more;
        }
    }
    assert_int_equal(raw->C_Finalize(NULL), CKR_OK);
    assert_int_equal(dlclose(library), 0);
    return (unsigned)objects;
}

/* ---- words ---- */

static void words_that_make_no_sense_are_refused(void **state)
{
    (void)state;
    static const char *const bad[][6] = {
        { "--nonsense" },
        { "--module" },
        { "--module", "relative.so" },
        { "--label", "x" },
        { "--pin-file", "/etc/pin" },
        { "--module", "/x.so", "--token", "a" },
        { "--module", "/x.so", "--slot", "two" },
        { "--module", "/x.so", "--slot", "99999999999999999999" },
        { "--module", "/x.so", "--threads", "0" },
        { "--module", "/x.so", "--threads", "65" },
        { "--module", "/x.so", "--timeout", "0" },
        { "--module", "/x.so", "--login", "maybe" },
        { "--module", "/x.so", "--quirk", "no-such" },
        { "--config", "/nowhere/svc.yaml" },
        { "--explain", "CKR_NO_SUCH" },
        { "--explain", "0x" },
        { "--explain", "0xffffffffffffffffff" },
    };
    BUF(out);
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        int code = ended(start(bad[i]));
        if (code != DOCTOR_USAGE) {
            fail_msg("'%s %s' gave %d: %s", bad[i][0], bad[i][1] != NULL ? bad[i][1] : "", code, said(&out));
        }
        assert_true(said(&out)[0] != '\0');
    }
}

static void a_code_is_explained_by_name_and_by_number(void **state)
{
    (void)state;
    static const char *const forms[] = { "CKR_DEVICE_ERROR", "DEVICE_ERROR", "0x30", "0X30", "48" };
    BUF(out);
    for (size_t i = 0; i < COUNT_OF(forms); i++) {
        const char *const words[] = { "--explain", forms[i], NULL };
        assert_int_equal(ended(start(words)), DOCTOR_FINE);
        assert_says(said(&out), "CKR_DEVICE_ERROR (0x30)");
        assert_says(said(&out), "restart or replace the device");
    }
    const char *const vendor[] = { "--explain", "0x80000042", "--json", NULL };
    assert_int_equal(ended(start(vendor)), DOCTOR_FINE);
    assert_says(said(&out), "\"value\":\"0x80000042\"");
    const char *const all[] = { "--explain", NULL };
    assert_int_equal(ended(start(all)), DOCTOR_FINE);
    assert_says(said(&out), "CKR_PIN_LOCKED (0xa4)");
    assert_says(said(&out), "CKR_SESSION_COUNT (0xb1)");
}

/* ---- tokens that are not there ---- */

static void a_module_that_does_not_load_is_said(void **state)
{
    (void)state;
    BUF(out);
    assert_int_equal(examine("/nowhere/p11.so", pin_path, NULL), DOCTOR_FAILED);
    assert_says(said(&out), "{\"step\":\"load\",\"result\":\"failed\"");
    assert_says(said(&out), "/nowhere/p11.so");
}

static void a_token_that_is_not_there_is_said_after_the_slots(void **state)
{
    (void)state;
    BUF(out);
    const char *const words[] = { "--json", "--module", SOFTHSM_MODULE, "--label", "nobody", NULL };
    assert_int_equal(ended(start(words)), DOCTOR_FAILED);
    assert_says(said(&out), "labelled 'nobody'");
    assert_says(said(&out), "\"step\":\"slot ");
}

static void a_wrong_pin_is_shown_once_and_not_risked_again(void **state)
{
    (void)state;
    BUF(out);
    assert_int_equal(examine(TEST_MODULE, wrong_path, NULL), DOCTOR_FAILED);
    assert_says(said(&out), "the PIN is wrong");
    assert_null(strstr(said(&out), "1234"));
    assert_null(strstr(said(&out), "ec-p256"));
    assert_int_equal(examine(TEST_MODULE, wrong_path, NULL), DOCTOR_FAILED);
    if (test_token_is_nss()) { /* quirk no-pin-count */
        assert_says(said(&out), "the PIN is wrong");
    } else {
        assert_says(said(&out), "a wrong PIN was shown before");
        assert_null(strstr(said(&out), "\"step\":\"login\""));
    }
    assert_int_equal(objects_left(), 0); /* the right PIN also ends the counting */
}

static void a_pin_file_that_others_may_read_is_refused(void **state)
{
    (void)state;
    BUF(out);
    char path[160];
    (void)snprintf(path, sizeof(path), "%s/wide", hsm.folder);
    assert_ok(file_write(path, span_text(SOFTHSM_PIN), 0644));
    assert_int_equal(examine(TEST_MODULE, path, NULL), DOCTOR_FAILED);
    assert_says(said(&out), "mode 0600");
}

/* ---- tokens that are ---- */

static void a_good_token_is_fit_and_nothing_is_left(void **state)
{
    (void)state;
    BUF(out);
    int code = examine(TEST_MODULE, pin_path, NULL);
    const char *text = said(&out);
    if (code != DOCTOR_FINE) {
        fail_msg("%d: %s", code, text);
    }
    static const char *const steps[] = { "load",
                                         "C_Initialize",
                                         "C_GetInfo",
                                         "token",
                                         "CKM_AES_GCM",
                                         "PIN",
                                         "C_OpenSession",
                                         "C_GenerateRandom",
                                         "login",
                                         "ec-p256 generate",
                                         "ec-p256 find and show",
                                         "ec-p384 ECDSA SHA-512",
                                         "rsa-3072 PSS SHA-256",
                                         "rsa-4096 PKCS#1 SHA-512",
                                         "rsa-4096 destroy",
                                         "aes-256 seal and unseal",
                                         "threads" };
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        char wanted[96];
        (void)snprintf(wanted, sizeof(wanted), "{\"step\":\"%s\",\"result\":\"ok\"", steps[i]);
        assert_says(text, wanted);
    }
    assert_says(text, "{\"result\":\"ok\"");
    assert_says(text, "\"quirks\":{\"given\":\"\",\"needed\":\"\"}");
    assert_says(text, "\"operation\":\"rsa-3072 PSS SHA-256\"");
    assert_null(strstr(text, SOFTHSM_PIN));
    assert_int_equal(objects_left(), 0);
}

static void the_table_is_for_people(void **state)
{
    (void)state;
    BUF(out);
    const char *words[] = { "--module", TEST_MODULE, "--label",     SOFTHSM_LABEL, "--pin-file",
                            pin_path,   "--quick",   "--init-args", hsm.init_args, NULL };
    assert_int_equal(ended(start(words)), DOCTOR_FINE);
    assert_says(said(&out), "ok       ec-p256 generate\n");
    assert_says(said(&out), "The token is fit for the signer.");
    assert_says(said(&out), "p99 us");
}

static void the_configured_token_is_the_one_without_words(void **state)
{
    (void)state;
    BUF(out);
    char path[160], text[2048];
    (void)snprintf(path, sizeof(path), "%s/svc.yaml", hsm.folder);
    (void)snprintf(text, sizeof(text),
                   "fips: {required: false}\ndata_dir: %s\nsigner: {journal: %s}\n"
                   "token: {module: %s, label: " SOFTHSM_LABEL ", pin_file: %s, init_args: \"%s\"}\n",
                   hsm.folder, hsm.folder, TEST_MODULE, pin_path, hsm.init_args);
    assert_ok(file_write(path, span_text(text), 0600));
    const char *const words[] = { "--config", path, "--json", "--quick", NULL };
    if (ended(start(words)) != DOCTOR_FINE) {
        fail_msg("%s", said(&out));
    }
    const char *const none[] = { "--config", path, "--token", "another", NULL };
    assert_int_equal(ended(start(none)), DOCTOR_USAGE);
    assert_says(said(&out), "no token is named another");
}

static void an_odd_token_gets_the_words_that_it_needs(void **state)
{
    (void)state;
    NEEDS_SOFTHSM; /* the same oddities on both: one is enough */
    static const struct {
        const char *odd, *needed;
    } rows[] = {
        { "no-derive", "\"needed\":\"omit:CKA_DERIVE\"" },
        { "params-name", "\"needed\":\"ec-params-name\"" },
        { "short-labels", "\"needed\":\"short-labels\"" },
        { "text-ids", "\"needed\":\"id-text\"" },
        { "no-ids", "\"needed\":\"id-none\"" },
        { "want-field", "\"needed\":\"ecdsa-pad\"" },
        { "no-pss", "\"needed\":\"pss-raw\"" },
        { "gcm-short", "\"needed\":\"gcm-no-iv-bits\"" },
        { "gcm-own-iv", "\"needed\":\"gcm-token-iv\"" },
        { "no-rng", "\"needed\":\"gcm-host-iv\"" },
        { "gcm-short,no-rng", "\"needed\":\"gcm-no-iv-bits, gcm-host-iv\"" },
        { "no-derive,params-name,text-ids,short-labels",
          "\"needed\":\"id-text, short-labels, ec-params-name, omit:CKA_DERIVE\"" },
        { "few", "the signer works with 2 (few-sessions)" },
        { "no-room", "\"needed\":\"public-in-session\"" },
    };
    BUF(out);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(setenv("P11ODD", rows[i].odd, 1), 0);
        int code = examine(P11ODD_MODULE, pin_path,
                           (const char *const[]){ "--quick", "--threads", "2", "--public-keys-dir", hsm.folder, NULL });
        if (code != DOCTOR_FINE || strstr(said(&out), rows[i].needed) == NULL) {
            fail_msg("%s: %d, %s", rows[i].odd, code, said(&out));
        }
        assert_int_equal(objects_left(), 0);
    }
    assert_int_equal(unsetenv("P11ODD"), 0);
}

static void a_token_that_cannot_be_written_is_told_so(void **state)
{
    (void)state;
    BUF(out);
    assert_int_equal(setenv("P11ODD", "read-only", 1), 0);
    assert_int_equal(examine(P11ODD_MODULE, pin_path, NULL), DOCTOR_FINE);
    assert_says(said(&out), "\"needed\":\"read-only\"");
    assert_int_equal(unsetenv("P11ODD"), 0);
}

/* ---- tokens that fail ---- */

static void a_call_that_fails_is_named_with_its_cause(void **state)
{
    (void)state;
    BUF(out);
    assert_ok(file_write(control_path, span_text("C_Encrypt rv=0x150 times=0\n"), 0600));
    assert_int_equal(examine(P11FAULT_MODULE, pin_path, (const char *const[]){ "--quick", "--threads", "2", NULL }),
                     DOCTOR_FAILED);
    assert_says(said(&out), "\"step\":\"aes-256 seal and unseal\",\"result\":\"failed\"");
    assert_says(said(&out), "C_Encrypt: CKR_BUFFER_TOO_SMALL (0x150)");
    assert_int_equal(unlink(control_path), 0);
    assert_int_equal(objects_left(), 0);
}

static void what_an_interrupted_run_left_is_removed_by_the_next(void **state)
{
    (void)state;
    BUF(out);
    assert_ok(file_write(control_path, span_text("C_SignInit effect=hold hold_ms=60000 times=1\n"), 0600));
    const char *words[] = { "--json",     "--module", P11FAULT_MODULE, "--label",     SOFTHSM_LABEL,
                            "--pin-file", pin_path,   "--init-args",   hsm.init_args, NULL };
    (void)unlink(counts_path);
    pid_t pid = start(words);
    await_first_signature(pid);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(ended(pid), 128 + SIGKILL);
    assert_int_equal(unlink(control_path), 0);
    assert_int_equal(objects_left(), 2);
    assert_int_equal(examine(TEST_MODULE, pin_path, (const char *const[]){ "--quick", "--threads", "1", NULL }),
                     DOCTOR_FINE);
    assert_says(said(&out), "removed a key that an interrupted run had left");
    assert_int_equal(objects_left(), 0);
}

static void a_module_that_hangs_ends_the_run(void **state)
{
    (void)state;
    BUF(out);
    assert_ok(file_write(control_path, span_text("C_Sign effect=hold hold_ms=600000 times=1\n"), 0600));
    assert_int_equal(examine(P11FAULT_MODULE, pin_path, (const char *const[]){ "--quick", "--timeout", "2", NULL }),
                     DOCTOR_FAILED);
    assert_says(said(&out), "{\"result\":\"failed\"");
    assert_says(said(&out), "a call does not return from the PKCS#11 module");
    assert_int_equal(unlink(control_path), 0);
    assert_int_equal(examine(TEST_MODULE, pin_path, (const char *const[]){ "--quick", NULL }), DOCTOR_FINE);
    assert_int_equal(objects_left(), 0);
}

static void a_run_that_is_asked_to_end_cleans_up_first(void **state)
{
    (void)state;
    BUF(out);
    const char *words[] = { "--json",     "--module", P11FAULT_MODULE, "--label",     SOFTHSM_LABEL,
                            "--pin-file", pin_path,   "--init-args",   hsm.init_args, NULL };
    (void)unlink(counts_path);
    pid_t pid = start(words);
    await_first_signature(pid);
    assert_int_equal(kill(pid, SIGTERM), 0);
    assert_int_equal(ended(pid), DOCTOR_FAILED);
    assert_says(said(&out), "\"step\":\"interrupted\"");
    assert_int_equal(objects_left(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_that_make_no_sense_are_refused),
        cmocka_unit_test(a_code_is_explained_by_name_and_by_number),
        cmocka_unit_test(a_module_that_does_not_load_is_said),
        cmocka_unit_test(a_token_that_is_not_there_is_said_after_the_slots),
        cmocka_unit_test(a_wrong_pin_is_shown_once_and_not_risked_again),
        cmocka_unit_test(a_pin_file_that_others_may_read_is_refused),
        cmocka_unit_test(a_good_token_is_fit_and_nothing_is_left),
        cmocka_unit_test(the_table_is_for_people),
        cmocka_unit_test(the_configured_token_is_the_one_without_words),
        cmocka_unit_test(an_odd_token_gets_the_words_that_it_needs),
        cmocka_unit_test(a_token_that_cannot_be_written_is_told_so),
        cmocka_unit_test(a_call_that_fails_is_named_with_its_cause),
        cmocka_unit_test(what_an_interrupted_run_left_is_removed_by_the_next),
        cmocka_unit_test(a_module_that_hangs_ends_the_run),
        cmocka_unit_test(a_run_that_is_asked_to_end_cleans_up_first),
    };
    return cmocka_run_group_tests_name("doctor", tests, hsm_for_all, no_hsm_for_all);
}
