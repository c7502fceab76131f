/* What the module is told, and by whom. */
#include "tests/testlib.h"

#include "api/pkcs11/settings.h"
#include "appliance/base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64], config[96], token[96];

static const char *const names[] = { "SVC_PKCS11_CONFIG",       "SVC_BASE_URL",   "SVC_CA_FILE",
                                     "SVC_TOKEN_FILE",          "SVC_TOKEN",      "SVC_ARTIFACT_TYPE",
                                     "SVC_PKCS11_KEYS",         "SVC_PKCS11_LOG", "SVC_PKCS11_TIMEOUT",
                                     "SVC_PKCS11_APPROVAL_WAIT" };

static int set_up(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        assert_int_equal(unsetenv(names[i]), 0);
    }
    (void)snprintf(folder, sizeof(folder), "/tmp/svc-settings-XXXXXX");
    assert_non_null(mkdtemp(folder));
    (void)snprintf(config, sizeof(config), "%s/config", folder);
    (void)snprintf(token, sizeof(token), "%s/token", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    (void)unlink(config);
    (void)unlink(token);
    return rmdir(folder);
}

static struct op *op_made(void)
{
    struct op *op = NULL;
    assert_fault(op_new("test", (struct tenant_id){ 0 }, 10000, &op), NONE);
    return op;
}
#define OP       CLEANUP(op_freep) struct op *op = op_made()
#define SETTINGS CLEANUP(settings_unrefp) struct settings *settings = NULL

static void write_config(const char *text)
{
    assert_fault(file_write(config, span_text(text), 0644), NONE);
    assert_int_equal(setenv("SVC_PKCS11_CONFIG", config, 1), 0);
}

static void a_file_with_lines_that_nobody_knows_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "SVC_BASE_URL=https://a\nSVC_TOKEN=secret\n", /* a token has no business in a file that others may read */
        "SVC_BASE_URL=https://a\nSVC_BASEURL=https://b\n",
        "SVC_BASE_URL\n",
        "= https://a\n",
        "SVC_BASE_URL=https://a\x01\n",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        OP;
        SETTINGS;
        write_config(bad[i]);
        assert_fault(settings_read(op, &settings), CONFIG);
        assert_null(settings);
        assert_true(op->note.detail[0] != '\0' && strstr(op->note.detail, "secret") == NULL);
    }
}

static void the_file_goes_before_the_environment(void **state)
{
    (void)state;
    OP;
    SETTINGS;
    write_config("# a comment\n\n  SVC_BASE_URL =  https://file.example//  \r\nSVC_ARTIFACT_TYPE=jar\n"
                 "SVC_PKCS11_KEYS=a, b\nSVC_PKCS11_TIMEOUT=5s\nSVC_CA_FILE=\nSVC_PKCS11_LOG=/tmp/x");
    assert_int_equal(setenv("SVC_BASE_URL", "https://environment.example", 1), 0);
    assert_int_equal(setenv("SVC_TOKEN_FILE", token, 1), 0);
    assert_fault(settings_read(op, &settings), NONE);
    assert_string_equal(settings->base_url, "https://file.example");
    assert_string_equal(settings->artifact_type, "jar");
    assert_string_equal(settings->token_file, token);
    assert_string_equal(settings->log_file, "/tmp/x");
    assert_null(settings->ca_file);
    assert_true(settings->timeout_ns == 5 * NS_PER_S && settings->approval_wait_ns == 0);
    assert_int_equal(strlen(settings->serial), 16);
    assert_true(settings_show(settings, "id", "a") && settings_show(settings, "b", "name"));
    assert_false(settings_show(settings, "c", "c") || settings_show(settings, "", "a, b"));
}

static void what_is_left_out_has_a_default(void **state)
{
    (void)state;
    OP;
    SETTINGS;
    assert_int_equal(setenv("SVC_BASE_URL", "https://a", 1), 0);
    assert_fault(settings_read(op, &settings), NONE);
    assert_string_equal(settings->artifact_type, "pkcs11");
    assert_true(settings->timeout_ns == 60 * NS_PER_S);
    assert_true(settings_show(settings, "any", "key"));
    assert_null(settings->log_file);
}

static void a_token_is_looked_for_in_its_file_first(void **state)
{
    (void)state;
    OP;
    SETTINGS;
    CLEANUP(secret_freep) struct secret *first = NULL;
    CLEANUP(secret_freep) struct secret *second = NULL;
    assert_int_equal(setenv("SVC_BASE_URL", "https://a", 1), 0);
    assert_int_equal(setenv("SVC_TOKEN", "of-the-environment", 1), 0);
    assert_int_equal(setenv("SVC_TOKEN_FILE", token, 1), 0);
    assert_fault(settings_read(op, &settings), NONE);
    assert_fault(settings_token(settings, op, &first), CONFIG); /* it is not there: the other does not stand in */
    assert_true(strstr(op->note.detail, token) != NULL);
    assert_fault(file_write(token, span_text("of-the-file\n"), 0600), NONE);
    assert_fault(settings_token(settings, op, &first), NONE);
    assert_span_text(secret_span(first), "of-the-file");
    assert_int_equal(chmod(token, 0604), 0);
    assert_fault(settings_token(settings, op, &second), CONFIG);
    settings_unref(TAKE(settings));
    assert_int_equal(unsetenv("SVC_TOKEN_FILE"), 0);
    assert_fault(settings_read(op, &settings), NONE);
    assert_fault(settings_token(settings, op, &second), NONE);
    assert_span_text(secret_span(second), "of-the-environment");
}

static struct op *oom_op;

static struct fault read_and_drop(void)
{
    SETTINGS;
    return settings_read(oom_op, &settings);
}

static void without_memory_nothing_is_left_behind(void **state)
{
    (void)state;
    OP;
    oom_op = op;
    assert_int_equal(setenv("SVC_BASE_URL", "https://a", 1), 0);
    assert_true(fail_each_allocation(read_and_drop) > 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_file_with_lines_that_nobody_knows_is_refused),
        TEST(the_file_goes_before_the_environment),
        TEST(what_is_left_out_has_a_default),
        TEST(a_token_is_looked_for_in_its_file_first),
        TEST(without_memory_nothing_is_left_behind),
    };
    return cmocka_run_group_tests_name("pkcs11_settings", tests, NULL, NULL);
}
