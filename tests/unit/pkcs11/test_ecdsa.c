/* The two forms of an ECDSA signature. */
#include "tests/testlib.h"

#include "api/pkcs11/ecdsa.h"

#define REFUSED(...)                                                                  \
    do {                                                                              \
        static const uint8_t der_[] = { __VA_ARGS__ };                                \
        assert_fault(ecdsa_to_raw(SPAN_ARRAY(der_), 32, raw), BAD_ARGUMENT);          \
        assert_true(raw[0] == 0xee && raw[63] == 0xee); /* written on success only */ \
    } while (0)

static void what_is_no_signature_is_refused(void **state)
{
    (void)state;
    uint8_t raw[64];
    memset(raw, 0xee, sizeof(raw));
    assert_fault(ecdsa_to_raw((struct span){ 0 }, 32, raw), BAD_ARGUMENT);
    REFUSED(0x30, 0x00);
    REFUSED(0x30, 0x03, 0x02, 0x01, 0x01);                                     /* s is missing */
    REFUSED(0x30, 0x06, 0x02, 0x01, 0x01, 0x02, 0x01, 0x01, 0x00);             /* bytes behind it */
    REFUSED(0x30, 0x09, 0x02, 0x01, 0x01, 0x02, 0x01, 0x01, 0x02, 0x01, 0x01); /* a third number */
    REFUSED(0x30, 0x06, 0x02, 0x01, 0xff, 0x02, 0x01, 0x01);                   /* negative */
    REFUSED(0x30, 0x07, 0x02, 0x02, 0x00, 0x01, 0x02, 0x01, 0x01);             /* not minimal */
    REFUSED(0x30, 0x06, 0x04, 0x01, 0x01, 0x02, 0x01, 0x01);                   /* no INTEGER */
}

static void a_number_too_large_for_the_curve_is_refused(void **state)
{
    (void)state;
    uint8_t raw[ECDSA_RAW_MAX], der[ECDSA_DER_MAX];
    struct span made;
    memset(raw, 0x7f, sizeof(raw));
    assert_fault(ecdsa_to_der(span_of(raw, 96), der, &made), NONE);
    assert_fault(ecdsa_to_raw(made, 32, raw), BAD_ARGUMENT);
    assert_fault(ecdsa_to_raw(made, 0, raw), BAD_ARGUMENT);
    assert_fault(ecdsa_to_raw(made, ECDSA_RAW_MAX, raw), BAD_ARGUMENT);
    assert_fault(ecdsa_to_raw(made, 48, raw), NONE);
}

static void odd_and_overlong_raw_forms_are_refused(void **state)
{
    (void)state;
    uint8_t raw[ECDSA_RAW_MAX + 2] = { 1 }, der[ECDSA_DER_MAX];
    struct span made;
    assert_fault(ecdsa_to_der(span_of(raw, 0), der, &made), BAD_ARGUMENT);
    assert_fault(ecdsa_to_der(span_of(raw, 63), der, &made), BAD_ARGUMENT);
    assert_fault(ecdsa_to_der(span_of(raw, ECDSA_RAW_MAX + 2), der, &made), BAD_ARGUMENT);
}

static void short_numbers_are_padded_and_high_ones_keep_their_sign(void **state)
{
    (void)state;
    static const uint8_t der[] = { 0x30, 0x07, 0x02, 0x01, 0x05, 0x02, 0x02, 0x00, 0x80 };
    uint8_t raw[64], again[ECDSA_DER_MAX], want[64] = { 0 };
    struct span made;
    want[31] = 0x05;
    want[63] = 0x80;
    assert_fault(ecdsa_to_raw(SPAN_ARRAY(der), 32, raw), NONE);
    assert_memory_equal(raw, want, sizeof(want));
    assert_fault(ecdsa_to_der(SPAN_ARRAY(raw), again, &made), NONE);
    assert_true(span_equal(made, SPAN_ARRAY(der)));
}

static void every_curve_goes_there_and_back(void **state)
{
    (void)state;
    static const size_t halves[] = { 32, 48, 66 };
    for (size_t i = 0; i < COUNT_OF(halves); i++) {
        uint8_t raw[ECDSA_RAW_MAX], back[ECDSA_RAW_MAX], der[ECDSA_DER_MAX];
        struct span made;
        for (size_t k = 0; k < sizeof(raw); k++) {
            raw[k] = (uint8_t)(0xff - k);
        }
        assert_fault(ecdsa_to_der(span_of(raw, 2 * halves[i]), der, &made), NONE);
        assert_fault(ecdsa_to_raw(made, halves[i], back), NONE);
        assert_memory_equal(raw, back, 2 * halves[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_signature_is_refused),
        cmocka_unit_test(a_number_too_large_for_the_curve_is_refused),
        cmocka_unit_test(odd_and_overlong_raw_forms_are_refused),
        cmocka_unit_test(short_numbers_are_padded_and_high_ones_keep_their_sign),
        cmocka_unit_test(every_curve_goes_there_and_back),
    };
    return cmocka_run_group_tests_name("pkcs11_ecdsa", tests, NULL, NULL);
}
