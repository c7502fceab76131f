/* The console at pipes and at a pseudo terminal: lines, what may leave, the questions, the status screen, tokens. */
#include "tests/unit/machine/provision_file.h"

#include "appliance/base/file.h"
#include "appliance/machine/admin.h"
#include "appliance/machine/console_ask.h"
#include "appliance/machine/console_run.h"
#include "appliance/machine/console_session.h"
#include "appliance/machine/provision_store.h"
#include "appliance/seal/seal.h"

#include <fcntl.h>
#include <poll.h>
#include <termios.h>
#include <unistd.h>

#define SAID_MAX 65536

/* A terminal of which we are the person: types into `type`, reads from `read`. */
struct person {
    struct terminal terminal;
    int type, read;
    char said[SAID_MAX];
    size_t len;
};

static void sit_down(struct person *person)
{
    int in[2], out[2];
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    *person = (struct person){ .type = in[1], .read = out[0] };
    assert_true(fcntl(person->type, F_SETPIPE_SZ, SAID_MAX) > 0);
    assert_true(fcntl(person->read, F_SETPIPE_SZ, SAID_MAX) > 0);
    assert_int_equal(fcntl(person->read, F_SETFL, O_NONBLOCK), 0);
    terminal_init(&person->terminal, in[0], out[1]);
}

static void stand_up(struct person *person)
{
    terminal_clear(&person->terminal);
    fd_close(person->type);
    fd_close(person->read);
}

static void type(struct person *person, const char *text)
{
    assert_int_equal(write(person->type, text, strlen(text)), (ssize_t)strlen(text));
}

static const char *heard(struct person *person)
{
    ssize_t got = 0;
    while ((got = read(person->read, person->said + person->len, SAID_MAX - 1 - person->len)) > 0) {
        person->len += (size_t)got;
    }
    person->said[person->len] = '\0';
    person->len = 0;
    return person->said;
}

/* ---- lines ---- */

static void a_line_that_is_too_long_or_not_text_is_refused_whole(void **state)
{
    (void)state;
    struct person person;
    char line[TERMINAL_LINE_MAX + 1], longest[3000];
    sit_down(&person);
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 2] = '\n';
    longest[sizeof(longest) - 1] = '\0';
    type(&person, longest);
    type(&person, "\x1b[2J\nbad \xff\nreboot\x7f\nfine\r\n");
    static const enum line_kind want[] = { LINE_REFUSED, LINE_REFUSED, LINE_REFUSED, LINE_REFUSED, LINE_TEXT };
    for (size_t i = 0; i < COUNT_OF(want); i++) {
        terminal_fill(&person.terminal);
        assert_int_equal(terminal_line(&person.terminal, line), want[i]);
    }
    assert_string_equal(line, "fine");
    stand_up(&person);
}

static void nothing_that_steers_a_terminal_leaves(void **state)
{
    (void)state;
    struct person person;
    sit_down(&person);
    terminal_put(&person.terminal, span_text("a\x1b[31m\x07\r\tb\xc2\x9b"
                                             "1m\xff\xc3\xa9\n"));
    assert_string_equal(heard(&person), "a?[31m?? b??1m?\xc3\xa9\n");
    stand_up(&person);
}

static void the_end_of_the_line_ends_an_answer(void **state)
{
    (void)state;
    struct person person;
    char line[TERMINAL_LINE_MAX + 1];
    CLEANUP(op_freep) struct op *op = new_op();
    sit_down(&person);
    fd_close(person.type);
    person.type = -1;
    assert_fault(terminal_ask(op, &person.terminal, "? ", line), CANCELLED);
    stand_up(&person);
    sit_down(&person);
    op->deadline = clock_mono();
    assert_fault(terminal_ask(op, &person.terminal, "? ", line), DEADLINE);
    stand_up(&person);
}

static void a_pin_is_not_shown_and_the_next_line_is(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = new_op();
    CLEANUP(secret_freep) struct secret *pin = NULL;
    CLEANUP(fd_closep) int person = posix_openpt(O_RDWR | O_NOCTTY);
    struct terminal terminal;
    struct termios manners;
    char name[64], said[256] = "";
    assert_true(person >= 0 && grantpt(person) == 0 && unlockpt(person) == 0);
    assert_int_equal(ptsname_r(person, name, sizeof(name)), 0);
    int fd = open(name, O_RDWR | O_NOCTTY);
    assert_true(fd >= 0);
    terminal_init(&terminal, fd, fd);
    /* Typed ahead of the prompt it would be shown by the line itself: the silence comes first, as at the lock. */
    terminal_set_echo(&terminal, TERMINAL_SILENT);
    assert_int_equal(write(person, "123456\n", 7), 7);
    assert_fault(terminal_ask_secret(op, &terminal, "PIN: ", &pin), NONE);
    assert_true(span_equal_text(secret_span(pin), "123456"));
    for (size_t len = 0; strchr(said, '\n') == NULL; len = strlen(said)) {
        assert_true(len < sizeof(said) - 1 && read(person, said + len, sizeof(said) - 1 - len) > 0);
    }
    assert_string_equal(said, "PIN: \r\n");
    terminal_set_echo(&terminal, TERMINAL_ECHO);
    assert_int_equal(tcgetattr(fd, &manners), 0);
    assert_true((manners.c_lflag & ECHO) != 0 && (manners.c_lflag & ICANON) != 0);
    terminal_clear(&terminal);
}

/* ---- the questions ---- */

static void the_questions_make_a_provisioning_without_its_pins(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = new_op();
    CLEANUP(console_answers_clear) struct console_answers answers = { .yaml = BUF_INIT(PROVISION_FILE_MAX) };
    struct person person;
    struct provision provision;
    sit_down(&person);
    type(&person, "-bad\nsigner-1\n\n192.0.2.10\n192.0.2.10/24, 2001:db8::1/64\n192.0.3.1\n192.0.2.1\n\n" /* dns */
                  "\nfalse\ntrue\nacme\n\n\ncsr\nsign.example\n"
                  "module\n/run/extensions/x/lib/x.so\ntoken\n\n\n" /* label, slot, login */
                  "true\n1.2.3\npin\n"
                  "hsm-pin\nhsm-pin\n"
                  "short\n1234567\n7654321\n1234567\n1234567\n"
                  "yes\n");
    assert_fault(console_ask_provision(op, &person.terminal, &answers), NONE);
    const char *said = heard(&person), *yaml = NULL;
    assert_null(strstr(said, "1234567"));
    assert_non_null(strstr(said, "hostname: '-bad' must be a host name"));
    assert_non_null(strstr(said, "network.address: '192.0.2.10' must be an address"));
    assert_non_null(strstr(said, "network.gateway: '192.0.3.1' is in no network"));
    assert_non_null(strstr(said, "time.servers: needs time servers")); /* and says what else would do */
    assert_non_null(strstr(said, "a PIN has 6 to 128 bytes"));
    assert_non_null(strstr(said, "the two are not the same"));
    assert_fault(buf_cstr(&answers.yaml, &yaml), NONE);
    parse(op, yaml, &provision);
    assert_string_equal(provision.network.addresses.at[1], "2001:db8::1/64");
    assert_true(provision.time.trust_host);
    assert_int_equal(provision.tls.mode, PROVISION_TLS_CSR);
    assert_string_equal(provision.hsm.pin_file, "hsm-pin");
    assert_int_equal(provision.state.seal, PROVISION_SEAL_PIN);
    assert_true(span_equal_text(secret_span(answers.state_pin), "1234567"));
    assert_true(span_equal_text(secret_span(answers.hsm_pin), "hsm-pin"));
    stand_up(&person);
}

static void a_dot_stops_the_questions_and_only_yes_begins(void **state)
{
    (void)state;
    static const char *const typed[] = { ".\n", "a\n\n192.0.2.1/24\n\n\nn\nt\n\n\n\n\n\n\n\n\n\n"
                                                "YES\n" };
    for (size_t i = 0; i < COUNT_OF(typed); i++) {
        CLEANUP(op_freep) struct op *op = new_op();
        CLEANUP(console_answers_clear) struct console_answers answers = { .yaml = BUF_INIT(PROVISION_FILE_MAX) };
        struct person person;
        sit_down(&person);
        type(&person, typed[i]);
        assert_fault(console_ask_provision(op, &person.terminal, &answers), CANCELLED);
        stand_up(&person);
    }
}

static void typed_pins_reach_the_machine_as_files_that_are_gone_afterwards(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        skip();
    }
    CLEANUP(op_freep) struct op *op = new_op();
    CLEANUP(console_answers_clear) struct console_answers answers = { .yaml = BUF_INIT(PROVISION_FILE_MAX) };
    CLEANUP(provision_found_clear) struct provision_found found = { .device = "" };
    assert_fault(file_make_dirs(MACHINE_RUN_DIR, 0755), NONE);
    assert_fault(secret_new(span_text("1234567"), &answers.state_pin), NONE);
    assert_fault(buf_text(&answers.yaml, LEAST "state: { seal: pin, pin_file: state-pin }\n"), NONE);
    assert_fault(console_answers_leave(op, PROVISION_ANSWERS_DIR, &answers), NONE);
    assert_int_equal(access(PROVISION_ANSWERS_DIR "/state-pin", F_OK), 0);
    assert_fault(provision_read_answers(op, buf_span(&answers.yaml), NULL, &found), NONE);
    assert_true(span_equal_text(secret_span(found.state_pin), "1234567"));
    assert_int_equal(access(PROVISION_ANSWERS_DIR "/state-pin", F_OK), -1);
}

/* ---- commands ---- */

static const char *said_to(struct console *console, struct person *person, const char *line)
{
    console_take_line(console, &person->terminal, line);
    return heard(person);
}

static void only_the_list_is_understood(void **state)
{
    (void)state;
    struct person person;
    struct console console = { .phase = PHASE_READY };
    sit_down(&person);
    static const char *const strange[] = { "sh",
                                           "Help",
                                           "help me",
                                           "hsm",
                                           "hsm doctor --module /tmp/x.so",
                                           "update apply /tmp/x",
                                           "extension remove",
                                           "token issue --role x",
                                           "certificate import /etc/passwd",
                                           "reboot now",
                                           "a b c d e f g" };
    for (size_t i = 0; i < COUNT_OF(strange); i++) {
        assert_string_equal(said_to(&console, &person, strange[i]), "not understood; help lists the commands\n");
    }
    assert_string_equal(said_to(&console, &person, ""), "");
    assert_string_equal(said_to(&console, &person, "provision"),
                        "this machine is provisioned; docs/first-boot.md tells how to begin anew\n");
    type(&person, "yes\n");
    assert_non_null(strstr(said_to(&console, &person, "extension remove --all"), "'--all' is no name"));
    stand_up(&person);
}

static void what_destroys_is_only_done_after_a_yes(void **state)
{
    (void)state;
    struct person person;
    struct console console = { .phase = PHASE_MAINTENANCE };
    sit_down(&person);
    type(&person, "y\n");
    assert_string_equal(said_to(&console, &person, "  reboot "),
                        "The machine is stopped in order and started again. Type yes to go on: not done\n");
    type(&person, "yes\n"); /* PID 1 is not there */
    assert_non_null(strstr(said_to(&console, &person, "poweroff"), "poweroff: svc-machine does not run here"));
    assert_string_equal(said_to(&console, &person, "hsm doctor"),
                        "not now: the machine is not in a state for that; status tells\n");
    stand_up(&person);
}

static void what_a_machine_rests_on_cannot_be_changed_later(void **state)
{
    (void)state;
    static const char *const changed[] = { "state: { seal: none }\n",
                                           "hsm: { kind: module, module: /run/extensions/x/lib/x.so, label: t }\n" };
    CLEANUP(op_freep) struct op *op = new_op();
    struct provision old, other;
    parse(op, LEAST, &old);
    parse(op, LEAST "tls: { mode: csr }\n", &other);
    assert_fault(console_same_machine(op, &old, &other), NONE);
    for (size_t i = 0; i < COUNT_OF(changed); i++) {
        char text[512];
        (void)snprintf(text, sizeof(text), LEAST "%s", changed[i]);
        parse(op, text, &other);
        assert_fault(console_same_machine(op, &old, &other), CONFLICT);
    }
    other = old;
    other.tenant = "another";
    assert_fault(console_same_machine(op, &old, &other), CONFLICT);
}

static void help_names_what_the_phase_allows(void **state)
{
    (void)state;
    struct person person;
    struct console console = { .phase = PHASE_PROVISIONING };
    sit_down(&person);
    const char *said = said_to(&console, &person, "help");
    assert_non_null(strstr(said, "answer the questions"));
    assert_null(strstr(said, "token issue"));
    console.phase = PHASE_READY;
    said = said_to(&console, &person, "help");
    assert_null(strstr(said, "answer the questions"));
    assert_non_null(strstr(said, "token issue"));
    static const char *const mend[] = { "hsm doctor",       "extension list",   "extension add",
                                        "extension remove", "certificate show", "certificate import",
                                        "update apply",     "update status",    "provision apply",
                                        "restart" };
    console.phase = PHASE_MAINTENANCE;
    console.has_provision = true;
    said = said_to(&console, &person, "help");
    assert_null(strstr(said, "token issue"));
    for (size_t i = 0; i < COUNT_OF(mend); i++) {
        assert_non_null(strstr(said, mend[i]));
    }
    type(&person, "no\n");
    assert_non_null(strstr(said_to(&console, &person, "restart"), "not done"));
    stand_up(&person);
}

static void a_recovery_key_wants_a_new_pin_where_the_seal_has_one(void **state)
{
    (void)state;
    struct person person;
    struct console console = { .phase = PHASE_LOCKED, .seal_has_pin = true };
    CLEANUP(secret_freep) struct secret *key = NULL;
    char text[SEAL_RECOVERY_TEXT];
    assert_fault(seal_recovery_new(&key), NONE);
    seal_recovery_print(key, text);
    sit_down(&person);
    type(&person, "\n");
    assert_non_null(strstr(said_to(&console, &person, text), "a new PIN is needed; nothing was opened"));
    type(&person, "12345\n12345\n");
    assert_non_null(strstr(said_to(&console, &person, text), "a PIN has 6 to 128 bytes"));
    type(&person, "123456\n123456\n"); /* PID 1 is not there */
    assert_non_null(strstr(said_to(&console, &person, text), "unlock: svc-machine does not run here"));
    console.seal_has_pin = false;
    const char *said = said_to(&console, &person, text);
    assert_null(strstr(said, "New PIN"));
    assert_non_null(strstr(said, "unlock: svc-machine does not run here"));
    stand_up(&person);
}

static void at_the_lock_a_line_is_a_pin_unless_it_is_a_command(void **state)
{
    (void)state;
    struct person person;
    struct console console = { .phase = PHASE_LOCKED };
    sit_down(&person);
    const char *said = said_to(&console, &person, "secret pin");
    assert_non_null(strstr(said, "unlock: svc-machine does not run here"));
    assert_null(strstr(said, "secret"));
    assert_non_null(strstr(said_to(&console, &person, "help"), "poweroff"));
    assert_true(console_is_command("hsm  doctor") && console_is_command("extension remove x"));
    assert_false(console_is_command("123456") || console_is_command("") || console_is_command("extension remove"));
    stand_up(&person);
}

static void what_a_program_says_is_shown_clean_and_its_end_told(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = new_op();
    struct person person;
    int code = -1;
    sit_down(&person);
    const char *const fine[] = { "/usr/bin/printf", "a\\033[2Jb\\n", NULL };
    assert_fault(console_run(op, fine, &person.terminal, 1, &code), NONE);
    assert_int_equal(code, 0);
    assert_string_equal(heard(&person), "a?[2Jb\n");
    const char *const none[] = { "/nowhere/x", NULL };
    assert_fault(console_run(op, none, &person.terminal, 1, &code), NONE);
    assert_int_equal(code, 127);
    const char *const endless[] = { "/usr/bin/tail", "-f", "/dev/null", NULL };
    CLEANUP(op_freep) struct op *brief = NULL;
    assert_fault(op_new("test", (struct tenant_id){ 0 }, 1, &brief), NONE);
    assert_fault(console_run(brief, endless, &person.terminal, 1, &code), DEADLINE);
    assert_int_equal(code, 128 + 9);
    stand_up(&person);
}

/* ---- the status screen ---- */

static void the_status_screen_tells_where_the_machine_is(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = new_op();
    CLEANUP(buf_free) struct buf screen = BUF_INIT(SAID_MAX);
    const char *said = NULL;
    struct console_view view = { .status = { .phase = PHASE_READY,
                                             .version = "1.2.3",
                                             .profile = "small",
                                             .slot = "a",
                                             .hostname = "signer-1",
                                             .interface = "eth0",
                                             .addresses = { "192.0.2.10/24" },
                                             .address_count = 1,
                                             .seal = "none",
                                             .seal_text = "encrypted, but the key is on the same disk (no TPM, no PIN)",
                                             .secure_boot = true,
                                             .time_synchronised = true,
                                             .time_source = "ntp" },
                                 .has_authority = true,
                                 .base_url = "https://192.0.2.10:8443" };
    (void)snprintf(view.authority.fingerprint, sizeof(view.authority.fingerprint), "AB:CD");
    assert_false(console_view_fips(op, span_text("{\"crypto\":{}}"), &view));
    assert_true(console_view_fips(op,
                                  span_text("{\"config\":{},\"crypto\":{\"fips\":{\"required\":true,"
                                            "\"module_active\":true,\"self_test_passed\":true,"
                                            "\"module\":\"OpenSSL FIPS Provider\",\"version\":\"3.5.4\"}}}"),
                                  &view));
    assert_fault(console_view_print(&view, &screen), NONE);
    assert_fault(buf_cstr(&screen, &said), NONE);
    assert_string_equal(said, "\n== signer-1 == svc 1.2.3 (small), slot a\n"
                              "  machine      ready\n"
                              "  network      eth0: 192.0.2.10/24\n"
                              "  address      https://192.0.2.10:8443\n"
                              "  state        none: encrypted, but the key is on the same disk (no TPM, no PIN)\n"
                              "  secure boot  on\n"
                              "  clock        synchronised, source ntp\n"
                              "  FIPS         required, module active, self-test passed (OpenSSL FIPS Provider 3.5.4)\n"
                              "  CA SHA-256   AB:CD\n"
                              "               until 1970-01-01\n"
                              "  last refusal none\n\n");
}

static void an_empty_machine_has_a_screen_too(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf screen = BUF_INIT(SAID_MAX);
    struct console_view view = { .base_url = "" };
    for (enum machine_phase phase = PHASE_STARTING; phase <= PHASE_STOPPING; phase++) {
        view.status.phase = phase;
        assert_fault(console_view_print(&view, &screen), NONE);
    }
}

/* ---- tokens ---- */

static void an_answer_that_is_no_token_is_refused(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = new_op();
    CLEANUP(admin_token_clear) struct admin_token token = { .token = NULL };
    assert_fault(admin_token_parse(op, span_text("{\"token\":\"short\"}"), &token), JSON_FIELD);
    assert_fault(admin_token_parse(op, span_text("token"), &token), JSON_SYNTAX);
    assert_null(token.token);
    assert_fault(
        admin_token_parse(op,
                          span_text("{\"token\":\"svc_0123456789abcdef\",\"token_id\":\"i\",\"tenant_id\":\"t\","
                                    "\"subject\":\"s\",\"roles\":[\"admin\"],"
                                    "\"expires_at\":\"2030-01-01T00:00:00Z\"}"),
                          &token),
        NONE);
    assert_true(span_equal_text(secret_span(token.token), "svc_0123456789abcdef"));
    assert_string_equal(token.id, "i");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_that_is_too_long_or_not_text_is_refused_whole),
        cmocka_unit_test(nothing_that_steers_a_terminal_leaves),
        cmocka_unit_test(the_end_of_the_line_ends_an_answer),
        cmocka_unit_test(a_pin_is_not_shown_and_the_next_line_is),
        cmocka_unit_test(the_questions_make_a_provisioning_without_its_pins),
        cmocka_unit_test(a_dot_stops_the_questions_and_only_yes_begins),
        cmocka_unit_test(typed_pins_reach_the_machine_as_files_that_are_gone_afterwards),
        cmocka_unit_test(only_the_list_is_understood),
        cmocka_unit_test(what_destroys_is_only_done_after_a_yes),
        cmocka_unit_test(what_a_machine_rests_on_cannot_be_changed_later),
        cmocka_unit_test(help_names_what_the_phase_allows),
        cmocka_unit_test(a_recovery_key_wants_a_new_pin_where_the_seal_has_one),
        cmocka_unit_test(at_the_lock_a_line_is_a_pin_unless_it_is_a_command),
        cmocka_unit_test(what_a_program_says_is_shown_clean_and_its_end_told),
        cmocka_unit_test(the_status_screen_tells_where_the_machine_is),
        cmocka_unit_test(an_empty_machine_has_a_screen_too),
        cmocka_unit_test(an_answer_that_is_no_token_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
