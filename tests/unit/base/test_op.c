#include "appliance/base/op.h"
#include "testlib.h"

static struct op *op_for_test(void)
{
    struct op *op = NULL;
    assert_fault(op_new("tester", (struct tenant_id){ "acme" }, 60000, &op), NONE);
    return op;
}

static void the_first_note_stands(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = op_for_test();
    assert_fault(op_fail(op, FAULT(KEY_STATE), "the key %s is destroyed", "k1"), KEY_STATE);
    assert_fault(op_fail_field(op, FAULT(JSON_FIELD), "/x", "later"), JSON_FIELD);
    op_note_log(op, "first %d", 1);
    op_note_log(op, "second");
    assert_true(op->note.set);
    assert_int_equal(op->note.code, FAULT_KEY_STATE);
    assert_string_equal(op->note.detail, "the key k1 is destroyed");
    assert_string_equal(op->note.pointer, "");
    assert_string_equal(op->note.log_detail, "first 1");
    assert_non_null(strstr(op->note.file, "test_op.c"));
    assert_true(op->note.line > 0);
}

static void without_an_operation_only_the_code_travels(void **state)
{
    (void)state;
    assert_fault(op_fail(NULL, FAULT(IO), "nobody hears %d", 1), IO);
    assert_fault(op_fail_field(NULL, FAULT(QUERY), "limit", "nobody"), QUERY);
    op_note_log(NULL, "nobody");
}

static void a_note_is_utf8_whatever_was_put_in(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = op_for_test();
    char long_text[400];
    memset(long_text, 'x', sizeof(long_text));
    memcpy(long_text + 253, "\xf0\x9f\x98\x80", 4); /* will be cut in the middle */
    long_text[399] = 0;
    assert_fault(op_fail_field(op, FAULT(QUERY), "a\xff\xc3(", "%s", long_text), QUERY);
    assert_string_equal(op->note.pointer, "a?"
                                          "?(");
    assert_int_equal(strlen(op->note.detail), 255);
    assert_string_equal(op->note.detail + 252, "x??");
}

static void an_operation_knows_its_deadline_and_trace(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = op_for_test(), *other = NULL;
    assert_fault(op_new("tester", (struct tenant_id){ "" }, 0, &other), NONE);
    assert_false(op_expired(op));
    assert_true(op_expired(other));
    assert_int_equal(strspn(op->trace_id, "0123456789abcdef"), 32);
    assert_int_equal(strspn(op->span_id, "0123456789abcdef"), 16);
    assert_string_not_equal(op->trace_id, other->trace_id);
    assert_string_equal(op->principal.subject, "tester");
    assert_string_equal(op->tenant.text, "acme");
    assert_string_equal(op->command_id.text, "");
}

static struct fault make(void)
{
    CLEANUP(op_freep) struct op *op = NULL;
    TRY(op_new("tester", (struct tenant_id){ "acme" }, 1000, &op));
    return OK;
}

static void every_failing_allocation_is_reported(void **state)
{
    (void)state;
    assert_true(fail_each_allocation(make) >= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_note_stands),
        cmocka_unit_test(without_an_operation_only_the_code_travels),
        cmocka_unit_test(a_note_is_utf8_whatever_was_put_in),
        cmocka_unit_test(an_operation_knows_its_deadline_and_trace),
        cmocka_unit_test(every_failing_allocation_is_reported),
    };
    return cmocka_run_group_tests_name("op", tests, NULL, NULL);
}
