#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "appliance/base/op.h"
#include "appliance/supervisor/client_env.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define assert_fault(expr, sym) assert_int_equal((expr).code, FAULT_##sym)

static const struct client_env sample = {
    .base_url = "https://127.0.0.1:8443",
    .ca_file = "/home/o'brien/my checkout/$HOME/ca.pem",
    .tenant = "default",
    .tsa_url = "https://127.0.0.1:8443/tsa",
    .tsa_root = "/r.pem",
    .tokens = { "t-admin", "t-operator", "t-approver", "t-ci", "t-auditor" },
    .tokens_end = 1800000000000000,
};

static struct op *new_op(void)
{
    struct op *op = NULL;
    assert_fault(op_new("test", (struct tenant_id){ 0 }, 10000, &op), NONE);
    return op;
}

static void lines_of_other_kinds_give_no_token(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = new_op();
    struct client_env env = { .tenant = "", .tokens = { "", "", "", "", "" } };
    static const char text[] =
        "export SVC_TOKEN_ADMIN='a'\nSVC_TOKEN_CI=bare\nSVC_TOKEN_CI='\nSVC_TOKEN_CI=''\n"
        "SVC_TOKEN_CIX='x'\nSVC_TOKEN_CI='a'b'\n# SVC_TOKEN_CI='c'\nSVC_TOKENS_EXPIRE='soon'\n\n=";
    assert_fault(client_env_parse_tokens(op, span_text(text), &env), NONE);
    for (size_t i = 0; i < CLIENT_ROLE_COUNT; i++) {
        assert_string_equal(env.tokens[i], "");
    }
    assert_int_equal(env.tokens_end, 0);
}

static void tokens_come_back_from_what_was_written(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = new_op();
    CLEANUP(buf_free) struct buf text = BUF_INIT(CLIENT_ENV_MAX);
    assert_fault(client_env_print(&sample, &text), NONE);
    struct client_env env = { .tenant = "", .tokens = { "", "", "", "", "" } };
    text.len--; /* a last line without its end counts too */
    assert_fault(client_env_parse_tokens(op, buf_span(&text), &env), NONE);
    for (size_t i = 0; i < CLIENT_ROLE_COUNT; i++) {
        assert_string_equal(env.tokens[i], sample.tokens[i]);
    }
    assert_string_equal(env.tenant, "default");
    assert_int_equal(env.tokens_end, sample.tokens_end);
}

static void a_shell_reads_every_value_as_it_was_meant(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf text = BUF_INIT(CLIENT_ENV_MAX);
    assert_fault(client_env_print(&sample, &text), NONE);
    char path[] = "/tmp/client-env-XXXXXX", command[256], said[1024] = "";
    FILE *file = fdopen(mkstemp(path), "w");
    assert_non_null(file);
    assert_int_equal(fwrite(text.at, 1, text.len, file), text.len);
    assert_int_equal(fclose(file), 0);
    (void)snprintf(command, sizeof(command),
                   ". %s && printf '%%s|' \"$SVC_CA_FILE\" \"$SVC_TOKEN\" \"$SVC_TOKEN_AUDITOR\" \"$SVC_TSA_ROOT\"",
                   path);
    FILE *shell = popen(command, "r");
    assert_non_null(shell);
    assert_non_null(fgets(said, sizeof(said), shell));
    assert_int_equal(pclose(shell), 0);
    (void)remove(path);
    assert_string_equal(said, "/home/o'brien/my checkout/$HOME/ca.pem|t-operator|t-auditor|/r.pem|");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lines_of_other_kinds_give_no_token),
        cmocka_unit_test(tokens_come_back_from_what_was_written),
        cmocka_unit_test(a_shell_reads_every_value_as_it_was_meant),
    };
    return cmocka_run_group_tests_name("client_env", tests, NULL, NULL);
}
