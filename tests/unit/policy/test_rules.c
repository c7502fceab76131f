/* What files of rules are refused for, with file, line, rule and cause. */
#include "unit/policy/policy_testlib.h"

#define HEAD            "rules:\n- name: a\n  when: {}\n"
#define WHEN(condition) "rules:\n- name: a\n  then: allow\n  when:\n    " condition "\n"

static void a_file_that_is_no_list_of_rules_is_refused(void **state)
{
    (void)state;
    rules_refused("", "r.yaml:1: one list is due: rules\n");
    rules_refused("# nothing\n", "r.yaml:1: one list is due: rules\n");
    rules_refused("- name: a\n", "r.yaml:1: one list is due: rules\n");
    rules_refused("words\n", "r.yaml:1: one list is due: rules\n");
    rules_refused("rule: []\n", "r.yaml:1: one list is due: rules\n");
    rules_refused("rules: []\n", "r.yaml:1: rules: must be a list of at least one rule\n");
    rules_refused("rules: {}\n", "r.yaml:1: rules: must be a list of at least one rule\n");
    rules_refused("\nrules:\n", "r.yaml:2: rules: must be a list of at least one rule\n");
    rules_refused(HEAD "  then: allow\nversion: 1\n",
                  "r.yaml:5: 'version' is no key of this file; there is only rules\n");
    rules_refused("rules: *x\n", "r.yaml:1: a value, a list or a mapping is due; anchors, aliases and tags are not "
                                 "accepted\n");
    rules_refused(HEAD "  then: allow\nrules: []\n", "r.yaml:5: the key stands here a second time\n");
    rules_refused(HEAD "  then: allow\n---\n{}\n", "r.yaml:5: exactly one document is due\n");
    rules_refused("rules:\n  - name: a\n -\n", "r.yaml:3: did not find expected key\n");
}

static void a_rule_has_its_keys_and_no_others(void **state)
{
    (void)state;
    static const char keys[] = "name, when, then, approvers, window, max_signings and reason";
    char want[256];
    (void)snprintf(want, sizeof(want), "r.yaml:2: a rule is a mapping with %s\n", keys);
    rules_refused("rules:\n- a\n", want);
    rules_refused("rules:\n- [a]\n", want);
    (void)snprintf(want, sizeof(want), "r.yaml:5: rule a: 'than' is no key of a rule; there are %s\n", keys);
    rules_refused(HEAD "  then: allow\n  than: deny\n", want);
    (void)snprintf(want, sizeof(want), "r.yaml:4: rule a: 'Then' is no key of a rule; there are %s\n", keys);
    rules_refused(HEAD "  Then: allow\n", want);
    rules_refused("rules:\n- when: {}\n  then: allow\n", "r.yaml:2: a rule needs a name\n");
    rules_refused("rules:\n- {name: a, then: allow}\n", "r.yaml:2: rule a: a rule needs 'when'; {} = always\n");
    rules_refused(HEAD, "r.yaml:2: rule a: a rule needs 'then': allow, deny or require_approval\n");
    rules_refused(HEAD "  then: allow\n  then: deny\n", "r.yaml:5: the key stands here a second time\n");
}

static void a_name_is_plain_and_stands_once(void **state)
{
    (void)state;
    static const char *const bad[] = { "a b", "(no-rule)", "a.b", "a/b", "ca.policy.require_approval", "\"\xc3\xa9\"" };
    char text[256], want[256];
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        int len = (int)strlen(bad[i]), quotes = bad[i][0] == '"' ? 1 : 0;
        (void)snprintf(text, sizeof(text), "rules:\n- {when: {}, then: allow, name: %s}\n", bad[i]);
        (void)snprintf(want, sizeof(want), "r.yaml:2: name: '%.*s' must be 1 to 64 of a-z, A-Z, 0-9, '-' and '_'\n",
                       len - 2 * quotes, bad[i] + quotes);
        rules_refused(text, want);
    }
    rules_refused("rules:\n- {name: [a]}\n", "r.yaml:2: name: must be one value\n");
    rules_refused("rules:\n- name:\n", "r.yaml:2: name: has no value; give one or remove the key\n");
    rules_refused("rules:\n- name: ''\n", "r.yaml:2: name: has no value; give one or remove the key\n");
    rules_refused(HEAD "  then: allow\n- when: {}\n  name: a\n  then: allow\n",
                  "r.yaml:6: name: 'a' is a rule of r.yaml:2 already\n");
}

static void names_are_unique_over_all_files(void **state)
{
    (void)state;
    CLEANUP(policy_freep) struct policy *policy = NULL;
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    assert_fault(policy_new(&policy), NONE);
    assert_fault(policy_add(policy, "1.yaml", span_text(HEAD "  then: allow\n"), &why), NONE);
    assert_fault(policy_add(policy, "2.yaml", span_text("\n\n" HEAD "  then: allow\n"), &why), CONFIG);
    assert_span_text(buf_span(&why), "2.yaml:4: name: 'a' is a rule of 1.yaml:2 already\n");
}

static void an_outcome_is_one_of_three_and_has_its_own_keys(void **state)
{
    (void)state;
    rules_refused(HEAD "  then: permit\n",
                  "r.yaml:4: rule a: then: 'permit' must be allow, deny or require_approval\n");
    rules_refused(HEAD "  then: Allow\n", "r.yaml:4: rule a: then: 'Allow' must be allow, deny or require_approval\n");
    rules_refused(HEAD "  then: [allow]\n", "r.yaml:4: rule a: then: must be one value\n");
    rules_refused(HEAD "  then:\n", "r.yaml:4: rule a: then: has no value; give one or remove the key\n");
    rules_refused(HEAD "  then: allow\n  approvers: 2\n",
                  "r.yaml:5: rule a: approvers goes with require_approval only, not with allow\n");
    rules_refused(HEAD "  then: allow\n  window: 8h\n",
                  "r.yaml:5: rule a: window goes with require_approval only, not with allow\n");
    rules_refused(HEAD "  then: deny\n  reason: x\n  max_signings: 1\n",
                  "r.yaml:6: rule a: max_signings goes with require_approval only, not with deny\n");
    rules_refused(HEAD "  then: allow\n  reason: x\n",
                  "r.yaml:5: rule a: reason goes with deny only, not with allow\n");
    rules_refused(HEAD "  reason: x\n  then: require_approval\n",
                  "r.yaml:4: rule a: reason goes with deny only, not with require_approval\n");
    rules_refused(HEAD "  then: deny\n", "r.yaml:2: rule a: deny needs a 'reason', which the caller is told\n");
    rules_refused(HEAD "  then: deny\n  reason: ''\n",
                  "r.yaml:5: rule a: reason: has no value; give one or remove the key\n");
    rules_refused(HEAD "  then: deny\n  reason: |\n    one\n    two\n", "r.yaml:5: rule a: reason: must be one line\n");
}

static void numbers_out_of_range_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "0", "17", "-1", "1.5", "two", "+1", "1e1", "0x1", "01", "99999999999999999999"
    };
    char text[256], want[256];
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        (void)snprintf(text, sizeof(text), HEAD "  then: require_approval\n  approvers: %s\n", bad[i]);
        (void)snprintf(want, sizeof(want), "r.yaml:5: rule a: approvers: '%s' must be a whole number, 1 to 16\n",
                       bad[i]);
        rules_refused(text, want);
    }
    rules_refused(HEAD "  then: require_approval\n  approvers: '2'\n",
                  "r.yaml:5: rule a: approvers: '2' must be a whole number, 1 to 16\n");
    rules_refused(HEAD "  then: require_approval\n  approvers: []\n",
                  "r.yaml:5: rule a: approvers: must be one value\n");
    rules_refused(HEAD "  then: require_approval\n  max_signings: 0\n",
                  "r.yaml:5: rule a: max_signings: '0' must be a whole number, 1 to 1000000\n");
    rules_refused(HEAD "  then: require_approval\n  max_signings: 1000001\n",
                  "r.yaml:5: rule a: max_signings: '1000001' must be a whole number, 1 to 1000000\n");
}

static void bad_periods_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = { "0", "59s", "8", "8 h", "-8h", "721h", "1d", "soon" };
    char text[256], want[256];
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        (void)snprintf(text, sizeof(text), HEAD "  then: require_approval\n  window: %s\n", bad[i]);
        (void)snprintf(want, sizeof(want),
                       "r.yaml:5: rule a: window: '%s' must be a duration of 1m to 720h, such as 8h or 30m\n", bad[i]);
        rules_refused(text, want);
    }
}

static void conditions_are_known_and_hold_texts(void **state)
{
    (void)state;
    static const char list[] = "must be a list of 1 to 64 texts, such as [a, \"b-*\"]\n";
    char want[256];
    rules_refused(WHEN("user: [x]"), "r.yaml:5: rule a: when: 'user' is no condition; there are tenant, principal, "
                                     "role, key, mode, artifact_type, digest_algorithm, issuer, san and time\n");
    rules_refused("rules:\n- {name: a, then: allow, when: []}\n",
                  "r.yaml:2: rule a: when: must be a mapping of conditions; {} = always\n");
    rules_refused("rules:\n- name: a\n  then: allow\n  when:\n",
                  "r.yaml:4: rule a: when: must be a mapping of conditions; {} = always\n");
    (void)snprintf(want, sizeof(want), "r.yaml:5: rule a: role: %s", list);
    rules_refused(WHEN("role: ci"), want);
    rules_refused(WHEN("role: []"), want);
    rules_refused(WHEN("role: {ci: x}"), want);
    rules_refused(WHEN("role:"), want);
    rules_refused(WHEN("role: [[ci]]"), "r.yaml:5: rule a: role: must be one value\n");
    rules_refused(WHEN("role:\n    - ci\n    - ~"),
                  "r.yaml:7: rule a: role: has no value; give one or remove the key\n");
    rules_refused(WHEN("role: [ci, '']"), "r.yaml:5: rule a: role: has no value; give one or remove the key\n");
    rules_refused(WHEN("mode: [key]"), "r.yaml:5: rule a: mode: must be one value\n");
    rules_refused(WHEN("mode: keyles"), "r.yaml:5: rule a: mode: 'keyles' must be key or keyless\n");
    rules_refused(WHEN("mode: \"*\""), "r.yaml:5: rule a: mode: '*' must be key or keyless\n");
    rules_refused(WHEN("digest_algorithm: [sha256, SHA384]"),
                  "r.yaml:5: rule a: digest_algorithm: 'SHA384' must be sha256, sha384 or sha512\n");
    rules_refused(WHEN("digest_algorithm: [\"sha*\"]"),
                  "r.yaml:5: rule a: digest_algorithm: 'sha*' must be sha256, sha384 or sha512\n");
    rules_refused(WHEN("tenant: [Acme]"),
                  "r.yaml:5: rule a: tenant: 'Acme' can be no tenant: 1 to 63 of a-z, 0-9 and '-'\n");
}

static void a_list_is_bounded(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf text = BUF_INIT(65536);
    const char *yaml = NULL;
    assert_fault(buf_text(&text, "rules:\n- name: a\n  then: allow\n  when:\n    role: [r0"), NONE);
    for (unsigned i = 1; i < POLICY_PATTERNS_MAX; i++) {
        assert_fault(buf_printf(&text, ", r%u", i), NONE);
    }
    size_t len = text.len;
    assert_fault(buf_text(&text, "]\n"), NONE);
    assert_fault(buf_cstr(&text, &yaml), NONE);
    CLEANUP(policy_freep) struct policy *policy = rules_of(yaml);
    assert_int_equal(policy->first->when[CONDITION_ROLE].count, POLICY_PATTERNS_MAX);
    text.len = len;
    assert_fault(buf_text(&text, ", one-more]\n"), NONE);
    assert_fault(buf_cstr(&text, &yaml), NONE);
    rules_refused(yaml, "r.yaml:5: rule a: role: must be a list of 1 to 64 texts, such as [a, \"b-*\"]\n");
}

static void bad_patterns_are_refused(void **state)
{
    (void)state;
    rules_refused(WHEN("key: [\"release-**\"]"),
                  "r.yaml:5: rule a: key: 'release-**' holds **: one * matches any run of "
                  "characters, slashes too\n");
    rules_refused(WHEN("san: [x, \"v[0-9]\"]"), "r.yaml:5: rule a: san: 'v[0-9]' holds one of ? [ ] { } \\: only * "
                                                "matches more than itself here\n");
    rules_refused(WHEN("principal: [\"a\\tb\"]"), "r.yaml:5: rule a: principal: 'a?b' holds a control character\n");
}

static void conditions_that_exclude_each_other_are_refused(void **state)
{
    (void)state;
    rules_refused(WHEN("mode: keyless\n    key: [a]"),
                  "r.yaml:6: rule a: when: key and mode: keyless exclude each other: the rule would never hold\n");
    rules_refused(WHEN("mode: key\n    issuer: [a]"),
                  "r.yaml:6: rule a: when: issuer and mode: key exclude each other: the rule would never hold\n");
    rules_refused(WHEN("san: [a]\n    mode: key"),
                  "r.yaml:5: rule a: when: san and mode: key exclude each other: the rule would never hold\n");
    rules_refused(WHEN("key: [a]\n    san: [a]"),
                  "r.yaml:6: rule a: when: san and key exclude each other: the rule would never hold\n");
}

static void bad_times_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *time, *says;
    } rows[] = {
        { "{}", "time: must be a mapping with not_before, not_after, weekdays, from and to, or some" },
        { "always", "time: must be a mapping with not_before, not_after, weekdays, from and to, or some" },
        { "{after: x}", "time: 'after' is none of its keys: not_before, not_after, weekdays, from, to" },
        { "{not_before: 2026-01-01}", "not_before: '2026-01-01' is no RFC 3339 time such as 2030-01-31T12:00:00Z" },
        { "{not_after: 2026-02-30T00:00:00Z}",
          "not_after: '2026-02-30T00:00:00Z' is no RFC 3339 time such as 2030-01-31T12:00:00Z" },
        { "{not_after: [x]}", "not_after: must be one value" },
        { "{not_before: 2026-01-02T00:00:00Z, not_after: 2026-01-01T00:00:00Z}",
          "time: not_after lies before not_before: the rule would never hold" },
        { "{weekdays: mon}", "weekdays: must be a list of mon, tue, wed, thu, fri, sat, sun" },
        { "{weekdays: []}", "weekdays: must be a list of mon, tue, wed, thu, fri, sat, sun" },
        { "{weekdays: [monday]}", "weekdays: 'monday' is none of mon, tue, wed, thu, fri, sat, sun" },
        { "{weekdays: [Mon]}", "weekdays: 'Mon' is none of mon, tue, wed, thu, fri, sat, sun" },
        { "{weekdays: [mon, mon]}", "weekdays: 'mon' stands here a second time" },
        { "{from: \"08:00\"}", "time: 'from' is given without 'to'; give both or none" },
        { "{to: \"08:00\"}", "time: 'to' is given without 'from'; give both or none" },
        { "{from: \"8:00\", to: \"18:00\"}", "from: '8:00' is no time of day such as \"08:00\"" },
        { "{from: \"24:00\", to: \"18:00\"}", "from: '24:00' is no time of day such as \"08:00\"" },
        { "{from: \"08:60\", to: \"18:00\"}", "from: '08:60' is no time of day such as \"08:00\"" },
        { "{from: \"08:00\", to: \"24:01\"}", "to: '24:01' is no time of day such as \"08:00\", \"24:00\" at most" },
        { "{from: \"08:00\", to: \"18:00:00\"}",
          "to: '18:00:00' is no time of day such as \"08:00\", \"24:00\" at most" },
        { "{from: \"08:00\", to: \"1a:00\"}", "to: '1a:00' is no time of day such as \"08:00\", \"24:00\" at most" },
        { "{from: \"08:00\", to: \"08:00\"}", "time: from and to are the same; leave both out for the whole day" },
    };
    char text[512], want[512];
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        (void)snprintf(text, sizeof(text), WHEN("time: %s"), rows[i].time);
        (void)snprintf(want, sizeof(want), "r.yaml:5: rule a: %s\n", rows[i].says);
        rules_refused(text, want);
    }
}

static void too_many_rules_are_refused(void **state)
{
    (void)state;
    CLEANUP(policy_freep) struct policy *policy = NULL;
    CLEANUP(buf_free) struct buf text = BUF_INIT((size_t)1 << 20), why = BUF_INIT(4096);
    assert_fault(policy_new(&policy), NONE);
    for (unsigned file = 0; file < 4; file++) {
        buf_clear(&text);
        assert_fault(buf_text(&text, "rules:\n"), NONE);
        for (unsigned i = 0; i < POLICY_RULES_MAX / 4; i++) {
            assert_fault(buf_printf(&text, "- {name: f%u-%u, when: {}, then: allow}\n", file, i), NONE);
        }
        assert_fault(policy_add(policy, "f.yaml", buf_span(&text), &why), NONE);
    }
    assert_int_equal(policy->count, POLICY_RULES_MAX);
    assert_fault(policy_add(policy, "g.yaml", span_text(HEAD "  then: allow\n"), &why), CONFIG);
    assert_span_text(buf_span(&why), "g.yaml:2: more than 1024 rules\n");
    assert_fault(policy_seal(policy, "f", &why), NONE);
}

static const char whole[] = "rules:\n"
                            "- name: Whole_1\n"
                            "  when:\n"
                            "    tenant: [default, \"a-*\"]\n"
                            "    principal: [\"ci/*\"]\n"
                            "    role: [ci]\n"
                            "    mode: keyless\n"
                            "    artifact_type: [tarball]\n"
                            "    digest_algorithm: [sha256, sha512]\n"
                            "    issuer: [\"https://i\"]\n"
                            "    san: [\"https://s/*\"]\n"
                            "    time: {weekdays: [mon], from: \"08:00\", to: \"18:00\"}\n"
                            "  then: require_approval\n"
                            "  approvers: 16\n"
                            "  window: 1h30m\n"
                            "  max_signings: 1000000\n"
                            "- {name: second, when: {key: [k]}, then: deny, reason: no}\n";

static void a_whole_rule_is_read(void **state)
{
    (void)state;
    CLEANUP(policy_freep) struct policy *policy = rules_of(whole);
    const struct rule *rule = policy->first;
    assert_int_equal(policy->count, 2);
    assert_string_equal(rule->name, "Whole_1");
    assert_string_equal(rule->file, "r.yaml");
    assert_int_equal(rule->line, 2);
    assert_int_equal(rule->outcome, POLICY_APPROVE);
    assert_int_equal(rule->approvers, 16);
    assert_int_equal(rule->window_us, 5400 * US_PER_S);
    assert_int_equal(rule->max_signings, 1000000);
    assert_int_equal(rule->when[CONDITION_TENANT].count, 2);
    assert_string_equal(rule->when[CONDITION_TENANT].at[1], "a-*");
    assert_int_equal(rule->when[CONDITION_KEY].count, 0);
    assert_non_null(rule->window);
    assert_int_equal(rule->next->line, 17);
    assert_string_equal(rule->next->reason, "no");
    assert_int_equal(rule->next->approvers, 0);
}

static struct fault read_whole(void)
{
    CLEANUP(policy_freep) struct policy *policy = NULL;
    return rules_read(whole, NULL, &policy);
}

/* libyaml and jansson allocate on their own: only our allocations fail here. */
static void every_failed_allocation_is_told(void **state)
{
    (void)state;
    CLEANUP(policy_freep) struct policy *policy = rules_of(whole); /* what is made once is made */
    assert_true(fail_each_allocation(read_whole) > 3);
}

static void nobody_need_ask_why(void **state)
{
    (void)state;
    struct policy *policy = NULL;
    assert_fault(rules_read("rules: []\n", NULL, &policy), CONFIG);
    assert_fault(rules_read("rules:\n- {name: a, x: 1}\n", NULL, &policy), CONFIG);
    assert_fault(policy_new(&policy), NONE);
    assert_fault(policy_seal(policy, "folder", NULL), CONFIG);
    policy_free(policy);
    policy_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_is_no_list_of_rules_is_refused),
        cmocka_unit_test(a_rule_has_its_keys_and_no_others),
        cmocka_unit_test(a_name_is_plain_and_stands_once),
        cmocka_unit_test(names_are_unique_over_all_files),
        cmocka_unit_test(an_outcome_is_one_of_three_and_has_its_own_keys),
        cmocka_unit_test(numbers_out_of_range_are_refused),
        cmocka_unit_test(bad_periods_are_refused),
        cmocka_unit_test(conditions_are_known_and_hold_texts),
        cmocka_unit_test(a_list_is_bounded),
        cmocka_unit_test(bad_patterns_are_refused),
        cmocka_unit_test(conditions_that_exclude_each_other_are_refused),
        cmocka_unit_test(bad_times_are_refused),
        cmocka_unit_test(too_many_rules_are_refused),
        cmocka_unit_test(a_whole_rule_is_read),
        cmocka_unit_test(every_failed_allocation_is_told),
        cmocka_unit_test(nobody_need_ask_why),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
