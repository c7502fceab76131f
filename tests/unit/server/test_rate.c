/* The arithmetic of a token bucket: never a token more than time has earned, and none lost to rounding. */
#include "unit/server/testing.h"

#include "api/server/rate.h"

#define TOKEN    1000000
#define MINUTE   (60 * (int64_t)US_PER_S)
#define REQUESTS 600

static void time_that_runs_backwards_earns_nothing(void **state)
{
    (void)state;
    assert_int_equal(rate_refilled(5 * TOKEN, -MINUTE, REQUESTS, MINUTE), 5 * TOKEN);
    assert_int_equal(rate_refilled(0, INT64_MIN + 1, REQUESTS, MINUTE), 0);
}

static void a_bucket_is_never_fuller_than_full(void **state)
{
    (void)state;
    assert_int_equal(rate_refilled(0, MINUTE, REQUESTS, MINUTE), (int64_t)REQUESTS * TOKEN);
    assert_int_equal(rate_refilled(599 * TOKEN, INT64_MAX, REQUESTS, MINUTE), (int64_t)REQUESTS * TOKEN);
    const int64_t most = 1000000, day = 1440 * MINUTE; /* the largest that may be configured */
    assert_int_equal(rate_refilled(0, day, most, day), most * TOKEN);
    assert_int_equal(rate_refilled(0, day - 1, most, day), most * TOKEN - 12);
}

static void what_is_earned_in_pieces_is_what_is_earned_at_once(void **state)
{
    (void)state;
    static const int64_t steps[] = { 1, 7, 999, 100000, 333333 };
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        int64_t tokens = 0, pieces = 0;
        for (int64_t at = 0; at + steps[i] <= 10 * (int64_t)US_PER_S && pieces < 100000; at += steps[i], pieces++) {
            tokens = rate_refilled(tokens, steps[i], REQUESTS, MINUTE);
        }
        int64_t exact = rate_refilled(0, pieces * steps[i], REQUESTS, MINUTE);
        assert_true(tokens <= exact);
        assert_true(exact - tokens <= pieces); /* less than a millionth of a token each time */
    }
    assert_int_equal(rate_refilled(0, 100000, REQUESTS, MINUTE), TOKEN); /* ten a second */
}

static void a_caller_is_told_when_one_token_is_there(void **state)
{
    (void)state;
    assert_int_equal(rate_retry_after_s(0, REQUESTS, MINUTE), 1);
    assert_int_equal(rate_retry_after_s(0, 1, MINUTE), 60);
    assert_int_equal(rate_retry_after_s(1, 1, MINUTE), 60);
    assert_int_equal(rate_retry_after_s(TOKEN / 2, 1, MINUTE), 30);
    assert_int_equal(rate_retry_after_s(TOKEN / 2 - 1, 1, MINUTE), 31);
    assert_int_equal(rate_retry_after_s(TOKEN, 1, MINUTE), 1); /* somebody else took it meanwhile */
    assert_int_equal(rate_retry_after_s(0, 1, 1440 * MINUTE), 86400);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_that_runs_backwards_earns_nothing),
        cmocka_unit_test(a_bucket_is_never_fuller_than_full),
        cmocka_unit_test(what_is_earned_in_pieces_is_what_is_earned_at_once),
        cmocka_unit_test(a_caller_is_told_when_one_token_is_there),
    };
    return cmocka_run_group_tests_name("rate", tests, NULL, NULL);
}
