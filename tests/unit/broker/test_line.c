#include "signer-pkcs11/broker/broker_internal.h"
#include "testlib.h"

#define COUNT 6

/* Connections that consist of their deadline. */
struct crowd {
    struct line line;
    struct connection *at;
    struct op ops[COUNT];
};

static void crowd_new(struct crowd *crowd, unsigned limit)
{
    *crowd = (struct crowd){ 0 };
    line_init(&crowd->line, limit);
    assert_fault(mem_new(COUNT, sizeof(*crowd->at), &crowd->at), NONE);
    for (size_t i = 0; i < COUNT; i++) {
        crowd->ops[i].deadline = INT64_MAX;
        crowd->at[i].op = &crowd->ops[i];
    }
}

static void crowd_free(struct crowd *crowd)
{
    while (line_pop(&crowd->line) != NULL) {
    }
    line_clear(&crowd->line);
    mem_free(crowd->at);
}

static void push(struct crowd *crowd, size_t which)
{
    assert_fault(line_push(&crowd->line, &crowd->at[which]), NONE);
}

static void assert_next(struct crowd *crowd, size_t which)
{
    assert_ptr_equal(line_pop(&crowd->line), &crowd->at[which]);
}

static void a_full_line_refuses_until_somebody_is_served(void **state)
{
    (void)state;
    CLEANUP(crowd_free) struct crowd crowd;
    crowd_new(&crowd, 2);
    push(&crowd, 0);
    push(&crowd, 1);
    assert_fault(line_push(&crowd.line, &crowd.at[2]), SATURATED);
    assert_int_equal(line_count(&crowd.line), 2);
    assert_next(&crowd, 0);
    push(&crowd, 2);
    assert_next(&crowd, 1);
    assert_next(&crowd, 2);
    assert_null(line_pop(&crowd.line));
    assert_int_equal(line_count(&crowd.line), 0);
}

static void nobody_is_late_before_the_deadline(void **state)
{
    (void)state;
    CLEANUP(crowd_free) struct crowd crowd;
    crowd_new(&crowd, COUNT);
    assert_null(line_pop_expired(&crowd.line));
    push(&crowd, 0);
    assert_null(line_pop_expired(&crowd.line));
    assert_next(&crowd, 0);
}

/* Whoever is taken out, first, last or between, the others keep their order and their number. */
static void the_late_leave_and_the_others_keep_their_order(void **state)
{
    (void)state;
    for (unsigned late = 0; late < 1u << COUNT; late++) {
        CLEANUP(crowd_free) struct crowd crowd;
        unsigned left = 0;
        crowd_new(&crowd, COUNT);
        for (size_t i = 0; i < COUNT - 1; i++) {
            push(&crowd, i);
        }
        for (size_t i = 0; i < COUNT - 1; i++) {
            crowd.ops[i].deadline = (late >> i & 1) != 0 ? 0 : INT64_MAX;
            left += (late >> i & 1) != 0;
        }
        for (size_t i = 0; i < COUNT - 1; i++) {
            if ((late >> i & 1) != 0) {
                assert_ptr_equal(line_pop_expired(&crowd.line), &crowd.at[i]);
            }
        }
        assert_null(line_pop_expired(&crowd.line));
        assert_int_equal(line_count(&crowd.line), COUNT - 1 - left);
        push(&crowd, COUNT - 1); /* the end is where it should be */
        for (size_t i = 0; i < COUNT; i++) {
            if (i == COUNT - 1 || (late >> i & 1) == 0) {
                assert_next(&crowd, i);
            }
        }
        assert_null(line_pop(&crowd.line));
    }
}

static void only_a_few_records_a_second_are_written_and_the_rest_is_counted(void **state)
{
    (void)state;
    struct noise noise = { .lock = PTHREAD_MUTEX_INITIALIZER };
    uint64_t left_out = 0;
    unsigned written = 0;
    noise.second = clock_mono() + 3600 * NS_PER_S; /* this second does not end */
    for (int i = 0; i < 1000; i++) {
        written += noise_allows(&noise, &left_out);
    }
    assert_true(written > 0 && written < 100);
    noise.second = 0;
    assert_true(noise_allows(&noise, &left_out));
    assert_int_equal(left_out, 1000 - written);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_line_refuses_until_somebody_is_served),
        cmocka_unit_test(nobody_is_late_before_the_deadline),
        cmocka_unit_test(the_late_leave_and_the_others_keep_their_order),
        cmocka_unit_test(only_a_few_records_a_second_are_written_and_the_rest_is_counted),
    };
    return cmocka_run_group_tests_name("line", tests, NULL, NULL);
}
