/*
 * The running check of the audit chain, and the gauges of when certificates end, over a real log and read model. Run by
 * with-stores.
 */
#include "api/audit/chain_watch.h"
#include "api/inventory/crypto.h"

#define FLOW_FEATURE_LIST &identity_feature, &keys_feature, &inventory_feature
#include "integration/flow_testlib.h"

#include "api/audit/internal.h"

#include <math.h>
#include <stdlib.h>

static char tokens[40][TOKEN_TEXT_MAX];

static double value(const char *series)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(1 << 20);
    char line[128];
    const char *text = NULL;
    assert_ok(metrics_print(flow_services.metrics, &out));
    assert_ok(buf_cstr(&out, &text));
    (void)snprintf(line, sizeof(line), "\n%s ", series);
    const char *at = strstr(text, line);
    if (at == NULL) {
        fail_msg("no series %s", series);
    }
    return strtod(at + strlen(line), NULL);
}

/* A pass from the beginning, however many pieces it takes. */
static void whole_pass(void)
{
    CLEANUP(op_freep) struct op *op = test_op("", 60000);
    chain_watch_forget();
    assert_ok(chain_watch_run(op, &flow_services));
    assert_string_equal(op->tenant.text, "");
}

static bool degraded(void)
{
    CLEANUP(op_freep) struct op *op = test_op("", 10000);
    return chain_watch_check(op, &flow_services).code == FAULT_CHAIN_BROKEN;
}

static void make_records(const char *tenant_text, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        flow_token(tenant_text, "auditor", "auditor", tokens[i]);
    }
}

static void expect_broken(const char *script, const char *undo)
{
    assert_ok(as_superuser(script));
    whole_pass();
    assert_true(value("svc_audit_chain_broken_tenants") == 1);
    assert_true(isnan(value("svc_audit_chain_verified_timestamp_seconds")));
    assert_true(degraded());
    assert_ok(as_superuser(undo));
    whole_pass();
    assert_true(value("svc_audit_chain_broken_tenants") == 0);
    assert_true(value("svc_audit_chain_verified_timestamp_seconds") > 0);
    assert_false(degraded());
}

static void an_altered_record_is_found(void **state)
{
    (void)state;
    make_records("chain-a", 5);
    make_records("chain-b", 8); /* not as many: heads of tenants are not to be mixed up */
    make_records("chain-c", 1);
    expect_broken("UPDATE svc.audit_records SET record = record || 'x' WHERE tenant_id = 'chain-b' AND sequence = 3",
                  "UPDATE svc.audit_records SET record = substr(record, 1, length(record) - 1)"
                  " WHERE tenant_id = 'chain-b' AND sequence = 3");
}

static void an_altered_chain_value_is_found(void **state)
{
    (void)state;
    expect_broken("CREATE TABLE kept AS SELECT * FROM svc.audit_records WHERE tenant_id = 'chain-a' AND sequence = 2;"
                  "UPDATE svc.audit_records SET chain = sha256('x') WHERE tenant_id = 'chain-a' AND sequence = 2",
                  "UPDATE svc.audit_records a SET chain = k.chain FROM kept k WHERE a.tenant_id = k.tenant_id"
                  " AND a.sequence = k.sequence; DROP TABLE kept");
}

static void a_missing_record_is_found_in_the_middle_and_at_the_end(void **state)
{
    (void)state;
    expect_broken("CREATE TABLE kept AS SELECT * FROM svc.audit_records WHERE tenant_id = 'chain-a' AND sequence = 2;"
                  "DELETE FROM svc.audit_records WHERE tenant_id = 'chain-a' AND sequence = 2",
                  "INSERT INTO svc.audit_records SELECT * FROM kept; DROP TABLE kept");
    expect_broken("CREATE TABLE kept AS SELECT * FROM svc.audit_records WHERE tenant_id = 'chain-b' ORDER BY sequence"
                  " DESC LIMIT 2; DELETE FROM svc.audit_records a USING kept k WHERE a.tenant_id = k.tenant_id AND"
                  " a.sequence = k.sequence",
                  "INSERT INTO svc.audit_records SELECT * FROM kept; DROP TABLE kept");
}

static void all_tenants_are_walked_and_counted(void **state)
{
    (void)state;
    double before = value("svc_audit_chain_records_verified_total");
    double wall = (double)clock_utc() / (double)US_PER_S;
    whole_pass();
    assert_true(value("svc_audit_chain_records_verified_total") - before >= 10);
    assert_true(value("svc_audit_chain_verified_timestamp_seconds") >= wall - 1);
    /* The next piece has nothing to do for an hour. */
    CLEANUP(op_freep) struct op *op = test_op("", 10000);
    before = value("svc_audit_chain_records_verified_total");
    assert_ok(chain_watch_run(op, &flow_services));
    assert_true(value("svc_audit_chain_records_verified_total") == before);
}

static void certificates_are_counted_by_when_they_end(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = test_op("", 10000);
    assert_ok(as_superuser(
        "INSERT INTO svc.certificates (tenant_id, certificate_id, fingerprint, der, not_after_us, key_id, recorded_us,"
        " recorded_by, version) SELECT 'chain-a', 'c' || n, sha256(n::text::bytea), 'x', (extract(epoch FROM now())::"
        "bigint + days * 86400) * 1000000, CASE n WHEN 6 THEN 'gone' END, 1, '', 1"
        " FROM (VALUES (1, -3), (2, 2), (3, 20), (4, 21), (5, 60), (6, 1), (7, 4000)) v (n, days);"
        "INSERT INTO svc.managed_keys (tenant_id, key_id, purpose, algorithm, name, state, version, system, spki, chain,"
        " created_us, created_by) VALUES ('chain-a', 'gone', 'codesign', 'ec-p256', 'gone', 'retired', 1, false, 'x', '',"
        " 1, '')"));
    assert_ok(inventory_expiry(op, &flow_services));
    assert_true(value("svc_certificates{horizon=\"expired\"}") == 1);
    assert_true(value("svc_certificates{horizon=\"7d\"}") == 1); /* not the one of the key that is no more */
    assert_true(value("svc_certificates{horizon=\"30d\"}") == 2);
    assert_true(value("svc_certificates{horizon=\"90d\"}") == 1);
    assert_true(value("svc_certificates{horizon=\"later\"}") == 1);
    double left = value("svc_certificate_next_expiry_timestamp_seconds") - (double)clock_utc() / (double)US_PER_S;
    assert_true(left > 1.9 * 86400 && left < 2.1 * 86400);
}

static int begin(void **state)
{
    (void)state;
    flow_start();
    assert_ok(metrics_register(flow_services.metrics, chain_watch_metrics, CHAIN_WATCH_METRICS));
    assert_ok(metrics_register(flow_services.metrics, expiry_metrics, EXPIRY_METRICS));
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
        cmocka_unit_test(an_altered_record_is_found),
        cmocka_unit_test(an_altered_chain_value_is_found),
        cmocka_unit_test(a_missing_record_is_found_in_the_middle_and_at_the_end),
        cmocka_unit_test(all_tenants_are_walked_and_counted),
        cmocka_unit_test(certificates_are_counted_by_when_they_end),
    };
    return cmocka_run_group_tests_name("running check of the audit chain", tests, begin, end);
}
