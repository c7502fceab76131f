/* The table of return values, and the labels that make the token the registry of keys. */
#include "tests/unit/token/softhsm.h"

#include "signer-pkcs11/token/internal.h"

static void every_row_is_unique_and_helps_the_operator(void **state)
{
    (void)state;
    size_t count = 0;
    const struct ckr_row *rows = ckr_rows(&count);
    assert_true(count > 80);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = i + 1; j < count; j++) {
            assert_int_not_equal(rows[i].rv, rows[j].rv);
        }
        assert_ptr_equal(ckr_row(rows[i].rv), &rows[i]);
        if (rows[i].fault == FAULT_NONE) {
            continue;
        }
        assert_true(rows[i].cause[0] != '\0');
        assert_true(rows[i].action[0] != '\0' || rows[i].fault == FAULT_SIGNATURE_INVALID);
        assert_true(strlen(rows[i].cause) + strlen(rows[i].action) + 2 < sizeof(((struct token_status *)0)->cause));
    }
}

static void a_row_that_heals_says_unavailable_and_a_pin_row_says_pin(void **state)
{
    (void)state;
    size_t count = 0;
    const struct ckr_row *rows = ckr_rows(&count);
    for (size_t i = 0; i < count; i++) {
        if (rows[i].class == CKR_CLASS_PIN) {
            assert_int_equal(rows[i].fault, FAULT_TOKEN_PIN);
        } else if (rows[i].class != CKR_CLASS_CALL) {
            assert_int_equal(rows[i].fault, FAULT_TOKEN_UNAVAILABLE);
        } else {
            assert_int_not_equal(rows[i].fault, FAULT_TOKEN_PIN);
        }
    }
}

static void values_outside_the_table_have_a_row_too(void **state)
{
    (void)state;
    assert_int_equal(ckr_row(CKR_VENDOR_DEFINED + 7)->class, CKR_CLASS_DEVICE);
    assert_int_equal(ckr_row(CKR_VENDOR_DEFINED + 7)->fault, FAULT_TOKEN_UNAVAILABLE);
    assert_int_equal(ckr_row(0x7777)->class, CKR_CLASS_CALL);
    assert_int_equal(ckr_row(0x7777)->fault, FAULT_INTERNAL);
}

static void a_refusal_is_noted_in_words_and_its_value_only_in_the_log(void **state)
{
    (void)state;
    struct gate gate = { 0 };
    struct call call = { .gate = &gate };
    CLEANUP(op_freep) struct op *op = op_within(1000);
    struct fault fault = call_note(op, &call, call_refused(&call, "C_Sign", CKR_DEVICE_REMOVED));
    assert_int_equal(fault.code, FAULT_TOKEN_UNAVAILABLE);
    assert_non_null(strstr(op->note.detail, "connect the token again"));
    assert_null(strstr(op->note.detail, "CKR_"));
    assert_non_null(strstr(op->note.log_detail, "C_Sign: CKR_DEVICE_REMOVED (0x32)"));
    assert_ok(call_refused(&call, "C_Login", CKR_USER_ALREADY_LOGGED_IN));
}

static const struct token_quirks none;
static const struct key_ref acme = {
    { "acme" }, KEY_PURPOSE_CODESIGN, { "0190a6b2-0001-7000-8000-00000000abcd" }, { "" }
};

static void labels_name_tenant_purpose_algorithm_and_id(void **state)
{
    (void)state;
    struct key_label label;
    key_label_print(&acme, KEY_ALGORITHM_EC_P256, &label);
    assert_string_equal(label.text, "svc/1/acme/codesign/ec-p256/0190a6b2-0001-7000-8000-00000000abcd");
    struct key_ref post = acme;
    post.tenant = (struct tenant_id){ "" };
    post.purpose = KEY_PURPOSE_POST;
    key_label_print(&post, KEY_ALGORITHM_RSA_4096, &label);
    assert_string_equal(label.text, "svc/1/_/post/rsa-4096/0190a6b2-0001-7000-8000-00000000abcd");
}

static void labels_of_other_places_do_not_match(void **state)
{
    (void)state;
    static const char *const others[] = {
        "",
        "svc/1/acme/codesign/ec-p256/0190a6b2-0001-7000-8000-00000000abce",
        "svc/1/acme2/codesign/ec-p256/0190a6b2-0001-7000-8000-00000000abcd",
        "svc/1/acme/tsa/ec-p256/0190a6b2-0001-7000-8000-00000000abcd",
        "svc/1/acme/codesign/ec-p521/0190a6b2-0001-7000-8000-00000000abcd",
        "svc/2/acme/codesign/ec-p256/0190a6b2-0001-7000-8000-00000000abcd",
        "svc/1/acme/codesign/ec-p256/0190a6b2-0001-7000-8000-00000000abcd ",
    };
    enum key_algorithm algorithm = KEY_ALGORITHM_NONE;
    for (size_t i = 0; i < COUNT_OF(others); i++) {
        assert_false(key_label_match(&none, span_text(others[i]), &acme, &algorithm));
    }
    assert_int_equal(algorithm, KEY_ALGORITHM_NONE);
    struct key_label label;
    for (int i = KEY_ALGORITHM_NONE + 1; i < KEY_ALGORITHM_COUNT; i++) {
        key_label_print(&acme, (enum key_algorithm)i, &label);
        assert_true(key_label_match(&none, span_text(label.text), &acme, &algorithm));
        assert_int_equal(algorithm, i);
    }
}

static void key_ids_are_the_bytes_of_the_uuid(void **state)
{
    (void)state;
    static const uint8_t expected[KEY_ID_LEN] = { 0x01, 0x90, 0xa6, 0xb2, 0x00, 0x01, 0x70, 0x00,
                                                  0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0xab, 0xcd };
    uint8_t id[KEY_ID_LEN];
    key_id_bytes(&acme.id, id);
    assert_memory_equal(id, expected, sizeof(id));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_unique_and_helps_the_operator),
        cmocka_unit_test(a_row_that_heals_says_unavailable_and_a_pin_row_says_pin),
        cmocka_unit_test(values_outside_the_table_have_a_row_too),
        cmocka_unit_test(a_refusal_is_noted_in_words_and_its_value_only_in_the_log),
        cmocka_unit_test(labels_name_tenant_purpose_algorithm_and_id),
        cmocka_unit_test(labels_of_other_places_do_not_match),
        cmocka_unit_test(key_ids_are_the_bytes_of_the_uuid),
    };
    return cmocka_run_group_tests_name("ckr", tests, NULL, NULL);
}
