#include "unit/server/testing.h"

#include "api/server/message.h"

static struct message with(const struct http_header *headers, size_t count)
{
    struct message message = { .method = "POST", .path = "/x" };
    memcpy(message.headers, headers, count * sizeof(*headers));
    message.header_count = count;
    return message;
}
#define WITH(...) \
    with((const struct http_header[]){ __VA_ARGS__ }, COUNT_OF(((const struct http_header[]){ __VA_ARGS__ })))

static void doubled_headers_that_decide_something_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = { "Host",          "Content-Length",  "Content-Type",
                                         "Authorization", "Idempotency-Key", "authorization" };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        CLEANUP(op_freep) struct op *op = test_op();
        struct message message = WITH({ "Host", "a" }, { names[i], "5" }, { "X", "y" }, { names[i], "5" });
        assert_fault(message_check(op, &message), BAD_ARGUMENT);
        assert_true(op->note.pointer[0] != 0);
    }
}

static void a_chunked_body_is_refused_even_beside_a_length(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op();
    struct message message = WITH({ "Host", "a" }, { "Transfer-Encoding", "chunked" }, { "Content-Length", "5" });
    assert_fault(message_check(op, &message), LENGTH_REQUIRED);
    message = WITH({ "Host", "a" }, { "transfer-encoding", "identity" });
    assert_fault(message_check(op, &message), LENGTH_REQUIRED);
}

static void a_content_length_is_digits_only(void **state)
{
    (void)state;
    static const char *const bad[] = { "", "-1", "+5", "5 ", " 5", "5,5", "0x5", "5abc", "99999999999999999" };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        CLEANUP(op_freep) struct op *op = test_op();
        struct message message = WITH({ "Host", "a" }, { "Content-Length", bad[i] });
        assert_fault(message_check(op, &message), BAD_ARGUMENT);
    }
}

static void a_host_is_needed_from_http_1_1_on(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op();
    struct message message = WITH({ "X", "y" });
    assert_fault(message_check(op, &message), BAD_ARGUMENT);
    message.http_1_0 = true;
    assert_fault(message_check(op, &message), NONE);
}

static void a_header_block_that_did_not_parse_is_refused(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op();
    struct message message = WITH({ "Host", "a" });
    message.malformed = true;
    assert_fault(message_check(op, &message), BAD_ARGUMENT);
}

static void a_good_message_tells_its_length(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op();
    struct message message = WITH({ "host", "a" }, { "content-length", "1048576" }, { "X", "1" }, { "X", "2" });
    assert_fault(message_check(op, &message), NONE);
    assert_int_equal(message.content_length, 1048576);
    assert_string_equal(message_header(&message, "x"), "1");
    assert_null(message_header(&message, "y"));
}

static void other_content_types_and_encodings_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = { "text/plain",
                                       "application/jsonx",
                                       "application/json; charset=latin-1",
                                       "application/json; charset=utf-8; x=y",
                                       "application/json,text/plain",
                                       "" };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        CLEANUP(op_freep) struct op *op = test_op();
        struct message message = WITH({ "Content-Type", bad[i] });
        assert_fault(message_check_content_type(op, &message, "application/json"), MEDIA_TYPE);
    }
    CLEANUP(op_freep) struct op *op = test_op();
    struct message none = WITH({ "Host", "a" });
    assert_fault(message_check_content_type(op, &none, "application/json"), MEDIA_TYPE);
    struct message gzip = WITH({ "Content-Type", "application/json" }, { "Content-Encoding", "gzip" });
    assert_fault(message_check_content_type(op, &gzip, "application/json"), MEDIA_TYPE);
    struct message query = WITH({ "Content-Type", "application/timestamp-query; x=y" });
    assert_fault(message_check_content_type(op, &query, "application/timestamp-query"), MEDIA_TYPE);
}

static void the_content_type_is_accepted_in_its_spellings(void **state)
{
    (void)state;
    static const char *const good[] = { "application/json", "Application/JSON", "application/json;charset=utf-8",
                                        "application/json; charset=\"UTF-8\"", "application/json " };
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        CLEANUP(op_freep) struct op *op = test_op();
        struct message message = WITH({ "Content-Type", good[i] }, { "Content-Encoding", "identity" });
        assert_fault(message_check_content_type(op, &message, "application/json"), NONE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doubled_headers_that_decide_something_are_refused),
        cmocka_unit_test(a_chunked_body_is_refused_even_beside_a_length),
        cmocka_unit_test(a_content_length_is_digits_only),
        cmocka_unit_test(a_host_is_needed_from_http_1_1_on),
        cmocka_unit_test(a_header_block_that_did_not_parse_is_refused),
        cmocka_unit_test(a_good_message_tells_its_length),
        cmocka_unit_test(other_content_types_and_encodings_are_refused),
        cmocka_unit_test(the_content_type_is_accepted_in_its_spellings),
    };
    return cmocka_run_group_tests_name("message", tests, NULL, NULL);
}
