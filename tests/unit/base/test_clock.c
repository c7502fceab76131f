#include "appliance/base/clock.h"
#include "testlib.h"

#include <limits.h>
#include <time.h>

static void times_that_are_none_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "2026-11-21",
        "2026-11-21T03:50:36",
        "2026-11-21 03:50:36Z",
        "2026-11-21T03:50:36.Z",
        "2026-11-21T03:50:36.1234567890Z",
        "2026-11-21T03:50:60Z",
        "2026-11-21T24:00:00Z",
        "2026-11-21T03:60:00Z",
        "2026-02-29T00:00:00Z",
        "2100-02-29T00:00:00Z",
        "2026-13-01T00:00:00Z",
        "2026-00-01T00:00:00Z",
        "2026-04-31T00:00:00Z",
        "2026-04-00T00:00:00Z",
        "2026-11-21T03:50:36+01",
        "2026-11-21T03:50:36+0100",
        "2026-11-21T03:50:36+24:00",
        "2026-11-21T03:50:36+01:60",
        "2026-11-21T03:50:36Z ",
        " 2026-11-21T03:50:36Z",
        "2026-11-21T3:50:36Z",
        "+2026-11-21T03:50:36Z",
        "2026-11-21T03:50:36ZZ",
    };
    utc_us time = 42;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_fault(rfc3339_parse(span_text(bad[i]), &time), BAD_ARGUMENT);
    }
    assert_fault(rfc3339_parse(span_of("2026-11-21T03:50:36\0Z", 21), &time), BAD_ARGUMENT);
    assert_int_equal(time, 42);
}

static void times_parse_to_microseconds(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        utc_us time;
    } rows[] = {
        { "1970-01-01T00:00:00Z", 0 },
        { "1970-01-01t00:00:00z", 0 },
        { "1969-12-31T23:59:59.999999Z", -1 },
        { "2000-02-29T12:00:00Z", 951825600000000 },
        { "2026-11-21T03:50:36.123456Z", 1795233036123456 },
        { "2026-11-21T03:50:36.1Z", 1795233036100000 },
        { "2026-11-21T03:50:36.123456789Z", 1795233036123456 },
        { "2026-11-21T04:50:36+01:00", 1795233036000000 },
        { "2026-11-20T22:20:36-05:30", 1795233036000000 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        utc_us time = 0;
        assert_fault(rfc3339_parse(span_text(rows[i].text), &time), NONE);
        assert_int_equal(time, rows[i].time);
    }
}

static void what_is_printed_reads_back_and_sorts_as_text(void **state)
{
    (void)state;
    char last[RFC3339_MAX] = "", text[RFC3339_MAX];
    for (utc_us time = -62167219200000000; time <= 253402300799999999; time += 86399123457 * 37) {
        rfc3339_print(time, text);
        utc_us back = 0;
        assert_int_equal(strlen(text), 27);
        assert_true(strcmp(last, text) < 0);
        assert_fault(rfc3339_parse(span_text(text), &back), NONE);
        assert_int_equal(back, time);
        memcpy(last, text, sizeof(last));
    }
    rfc3339_print(INT64_MIN, text);
    assert_string_equal(text, "0000-01-01T00:00:00.000000Z");
    rfc3339_print(INT64_MAX, text);
    assert_string_equal(text, "9999-12-31T23:59:59.999999Z");
}

/* The C library's calendar as the oracle, a day at a time over four centuries. */
static void days_agree_with_the_c_library(void **state)
{
    (void)state;
    for (int64_t day = -80000; day < 80000; day++) {
        time_t seconds = (time_t)(day * 86400 + 3723);
        struct tm parts;
        char expected[RFC3339_MAX], text[RFC3339_MAX];
        assert_non_null(gmtime_r(&seconds, &parts));
        assert_true(strftime(expected, sizeof(expected), "%Y-%m-%dT%H:%M:%S.000000Z", &parts) > 0);
        rfc3339_print((utc_us)seconds * US_PER_S, text);
        assert_string_equal(text, expected);
    }
}

static void durations_that_are_none_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = { "",
                                       "1",
                                       "s",
                                       "-1s",
                                       "+1s",
                                       "1.s.",
                                       "1..5s",
                                       ".s",
                                       "1 s",
                                       " 1s",
                                       "1s ",
                                       "1d",
                                       "1h30",
                                       "1e3s",
                                       "0x1s",
                                       "h",
                                       "99999999999999999h",
                                       "2562048h",
                                       "9223372036854775808ns",
                                       "1sms",
                                       "." };
    int64_t ns = 42;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_fault(duration_parse(span_text(bad[i]), &ns), BAD_ARGUMENT);
    }
    assert_int_equal(ns, 42);
}

static void durations_parse_as_go_reads_them(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ns;
    } rows[] = {
        { "0", 0 },
        { "0s", 0 },
        { "300ms", 300000000 },
        { "1.5h", 5400000000000 },
        { "2h45m", 9900000000000 },
        { "8760h", 31536000000000000 },
        { "90s", 90000000000 },
        { "1m", 60000000000 },
        { ".5s", 500000000 },
        { "1.s", 1000000000 },
        { "15us", 15000 },
        { "15\xc2\xb5s", 15000 },
        { "7ns", 7 },
        { "1.0000000019s", 1000000001 },
        { "9223372036854775807ns", INT64_MAX },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        int64_t ns = 0;
        assert_fault(duration_parse(span_text(rows[i].text), &ns), NONE);
        assert_int_equal(ns, rows[i].ns);
    }
}

static void what_is_left_rounds_up_and_stops_at_zero(void **state)
{
    (void)state;
    assert_int_equal(clock_ms_left(0), 0);
    assert_int_equal(clock_ms_left(INT64_MIN), 0);
    assert_int_equal(clock_ms_left(INT64_MAX), INT_MAX);
    int left = clock_ms_left(clock_mono() + 3600 * NS_PER_S);
    assert_true(left > 0 && left <= 3600000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_that_are_none_are_refused),
        cmocka_unit_test(durations_that_are_none_are_refused),
        cmocka_unit_test(times_parse_to_microseconds),
        cmocka_unit_test(what_is_printed_reads_back_and_sorts_as_text),
        cmocka_unit_test(days_agree_with_the_c_library),
        cmocka_unit_test(durations_parse_as_go_reads_them),
        cmocka_unit_test(what_is_left_rounds_up_and_stops_at_zero),
    };
    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
