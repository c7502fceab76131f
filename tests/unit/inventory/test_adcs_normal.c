/* From a collector's body to the event: what is refused, and one form for one meaning. */
#include "adcs_sample.h"

static const struct {
    const char *from, *to;
    enum fault_code fault;
    const char *pointer;
} refusals[] = {
    { "corp.example.com\",\"source", "corp..example.com\",\"source", FAULT_JSON_FIELD, "/domain" },
    { "corp.example.com\",\"source", "corp example\",\"source", FAULT_JSON_FIELD, "/domain" },
    { "\"collector-1\"", "\"a/b\"", FAULT_JSON_FIELD, "/source_id" },
    { "\"run-1\"", "\"\\u00e9\"", FAULT_JSON_FIELD, "/run_id" },
    { "\"relay_id\":\"relay-1\",", "", FAULT_JSON_FIELD, "/relay_id" },
    { "\"domain\":", "\"findings\":[],\"domain\":", FAULT_JSON_FIELD, "/findings" },
    { "\"domain\":", "\"principals\":[],\"domain\":", FAULT_JSON_FIELD, "/principals" },
    { "\"schema_version\":2,\"complete\"", "\"schema_version\":3,\"complete\"", FAULT_JSON_FIELD, "/schema_version" },
    { "\"schema_version\":2,\"complete\"", "\"schema_version\":1,\"complete\"", FAULT_JSON_FIELD,
      "/enrollment_services" },
    { "\"iis_endpoints\":[", "\"iis_endpoints\":null,\"x\":[", FAULT_JSON_FIELD, "/x" },
    { "\"name\":\"WebServer\"", "\"name\":\" WebServer\"", FAULT_JSON_FIELD, "/templates/0/name" },
    { "\"name\":\"User\"", "\"name\":\"a\\tb\"", FAULT_JSON_FIELD, "/templates/1/name" },
    { "\"name\":\"User\"", "\"name\":\"WEBSERVER\"", FAULT_ADCS_OBSERVATION, "/templates" },
    { "1.3.6.1.4.1.311.21.8.1.2.3", "1.3.06", FAULT_JSON_FIELD, "/templates/0/oid" },
    { "1.3.6.1.4.1.311.21.8.1.2.3", "3.1", FAULT_JSON_FIELD, "/templates/0/oid" },
    { "1.3.6.1.5.5.7.3.2", "1.3.", FAULT_JSON_FIELD, "/templates/1/ekus" },
    { "\"schema_version\":1,\"ekus\"", "\"schema_version\":5,\"ekus\"", FAULT_JSON_FIELD,
      "/templates/1/schema_version" },
    { "\"enrollee_supplies_subject\":true", "\"enrollee_supplies_subject\":false", FAULT_ADCS_OBSERVATION,
      "/templates/0/enrollee_supplies_subject" },
    { "\"name_flags\":1,", "\"name_flags\":65536,\"no\":1,", FAULT_JSON_FIELD, "/templates/0/no" },
    { "\"enrollment_flags\":0", "\"enrollment_flags\":2", FAULT_ADCS_OBSERVATION, "/templates/0/manager_approval" },
    { "\"S-1-5-11\",\"rights\":[\"enroll\"]},{\"sid\":\"S-1-5-21",
      "\"S-1-05-11\",\"rights\":[\"enroll\"]},{\"sid\":\"S-1-5-21", FAULT_JSON_FIELD,
      "/templates/0/permissions/0/sid" },
    { "[\"owner\",\"full-control\"]", "[\"owner\",\"manage-ca\"]", FAULT_JSON_FIELD,
      "/templates/0/permissions/1/rights" },
    { "[\"owner\",\"full-control\"]", "[]", FAULT_JSON_FIELD, "/templates/0/permissions/1/rights" },
    { "\"host\":\"ca1.corp.example.com\"", "\"host\":\"-x\"", FAULT_JSON_FIELD, "/enrollment_services/0/host" },
    { "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff", "0011", FAULT_JSON_FIELD,
      "/enrollment_services/0/certificate_sha256" },
    { "\"templates\":[\"WebServer\",", "\"templates\":[\"WebServer\",\"Gone\",", FAULT_ADCS_OBSERVATION, "/templates" },
    { "\"kind\":\"web-enrollment\"", "\"kind\":\"web\"", FAULT_JSON_FIELD, "/iis_endpoints/0/kind" },
    { "\"scheme\":\"https\"", "\"scheme\":\"ftp\"", FAULT_JSON_FIELD, "/iis_endpoints/0/scheme" },
    { "https://ca1", "http://ca1", FAULT_JSON_FIELD, "/iis_endpoints/0/url" },
    { "https://ca1", "https://user@ca1", FAULT_JSON_FIELD, "/iis_endpoints/0/url" },
    { "/certsrv", "/certsrv?x", FAULT_JSON_FIELD, "/iis_endpoints/0/url" },
    { "com/certsrv", "com:0/certsrv", FAULT_JSON_FIELD, "/iis_endpoints/0/url" },
    { "com/certsrv", "com:70000/certsrv", FAULT_JSON_FIELD, "/iis_endpoints/0/url" },
    { "\"channel_binding\":\"required\"", "\"channel_binding\":\"maybe\"", FAULT_JSON_FIELD,
      "/iis_endpoints/0/channel_binding" },
    { "\"enrollment_agents\":\"restricted\"", "\"enrollment_agents\":\"unknown\"", FAULT_ADCS_OBSERVATION,
      "/ca_restrictions" },
    { "\"edit_flags\":1114446,", "", FAULT_ADCS_OBSERVATION, "/ca_restrictions" },
    { "\"ca_restrictions\":[{\"ca\":\"Corp-CA\"", "\"ca_restrictions\":[{\"ca\":\"Other\"", FAULT_ADCS_OBSERVATION,
      "/ca_restrictions" },
    { "\"rights\":[\"manage-ca\"]", "\"rights\":[\"owner\"]", FAULT_JSON_FIELD,
      "/ca_restrictions/0/permissions/1/rights" },
};

static void what_is_malformed_or_contradicts_itself_is_refused_with_its_place(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(refusals); i++) {
        CLEANUP(op_freep) struct op *op = sample_op();
        struct span data;
        const char *body = sample_with(op, sample_body(op, &(struct knobs){ 0 }), refusals[i].from, refusals[i].to);
        struct fault fault = sample_data(op, body, &data);
        if (fault.code != refusals[i].fault || strcmp(op->note.pointer, refusals[i].pointer) != 0) {
            fail_msg("row %zu, %s: %s %s (%s)", i, refusals[i].to, fault_row(fault.code)->text, op->note.pointer,
                     op->note.detail);
        }
    }
}

static void plain_http_binds_no_channel_and_shows_no_certificate(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = sample_op();
    struct span data;
    assert_fault(sample_data(op, sample_body(op, &(struct knobs){ .http = true, .binding = "required" }), &data),
                 ADCS_OBSERVATION);
    assert_string_equal(op->note.pointer, "/iis_endpoints/0/scheme");
}

static void a_restriction_is_of_a_ca_that_is_there_complete_or_not(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = sample_op();
    struct span data;
    const char *body =
        sample_with(op, sample_body(op, &(struct knobs){ 0 }), "\"complete\":true", "\"complete\":false");
    assert_ok(sample_data(op, body, &data));
    body = sample_with(op, body, "\"ca_restrictions\":[{\"ca\":\"Corp-CA\"", "\"ca_restrictions\":[{\"ca\":\"Other\"");
    assert_fault(sample_data(op, body, &data), ADCS_OBSERVATION);
    assert_string_equal(op->note.pointer, "/ca_restrictions");
}

static void what_shows_no_enrollment_service_is_not_complete(void **state)
{
    (void)state;
    static const char *const body =
        "{\"domain\":\"corp.example.com\",\"source_id\":\"c\",\"run_id\":\"r\",\"relay_id\":\"y\",\"observed_at\":"
        "\"2026-11-20T10:00:00Z\",\"schema_version\":2,\"complete\":%s,\"templates\":[],\"enrollment_services\":[],"
        "\"iis_endpoints\":[],\"ca_restrictions\":[]}";
    CLEANUP(op_freep) struct op *op = sample_op();
    const char *text = sample_with(op, body, "%s", "true");
    struct span data;
    assert_fault(sample_data(op, text, &data), ADCS_OBSERVATION);
    assert_string_equal(op->note.pointer, "/enrollment_services");
    op->note = (struct fault_note){ 0 };
    assert_ok(sample_data(op, sample_with(op, body, "%s", "false"), &data));
}

static void templates_alone_are_taken_as_history_and_never_as_complete(void **state)
{
    (void)state;
    static const char *const head =
        "{\"domain\":\"corp.example.com\",\"source_id\":\"c\",\"run_id\":\"r\",\"relay_id\":"
        "\"y\",\"observed_at\":\"2026-11-20T10:00:00Z\",\"schema_version\":1,\"complete\":";
    CLEANUP(op_freep) struct op *op = sample_op();
    struct span data;
    const char *body = NULL;
    assert_ok(arena_printf(op->arena, &body, "%strue,\"templates\":[]}", head));
    assert_fault(sample_data(op, body, &data), JSON_FIELD);
    assert_string_equal(op->note.pointer, "/complete");
    op->note = (struct fault_note){ 0 };
    assert_ok(arena_printf(op->arena, &body, "%sfalse,\"templates\":[]}", head));
    assert_ok(sample_data(op, body, &data));
    assert_null(memmem(data.at, data.len, "iis_endpoints", 13));
    struct adcs_observation observation;
    assert_ok(adcs_read_stored(op, data, &observation));
    assert_int_equal(observation.head.schema_version, 1);
}

static void order_case_and_doubles_do_not_matter(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = sample_op();
    CLEANUP(buf_free) struct buf canonical = BUF_INIT(ADCS_NORMAL_MAX);
    struct span one, other;
    const char *body = sample_body(op, &(struct knobs){ .ekus = "\"1.3.6.1.5.5.7.3.2\",\"1.3.6.1.5.5.7.3.4\"" });
    assert_ok(sample_data(op, body, &one));
    body = sample_with(op, body, "\"1.3.6.1.5.5.7.3.2\",\"1.3.6.1.5.5.7.3.4\"",
                       "\"1.3.6.1.5.5.7.3.4\",\"1.3.6.1.5.5.7.3.2\",\"1.3.6.1.5.5.7.3.4\"");
    body = sample_with(op, body, "corp.example.com\",\"source", "CORP.Example.com.\",\"source");
    body = sample_with(op, body, "\"templates\":[\"WebServer\",\"User\"]",
                       "\"templates\":[\"user\",\"WEBSERVER\",\"User\"]");
    body = sample_with(op, body, "https://ca1.corp.example.com/certsrv", "HTTPS://CA1.corp.example.com:443/CertSrv/");
    body = sample_with(op, body, "\"rights\":[\"owner\",\"full-control\"]}",
                       "\"rights\":[\"full-control\"]},{\"sid\":\"s-1-5-21-1004336348-1177238915-682003330-512\","
                       "\"rights\":[\"owner\",\"owner\"]}");
    body =
        sample_with(op, body, "\"ca_restrictions\":[{\"ca\":\"Corp-CA\"", "\"ca_restrictions\":[{\"ca\":\"CORP-ca\"");
    body = sample_with(op, body, "2026-11-20T10:00:00Z", "2026-11-20T11:00:00.000+01:00");
    assert_ok(sample_data(op, body, &other));
    if (!span_equal(one, other)) {
        fail_msg("%.*s\n%.*s", (int)one.len, (const char *)one.at, (int)other.len, (const char *)other.at);
    }
    assert_ok(json_canonical(one, &canonical));
    assert_true(span_equal(one, buf_span(&canonical)));
}

/* What is stored reads back, normalises and prints to the same bytes. */
static void what_is_stored_is_its_own_normal_form(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = sample_op();
    CLEANUP(buf_free) struct buf again = BUF_INIT(ADCS_NORMAL_MAX);
    struct adcs_observation observation;
    struct span data;
    assert_ok(sample_data(op, sample_body(op, &(struct knobs){ 0 }), &data));
    assert_ok(adcs_read_stored(op, data, &observation));
    assert_int_equal(observation.template_count, 2);
    assert_string_equal(observation.templates[0].name, "user");
    assert_int_equal(observation.principal_count, 4);
    assert_ok(adcs_print(&observation, &again));
    assert_true(span_equal(data, buf_span(&again)));
}

/* An erasure puts a placeholder where a subject stood: in a principal's name, in a SID, in a source's id. */
static void what_an_erasure_rewrote_is_still_an_observation(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = sample_op();
    struct adcs_observation observation;
    struct adcs_findings findings;
    struct span data;
    const char *text = NULL;
    assert_ok(sample_data(op, sample_body(op, &(struct knobs){ .supplies = true, .sid = HELP_DESK }), &data));
    assert_ok(arena_text(op->arena, data, &text));
    text = sample_with(op, text, "[{\"rights\":[\"enroll\"],\"sid\":\"" HELP_DESK "\"}]",
                       "[{\"rights\":[\"enroll\"],\"sid\":\"erased-01234567-89ab\"}]");
    text = sample_with(op, text, "collector-1", "erased-01234567-89ab");
    text = sample_with(op, text, "corp\\\\domain admins", "erased-01234567-89ab");
    assert_ok(adcs_read_stored(op, span_text(text), &observation));
    assert_ok(adcs_find(op, &observation, NULL, &findings));
    assert_int_equal(findings.count, 1);
    assert_string_equal(findings.at->rule->id, "ESC1");
    assert_string_equal(findings.at->sids[0], "erased-01234567-89ab");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_malformed_or_contradicts_itself_is_refused_with_its_place),
        cmocka_unit_test(plain_http_binds_no_channel_and_shows_no_certificate),
        cmocka_unit_test(a_restriction_is_of_a_ca_that_is_there_complete_or_not),
        cmocka_unit_test(what_shows_no_enrollment_service_is_not_complete),
        cmocka_unit_test(templates_alone_are_taken_as_history_and_never_as_complete),
        cmocka_unit_test(order_case_and_doubles_do_not_matter),
        cmocka_unit_test(what_is_stored_is_its_own_normal_form),
        cmocka_unit_test(what_an_erasure_rewrote_is_still_an_observation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
