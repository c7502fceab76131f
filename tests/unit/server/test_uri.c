#include "unit/server/testing.h"

#include "api/server/uri.h"

#include <stdio.h>

static void paths_that_two_readers_could_read_differently_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "/a/../b", "/a/./b",    "/..",    "/a/%2e%2e/b", "/a/.%2E", "/a/%2F/b", "/a%2fb", "/a%5cb",
        "/a%00",   "/a%0d%0ab", "/a%7f",  "/a%",         "/a%4",    "/a%zz",    "/a b",   "/a\"b",
        "/a<b",    "/a\\b",     "/a\x80", "/a#b",        "/a?b",    "/a{b}",    "/a[b]",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        CLEANUP(op_freep) struct op *op = test_op();
        struct path path = { .count = 77 };
        assert_fault(path_split(op, bad[i], &path), BAD_ARGUMENT);
        assert_int_equal(path.count, 77);
    }
}

static void paths_that_no_route_can_have_are_not_found(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op();
    struct path path;
    assert_fault(path_split(op, "a/b", &path), ROUTE);
    assert_fault(path_split(op, "//a", &path), ROUTE);
    assert_fault(path_split(op, "/a//b", &path), ROUTE);
    assert_fault(path_split(op, "/a//", &path), ROUTE);
    assert_fault(path_split(op, "/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17", &path), ROUTE);
    char longer[PATH_MAX_LEN + 10];
    memset(longer, 'a', sizeof(longer));
    longer[0] = '/';
    longer[sizeof(longer) - 1] = 0;
    assert_fault(path_split(op, longer, &path), ROUTE);
}

static void a_path_is_split_undecoded(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op();
    struct path path;
    assert_fault(path_split(op, "/", &path), NONE);
    assert_int_equal(path.count, 0);
    assert_fault(path_split(op, "/api/v1/%6beys/a.b~c:@!$&'()*+,;=-_", &path), NONE);
    assert_int_equal(path.count, 4);
    assert_true(span_equal_text(path.segments[2], "%6beys"));
    assert_fault(path_split(op, "/a/.../b", &path), NONE);
    assert_fault(path_split(op, "/a/", &path), NONE);
    assert_int_equal(path.count, 2);
    assert_int_equal(path.segments[1].len, 0);
}

static void broken_escapes_and_controls_do_not_decode(void **state)
{
    (void)state;
    static const char *const bad[] = { "%",   "%4",  "%zz",    "a%00b",     "%0a",          "%1f",
                                       "%7F", "%80", "%c0%80", "%ed%a0%80", "%f5%80%80%80", "\x01" };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        CLEANUP(op_freep) struct op *op = test_op();
        const char *text = NULL;
        assert_fault(percent_decode(op, span_text(bad[i]), false, &text), BAD_ARGUMENT);
        assert_null(text);
    }
}

static void text_decodes_and_plus_is_a_blank_only_in_queries(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op();
    const char *text = NULL;
    assert_fault(percent_decode(op, span_text("a%20b+c%C3%A4%2F"), false, &text), NONE);
    assert_string_equal(text, "a b+c\xc3\xa4/");
    assert_fault(percent_decode(op, span_text("a+b%2B"), true, &text), NONE);
    assert_string_equal(text, "a b+");
    assert_fault(percent_decode(op, span_text(""), true, &text), NONE);
    assert_string_equal(text, "");
}

static const char *const accepted[] = { "limit", "cursor", "q", NULL };

static void unknown_doubled_and_malformed_parameters_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *query, *pointer;
    } bad[] = {
        { "nonsense=1", "nonsense" },
        { "limit=1&limit=2", "limit" },
        { "limit=1&lim%69t=2", "limit" },
        { "limit=%zz", "limit" },
        { "limit=1&&q=2", "" },
        { "limit=1&", "" },
        { "=1", "" },
        { "Limit=1", "Limit" },
        { "q=%00", "q" },
        { "%ff=1", "" },
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        CLEANUP(op_freep) struct op *op = test_op();
        struct query query = { .count = 77 };
        assert_fault(query_parse(op, bad[i].query, accepted, &query), QUERY);
        assert_string_equal(op->note.pointer, bad[i].pointer);
        assert_int_equal(query.count, 77);
    }
    CLEANUP(op_freep) struct op *op = test_op();
    struct query query;
    assert_fault(query_parse(op, "limit=1", NULL, &query), QUERY);
    char longer[QUERY_MAX_LEN + 10];
    memset(longer, 'a', sizeof(longer));
    longer[sizeof(longer) - 1] = 0;
    assert_fault(query_parse(op, longer, accepted, &query), QUERY);
}

static void parameters_are_decoded(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op();
    struct query query;
    assert_fault(query_parse(op, NULL, NULL, &query), NONE);
    assert_int_equal(query.count, 0);
    assert_fault(query_parse(op, "", NULL, &query), NONE);
    assert_fault(query_parse(op, "limit=50&q=a+b%26c=d&cursor", accepted, &query), NONE);
    assert_string_equal(query_get(&query, "limit"), "50");
    assert_string_equal(query_get(&query, "q"), "a b&c=d");
    assert_string_equal(query_get(&query, "cursor"), "");
    assert_null(query_get(&query, "other"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_that_two_readers_could_read_differently_are_refused),
        cmocka_unit_test(paths_that_no_route_can_have_are_not_found),
        cmocka_unit_test(a_path_is_split_undecoded),
        cmocka_unit_test(broken_escapes_and_controls_do_not_decode),
        cmocka_unit_test(text_decodes_and_plus_is_a_blank_only_in_queries),
        cmocka_unit_test(unknown_doubled_and_malformed_parameters_are_refused_by_name),
        cmocka_unit_test(parameters_are_decoded),
    };
    return cmocka_run_group_tests_name("uri", tests, NULL, NULL);
}
