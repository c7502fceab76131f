/* Far behind: large batches, read ahead, of many tenants at once. */
#include "projection_testlib.h"

#define BACKLOG 5000
#define BAD     3100 /* in the middle of a batch that was read ahead */

static const char *tenant_of(int number)
{
    static const char *const tenants[] = { "umbrella", "acme", "zeta" };
    return tenants[number % 3];
}

/* Each has an effect, but for the 13th, which stands at BAD. */
static void plant_backlog(struct fixture *fixture)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT(4096);
    for (int i = 1; i <= BACKLOG; i++) {
        char subject[64];
        body_of_number(tenant_of(i), "a", i == BAD ? 13 : 1000 + i, &body);
        (void)snprintf(subject, sizeof(subject), "svc.events.%s.a", tenant_of(i));
        assert_int_equal(js_PublishAsync(fixture->raw->js, subject, body.at, (int)body.len, NULL), NATS_OK);
    }
    jsPubOptions options;
    assert_int_equal(jsPubOptions_Init(&options), NATS_OK);
    options.MaxWait = 60000;
    assert_int_equal(js_PublishAsyncComplete(fixture->raw->js, &options), NATS_OK);
}

static int64_t count_of(struct fixture *fixture, const char *query)
{
    return admin_int(&fixture->config, query);
}

/* The rows of a tenant follow one another in the log's order, and the chain is unbroken. */
static void assert_all_in_order(struct fixture *fixture)
{
    assert_int_equal(count_of(fixture,
                              "SELECT count(*) FROM (SELECT sequence, row_number() OVER (PARTITION BY tenant_id"
                              " ORDER BY stream_seq) AS n FROM svc.audit_records) x WHERE sequence <> n"),
                     0);
    assert_int_equal(
        count_of(fixture, "SELECT count(*) FROM svc.audit_records r WHERE sequence > 1 AND chain <> sha256("
                          "'svc.audit.chain.v1'::bytea || decode('00', 'hex') || (SELECT chain FROM svc.audit_records p"
                          " WHERE p.tenant_id = r.tenant_id AND p.sequence = r.sequence - 1) || r.record)"),
        0);
    assert_int_equal(count_of(fixture, "SELECT count(*) FROM svc.audit_heads h JOIN svc.audit_records r"
                                       " USING (tenant_id, sequence) WHERE h.chain = r.chain"),
                     3);
}

static void a_bad_message_in_a_backlog_stops_it_at_exactly_that_one(void **state)
{
    struct fixture *fixture = *state;
    plant_backlog(fixture);
    atomic_store(&refuse_13, true);
    instance_project(&fixture->a);
    assert_fault(wait_for(&fixture->a, BACKLOG, 60000), PROJECTION_FAILED);
    assert_int_equal(state_of(&fixture->a).failed_seq, BAD);
    assert_int_equal(state_of(&fixture->a).checkpoint, BAD - 1);
    assert_int_equal(count_of(fixture, "SELECT count(*) FROM svc.test_said"), BAD - 1);
    assert_int_equal(count_of(fixture, "SELECT count(*) FROM svc.event_envelopes"), BAD - 1);
    assert_all_in_order(fixture);
    atomic_store(&refuse_13, false);
    CLEANUP(op_freep) struct op *op = op_of("", 60000);
    uint64_t seen = 0;
    while (state_of(&fixture->a).checkpoint < BACKLOG) {
        assert_fault(projector_changed(op, fixture->a.projector, &seen, op->deadline), NONE);
    }
    assert_int_equal(count_of(fixture, "SELECT count(*) FROM svc.test_said"), BACKLOG);
    assert_int_equal(count_of(fixture, "SELECT count(*) FROM svc.outbox WHERE state = 'pending'"), BACKLOG - 1);
    assert_all_in_order(fixture);
}

/* Sessions die while batches are under way: what was committed counts once, the rest is applied again. */
static void sessions_that_are_cut_in_a_backlog_lose_and_repeat_nothing(void **state)
{
    struct fixture *fixture = *state;
    plant_backlog(fixture);
    instance_project(&fixture->a);
    for (int cut = 1; cut <= 3; cut++) {
        CLEANUP(op_freep) struct op *op = op_of("", 60000);
        uint64_t seen = 0;
        while (state_of(&fixture->a).checkpoint < (uint64_t)cut * BACKLOG / 5) {
            assert_fault(projector_changed(op, fixture->a.projector, &seen, op->deadline), NONE);
        }
        admin_script(&fixture->config,
                     "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'svc_worker'");
    }
    assert_fault(wait_for(&fixture->a, BACKLOG, 60000), NONE);
    assert_int_equal(count_of(fixture, "SELECT count(*) FROM svc.test_said"), BACKLOG);
    assert_int_equal(count_of(fixture, "SELECT count(*) FROM svc.audit_records"), BACKLOG);
    assert_all_in_order(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORES(a_bad_message_in_a_backlog_stops_it_at_exactly_that_one),
        WITH_STORES(sessions_that_are_cut_in_a_backlog_lose_and_repeat_nothing),
    };
    return cmocka_run_group_tests_name("projection/backlog", tests, NULL, NULL);
}
