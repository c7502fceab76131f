/* The condition on time: 2026-11-21 is a Saturday. */
#include "unit/policy/policy_testlib.h"

/* Whether a rule with this time holds at each of the instants: "+..." yes, "-..." no. */
static void holds(const char *time, const char *const *instants, size_t count)
{
    char text[512];
    (void)snprintf(text, sizeof(text), "rules:\n- {name: r, when: {time: {%s}}, then: allow}\n", time);
    CLEANUP(policy_freep) struct policy *policy = rules_of(text);
    for (size_t i = 0; i < count; i++) {
        const struct may_sign input = { .now = time_of(instants[i] + 1) };
        enum condition failed = rule_fails_on(policy->first, &input);
        if (failed != (instants[i][0] == '+' ? CONDITION_NONE : CONDITION_TIME)) {
            fail_msg("{%s} at %s", time, instants[i]);
        }
    }
}
#define HOLDS(time, ...) \
    holds(time, (const char *const[]){ __VA_ARGS__ }, COUNT_OF(((const char *const[]){ __VA_ARGS__ })))

static void bounds_are_inclusive(void **state)
{
    (void)state;
    HOLDS("not_before: 2026-11-21T10:00:00Z", "-2026-11-21T09:59:59.999999Z", "+2026-11-21T10:00:00Z",
          "+9999-12-31T23:59:59Z", "-0001-01-01T00:00:00Z");
    HOLDS("not_after: 2026-11-21T10:00:00+02:00", "-2026-11-21T08:00:00.000001Z", "+2026-11-21T08:00:00Z",
          "+0001-01-01T00:00:00Z", "-9999-12-31T23:59:59Z");
    HOLDS("not_before: 2026-11-21T10:00:00Z, not_after: 2026-11-21T10:00:00Z", "-2026-11-21T09:59:59Z",
          "+2026-11-21T10:00:00Z", "-2026-11-21T10:00:01Z");
}

static void a_weekday_is_that_of_utc(void **state)
{
    (void)state;
    HOLDS("weekdays: [sat]", "-2026-11-20T23:59:59.999999Z", "+2026-11-21T00:00:00Z", "+2026-11-21T23:59:59.999999Z",
          "-2026-11-22T00:00:00Z", "-2026-11-21T00:30:00+01:00", "+2026-11-20T23:30:00-01:00");
    HOLDS("weekdays: [mon, fri]", "+2026-11-16T12:00:00Z", "-2026-11-17T12:00:00Z", "-2026-11-19T12:00:00Z",
          "+2026-11-20T12:00:00Z", "-2026-11-22T12:00:00Z", "+2026-11-23T12:00:00Z");
    HOLDS("weekdays: [thu]", "+1970-01-01T00:00:00Z", "-1969-12-31T23:59:59.999999Z");
    HOLDS("weekdays: [wed]", "+1969-12-31T23:59:59.999999Z", "-1970-01-01T00:00:00Z");
    HOLDS("weekdays: [sun]", "+1969-12-28T12:00:00Z", "-1969-12-27T12:00:00Z", "-1969-12-29T12:00:00Z");
    HOLDS("weekdays: [tue]", "+2000-02-29T12:00:00Z", "-2000-03-01T12:00:00Z");
}

static void hours_begin_at_from_and_end_before_to(void **state)
{
    (void)state;
    HOLDS("from: \"08:00\", to: \"18:00\"", "-2026-11-21T07:59:59.999999Z", "+2026-11-21T08:00:00Z",
          "+2026-11-21T17:59:59.999999Z", "-2026-11-21T18:00:00Z", "+1969-12-31T08:00:00Z", "-1969-12-31T07:59:59Z");
    HOLDS("from: 00:00, to: 00:01", "+2026-11-21T00:00:59Z", "-2026-11-21T00:01:00Z", "-2026-11-20T23:59:59Z");
    HOLDS("from: \"12:30\", to: \"24:00\"", "-2026-11-21T12:29:59Z", "+2026-11-21T12:30:00Z", "+2026-11-21T23:59:59Z",
          "-2026-11-22T00:00:00Z");
    HOLDS("from: \"00:00\", to: \"24:00\"", "+2026-11-21T00:00:00Z", "+2026-11-21T23:59:59.999999Z");
}

static void a_window_over_midnight_belongs_to_the_day_on_which_it_opens(void **state)
{
    (void)state;
    HOLDS("from: \"22:00\", to: \"06:00\"", "-2026-11-21T21:59:59Z", "+2026-11-21T22:00:00Z", "+2026-11-22T00:00:00Z",
          "+2026-11-22T05:59:59Z", "-2026-11-22T06:00:00Z");
    HOLDS("weekdays: [fri], from: \"22:00\", to: \"06:00\"", "-2026-11-20T05:59:59Z", "-2026-11-20T21:59:59Z",
          "+2026-11-20T22:00:00Z", "+2026-11-21T00:00:00Z", "+2026-11-21T05:59:59Z", "-2026-11-21T06:00:00Z",
          "-2026-11-21T22:00:00Z");
    HOLDS("weekdays: [sun], from: \"22:00\", to: \"06:00\"", "+2026-11-22T23:00:00Z", "+2026-11-23T05:00:00Z",
          "-2026-11-22T05:00:00Z", "-2026-11-23T23:00:00Z");
    HOLDS("from: \"12:00\", to: \"00:00\"", "-2026-11-21T00:00:00Z", "-2026-11-21T11:59:00Z", "+2026-11-21T12:00:00Z",
          "+2026-11-21T23:59:59Z");
}

static void all_parts_hold_at_once(void **state)
{
    (void)state;
    HOLDS("not_before: 2026-11-20T09:00:00Z, not_after: 2026-11-27T08:30:00Z, weekdays: [fri], from: \"08:00\", to: "
          "\"10:00\"",
          "-2026-11-20T08:30:00Z", "+2026-11-20T09:30:00Z", "-2026-11-20T10:00:00Z", "-2026-11-21T09:30:00Z",
          "+2026-11-27T08:30:00Z", "-2026-11-27T08:30:01Z");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bounds_are_inclusive),
        cmocka_unit_test(a_weekday_is_that_of_utc),
        cmocka_unit_test(hours_begin_at_from_and_end_before_to),
        cmocka_unit_test(a_window_over_midnight_belongs_to_the_day_on_which_it_opens),
        cmocka_unit_test(all_parts_hold_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
