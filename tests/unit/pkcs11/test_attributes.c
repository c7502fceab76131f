/* C_GetAttributeValue and templates, by the rules of PKCS#11 2.40 5.7. */
#include "tests/testlib.h"

#include "api/pkcs11/attributes.h"

static int set_up(void **state)
{
    struct attributes *attributes = NULL;
    struct arena *arena = NULL;
    assert_fault(mem_new(1, sizeof(*attributes), &attributes), NONE);
    assert_fault(arena_new((size_t)1 << 20, &arena), NONE);
    assert_fault(attributes_init(arena, attributes), NONE);
    attributes_bytes(attributes, CKA_LABEL, span_text("release"));
    attributes_bytes(attributes, CKA_SUBJECT, (struct span){ 0 });
    attributes_ulong(attributes, CKA_CLASS, CKO_PRIVATE_KEY);
    attributes_bool(attributes, CKA_SIGN, CK_TRUE);
    attributes_sensitive(attributes, CKA_VALUE);
    assert_fault(attributes->first, NONE);
    *state = attributes;
    return 0;
}

static int tear_down(void **state)
{
    struct attributes *attributes = *state;
    arena_free(attributes->arena);
    mem_free(attributes);
    return 0;
}

static void what_is_missing_sensitive_or_too_long_has_no_length(void **state)
{
    char label[6] = "xxxxx", value[8] = "xxxxxxx";
    CK_ATTRIBUTE wanted[] = { { CKA_MODULUS, value, sizeof(value) },
                              { CKA_VALUE, value, sizeof(value) },
                              { CKA_LABEL, label, sizeof(label) } };
    assert_int_equal(attributes_get(*state, &wanted[0], 1), CKR_ATTRIBUTE_TYPE_INVALID);
    assert_int_equal(attributes_get(*state, &wanted[1], 1), CKR_ATTRIBUTE_SENSITIVE);
    assert_int_equal(attributes_get(*state, &wanted[2], 1), CKR_BUFFER_TOO_SMALL);
    for (size_t i = 0; i < COUNT_OF(wanted); i++) {
        assert_int_equal(wanted[i].ulValueLen, CK_UNAVAILABLE_INFORMATION);
    }
    assert_string_equal(label, "xxxxx");
    assert_string_equal(value, "xxxxxxx");
}

static void one_bad_attribute_does_not_spoil_the_others(void **state)
{
    CK_ULONG class = 0;
    char label[16] = "";
    CK_ATTRIBUTE wanted[] = { { CKA_VALUE, NULL, 0 },
                              { CKA_CLASS, &class, sizeof(class) },
                              { CKA_MODULUS, NULL, 7 },
                              { CKA_LABEL, label, sizeof(label) } };
    CK_RV rv = attributes_get(*state, wanted, COUNT_OF(wanted));
    assert_true(rv == CKR_ATTRIBUTE_SENSITIVE || rv == CKR_ATTRIBUTE_TYPE_INVALID);
    assert_int_equal(class, CKO_PRIVATE_KEY);
    assert_int_equal(wanted[3].ulValueLen, 7);
    assert_string_equal(label, "release");
}

static void a_question_without_a_buffer_tells_the_length(void **state)
{
    CK_ATTRIBUTE wanted[] = { { CKA_LABEL, NULL, 0 }, { CKA_CLASS, NULL, 99 }, { CKA_SUBJECT, NULL, 5 } };
    assert_int_equal(attributes_get(*state, wanted, COUNT_OF(wanted)), CKR_OK);
    assert_int_equal(wanted[0].ulValueLen, 7);
    assert_int_equal(wanted[1].ulValueLen, sizeof(CK_ULONG));
    assert_int_equal(wanted[2].ulValueLen, 0);
}

static void templates_match_by_every_value(void **state)
{
    CK_ULONG private_key = CKO_PRIVATE_KEY, public_key = CKO_PUBLIC_KEY;
    CK_BBOOL yes = CK_TRUE;
    char label[] = "release";
    CK_ATTRIBUTE fits[] = { { CKA_CLASS, &private_key, sizeof(private_key) },
                            { CKA_SIGN, &yes, 1 },
                            { CKA_LABEL, label, 7 },
                            { CKA_SUBJECT, NULL, 0 } };
    assert_true(attributes_match(*state, fits, COUNT_OF(fits)));
    assert_true(attributes_match(*state, NULL, 0));
    CK_ATTRIBUTE bad[] = { { CKA_CLASS, &public_key, sizeof(public_key) },
                           { CKA_LABEL, label, 6 },
                           { CKA_LABEL, NULL, 7 },
                           { CKA_LABEL, label, 8 },
                           { CKA_MODULUS, label, 7 },
                           { CKA_VALUE, NULL, 0 } };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_false(attributes_match(*state, &bad[i], 1));
    }
    fits[1].pValue = label; /* the one that does not fit decides */
    assert_false(attributes_match(*state, fits, COUNT_OF(fits)));
}

static void more_than_there_is_room_for_is_told_at_the_end(void **state)
{
    struct attributes *attributes = *state;
    for (CK_ULONG i = 0; i < ATTRIBUTES_MAX; i++) {
        attributes_ulong(attributes, CKA_MODULUS_BITS, i);
    }
    assert_fault(attributes->first, TOO_LARGE);
    assert_int_equal(attributes->count, ATTRIBUTES_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_missing_sensitive_or_too_long_has_no_length, set_up, tear_down),
        cmocka_unit_test_setup_teardown(one_bad_attribute_does_not_spoil_the_others, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_question_without_a_buffer_tells_the_length, set_up, tear_down),
        cmocka_unit_test_setup_teardown(templates_match_by_every_value, set_up, tear_down),
        cmocka_unit_test_setup_teardown(more_than_there_is_room_for_is_told_at_the_end, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("pkcs11_attributes", tests, NULL, NULL);
}
