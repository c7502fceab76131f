#include "testlib.h"

static void every_row_has_a_number_and_a_code_of_its_own(void **state)
{
    (void)state;
    size_t count = 0;
    const struct fault_row *rows = fault_rows(&count);
    assert_true(count > 50);
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k < i; k++) {
            assert_int_not_equal(rows[i].code, rows[k].code);
            assert_string_not_equal(rows[i].text, rows[k].text);
        }
    }
}

static bool is_snake_case(const char *text)
{
    return text[0] != 0 && strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_") == strlen(text);
}

static void every_row_is_fit_to_be_sent(void **state)
{
    (void)state;
    static const int statuses[] = { 400, 401, 403, 404, 405, 409, 410, 411, 413, 415, 429, 500, 501, 502, 503 };
    size_t count = 0;
    const struct fault_row *rows = fault_rows(&count);
    assert_int_equal(rows[0].code, FAULT_NONE);
    for (size_t i = 1; i < count; i++) {
        bool known = false;
        for (size_t k = 0; k < COUNT_OF(statuses); k++) {
            known |= rows[i].http == statuses[k];
        }
        assert_true(known);
        assert_true(is_snake_case(rows[i].text));
        assert_true(strlen(rows[i].title) > 0 && rows[i].title[strlen(rows[i].title) - 1] != '.');
        assert_true((uint32_t)rows[i].code <= UINT16_MAX); /* two bytes on the signer's wire */
        if (rows[i].http == 429) {
            assert_int_equal(rows[i].retry, FAULT_RETRY_LATER);
        }
        if (rows[i].retry == FAULT_RETRY_LATER) {
            assert_true(rows[i].http == 503 || rows[i].http == 429 || rows[i].http == 409);
        }
    }
}

static void an_unknown_number_is_internal_here_and_a_protocol_fault_on_the_wire(void **state)
{
    (void)state;
    assert_string_equal(fault_row((enum fault_code)60000)->text, "internal");
    assert_fault(fault_from_wire(60000), SIGNER_PROTOCOL);
    assert_fault(fault_from_wire(FAULT_KEY_STATE), KEY_STATE);
    assert_fault(fault_from_wire(0), NONE);
}

static struct fault second_of_three(bool fails, int *calls)
{
    ++*calls;
    REQUIRE(!fails, CONFLICT);
    return OK;
}

static struct fault three(bool fails, int *calls)
{
    TRY(second_of_three(false, calls));
    TRY(second_of_three(fails, calls));
    TRY(second_of_three(false, calls));
    return OK;
}

static void try_returns_the_first_fault_and_stops(void **state)
{
    (void)state;
    int calls = 0;
    assert_fault(three(true, &calls), CONFLICT);
    assert_int_equal(calls, 2);
    calls = 0;
    assert_fault(three(false, &calls), NONE);
    assert_int_equal(calls, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_has_a_number_and_a_code_of_its_own),
        cmocka_unit_test(every_row_is_fit_to_be_sent),
        cmocka_unit_test(an_unknown_number_is_internal_here_and_a_protocol_fault_on_the_wire),
        cmocka_unit_test(try_returns_the_first_fault_and_stops),
    };
    return cmocka_run_group_tests_name("fault", tests, NULL, NULL);
}
