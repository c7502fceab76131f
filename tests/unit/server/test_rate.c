/* What a refused caller is told. The bucket itself is one SQL statement: tests/integration/test_server_rate.c. */
#include "unit/server/testing.h"

#include "api/server/rate.h"

#define TOKEN    1000000
#define MINUTE   (60 * (int64_t)US_PER_S)
#define REQUESTS 600

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
        cmocka_unit_test(a_caller_is_told_when_one_token_is_there),
    };
    return cmocka_run_group_tests_name("rate", tests, NULL, NULL);
}
