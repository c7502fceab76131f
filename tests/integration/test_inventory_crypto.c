/*
 * Attestations, bill of materials and crypto readiness, from the route to the read model and back from a rebuild: real
 * PostgreSQL and nats-server (with-stores), a signer of this process.
 */
#include "api/inventory/crypto.h"

#define FLOW_FEATURE_LIST &identity_feature, &keys_feature, &inventory_feature, &inventory_crypto_feature
#include "integration/flow_testlib.h"

#include "appliance/base/codec.h"
#include "appliance/base/json_view.h"

#define ATTESTATIONS "/api/v1/compliance/attestations"
#define ACTIONS      "/api/v1/graph/crypto-readiness/actions"
#define EVIDENCE                                                            \
    "\"evidence\":{\"locator\":\"s3://evidence/policy.pdf\",\"sha256\":"    \
    "\"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\"," \
    "\"media_type\":\"application/pdf\"}"

static char operator_a[TOKEN_TEXT_MAX], auditor_a[TOKEN_TEXT_MAX], operator_b[TOKEN_TEXT_MAX];
static char key_ec[40], key_rsa[40], certificate_id[40];

static struct answer *call(const char *token, const char *method, const char *path, const char *body)
{
    static struct answer answer;
    static unsigned used;
    char key[32];
    (void)snprintf(key, sizeof(key), "key-%u", used++);
    flow_call(method, path, token, strcmp(method, "GET") == 0 ? NULL : key, body, 20000, &answer);
    return &answer;
}

static struct answer *say(const char *token, const char *path, const char *format, ...) PRINTF(3, 4);
static struct answer *say(const char *token, const char *path, const char *format, ...)
{
    static char body[32768];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(body, sizeof(body), format, list);
    va_end(list);
    return call(token, "POST", path, body);
}

#define assert_says(answer, part)                            \
    do {                                                     \
        if (strstr((answer)->body, (part)) == NULL) {        \
            fail_msg("no %s in %s", (part), (answer)->body); \
        }                                                    \
    } while (0)

static void make_key(const char *token, const char *name, const char *algorithm, char out[40])
{
    struct answer *answer =
        say(token, "/api/v1/keys", "{\"name\":\"%s\",\"algorithm\":\"%s\",\"purpose\":\"codesign\"}", name, algorithm);
    assert_status(answer, 201);
    (void)snprintf(out, 40, "%s", flow_text(answer, "key_id"));
}

/* ---- what is read ---- */

static struct tx *snapshot(struct op *op)
{
    struct tx *tx = NULL;
    assert_ok(tx_begin_snapshot(op, flow_services.store, STORE_REQUEST, &tx));
    return tx;
}

static void load(const char *tenant_text, struct graph *graph)
{
    CLEANUP(op_freep) struct op *op = test_op(tenant_text, 30000);
    CLEANUP(tx_rollbackp) struct tx *tx = snapshot(op);
    assert_ok(graph_load(op, &flow_services, tx, clock_utc(), NULL, READINESS_BYTES_MAX, graph));
}

static void bill(const char *tenant_text, struct buf *out)
{
    CLEANUP(op_freep) struct op *op = test_op(tenant_text, 30000);
    CLEANUP(tx_rollbackp) struct tx *tx = snapshot(op);
    assert_ok(cbom_print(op, &flow_services, tx, clock_utc(), out));
}

static bool holds(struct buf *bytes, const char *part)
{
    const char *text = NULL;
    assert_ok(buf_cstr(bytes, &text));
    return strstr(text, part) != NULL;
}

/* The attestation that stands for a statement; "" when none does. */
static const char *standing(const char *tenant_text, const char *statement)
{
    static char id[40];
    CLEANUP(op_freep) struct op *op = test_op(tenant_text, 30000);
    CLEANUP(tx_rollbackp) struct tx *tx = snapshot(op);
    const struct inventory_attestation *list = NULL;
    size_t count = 0;
    assert_ok(inventory_attestations(op, tx, &list, &count));
    id[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        assert_true(i == 0 || strcmp(list[i - 1].statement, list[i].statement) < 0);
        assert_string_equal(list[i].event_type, "inventory.attestation.recorded");
        assert_int_equal(strlen(list[i].evidence_sha256), 64);
        if (strcmp(list[i].statement, statement) == 0) {
            (void)snprintf(id, sizeof(id), "%s", list[i].attestation_id);
        }
    }
    return id;
}

/* ---- refusals ---- */

static void what_is_malformed_or_forbidden_leaves_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *path, *body, *code;
    } rows[] = {
        { ATTESTATIONS, "{}", "json_field" },
        { ATTESTATIONS, "{\"statement\":\"A B\",\"title\":\"t\"," EVIDENCE "}", "json_field" },
        { ATTESTATIONS, "{\"statement\":\"a\",\"title\":\"t\",\"evidence\":{\"locator\":\"x\"}}", "json_field" },
        { ATTESTATIONS,
          "{\"statement\":\"a\",\"title\":\"t\",\"evidence\":{\"locator\":\"x\",\"sha256\":\"00\",\"media_type\":\"a/"
          "b\"}}",
          "json_field" },
        { ATTESTATIONS, "{\"statement\":\"a\",\"title\":\"t\",\"valid_from\":\"2999-01-01T00:00:00Z\"," EVIDENCE "}",
          "json_field" },
        { ATTESTATIONS, "{\"statement\":\"a\",\"title\":\"t\",\"expires_at\":\"2020-01-01T00:00:00Z\"," EVIDENCE "}",
          "json_field" },
        { ATTESTATIONS "/01900000-0000-7000-8000-000000000000/withdrawal", "{\"reason\":\"x\"}", "not_found" },
        { ATTESTATIONS "/nonsense/withdrawal", "{\"reason\":\"x\"}", "not_found" },
        { ACTIONS, "{\"object\":\"key:1\",\"action\":\"migrate\",\"state\":\"planned\"}", "json_field" },
        { ACTIONS,
          "{\"object\":\"key:01900000-0000-7000-8000-000000000000\",\"action\":\"migrate\",\"state\":\"planned\"}",
          "json_field" },
        { ACTIONS, "{\"object\":\"listener:https\",\"action\":\"migrate\",\"state\":\"planned\"}", "json_field" },
    };
    uint64_t before = flow_log_last();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct answer *answer = call(operator_a, "POST", rows[i].path, rows[i].body);
        assert_problem(answer, strcmp(rows[i].code, "not_found") == 0 ? 404 : 400, rows[i].code);
    }
    struct answer *answer =
        say(operator_b, ACTIONS, "{\"object\":\"key:%s\",\"action\":\"retire\",\"state\":\"done\"}", key_ec);
    assert_problem(answer, 400, "json_field"); /* another tenant's key is none of theirs */
    answer = say(operator_a, ACTIONS, "{\"object\":\"key:%s\",\"action\":\"sell\",\"state\":\"done\"}", key_ec);
    assert_problem(answer, 400, "json_field");
    answer = say(operator_a, ACTIONS, "{\"object\":\"key:%s\",\"action\":\"retire\",\"state\":\"odd\"}", key_ec);
    assert_problem(answer, 400, "json_field");
    assert_problem(say(auditor_a, ATTESTATIONS, "{\"statement\":\"a\",\"title\":\"t\"," EVIDENCE "}"), 403,
                   "forbidden");
    assert_problem(call(operator_a, "GET", ATTESTATIONS "?current=yes", NULL), 400, "query_parameter");
    assert_problem(call(auditor_a, "GET", "/api/v1/graph/crypto-readiness?format=xml", NULL), 400, "query_parameter");
    assert_problem(call(auditor_a, "GET", "/api/v1/editions", NULL), 403, "forbidden");
    assert_int_equal(flow_log_last(), before);
}

/* ---- attestations ---- */

static void the_newest_that_is_not_withdrawn_stands(void **state)
{
    (void)state;
    char first[40], second[40], path[160];
    struct answer *answer =
        say(operator_a, ATTESTATIONS, "{\"statement\":\"access-policy\",\"title\":\"v1\"," EVIDENCE "}");
    assert_status(answer, 201);
    assert_says(answer, "\"state\":\"valid\"");
    (void)snprintf(first, sizeof(first), "%s", flow_text(answer, "attestation_id"));
    assert_string_equal(standing("tenant-a", "access-policy"), first);
    assert_string_equal(standing("tenant-b", "access-policy"), "");
    answer = say(
        operator_a, ATTESTATIONS,
        "{\"statement\":\"access-policy\",\"title\":\"v2\",\"note\":\"n\",\"expires_at\":\"2999-01-01T00:00:00Z\"," EVIDENCE
        "}");
    assert_status(answer, 201);
    (void)snprintf(second, sizeof(second), "%s", flow_text(answer, "attestation_id"));
    assert_string_equal(standing("tenant-a", "access-policy"), second);
    answer = call(auditor_a, "GET", ATTESTATIONS "?current=true&statement=access-policy", NULL);
    assert_says(answer, second);
    assert_null(strstr(answer->body, first));
    answer = call(auditor_a, "GET", ATTESTATIONS "?limit=1", NULL);
    assert_says(answer, "next_cursor");

    (void)snprintf(path, sizeof(path), ATTESTATIONS "/%s/withdrawal", second);
    assert_problem(say(operator_b, path, "{\"reason\":\"theirs\"}"), 404, "not_found");
    answer = say(operator_a, path, "{\"reason\":\"wrong file\"}");
    assert_status(answer, 200);
    assert_says(answer, "\"withdraw_reason\":\"wrong file\"");
    uint64_t before = flow_log_last();
    assert_problem(say(operator_a, path, "{\"reason\":\"again\"}"), 409, "attestation_withdrawn");
    assert_int_equal(flow_log_last(), before);
    assert_string_equal(standing("tenant-a", "access-policy"), first);
    answer = call(auditor_a, "GET", ATTESTATIONS "?statement=access-policy", NULL);
    assert_says(answer, "\"state\":\"withdrawn\"");
    assert_says(answer, first);
}

/* ---- the dataset ---- */

static void rows_are_canonical_ordered_and_what_the_digest_is_over(void **state)
{
    (void)state;
    CLEANUP(graph_clear) struct graph graph = { 0 }, theirs = { 0 };
    CLEANUP(op_freep) struct op *op = test_op("tenant-a", 30000);
    struct span rest, row;
    struct sha256 digest;
    char last[CRYPTO_OBJECT_MAX] = "";
    load("tenant-a", &graph);
    assert_int_equal(graph.listed, graph.total);
    assert_true(graph.total >= 3);
    rest = buf_span(&graph.rows);
    while (graph_next(&rest, &row)) {
        CLEANUP(buf_free) struct buf canonical = BUF_INIT(65536);
        assert_ok(json_canonical(row, &canonical));
        assert_true(span_equal(row, buf_span(&canonical)));
        const char *object = view_member(op, (struct view){ row }, "object");
        assert_true(strcmp(last, object) < 0);
        (void)snprintf(last, sizeof(last), "%s", object);
    }
    assert_ok(sha256_of(buf_span(&graph.rows), &digest));
    assert_memory_equal(digest.at, graph.digest.at, SHA256_LEN);
    assert_true(holds(&graph.rows, "\"kind\":\"certificate\""));
    assert_true(holds(&graph.rows, "\"subject\":\"CN=web\\\\+one\""));
    assert_true(holds(&graph.rows, "\"name\":\"rsa-3072\""));
    load("tenant-b", &theirs);
    assert_false(holds(&theirs.rows, key_ec));
    assert_memory_not_equal(theirs.digest.at, graph.digest.at, SHA256_LEN);
}

static void an_action_binds_to_its_object_and_the_newest_of_its_kind_stands(void **state)
{
    (void)state;
    CLEANUP(graph_clear) struct graph before = { 0 }, after = { 0 }, third = { 0 };
    load("tenant-a", &before);
    assert_status(say(operator_a, ACTIONS,
                      "{\"object\":\"key:%s\",\"action\":\"migrate\",\"state\":\"planned\",\"due\":\"2030-01-01T00:00:"
                      "00Z\",\"note\":\"first\"}",
                      key_ec),
                  200);
    assert_status(
        say(operator_a, ACTIONS, "{\"object\":\"key:%s\",\"action\":\"investigate\",\"state\":\"done\"}", key_ec), 200);
    assert_status(say(operator_a, ACTIONS, "{\"object\":\"certificate:%s\",\"action\":\"accept\",\"state\":\"done\"}",
                      certificate_id),
                  200);
    load("tenant-a", &after);
    assert_memory_not_equal(before.digest.at, after.digest.at, SHA256_LEN);
    assert_int_equal(after.total, before.total);
    assert_int_equal(after.unbound, 0);
    assert_true(holds(&after.rows, "\"note\":\"first\""));
    assert_true(holds(&after.rows, "\"due\":\"2030-01-01T00:00:00.000000Z\""));
    assert_true(holds(&after.rows, "{\"actions\":[{\"action\":\"investigate\""));
    assert_true(holds(&after.rows, "\"type\":\"inventory.readiness.action_recorded\""));
    assert_status(say(operator_a, ACTIONS,
                      "{\"object\":\"key:%s\",\"action\":\"migrate\",\"state\":\"in_progress\",\"note\":\"second\"}",
                      key_ec),
                  200);
    load("tenant-a", &third);
    assert_false(holds(&third.rows, "\"note\":\"first\""));
    assert_true(holds(&third.rows, "\"revision\":2"));
}

static void an_action_of_what_is_gone_is_counted_as_unbound(void **state)
{
    (void)state;
    CLEANUP(graph_clear) struct graph graph = { 0 };
    char key[40], path[120];
    make_key(operator_a, "short", "ec-p256", key);
    assert_status(say(operator_a, ACTIONS, "{\"object\":\"key:%s\",\"action\":\"retire\",\"state\":\"planned\"}", key),
                  200);
    (void)snprintf(path, sizeof(path), "/api/v1/keys/%s/transitions", key);
    assert_status(say(operator_a, path, "{\"to\":\"retired\",\"reason\":\"done\",\"expected_version\":1}"), 200);
    load("tenant-a", &graph);
    assert_false(holds(&graph.rows, key));
    assert_int_equal(graph.unbound, 1);
}

static void assert_pack_lists_less(const char *tenant_text, const struct graph *graph)
{
    CLEANUP(op_freep) struct op *op = test_op(tenant_text, 30000);
    CLEANUP(tx_rollbackp) struct tx *tx = snapshot(op);
    CLEANUP(buf_free) struct buf out = BUF_INIT((size_t)4 << 20), counts = BUF_INIT((size_t)4 << 20); /* as a pack's */
    CLEANUP(buf_free) struct buf keepers = BUF_INIT((size_t)4 << 20);
    char digest[2 * SHA256_LEN + 1];
    struct jout jout, cbom, custody;
    jout_init(&jout, &out);
    jout_init(&cbom, &counts);
    jout_init(&custody, &keepers);
    assert_ok(inventory_assets_print(op, &flow_services, tx, &custody, &cbom, &jout));
    assert_ok(jout_end(&jout));
    assert_ok(jout_end(&cbom));
    assert_true(holds(&counts, "\"by_algorithm\":[{\"algorithm\":\"ec-p256\",\"count\":20300,"));
    hex_text(SPAN_ARRAY(graph->digest.at), digest, sizeof(digest));
    assert_true(holds(&out, digest));
    assert_true(holds(&out, "\"complete\":false"));
    assert_true(holds(&out, "\"total\":20300"));
}

/* Rows are read by pages, actions by pages of their own: nothing may fall between them. */
static void many_keys_and_actions_meet_over_all_pages(void **state)
{
    (void)state;
    static const char script[] =
        "INSERT INTO svc.managed_keys (tenant_id, key_id, purpose, algorithm, name, state, version, system, spki, chain,"
        " created_us, created_by) SELECT 'tenant-many', '01900000-0000-7000-8000-' || lpad(i::text, 12, '0'), 'codesign',"
        " 'ec-p256', 'k' || i, 'active', 1, false, '', '', 1, 'x' FROM generate_series(1, 20300) AS i;"
        "INSERT INTO svc.readiness_actions SELECT 'tenant-many', 'key:01900000-0000-7000-8000-' ||"
        " lpad(i::text, 12, '0'), a, 'planned', NULL, 'n', 'x', 1, i, 'e', 1 FROM generate_series(0, 1600, 5) AS i,"
        " unnest(ARRAY['accept', 'migrate', 'retire']) AS a;";
    static const char undo[] = "DELETE FROM svc.managed_keys WHERE tenant_id = 'tenant-many';"
                               "DELETE FROM svc.readiness_actions WHERE tenant_id = 'tenant-many'";
    CLEANUP(graph_clear) struct graph graph = { 0 };
    struct span rest, row;
    struct sha256 listed;
    int64_t bound = 0;
    assert_ok(as_superuser(script));
    load("tenant-many", &graph);
    assert_int_equal(graph.total, 20300);
    assert_int_equal(graph.listed, READINESS_LISTED);
    assert_ok(sha256_of(buf_span(&graph.rows), &listed));
    assert_memory_not_equal(listed.at, graph.digest.at, SHA256_LEN); /* it is over all, listed or not */
    assert_pack_lists_less("tenant-many", &graph);
    rest = buf_span(&graph.rows);
    while (graph_next(&rest, &row)) {
        struct view actions = view_get((struct view){ row }, "actions"), action;
        int of_row = 0;
        while (view_next(&actions, &action)) {
            of_row++;
        }
        assert_true(of_row == 0 || of_row == 3);
        bound += of_row;
    }
    assert_int_equal(bound, 320 * 3);
    assert_int_equal(graph.unbound, 3); /* of key 0 */
    assert_ok(as_superuser(undo));
}

/* ---- bill of materials, counts, facts ---- */

static void the_bill_of_materials_is_the_same_bytes_for_the_same_facts(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf once = BUF_INIT(1 << 20), again = BUF_INIT(1 << 20), theirs = BUF_INIT(1 << 20);
    CLEANUP(buf_free) struct buf canonical = BUF_INIT(1 << 20);
    bill("tenant-a", &once);
    bill("tenant-a", &again);
    bill("tenant-b", &theirs);
    assert_true(span_equal(buf_span(&once), buf_span(&again)));
    assert_ok(json_canonical(buf_span(&once), &canonical));
    assert_true(span_equal(buf_span(&once), buf_span(&canonical)));
    static const char *const said[] = {
        "\"specVersion\":\"1.6\"",
        "\"serialNumber\":\"urn:uuid:",
        "\"bom-ref\":\"algorithm:rsa-3072\"",
        "\"assetType\":\"certificate\"",
        "\"type\":\"private-key\"",
        "{\"name\":\"svc:excluded:retired\",\"value\":\"1\"}",
    };
    for (size_t i = 0; i < COUNT_OF(said); i++) {
        if (!holds(&once, said[i])) {
            fail_msg("no %s", said[i]);
        }
    }
    assert_false(holds(&theirs, key_ec));
    assert_false(holds(&theirs, "algorithm:rsa-3072"));
}

static void counts_add_up_and_facts_follow_from_them(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("tenant-a", 30000);
    CLEANUP(tx_rollbackp) struct tx *tx = snapshot(op);
    CLEANUP(graph_clear) struct graph graph = { 0 };
    struct inventory_statement facts[INVENTORY_FACT_COUNT] = { 0 };
    assert_ok(inventory_crypto_facts(op, &flow_services, tx, clock_utc(), facts));
    assert_ok(graph_load(op, &flow_services, tx, clock_utc(), NULL, READINESS_BYTES_MAX, &graph));
    assert_ok(crypto_count_left_out(tx, clock_utc(), &graph.counts));
    const struct crypto_counts counts = graph.counts;
    assert_int_equal(counts.total, graph.total);
    assert_int_equal(counts.total, counts.kinds[CRYPTO_KEY] + counts.kinds[CRYPTO_CERTIFICATE]);
    assert_int_equal(counts.total, counts.posture[POSTURE_APPROVED] + counts.posture[POSTURE_FENCED] +
                                       counts.posture[POSTURE_UNLISTED]);
    assert_int_equal(counts.total, counts.quantum[QUANTUM_VULNERABLE] + counts.quantum[QUANTUM_POST] +
                                       counts.quantum[QUANTUM_SYMMETRIC] + counts.quantum[QUANTUM_UNKNOWN]);
    assert_int_equal(counts.retired, 1);
    assert_int_equal(facts[INVENTORY_FACT_CBOM_CURRENT].state, INVENTORY_HOLDS);
    assert_int_equal(facts[INVENTORY_FACT_CBOM_CURRENT].total, 3); /* two keys and a certificate of users */
    assert_true(counts.total > 3);                                 /* and the system's */
    assert_int_equal(facts[INVENTORY_FACT_CBOM_APPROVED].state, INVENTORY_HOLDS);
    assert_int_equal(facts[INVENTORY_FACT_CBOM_POST_QUANTUM].state, INVENTORY_FAILS);
    assert_int_equal(facts[INVENTORY_FACT_CBOM_QUANTUM_SAFE].state, INVENTORY_FAILS);
    assert_int_equal(facts[INVENTORY_FACT_CBOM_QUANTUM_SAFE].total, counts.keys);
    assert_int_equal(facts[INVENTORY_FACT_READINESS_CURRENT].state, INVENTORY_HOLDS);
    assert_string_equal(facts[INVENTORY_FACT_READINESS_CURRENT].object, "crypto-readiness:tenant-a");
    tx_rollback(TAKE(tx));
    CLEANUP(op_freep) struct op *other = test_op("tenant-empty", 30000);
    CLEANUP(tx_rollbackp) struct tx *none = snapshot(other);
    assert_ok(inventory_crypto_facts(other, &flow_services, none, clock_utc(), facts));
    assert_int_equal(facts[INVENTORY_FACT_CBOM_CURRENT].state, INVENTORY_ABSENT);
    assert_int_equal(facts[INVENTORY_FACT_CBOM_QUANTUM_SAFE].state, INVENTORY_ABSENT);
}

/* The key that a first pack makes, and nothing else. */
static void what_the_product_makes_for_itself_is_no_inventory(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("tenant-own", 30000);
    struct inventory_statement facts[INVENTORY_FACT_COUNT] = { 0 };
    assert_ok(as_superuser(
        "INSERT INTO svc.managed_keys (tenant_id, key_id, purpose, algorithm, name, state, version, system, spki, chain,"
        " created_us, created_by) VALUES ('tenant-own', '01900000-0000-7000-8000-000000000001', 'evidence', 'ec-p256',"
        " 'k', 'active', 1, true, '', '', 1, 'x')"));
    CLEANUP(tx_rollbackp) struct tx *tx = snapshot(op);
    assert_ok(inventory_crypto_facts(op, &flow_services, tx, clock_utc(), facts));
    static const enum inventory_fact absent[] = { INVENTORY_FACT_CBOM_CURRENT, INVENTORY_FACT_CBOM_APPROVED,
                                                  INVENTORY_FACT_CBOM_POST_QUANTUM, INVENTORY_FACT_CBOM_QUANTUM_SAFE,
                                                  INVENTORY_FACT_READINESS_CURRENT };
    for (size_t i = 0; i < COUNT_OF(absent); i++) {
        assert_int_equal(facts[absent[i]].state, INVENTORY_ABSENT);
        assert_int_equal(facts[absent[i]].matched, 0);
    }
    tx_rollback(TAKE(tx));
    assert_ok(as_superuser("DELETE FROM svc.managed_keys WHERE tenant_id = 'tenant-own'"));
}

static void a_key_past_its_end_is_counted_and_not_listed(void **state)
{
    (void)state;
    CLEANUP(graph_clear) struct graph before = { 0 }, after = { 0 };
    CLEANUP(buf_free) struct buf out = BUF_INIT(1 << 20);
    CLEANUP(op_freep) struct op *op = test_op("tenant-a", 30000);
    struct inventory_statement was[INVENTORY_FACT_COUNT] = { 0 }, is[INVENTORY_FACT_COUNT] = { 0 };
    char script[160], undo[160], action[160];
    load("tenant-a", &before);
    CLEANUP(tx_rollbackp) struct tx *first = snapshot(op);
    assert_ok(inventory_crypto_facts(op, &flow_services, first, clock_utc(), was));
    tx_rollback(TAKE(first));
    (void)snprintf(script, sizeof(script), "UPDATE svc.managed_keys SET not_after_us = 1000 WHERE key_id = '%s'",
                   key_rsa);
    (void)snprintf(undo, sizeof(undo), "UPDATE svc.managed_keys SET not_after_us = NULL WHERE key_id = '%s'", key_rsa);
    (void)snprintf(action, sizeof(action), "{\"object\":\"key:%s\",\"action\":\"retire\",\"state\":\"done\"}", key_rsa);
    assert_ok(as_superuser(script));
    load("tenant-a", &after);
    bill("tenant-a", &out);
    CLEANUP(tx_rollbackp) struct tx *second = snapshot(op);
    assert_ok(inventory_crypto_facts(op, &flow_services, second, clock_utc(), is));
    tx_rollback(TAKE(second));
    assert_problem(call(operator_a, "POST", ACTIONS, action), 400, "json_field");
    assert_ok(as_superuser(undo));
    assert_int_equal(after.total, before.total - 1);
    assert_false(holds(&after.rows, key_rsa));
    assert_true(holds(&out, "{\"name\":\"svc:excluded:expired\",\"value\":\"1\"}"));
    assert_int_equal(is[INVENTORY_FACT_CBOM_CURRENT].total, was[INVENTORY_FACT_CBOM_CURRENT].total - 1);
    assert_int_equal(is[INVENTORY_FACT_CBOM_APPROVED].total, was[INVENTORY_FACT_CBOM_APPROVED].total - 1);
}

/* ---- rebuild ---- */

static void rows_digest(char out[64])
{
    static const struct sql sql = {
        "rows_digest",
        "SELECT md5(string_agg(t, '|' ORDER BY t)) FROM (SELECT 'a' || a::text AS t FROM svc.operator_attestations a"
        " UNION ALL SELECT 'r' || r::text FROM svc.readiness_actions r) all_rows",
        0,
    };
    CLEANUP(op_freep) struct op *op = test_op("", 30000);
    CLEANUP(endpoint_freep) struct endpoint *endpoint = NULL;
    CLEANUP(connection_closep) struct connection *connection = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    assert_ok(endpoint_new(test_config, "postgres", NULL, &endpoint));
    assert_ok(connection_open(op, endpoint, op->deadline, &connection));
    assert_ok(connection_run(op, connection, &sql, NULL, 0, op->deadline, &rows));
    (void)snprintf(out, 64, "%s", rows_text(rows, 0, 0));
}

static void a_rebuild_gives_the_same_rows_bytes_and_digest(void **state)
{
    (void)state;
    CLEANUP(graph_clear) struct graph was = { 0 }, is = { 0 };
    CLEANUP(buf_free) struct buf bill_was = BUF_INIT(1 << 20), bill_is = BUF_INIT(1 << 20);
    CLEANUP(op_freep) struct op *op = test_op("", 60000);
    char before[64], after[64];
    uint64_t messages = 0;
    load("tenant-a", &was);
    bill("tenant-a", &bill_was);
    flow_pause();
    rows_digest(before);
    assert_ok(store_empty_projections(test_config, NULL));
    rows_digest(after);
    assert_string_not_equal(before, after);
    assert_ok(projection_rebuild(op, flow_projector_config(), &messages));
    rows_digest(after);
    assert_string_equal(before, after);
    flow_resume();
    load("tenant-a", &is);
    bill("tenant-a", &bill_is);
    assert_memory_equal(was.digest.at, is.digest.at, SHA256_LEN);
    assert_true(span_equal(buf_span(&was.rows), buf_span(&is.rows)));
    assert_true(span_equal(buf_span(&bill_was), buf_span(&bill_is)));
}

/* ---- start ---- */

static void record_certificate(void)
{
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)3072);
    X509 *cert = X509_new();
    unsigned char *der = NULL;
    CLEANUP(buf_free) struct buf base64 = BUF_INIT(8192);
    const char *text = NULL;
    X509_NAME *name = X509_get_subject_name(cert);
    BUG_IF(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"web+one", -1, -1, 0) != 1 ||
           X509_set_issuer_name(cert, name) != 1 || X509_set_pubkey(cert, key) != 1 ||
           ASN1_INTEGER_set(X509_get_serialNumber(cert), 7) != 1 ||
           X509_gmtime_adj(X509_getm_notBefore(cert), -60) == NULL ||
           X509_gmtime_adj(X509_getm_notAfter(cert), 86400) == NULL || X509_sign(cert, key, EVP_sha256()) == 0);
    int len = i2d_X509(cert, &der);
    assert_ok(base64_encode(span_of(der, (size_t)len), &base64));
    assert_ok(buf_cstr(&base64, &text));
    struct answer *answer = say(operator_a, "/api/v1/certificates", "{\"certificate_der\":\"%s\"}", text);
    assert_status(answer, 201);
    (void)snprintf(certificate_id, sizeof(certificate_id), "%s", flow_text(answer, "certificate_id"));
    OPENSSL_free(der);
    X509_free(cert);
    EVP_PKEY_free(key);
}

static int start(void **state)
{
    (void)state;
    char other[40];
    flow_start();
    flow_token("tenant-a", "op", "operator", operator_a);
    flow_token("tenant-a", "audit", "auditor", auditor_a);
    flow_token("tenant-b", "op", "operator", operator_b);
    make_key(operator_a, "one", "ec-p256", key_ec);
    make_key(operator_a, "two", "rsa-3072", key_rsa);
    make_key(operator_b, "theirs", "ec-p384", other);
    record_certificate();
    return 0;
}

static int end(void **state)
{
    (void)state;
    flow_stop();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_malformed_or_forbidden_leaves_nothing),
        cmocka_unit_test(the_newest_that_is_not_withdrawn_stands),
        cmocka_unit_test(rows_are_canonical_ordered_and_what_the_digest_is_over),
        cmocka_unit_test(an_action_binds_to_its_object_and_the_newest_of_its_kind_stands),
        cmocka_unit_test(an_action_of_what_is_gone_is_counted_as_unbound),
        cmocka_unit_test(many_keys_and_actions_meet_over_all_pages),
        cmocka_unit_test(the_bill_of_materials_is_the_same_bytes_for_the_same_facts),
        cmocka_unit_test(counts_add_up_and_facts_follow_from_them),
        cmocka_unit_test(what_the_product_makes_for_itself_is_no_inventory),
        cmocka_unit_test(a_key_past_its_end_is_counted_and_not_listed),
        cmocka_unit_test(a_rebuild_gives_the_same_rows_bytes_and_digest),
    };
    return cmocka_run_group_tests_name("inventory_crypto", tests, start, end);
}
