#include "api/events/events.h"
#include "testlib.h"

#include <stdio.h>

#define MESSAGE_ID "0190a000-0000-7000-8000-00000000abcd"
#define SUBJECT    "svc.events.acme.keys"
#define GOOD                                                                                                        \
    "{\"actor\":{\"roles\":[\"ci\"],\"subject\":\"al\\\"ice\\n\"},\"events\":[{\"data\":{\"a\":{\"}\":\"\\\"{\"}}," \
    "\"schema_version\":1,\"type\":\"keys.made\"},{\"data\":{},\"schema_version\":2,\"type\":\"keys.used\"}],"      \
    "\"lane\":\"keys\",\"message_id\":\"" MESSAGE_ID "\",\"tenant\":\"acme\","                                      \
    "\"time\":\"2026-11-21T03:50:36.123456Z\",\"trace_id\":\"0123456789abcdef0123456789abcdef\",\"v\":1}"

static struct op *op_for_test(void)
{
    struct op *op = NULL;
    assert_fault(op_new("tester", (struct tenant_id){ "" }, 60000, &op), NONE);
    return op;
}

static struct fault decode(struct op *op, const char *subject, struct span body, struct event_message *ret_message)
{
    return event_message_decode(op, 7, span_text(subject), body, ret_message);
}

static void assert_refused(const char *subject, const char *body)
{
    CLEANUP(op_freep) struct op *op = op_for_test();
    struct event_message message = { .count = 99 };
    assert_fault(decode(op, subject, span_text(body), &message), LOG_DECODE);
    assert_int_equal(message.count, 99);
}

/* `body` with the first `from` in it replaced. */
static void assert_refused_with(const char *from, const char *to)
{
    char body[2048];
    const char *at = strstr(GOOD, from);
    assert_non_null(at);
    (void)snprintf(body, sizeof(body), "%.*s%s%s", (int)(at - GOOD), GOOD, to, at + strlen(from));
    assert_refused(SUBJECT, body);
}

static void what_is_not_ours_is_refused(void **state)
{
    (void)state;
    assert_refused(SUBJECT, "");
    assert_refused(SUBJECT, "{}");
    assert_refused(SUBJECT, "[1,2]");
    assert_refused(SUBJECT, "rubbish");
    assert_refused(SUBJECT, " " GOOD);
    assert_refused(SUBJECT, GOOD " ");
    assert_refused(SUBJECT, GOOD GOOD);
}

static void every_truncation_is_refused(void **state)
{
    (void)state;
    for (size_t len = 0; len < strlen(GOOD); len++) {
        CLEANUP(op_freep) struct op *op = op_for_test();
        struct event_message message;
        char *exact = NULL; /* of exactly that size, so that a byte too far is seen */
        assert_fault(mem_new(len, 1, &exact), NONE);
        memcpy(exact, GOOD, len);
        assert_fault(decode(op, SUBJECT, span_of(exact, len), &message), LOG_DECODE);
        mem_free(exact);
    }
}

static void another_form_of_the_same_values_is_refused(void **state)
{
    (void)state;
    assert_refused_with("{\"data\":{},", "{\"data\":{ },");
    assert_refused_with("\"schema_version\":1", "\"schema_version\":01");
    assert_refused_with("\"schema_version\":1", "\"schema_version\":1.0");
    assert_refused_with("\\n\"", "\\u000a\"");
    assert_refused_with("keys.made", "keys\\u002emade");
    assert_refused_with(".123456Z", ".123456+00:00");
    assert_refused_with("03:50:36", "03:50:60");
    assert_refused_with("{\"data\":{},", "{\"data\":{\"b\":1,\"a\":1},");
    assert_refused_with("{\"data\":{},", "{\"data\":{\"a\":1,\"a\":1},");
    assert_refused_with("{\"data\":{},", "{\"data\":{\"a\":1e2},");
    assert_refused_with("al\\\"ice", "al\\\"\xff");
}

static void parts_beyond_their_rules_are_refused(void **state)
{
    (void)state;
    assert_refused_with("\"v\":1", "\"v\":2");
    assert_refused_with("\"v\":1", "\"v\":1,\"w\":1");
    assert_refused_with("\"schema_version\":1", "\"schema_version\":0");
    assert_refused_with("\"schema_version\":1", "\"schema_version\":-1");
    assert_refused_with("\"schema_version\":1", "\"schema_version\":99999999999999999999");
    assert_refused_with("keys.made", "Keys.Made");
    assert_refused_with("keys.made", "");
    assert_refused_with(MESSAGE_ID, "0190A000-0000-7000-8000-00000000ABCD");
    assert_refused_with(MESSAGE_ID, "");
    assert_refused_with("\"roles\":[\"ci\"]", "\"roles\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\"]");
    assert_refused_with("\"roles\":[\"ci\"]", "\"roles\":[\"a role that is much longer than roles are\"]");
    assert_refused_with("0123456789abcdef0123456789abcdef", "0123456789ABCDEF0123456789abcdef");
    assert_refused_with("0123456789abcdef", "00123456789abcdef");
    assert_refused_with("{\"data\":{},", "{\"data\":[],");
    assert_refused_with("{\"data\":{},", "{\"data\":null,");
}

static void a_subject_of_another_tenant_or_lane_is_refused(void **state)
{
    (void)state;
    assert_refused("svc.events.other.keys", GOOD);
    assert_refused("svc.events.acme.tsa", GOOD);
    assert_refused("svc.events.acme.keys.x", GOOD);
    assert_refused("svc.events.acme", GOOD);
    assert_refused("", GOOD);
    assert_refused_with("\"tenant\":\"acme\"", "\"tenant\":\"acm\"");
    assert_refused_with("\"tenant\":\"acme\"", "\"tenant\":\"\"");
}

static void no_event_or_too_many_are_refused(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf body = BUF_INIT(1 << 17);
    assert_fault(buf_text(&body, "{\"actor\":{\"roles\":[],\"subject\":\"a\"},\"events\":["), NONE);
    for (int i = 0; i <= EVENTS_PER_MESSAGE_MAX; i++) {
        assert_fault(buf_printf(&body, "%s{\"data\":{},\"schema_version\":1,\"type\":\"t\"}", i > 0 ? "," : ""), NONE);
    }
    assert_fault(buf_text(&body, "],\"lane\":\"keys\",\"message_id\":\"" MESSAGE_ID
                                 "\",\"tenant\":\"acme\",\"time\":\"2026-11-21T03:50:36.123456Z\",\"trace_id\":\"\","
                                 "\"v\":1}"),
                 NONE);
    const char *text = NULL;
    assert_fault(buf_cstr(&body, &text), NONE);
    assert_refused(SUBJECT, text);
    assert_refused(SUBJECT,
                   "{\"actor\":{\"roles\":[],\"subject\":\"a\"},\"events\":[],\"lane\":\"keys\",\"message_id\":"
                   "\"" MESSAGE_ID "\",\"tenant\":\"acme\",\"time\":\"2026-11-21T03:50:36.123456Z\","
                   "\"trace_id\":\"\",\"v\":1}");
}

static void a_body_over_the_limit_is_refused_unread(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = op_for_test();
    char *large = NULL;
    struct event_message message;
    assert_fault(mem_new(EVENT_MESSAGE_MAX + 1, 1, &large), NONE);
    assert_fault(decode(op, SUBJECT, span_of(large, EVENT_MESSAGE_MAX + 1), &message), LOG_DECODE);
    mem_free(large);
}

static void what_may_not_be_written_is_refused(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf out = BUF_INIT(EVENT_MESSAGE_MAX);
    const struct principal actor = { .subject = "a" };
    struct event event = { "t", 1, span_text("{}") };
    struct event_body good = { &actor, { "acme" }, "keys", "", { MESSAGE_ID }, 0, &event, 1 };
    struct event_body body = good;
    assert_fault(event_message_encode(&body, &out), NONE);
    body.lane = "Keys.>";
    assert_fault(event_message_encode(&body, &out), BAD_ARGUMENT);
    body = good;
    body.tenant = (struct tenant_id){ "" };
    assert_fault(event_message_encode(&body, &out), BAD_ARGUMENT);
    body = good;
    body.count = 0;
    assert_fault(event_message_encode(&body, &out), BAD_ARGUMENT);
    body = good;
    event.data = span_text("[1]");
    assert_fault(event_message_encode(&body, &out), BAD_ARGUMENT);
    event.data = span_text("{\"a\":1,}");
    assert_fault(event_message_encode(&body, &out), JSON_SYNTAX);
    event.data = span_text("{}");
    event.type = "has space";
    assert_fault(event_message_encode(&body, &out), BAD_ARGUMENT);
}

static void a_message_comes_back_as_it_was_written(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = op_for_test();
    struct event_message message;
    assert_fault(decode(op, SUBJECT, span_text(GOOD), &message), NONE);
    assert_int_equal(message.stream_seq, 7);
    assert_string_equal(message.message_id.text, MESSAGE_ID);
    assert_string_equal(message.tenant.text, "acme");
    assert_span_text(message.body, GOOD);
    assert_int_equal(message.count, 2);
    const struct event_view *first = &message.events[0], *second = &message.events[1];
    assert_string_equal(first->lane, "keys");
    assert_string_equal(first->type, "keys.made");
    assert_int_equal(first->schema_version, 1);
    assert_int_equal(first->time, 1795233036123456);
    assert_string_equal(first->actor_subject, "al\"ice\n");
    assert_int_equal(first->actor_role_count, 1);
    assert_string_equal(first->actor_roles[0], "ci");
    assert_string_equal(first->trace_id, "0123456789abcdef0123456789abcdef");
    assert_span_text(first->data, "{\"a\":{\"}\":\"\\\"{\"}}");
    assert_int_equal(second->position, 1);
    assert_string_equal(second->type, "keys.used");
    /* Computed by another program. */
    assert_string_equal(first->id.text, "05a87f3a-9d25-8b0b-8e6a-cd666c9699c5");
    assert_string_equal(second->id.text, "4868440f-db4f-88d8-9cd7-757bc36dbd68");
}

static void data_in_any_form_is_stored_in_one(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = op_for_test();
    CLEANUP(buf_free) struct buf out = BUF_INIT(4096);
    const struct principal actor = { .subject = "\001\xf0\x9f\x94\x91", .roles = { "r" }, .role_count = 1 };
    struct event event = { "t", 1, span_text(" { \"b\" : 1.50e1 , \"a\" : \"\\u0041\" } ") };
    struct event_body body = { &actor, { "acme" }, "keys", "", { MESSAGE_ID }, 1, &event, 1 };
    struct event_message message;
    assert_fault(event_message_encode(&body, &out), NONE);
    assert_fault(decode(op, SUBJECT, buf_span(&out), &message), NONE);
    assert_span_text(message.events[0].data, "{\"a\":\"A\",\"b\":15}");
    assert_string_equal(message.events[0].actor_subject, actor.subject);
}

static struct fault decode_good(void)
{
    CLEANUP(op_freep) struct op *op = NULL;
    struct event_message message;
    TRY(op_new("tester", (struct tenant_id){ "" }, 60000, &op));
    return decode(op, SUBJECT, span_text(GOOD), &message);
}

static void without_memory_it_says_so(void **state)
{
    (void)state;
    assert_true(fail_each_allocation(decode_good) > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_ours_is_refused),
        cmocka_unit_test(every_truncation_is_refused),
        cmocka_unit_test(another_form_of_the_same_values_is_refused),
        cmocka_unit_test(parts_beyond_their_rules_are_refused),
        cmocka_unit_test(a_subject_of_another_tenant_or_lane_is_refused),
        cmocka_unit_test(no_event_or_too_many_are_refused),
        cmocka_unit_test(a_body_over_the_limit_is_refused_unread),
        cmocka_unit_test(what_may_not_be_written_is_refused),
        cmocka_unit_test(a_message_comes_back_as_it_was_written),
        cmocka_unit_test(data_in_any_form_is_stored_in_one),
        cmocka_unit_test(without_memory_it_says_so),
    };
    return cmocka_run_group_tests_name("events/message", tests, NULL, NULL);
}
