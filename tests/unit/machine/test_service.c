/* What PID 1 concludes from what the appliance and the kernel say. */
#include "testlib.h"

#include "appliance/machine/boot_facts.h"
#include "appliance/machine/clock.h"
#include "appliance/machine/power.h"
#include "appliance/machine/service.h"
#include "appliance/seal/seal.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void only_a_plain_true_means_ready(void **state)
{
    (void)state;
    static const char *const not_ready[] = { "",
                                             "{",
                                             "{}",
                                             "[]",
                                             "{\"ready\":false}",
                                             "{\"ready\":\"true\"}",
                                             "{\"ready\":1}",
                                             "{\"ready\":null}",
                                             "{\"ready\":true,\"ready\":true}",
                                             "{\"x\":{\"ready\":true}}" };
    for (size_t i = 0; i < COUNT_OF(not_ready); i++) {
        assert_false(service_state_ready(span_text(not_ready[i])));
    }
    assert_true(service_state_ready(span_text("{\"postgres_restarts\":0,\"ready\":true,\"started_at\":\"x\"}")));
}

static void the_pause_between_starts_grows_to_a_minute(void **state)
{
    (void)state;
    assert_int_equal(service_backoff_ms(0), 500);
    assert_int_equal(service_backoff_ms(1), 500);
    assert_int_equal(service_backoff_ms(2), 1000);
    assert_int_equal(service_backoff_ms(8), 60000);
    assert_int_equal(service_backoff_ms(4000000000U), 60000);
}

static void the_last_words_are_one_printable_line(void **state)
{
    (void)state;
    char words[24];
    service_last_words(span_text(""), words, sizeof(words));
    assert_string_equal(words, "");
    service_last_words(span_text("{\"event\":1}\nsome svc-appliance: no\n"), words, sizeof(words));
    assert_string_equal(words, "");
    service_last_words(span_text("svc-appliance: first\n{}\nsvc-appliance: a\x1b[2Jb\nmore"), words, sizeof(words));
    assert_string_equal(words, "a?[2Jb");
    service_last_words(span_text("svc-appliance: without an end, and too long for it"), words, sizeof(words));
    assert_string_equal(words, "without an end, and too");
}

static void ends_with(struct machine *machine, int code)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        _exit(code);
    }
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
    machine->keepers[KEEPER_SERVICE].pid = child;
    machine->keepers[KEEPER_SERVICE].started = clock_mono();
    keepers_reap(machine);
}

static void an_appliance_that_fails_again_and_again_is_told_of_and_tried_on(void **state)
{
    (void)state;
    struct machine machine = { .console = -1 };
    keepers_setup(&machine);
    machine.keepers[KEEPER_SERVICE].wanted = true;
    ends_with(&machine, 1);
    assert_string_equal(machine.refusal, "");
    ends_with(&machine, 1);
    assert_string_not_equal(machine.refusal, "");
    assert_true(machine.keepers[KEEPER_SERVICE].wanted);
    assert_int_equal(machine.status.phase, PHASE_RUNNING);
    ends_with(&machine, 0);
    ends_with(&machine, 2);
    assert_true(machine.keepers[KEEPER_SERVICE].wanted);
    ends_with(&machine, 2);
    assert_false(machine.keepers[KEEPER_SERVICE].wanted);
    assert_int_equal(machine.status.phase, PHASE_MAINTENANCE);
}

static void a_restart_waits_until_the_machine_is_prepared(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = NULL;
    struct machine machine = { .console = -1, .status = { .phase = PHASE_MAINTENANCE } };
    assert_fault(op_new("test", (struct tenant_id){ 0 }, 60000, &op), NONE);
    keepers_setup(&machine);
    assert_fault(machine_serve(op, &machine, CONTROL_RESTART, (struct span){ 0 }, NULL), CONFLICT);
    assert_non_null(strstr(op->note.detail, "not ready"));
    assert_false(machine.keepers[KEEPER_SERVICE].wanted);
}

static void a_version_on_trial_does_not_wait_for_ever(void **state)
{
    (void)state;
    struct machine machine = { .trial = true, .trial_ns = 600 * NS_PER_S };
    assert_false(machine_waits_for_key(&machine, false, 0));
    assert_true(machine_waits_for_key(&machine, true, 0));
    assert_true(machine_waits_for_key(&machine, true, 599 * NS_PER_S));
    assert_false(machine_waits_for_key(&machine, true, 600 * NS_PER_S));
    machine.trial = false;
    assert_true(machine_waits_for_key(&machine, false, 1000000 * NS_PER_S));
    assert_true(machine_waits_for_key(&machine, true, 1000000 * NS_PER_S));
    assert_true(seal_mode_has_pin(SEAL_PIN) && seal_mode_has_pin(SEAL_TPM2_PIN));
    assert_false(seal_mode_has_pin(SEAL_TPM2) || seal_mode_has_pin(SEAL_NONE));
}

static void signals_mean_their_ends(void **state)
{
    (void)state;
    assert_int_equal(power_of_signal(SIGINT), POWER_REBOOT);
    assert_int_equal(power_of_signal(SIGTERM), POWER_OFF);
    assert_int_equal(power_of_signal(SIGPWR), POWER_OFF);
    assert_int_equal(power_of_signal(SIGHUP), POWER_NONE);
    assert_int_equal(power_of_signal(SIGCHLD), POWER_NONE);
}

static void facts_are_read_from_whole_words_only(void **state)
{
    (void)state;
    struct span line = span_text("quiet xsvc.trial=5 svc.trial=90 svc.version=1\n");
    assert_int_equal(facts_number(line, "svc.trial", 10, 7200, 600), 90);
    assert_int_equal(facts_number(line, "svc.trial", 100, 7200, 600), 600);
    assert_int_equal(facts_number(line, "svc.tria", 10, 7200, 600), 600);
    assert_int_equal(facts_number(span_text("svc.trial=9x"), "svc.trial", 1, 99, 7), 7);
    assert_int_equal(facts_number(span_text("svc.trial="), "svc.trial", 1, 99, 7), 7);
    assert_int_equal(facts_number(span_text("svc.trial=9999999999999999999999"), "svc.trial", 1, INT64_MAX, 7), 7);
    assert_true(facts_secure_boot(span_of("\x06\0\0\0\x01", 5)));
    assert_false(facts_secure_boot(span_of("\x06\0\0\0\0", 5)));
    assert_false(facts_secure_boot(span_of("\x06\0\0\0\x01\x01", 6)));
    assert_false(facts_secure_boot((struct span){ 0 }));
}

static void the_version_is_that_of_os_release(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = NULL;
    const char *version = NULL;
    assert_fault(op_new("test", (struct tenant_id){ 0 }, 60000, &op), NONE);
    assert_fault(facts_version(op, span_text("ID=svc\nXVERSION_ID=9\n"), &version), NONE);
    assert_string_equal(version, "");
    assert_fault(facts_version(op, span_text("ID=svc\nVERSION_ID=\"1.2.3\"\n"), &version), NONE);
    assert_string_equal(version, "1.2.3");
    assert_fault(facts_version(op, span_text("VERSION_ID=1.2.4"), &version), NONE);
    assert_string_equal(version, "1.2.4");
}

static void chrony_is_told_of_every_server_and_opens_no_port(void **state)
{
    (void)state;
    const char *servers[] = { "192.0.2.123", "time.example" };
    struct provision provision = { .time = { .servers = { servers, 2 } } };
    CLEANUP(buf_free) struct buf out = BUF_INIT(4096);
    const char *text = NULL;
    assert_fault(clock_print(&provision, false, &out), NONE);
    assert_fault(buf_cstr(&out, &text), NONE);
    assert_non_null(strstr(text, "server 192.0.2.123 iburst\nserver time.example iburst\n"));
    assert_non_null(strstr(text, "\nport 0\n"));
    assert_non_null(strstr(text, "\ncmdport 0\n"));
    assert_null(strstr(text, "refclock"));
    assert_true(clock_wants_chrony("ntp", &provision));
    assert_false(clock_wants_chrony("none", &provision));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_plain_true_means_ready),
        cmocka_unit_test(the_pause_between_starts_grows_to_a_minute),
        cmocka_unit_test(the_last_words_are_one_printable_line),
        cmocka_unit_test(an_appliance_that_fails_again_and_again_is_told_of_and_tried_on),
        cmocka_unit_test(a_restart_waits_until_the_machine_is_prepared),
        cmocka_unit_test(a_version_on_trial_does_not_wait_for_ever),
        cmocka_unit_test(signals_mean_their_ends),
        cmocka_unit_test(facts_are_read_from_whole_words_only),
        cmocka_unit_test(the_version_is_that_of_os_release),
        cmocka_unit_test(chrony_is_told_of_every_server_and_opens_no_port),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
