#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "appliance/supervisor/http.h"
#include "appliance/supervisor/unit.h"

#include <signal.h>
#include <string.h>

#define assert_fault(expr, sym) assert_int_equal((expr).code, FAULT_##sym)

static const struct unit_row row = { .name = "thing" };

static struct unit running(bool was_ready, mono_ns since)
{
    return (struct unit){ .row = &row,
                          .pid = 7,
                          .was_ready = was_ready,
                          .started = clock_mono() - since,
                          .state = was_ready ? UNIT_READY : UNIT_STARTING };
}

static void a_failed_self_test_is_not_tried_again(void **state)
{
    (void)state;
    struct unit unit = running(false, 0);
    unit_ended(&unit, NULL, 3 << 8);
    assert_int_equal(unit.state, UNIT_STOPPED);
    assert_int_equal(unit.refused, 3);
    assert_int_equal(unit.restarts, 0);
}

static void a_configuration_refused_twice_is_not_tried_again(void **state)
{
    (void)state;
    struct unit unit = running(false, 0);
    unit_ended(&unit, NULL, 2 << 8);
    assert_int_equal(unit.state, UNIT_WAITING);
    assert_int_equal(unit.refused, 0);
    unit.state = UNIT_STARTING;
    unit_ended(&unit, NULL, 1 << 8); /* a crash in between does not make it good */
    unit.state = UNIT_STARTING;
    unit_ended(&unit, NULL, 2 << 8);
    assert_int_equal(unit.state, UNIT_STOPPED);
    assert_int_equal(unit.refused, 2);
}

static void what_has_run_once_is_started_again_whatever_it_says(void **state)
{
    (void)state;
    static const int statuses[] = { 0, 1 << 8, 2 << 8, 3 << 8, SIGKILL, SIGSEGV };
    for (size_t i = 0; i < COUNT_OF(statuses); i++) {
        struct unit unit = running(true, 0);
        unit_ended(&unit, NULL, statuses[i]);
        assert_int_equal(unit.state, UNIT_WAITING);
        assert_int_equal(unit.pid, 0);
        assert_int_equal(unit.restarts, 1);
        assert_true(unit.next > clock_mono() - NS_PER_S);
    }
}

static void quick_deaths_wait_longer_and_a_stable_minute_forgives(void **state)
{
    (void)state;
    struct unit unit = running(true, NS_PER_S);
    for (unsigned i = 1; i <= 4; i++) {
        unit_ended(&unit, NULL, SIGKILL);
        assert_int_equal(unit.backoff_step, i);
    }
    unit.started = clock_mono() - 61 * NS_PER_S;
    unit_ended(&unit, NULL, SIGKILL);
    assert_int_equal(unit.backoff_step, 1);
    assert_int_equal(unit.restarts, 5);
}

static void a_unit_that_is_being_stopped_stays_stopped(void **state)
{
    (void)state;
    struct unit unit = running(true, 0);
    unit.state = UNIT_STOPPED;
    unit_ended(&unit, NULL, 0);
    assert_int_equal(unit.state, UNIT_STOPPED);
    assert_int_equal(unit.restarts, 0);
}

static void the_wait_doubles_within_its_bounds(void **state)
{
    (void)state;
    static const uint32_t randoms[] = { 0, 1, 511, 512, UINT32_MAX };
    for (size_t i = 0; i < COUNT_OF(randoms); i++) {
        for (unsigned step = 0; step < 40; step++) {
            int64_t base = step < 8 ? 200LL << step : 30000;
            base = base < 30000 ? base : 30000;
            int64_t wait = unit_backoff_ns(step, randoms[i]) / NS_PER_MS;
            assert_in_range(wait, base * 3 / 4, base * 5 / 4);
        }
    }
    assert_true(unit_backoff_ns(3, 0) < unit_backoff_ns(3, 511)); /* jitter is real */
}

/* ---- the little that is read of HTTP ---- */

static void what_is_no_http_answer_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "HTTP/1.1",
        "HTTP/1.1 2x0 OK\r\n\r\n",
        "HTTP/2 200 OK\r\n\r\n",
        "SSH-2.0-OpenSSH_9.9\r\n\r\n",
        "HTTP/1.1 200 OK\r\nA: b\r\n",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        int status = -1;
        struct span body = { 0 };
        assert_fault(http_parse(span_text(bad[i]), &status, &body), IO);
        assert_int_equal(status, -1);
    }
}

static void status_and_body_are_found(void **state)
{
    (void)state;
    int status = 0;
    struct span body = { 0 };
    assert_fault(http_parse(span_text("HTTP/1.1 503 Busy\r\nA: b\r\n\r\n{\"a\":1}\r\n\r\n"), &status, &body), NONE);
    assert_int_equal(status, 503);
    assert_true(span_equal_text(body, "{\"a\":1}\r\n\r\n"));
    assert_fault(http_parse(span_text("HTTP/1.0 200 OK\r\n\r\n"), &status, &body), NONE);
    assert_int_equal(body.len, 0);
}

static void a_wildcard_is_reached_by_loopback(void **state)
{
    (void)state;
    assert_string_equal(http_own_host("0.0.0.0"), "127.0.0.1");
    assert_string_equal(http_own_host("::"), "::1");
    assert_string_equal(http_own_host("10.1.2.3"), "10.1.2.3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_self_test_is_not_tried_again),
        cmocka_unit_test(a_configuration_refused_twice_is_not_tried_again),
        cmocka_unit_test(what_has_run_once_is_started_again_whatever_it_says),
        cmocka_unit_test(quick_deaths_wait_longer_and_a_stable_minute_forgives),
        cmocka_unit_test(a_unit_that_is_being_stopped_stays_stopped),
        cmocka_unit_test(the_wait_doubles_within_its_bounds),
        cmocka_unit_test(what_is_no_http_answer_is_refused),
        cmocka_unit_test(status_and_body_are_found),
        cmocka_unit_test(a_wildcard_is_reached_by_loopback),
    };
    return cmocka_run_group_tests_name("unit", tests, NULL, NULL);
}
