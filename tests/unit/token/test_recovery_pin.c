/* The PIN: shown once, never a second time after a refusal, by no process. */
#include "tests/unit/token/faulty.h"

#include "appliance/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static char pin_file[128], notes[128];

static void write_pin(const char *text)
{
    assert_ok(file_write(pin_file, span_text(text), 0600));
}

static int files_for_each(void **state)
{
    (void)state;
    clear_rules();
    (void)snprintf(pin_file, sizeof(pin_file), "%s/pin", hsm.folder);
    (void)snprintf(notes, sizeof(notes), "%s/notes", hsm.folder);
    assert_true(mkdir(notes, 0700) == 0 || errno == EEXIST);
    write_pin(SOFTHSM_PIN);
    settings = softhsm_settings(P11FAULT_MODULE, pin);
    settings.pin_file = pin_file;
    settings.notes_folder = notes;
    return 0;
}

static int no_files_for_each(void **state)
{
    (void)state;
    clear_rules();
    token_close(TAKE(token));
    DIR *folder = opendir(notes);
    assert_non_null(folder);
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        (void)unlinkat(dirfd(folder), entry->d_name, 0);
    }
    assert_int_equal(closedir(folder), 0);
    return 0;
}

/* As a process does that is started anew. */
static struct fault open_with(const char *text, struct buf *why)
{
    CLEANUP(secret_freep) struct secret *shown = pin_of(text);
    struct token_settings with = settings;
    struct token *opened = NULL;
    with.pin = shown;
    buf_clear(why);
    struct fault fault = token_open(&with, why, &opened);
    token_close(opened);
    return fault;
}

#define BUF_WHY CLEANUP(buf_free) struct buf why = BUF_INIT(1024)

static void assert_says(struct buf *why, const char *words)
{
    const char *text = NULL;
    assert_ok(buf_cstr(why, &text));
    if (strstr(text, words) == NULL) {
        fail_msg("'%s' does not say '%s'", text, words);
    }
}

static unsigned notes_there(bool *private)
{
    unsigned count = 0;
    DIR *folder = opendir(notes);
    assert_non_null(folder);
    for (const struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        struct stat info;
        assert_int_equal(fstatat(dirfd(folder), entry->d_name, &info, 0), 0);
        if (S_ISREG(info.st_mode) && strncmp(entry->d_name, "pin-refused-", 12) == 0) {
            count++;
            *private = (info.st_mode & 0777) == 0600;
        }
    }
    assert_int_equal(closedir(folder), 0);
    return count;
}

static void a_pin_that_was_refused_is_not_shown_by_the_next_process(void **state)
{
    (void)state;
    BUF_WHY;
    bool private = false;
    write_pin("1234-wrong");
    unsigned before = calls_of("C_Login");
    assert_fault(open_with("1234-wrong", &why), TOKEN_PIN);
    assert_says(&why, "the PIN is wrong");
    for (int i = 0; i < 5; i++) {
        assert_fault(open_with("1234-wrong", &why), TOKEN_PIN);
        assert_says(&why, "not shown again");
    }
    assert_int_equal(calls_of("C_Login") - before, 1);
    assert_int_equal(notes_there(&private), 1);
    assert_true(private);
}

static void a_pin_file_that_changed_is_shown_again(void **state)
{
    (void)state;
    BUF_WHY;
    write_pin("1234-wrong");
    assert_fault(open_with("1234-wrong", &why), TOKEN_PIN);
    write_pin(SOFTHSM_PIN);
    assert_ok(open_with(SOFTHSM_PIN, &why));
    assert_ok(open_with(SOFTHSM_PIN, &why)); /* and what worked goes on to work */
    write_pin("1234-wrong");
    unsigned before = calls_of("C_Login");
    assert_fault(open_with("1234-wrong", &why), TOKEN_PIN);
    assert_int_equal(calls_of("C_Login") - before, 1);
}

static void a_pin_file_that_was_touched_is_shown_again(void **state)
{
    (void)state;
    BUF_WHY;
    plan(.function = "C_Login", .rv = CKR_PIN_INCORRECT, .times = 1);
    assert_fault(open_with(SOFTHSM_PIN, &why), TOKEN_PIN);
    assert_fault(open_with(SOFTHSM_PIN, &why), TOKEN_PIN);
    assert_int_equal(utimensat(AT_FDCWD, pin_file, NULL, 0), 0);
    assert_ok(open_with(SOFTHSM_PIN, &why));
}

static void each_refusal_of_the_pin_is_latched_and_its_text_tells_which(void **state)
{
    (void)state;
    static const struct {
        CK_RV rv;
        bool noted;
        const char *says;
    } ways[] = {
        { CKR_PIN_INCORRECT, true, "the PIN is wrong" },
        { CKR_PIN_INVALID, true, "characters" },
        { CKR_PIN_LEN_RANGE, true, "too short or too long" },
        { CKR_PIN_EXPIRED, false, "expired" },
        { CKR_PIN_LOCKED, false, "locked" },
        { CKR_USER_PIN_NOT_INITIALIZED, false, "no user PIN" },
    };
    for (size_t i = 0; i < COUNT_OF(ways); i++) {
        BUF_WHY;
        bool private = false;
        write_pin(SOFTHSM_PIN); /* anew: what was noted before is void */
        (void)no_files_for_each(NULL);
        unsigned before = calls_of("C_Login");
        plan(.function = "C_Login", .rv = ways[i].rv);
        assert_fault(open_with(SOFTHSM_PIN, &why), TOKEN_PIN);
        assert_says(&why, ways[i].says);
        assert_int_equal(calls_of("C_Login") - before, 1);
        assert_int_equal(notes_there(&private), ways[i].noted);
        clear_rules();
    }
}

static void a_pin_refused_later_is_latched_and_noted(void **state)
{
    (void)state;
    BUF_WHY;
    bool private = false;
    (void)token_for_each(NULL);
    unsigned before = calls_of("C_Login");
    plan(.function = "C_SignInit", .rv = CKR_OK, .times = 1, .effect = P11FAULT_LOGOUT);
    plan(.function = "C_Login", .rv = CKR_PIN_INCORRECT, .times = 1);
    assert_fault(sign_within(PATIENCE_MS), TOKEN_PIN);
    for (int i = 0; i < 20; i++) {
        assert_fault(sign_within(PATIENCE_MS), TOKEN_PIN);
    }
    assert_int_equal(notes_there(&private), 1);
    token_close(TAKE(token));
    clear_rules();
    assert_fault(open_with(SOFTHSM_PIN, &why), TOKEN_PIN);
    assert_int_equal(calls_of("C_Login") - before, 1);
}

static void a_new_pin_file_advises_a_restart_of_the_latched_process(void **state)
{
    (void)state;
    (void)token_for_each(NULL);
    plan(.function = "C_SignInit", .rv = CKR_OK, .times = 1, .effect = P11FAULT_LOGOUT);
    plan(.function = "C_Login", .rv = CKR_PIN_INCORRECT, .times = 1);
    assert_fault(sign_within(PATIENCE_MS), TOKEN_PIN);
    assert_false(status_now().restart_advised);
    write_pin(SOFTHSM_PIN);
    mono_ns deadline = clock_mono() + PATIENCE_MS * NS_PER_MS;
    while (!status_now().restart_advised) {
        assert_true(clock_mono() < deadline);
        (void)poll(NULL, 0, 1);
    }
    assert_non_null(strstr(status_now().cause, "PIN file has changed"));
    assert_int_equal(status_now().state, TOKEN_DOWN);
}

static void a_note_that_cannot_be_written_is_told(void **state)
{
    (void)state;
    BUF_WHY;
    settings.notes_folder = "/nowhere";
    plan(.function = "C_Login", .rv = CKR_PIN_INCORRECT, .times = 1);
    assert_fault(open_with(SOFTHSM_PIN, &why), TOKEN_PIN);
    assert_says(&why, "could not be noted");
}

static void notes_of_another_token_do_not_matter(void **state)
{
    (void)state;
    NEEDS_SOFTHSM; /* a second token of the same module */
    BUF_WHY;
    plan(.function = "C_Login", .rv = CKR_PIN_INCORRECT, .times = 1);
    assert_fault(open_with(SOFTHSM_PIN, &why), TOKEN_PIN);
    softhsm_init_token("second");
    settings.label = "second";
    assert_ok(open_with(SOFTHSM_PIN, &why));
}

static void a_login_that_failed_otherwise_may_be_tried_again(void **state)
{
    (void)state;
    (void)token_for_each(NULL);
    unsigned before = calls_of("C_Login");
    plan(.function = "C_SignInit", .rv = CKR_OK, .times = 1, .effect = P11FAULT_LOGOUT);
    plan(.function = "C_Login", .rv = CKR_FUNCTION_FAILED, .times = 2);
    (void)sign_within(PATIENCE_MS);
    assert_works_again();
    assert_in_range(calls_of("C_Login") - before, 2, 4);
}

static void a_token_that_warns_is_not_shown_the_pin(void **state)
{
    (void)state;
    static const struct {
        CK_FLAGS flags;
        const char *says;
    } warnings[] = { { CKF_USER_PIN_LOCKED, "the PIN is locked" }, { CKF_USER_PIN_FINAL_TRY, "last try" } };
    for (size_t i = 0; i < COUNT_OF(warnings); i++) {
        BUF_WHY;
        unsigned before = calls_of("C_Login");
        plan(.function = "C_GetTokenInfo", .flags = warnings[i].flags);
        assert_fault(open_with(SOFTHSM_PIN, &why), TOKEN_PIN);
        assert_says(&why, warnings[i].says);
        assert_int_equal(calls_of("C_Login") - before, 0);
        clear_rules();
    }
}

/* A login that ends in an error of the device may have been counted as a wrong PIN all the same. */
static void a_token_that_counts_unclear_logins_is_not_shown_the_pin_again(void **state)
{
    (void)state;
    (void)token_for_each(NULL);
    unsigned before = calls_of("C_Login");
    plan(.function = "C_SignInit", .rv = CKR_OK, .times = 1, .effect = P11FAULT_LOGOUT);
    plan(.function = "C_Login", .rv = CKR_DEVICE_ERROR);
    plan(.function = "C_GetTokenInfo", .flags = CKF_USER_PIN_COUNT_LOW);
    assert_fault(sign_within(PATIENCE_MS), TOKEN_PIN);
    assert_int_equal(calls_of("C_Login") - before, 1);
    assert_non_null(strstr(status_now().cause, "counts logins"));
}

#define EACH(test) cmocka_unit_test_setup_teardown(test, files_for_each, no_files_for_each)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH(a_pin_that_was_refused_is_not_shown_by_the_next_process),
        EACH(a_pin_file_that_changed_is_shown_again),
        EACH(a_pin_file_that_was_touched_is_shown_again),
        EACH(each_refusal_of_the_pin_is_latched_and_its_text_tells_which),
        EACH(a_pin_refused_later_is_latched_and_noted),
        EACH(a_new_pin_file_advises_a_restart_of_the_latched_process),
        EACH(a_note_that_cannot_be_written_is_told),
        EACH(notes_of_another_token_do_not_matter),
        EACH(a_token_that_warns_is_not_shown_the_pin),
        EACH(a_token_that_counts_unclear_logins_is_not_shown_the_pin_again),
        EACH(a_login_that_failed_otherwise_may_be_tried_again),
    };
    return cmocka_run_group_tests_name("pin", tests, module_for_all, nothing_for_all);
}
