/* What the audit exporter reads next, and how far it went, against a real log and a real database. */
#include "projection_testlib.h"

#include "api/otlp/internal.h"

static const char *const tenants[] = { "acme", "umbrella", "zeta" };

static uint64_t fill(struct fixture *fixture, int count)
{
    uint64_t last = 0;
    for (int i = 1; i <= count; i++) {
        last = say(&fixture->a, tenants[i % 7 % 3], i);
    }
    instance_project(&fixture->a);
    assert_fault(wait_for(&fixture->a, last, 60000), NONE);
    return last;
}

static uint64_t position(struct fixture *fixture)
{
    return (uint64_t)admin_int(&fixture->config, "SELECT stream_seq FROM svc.otlp_audit_stream");
}

static void an_empty_trail_has_nothing_next(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *op = op_of("", 10000);
    struct trail trail;
    assert_fault(trail_next(op, fixture->a.store, AUDIT_MESSAGES, &trail), NONE);
    assert_int_equal(trail.upto, trail.from);
    assert_int_equal(trail.count, 0);
}

static void every_record_of_every_tenant_comes_once_and_in_the_order_of_the_log(void **state)
{
    struct fixture *fixture = *state;
    uint64_t last = fill(fixture, 50), seen = 0;
    int64_t sequences[3] = { 0 };
    unsigned batches = 0;
    while (position(fixture) < last) {
        CLEANUP(op_freep) struct op *op = op_of("", 10000);
        struct trail trail;
        assert_fault(trail_next(op, fixture->a.store, 7, &trail), NONE);
        assert_in_range(trail.count, 1, 7);
        for (size_t i = 0; i < trail.count; i++) {
            const struct otlp_audit *record = &trail.records[i];
            assert_int_equal(record->stream_seq, ++seen);
            size_t who = 0;
            while (!span_equal_text(record->tenant, tenants[who])) {
                who++;
            }
            assert_int_equal(record->sequence, ++sequences[who]);
            assert_true(span_equal_text(record->type, "test.said"));
            assert_int_equal(record->schema_version, 1);
            assert_in_range(record->payload_bytes, strlen("{\"n\":1}"), strlen("{\"n\":50}"));
            assert_int_equal(record->id.len, 36);
            assert_int_equal(record->trace_id.len, 32);
            assert_true(record->subject.len > 0);
        }
        assert_fault(trail_advance(op, fixture->a.store, &trail), NONE);
        batches++;
    }
    assert_int_equal(seen, last);
    assert_int_equal(batches, 8);
}

static void what_was_not_accepted_comes_again_as_it_then_reads(void **state)
{
    struct fixture *fixture = *state;
    (void)fill(fixture, 5);
    CLEANUP(op_freep) struct op *op = op_of("", 10000);
    struct trail first, again;
    assert_fault(trail_next(op, fixture->a.store, 2, &first), NONE);
    admin_script(&fixture->config,
                 "UPDATE svc.audit_records SET record = convert_to(regexp_replace(convert_from(record,"
                 " 'UTF8'), '\"subject\":\"[^\"]*\"', '\"subject\":\"erased\"'), 'UTF8')");
    assert_fault(trail_next(op, fixture->a.store, 2, &again), NONE);
    assert_int_equal(again.from, first.from);
    assert_int_equal(again.count, first.count);
    assert_false(span_equal_text(first.records[0].subject, "erased"));
    assert_true(span_equal_text(again.records[0].subject, "erased"));
}

/* Two that lead for a moment: the one that comes second has sent twice, and moves nothing. */
static void a_position_that_somebody_else_moved_stays(void **state)
{
    struct fixture *fixture = *state;
    (void)fill(fixture, 9);
    CLEANUP(op_freep) struct op *op = op_of("", 10000);
    CLEANUP(op_freep) struct op *other = op_of("", 10000);
    struct trail few, many;
    assert_fault(trail_next(op, fixture->a.store, 3, &few), NONE);
    assert_fault(trail_next(other, fixture->a.store, 6, &many), NONE);
    assert_fault(trail_advance(other, fixture->a.store, &many), NONE);
    assert_fault(trail_advance(op, fixture->a.store, &few), CONFLICT);
    assert_int_equal(position(fixture), many.upto);
    assert_fault(trail_next(op, fixture->a.store, 256, &few), NONE);
    assert_int_equal(few.records[0].stream_seq, many.upto + 1);
    assert_int_equal(few.count, 3);
}

/* What the position is past does not come again, however long a trail whose tenant's row was lost or is old. */
static void a_tenant_without_its_row_goes_on_from_the_position(void **state)
{
    struct fixture *fixture = *state;
    struct trail trail;
    uint64_t last = fill(fixture, 60);
    while (position(fixture) < last) {
        CLEANUP(op_freep) struct op *op = op_of("", 10000);
        assert_fault(trail_next(op, fixture->a.store, 7, &trail), NONE);
        assert_fault(trail_advance(op, fixture->a.store, &trail), NONE);
    }
    admin_script(&fixture->config, "DELETE FROM svc.otlp_audit_tenants WHERE tenant_id <> 'zeta';"
                                   "UPDATE svc.otlp_audit_tenants SET sequence = 2;"
                                   "DELETE FROM svc.audit_records WHERE tenant_id = 'umbrella' AND sequence < 9");
    for (int i = 0; i < 9; i++) {
        last = say(&fixture->a, tenants[i % 3], i);
    }
    (void)say(&fixture->a, "newcomer", 1);
    assert_fault(wait_for(&fixture->a, last + 1, 60000), NONE);
    CLEANUP(op_freep) struct op *op = op_of("", 10000);
    assert_fault(trail_next(op, fixture->a.store, AUDIT_MESSAGES, &trail), NONE);
    assert_int_equal(trail.count, 10);
    assert_int_equal(trail.upto, last + 1);
    for (size_t i = 0; i < trail.count; i++) {
        assert_int_equal(trail.records[i].stream_seq, trail.from + 1 + i);
    }
    assert_int_equal(trail.records[9].sequence, 1);
    assert_fault(trail_advance(op, fixture->a.store, &trail), NONE);
    assert_int_equal(admin_int(&fixture->config, "SELECT count(*) FROM svc.otlp_audit_tenants t WHERE sequence ="
                                                 " (SELECT max(sequence) FROM svc.audit_records r"
                                                 " WHERE r.tenant_id = t.tenant_id)"),
                     4);
}

static void the_events_of_a_message_stay_together(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *op = op_of("acme", 10000);
    struct event events[40];
    for (size_t i = 0; i < COUNT_OF(events); i++) {
        events[i] = (struct event){ "test.noted", 1, span_text("{\"n\":1}") };
    }
    struct event_append append = { .lane = "a", .events = events, .count = COUNT_OF(events) };
    uint64_t seq = 0;
    assert_fault(events_append(op, fixture->a.log, &append, &seq), NONE);
    uint64_t last = fill(fixture, 1);
    struct trail trail;
    assert_fault(trail_next(op, fixture->a.store, 1, &trail), NONE);
    assert_int_equal(trail.count, 40);
    assert_int_equal(trail.upto, seq);
    for (size_t i = 0; i < trail.count; i++) {
        assert_int_equal(trail.records[i].sequence, i + 1);
        assert_int_equal(trail.records[i].stream_seq, seq);
    }
    assert_fault(trail_advance(op, fixture->a.store, &trail), NONE);
    assert_fault(trail_next(op, fixture->a.store, 1, &trail), NONE);
    assert_int_equal(trail.upto, last);
}

/* The application's role may look and not move; a rebuild leaves it where it is. */
static void only_a_worker_moves_the_position(void **state)
{
    struct fixture *fixture = *state;
    assert_int_equal(admin_int(&fixture->config,
                               "SELECT count(*) FROM information_schema.role_table_grants WHERE table_schema = 'svc'"
                               " AND table_name LIKE 'otlp_%' AND grantee = 'svc_app' AND privilege_type <> 'SELECT'"),
                     0);
    assert_int_equal(admin_int(&fixture->config, "SELECT count(*) FROM svc.tables WHERE name LIKE 'otlp_%'"
                                                 " AND kind = 'bookkeeping'"),
                     2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORES(an_empty_trail_has_nothing_next),
        WITH_STORES(every_record_of_every_tenant_comes_once_and_in_the_order_of_the_log),
        WITH_STORES(what_was_not_accepted_comes_again_as_it_then_reads),
        WITH_STORES(a_position_that_somebody_else_moved_stays),
        WITH_STORES(a_tenant_without_its_row_goes_on_from_the_position),
        WITH_STORES(the_events_of_a_message_stay_together),
        WITH_STORES(only_a_worker_moves_the_position),
    };
    return cmocka_run_group_tests_name("otlp/trail", tests, NULL, NULL);
}
