/* Report schedules against real stores: what is due is queued once and made once, whoever dies in between. */
#include "integration/schedules_testlib.h"

/* ---- */

static void a_command_makes_one_schedule_however_often_it_runs(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("once", 30000);
    const struct schedule_body body = { .framework = "soc2",
                                        .name = "once",
                                        .report_type = "audit_summary",
                                        .interval_seconds = 3600,
                                        .delivery = "audit_export",
                                        .recipient_ref = "vault",
                                        .preview_fingerprint =
                                            "0000000000000000000000000000000000000000000000000000000000000000" };
    struct schedule first, again;
    assert_ok(uuid_new(&op->command_id));
    assert_fault(schedule_create(op, &services, &body, &first), PREVIEW_CHANGED);
    struct schedule_body good = body;
    good.preview_fingerprint = NULL;
    op->note = (struct fault_note){ 0 };
    assert_ok(schedule_create(op, &services, &good, &first));
    assert_int_equal(first.version, 1);
    assert_true(first.definition.enabled);
    op->recorded = OP_RECORDED_NOTHING;
    assert_ok(schedule_create(op, &services, &good, &again));
    assert_int_equal(op->recorded, OP_RECORDED_EARLIER);
    assert_string_equal(first.id.text, again.id.text);
    assert_int_equal(records(&first, EVENT_SCHEDULE_CONFIGURED), 1);

    assert_fault(schedule_switch(op, &services, first.id, 2, false, &again), CONFLICT);
    op->note = (struct fault_note){ 0 };
    assert_ok(uuid_new(&op->command_id));
    assert_ok(schedule_switch(op, &services, first.id, 1, false, &again));
    op->recorded = OP_RECORDED_NOTHING;
    assert_ok(schedule_switch(op, &services, first.id, 1, false, &again)); /* the same command once more */
    assert_int_equal(op->recorded, OP_RECORDED_EARLIER);
    assert_int_equal(again.version, 2);
    op->recorded = OP_RECORDED_NOTHING;
    assert_ok(uuid_new(&op->command_id));
    assert_ok(schedule_switch(op, &services, first.id, 2, false, &again)); /* another one, and it is so already */
    assert_int_equal(op->recorded, OP_CHANGED_NOTHING);
    assert_int_equal(records(&first, EVENT_SCHEDULE_CONFIGURED), 2);
    CLEANUP(op_freep) struct op *other = test_op("twice", 30000);
    assert_fault(schedule_get(other, &services, first.id, &again), NOT_FOUND);
    assert_fault(schedule_switch(other, &services, first.id, 2, true, &again), NOT_FOUND);
}

static void what_is_due_is_made_once_after_however_many_intervals(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("due", 30000);
    CLEANUP(buf_free) struct buf document = BUF_INIT(65536);
    struct schedule schedule = create("due", "hourly");
    struct report_document found;
    struct report *list = NULL;
    work();
    assert_int_equal(records(&schedule, EVENT_REPORT_QUEUED), 0);
    age(&schedule, 1000);
    work();
    wait_for(&schedule, EVENT_REPORT_GENERATED, 1);
    struct schedule after = look_in(op, schedule.id);
    work();
    assert_int_equal(records(&schedule, EVENT_REPORT_QUEUED), 1);
    assert_string_equal(after.open_report, "");
    assert_true(after.counted_from >= schedule.counted_from); /* from the report's end, whatever was missed */
    assert_int_equal(reports_of(op, &schedule, &list), 1);
    assert_string_equal(list[0].id.text, after.last_report);
    assert_string_equal(list[0].state, "generated");
    assert_int_equal(list[0].window_to - list[0].window_from, 90LL * 24 * 3600 * US_PER_S);
    assert_ok(report_document_find(op, &services, list[0].id, &document, &found));
    assert_int_equal(list[0].size, document.len);
    struct sha256 digest;
    assert_ok(sha256_of(buf_span(&document), &digest));
    assert_memory_equal(digest.at, list[0].digest.at, SHA256_LEN);
    CLEANUP(op_freep) struct op *other = test_op("stranger", 30000);
    assert_fault(report_get(other, &services, list[0].id, &list[0]), NOT_FOUND);
    assert_fault(report_document_find(other, &services, list[0].id, NULL, &found), NOT_FOUND);
}

static void a_clock_that_went_back_gives_one_report(void **state)
{
    (void)state;
    struct schedule schedule = create("back", "hourly");
    age(&schedule, -2);
    work();
    wait_for(&schedule, EVENT_REPORT_GENERATED, 1);
    work();
    assert_int_equal(records(&schedule, EVENT_REPORT_QUEUED), 1);
}

static void *work_beside(void *arg)
{
    (void)arg;
    work();
    return NULL;
}

static void two_leaders_at_once_queue_one_report(void **state)
{
    (void)state;
    struct schedule schedules[8];
    pthread_t threads[4];
    for (size_t i = 0; i < COUNT_OF(schedules); i++) {
        schedules[i] = create("leaders", "hourly");
        age(&schedules[i], 2);
    }
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, work_beside, NULL), 0);
    }
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    for (size_t i = 0; i < COUNT_OF(schedules); i++) {
        wait_for(&schedules[i], EVENT_REPORT_GENERATED, 1);
        assert_int_equal(records(&schedules[i], EVENT_REPORT_QUEUED), 1);
        assert_int_equal(records(&schedules[i], EVENT_REPORT_GENERATED), 1);
    }
}

/* Killed behind the document: the next attempt takes the one that is kept. */
static void a_document_that_was_kept_is_not_made_again(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("killed", 30000);
    struct schedule schedule = create("killed", "hourly");
    struct report *list = NULL;
    struct sha256 digest;
    struct uuid id;
    generation_stop();
    age(&schedule, 2);
    work();
    struct schedule open = look_in(op, schedule.id);
    assert_ok(uuid_parse(span_text(open.open_report), &id));
    const struct report_window window = { 1, 2 };
    assert_ok(report_document_keep(op, &services, id, schedule.id, span_text("first"), window));
    assert_ok(report_document_keep(op, &services, id, schedule.id, span_text("second"), window)); /* does nothing */
    int before = atomic_load(&made);
    generation_start();
    wait_for(&schedule, EVENT_REPORT_GENERATED, 1);
    assert_int_equal(atomic_load(&made), before);
    assert_int_equal(reports_of(op, &schedule, &list), 1);
    assert_ok(sha256_of(span_text("first"), &digest));
    assert_memory_equal(list[0].digest.at, digest.at, SHA256_LEN);
    assert_int_equal(list[0].window_to, 2);
}

/* Killed behind the event, with the outbox row still leased: the next attempt finds nothing to do. */
static void a_report_that_ended_is_not_made_again(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("ended", 30000);
    struct schedule schedule = create("ended", "hourly");
    generation_stop();
    age(&schedule, 2);
    work();
    struct schedule open = look_in(op, schedule.id);
    const char *payload = NULL;
    assert_ok(arena_printf(op->arena, &payload, "{\"report_id\":\"%s\",\"schedule_id\":\"%s\"}", open.open_report,
                           schedule.id.text));
    const struct outbox_item item = { .key = open.open_report, .payload = span_text(payload), .attempt = 1 };
    assert_ok(report_generate(op, &services, &item));
    int before = atomic_load(&made);
    superuser("UPDATE svc.outbox SET state = 'pending', payload = convert_to('%s', 'UTF8') WHERE key = '%s'", payload,
              open.open_report);
    generation_start();
    for (int i = 0;
         number("SELECT count(*) FROM svc.outbox WHERE key = '%s' AND state <> 'delivered'", open.open_report) > 0;
         i++) {
        assert_true(i < 3000);
        pause_a_little();
    }
    assert_int_equal(atomic_load(&made), before);
    assert_int_equal(records(&schedule, EVENT_REPORT_GENERATED), 1);
}

static void what_is_paused_while_it_waits_is_given_up(void **state)
{
    (void)state;
    struct schedule schedule = create("paused", "hourly");
    generation_stop();
    age(&schedule, 2);
    work();
    assert_int_equal(records(&schedule, EVENT_REPORT_QUEUED), 1);
    turn_on(&schedule, 1, false);
    generation_start();
    age(&schedule, 2);
    work();
    assert_int_equal(records(&schedule, EVENT_REPORT_QUEUED), 1);
    turn_on(&schedule, 2, true);
    struct schedule after = look(&schedule);
    assert_true(after.counted_from > schedule.counted_from); /* a fresh full interval */
    work();
    assert_int_equal(records(&schedule, EVENT_REPORT_QUEUED), 1);
    age(&schedule, 2);
    work();
    wait_for(&schedule, EVENT_REPORT_GENERATED, 1);
    assert_int_equal(records(&schedule, EVENT_REPORT_QUEUED), 2);
    assert_int_equal(records(&schedule, EVENT_SCHEDULE_CONFIGURED), 3);
    assert_int_equal(documents(&schedule), 1);
}

/* Made while somebody paused it: the event stands, and nothing counts or is kept of it in the end. */
static void a_report_that_comes_late_does_not_count(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("late", 30000);
    struct schedule schedule = create("late", "hourly");
    struct report *list = NULL;
    generation_stop();
    age(&schedule, 2);
    work();
    struct schedule open = look_in(op, schedule.id);
    turn_on(&schedule, 1, false);
    const char *payload = NULL;
    assert_ok(arena_printf(op->arena, &payload, "{\"report_id\":\"%s\",\"schedule_id\":\"%s\"}", open.open_report,
                           schedule.id.text));
    const struct outbox_item item = { .key = open.open_report, .payload = span_text(payload), .attempt = 1 };
    int before = atomic_load(&made);
    assert_ok(report_generate(op, &services, &item)); /* leased before, and looked at now */
    assert_int_equal(atomic_load(&made), before);
    CLEANUP(buf_free) struct buf data = BUF_INIT(2048);
    assert_ok(buf_printf(&data,
                         "{\"digest\":\"%064d\",\"framework\":\"soc2\",\"keep\":12,\"report_id\":\"%s\","
                         "\"report_type\":\"audit_summary\",\"schedule_id\":\"%s\",\"size\":1,\"version\":1,"
                         "\"window_from\":\"2026-01-01T00:00:00Z\",\"window_to\":\"2026-01-02T00:00:00Z\"}",
                         0, open.open_report, schedule.id.text));
    const struct event event = { EVENT_REPORT_GENERATED, 1, buf_span(&data) };
    const struct event_append append = { .lane = REPORT_LANE, .events = &event, .count = 1 };
    uint64_t seq = 0;
    assert_ok(events_append(op, services.log, &append, &seq));
    assert_ok(projector_wait(op, services.projector, seq));
    assert_int_equal(reports_of(op, &schedule, &list), 0);
    assert_null(look_in(op, schedule.id).last_report);
    generation_start();
}

static void append_queued(const struct schedule *schedule, int version, int round)
{
    CLEANUP(op_freep) struct op *op = test_op(schedule->tenant.text, 30000);
    CLEANUP(buf_free) struct buf data = BUF_INIT(2048);
    struct uuid id;
    uint64_t seq = 0;
    assert_ok(uuid_new(&id));
    assert_ok(buf_printf(&data,
                         "{\"due_at\":\"2026-01-01T00:00:00Z\",\"framework\":\"soc2\",\"report_id\":\"%s\","
                         "\"report_type\":\"audit_summary\",\"round\":%d,\"schedule_id\":\"%s\",\"version\":%d}",
                         id.text, round, schedule->id.text, version));
    const struct event event = { EVENT_REPORT_QUEUED, 1, buf_span(&data) };
    const struct event_append append = { .lane = REPORT_LANE, .events = &event, .count = 1 };
    assert_ok(events_append(op, services.log, &append, &seq));
    assert_ok(projector_wait(op, services.projector, seq));
}

static void only_the_next_round_of_the_present_version_is_queued(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("round", 30000);
    struct schedule schedule = create("round", "hourly");
    append_queued(&schedule, 1, 2);
    append_queued(&schedule, 2, 1);
    assert_string_equal(look_in(op, schedule.id).open_report, "");
    turn_on(&schedule, 1, false);
    append_queued(&schedule, 1, 1);
    append_queued(&schedule, 2, 1); /* paused */
    assert_string_equal(look_in(op, schedule.id).open_report, "");
    assert_int_equal(number("SELECT count(*) FROM svc.outbox WHERE tenant_id = 'round'"), 0);
}

static void a_failure_is_recorded_and_the_schedule_goes_on(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("failing", 30000);
    struct schedule schedule = create("failing", "hourly");
    struct report *list = NULL;
    atomic_store(&next_fault, FAULT_TOO_LARGE);
    age(&schedule, 2);
    work();
    wait_for(&schedule, EVENT_REPORT_FAILED, 1);
    struct schedule after = look_in(op, schedule.id);
    assert_string_equal(after.last_failure, "too_large");
    assert_true(after.counted_from >= schedule.counted_from);
    work();
    assert_int_equal(records(&schedule, EVENT_REPORT_QUEUED), 1);
    age(&schedule, 2);
    atomic_store(&next_fault, FAULT_STORE_BUSY); /* passes: tried again, and nothing is said about it */
    work();
    wait_for(&schedule, EVENT_REPORT_GENERATED, 1);
    assert_int_equal(records(&schedule, EVENT_REPORT_FAILED), 1);
    assert_null(look_in(op, schedule.id).last_failure);
    assert_int_equal(reports_of(op, &schedule, &list), 2);
    assert_string_equal(list[0].state, "generated");
    assert_string_equal(list[1].failure, "too_large");
}

static void a_report_that_nobody_works_on_is_ended(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("stuck", 30000);
    struct schedule schedule = create("stuck", "hourly");
    generation_stop();
    age(&schedule, 2);
    work();
    superuser("UPDATE svc.outbox SET state = 'dead-lettered' WHERE key = '%s'", look_in(op, schedule.id).open_report);
    work();
    assert_int_equal(records(&schedule, EVENT_REPORT_FAILED), 0); /* its event may still be on the way */
    superuser("UPDATE svc.report_schedules SET open_since_us = open_since_us - 120000000 WHERE schedule_id = '%s'",
              schedule.id.text);
    work();
    work();
    assert_int_equal(records(&schedule, EVENT_REPORT_FAILED), 1);
    assert_string_equal(look_in(op, schedule.id).last_failure, "report_abandoned");
    generation_start();
    age(&schedule, 2);
    work();
    wait_for(&schedule, EVENT_REPORT_GENERATED, 1);
}

static void only_the_newest_documents_are_kept(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("kept", 30000);
    struct schedule schedule = create("kept", "hourly");
    struct report *list = NULL;
    char newest[64] = "";
    test_config->reports_kept = 2;
    for (int i = 1; i <= 4; i++) {
        age(&schedule, 2);
        work();
        wait_for(&schedule, EVENT_REPORT_GENERATED, i);
        (void)snprintf(newest, sizeof(newest), "%s", look_in(op, schedule.id).last_report);
    }
    test_config->reports_kept = 12;
    assert_int_equal(reports_of(op, &schedule, &list), 2);
    assert_string_equal(list[0].id.text, newest);
    for (int i = 0; documents(&schedule) > 2; i++) { /* behind the event */
        assert_true(i < 3000);
        pause_a_little();
    }
    for (size_t i = 0; i < 2; i++) {
        struct report_document found;
        assert_ok(report_document_find(op, &services, list[i].id, NULL, &found));
        assert_memory_equal(found.digest.at, list[i].digest.at, SHA256_LEN);
    }
}

/* Everything that projections wrote, but for the rows that tests have turned the clock of. */
static const char *const row_sets[] = {
    "svc.report_schedules s ORDER BY tenant_id, schedule_id",
    "svc.report_schedule_versions s ORDER BY tenant_id, schedule_id, version",
    "svc.compliance_reports s WHERE tenant_id <> 'stuck' ORDER BY tenant_id, report_id",
    "svc.outbox s WHERE tenant_id NOT IN ('ended', 'stuck') ORDER BY tenant_id, key",
};

static void all_rows(int64_t ret_digests[COUNT_OF(row_sets)])
{
    for (size_t i = 0; i < COUNT_OF(row_sets); i++) {
        ret_digests[i] = number(
            "SELECT hashtextextended(string_agg(t, chr(10)), 0) FROM (SELECT s::text AS t FROM %s) r", row_sets[i]);
    }
}

static void a_rebuild_gives_the_same_rows_and_keeps_the_documents(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("", 60000);
    struct projector_config config = projector_config_here();
    uint64_t messages = 0;
    generation_stop();
    projector_stop(TAKE(services.projector));
    int64_t before[COUNT_OF(row_sets)], after[COUNT_OF(row_sets)];
    all_rows(before);
    int64_t kept = number("SELECT count(*) FROM svc.compliance_documents");
    assert_true(kept > 10);
    assert_ok(store_empty_projections(test_config, NULL));
    assert_ok(projection_rebuild(op, &config, &messages));
    assert_true(messages > 40);
    all_rows(after);
    assert_memory_equal(after, before, sizeof(before));
    assert_int_equal(number("SELECT count(*) FROM svc.compliance_documents"), kept);
    assert_int_equal(number("SELECT count(*) FROM svc.compliance_reports r JOIN svc.compliance_documents d"
                            " USING (tenant_id, report_id) WHERE r.state = 'generated' AND r.digest <> d.digest"),
                     0);
    assert_ok(projector_start(&config, &services.projector));
    generation_start();
}

static int begin(void **state)
{
    int result = set_up(state);
    generation_start();
    return result;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_makes_one_schedule_however_often_it_runs),
        cmocka_unit_test(what_is_due_is_made_once_after_however_many_intervals),
        cmocka_unit_test(a_clock_that_went_back_gives_one_report),
        cmocka_unit_test(two_leaders_at_once_queue_one_report),
        cmocka_unit_test(a_document_that_was_kept_is_not_made_again),
        cmocka_unit_test(a_report_that_ended_is_not_made_again),
        cmocka_unit_test(what_is_paused_while_it_waits_is_given_up),
        cmocka_unit_test(a_report_that_comes_late_does_not_count),
        cmocka_unit_test(only_the_next_round_of_the_present_version_is_queued),
        cmocka_unit_test(a_failure_is_recorded_and_the_schedule_goes_on),
        cmocka_unit_test(a_report_that_nobody_works_on_is_ended),
        cmocka_unit_test(only_the_newest_documents_are_kept),
        cmocka_unit_test(a_rebuild_gives_the_same_rows_and_keeps_the_documents),
    };
    return cmocka_run_group_tests_name("compliance: schedules", tests, begin, tear_down);
}
