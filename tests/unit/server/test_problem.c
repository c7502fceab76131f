#include "unit/server/testing.h"

#include "api/server/problem.h"
#include "appliance/base/file.h"
#include "appliance/base/json.h"

#include <stdio.h>

/* Every row as it is answered: "number status headers body". After a new row in fault.def run this test with
 * SVC_GOLDEN_WRITE=1 and look at the difference: codes and statuses that stood there must not change. */
#define GOLDEN "tests/golden/problems.txt"

static void fix_trace(struct op *op)
{
    (void)snprintf(op->trace_id, sizeof(op->trace_id), "0af7651916cd43dd8448eb211c80319c");
}

static const char *header(const struct response *response, const char *name)
{
    for (size_t i = 0; i < response->header_count; i++) {
        if (strcmp(response->headers[i].name, name) == 0) {
            return response->headers[i].value;
        }
    }
    return NULL;
}

static const char *body_of(struct op *op, const struct response *response)
{
    const char *text = NULL;
    assert_fault(arena_text(op->arena, response->body, &text), NONE);
    return text;
}

static void print_row(const struct fault_row *row, struct buf *out)
{
    CLEANUP(op_freep) struct op *op = test_op();
    struct response response = { 0 };
    fix_trace(op);
    IGNORE(op_fail_field(op, (struct fault){ row->code }, "/field", "what is wrong"));
    problem_fill(op, (struct fault){ row->code }, &response);
    const char *challenge = header(&response, "WWW-Authenticate");
    const char *retry = header(&response, "Retry-After");
    assert_fault(buf_printf(out, "%d %d %s|%s %s\n", (int)row->code, response.status, challenge ? challenge : "",
                            retry ? retry : "", body_of(op, &response)),
                 NONE);
    assert_string_equal(response.content_type, "application/problem+json");
    assert_int_equal(response.fault, row->code);
}

static void every_row_of_the_fault_table_has_its_golden_answer(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf out = BUF_INIT(1 << 20);
    CLEANUP(buf_free) struct buf golden = BUF_INIT(1 << 20);
    size_t count = 0;
    const struct fault_row *rows = fault_rows(&count);
    for (size_t i = 0; i < count; i++) {
        if (rows[i].code != FAULT_NONE) {
            print_row(&rows[i], &out);
        }
    }
    if (getenv("SVC_GOLDEN_WRITE") != NULL) {
        assert_fault(file_write(GOLDEN, buf_span(&out), 0644), NONE);
    }
    assert_fault(file_read(GOLDEN, &golden), NONE);
    const char *is = NULL;
    const char *should = NULL;
    assert_fault(buf_cstr(&out, &is), NONE);
    assert_fault(buf_cstr(&golden, &should), NONE);
    assert_string_equal(is, should);
}

static void inner_failures_tell_nothing_but_the_trace(void **state)
{
    (void)state;
    static const struct fault inner[] = { FAULT(INTERNAL), FAULT(IO),           FAULT(CRYPTO),
                                          FAULT(CONFIG),   FAULT(STORE_SCHEMA), FAULT(SIGNER_PROTOCOL) };
    for (size_t i = 0; i < COUNT_OF(inner); i++) {
        CLEANUP(op_freep) struct op *op = test_op();
        struct response response = { 0 };
        fix_trace(op);
        IGNORE(op_fail_field(op, inner[i], "/secret", "column secret_table.x is gone"));
        op_note_log(op, "more secrets");
        problem_fill(op, inner[i], &response);
        assert_null(strstr(body_of(op, &response), "secret"));
        assert_non_null(strstr(body_of(op, &response), "\"trace_id\":\"0af7651916cd43dd8448eb211c80319c\""));
    }
}

static void a_note_about_another_fault_is_not_told(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op();
    struct response response = { 0 };
    IGNORE(op_fail_field(op, FAULT(KEY_NOT_FOUND), "key_id", "no such key"));
    problem_fill(op, FAULT(CONFLICT), &response);
    assert_null(strstr(body_of(op, &response), "no such key"));
    assert_null(strstr(body_of(op, &response), "key_id"));
}

static void a_rolled_back_transaction_says_retryable_and_its_sqlstate(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op();
    struct response response = { 0 };
    IGNORE(op_fail(op, FAULT(TX_CONFLICT), "repeat it"));
    (void)snprintf(op->note.sqlstate, sizeof(op->note.sqlstate), "40001");
    op->note.retry_after_s = 7;
    problem_fill(op, FAULT(TX_CONFLICT), &response);
    assert_int_equal(response.status, 503);
    assert_string_equal(header(&response, "Retry-After"), "7");
    assert_non_null(strstr(body_of(op, &response), "\"retryable\":true"));
    assert_non_null(strstr(body_of(op, &response), "\"sqlstate\":\"40001\""));
}

static void a_resource_is_told(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op();
    struct response response = { 0 };
    IGNORE(op_fail(op, FAULT(APPROVAL_REQUIRED), "ask an approver"));
    (void)snprintf(op->note.resource, sizeof(op->note.resource), "approval_required:codesign:ab");
    problem_fill(op, FAULT(APPROVAL_REQUIRED), &response);
    assert_non_null(strstr(body_of(op, &response), "\"resource\":\"approval_required:codesign:ab\""));
    assert_null(header(&response, "Retry-After"));
}

static void what_the_caller_sent_is_escaped_and_never_breaks_the_body(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op();
    struct response response = { 0 };
    IGNORE(op_fail_field(op, FAULT(JSON_FIELD), "/a\"b", "cut"));
    op->note.detail[0] = '\xc3'; /* half a character, which the note's maker would have repaired */
    problem_fill(op, FAULT(JSON_FIELD), &response);
    CLEANUP(buf_free) struct buf canonical = BUF_INIT(65536);
    assert_fault(json_canonical(response.body, &canonical), NONE);
    assert_non_null(strstr(body_of(op, &response), "\"pointer\":\"/a\\\"b\""));
    assert_null(strstr(body_of(op, &response), "\"detail\""));
}

static void without_memory_there_is_still_an_answer(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op();
    struct response response = { .close = true };
    arena_free(op->arena);
    op->arena = NULL;
    assert_fault(arena_new(16, &op->arena), NONE);
    problem_fill(op, FAULT(KEY_NOT_FOUND), &response);
    assert_int_equal(response.status, 503);
    assert_true(response.body.len > 0);
    assert_true(response.close);
}

static void what_a_handler_answered_before_its_fault_is_gone(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op();
    struct response response = { .status = 200, .content_type = "application/json", .body = span_text("{}") };
    assert_fault(response_add(op, &response, "Location", "/x"), NONE);
    problem_fill(op, FAULT(KEY_NOT_FOUND), &response);
    assert_int_equal(response.status, 404);
    assert_null(header(&response, "Location"));
}

static void headers_with_control_characters_are_refused(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op();
    struct response response = { 0 };
    assert_fault(response_add(op, &response, "X-A", "a\r\nSet-Cookie: b"), BAD_ARGUMENT);
    assert_fault(response_add(op, &response, "X-A", "a\x7f"), BAD_ARGUMENT);
    assert_fault(response_add(op, &response, "X A", "a"), BAD_ARGUMENT);
    assert_fault(response_add(op, &response, "", "a"), BAD_ARGUMENT);
    assert_int_equal(response.header_count, 0);
}

static void kept_headers_come_back(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op();
    CLEANUP(buf_free) struct buf text = BUF_INIT(4096);
    struct response response = { 0 };
    struct response again = { 0 };
    assert_fault(response_add(op, &response, "Location", "/api/v1/keys/1: 2"), NONE);
    assert_fault(response_add(op, &response, "Retry-After", ""), NONE);
    assert_fault(response_headers_print(&response, &text), NONE);
    assert_fault(response_headers_parse(op, buf_span(&text), &again), NONE);
    assert_int_equal(again.header_count, 2);
    assert_string_equal(header(&again, "Location"), "/api/v1/keys/1: 2");
    assert_string_equal(header(&again, "Retry-After"), "");
    assert_fault(response_headers_parse(op, span_text("no colon\n"), &again), INTERNAL);
    assert_fault(response_headers_parse(op, span_text("A: b"), &again), INTERNAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_of_the_fault_table_has_its_golden_answer),
        cmocka_unit_test(inner_failures_tell_nothing_but_the_trace),
        cmocka_unit_test(a_note_about_another_fault_is_not_told),
        cmocka_unit_test(a_rolled_back_transaction_says_retryable_and_its_sqlstate),
        cmocka_unit_test(a_resource_is_told),
        cmocka_unit_test(what_the_caller_sent_is_escaped_and_never_breaks_the_body),
        cmocka_unit_test(without_memory_there_is_still_an_answer),
        cmocka_unit_test(what_a_handler_answered_before_its_fault_is_gone),
        cmocka_unit_test(headers_with_control_characters_are_refused),
        cmocka_unit_test(kept_headers_come_back),
    };
    return cmocka_run_group_tests_name("problem", tests, NULL, NULL);
}
