/* Does a log have what its checkpoints stand for? */
#include "testlib.h"

#include "api/audit/archive.h"
#include "api/audit/source.h"
#include "api/audit/uuid_set.h"
#include "api/projection/chain.h"
#include "appliance/base/codec.h"

#include <stdio.h>

#define LOG_MAX 16

/* A log in memory: each message has one event of one tenant. */
struct told {
    struct op *op;
    struct event_message at[LOG_MAX];
    struct event_view events[LOG_MAX];
    size_t count;
    struct source source;
};

static struct event_message *tell(struct told *told, const char *tenant, const char *type, const char *data)
{
    struct event_view *event = &told->events[told->count];
    struct event_message *message = &told->at[told->count++];
    char id[37];
    (void)snprintf(id, sizeof(id), "00000000-0000-8000-8000-%012zu", told->count);
    *event =
        (struct event_view){ .lane = "a", .type = type, .schema_version = 1, .actor_subject = "x", .trace_id = "" };
    event->stream_seq = told->count;
    event->data = span_text(data);
    assert_fault(tenant_id_parse(span_text(tenant), &event->tenant), NONE);
    *message =
        (struct event_message){ .stream_seq = told->count, .events = event, .count = 1, .tenant = event->tenant };
    assert_fault(uuid_parse(span_text(id), &message->message_id), NONE);
    event->id = message->message_id;
    return message;
}

/* A checkpoint over `records` of the tenant up to message `boundary`; the head is that of those records, or bad. */
static void checkpoint(struct told *told, const char *tenant, int64_t records, uint64_t boundary, bool good_head)
{
    CLEANUP(buf_free) struct buf record = BUF_INIT(1 << 20), hex = BUF_INIT(64);
    struct sha256 chain = { 0 };
    int64_t sequence = 0;
    const char *data = NULL;
    for (size_t i = 0; i < boundary && i < told->count; i++) {
        bool again = i > 0 && uuid_equal(told->at[i].message_id, told->at[i - 1].message_id);
        if (strcmp(told->events[i].tenant.text, tenant) == 0 && !again) {
            assert_fault(audit_record_bytes(&told->events[i], ++sequence, &record), NONE);
            assert_fault(audit_chain_next(&chain, buf_span(&record), &chain), NONE);
        }
    }
    chain.at[0] ^= good_head ? 0 : 1;
    assert_fault(hex_encode(SPAN_ARRAY(chain.at), &hex), NONE);
    assert_fault(arena_printf(told->op->arena, &data,
                              "{\"archive\":\"t/audit-1.jws\",\"archive_bytes\":10,\"archive_sha256\":\"%.*s\","
                              "\"chain_head\":\"%.*s\",\"chain_seed\":\"%.*s\",\"first_sequence\":1,\"generation\":1,"
                              "\"last_sequence\":%lld,\"number\":1,\"records\":%lld,\"source_retained\":true,"
                              "\"stream_sequence\":%llu}",
                              64, (const char *)hex.at, 64, (const char *)hex.at, 64, (const char *)hex.at,
                              (long long)records, (long long)records, (unsigned long long)boundary),
                 NONE);
    (void)tell(told, tenant, ARCHIVE_EVENT, data);
}

static struct fault judge(struct told *told)
{
    for (size_t i = 0; i < told->count; i++) {
        TRY(source_claim(told->op, &told->source, &told->at[i]));
    }
    for (size_t i = 0; i < told->count; i++) {
        TRY(source_take(told->op, &told->source, &told->at[i]));
    }
    return source_end(told->op, &told->source);
}

static int set_up(void **state)
{
    static struct told told;
    told = (struct told){ 0 };
    assert_fault(op_new("test", (struct tenant_id){ "" }, 10000, &told.op), NONE);
    (void)tell(&told, "acme", "test.said", "{}");
    (void)tell(&told, "other", "test.said", "{}");
    (void)tell(&told, "acme", "test.said", "{\"n\":1}");
    *state = &told;
    return 0;
}

static int tear_down(void **state)
{
    struct told *told = *state;
    source_free(&told->source);
    op_free(told->op);
    return 0;
}

static void a_log_with_fewer_records_is_refused(void **state)
{
    struct told *told = *state;
    checkpoint(told, "acme", 3, 3, true);
    assert_fault(judge(told), AUDIT_SOURCE_GAP);
    assert_non_null(strstr(told->op->note.detail, "stands for 3 records up to message 3, and there are 2"));
}

static void a_log_with_other_records_is_refused(void **state)
{
    struct told *told = *state;
    checkpoint(told, "acme", 2, 3, false);
    assert_fault(judge(told), AUDIT_SOURCE_GAP);
    assert_non_null(strstr(told->op->note.detail, "are not those of checkpoint 1"));
}

static void a_boundary_that_is_not_the_tenants_is_refused(void **state)
{
    struct told *told = *state;
    checkpoint(told, "acme", 1, 2, true);
    assert_fault(judge(told), AUDIT_SOURCE_GAP);
}

static void a_log_that_ends_before_the_boundary_is_refused(void **state)
{
    struct told *told = *state;
    checkpoint(told, "acme", 2, 3, true);
    assert_fault(source_claim(told->op, &told->source, &told->at[3]), NONE);
    assert_fault(source_take(told->op, &told->source, &told->at[0]), NONE);
    assert_fault(source_end(told->op, &told->source), AUDIT_SOURCE_GAP);
}

static void a_checkpoint_that_contradicts_itself_is_refused(void **state)
{
    struct told *told = *state;
    checkpoint(told, "acme", 2, 9, true); /* of what comes after it */
    assert_fault(source_claim(told->op, &told->source, &told->at[3]), LOG_DECODE);
}

static void a_whole_log_is_good_also_with_a_message_that_is_there_twice(void **state)
{
    struct told *told = *state;
    struct event_message *again = tell(told, "acme", "test.said", "{\"n\":1}");
    again->message_id = told->at[2].message_id; /* a retry that came late: passed over, as the projector does */
    (void)tell(told, "acme", "test.said", "{\"n\":2}");
    checkpoint(told, "acme", 3, 5, true);
    checkpoint(told, "other", 1, 2, true);
    assert_fault(judge(told), NONE);
    assert_int_equal(source_last(&told->source), 5);
}

static void what_was_rewritten_since_is_counted_and_not_chained(void **state)
{
    struct told *told = *state;
    checkpoint(told, "acme", 2, 3, false);
    (void)tell(told, "acme", EVENTS_ACTIVATED, "{}");
    assert_fault(judge(told), NONE);
}

static void a_message_id_counts_once(void **state)
{
    (void)state;
    struct uuid_set *set = NULL;
    bool again = true;
    assert_fault(uuid_set_new(&set), NONE);
    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < 20000; i++) { /* grows several times */
            struct uuid id;
            (void)snprintf(id.text, sizeof(id.text), "00000000-0000-8000-8000-%012u", i);
            assert_fault(uuid_set_add(set, id, &again), NONE);
            assert_int_equal(again, round == 1);
        }
    }
    assert_fault(uuid_set_add(set, (struct uuid){ "00000000-0000-0000-0000-000000000000" }, &again), NONE);
    assert_false(again);
    assert_fault(uuid_set_add(set, (struct uuid){ "not one" }, &again), BAD_ARGUMENT);
    uuid_set_free(set);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_log_with_fewer_records_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_log_with_other_records_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_boundary_that_is_not_the_tenants_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_log_that_ends_before_the_boundary_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_checkpoint_that_contradicts_itself_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_whole_log_is_good_also_with_a_message_that_is_there_twice, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_rewritten_since_is_counted_and_not_chained, set_up, tear_down),
        cmocka_unit_test(a_message_id_counts_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
