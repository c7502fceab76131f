/* What a schedule may be, and when its report is due. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/compliance/schedules.h"

#define HOUR (3600 * US_PER_S)

static struct op *op;

static struct schedule_body good(void)
{
    return (struct schedule_body){ .framework = "soc2",
                                   .name = "monthly",
                                   .report_type = "framework_evidence_pack",
                                   .interval_seconds = 86400,
                                   .delivery = "audit_export",
                                   .recipient_ref = "vault/auditors" };
}

static void refused(struct schedule_body body, const char *pointer)
{
    struct schedule_definition definition;
    op->note = (struct fault_note){ 0 };
    assert_int_equal(schedule_normalise(op, &body, &definition).code, FAULT_JSON_FIELD);
    assert_string_equal(op->note.pointer, pointer);
}

static struct schedule_definition taken(struct schedule_body body)
{
    struct schedule_definition definition = { 0 };
    assert_int_equal(schedule_normalise(op, &body, &definition).code, FAULT_NONE);
    return definition;
}

static void each_member_that_is_not_as_it_must_be_is_named(void **state)
{
    (void)state;
    static char long_name[SCHEDULE_NAME_MAX + 2], long_recipient[SCHEDULE_RECIPIENT_MAX + 2];
    memset(long_name, 'n', sizeof(long_name) - 1);
    memset(long_recipient, 'r', sizeof(long_recipient) - 1);
    const struct {
        const char *member, *text;
    } bad[] = {
        { "framework", "soc3" },
        { "framework", "" },
        { "report_type", "framework-evidence-pack" },
        { "report_type", "everything" },
        { "delivery", "email" },
        { "delivery", "webhook" },
        { "delivery", "Audit_Export" },
        { "name", " \t " },
        { "name", "a\nb" },
        { "name", "a\x7f" },
        { "name", long_name },
        { "recipient_ref", "" },
        { "recipient_ref", "a\x01" },
        { "recipient_ref", long_recipient },
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct schedule_body body = good();
        char pointer[32] = "/";
        const char **places[] = { &body.framework, &body.name, &body.report_type, &body.delivery, &body.recipient_ref };
        static const char *const names[] = { "framework", "name", "report_type", "delivery", "recipient_ref" };
        for (size_t j = 0; j < COUNT_OF(names); j++) {
            if (strcmp(names[j], bad[i].member) == 0) {
                *places[j] = bad[i].text;
                memcpy(pointer + 1, names[j], strlen(names[j]) + 1);
            }
        }
        refused(body, pointer);
    }
    struct schedule_body body = good();
    body.enabled = span_text("\"yes\"");
    refused(body, "/enabled");
}

static void an_interval_lasts_from_one_hour_to_366_days(void **state)
{
    (void)state;
    static const int64_t bad[] = { INT64_MIN, -1, 0, 3599, 31622401, INT64_MAX };
    static const int64_t fine[] = { 3600, 31622400 };
    struct schedule_body body = good();
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        body.interval_seconds = bad[i];
        refused(body, "/interval_seconds");
    }
    for (size_t i = 0; i < COUNT_OF(fine); i++) {
        body.interval_seconds = fine[i];
        assert_int_equal(taken(body).interval_seconds, fine[i]);
    }
}

static void a_definition_is_kept_in_one_form(void **state)
{
    (void)state;
    struct schedule_body body = good();
    body.framework = " NIST-csf-2.0\n";
    body.name = "\t two words ";
    struct schedule_definition definition = taken(body);
    assert_string_equal(definition.framework, "nist-csf-2.0");
    assert_string_equal(definition.name, "two words");
    assert_true(definition.enabled);
    body.enabled = span_text("false");
    assert_false(taken(body).enabled);
    for (enum report_type type = 0; type < REPORT_TYPE_COUNT; type++) {
        body.report_type = report_type_text(type);
        assert_int_equal(taken(body).type, type);
    }
    for (size_t i = 0; i < FRAMEWORKS; i++) {
        body.framework = framework_id(i);
        assert_string_equal(taken(body).framework, framework_id(i));
    }
}

static void fingerprint(struct schedule_body body, const char *tenant, int64_t keep, char out[2 * SHA256_LEN + 1])
{
    struct schedule_definition definition = taken(body);
    struct tenant_id id = { "" };
    memcpy(id.text, tenant, strlen(tenant) + 1);
    assert_int_equal(schedule_fingerprint(id, &definition, keep, out).code, FAULT_NONE);
}

static void a_fingerprint_is_of_one_definition_in_one_tenant(void **state)
{
    (void)state;
    char first[65], other[65];
    fingerprint(good(), "acme", 12, first);
    assert_int_equal(strlen(first), 64);
    struct schedule_body changed[7];
    for (size_t i = 0; i < COUNT_OF(changed); i++) {
        changed[i] = good();
    }
    changed[0].framework = "soc2 "; /* no change at all */
    changed[1].framework = "hipaa";
    changed[2].name = "weekly";
    changed[3].report_type = "audit_summary";
    changed[4].interval_seconds = 86401;
    changed[5].recipient_ref = "vault/others";
    changed[6].enabled = span_text("false");
    for (size_t i = 0; i < COUNT_OF(changed); i++) {
        fingerprint(changed[i], "acme", 12, other);
        assert_int_equal(strcmp(first, other) == 0, i == 0);
    }
    fingerprint(good(), "umbrella", 12, other);
    assert_string_not_equal(first, other);
    fingerprint(good(), "acme", 13, other);
    assert_string_not_equal(first, other);
    /* Anybody can make it again: SHA-256 of the canonical form. */
    static const char canonical[] =
        "{\"definition\":{\"delivery\":\"audit_export\",\"enabled\":true,\"framework\":\"soc2\","
        "\"interval_seconds\":86400,\"name\":\"monthly\",\"recipient_ref\":\"vault/auditors\","
        "\"report_type\":\"framework_evidence_pack\"},\"reports_kept\":12,"
        "\"schema\":\"svc.compliance.report-schedule.preview.v1\",\"tenant_id\":\"acme\"}";
    struct sha256 digest;
    char hex[65];
    assert_int_equal(sha256_of(span_text(canonical), &digest).code, FAULT_NONE);
    for (size_t i = 0; i < SHA256_LEN; i++) {
        static const char digits[] = "0123456789abcdef";
        hex[2 * i] = digits[digest.at[i] >> 4];
        hex[2 * i + 1] = digits[digest.at[i] & 15];
    }
    hex[64] = '\0';
    assert_string_equal(first, hex);
}

static void a_report_is_due_after_a_full_interval_and_not_before(void **state)
{
    (void)state;
    utc_us from = 1800000000 * US_PER_S;
    assert_false(schedule_is_due(from, HOUR, from));
    assert_false(schedule_is_due(from, HOUR, from + HOUR - 1));
    assert_true(schedule_is_due(from, HOUR, from + HOUR));
    assert_true(schedule_is_due(from, HOUR, from + 1000 * HOUR));
    assert_int_equal(schedule_next(from, HOUR), from + HOUR);
}

static void a_clock_that_was_set_back_does_not_silence_a_schedule(void **state)
{
    (void)state;
    utc_us from = 1800000000 * US_PER_S;
    assert_false(schedule_is_due(from, HOUR, from - 1));
    assert_false(schedule_is_due(from, HOUR, from - HOUR)); /* within an interval it only waits longer */
    assert_true(schedule_is_due(from, HOUR, from - HOUR - 1));
    assert_true(schedule_is_due(from, HOUR, 0));
}

static void times_at_the_edge_do_not_overflow(void **state)
{
    (void)state;
    assert_int_equal(schedule_next(INT64_MAX - 1, HOUR), INT64_MAX);
    assert_false(schedule_is_due(INT64_MAX, HOUR, INT64_MAX - 1));
    assert_true(schedule_is_due(INT64_MAX, HOUR, 0));
}

static int setup(void **state)
{
    (void)state;
    return FAULTED(op_new("test", (struct tenant_id){ "acme" }, 60000, &op));
}

static int teardown(void **state)
{
    (void)state;
    op_free(op);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_member_that_is_not_as_it_must_be_is_named),
        cmocka_unit_test(an_interval_lasts_from_one_hour_to_366_days),
        cmocka_unit_test(a_definition_is_kept_in_one_form),
        cmocka_unit_test(a_fingerprint_is_of_one_definition_in_one_tenant),
        cmocka_unit_test(a_report_is_due_after_a_full_interval_and_not_before),
        cmocka_unit_test(a_clock_that_was_set_back_does_not_silence_a_schedule),
        cmocka_unit_test(times_at_the_edge_do_not_overflow),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
