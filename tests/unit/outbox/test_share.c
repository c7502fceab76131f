#include "api/outbox/internal.h"
#include "testlib.h"

static const struct outbox_row narrow = { .destination = "narrow", .cap_tenant = 1, .cap_destination = 3 };
static const struct outbox_row wide = { .destination = "wide" };

static struct pair pair_of(const struct outbox_row *row, const char *tenant)
{
    struct pair pair = { .row = row };
    assert_fault(tenant_id_parse(span_text(tenant), &pair.tenant), NONE);
    return pair;
}

static void nothing_is_shared_without_capacity(void **state)
{
    (void)state;
    struct outbox outbox = { 0 };
    struct pair pairs[] = { pair_of(&wide, "a") };
    size_t count = 1;
    share_out(&outbox, 0, pairs, &count);
    assert_int_equal(count, 0);
}

static void a_tenant_at_its_cap_gets_nothing(void **state)
{
    (void)state;
    struct outbox outbox = { 0 };
    struct pair pairs[] = { pair_of(&narrow, "a"), pair_of(&narrow, "b") };
    size_t count = 2;
    flight_of(&outbox, &narrow, pairs[0].tenant)->count = 1;
    share_out(&outbox, 8, pairs, &count);
    assert_int_equal(count, 1);
    assert_string_equal(pairs[0].tenant.text, "b");
    assert_int_equal(pairs[0].count, 1);
}

static void a_destination_at_its_cap_gets_nothing(void **state)
{
    (void)state;
    struct outbox outbox = { 0 };
    struct pair pairs[] = { pair_of(&narrow, "a"), pair_of(&narrow, "b"), pair_of(&narrow, "c"), pair_of(&wide, "a") };
    size_t count = 4;
    flight_of(&outbox, &narrow, pair_of(&narrow, "x").tenant)->count = 1;
    flight_of(&outbox, &narrow, pair_of(&narrow, "y").tenant)->count = 1;
    share_out(&outbox, 2, pairs, &count);
    assert_int_equal(count, 2);
    assert_ptr_equal(pairs[0].row, &narrow);
    assert_ptr_equal(pairs[1].row, &wide);
    assert_int_equal(pairs[1].count, 1);
}

static void everybody_gets_one_before_anybody_gets_two(void **state)
{
    (void)state;
    struct outbox outbox = { 0 };
    struct pair pairs[] = { pair_of(&wide, "a"), pair_of(&wide, "b"), pair_of(&wide, "c") };
    size_t count = 3;
    share_out(&outbox, 4, pairs, &count);
    assert_int_equal(count, 3);
    assert_int_equal(pairs[0].count, 2);
    assert_int_equal(pairs[1].count, 1);
    assert_int_equal(pairs[2].count, 1);
}

static void no_tenant_gets_more_than_the_outbox_allows_over_all_destinations(void **state)
{
    (void)state;
    struct outbox outbox = { .tenant_most = 3 };
    struct pair pairs[] = { pair_of(&wide, "a"), pair_of(&narrow, "a"), pair_of(&wide, "b") };
    size_t count = 3;
    flight_of(&outbox, &wide, pairs[0].tenant)->count = 1;
    share_out(&outbox, 8, pairs, &count);
    assert_int_equal(count, 3);
    assert_int_equal(pairs[0].count, 1);
    assert_int_equal(pairs[1].count, 1);
    assert_int_equal(pairs[2].count, 3);
}

static void a_tenant_fills_no_destination_and_a_destination_no_outbox(void **state)
{
    (void)state;
    struct outbox outbox = { .config = { .threads = 16, .outbound = true } };
    struct pair pairs[] = { pair_of(&wide, "a"), pair_of(&wide, "b") };
    size_t count = 1;
    share_caps(&outbox);
    assert_int_equal(outbox.destination_most, 14);
    assert_int_equal(outbox.tenant_most, 12);
    share_out(&outbox, 16, pairs, &count);
    assert_int_equal(pairs[0].count, 12);
    flight_of(&outbox, &wide, pairs[0].tenant)->count = 12;
    count = 2;
    share_out(&outbox, 4, pairs, &count);
    assert_int_equal(count, 1);
    assert_string_equal(pairs[0].tenant.text, "b");
    assert_int_equal(pairs[0].count, 2);
    outbox.config = (struct outbox_config){ .threads = 16, .cap_tenant = 2, .cap_destination = 3 };
    share_caps(&outbox);
    assert_int_equal(outbox.destination_most, 3);
    assert_int_equal(outbox.tenant_most, 2);
}

static void a_tenant_leaves_a_thread_of_our_own_to_others_while_they_have_rows(void **state)
{
    (void)state;
    struct outbox outbox = { .config = { .threads = 4 } };
    struct pair pairs[] = { pair_of(&wide, "a"), pair_of(&narrow, "a"), pair_of(&wide, "b") };
    size_t count = 2;
    share_caps(&outbox);
    assert_int_equal(outbox.destination_most, 0);
    share_out(&outbox, 4, pairs, &count); /* alone, whatever its destinations */
    assert_int_equal(count, 2);
    assert_int_equal(pairs[0].count, 3);
    assert_int_equal(pairs[1].count, 1);
    flight_of(&outbox, &wide, pairs[0].tenant)->count = 3;
    count = 3;
    share_out(&outbox, 1, pairs, &count);
    assert_int_equal(count, 1);
    assert_string_equal(pairs[0].tenant.text, "b");
    outbox.config = (struct outbox_config){ .threads = 4, .cap_tenant = 2 }; /* what was configured holds always */
    outbox.flights[0].count = 0;
    share_caps(&outbox);
    pairs[0] = pair_of(&wide, "a");
    count = 1;
    share_out(&outbox, 4, pairs, &count);
    assert_int_equal(pairs[0].count, 2);
    outbox.config = (struct outbox_config){ .threads = 1 };
    share_caps(&outbox);
    assert_int_equal(outbox.tenant_most, 0);
}

static void flights_are_kept_by_pair(void **state)
{
    (void)state;
    struct outbox outbox = { 0 };
    struct pair a = pair_of(&wide, "a"), b = pair_of(&narrow, "a");
    flight_of(&outbox, a.row, a.tenant)->count++;
    flight_of(&outbox, b.row, b.tenant)->count++;
    flight_of(&outbox, a.row, a.tenant)->count++;
    assert_int_equal(flight_of(&outbox, a.row, a.tenant)->count, 2);
    assert_int_equal(flight_of(&outbox, b.row, b.tenant)->count, 1);
}

static void retries_come_later_and_later_up_to_a_minute(void **state)
{
    (void)state;
    assert_int_equal(retry_delay_us(1), 250000);
    assert_int_equal(retry_delay_us(2), 500000);
    assert_int_equal(retry_delay_us(3), 1000000);
    assert_int_equal(retry_delay_us(9), 60 * US_PER_S);
    assert_int_equal(retry_delay_us(1000000), 60 * US_PER_S);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_shared_without_capacity),
        cmocka_unit_test(a_tenant_at_its_cap_gets_nothing),
        cmocka_unit_test(a_destination_at_its_cap_gets_nothing),
        cmocka_unit_test(everybody_gets_one_before_anybody_gets_two),
        cmocka_unit_test(no_tenant_gets_more_than_the_outbox_allows_over_all_destinations),
        cmocka_unit_test(a_tenant_fills_no_destination_and_a_destination_no_outbox),
        cmocka_unit_test(a_tenant_leaves_a_thread_of_our_own_to_others_while_they_have_rows),
        cmocka_unit_test(flights_are_kept_by_pair),
        cmocka_unit_test(retries_come_later_and_later_up_to_a_minute),
    };
    return cmocka_run_group_tests_name("outbox/share", tests, NULL, NULL);
}
