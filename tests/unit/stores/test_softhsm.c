#include "unit/stores/testlib.h"

#include "appliance/base/file.h"
#include "appliance/stores/folder.h"
#include "appliance/stores/process.h"
#include "appliance/stores/softhsm.h"

/* The token as another program sees it: pkcs11-tool logs in with the PIN (in the environment, a test may). */
static void assert_login(struct scratch *scratch)
{
    char script[1024];
    (void)snprintf(script, sizeof(script),
                   "export SOFTHSM2_CONF=%s/softhsm/softhsm2.conf PIN=$(cat %s/signer/pin) HOME=/tmp\n"
                   "pkcs11-tool --module /usr/lib/softhsm/libsofthsm2.so --token-label svc --login --pin env:PIN -O",
                   scratch->data, scratch->data);
    const char *const argv[] = { "/bin/sh", "-ec", script, NULL };
    CLEANUP(buf_free) struct buf said = BUF_INIT(8192);
    struct fault run = process_check(scratch->op, &(struct process_spec){ .argv = argv, .user = "svc-signer" },
                                     (struct span){ 0 }, &said);
    if (FAULTED(run)) {
        print_message("%.*s\n", (int)said.len, (const char *)said.at);
    }
    assert_fault(run, NONE);
}

static struct buf read_pin(struct scratch *scratch)
{
    char path[128];
    struct buf pin = BUF_INIT(256);
    (void)snprintf(path, sizeof(path), "%s/signer/pin", scratch->data);
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 07777, 0600);
    assert_int_equal(about.st_uid, 642);
    assert_fault(file_read(path, &pin), NONE);
    assert_int_equal(pin.len, 48);
    return pin;
}

static void a_token_whose_pin_is_lost_is_refused_not_replaced(void **state)
{
    struct scratch *scratch = *state;
    assert_fault(softhsm_init(scratch->op, &scratch->config), NONE);
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/signer/pin", scratch->data);
    assert_int_equal(unlink(path), 0);
    assert_fault(softhsm_init(scratch->op, &scratch->config), CONFIG);
    assert_non_null(strstr(scratch->op->note.detail, "restore the file"));
}

static void a_label_that_no_token_can_have_is_refused(void **state)
{
    struct scratch *scratch = *state;
    scratch->config.token_label = "a label of more than thirty-two bytes";
    assert_fault(softhsm_init(scratch->op, &scratch->config), CONFIG);
}

static void a_token_is_made_once_and_opens_with_its_pin(void **state)
{
    struct scratch *scratch = *state;
    assert_fault(softhsm_init(scratch->op, &scratch->config), NONE);
    CLEANUP(buf_free) struct buf first = read_pin(scratch);
    assert_login(scratch);
    assert_fault(softhsm_init(scratch->op, &scratch->config), NONE);
    CLEANUP(buf_free) struct buf second = read_pin(scratch);
    assert_true(span_equal(buf_span(&first), buf_span(&second)));
    assert_login(scratch);
}

static void an_interrupted_start_is_taken_up_again(void **state)
{
    struct scratch *scratch = *state;
    char script[1024];
    /* A PIN was written, and the token was being made. */
    (void)snprintf(script, sizeof(script),
                   "mkdir -m 700 %s/signer && printf %%048d 7 >%s/signer/pin && chmod 600 %s/signer/pin &&"
                   "chown -R svc-signer: %s/signer && mkdir -p %s/softhsm.partial/tokens/half",
                   scratch->data, scratch->data, scratch->data, scratch->data, scratch->data);
    assert_int_equal(system(script), 0);
    (void)snprintf(script, sizeof(script), "chown -R svc-signer: %s/softhsm.partial", scratch->data);
    assert_int_equal(system(script), 0);
    assert_fault(softhsm_init(scratch->op, &scratch->config), NONE);
    assert_login(scratch);
    (void)snprintf(script, sizeof(script), "%s/softhsm.partial", scratch->data);
    assert_false(path_exists(script));
}

static void the_token_survives_a_move_of_the_data_folder(void **state)
{
    struct scratch *scratch = *state;
    assert_fault(softhsm_init(scratch->op, &scratch->config), NONE);
    char moved[sizeof(scratch->data)];
    (void)snprintf(moved, sizeof(moved), "%s/moved", scratch->dir);
    assert_int_equal(rename(scratch->data, moved), 0);
    (void)snprintf(scratch->data, sizeof(scratch->data), "%s", moved);
    assert_fault(softhsm_init(scratch->op, &scratch->config), NONE);
    assert_login(scratch);
}

static void an_external_token_needs_its_module_and_a_private_pin_file(void **state)
{
    struct scratch *scratch = *state;
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/pin", scratch->dir);
    scratch->config.token_pin_file = path;
    scratch->config.token_module = "/nonexistent/module.so";
    assert_fault(softhsm_check_external(scratch->op, &scratch->config), CONFIG);
    assert_non_null(strstr(scratch->op->note.detail, "token.pin_file"));
    scratch_renew(scratch, 10000);
    assert_fault(file_write(path, span_text("1234\n"), 0600), NONE);
    assert_int_equal(chown(path, 642, 642), 0);
    assert_fault(softhsm_check_external(scratch->op, &scratch->config), CONFIG);
    assert_non_null(strstr(scratch->op->note.detail, "token.module"));
    scratch_renew(scratch, 10000);
    scratch->config.token_module = "/usr/lib/softhsm/libsofthsm2.so";
    assert_fault(softhsm_check_external(scratch->op, &scratch->config), NONE);
    assert_int_equal(chmod(path, 0640), 0);
    assert_fault(softhsm_check_external(scratch->op, &scratch->config), CONFIG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        scratch_test(a_token_whose_pin_is_lost_is_refused_not_replaced),
        scratch_test(a_label_that_no_token_can_have_is_refused),
        scratch_test(a_token_is_made_once_and_opens_with_its_pin),
        scratch_test(an_interrupted_start_is_taken_up_again),
        scratch_test(the_token_survives_a_move_of_the_data_folder),
        scratch_test(an_external_token_needs_its_module_and_a_private_pin_file),
    };
    return cmocka_run_group_tests_name("softhsm", tests, NULL, NULL);
}
