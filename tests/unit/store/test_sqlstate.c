#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/store/internal.h"

static void assert_masked(const char *message, const char *const *keep, const char *expected)
{
    char out[128];
    message_mask(message, keep, out, sizeof(out));
    assert_string_equal(out, expected);
}

static void quoted_values_are_masked_whatever_quotes_they_use(void **state)
{
    (void)state;
    assert_masked("invalid input syntax for type bigint: \"4711\"", NULL,
                  "invalid input syntax for type bigint: \"**\"");
    assert_masked("value 'abc' and \"def\"", NULL, "value '**' and \"**\"");
    assert_masked("an open 'quote hides the rest", NULL, "an open '**'");
    assert_masked("it\"s \"'nested'\"", NULL, "it\"**\"'**'\"**\"");
}

static void names_of_the_errors_own_fields_are_kept(void **state)
{
    (void)state;
    static const char *const keep[] = { "notes_pkey", NULL };
    assert_masked("violates unique constraint \"notes_pkey\"", keep, "violates unique constraint \"notes_pkey\"");
    assert_masked("violates \"notes_pke\" and \"notes_pkey2\"", keep, "violates \"**\" and \"**\"");
}

static void a_long_message_is_cut_and_terminated(void **state)
{
    (void)state;
    char out[16];
    message_mask("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", NULL, out, sizeof(out));
    assert_true(strlen(out) < sizeof(out));
    message_mask("'''''''''''''''''''''''''''''''''''''''", NULL, out, sizeof(out));
    assert_true(strlen(out) < sizeof(out));
}

static void classes_match_by_prefix_and_the_rest_is_internal(void **state)
{
    (void)state;
    const char *detail = NULL;
    assert_int_equal(sqlstate_fault("99999", &detail).code, FAULT_INTERNAL);
    assert_int_equal(sqlstate_fault("42601", &detail).code, FAULT_INTERNAL);
    assert_int_equal(sqlstate_fault("40002", &detail).code, FAULT_INTERNAL);
    assert_int_equal(sqlstate_fault("53300", &detail).code, FAULT_STORE_BUSY);
    assert_int_equal(sqlstate_fault("08P01", &detail).code, FAULT_STORE_UNAVAILABLE);
    assert_int_equal(sqlstate_fault("57P01", &detail).code, FAULT_STORE_UNAVAILABLE);
    assert_int_equal(sqlstate_fault("40001", &detail).code, FAULT_TX_CONFLICT);
    assert_non_null(strstr(detail, "repeat the request"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quoted_values_are_masked_whatever_quotes_they_use),
        cmocka_unit_test(names_of_the_errors_own_fields_are_kept),
        cmocka_unit_test(a_long_message_is_cut_and_terminated),
        cmocka_unit_test(classes_match_by_prefix_and_the_rest_is_internal),
    };
    return cmocka_run_group_tests_name("sqlstate", tests, NULL, NULL);
}
