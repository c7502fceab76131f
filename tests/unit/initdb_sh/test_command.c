/* The shell that is none: what initdb says goes through, nothing else does. */
#include "appliance/initdb-sh/command.h"
#include "testlib.h"

#include <stdio.h>
#include <string.h>

#define PG "\"" COMMAND_PROGRAM "\""

static struct command command;

static void refuses_every_other_program_and_mode(void **state)
{
    (void)state;
    static const char *const lines[] = { "",
                                         " ",
                                         "locale -a",
                                         "/bin/ls",
                                         "postgres -V",
                                         PG,
                                         PG " -D /tmp",
                                         PG " -C x",
                                         "\"/usr/lib/postgresql/17/bin/../bin/postgres\" -V",
                                         "-V " PG,
                                         "/usr/lib/postgresql/17/bin/initdb -V" };
    for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
        assert_false(command_parse(lines[i], &command));
    }
}

static void refuses_whatever_a_shell_would_make_more_of(void **state)
{
    (void)state;
    static const char *const tails[] = {
        "; id",
        " | id",
        " & id",
        " && id",
        "\nid",
        " $(id)",
        " `id`",
        " $HOME",
        " \"$x\"",
        " \"`id`\"",
        " *",
        " ~",
        " > /tmp/x",
        " < /etc/shadow",
        " >> /dev/null",
        " 2>&12",
        " 2>/dev/null",
        " >&2",
        " 'open",
        " \"open",
        " \\;",
        " \"a\\nb\"",
        " #x",
        " {a,b}",
        " a?",
        " [a]",
        " (id)",
        " !x",
        " \t",
        " 2>&1 > /dev/null",
        " > /dev/nullx",
        " >",
    };
    for (size_t i = 0; i < sizeof(tails) / sizeof(tails[0]); i++) {
        char line[256];
        (void)snprintf(line, sizeof(line), PG " -V%s", tails[i]);
        if (command_parse(line, &command)) {
            fail_msg("taken: %s", line);
        }
    }
}

static void refuses_too_many_words_and_too_long_a_line(void **state)
{
    (void)state;
    static char line[4 * COMMAND_BYTES_MAX];
    size_t at = (size_t)snprintf(line, sizeof(line), PG " -V");
    for (size_t i = 0; i < COMMAND_WORDS_MAX; i++) {
        at += (size_t)snprintf(line + at, sizeof(line) - at, " x");
    }
    assert_false(command_parse(line, &command));
    at = (size_t)snprintf(line, sizeof(line), PG " -V ");
    memset(line + at, 'x', 2 * COMMAND_BYTES_MAX);
    line[at + 2 * COMMAND_BYTES_MAX] = '\0';
    assert_false(command_parse(line, &command));
}

static void takes_what_initdb_says(void **state)
{
    (void)state;
    assert_true(command_parse(PG " -V", &command));
    assert_int_equal(command.count, 2);
    assert_true(command_parse(PG " --check -F -c log_checkpoints=false  -c max_connections=100 < \"/dev/null\" > "
                                 "\"/dev/null\" 2>&1",
                              &command));
    assert_int_equal(command.count, 7);
    assert_string_equal(command.argv[6], "max_connections=100");
    assert_null(command.argv[7]);
    assert_true(command.input_null && command.output_null && command.error_to_output);
    assert_true(command_parse(PG " --single -F -O -j -c search_path=pg_catalog template1 >/dev/null", &command));
    assert_true(command.output_null && !command.input_null && !command.error_to_output);
    assert_string_equal(command.argv[command.count - 1], "template1");
}

static void quotes_hold_blanks_and_escapes(void **state)
{
    (void)state;
    assert_true(command_parse(PG " --boot -D '/a b/$c' \"d\\\"e\\$\"f", &command));
    assert_string_equal(command.argv[3], "/a b/$c");
    assert_string_equal(command.argv[4], "d\"e$f");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refuses_every_other_program_and_mode),
        cmocka_unit_test(refuses_whatever_a_shell_would_make_more_of),
        cmocka_unit_test(refuses_too_many_words_and_too_long_a_line),
        cmocka_unit_test(takes_what_initdb_says),
        cmocka_unit_test(quotes_hold_blanks_and_escapes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
