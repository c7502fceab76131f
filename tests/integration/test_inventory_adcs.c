/* Observations of AD CS through the whole pipeline: run by with-stores from the top folder. */
#include "api/inventory/adcs.h"

#define FLOW_FEATURE_LIST &identity_feature, &inventory_adcs_feature
#include "integration/flow_testlib.h"
#include "unit/inventory/adcs_sample.h"

#define PATH "/api/v1/adcs/observations"

static char collector_a[TOKEN_TEXT_MAX], auditor_a[TOKEN_TEXT_MAX], operator_a[TOKEN_TEXT_MAX],
    collector_b[TOKEN_TEXT_MAX], auditor_b[TOKEN_TEXT_MAX];

struct look {
    const char *domain, *source, *run;
    int64_t ago_s; /* before now */
    struct knobs knobs;
    bool incomplete;
};

static const char *body_of(struct op *op, const struct look *look)
{
    char time[RFC3339_MAX];
    const char *body = sample_body(op, &look->knobs);
    rfc3339_print(clock_utc() - look->ago_s * US_PER_S, time);
    body = sample_with(op, body, "\"domain\":\"corp.example.com\"",
                       or_else(look->domain, "\"domain\":\"corp.example.com\""));
    body = sample_with(op, body, "collector-1", or_else(look->source, "collector-1"));
    body = sample_with(op, body, "run-1", or_else(look->run, "run-1"));
    body = sample_with(op, body, "2026-11-20T10:00:00Z", time);
    return look->incomplete ? sample_with(op, body, "\"complete\":true", "\"complete\":false") : body;
}

static struct answer *post(const char *token, const char *key, const char *body)
{
    static struct answer answer;
    struct uuid id;
    assert_ok(uuid_new(&id));
    flow_call("POST", PATH, token, key != NULL ? key : id.text, body, 30000, &answer);
    return &answer;
}

static struct answer *observe(const char *token, const struct look *look)
{
    CLEANUP(op_freep) struct op *op = test_op("tenant-a", 30000);
    return post(token, NULL, body_of(op, look));
}

static struct answer *get(const char *token, const char *target)
{
    static struct answer answer;
    flow_call("GET", target, token, NULL, NULL, 30000, &answer);
    return &answer;
}

static size_t count_of(const struct answer *answer, const char *text)
{
    size_t count = 0;
    for (const char *at = answer->body; (at = strstr(at, text)) != NULL; at++) {
        count++;
    }
    return count;
}

static void facts_of(const char *tenant_text, utc_us now, struct inventory_statement *ret_observed,
                     struct inventory_statement *ret_clean)
{
    static struct op *op;
    struct inventory_statement statements[INVENTORY_FACT_COUNT] = { 0 };
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    op_free(TAKE(op));
    op = test_op(tenant_text, 30000);
    assert_ok(tx_begin(op, flow_services.store, STORE_REQUEST, &tx));
    assert_ok(inventory_adcs_facts(op, &flow_services, tx, now, statements));
    *ret_observed = statements[INVENTORY_FACT_ADCS_OBSERVED];
    *ret_clean = statements[INVENTORY_FACT_ADCS_CLEAN];
}

/* In static storage, two in turn. */
static const char *dataset_of(const char *tenant_text, utc_us from, utc_us to)
{
    static char texts[2][262144];
    static unsigned turn;
    CLEANUP(op_freep) struct op *op = test_op(tenant_text, 30000);
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(buf_free) struct buf out = BUF_INIT(sizeof(texts[0]) - 1), canonical = BUF_INIT(sizeof(texts[0]));
    struct jout jout;
    char *text = texts[turn++ % 2];
    assert_ok(tx_begin(op, flow_services.store, STORE_REQUEST, &tx));
    jout_init(&jout, &out);
    assert_ok(inventory_adcs_print(op, &flow_services, tx, from, to, &jout));
    assert_ok(jout_end(&jout));
    assert_ok(json_canonical(buf_span(&out), &canonical));
    assert_true(span_equal(buf_span(&out), buf_span(&canonical)));
    memcpy(text, out.at, out.len);
    text[out.len] = '\0';
    return text;
}

/* ---- the tests, in this order: they build on one another ---- */

static void without_an_observation_the_facts_are_absent(void **state)
{
    (void)state;
    struct inventory_statement observed, clean;
    facts_of("tenant-a", clock_utc(), &observed, &clean);
    assert_int_equal(observed.state, INVENTORY_ABSENT);
    assert_int_equal(clean.state, INVENTORY_ABSENT);
    assert_string_equal(
        dataset_of("tenant-a", 0, INT64_MAX),
        "{\"administrators\":[],\"domains\":[],\"domains_without_complete_observation\":[],\"drift\":[],"
        "\"drift_left_out\":0,\"drift_total\":0,\"rules_version\":1}");
    assert_string_equal(get(auditor_a, PATH)->body, "{\"items\":[]}");
}

static void only_a_collector_hands_in_and_only_an_auditor_reads(void **state)
{
    (void)state;
    uint64_t before = flow_log_last();
    assert_problem(observe(auditor_a, &(struct look){ 0 }), 403, "forbidden");
    assert_problem(observe(operator_a, &(struct look){ 0 }), 403, "forbidden");
    assert_problem(get(collector_a, PATH), 403, "forbidden");
    assert_problem(get(collector_a, "/api/v1/adcs/drift"), 403, "forbidden");
    assert_int_equal(flow_log_last(), before);
}

static void what_is_of_the_future_or_contradicts_itself_is_refused_and_leaves_nothing(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("tenant-a", 30000);
    uint64_t before = flow_log_last();
    assert_problem(observe(collector_a, &(struct look){ .ago_s = -60 }), 400, "adcs_observation_time");
    const char *body = body_of(op, &(struct look){ 0 });
    assert_problem(post(collector_a, NULL, sample_with(op, body, "\"User\"]", "\"Gone\"]")), 400,
                   "adcs_observation_inconsistent");
    assert_problem(post(collector_a, NULL, sample_with(op, body, "\"ntlm\":true", "\"ntlm\":1")), 400, "json_field");
    assert_string_equal(flow_text(post(collector_a, NULL, sample_with(op, body, "S-1-5-11", "Everyone")), "pointer"),
                        "/templates/0/permissions/0/sid");
    assert_problem(get(auditor_a, PATH "?history=maybe"), 400, "query_parameter");
    assert_problem(get(auditor_a, PATH "?domain=a/b"), 400, "query_parameter");
    assert_problem(get(auditor_a, PATH "/nothing"), 404, "not_found");
    assert_int_equal(flow_log_last(), before);
}

static void history_alone_never_counts(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("tenant-a", 30000);
    struct inventory_statement observed, clean;
    char time[RFC3339_MAX];
    const char *body = NULL;
    struct answer *answer = observe(collector_a, &(struct look){ .ago_s = 5000, .incomplete = true });
    assert_status(answer, 201);
    assert_non_null(strstr(answer->body, "\"latest\":false"));
    rfc3339_print(clock_utc() - 4990 * US_PER_S, time);
    assert_ok(
        arena_printf(op->arena, &body,
                     "{\"domain\":\"Corp.Example.com\",\"source_id\":\"collector-1\",\"run_id\":\"v1\",\"relay_id\":"
                     "\"relay-1\",\"observed_at\":\"%s\",\"schema_version\":1,\"complete\":false,\"templates\":[]}",
                     time));
    answer = post(collector_a, NULL, body);
    assert_status(answer, 201);
    assert_non_null(strstr(answer->body, "\"latest\":false"));
    assert_string_equal(get(auditor_a, PATH)->body, "{\"items\":[]}");
    assert_int_equal(count_of(get(auditor_a, PATH "?history=true"), "\"observation_id\""), 2);
    facts_of("tenant-a", clock_utc(), &observed, &clean);
    assert_int_equal(observed.state, INVENTORY_FAILS);
    assert_int_equal(clean.state, INVENTORY_FAILS);
    assert_int_equal(observed.total, 1);
    assert_non_null(strstr(dataset_of("tenant-a", 0, INT64_MAX),
                           "\"domains_without_complete_observation\":[\"corp.example.com\"]"));
}

static void a_complete_one_counts_until_it_is_too_old(void **state)
{
    (void)state;
    struct inventory_statement observed, clean;
    struct answer *answer = observe(collector_a, &(struct look){ .ago_s = 4000, .run = "run-2" });
    assert_status(answer, 201);
    assert_non_null(strstr(answer->body, "\"latest\":true"));
    assert_non_null(strstr(answer->body, "\"changes\":0"));
    facts_of("tenant-a", clock_utc(), &observed, &clean);
    assert_int_equal(observed.state, INVENTORY_HOLDS);
    assert_int_equal(clean.state, INVENTORY_HOLDS);
    assert_string_equal(observed.object, "adcs-observations:tenant-a");
    facts_of("tenant-a", clock_utc() + test_config->adcs_max_age / 1000, &observed, &clean);
    assert_int_equal(observed.state, INVENTORY_FAILS);
    assert_int_equal(clean.state, INVENTORY_HOLDS);
    assert_non_null(strstr(get(auditor_a, PATH)->body, "\"findings\":{\"critical\":0,\"high\":0,\"medium\":0}"));
}

static void a_source_never_goes_back_and_a_replay_changes_nothing(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("tenant-a", 30000);
    const char *body = body_of(op, &(struct look){ .ago_s = 3900, .run = "run-3" });
    struct answer *answer = post(collector_a, "one-key", body);
    static char first[sizeof(answer->body)];
    assert_status(answer, 201);
    memcpy(first, answer->body, sizeof(first));
    uint64_t before = flow_log_last();
    answer = post(collector_a, "one-key", body);
    assert_status(answer, 201);
    assert_string_equal(answer->body, first);
    assert_problem(post(collector_a, NULL, body), 409, "adcs_observation_order");
    assert_problem(observe(collector_a, &(struct look){ .ago_s = 3950, .incomplete = true }), 409,
                   "adcs_observation_order");
    assert_int_equal(flow_log_last(), before);
    /* The claim of the key is lost with the process that answered: the command finds what it did. */
    assert_ok(as_superuser("DELETE FROM svc.idempotency_keys"));
    answer = post(collector_a, "one-key", body);
    assert_status(answer, 201);
    assert_string_equal(answer->body, first);
    assert_int_equal(flow_log_last(), before);
}

static void an_older_one_of_another_source_is_history(void **state)
{
    (void)state;
    struct answer *answer =
        observe(collector_a, &(struct look){ .ago_s = 4500, .source = "collector-2", .knobs = { .http = true } });
    struct inventory_statement observed, clean;
    assert_status(answer, 201);
    assert_non_null(strstr(answer->body, "\"complete\":true,\"latest\":false"));
    facts_of("tenant-a", clock_utc(), &observed, &clean);
    assert_int_equal(clean.state, INVENTORY_HOLDS);
    answer = get(auditor_a, PATH);
    assert_int_equal(count_of(answer, "\"observation_id\""), 1);
    assert_string_equal(flow_text(answer, "run_id"), "run-3");
    assert_string_equal(get(auditor_a, "/api/v1/adcs/drift")->body, "{\"items\":[]}");
}

static void drift_is_recorded_with_the_observation_that_shows_it(void **state)
{
    (void)state;
    struct inventory_statement observed, clean;
    struct look look = { .ago_s = 3000, .source = "collector-2", .run = "run-9", .knobs = { .supplies = true } };
    struct answer *answer = observe(collector_a, &look);
    char path[128];
    assert_status(answer, 201);
    assert_non_null(strstr(answer->body, "\"changes\":2"));
    (void)snprintf(path, sizeof(path), PATH "/%s", flow_text(answer, "observation_id"));
    answer = get(auditor_a, path);
    assert_status(answer, 200);
    assert_non_null(strstr(answer->body, "\"rule\":\"ESC1\",\"severity\":\"critical\""));
    answer = get(auditor_a, "/api/v1/adcs/drift?domain=CORP.example.com");
    assert_int_equal(count_of(answer, "\"event_id\""), 1);
    assert_non_null(strstr(answer->body, "\"source_id\":\"collector-2\",\"run_id\":\"run-9\",\"relay_id\":\"relay-1\","
                                         "\"changes\":2"));
    assert_non_null(strstr(answer->body, "\"name\":\"ESC1 critical template:user\""));
    facts_of("tenant-a", clock_utc(), &observed, &clean);
    assert_int_equal(observed.state, INVENTORY_HOLDS);
    assert_int_equal(clean.state, INVENTORY_FAILS);
    /* An incomplete one behind it is no ground for drift. */
    look = (struct look){ .ago_s = 2900, .source = "collector-2", .incomplete = true };
    answer = observe(collector_a, &look);
    assert_non_null(strstr(answer->body, "\"latest\":false"));
    assert_non_null(strstr(answer->body, "\"changes\":0"));
}

static void every_domain_has_to_be_there(void **state)
{
    (void)state;
    struct inventory_statement observed, clean;
    struct look look = { .domain = "\"domain\":\"a.example.com\"", .ago_s = 2000, .incomplete = true };
    assert_status(observe(collector_a, &look), 201);
    facts_of("tenant-a", clock_utc(), &observed, &clean);
    assert_int_equal(observed.state, INVENTORY_FAILS);
    assert_int_equal(observed.total, 2);
    assert_int_equal(observed.matched, 1);
    look.incomplete = false;
    look.ago_s = 1900;
    assert_status(observe(collector_a, &look), 201);
    facts_of("tenant-a", clock_utc(), &observed, &clean);
    assert_int_equal(observed.state, INVENTORY_HOLDS);
    assert_int_equal(observed.matched, 2);
    assert_int_equal(clean.matched, 1);
}

static void pages_follow_one_another(void **state)
{
    (void)state;
    char target[512];
    size_t seen = 0, pages = 0;
    const struct answer *answer = get(auditor_a, PATH "?history=true&limit=3");
    while (true) {
        seen += count_of(answer, "\"observation_id\"");
        pages++;
        if (strcmp(flow_text(answer, "next_cursor"), "") == 0) {
            break;
        }
        (void)snprintf(target, sizeof(target), PATH "?history=true&limit=3&cursor=%s",
                       flow_text(answer, "next_cursor"));
        answer = get(auditor_a, target);
    }
    assert_int_equal(seen, 9);
    assert_int_equal(pages, 3);
    assert_int_equal(count_of(get(auditor_a, PATH), "\"latest\":true"), 2);
}

static void another_tenant_has_its_own(void **state)
{
    (void)state;
    struct inventory_statement observed, clean;
    char path[128];
    struct answer *answer = observe(collector_b, &(struct look){ .ago_s = 4000, .knobs = { .plain_calls = true } });
    assert_status(answer, 201);
    assert_non_null(strstr(answer->body, "\"changes\":0"));
    (void)snprintf(path, sizeof(path), PATH "/%s", flow_text(answer, "observation_id"));
    assert_status(get(auditor_b, path), 200);
    assert_problem(get(auditor_a, path), 404, "not_found");
    assert_int_equal(count_of(get(auditor_b, PATH "?history=true"), "\"observation_id\""), 1);
    assert_string_equal(get(auditor_b, "/api/v1/adcs/drift")->body, "{\"items\":[]}");
    facts_of("tenant-b", clock_utc(), &observed, &clean);
    assert_int_equal(clean.total, 1);
    assert_null(strstr(dataset_of("tenant-b", 0, INT64_MAX), "run-9"));
}

/* 500 templates, all of which change: the body, both looks at it, and a bounded drift beside it in one message. */
static void the_largest_forest_is_taken_and_drifts(void **state)
{
    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        CLEANUP(op_freep) struct op *op = test_op("tenant-b", 30000);
        CLEANUP(buf_free) struct buf more = BUF_INIT((size_t)1 << 20);
        const char *templates = NULL;
        const struct look look = { .domain = "\"domain\":\"big.example.com\"", .ago_s = 100 - turn };
        assert_ok(buf_text(&more, "\"templates\":["));
        for (int i = 0; i < 500; i++) {
            assert_ok(buf_printf(&more,
                                 "{\"name\":\"%0150d\",\"oid\":\"1.3.6.%d\",\"schema_version\":2,\"ekus\":[],"
                                 "\"enrollee_supplies_subject\":false,\"manager_approval\":false,"
                                 "\"authorized_signatures\":0,\"validity_seconds\":%d,\"renewal_seconds\":1,"
                                 "\"name_flags\":0,\"enrollment_flags\":0,\"private_key_flags\":0,\"permissions\":["
                                 "{\"sid\":\"S-1-1-0\",\"rights\":[\"%s\"]},{\"sid\":\"S-1-5-21-1-2-3-%d\",\"name\":"
                                 "\"CORP\\\\Group %d\",\"rights\":[\"enroll\",\"autoenroll\",\"write-property\"]}]},",
                                 i, i, turn, turn == 0 ? "enroll" : "owner", 1000 + i, i));
        }
        assert_ok(buf_text(&more, "{"));
        assert_ok(buf_cstr(&more, &templates));
        const char *body = sample_with(op, body_of(op, &look), "\"templates\":[{", templates);
        assert_true(strlen(body) > ADCS_BODY_MAX * 2 / 3 && strlen(body) < ADCS_BODY_MAX);
        struct answer *answer = post(collector_b, NULL, body);
        assert_status(answer, 201);
        assert_non_null(strstr(answer->body, turn == 0 ? "\"changes\":0" : "\"changes\":1500"));
    }
}

static void the_dataset_holds_to_the_window_and_is_the_same_after_a_rebuild(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("", 60000);
    utc_us to = clock_utc();
    uint64_t messages = 0;
    const char *before = dataset_of("tenant-a", 0, to);
    assert_non_null(strstr(before, "\"drift_left_out\":0,\"drift_total\":1"));
    assert_non_null(strstr(before, "\"domains\":[{\"chain\":\""));
    assert_non_null(strstr(before, "\"type\":\"inventory.adcs.drifted\""));
    assert_true(strstr(before, "\"domain\":\"a.example.com\"") < strstr(before, "\"domain\":\"corp.example.com\""));
    assert_non_null(strstr(dataset_of("tenant-a", to, to), "\"drift\":[],\"drift_left_out\":0,\"drift_total\":0"));
    flow_pause();
    before = dataset_of("tenant-a", 0, to);
    assert_ok(store_empty_projections(test_config, NULL));
    assert_ok(projection_rebuild(op, flow_projector_config(), &messages));
    assert_string_equal(dataset_of("tenant-a", 0, to), before);
    flow_resume();
    assert_int_equal(count_of(get(auditor_a, PATH "?history=true"), "\"observation_id\""), 9);
}

static int set_up(void **state)
{
    (void)state;
    flow_start();
    flow_token("tenant-a", "collector", "adcs-collector", collector_a);
    flow_token("tenant-a", "audit", "auditor", auditor_a);
    flow_token("tenant-a", "op", "operator", operator_a);
    flow_token("tenant-b", "collector", "adcs-collector", collector_b);
    flow_token("tenant-b", "audit", "auditor", auditor_b);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    flow_stop();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_an_observation_the_facts_are_absent),
        cmocka_unit_test(only_a_collector_hands_in_and_only_an_auditor_reads),
        cmocka_unit_test(what_is_of_the_future_or_contradicts_itself_is_refused_and_leaves_nothing),
        cmocka_unit_test(history_alone_never_counts),
        cmocka_unit_test(a_complete_one_counts_until_it_is_too_old),
        cmocka_unit_test(a_source_never_goes_back_and_a_replay_changes_nothing),
        cmocka_unit_test(an_older_one_of_another_source_is_history),
        cmocka_unit_test(drift_is_recorded_with_the_observation_that_shows_it),
        cmocka_unit_test(every_domain_has_to_be_there),
        cmocka_unit_test(pages_follow_one_another),
        cmocka_unit_test(another_tenant_has_its_own),
        cmocka_unit_test(the_largest_forest_is_taken_and_drifts),
        cmocka_unit_test(the_dataset_holds_to_the_window_and_is_the_same_after_a_rebuild),
    };
    return cmocka_run_group_tests_name("inventory_adcs", tests, set_up, tear_down);
}
