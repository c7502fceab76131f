/* The command line, by the table of commands. */
#include "tests/testlib.h"

#include "api/cli/cli.h"

#include <sys/stat.h>
#include <unistd.h>

static struct cli cli;

static int no_environment(void **state)
{
    (void)state;
    static const char *const names[] = { "SVC_TOKEN",   "SVC_BASE_URL", "SVC_CA_FILE",
                                         "SVC_TSA_URL", "SVC_TSA_ROOT", "SVC_NO_WAIT" };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        (void)unsetenv(names[i]);
    }
    return 0;
}

static int forget(void **state)
{
    (void)state;
    secret_free(TAKE(cli.token));
    op_free(TAKE(cli.op));
    return 0;
}

static struct fault read_line(const char *const *words)
{
    char *argv[24] = { (char *)"svc-cli" };
    int argc = 1;
    (void)forget(NULL);
    cli = (struct cli){ 0 };
    assert_fault(op_new("test", (struct tenant_id){ 0 }, 10000, &cli.op), NONE);
    for (; words[argc - 1] != NULL; argc++) {
        argv[argc] = (char *)(uintptr_t)words[argc - 1];
    }
    return options_read(&cli, argc, argv);
}
#define READ(...) read_line((const char *const[]){ __VA_ARGS__, NULL })
#define assert_refused(says, ...)                             \
    do {                                                      \
        assert_fault(READ(__VA_ARGS__), BAD_ARGUMENT);        \
        assert_non_null(strstr(cli.op->note.detail, (says))); \
    } while (0)

static void what_is_no_command_is_refused(void **state)
{
    (void)state;
    assert_refused("nosuch", "nosuch");
    assert_refused("svc-cli keys --help", "keys");
    assert_refused("keys remove", "keys", "remove");
    assert_refused("no command", "--json");
}

static void arguments_are_counted(void **state)
{
    (void)state;
    assert_refused("KEY_ID", "keys", "get");
    assert_refused("KEY_ID", "keys", "get", "a", "b");
    assert_refused("too many", "keys", "get", "a", "b", "c", "d", "e");
}

static void options_are_those_of_the_command(void **state)
{
    (void)state;
    assert_refused("--bogus", "keys", "list", "--bogus");
    assert_refused("--reason", "keys", "list", "--reason", "x");
    assert_refused("-x", "keys", "list", "-x");
    assert_refused("needs a value", "keys", "list", "--state");
    assert_refused("given twice", "keys", "list", "--state", "a", "--state", "b");
    assert_refused("takes no value", "code-signing", "sign", "f", "--key", "k", "--yes=no");
    assert_refused("--algorithm ALGORITHM is missing", "keys", "create", "--name", "x");
    assert_refused("at most", "tokens", "create", "--subject", "s", "--role", "1", "--role", "2", "--role", "3",
                   "--role", "4", "--role", "5", "--role", "6", "--role", "7", "--role", "8", "--role=9");
}

static void options_of_every_command_are_checked(void **state)
{
    (void)state;
    assert_refused("--timeout", "keys", "list", "--timeout", "1x");
    assert_refused("--timeout", "keys", "list", "--timeout", "0s");
    assert_refused("--timeout", "keys", "list", "--timeout", "2h");
    assert_refused("--idempotency-key", "keys", "list", "--idempotency-key", "a b");
    assert_refused("--idempotency-key", "keys", "list", "--idempotency-key", "");
    assert_refused("CA file", "keys", "list", "--ca-file", "/nowhere");
}

static void a_busy_server_is_waited_for_unless_one_says_otherwise(void **state)
{
    (void)state;
    assert_refused("takes no value", "keys", "list", "--no-wait=1");
    assert_fault(READ("keys", "list"), NONE);
    assert_true(cli.patience_ns == 30 * NS_PER_S);
    assert_fault(READ("keys", "list", "--no-wait"), NONE);
    assert_true(cli.patience_ns == 0);
    assert_int_equal(setenv("SVC_NO_WAIT", "1", 1), 0);
    assert_fault(READ("keys", "list"), NONE);
    assert_true(cli.patience_ns == 0);
}

static void a_token_comes_from_a_private_file_or_the_environment(void **state)
{
    (void)state;
    char path[] = "/tmp/svc-cli-token-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "svc_t_abc\n", 10), 10);
    assert_int_equal(fchmod(fd, 0644), 0);
    assert_refused("mode 0600", "keys", "list", "--token-file", path);
    assert_int_equal(fchmod(fd, 0600), 0);
    assert_int_equal(setenv("SVC_TOKEN", "svc_t_env", 1), 0);
    assert_fault(READ("keys", "list", "--token-file", path), NONE);
    assert_span_text(secret_span(cli.token), "svc_t_abc");
    assert_fault(READ("keys", "list"), NONE);
    assert_span_text(secret_span(cli.token), "svc_t_env");
    assert_int_equal(setenv("SVC_TOKEN", "svc_t\r\nX-Evil: 1", 1), 0);
    assert_refused("line ends", "keys", "list");
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(path), 0);
}

static void options_may_stand_anywhere(void **state)
{
    (void)state;
    assert_fault(READ("--json", "--base-url", "https://h", "code-signing", "sign", "--key=k", "my file", "-o", "sig",
                      "--timeout", "90s"),
                 NONE);
    assert_string_equal(cli.command->words, "code-signing sign");
    assert_true(cli.json);
    assert_string_equal(cli.base_url, "https://h");
    assert_int_equal(cli.argument_count, 1);
    assert_string_equal(cli.arguments[0], "my file");
    assert_string_equal(cli_flag(&cli, "key"), "k");
    assert_string_equal(cli_flag(&cli, "output"), "sig");
    assert_null(cli_flag(&cli, "yes"));
    assert_true(cli.timeout_ns == 90 * NS_PER_S);
}

static void spans_of_a_command_are_checked(void **state)
{
    (void)state;
    static const char *const bad[] = { "", "1", "x", "-1s", "25h" };
    int64_t span = 7;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_fault(READ("code-signing", "sign", "f", "--key", "k", "--wait-log", bad[i]), NONE);
        assert_fault(cli_span(&cli, "wait-log", 0, &span), BAD_ARGUMENT);
        assert_int_equal(span, 7);
    }
    assert_fault(READ("code-signing", "sign", "f", "g", "--key", "k", "--wait-log", "90s"), NONE);
    assert_int_equal(cli.argument_count, 2);
    assert_fault(cli_span(&cli, "wait-log", 0, &span), NONE);
    assert_true(span == 90 * NS_PER_S);
    assert_fault(cli_span(&cli, "wait-approval", 5, &span), NONE);
    assert_int_equal(span, 5);
    assert_null(cli_flag_if(&cli, "method"));
}

static void behind_two_dashes_everything_is_an_argument(void **state)
{
    (void)state;
    assert_fault(READ("tsa", "stamp", "--", "--json"), NONE);
    assert_false(cli.json);
    assert_string_equal(cli.arguments[0], "--json");
    assert_fault(READ("tsa", "stamp", "-"), NONE);
    assert_string_equal(cli.arguments[0], "-");
}

static void help_needs_nothing_else(void **state)
{
    (void)state;
    assert_fault(READ("keys", "create", "--help"), NONE);
    assert_string_equal(cli.command->words, "keys create");
    assert_fault(READ("keys", "-h"), NONE);
    assert_null(cli.command);
}

static void every_command_has_help_an_example_and_sane_rows(void **state)
{
    (void)state;
    const struct command *command, *other;
    size_t count = 0;
    for (; (command = command_at(count)) != NULL; count++) {
        assert_true(command->help[0] != '\0' && command->run != NULL);
        assert_ptr_equal(strstr(command->example, command->words), command->example);
        assert_true(command->flag_count <= FLAGS_MAX && command->least <= command->most &&
                    command->most <= ARGUMENTS_MAX);
        unsigned repeating = 0;
        for (size_t j = 0; j < command->flag_count; j++) {
            assert_true(command->flags[j].doc[0] != '\0');
            repeating += command->flags[j].repeats;
        }
        assert_true(repeating <= 1);
        for (size_t j = 0; j < count; j++) {
            other = command_at(j);
            assert_string_not_equal(command->words, other->words);
        }
    }
    assert_true(count >= 35);
}

#define FRESH(test) cmocka_unit_test_setup(test, no_environment)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(what_is_no_command_is_refused),
        FRESH(arguments_are_counted),
        FRESH(options_are_those_of_the_command),
        FRESH(options_of_every_command_are_checked),
        FRESH(a_busy_server_is_waited_for_unless_one_says_otherwise),
        FRESH(a_token_comes_from_a_private_file_or_the_environment),
        FRESH(options_may_stand_anywhere),
        FRESH(spans_of_a_command_are_checked),
        FRESH(behind_two_dashes_everything_is_an_argument),
        FRESH(help_needs_nothing_else),
        FRESH(every_command_has_help_an_example_and_sane_rows),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, forget);
}
