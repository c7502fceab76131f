/* The projector against a real log and a real database: failures first. */
#include "projection_testlib.h"

static int64_t said_rows(struct fixture *fixture)
{
    return admin_int(&fixture->config, "SELECT count(*) FROM svc.test_said");
}

/* Walks a tenant's records and recomputes the chain from their bytes. */
static void assert_chain(struct fixture *fixture, const char *tenant_text, int64_t count)
{
    static const struct sql SQL_RECORDS = {
        "test_records", "SELECT sequence, record, chain FROM svc.audit_records WHERE tenant_id = $1 ORDER BY sequence",
        1
    };
    CLEANUP(op_freep) struct op *op = op_of(tenant_text, 10000);
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct sha256 chain = { 0 };
    assert_fault(tx_begin(op, fixture->a.store, STORE_REQUEST, &tx), NONE);
    assert_fault(tx_query(tx, &SQL_RECORDS, (struct sql_arg[]){ SQL_TEXT(tenant_text) }, 1, &rows), NONE);
    assert_int_equal(rows_count(rows), count);
    for (size_t i = 0; i < rows_count(rows); i++) {
        assert_int_equal(rows_int(rows, i, 0), i + 1);
        assert_fault(audit_chain_next(&chain, rows_bytes(rows, i, 1), &chain), NONE);
        assert_true(span_equal(rows_bytes(rows, i, 2), SPAN_ARRAY(chain.at)));
    }
}

/* ---- what does not apply ---- */

static void an_event_that_no_feature_knows_stops_the_projector(void **state)
{
    struct fixture *fixture = *state;
    uint64_t good = say(&fixture->a, "acme", 1);
    uint64_t bad = say_type(&fixture->a, "acme", "test.unheard", 2);
    uint64_t after = say(&fixture->a, "acme", 3);
    instance_project(&fixture->a);
    assert_fault(wait_for(&fixture->a, good, 10000), NONE);
    assert_fault(wait_for(&fixture->a, after, 10000), PROJECTION_FAILED);
    struct projector_state now = state_of(&fixture->a);
    assert_true(now.stopped_at_failure);
    assert_int_equal(now.failed_seq, bad);
    assert_int_equal(now.checkpoint, good);
    assert_int_equal(now.lag, 2);
    assert_true(now.log_trusted);
    assert_int_equal(said_rows(fixture), 1);
    assert_int_equal(admin_int(&fixture->config, "SELECT stream_seq FROM svc.projection_failure"), bad);
}

static void another_version_of_an_event_is_not_known_either(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *op = op_of("acme", 10000);
    struct event event = { "test.said", 2, span_text("{\"n\":1}") };
    struct event_append append = { .lane = "a", .events = &event, .count = 1 };
    uint64_t seq = 0;
    assert_fault(events_append(op, fixture->a.log, &append, &seq), NONE);
    instance_project(&fixture->a);
    assert_fault(wait_for(&fixture->a, seq, 10000), PROJECTION_FAILED);
}

static void a_failing_projection_stops_there_and_resumes_when_it_can(void **state)
{
    struct fixture *fixture = *state;
    uint64_t last = 0;
    atomic_store(&refuse_13, true);
    for (int i = 1; i <= 20; i++) {
        last = say(&fixture->a, i % 2 == 0 ? "acme" : "umbrella", i);
    }
    instance_project(&fixture->a);
    assert_fault(wait_for(&fixture->a, last, 10000), PROJECTION_FAILED);
    assert_int_equal(state_of(&fixture->a).failed_seq, 13);
    assert_int_equal(said_rows(fixture), 12); /* all before it, and nothing behind it */
    assert_int_equal(admin_int(&fixture->config, "SELECT count(*) FROM svc.audit_records"), 12);
    assert_int_equal(admin_int(&fixture->config, "SELECT count(*) FROM svc.event_envelopes"), 12);
    atomic_store(&refuse_13, false);
    CLEANUP(op_freep) struct op *op = op_of("", 20000);
    uint64_t seen = 0;
    while (state_of(&fixture->a).checkpoint < last) {
        assert_fault(projector_changed(op, fixture->a.projector, &seen, op->deadline), NONE);
    }
    assert_false(state_of(&fixture->a).stopped_at_failure);
    assert_int_equal(said_rows(fixture), 20);
    assert_chain(fixture, "acme", 10);
    assert_chain(fixture, "umbrella", 10);
    assert_int_equal(admin_int(&fixture->config, "SELECT count(*) FROM svc.projection_failure"), 0);
}

static void all_events_of_a_message_or_none(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *op = op_of("acme", 10000);
    struct event events[] = { { "test.said", 1, span_text("{\"n\":1}") },
                              { "test.said", 1, span_text("{\"n\":13}") },
                              { "test.said", 1, span_text("{\"n\":2}") } };
    struct event_append append = { .lane = "a", .events = events, .count = 3 };
    uint64_t seq = 0;
    atomic_store(&refuse_13, true);
    assert_fault(events_append(op, fixture->a.log, &append, &seq), NONE);
    instance_project(&fixture->a);
    assert_fault(wait_for(&fixture->a, seq, 10000), PROJECTION_FAILED);
    assert_int_equal(said_rows(fixture), 0);
    assert_int_equal(admin_int(&fixture->config, "SELECT count(*) FROM svc.audit_records"), 0);
}

static void a_message_that_is_not_ours_stops_the_projector(void **state)
{
    struct fixture *fixture = *state;
    uint64_t good = say(&fixture->a, "acme", 1);
    uint64_t bad = plant(fixture->raw, "svc.events.acme.a", span_text("{}"));
    instance_project(&fixture->a);
    assert_fault(wait_for(&fixture->a, good, 10000), NONE);
    assert_fault(wait_for(&fixture->a, bad, 10000), PROJECTION_FAILED);
    assert_int_equal(state_of(&fixture->a).failed_seq, bad);
}

static void waiting_for_what_was_never_appended_ends_at_the_deadline(void **state)
{
    struct fixture *fixture = *state;
    instance_project(&fixture->a);
    assert_fault(wait_for(&fixture->a, 1, 300), DEADLINE);
    CLEANUP(op_freep) struct op *op = op_of("", 10000);
    uint64_t seen = 0;
    assert_fault(projector_changed(op, fixture->a.projector, &seen, op->deadline), NONE);
    assert_fault(projector_changed(op, fixture->a.projector, &seen, clock_mono() + 100 * NS_PER_MS), DEADLINE);
}

static void an_id_that_was_applied_counts_once_for_ever(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(buf_free) struct buf body = BUF_INIT(4096);
    body_of_number("acme", "a", 5, &body);
    /* As a retry would come that is later than the log's own memory of ids: no Nats-Msg-Id, so both are stored. */
    assert_int_equal(plant(fixture->raw, "svc.events.acme.a", buf_span(&body)), 1);
    assert_int_equal(plant(fixture->raw, "svc.events.acme.a", buf_span(&body)), 2); /* in one batch */
    instance_project(&fixture->a);
    assert_fault(wait_for(&fixture->a, 2, 10000), NONE);
    assert_int_equal(plant(fixture->raw, "svc.events.acme.a", buf_span(&body)), 3); /* in another */
    assert_fault(wait_for(&fixture->a, 3, 10000), NONE);
    assert_int_equal(said_rows(fixture), 1);
    assert_int_equal(admin_int(&fixture->config, "SELECT count(*) FROM svc.audit_records"), 1);
    assert_int_equal(admin_int(&fixture->config, "SELECT count(*) FROM svc.event_envelopes"), 3);
}

/* ---- what does ---- */

static void each_tenant_has_its_own_chain(void **state)
{
    struct fixture *fixture = *state;
    uint64_t last = 0;
    instance_project(&fixture->a);
    for (int i = 1; i <= 30; i++) {
        last = say(&fixture->a, i % 3 == 0 ? "acme" : "umbrella", i);
    }
    assert_fault(wait_for(&fixture->a, last, 10000), NONE);
    assert_chain(fixture, "acme", 10);
    assert_chain(fixture, "umbrella", 20);
    assert_int_equal(admin_int(&fixture->config, "SELECT sequence FROM svc.audit_heads WHERE tenant_id = 'acme'"), 10);
    assert_int_equal(admin_int(&fixture->config,
                               "SELECT count(*) FROM svc.audit_heads h JOIN svc.audit_records r USING (tenant_id,"
                               " sequence) WHERE h.chain = r.chain"),
                     2);
}

static void a_tenant_sees_nothing_of_another(void **state)
{
    struct fixture *fixture = *state;
    static const struct sql SQL_ALL = {
        "test_all",
        "SELECT (SELECT count(*) FROM svc.audit_records),"
        " (SELECT count(*) FROM svc.audit_heads),"
        " (SELECT count(*) FROM svc.event_envelopes), (SELECT count(*) FROM svc.outbox)",
        0
    };
    instance_project(&fixture->a);
    assert_fault(wait_for(&fixture->a, say(&fixture->a, "acme", 1000), 10000), NONE);
    const struct {
        const char *tenant;
        int64_t rows;
    } cases[] = { { "umbrella", 0 }, { "", 0 }, { "acme", 1 } };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        CLEANUP(op_freep) struct op *op = op_of(cases[i].tenant, 10000);
        CLEANUP(tx_rollbackp) struct tx *tx = NULL;
        CLEANUP(rows_freep) struct rows *rows = NULL;
        assert_fault(tx_begin(op, fixture->a.store, STORE_REQUEST, &tx), NONE);
        assert_fault(tx_query(tx, &SQL_ALL, NULL, 0, &rows), NONE);
        for (size_t column = 0; column < 4; column++) {
            assert_int_equal(rows_int(rows, 0, column), cases[i].rows);
        }
    }
}

static void the_lane_tells_its_last_sequence(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *op = op_of("acme", 10000);
    uint64_t last = 99;
    instance_project(&fixture->a);
    (void)say(&fixture->a, "acme", 1);
    uint64_t mine = say(&fixture->a, "acme", 2);
    assert_fault(wait_for(&fixture->a, say(&fixture->a, "umbrella", 3), 10000), NONE);
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    assert_fault(tx_begin(op, fixture->a.store, STORE_REQUEST, &tx), NONE);
    assert_fault(projection_lane_last(tx, op->tenant, "empty", &last), NONE);
    assert_int_equal(last, 0);
    assert_fault(projection_lane_last(tx, op->tenant, "a", &last), NONE);
    assert_int_equal(last, mine);
}

static void outbox_rows_are_queued_once_and_settled(void **state)
{
    struct fixture *fixture = *state;
    instance_project(&fixture->a);
    (void)say(&fixture->a, "acme", 1001);
    (void)say(&fixture->a, "acme", 1001); /* the same key */
    assert_fault(wait_for(&fixture->a, say(&fixture->a, "umbrella", 1001), 10000), NONE);
    assert_int_equal(admin_int(&fixture->config, "SELECT count(*) FROM svc.outbox WHERE state = 'pending'"), 2);
    assert_true(atomic_load(&fixture->a.outbox_calls) > 0);
    assert_fault(wait_for(&fixture->a, say_type(&fixture->a, "acme", "test.settled", 1001), 10000), NONE);
    assert_int_equal(admin_int(&fixture->config, "SELECT count(*) FROM svc.outbox WHERE state = 'delivered' AND"
                                                 " tenant_id = 'acme' AND payload = ''"),
                     1);
    assert_int_equal(admin_int(&fixture->config, "SELECT count(*) FROM svc.outbox WHERE state = 'pending' AND"
                                                 " tenant_id = 'umbrella'"),
                     1);
}

static void it_goes_on_after_the_log_was_killed(void **state)
{
    struct fixture *fixture = *state;
    instance_project(&fixture->a);
    assert_fault(wait_for(&fixture->a, say(&fixture->a, "acme", 1), 10000), NONE);
    for (int i = 0; i < 3; i++) {
        nats_kill(&fixture->nats);
        nats_start(&fixture->nats);
        assert_fault(wait_for(&fixture->a, say(&fixture->a, "acme", 2 + i), 20000), NONE);
    }
    assert_int_equal(said_rows(fixture), 4);
    assert_true(state_of(&fixture->a).log_trusted);
}

static void it_goes_on_after_every_database_session_was_cut(void **state)
{
    struct fixture *fixture = *state;
    instance_project(&fixture->a);
    for (int i = 1; i <= 5; i++) {
        assert_fault(wait_for(&fixture->a, say(&fixture->a, "acme", i), 20000), NONE);
        admin_script(&fixture->config, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                                       " WHERE usename = 'svc_worker'");
    }
    assert_fault(wait_for(&fixture->a, say(&fixture->a, "acme", 6), 20000), NONE);
    assert_int_equal(said_rows(fixture), 6);
    assert_chain(fixture, "acme", 6);
}

/* ---- two instances ---- */

static void only_one_leads_and_the_other_sees_what_it_applies(void **state)
{
    struct fixture *fixture = *state;
    instance_open(&fixture->b, &fixture->config);
    instance_project(&fixture->a);
    assert_fault(wait_for(&fixture->a, say(&fixture->a, "acme", 1), 10000), NONE);
    instance_project(&fixture->b);
    assert_fault(wait_for(&fixture->b, say(&fixture->b, "acme", 2), 10000), NONE);
    assert_true(state_of(&fixture->a).leader);
    assert_false(state_of(&fixture->b).leader);
    CLEANUP(op_freep) struct op *op = op_of("", 10000);
    struct projector_config config = projector_config_of(&fixture->b);
    uint64_t messages = 0;
    assert_fault(projection_rebuild(op, &config, &messages), CONFLICT);
}

static void the_other_takes_over(void **state)
{
    struct fixture *fixture = *state;
    instance_open(&fixture->b, &fixture->config);
    instance_project(&fixture->a);
    assert_fault(wait_for(&fixture->a, say(&fixture->a, "acme", 1), 10000), NONE);
    instance_project(&fixture->b);
    projector_stop(TAKE(fixture->a.projector));
    assert_fault(wait_for(&fixture->b, say(&fixture->b, "acme", 2), 10000), NONE);
    assert_true(state_of(&fixture->b).leader);
    assert_int_equal(said_rows(fixture), 2);
    assert_chain(fixture, "acme", 2);
}

static void a_leader_that_lost_its_lock_writes_nothing_twice(void **state)
{
    struct fixture *fixture = *state;
    uint64_t last = 0;
    instance_open(&fixture->b, &fixture->config);
    instance_project(&fixture->a);
    instance_project(&fixture->b);
    for (int i = 1; i <= 200; i++) {
        last = say(&fixture->a, "acme", i);
        if (i % 40 == 0) { /* whoever leads loses the session that holds the lock */
            admin_script(&fixture->config,
                         "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'");
        }
    }
    assert_fault(wait_for(&fixture->a, last, 20000), NONE);
    assert_int_equal(said_rows(fixture), 200);
    assert_chain(fixture, "acme", 200);
}

/* What a leader does that does not know yet that another one leads. */
static void a_second_applier_moves_nothing(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *op = op_of("", 10000);
    CLEANUP(event_reader_freep) struct event_reader *reader = NULL;
    CLEANUP(applier_freep) struct applier *first = NULL;
    CLEANUP(applier_freep) struct applier *second = NULL;
    struct projector_config config = projector_config_of(&fixture->a);
    struct event_message messages[3];
    bool outbox = false;
    uint64_t bad = 0;
    (void)say(&fixture->a, "acme", 1);
    (void)say(&fixture->a, "acme", 2);
    (void)say(&fixture->a, "acme", 3);
    assert_fault(event_reader_new(fixture->a.log, 1, &reader), NONE);
    for (int i = 0; i < 3; i++) {
        assert_fault(event_reader_next(op, reader, op->deadline, &messages[i]), NONE);
    }
    assert_fault(applier_new(&config, &first), NONE);
    assert_fault(applier_new(&config, &second), NONE);
    assert_fault(applier_load(op, first), NONE);
    assert_fault(applier_load(op, second), NONE);
    assert_fault(applier_apply(op, first, messages, 1, &outbox, &bad), NONE);
    assert_fault(applier_apply(op, second, messages, 2, &outbox, &bad), CONFLICT);
    assert_int_equal(said_rows(fixture), 1);
    assert_fault(applier_load(op, second), NONE);
    assert_int_equal(second->checkpoint, 1);
    assert_fault(applier_apply(op, second, &messages[1], 1, &outbox, &bad), NONE);
    assert_fault(applier_apply(op, first, &messages[1], 1, &outbox, &bad), CONFLICT);
    assert_fault(applier_load(op, first), NONE); /* leads again, and knows that its heads are old */
    assert_fault(applier_apply(op, first, &messages[2], 1, &outbox, &bad), NONE);
    assert_int_equal(said_rows(fixture), 3);
    assert_chain(fixture, "acme", 3);
}

/* ---- rebuild ---- */

static char *dump(struct fixture *fixture)
{
    return admin_text(
        &fixture->config,
        "SELECT concat_ws(E'\\n--\\n', (SELECT string_agg(t::text, E'\\n' ORDER BY t::text) FROM svc.test_said t),"
        " (SELECT string_agg(t::text, E'\\n' ORDER BY t::text) FROM svc.audit_records t),"
        " (SELECT string_agg(t::text, E'\\n' ORDER BY t::text) FROM svc.audit_heads t),"
        " (SELECT string_agg(t::text, E'\\n' ORDER BY t::text) FROM svc.event_envelopes t),"
        " (SELECT string_agg(t::text, E'\\n' ORDER BY t::text) FROM svc.outbox t),"
        " (SELECT string_agg(t::text, E'\\n' ORDER BY t::text) FROM svc.projection_checkpoint t))");
}

static void fill(struct fixture *fixture)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT(4096);
    uint64_t last = 0;
    for (int i = 1; i <= 300; i++) {
        char tenant_text[16];
        (void)snprintf(tenant_text, sizeof(tenant_text), "t%d", i % 7);
        last = say(&fixture->a, tenant_text, i % 10 == 0 ? 1000 + i : i);
        if (i % 20 == 0) {
            last = say_type(&fixture->a, tenant_text, "test.settled", 1000 + i);
        }
    }
    body_of_number("t1", "a", 5, &body);
    (void)plant(fixture->raw, "svc.events.t1.a", buf_span(&body));
    last = plant(fixture->raw, "svc.events.t1.a", buf_span(&body)); /* a repeated id */
    assert_fault(wait_for(&fixture->a, last, 20000), NONE);
}

static void a_rebuild_gives_the_same_bytes(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *op = op_of("", 60000);
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    uint64_t messages = 0;
    instance_project(&fixture->a);
    fill(fixture);
    projector_stop(TAKE(fixture->a.projector));
    char *before = dump(fixture);
    assert_fault(store_empty_projections(&fixture->config, &why), NONE);
    assert_int_equal(said_rows(fixture), 0);
    struct projector_config config = projector_config_of(&fixture->a);
    assert_fault(projection_rebuild(op, &config, &messages), NONE);
    assert_int_equal(messages, 317);
    char *after = dump(fixture);
    assert_true(strlen(before) > 10000);
    assert_string_equal(before, after);
    mem_free(before);
    mem_free(after);
    instance_project(&fixture->a); /* and goes on from there */
    assert_fault(wait_for(&fixture->a, say(&fixture->a, "t1", 7), 10000), NONE);
}

static void a_rebuild_from_another_log_is_refused(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *op = op_of("", 60000);
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    CLEANUP(buf_free) struct buf body = BUF_INIT(4096);
    uint64_t messages = 0;
    struct projector_config config = projector_config_of(&fixture->a);
    for (int i = 1; i <= 10; i++) {
        body_of_number("acme", "a", i, &body);
        (void)plant(fixture->raw, "svc.events.acme.a", buf_span(&body));
    }
    assert_fault(projection_rebuild(op, &config, &messages), NONE);
    delete_stream(fixture->raw);
    make_soft_stream(fixture->raw, 0);
    harden_stream(fixture->raw);
    for (int i = 1; i <= 9; i++) { /* one short, and the seventh is another */
        body_of_number("acme", "a", i == 7 ? 70 : i, &body);
        (void)plant(fixture->raw, "svc.events.acme.a", buf_span(&body));
    }
    assert_fault(store_empty_projections(&fixture->config, &why), NONE);
    assert_fault(projection_rebuild(op, &config, &messages), LOG_UNTRUSTED);
    int64_t checkpoint = admin_int(&fixture->config, "SELECT stream_seq FROM svc.projection_checkpoint");
    assert_true(checkpoint < 7);
    assert_int_equal(said_rows(fixture), checkpoint);
    assert_non_null(strstr(op->note.detail, "message 7 "));
}

static void a_rebuild_from_a_log_without_its_tail_is_refused(void **state)
{
    struct fixture *fixture = *state;
    CLEANUP(op_freep) struct op *op = op_of("", 60000);
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    CLEANUP(buf_free) struct buf body = BUF_INIT(4096);
    uint64_t messages = 0;
    struct projector_config config = projector_config_of(&fixture->a);
    for (int i = 1; i <= 10; i++) {
        body_of_number("acme", "a", i, &body);
        (void)plant(fixture->raw, "svc.events.acme.a", buf_span(&body));
    }
    assert_fault(projection_rebuild(op, &config, &messages), NONE);
    delete_stream(fixture->raw);
    make_soft_stream(fixture->raw, 0);
    harden_stream(fixture->raw);
    for (int i = 1; i <= 9; i++) {
        body_of_number("acme", "a", i, &body);
        (void)plant(fixture->raw, "svc.events.acme.a", buf_span(&body));
    }
    assert_fault(store_empty_projections(&fixture->config, &why), NONE);
    assert_fault(projection_rebuild(op, &config, &messages), LOG_UNTRUSTED);
    assert_int_equal(said_rows(fixture), 9); /* what is there is good */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_STORES(an_event_that_no_feature_knows_stops_the_projector),
        WITH_STORES(another_version_of_an_event_is_not_known_either),
        WITH_STORES(a_failing_projection_stops_there_and_resumes_when_it_can),
        WITH_STORES(all_events_of_a_message_or_none),
        WITH_STORES(a_message_that_is_not_ours_stops_the_projector),
        WITH_STORES(waiting_for_what_was_never_appended_ends_at_the_deadline),
        WITH_STORES(an_id_that_was_applied_counts_once_for_ever),
        WITH_STORES(each_tenant_has_its_own_chain),
        WITH_STORES(a_tenant_sees_nothing_of_another),
        WITH_STORES(the_lane_tells_its_last_sequence),
        WITH_STORES(outbox_rows_are_queued_once_and_settled),
        WITH_STORES(it_goes_on_after_the_log_was_killed),
        WITH_STORES(it_goes_on_after_every_database_session_was_cut),
        WITH_STORES(only_one_leads_and_the_other_sees_what_it_applies),
        WITH_STORES(the_other_takes_over),
        WITH_STORES(a_leader_that_lost_its_lock_writes_nothing_twice),
        WITH_STORES(a_second_applier_moves_nothing),
        WITH_STORES(a_rebuild_gives_the_same_bytes),
        WITH_STORES(a_rebuild_from_another_log_is_refused),
        WITH_STORES(a_rebuild_from_a_log_without_its_tail_is_refused),
    };
    return cmocka_run_group_tests_name("projection/apply", tests, NULL, NULL);
}
