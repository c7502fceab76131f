/* A message without the subject: what is replaced, what is left, what is refused. */
#include "api/privacy/internal.h"
#include "testlib.h"

#include <stdio.h>

static const struct event_row known_events[] = { { "key.generated", 1, NULL, "" }, { "codesign.signed", 1, NULL, "" } };
static const struct feature one = { .name = "one", .events = known_events, .event_count = COUNT_OF(known_events) };
static const struct feature *const all[] = { &one };
const struct feature *const *features_all(size_t *ret_count)
{
    *ret_count = COUNT_OF(all);
    return all;
}

static const struct uuid erasure = { "01234567-89ab-7cde-8f01-23456789abcd" };

static struct op *op_new_here(void)
{
    struct op *op = NULL;
    assert_fault(op_new("tester", (struct tenant_id){ "acme" }, 60000, &op), NONE);
    return op;
}

static void subjects_that_would_change_the_structure_or_match_by_accident_are_refused(void **state)
{
    (void)state;
    static const char *const refused[] = {
        "",        "abc",       "  ab  ",    "a\tbcd", "\xff\xfe\xfd\xfc", "sign",       "codesign", "active",
        "deadbee", "signed",    "generated", "acme",   "system:x",         "my erased-", "key.gen",  "retir",
        "12345",   "0123-4567", "ec-p",      "true",
    };
    CLEANUP(op_freep) struct op *op = op_new_here();
    struct privacy_subject subject;
    for (size_t i = 0; i < COUNT_OF(refused); i++) {
        op->note = (struct fault_note){ 0 };
        assert_fault(privacy_subject_make(op, refused[i], erasure, &subject), PRIVACY_SUBJECT);
    }
    char long_one[200];
    memset(long_one, 'q', sizeof(long_one) - 1);
    long_one[sizeof(long_one) - 1] = '\0';
    assert_fault(privacy_subject_make(op, long_one, erasure, &subject), PRIVACY_SUBJECT);
    assert_fault(privacy_subject_make(op, "  Alice Example ", erasure, &subject), NONE);
    assert_true(span_equal_text(subject.text, "Alice Example"));
}

/* The body of a message with this actor and data, transformed; NULL when nothing changed. */
static const char *transformed(struct op *op, const char *subject_text, const char *actor_text, const char *data,
                               struct transformed *ret_made)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT(EVENT_MESSAGE_MAX), out = BUF_INIT(EVENT_MESSAGE_MAX);
    struct event_message message;
    struct privacy_subject subject;
    struct principal actor = { .role_count = 1, .roles = { "operator" } };
    const struct event event = { "key.generated", 1, span_text(data) };
    (void)snprintf(actor.subject, sizeof(actor.subject), "%s", actor_text);
    const struct event_body parts = { .actor = &actor,
                                      .tenant = { "acme" },
                                      .lane = "keys",
                                      .trace_id = "",
                                      .message_id = erasure,
                                      .time = 1000000,
                                      .events = &event,
                                      .count = 1 };
    const char *text = NULL;
    assert_fault(event_message_encode(&parts, &body), NONE);
    assert_fault(event_body_decode(op, 7, buf_span(&body), &message), NONE);
    assert_fault(privacy_subject_make(op, subject_text, erasure, &subject), NONE);
    assert_fault(privacy_transform(op, &message, &subject, &out, ret_made), NONE);
    if (!ret_made->changed) {
        return NULL;
    }
    struct event_message again; /* one of ours, with the same ids */
    assert_fault(event_body_decode(op, 7, buf_span(&out), &again), NONE);
    assert_string_equal(again.events[0].id.text, message.events[0].id.text);
    assert_string_equal(again.events[0].actor_roles[0], "operator");
    assert_fault(arena_text(op->arena, buf_span(&out), &text), NONE);
    return text;
}

static void matching_bytes_are_replaced_and_nothing_else(void **state)
{
    (void)state;
    static const struct {
        const char *subject, *actor, *data, *expect; /* expect: in the body; NULL = unchanged */
        bool residual;
    } cases[] = {
        { "alice", "bob", "{\"name\":\"carol\"}", NULL, false },
        { "alice@example.com", "alice@example.com", "{}", "\"subject\":\"erased-01234567-89ab\"", false },
        { "alice", "bob", "{\"name\":\"key of alice, and alice2\"}",
          "\"name\":\"key of erased-01234567-89ab, and erased-01234567-89ab2\"", false },
        { "al\"ice", "bob", "{\"name\":\"x al\\\"ice y\"}", "\"name\":\"x erased-01234567-89ab y\"", false },
        { "Zo\xc3\xab K", "bob", "{\"name\":\"Zo\xc3\xab K\"}", "\"name\":\"erased-01234567-89ab\"", false },
        { "alice", "bob", "{\"x\":{\"alice\":[1,{\"b\":\"alice\"}]}}",
          "\"x\":{\"erased-01234567-89ab\":[1,{\"b\":\"erased-01234567-89ab\"}]}", false },
        { "alice", "bob", "{\"n\":12.5,\"t\":\"a\\\\b\\n alice\"}",
          "\"n\":12.5,\"t\":\"a\\\\b\\n erased-01234567-89ab\"", false },
        /* base64 of "proof of alice here", and text of base64's alphabet that happens to hold it */
        { "alice", "bob", "{\"p\":\"cHJvb2Ygb2YgYWxpY2UgaGVyZQ==\"}", NULL, true },
        { "alice", "bob", "{\"p\":\"QUJDalicQUJDQUJDQUJDaliceJDQUJDQUJDQ\"}", NULL, true },
        { "alice", "bob", "{\"h\":\"00616c69636500\"}", NULL, true },
    };
    CLEANUP(op_freep) struct op *op = op_new_here();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct transformed made;
        const char *body = transformed(op, cases[i].subject, cases[i].actor, cases[i].data, &made);
        assert_int_equal(made.residual, cases[i].residual);
        assert_int_equal(body != NULL, cases[i].expect != NULL);
        if (body != NULL) {
            assert_non_null(strstr(body, cases[i].expect));
            assert_null(strstr(strstr(body, "\"events\""), cases[i].subject));
        }
    }
}

static void a_text_that_would_outgrow_its_bound_becomes_the_placeholder_alone(void **state)
{
    (void)state;
    char data[256], name[120];
    for (size_t i = 0; i < sizeof(name) - 1; i++) {
        name[i] = "alic "[i % 5];
    }
    name[sizeof(name) - 1] = '\0';
    (void)snprintf(data, sizeof(data), "{\"name\":\"%s\"}", name);
    CLEANUP(op_freep) struct op *op = op_new_here();
    struct transformed made;
    assert_non_null(strstr(transformed(op, "alic", "bob", data, &made), "\"name\":\"erased-01234567-89ab\""));
}

static void a_member_of_our_own_that_holds_the_subject_is_refused(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = op_new_here();
    CLEANUP(buf_free) struct buf body = BUF_INIT(4096), out = BUF_INIT(4096);
    const struct principal actor = { .subject = "bob" };
    const struct event event = { "key.generated", 1, span_text("{\"public_key_der\":\"x\"}") };
    const struct event_body parts = { .actor = &actor,
                                      .tenant = { "acme" },
                                      .lane = "keys",
                                      .trace_id = "",
                                      .message_id = erasure,
                                      .time = 1,
                                      .events = &event,
                                      .count = 1 };
    struct event_message message;
    struct privacy_subject subject;
    struct transformed made;
    assert_fault(event_message_encode(&parts, &body), NONE);
    assert_fault(event_body_decode(op, 7, buf_span(&body), &message), NONE);
    assert_fault(privacy_subject_make(op, "public_key", erasure, &subject), NONE);
    assert_fault(privacy_transform(op, &message, &subject, &out, &made), PRIVACY_SUBJECT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(subjects_that_would_change_the_structure_or_match_by_accident_are_refused),
        cmocka_unit_test(matching_bytes_are_replaced_and_nothing_else),
        cmocka_unit_test(a_text_that_would_outgrow_its_bound_becomes_the_placeholder_alone),
        cmocka_unit_test(a_member_of_our_own_that_holds_the_subject_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
