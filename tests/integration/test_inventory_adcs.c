/* Observations of AD CS through the whole pipeline: run by with-stores from the top folder. */
#include "api/inventory/adcs.h"

#include "appliance/base/codec.h"

#define FLOW_FEATURE_LIST &identity_feature, &inventory_adcs_feature
#include "integration/flow_testlib.h"
#include "unit/inventory/adcs_sample.h"

#define PATH "/api/v1/adcs/observations"

static char collector_a[TOKEN_TEXT_MAX], auditor_a[TOKEN_TEXT_MAX], operator_a[TOKEN_TEXT_MAX], other_a[TOKEN_TEXT_MAX],
    collector_b[TOKEN_TEXT_MAX], auditor_b[TOKEN_TEXT_MAX], collector_c[TOKEN_TEXT_MAX];

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

static size_t count_in(const char *whole, const char *text)
{
    size_t count = 0;
    for (const char *at = whole; (at = strstr(at, text)) != NULL; at++) {
        count++;
    }
    return count;
}

static size_t count_of(const struct answer *answer, const char *text)
{
    return count_in(answer->body, text);
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
    static char texts[2][(size_t)4 << 20]; /* what a pack takes */
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
        "{\"administrators\":[],\"domains\":[],\"domains_left_out\":0,\"domains_total\":0,"
        "\"domains_without_complete_observation\":[],\"drift\":[],\"drift_left_out\":0,\"drift_total\":0,"
        "\"findings_left_out\":0,\"rules_version\":1}");
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
    facts_of("tenant-a", clock_utc() - 86400 * US_PER_S, &observed, &clean); /* a clock that was set back */
    assert_int_equal(observed.state, INVENTORY_FAILS);
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

/* In any domain, and not in another tenant: tenant-b's collector is another subject with the same source. */
static void a_source_belongs_to_the_subject_that_used_it_first(void **state)
{
    (void)state;
    uint64_t before = flow_log_last();
    struct answer *answer = observe(other_a, &(struct look){ .ago_s = 10 });
    assert_problem(answer, 409, "adcs_source_bound");
    assert_string_equal(flow_text(answer, "pointer"), "/source_id");
    answer = observe(other_a, &(struct look){ .ago_s = 10, .domain = "\"domain\":\"new.example.com\"" });
    assert_problem(answer, 409, "adcs_source_bound");
    assert_int_equal(flow_log_last(), before);
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
    assert_non_null(strstr(answer->body, "\"recorded_by\":\"collector\",\"observation_id\""));
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

/* Templates that anybody may change: a finding each. With a backslash in the name every one is two bytes. */
static const char *body_with(struct op *op, const struct look *look, int templates, const char *sid, int mark)
{
    CLEANUP(buf_free) struct buf more = BUF_INIT((size_t)1 << 20);
    char name[398];
    const char *texts = NULL;
    memset(name, '\\', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    assert_ok(buf_text(&more, "\"templates\":["));
    for (int i = 0; i < templates; i++) {
        assert_ok(buf_printf(&more,
                             "{\"name\":\"%04d%s\",\"oid\":\"1.3.6.%d\",\"schema_version\":2,\"ekus\":[],"
                             "\"enrollee_supplies_subject\":false,\"manager_approval\":false,"
                             "\"authorized_signatures\":%d,\"validity_seconds\":%d,\"renewal_seconds\":%d,"
                             "\"name_flags\":0,\"enrollment_flags\":%d,\"private_key_flags\":%d,\"permissions\":["
                             "{\"sid\":\"%s\",\"rights\":[\"owner\"]}]},",
                             i, name + 1, i, mark, mark, mark, mark * 256, mark, sid));
    }
    assert_ok(buf_text(&more, "{"));
    assert_ok(buf_cstr(&more, &texts));
    return sample_with(op, body_of(op, look), "\"templates\":[{", texts);
}

static struct fault digest_stands_there(void *arg, struct op *op, const struct adcs_row *row)
{
    char text[256], hex[SHA256_LEN * 2 + 1];
    struct sha256 digest;
    (void)op;
    assert_ok(sha256_of(row->data, &digest));
    hex_text(SPAN_ARRAY(digest.at), hex, sizeof(hex));
    (void)snprintf(text, sizeof(text), "\"observation_sha256\":\"%s\",\"observed_at\"", hex);
    assert_non_null(strstr(arg, text));
    return OK;
}

/* Domains of more than two megabytes and drift of more than one: both give way, the newest drift last. */
static void the_dataset_stays_small_and_counts_what_it_leaves_out(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *reader = test_op("tenant-c", 30000);
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    char domain[64], text[64];
    for (int i = 0; i < 10; i++) {
        CLEANUP(op_freep) struct op *op = test_op("tenant-c", 30000);
        (void)snprintf(domain, sizeof(domain), "\"domain\":\"big-%d.example.com\"", i);
        assert_status(
            post(collector_c, NULL, body_with(op, &(struct look){ .domain = domain, .ago_s = 9 }, 400, "S-1-1-0", 1)),
            201);
    }
    for (int i = 0; i < 36; i++) {
        CLEANUP(op_freep) struct op *op = test_op("tenant-c", 30000);
        (void)snprintf(text, sizeof(text), "drift-%d", i);
        const struct look look = { .domain = "\"domain\":\"z.example.com\"", .ago_s = 99 - i, .run = text };
        assert_status(post(collector_c, NULL, body_with(op, &look, 64, DOMAIN_ADMINS, i + 1)), 201);
    }
    const char *dataset = dataset_of("tenant-c", 0, INT64_MAX);
    size_t listed = count_in(dataset, "\"listed\":true"), drift = count_in(dataset, "\"changes_total\":64,");
    assert_true(strlen(dataset) < (size_t)13 << 18 && strlen(dataset) > (size_t)5 << 19);
    assert_true(listed > 2 && listed < 11 && drift > 10 && drift < 35);
    (void)snprintf(text, sizeof(text), "\"domains_left_out\":%zu,\"domains_total\":11,", 11 - listed);
    assert_non_null(strstr(dataset, text));
    size_t sick = count_in(dataset, "\"finding_counts\":{\"critical\":0,\"high\":400,\"medium\":0},\"listed\":false,"
                                    "\"observation_sha256\"");
    assert_true(sick > 0 && sick >= 10 - listed);
    assert_int_equal(count_in(dataset, "\"listed\":false,\"observation_sha256\""), 11 - listed);
    (void)snprintf(text, sizeof(text), "\"findings_left_out\":%zu,", sick * 400);
    assert_non_null(strstr(dataset, text));
    (void)snprintf(text, sizeof(text), "\"drift_left_out\":%zu,\"drift_total\":35,", 35 - drift);
    assert_non_null(strstr(dataset, text));
    (void)snprintf(text, sizeof(text), "\"run_id\":\"drift-%zu\"", 35 - drift);
    assert_null(strstr(dataset, text));
    (void)snprintf(text, sizeof(text), "\"run_id\":\"drift-%zu\"", 36 - drift);
    assert_non_null(strstr(dataset, text));
    assert_ok(tx_begin(reader, flow_services.store, STORE_REQUEST, &tx));
    assert_ok(adcs_latest_each(reader, tx, digest_stands_there, (void *)(uintptr_t)dataset));
    assert_string_equal(dataset_of("tenant-c", 0, INT64_MAX), dataset);
}

static void the_domain_after_the_last_is_refused(void **state)
{
    (void)state;
    char domain[64];
    struct look look = { .domain = domain, .ago_s = 8, .incomplete = true };
    for (int i = 11; i < ADCS_DOMAINS_MAX; i++) {
        (void)snprintf(domain, sizeof(domain), "\"domain\":\"more-%d.example.com\"", i);
        assert_status(observe(collector_c, &look), 201);
    }
    uint64_t before = flow_log_last();
    (void)snprintf(domain, sizeof(domain), "\"domain\":\"late.example.com\"");
    struct answer *answer = observe(collector_c, &look);
    assert_problem(answer, 409, "adcs_domain_limit");
    assert_string_equal(flow_text(answer, "pointer"), "/domain");
    assert_int_equal(flow_log_last(), before);
    (void)snprintf(domain, sizeof(domain), "\"domain\":\"more-11.example.com\"");
    look.ago_s = 1;
    assert_status(observe(collector_c, &look), 201);
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
    assert_int_equal(count_in(before, "\"recorded_by\":\"collector\""), 3);
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
    flow_token("tenant-a", "other", "adcs-collector", other_a);
    flow_token("tenant-b", "watch", "adcs-collector", collector_b);
    flow_token("tenant-c", "collector", "adcs-collector", collector_c);
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
        cmocka_unit_test(a_source_belongs_to_the_subject_that_used_it_first),
        cmocka_unit_test(drift_is_recorded_with_the_observation_that_shows_it),
        cmocka_unit_test(every_domain_has_to_be_there),
        cmocka_unit_test(pages_follow_one_another),
        cmocka_unit_test(another_tenant_has_its_own),
        cmocka_unit_test(the_largest_forest_is_taken_and_drifts),
        cmocka_unit_test(the_dataset_stays_small_and_counts_what_it_leaves_out),
        cmocka_unit_test(the_domain_after_the_last_is_refused),
        cmocka_unit_test(the_dataset_holds_to_the_window_and_is_the_same_after_a_rebuild),
    };
    return cmocka_run_group_tests_name("inventory_adcs", tests, set_up, tear_down);
}
