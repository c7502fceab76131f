/* Audit feeds against real stores and a strict collector (tests/feeds/collectors.py): what is retried, what fails
 * closed, and what a collector that hangs does to others. */
#include "feeds_testlib.h"

#define TOKEN "hec-secret-of-the-test"

/* ---- feeds ---- */

static void save(const char *tenant_text, const char *id)
{
    CLEANUP(op_freep) struct op *op = test_op(tenant_text, 30000);
    char url[64];
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%d", hec_port);
    const struct feed_body body = { .config = { .kind = "hec", .url = url, .credential = "env:FEED_TEST_TOKEN" } };
    assert_ok(uuid_new(&op->command_id));
    struct fault fault = feed_configure(op, &services, id, &body);
    if (FAULTED(fault)) {
        fail_msg("not saved: %s", op->note.detail);
    }
}

/* Something happens in that tenant. */
static void happen(const char *tenant_text, const char *type)
{
    CLEANUP(op_freep) struct op *op = test_op(tenant_text, 30000);
    const struct event event = { type, 1, span_text("{\"n\":1}") };
    const struct event_append append = { .lane = "test", .events = &event, .count = 1 };
    uint64_t seq = 0;
    assert_ok(events_append(op, services.log, &append, &seq));
    assert_ok(projector_wait(op, services.projector, seq));
}

static void work(void)
{
    CLEANUP(op_freep) struct op *op = test_op("", 30000);
    assert_ok(feeds_work(op, &services));
}

/* A copy of the feed, its texts with it, in the operation's arena. */
static struct feed look(struct op *op, const char *id)
{
    struct feed feed;
    assert_ok(feed_load(op, &services, id, &feed));
    return feed;
}

static void wait_until_state(const char *tenant_text, const char *id, const char *state)
{
    for (int i = 0;; i++) {
        CLEANUP(op_freep) struct op *op = test_op(tenant_text, 30000);
        struct feed feed = look(op, id);
        if (strcmp(feed.state, state) == 0) {
            return;
        }
        if (i > 1200) {
            fail_msg("%s is %s (%s), not %s", id, feed.state, feed.attempt_error, state);
        }
        pause_a_little();
    }
}

static void wait_until_attempts(const char *tenant_text, const char *id, int64_t attempts)
{
    for (int i = 0;; i++) {
        CLEANUP(op_freep) struct op *op = test_op(tenant_text, 30000);
        if (look(op, id).attempts >= attempts) {
            return;
        }
        assert_true(i < 1200);
        pause_a_little();
    }
}

static void superuser(const char *format, ...) PRINTF(1, 2);
static void superuser(const char *format, ...)
{
    char script[512];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(script, sizeof(script), format, list);
    va_end(list);
    assert_ok(as_superuser(script));
}

/* ---- */

static void records_of_feeds_cause_no_batch_and_ride_with_the_next(void **state)
{
    (void)state;
    happen("quiet", "test.happened");
    save("quiet", "siem");
    work();
    wait_until_state("quiet", "siem", "delivered");
    CLEANUP(op_freep) struct op *op = test_op("quiet", 30000);
    struct feed first = look(op, "siem");
    assert_int_equal(first.delivered, 2); /* what happened, and the configuration itself */
    int64_t requests = hec_number("/test/bodies", "count");
    for (int i = 0; i < 5; i++) {
        work();
    }
    assert_int_equal(hec_number("/test/bodies", "count"), requests);
    assert_string_equal(look(op, "siem").batch_id, "");
    happen("quiet", "test.happened");
    work();
    wait_until_state("quiet", "siem", "delivered");
    assert_int_equal(look(op, "siem").delivered, 5); /* batched and delivered of the first one came along */
}

static void a_batch_is_the_same_at_every_attempt(void **state)
{
    (void)state;
    hec_mode("503");
    happen("again", "test.happened");
    save("again", "siem");
    int64_t requests = hec_number("/test/bodies", "count"), kinds = hec_number("/test/bodies", "kinds");
    work();
    wait_until_attempts("again", "siem", 2);
    CLEANUP(op_freep) struct op *op = test_op("again", 30000);
    struct feed feed = look(op, "siem");
    assert_string_equal(feed.attempt_error, "collector_busy");
    assert_string_equal(feed.attempt_request_id, "req-7");
    assert_true(feed.not_before > 0);
    for (int i = 0; hec_number("/test/bodies", "count") < requests + 2; i++) {
        assert_true(i < 600);
        pause_a_little();
    }
    happen("again", "test.happened"); /* the open batch does not grow */
    hec_mode("drop");                 /* taken, and nobody was told */
    int64_t before = hec_number("/test/bodies", "count");
    for (int i = 0; hec_number("/test/bodies", "count") == before; i++) {
        assert_true(i < 600);
        pause_a_little();
    }
    assert_int_equal(hec_number("/test/bodies", "kinds"), kinds + 1);
    hec_mode("");
    wait_until_state("again", "siem", "delivered");
    work();
    for (int i = 0; look(op, "siem").delivered < 3; i++) {
        assert_true(i < 600);
        pause_a_little();
    }
}

static void what_is_not_confirmed_is_asked_about_and_not_sent_again(void **state)
{
    (void)state;
    hec_mode("unindexed");
    happen("slow", "test.happened");
    save("slow", "siem");
    int64_t requests = hec_number("/test/bodies", "count");
    work();
    wait_until_attempts("slow", "siem", 3);
    CLEANUP(op_freep) struct op *op = test_op("slow", 30000);
    struct feed feed = look(op, "siem");
    assert_string_equal(feed.attempt_error, "not_acknowledged");
    assert_non_null(feed.receipt);
    assert_int_equal(hec_number("/test/bodies", "count"), requests + 1);
    hec_mode("");
    wait_until_state("slow", "siem", "delivered");
    assert_int_equal(hec_number("/test/bodies", "count"), requests + 1);
}

static void a_refusal_ends_it_until_it_is_saved_again(void **state)
{
    (void)state;
    hec_mode("403");
    happen("refused", "test.happened");
    save("refused", "siem");
    work();
    wait_until_state("refused", "siem", "failed");
    CLEANUP(op_freep) struct op *op = test_op("refused", 30000);
    struct feed feed = look(op, "siem");
    assert_string_equal(feed.error_code, "credential_refused");
    assert_string_equal(feed.request_id, "req-7");
    hec_mode("");
    happen("refused", "test.happened");
    work();
    assert_string_equal(look(op, "siem").state, "failed");
    save("refused", "siem");
    work();
    wait_until_state("refused", "siem", "delivered");
    feed = look(op, "siem");
    assert_int_equal(feed.version, 2);
    assert_true(feed.delivered >= 2);
}

static void an_answer_of_somebody_else_is_no_receipt(void **state)
{
    (void)state;
    static const char *const modes[] = { "garbage", "noack" };
    static const char *const codes[] = { "collector_answer_malformed", "acknowledgement_disabled" };
    CLEANUP(op_freep) struct op *op = test_op("other", 60000);
    happen("other", "test.happened");
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        hec_mode(modes[i]);
        save("other", "siem");
        work();
        for (int j = 0;; j++) {
            struct feed feed = look(op, "siem");
            const char *code = strcmp(feed.state, "failed") == 0 ? feed.error_code : feed.attempt_error;
            if (code != NULL && strcmp(code, codes[i]) == 0) {
                break;
            }
            assert_true(j < 600);
            pause_a_little();
        }
        assert_int_equal(look(op, "siem").delivered, 0);
    }
    hec_mode("");
}

static void a_lost_outbox_row_is_made_again_only_while_the_history_is_the_same(void **state)
{
    (void)state;
    static const char *const tenants[] = { "lost", "changed" };
    outbound_stop();
    for (size_t i = 0; i < 2; i++) {
        happen(tenants[i], "test.happened");
        save(tenants[i], "siem");
    }
    work(); /* both batches are open, and nobody sends them */
    for (size_t i = 0; i < 2; i++) {
        CLEANUP(op_freep) struct op *op = test_op(tenants[i], 30000);
        assert_string_equal(look(op, "siem").state, "queued");
        assert_string_equal(look(op, "siem").outbox_state, "pending");
    }
    superuser("DELETE FROM svc.outbox WHERE destination = 'audit.feed' AND tenant_id IN ('lost', 'changed')");
    superuser("UPDATE svc.audit_records SET record = convert_to(replace(convert_from(record, 'UTF8'), '\"n\":1',"
              " '\"n\":2'), 'UTF8') WHERE tenant_id = 'changed' AND sequence = 1");
    int64_t requests = hec_number("/test/bodies", "count");
    CLEANUP(op_freep) struct op *op = test_op("", 30000);
    assert_ok(feeds_reconcile(op, &services));
    assert_ok(projector_catch_up(op, services.projector));
    CLEANUP(op_freep) struct op *lost = test_op("lost", 30000);
    CLEANUP(op_freep) struct op *changed = test_op("changed", 30000);
    assert_string_equal(look(lost, "siem").outbox_state, "pending");
    assert_int_equal(look(lost, "siem").round, 1);
    assert_string_equal(look(changed, "siem").state, "failed");
    assert_string_equal(look(changed, "siem").error_code, "range_changed");
    outbound_start(16);
    wait_until_state("lost", "siem", "delivered");
    assert_int_equal(hec_number("/test/bodies", "count"), requests + 1);
}

static void a_range_that_changed_is_not_sent(void **state)
{
    (void)state;
    hec_mode("503");
    happen("altered", "test.happened");
    save("altered", "siem");
    work();
    wait_until_attempts("altered", "siem", 1);
    superuser("UPDATE svc.audit_records SET event_id = 'ffffffff-0000-8000-8000-000000000000'"
              " WHERE tenant_id = 'altered' AND sequence = 1");
    hec_mode("");
    wait_until_state("altered", "siem", "failed");
    CLEANUP(op_freep) struct op *op = test_op("altered", 30000);
    assert_string_equal(look(op, "siem").error_code, "range_changed");
    assert_int_equal(look(op, "siem").delivered, 0);
    save("altered", "siem");
    work();
    wait_until_state("altered", "siem", "delivered");
}

static void a_collector_that_hangs_holds_up_no_other(void **state)
{
    (void)state;
    hec_mode("hang");
    happen("hung", "test.happened");
    save("hung", "one");
    save("hung", "two");
    work();
    wait_until_attempts("hung", "one", 1);
    for (int i = 0; i < 20; i++) { /* at most one batch is open, whatever happens meanwhile */
        happen("hung", "test.happened");
        work();
    }
    CLEANUP(op_freep) struct op *op = test_op("hung", 30000);
    assert_true(look(op, "one").range.last <= 3);
    hec_mode("");
    happen("free", "test.happened");
    save("free", "siem");
    work();
    wait_until_state("free", "siem", "delivered");
    for (int i = 0; look(op, "one").delivered < 23 || look(op, "two").delivered < 23; i++) {
        assert_true(i < 2400);
        work();
        pause_a_little();
    }
}

static void nothing_was_sent_that_the_collector_could_not_read(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf body = BUF_INIT(65536);
    hec_ask("GET", "/test/bodies", &body);
    assert_non_null(memmem(body.at, body.len, "\"errors\": []", 12));
}

/* Everything that projections wrote about feeds, as one digest. */
static void rows_digest(char out[64])
{
    static const struct sql rows_of = {
        "test_feed_rows",
        "SELECT md5(coalesce((SELECT string_agg(f::text, chr(10) ORDER BY tenant_id, feed_id) FROM svc.audit_feeds f), '')"
        " || coalesce((SELECT string_agg(o::text, chr(10) ORDER BY tenant_id, key) FROM svc.outbox o"
        " WHERE destination = 'audit.feed' AND tenant_id <> 'lost' AND tenant_id <> 'changed'), ''))",
        0,
    };
    CLEANUP(op_freep) struct op *op = test_op("", 30000);
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    assert_ok(tx_begin(op, services.store, STORE_BOOKKEEPING, &tx));
    assert_ok(tx_query(tx, &rows_of, NULL, 0, &rows));
    (void)snprintf(out, 64, "%s", rows_text(rows, 0, 0));
}

static void a_rebuild_gives_the_same_rows(void **state)
{
    (void)state;
    char before[64], after[64];
    CLEANUP(op_freep) struct op *op = test_op("", 60000);
    struct projector_config config = projector_config_here();
    uint64_t messages = 0;
    outbound_stop();
    projector_stop(TAKE(services.projector));
    rows_digest(before);
    assert_ok(store_empty_projections(test_config, NULL));
    assert_ok(projection_rebuild(op, &config, &messages));
    assert_true(messages > 30);
    rows_digest(after);
    assert_string_equal(before, after);
    assert_ok(projector_start(&config, &services.projector));
    outbound_start(16);
    CLEANUP(op_freep) struct op *lost = test_op("lost", 30000);
    assert_string_equal(look(lost, "siem").state, "delivered");
}

static int set_up(void **state)
{
    (void)state;
    char allowed[64];
    static const char *entries[1];
    hec_start(TOKEN);
    (void)snprintf(allowed, sizeof(allowed), "127.0.0.1:%d=FEED_TEST_TOKEN", hec_port);
    entries[0] = strdup(allowed);
    assert_int_equal(setenv("FEED_TEST_TOKEN", TOKEN, 1), 0);
    use_config();
    test_config->feeds_allow = (struct config_list){ entries, 1 };
    services_open();
    outbound_start(16);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    services_close();
    hec_stop();
    free((void *)(uintptr_t)test_config->feeds_allow.at[0]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(records_of_feeds_cause_no_batch_and_ride_with_the_next),
        cmocka_unit_test(a_batch_is_the_same_at_every_attempt),
        cmocka_unit_test(what_is_not_confirmed_is_asked_about_and_not_sent_again),
        cmocka_unit_test(a_refusal_ends_it_until_it_is_saved_again),
        cmocka_unit_test(an_answer_of_somebody_else_is_no_receipt),
        cmocka_unit_test(a_lost_outbox_row_is_made_again_only_while_the_history_is_the_same),
        cmocka_unit_test(a_range_that_changed_is_not_sent),
        cmocka_unit_test(a_collector_that_hangs_holds_up_no_other),
        cmocka_unit_test(a_rebuild_gives_the_same_rows),
        cmocka_unit_test(nothing_was_sent_that_the_collector_could_not_read),
    };
    return cmocka_run_group_tests_name("feeds: delivery", tests, set_up, tear_down);
}
