/* Drift by meaning: what is told, and what is none. */
#include "adcs_sample.h"

static struct adcs_drift drift_of(struct op *op, const char *before, const char *after)
{
    struct adcs_observation old, new;
    struct adcs_findings cleared, appeared;
    struct adcs_drift drift;
    sample_seen(op, before, NULL, &old, &cleared);
    sample_seen(op, after, NULL, &new, &appeared);
    assert_ok(adcs_compare(op, &(struct adcs_seen){ &old, &cleared }, &(struct adcs_seen){ &new, &appeared }, &drift));
    return drift;
}

static void assert_change(const struct adcs_change *change, const char *says)
{
    char text[512];
    int used = snprintf(text, sizeof(text), "%s %s %s", change->object, change->change, change->name);
    for (size_t i = 0; i < change->members.count; i++) {
        used += snprintf(text + used, sizeof(text) - (size_t)used, " %s", change->members.at[i]);
    }
    assert_string_equal(text, says);
}

static void nothing_changed_is_no_drift(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = sample_op();
    const char *body = sample_body(op, &(struct knobs){ .supplies = true });
    assert_int_equal(drift_of(op, body, body).total, 0);
    const char *other = sample_with(op, body, "run-1", "run-2");
    other = sample_with(op, other, "CORP\\\\Domain Admins", "CORP\\\\Domain Administrators");
    assert_int_equal(drift_of(op, body, other).total, 0);
}

static void a_changed_member_is_named_and_so_is_the_finding_that_it_makes(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = sample_op();
    const char *before = sample_body(op, &(struct knobs){ 0 });
    const char *after = sample_body(op, &(struct knobs){ .supplies = true, .plain_calls = true, .ca_right = "enroll" });
    struct adcs_drift drift = drift_of(op, before, after);
    assert_int_equal(drift.total, 4);
    assert_int_equal(drift.appeared, 2);
    assert_int_equal(drift.cleared, 0);
    assert_change(&drift.at[0], "template changed user enrollee_supplies_subject name_flags");
    assert_change(&drift.at[1], "restriction changed corp-ca interface_flags permissions");
    assert_change(&drift.at[2], "finding appeared ESC1 critical template:user");
    assert_change(&drift.at[3], "finding appeared ESC11 high ca:corp-ca");
    drift = drift_of(op, after, before);
    assert_int_equal(drift.cleared, 2);
    assert_change(&drift.at[3], "finding cleared ESC11 high ca:corp-ca");
}

static void what_came_and_went_is_told_by_name(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = sample_op();
    const char *before = sample_body(op, &(struct knobs){ 0 });
    const char *after = sample_body(op, &(struct knobs){ .http = true, .no_ntlm = true, .unpublished = true });
    after = sample_with(op, after, "\"name\":\"User\"", "\"name\":\"Person\"");
    struct adcs_drift drift = drift_of(op, before, after);
    assert_int_equal(drift.total, 5);
    assert_change(&drift.at[0], "template added person");
    assert_change(&drift.at[1], "template removed user");
    assert_change(&drift.at[2], "service changed corp-ca templates");
    assert_change(&drift.at[3], "endpoint added http://ca1.corp.example.com/certsrv");
    assert_change(&drift.at[4], "endpoint removed https://ca1.corp.example.com/certsrv");
}

/* 500 templates that were not there, each with a long name and a finding: more than a message takes. */
static void drift_is_bounded_and_what_is_left_out_is_counted(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = sample_op();
    CLEANUP(buf_free) struct buf more = BUF_INIT((size_t)1 << 20), out = BUF_INIT(ADCS_DRIFT_MAX);
    struct op big = { 0 };
    const char *before = sample_body(op, &(struct knobs){ 0 });
    for (int i = 0; i < 500; i++) {
        assert_ok(
            buf_printf(&more,
                       "{\"name\":\"%0200d\",\"oid\":\"1.3.6.%d\",\"schema_version\":2,\"ekus\":[],"
                       "\"enrollee_supplies_subject\":false,\"manager_approval\":false,\"authorized_signatures\":0,"
                       "\"validity_seconds\":1,\"renewal_seconds\":1,\"name_flags\":0,\"enrollment_flags\":0,"
                       "\"private_key_flags\":0,\"permissions\":[{\"sid\":\"S-1-1-0\",\"rights\":[\"owner\"]}]},",
                       i, i));
    }
    const char *templates = NULL;
    assert_ok(adcs_scratch_new(op, &big));
    assert_ok(buf_cstr(&more, &templates));
    const char *after = sample_with(&big, before, "\"templates\":[{", "\"templates\":[X{");
    after = sample_with(&big, after, "X", templates);
    struct adcs_observation old, new;
    struct adcs_findings cleared, appeared;
    struct adcs_drift drift;
    sample_seen(&big, before, NULL, &old, &cleared);
    sample_seen(&big, after, NULL, &new, &appeared);
    assert_ok(
        adcs_compare(&big, &(struct adcs_seen){ &old, &cleared }, &(struct adcs_seen){ &new, &appeared }, &drift));
    assert_int_equal(drift.total, 1000);
    assert_int_equal(drift.appeared, 500);
    assert_int_equal(drift.count, ADCS_CHANGES_MAX);
    assert_ok(adcs_drift_print(&drift, &new, "0190a6b2-0001-8000-8000-000000000001", 1, &out));
    size_t shown = 0;
    const char *text = NULL;
    assert_ok(buf_cstr(&out, &text));
    for (const char *at = text; (at = strstr(at, "{\"change\":")) != NULL; at++) {
        shown++;
    }
    assert_true(shown > 100 && shown < ADCS_CHANGES_MAX);
    char wanted[64];
    (void)snprintf(wanted, sizeof(wanted), "\"changes_left_out\":%zu,\"changes_total\":1000,", 1000 - shown);
    assert_non_null(strstr(text, wanted));
    adcs_scratch_clear(&big);
}

static void the_event_is_bound_to_source_run_and_relay_in_canonical_json(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = sample_op();
    CLEANUP(buf_free) struct buf out = BUF_INIT(ADCS_DRIFT_MAX), canonical = BUF_INIT(ADCS_DRIFT_MAX);
    struct adcs_observation old, new;
    struct adcs_findings cleared, appeared;
    struct adcs_drift drift;
    sample_seen(op, sample_body(op, &(struct knobs){ 0 }), NULL, &old, &cleared);
    sample_seen(op, sample_body(op, &(struct knobs){ .alt_name = true }), NULL, &new, &appeared);
    assert_ok(adcs_compare(op, &(struct adcs_seen){ &old, &cleared }, &(struct adcs_seen){ &new, &appeared }, &drift));
    assert_ok(adcs_drift_print(&drift, &new, "0190a6b2-0001-8000-8000-000000000001", 0, &out));
    assert_span_text(
        buf_span(&out),
        "{\"before\":{\"observation_id\":\"0190a6b2-0001-8000-8000-000000000001\",\"observed_at\":"
        "\"1970-01-01T00:00:00.000000Z\"},\"changes\":[{\"change\":\"changed\",\"members\":[\"edit_flags\"],\"name\":"
        "\"corp-ca\",\"object\":\"restriction\"},{\"change\":\"appeared\",\"name\":\"ESC6 critical ca:corp-ca\","
        "\"object\":\"finding\"}],\"changes_left_out\":0,\"changes_total\":2,\"domain\":\"corp.example.com\","
        "\"findings_appeared\":1,\"findings_cleared\":0,\"observation_id\":\"0190a6b2-0001-8000-8000-00000000abcd\","
        "\"observed_at\":\"2026-11-20T10:00:00.000000Z\",\"relay_id\":\"relay-1\",\"rules_version\":1,\"run_id\":"
        "\"run-1\",\"source_id\":\"collector-1\"}");
    assert_ok(json_canonical(buf_span(&out), &canonical));
    assert_true(span_equal(buf_span(&out), buf_span(&canonical)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_changed_is_no_drift),
        cmocka_unit_test(a_changed_member_is_named_and_so_is_the_finding_that_it_makes),
        cmocka_unit_test(what_came_and_went_is_told_by_name),
        cmocka_unit_test(drift_is_bounded_and_what_is_left_out_is_counted),
        cmocka_unit_test(the_event_is_bound_to_source_run_and_relay_in_canonical_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
