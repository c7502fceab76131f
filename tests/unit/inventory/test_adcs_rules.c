/* Every rule: what makes it fire, alone, and each cure of it. */
#include "adcs_sample.h"

static struct adcs_findings findings_of(struct op *op, const struct knobs *knobs, const struct config_list *more)
{
    struct adcs_observation observation;
    struct adcs_findings findings;
    sample_seen(op, sample_body(op, knobs), more, &observation, &findings);
    return findings;
}

static const struct {
    const char *rule, *name, *severity;
    struct knobs sick, cured;
} rows[] = {
    { "ESC1", "user", "critical", { .supplies = true }, { .supplies = true, .approval = true } },
    { "ESC1", "user", "critical", { .supplies = true }, { .supplies = true, .signatures = 1 } },
    { "ESC1", "user", "critical", { .supplies = true }, { .supplies = true, .unpublished = true } },
    { "ESC1", "user", "critical", { .supplies = true }, { .supplies = true, .sid = DOMAIN_ADMINS } },
    { "ESC1", "user", "critical", { .supplies = true }, { .supplies = true, .ekus = "\"1.3.6.1.5.5.7.3.1\"" } },
    { "ESC1", "user", "critical", { .supplies = true, .ekus = "\"1.3.6.1.4.1.311.20.2.2\"" }, { 0 } },
    { "ESC1", "user", "critical", { .supplies = true, .ekus = "\"1.3.6.1.5.2.3.4\"" }, { 0 } },
    { "ESC1", "user", "critical", { .supplies = true, .rights = "\"autoenroll\"" }, { 0 } },
    { "ESC1", "user", "high", { .supplies = true, .sid = HELP_DESK }, { .sid = HELP_DESK } },
    { "ESC2", "user", "high", { .ekus = "" }, { .ekus = "", .approval = true } },
    { "ESC2", "user", "high", { .ekus = "\"2.5.29.37.0\"" }, { .ekus = "\"2.5.29.37.0\"", .signatures = 2 } },
    { "ESC2", "user", "medium", { .ekus = "", .sid = HELP_DESK }, { .ekus = "", .sid = DOMAIN_ADMINS } },
    { "ESC3", "user", "high", { .ekus = REQUEST_AGENT, .agents = "unrestricted" }, { .ekus = REQUEST_AGENT } },
    { "ESC3",
      "user",
      "high",
      { .ekus = REQUEST_AGENT, .agents = "unrestricted" },
      { .ekus = REQUEST_AGENT, .agents = "unrestricted", .approval = true } },
    { "ESC3",
      "user",
      "high",
      { .ekus = REQUEST_AGENT, .agents = "unrestricted" },
      { .agents = "unrestricted", .ekus = CLIENT_AUTH } },
    { "ESC4",
      "user",
      "critical",
      { .rights = "\"write-dacl\"" },
      { .rights = "\"write-dacl\"", .sid = DOMAIN_ADMINS } },
    { "ESC4", "user", "critical", { .rights = "\"write-owner\"" }, { .rights = "\"enroll\"" } },
    { "ESC4", "user", "critical", { .rights = "\"write-property\",\"enroll\"" }, { 0 } },
    { "ESC4", "user", "critical", { .rights = "\"owner\"" }, { 0 } },
    { "ESC4", "user", "high", { .rights = "\"full-control\"", .unpublished = true }, { .unpublished = true } },
    { "ESC4", "user", "medium", { .rights = "\"owner\"", .unpublished = true, .sid = HELP_DESK }, { 0 } },
    { "ESC6", "corp-ca", "critical", { .alt_name = true }, { 0 } },
    { "ESC7", "corp-ca", "critical", { .ca_sid = "S-1-1-0" }, { .ca_sid = DOMAIN_ADMINS } },
    { "ESC7", "corp-ca", "high", { .ca_sid = HELP_DESK, .ca_right = "manage-certificates" }, { .ca_sid = "S-1-5-18" } },
    { "ESC7", "corp-ca", "high", { .ca_sid = HELP_DESK }, { .ca_sid = HELP_DESK, .ca_right = "enroll" } },
    { "ESC8", "https://ca1.corp.example.com/certsrv", "high", { .binding = "none" }, { .binding = "required" } },
    { "ESC8",
      "https://ca1.corp.example.com/certsrv",
      "high",
      { .binding = "allowed", .kind = "ces" },
      { .kind = "ces" } },
    { "ESC8", "http://ca1.corp.example.com/certsrv", "critical", { .http = true }, { .http = true, .no_ntlm = true } },
    { "ESC8",
      "http://ca1.corp.example.com/certsrv",
      "critical",
      { .http = true, .kind = "ndes" },
      { .http = true, .kind = "cep" } },
    { "ESC11", "corp-ca", "high", { .plain_calls = true }, { 0 } },
};

static void the_sample_itself_is_without_findings(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = sample_op();
    assert_int_equal(findings_of(op, &(struct knobs){ 0 }, NULL).count, 0);
}

static void each_rule_fires_alone_and_its_cure_clears_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        CLEANUP(op_freep) struct op *op = sample_op();
        struct adcs_findings sick = findings_of(op, &rows[i].sick, NULL);
        struct adcs_findings cured = findings_of(op, &rows[i].cured, NULL);
        if (sick.count != 1 || cured.count != 0) {
            fail_msg("row %zu, %s: %zu findings, cured %zu", i, rows[i].rule, sick.count, cured.count);
        }
        assert_string_equal(sick.at->rule->id, rows[i].rule);
        assert_string_equal(sick.at->name, rows[i].name);
        if (strcmp(adcs_severity_text(sick.at->severity), rows[i].severity) != 0) {
            fail_msg("row %zu, %s: %s", i, rows[i].rule, adcs_severity_text(sick.at->severity));
        }
    }
}

static void two_rules_that_hold_are_both_told(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = sample_op();
    struct adcs_findings all = findings_of(
        op, &(struct knobs){ .supplies = true, .ekus = "", .rights = "\"full-control\"", .http = true }, NULL);
    static const char *const ids[] = { "ESC1", "ESC2", "ESC4", "ESC8" };
    assert_int_equal(all.count, COUNT_OF(ids));
    for (size_t i = 0; i < COUNT_OF(ids); i++) {
        assert_string_equal(all.at[i].rule->id, ids[i]);
    }
    assert_int_equal(all.at[0].sid_count, 1);
    assert_string_equal(all.at[0].sids[0], DOMAIN_USERS);
    assert_int_equal(all.at[3].sid_count, 0);
}

static void who_administers_is_windows_own_groups_and_those_that_are_configured(void **state)
{
    (void)state;
    static const char *const yes[] = { "S-1-5-18", "S-1-5-9", ADMINISTRATORS, DOMAIN_ADMINS, "S-1-5-21-1-2-3-519" };
    static const char *const no[] = { "S-1-1-0",      "S-1-5-11",         "S-1-5-32-545",        DOMAIN_USERS,
                                      HELP_DESK,      "S-1-5-21-512",     "S-1-5-21-1-2-3-5512", "S-1-5-21-1-2-3-4-512",
                                      "S-1-5-80-512", "S-1-5-32-544-512", "erased-0123" };
    const char *configured[] = { HELP_DESK };
    const struct config_list more = { configured, COUNT_OF(configured) };
    CLEANUP(op_freep) struct op *op = sample_op();
    for (size_t i = 0; i < COUNT_OF(yes); i++) {
        assert_true(adcs_administers(yes[i], NULL));
    }
    for (size_t i = 0; i < COUNT_OF(no); i++) {
        if (adcs_administers(no[i], NULL)) {
            fail_msg("%s", no[i]);
        }
    }
    assert_true(adcs_administers(HELP_DESK, &more));
    assert_int_equal(findings_of(op, &(struct knobs){ .supplies = true, .sid = HELP_DESK }, &more).count, 0);
}

/* What is unknown is no finding; an observation with it is not complete, so nothing rests on it. */
static void unknown_flags_are_no_finding_and_unknown_agents_are_unrestricted(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = sample_op();
    struct adcs_observation observation;
    struct adcs_findings findings;
    const char *body = sample_body(op, &(struct knobs){ .ekus = REQUEST_AGENT, .agents = "unknown" });
    body = sample_with(op, body, "\"complete\":true", "\"complete\":false");
    body = sample_with(op, body, "\"edit_flags\":1114446,\"interface_flags\":1601,", "");
    sample_seen(op, body, NULL, &observation, &findings);
    assert_int_equal(findings.count, 1);
    assert_string_equal(findings.at->rule->id, "ESC3");
}

/* As an erasure may leave them: names out of order, and the same one twice. */
static void a_template_is_published_by_whatever_ca_names_it_in_whatever_order(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = sample_op();
    struct adcs_observation observation;
    struct adcs_findings findings;
    const char *names[] = { "zeta", "webserver", "alpha" }, *more[] = { "user", "zeta", "beta", "user" };
    struct adcs_service services[2] = { { .ca = "z", .templates = { names, COUNT_OF(names) } }, { .ca = "a" } };
    sample_seen(op, sample_body(op, &(struct knobs){ .supplies = true, .rights = "\"enroll\",\"owner\"" }), NULL,
                &observation, &findings);
    assert_int_equal(findings.count, 2);
    observation.services = services;
    observation.service_count = COUNT_OF(services);
    assert_ok(adcs_find(op, &observation, NULL, &findings));
    assert_int_equal(findings.count, 1);
    assert_string_equal(findings.at->rule->id, "ESC4");
    assert_int_equal(findings.at->severity, ADCS_HIGH);
    services[1].templates = (struct jin_texts){ more, COUNT_OF(more) };
    observation.templates[1].name = observation.templates[0].name;
    assert_ok(adcs_find(op, &observation, NULL, &findings));
    assert_int_equal(findings.count, 2);
    assert_string_equal(findings.at[0].rule->id, "ESC1");
    assert_int_equal(findings.at[1].severity, ADCS_CRITICAL);
    observation.service_count = 0;
    assert_ok(adcs_find(op, &observation, NULL, &findings));
    assert_int_equal(findings.at->severity, ADCS_HIGH);
}

static void findings_print_as_canonical_json(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = sample_op();
    CLEANUP(buf_free) struct buf out = BUF_INIT(65536), canonical = BUF_INIT(65536);
    struct adcs_findings all = findings_of(op, &(struct knobs){ .supplies = true, .plain_calls = true }, NULL);
    struct jout jout;
    jout_init(&jout, &out);
    adcs_findings_print(&jout, &all);
    assert_ok(jout_end(&jout));
    assert_ok(json_canonical(buf_span(&out), &canonical));
    assert_true(span_equal(buf_span(&out), buf_span(&canonical)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sample_itself_is_without_findings),
        cmocka_unit_test(each_rule_fires_alone_and_its_cure_clears_it),
        cmocka_unit_test(two_rules_that_hold_are_both_told),
        cmocka_unit_test(who_administers_is_windows_own_groups_and_those_that_are_configured),
        cmocka_unit_test(unknown_flags_are_no_finding_and_unknown_agents_are_unrestricted),
        cmocka_unit_test(a_template_is_published_by_whatever_ca_names_it_in_whatever_order),
        cmocka_unit_test(findings_print_as_canonical_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
