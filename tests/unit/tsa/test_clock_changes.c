#include "tests/testlib.h"

#include "api/tsa/clock_watch.h"

#include <stdio.h>

#include "tests/unit/tsa/log.h"

static struct op *op;
static struct clock_changes changes;
static const struct clock_state trusted = { .reason = CLOCK_TRUSTED, .bound_us = 1200 };
static const struct clock_state lost = { .reason = CLOCK_OFFSET, .bound_us = -1 };
static const struct clock_state starting = { .reason = CLOCK_STARTING };

static struct fault send_oldest(void)
{
    struct clock_change change = changes.waiting[0];
    TRY(clock_changes_send(op, log_handle(), changes.instance, &change));
    clock_changes_sent(&changes, change.number);
    return OK;
}

static void a_state_that_stays_is_no_change(void **state)
{
    (void)state;
    static const struct clock_state worse = { .reason = CLOCK_STALE };
    assert_false(clock_changes_note(&changes, &starting, 1)); /* it is no state yet */
    assert_true(clock_changes_note(&changes, &lost, 2));
    assert_false(clock_changes_note(&changes, &lost, 3));
    assert_false(clock_changes_note(&changes, &worse, 4)); /* lost for another reason is lost */
    assert_true(clock_changes_note(&changes, &trusted, 5));
    assert_false(clock_changes_note(&changes, &trusted, 6));
    assert_true(clock_changes_note(&changes, &starting, 7)); /* later it is one: not trusted */
    assert_int_equal(changes.count, 3);
}

static void a_log_that_is_away_gets_each_change_later_and_once(void **state)
{
    (void)state;
    (void)clock_changes_note(&changes, &trusted, 1);
    (void)clock_changes_note(&changes, &lost, 2);
    event_store.refuse = FAULT(LOG_UNAVAILABLE);
    assert_fault(send_oldest(), LOG_UNAVAILABLE);
    assert_fault(send_oldest(), LOG_UNAVAILABLE);
    assert_int_equal(changes.count, 2);
    event_store.refuse = OK;
    assert_fault(send_oldest(), NONE);
    assert_string_equal(event_store.last_type, "tsa.clock.trusted");
    assert_string_equal(event_store.lane, "tsa-clock");
    assert_fault(send_oldest(), NONE);
    assert_string_equal(event_store.last_type, "tsa.clock.lost");
    assert_int_equal(changes.count, 0);
    assert_int_equal(event_store.messages, 2);
    clock_changes_sent(&changes, 0); /* told twice: nothing left to take */
    assert_int_equal(changes.count, 0);
}

static void flapping_while_the_log_is_away_is_bounded_and_ends_in_the_true_state(void **state)
{
    (void)state;
    for (int i = 0; i < 1001; i++) {
        assert_true(clock_changes_note(&changes, i % 2 == 0 ? &trusted : &lost, i + 1));
        assert_in_range(changes.count, 1, CLOCK_CHANGES_MAX);
        for (size_t j = 1; j < changes.count; j++) { /* they alternate */
            assert_true((changes.waiting[j].state.reason == CLOCK_TRUSTED) !=
                        (changes.waiting[j - 1].state.reason == CLOCK_TRUSTED));
            assert_true(changes.waiting[j].number > changes.waiting[j - 1].number);
        }
        const struct clock_change *newest = &changes.waiting[changes.count - 1];
        assert_int_equal(newest->state.reason == CLOCK_TRUSTED, changes.trusted);
    }
}

static void the_mark_is_the_latest_time_that_may_have_been_issued(void **state)
{
    (void)state;
    static const char later[] = "{\"gen_time\":\"2026-11-21T10:00:05.000000Z\",\"serial\":\"1\"}";
    static const char earlier[] = "{\"gen_time\":\"2026-11-21T10:00:01.000000Z\"}";
    static const char broken[] = "{\"gen_time\":17}";
    utc_us at = 0, five = 0;
    assert_fault(rfc3339_parse(span_text("2026-11-21T10:00:02Z"), &at), NONE);
    assert_fault(rfc3339_parse(span_text("2026-11-21T10:00:05Z"), &five), NONE);
    struct event_view events[] = {
        { .type = "tsa.timestamp.issued", .time = at, .data = span_text(earlier) },
        { .type = "tsa.timestamp.issued", .time = at, .data = span_text(broken) },
        { .type = "tsa.timestamp.issued", .time = at, .data = span_text(later) },
        { .type = "tsa.other", .time = at, .data = span_text("{\"gen_time\":\"2099-01-01T00:00:00Z\"}") },
    };
    struct event_message message = { .events = events, .count = COUNT_OF(events) };
    assert_int_equal(clock_mark_of(op, &message, 20 * US_PER_S), five);
    message.count = 2; /* stated: one second before the append */
    assert_int_equal(clock_mark_of(op, &message, 20 * US_PER_S), at);
    events[0].time = events[1].time = at + 3600 * US_PER_S; /* the wall clock was wrong when it was appended */
    assert_int_equal(clock_mark_of(op, &message, 20 * US_PER_S), at + 19 * US_PER_S);
    message.count = 0;
    assert_int_equal(clock_mark_of(op, &message, 20 * US_PER_S), 0);
}

static int setup(void **state)
{
    (void)state;
    log_reset();
    event_store.refuse = OK;
    changes = (struct clock_changes){ .instance = { "018f0000-0000-7000-8000-000000000001" } };
    return FAULTED(op_new("test", (struct tenant_id){ "default" }, 60000, &op)) ? -1 : 0;
}
static int teardown(void **state)
{
    (void)state;
    op_free(TAKE(op));
    return 0;
}
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    (void)log_hold;
    (void)log_wait_for_appends;
    const struct CMUnitTest tests[] = {
        TEST(a_state_that_stays_is_no_change),
        TEST(a_log_that_is_away_gets_each_change_later_and_once),
        TEST(flapping_while_the_log_is_away_is_bounded_and_ends_in_the_true_state),
        TEST(the_mark_is_the_latest_time_that_may_have_been_issued),
    };
    return cmocka_run_group_tests_name("changes of the clock's state", tests, NULL, NULL);
}
