/* What people are shown, and what the digest covers. */
#include "unit/policy/policy_testlib.h"

static const char rules[] = "rules:\n"
                            "- {name: others, when: {tenant: [beta, \"g*\"]}, then: deny, reason: of beta}\n"
                            "- {name: release, when: {key: [\"release-*\"]}, then: require_approval, window: 8h,\n"
                            "   approvers: 2, max_signings: 3}\n"
                            "- {name: nights, when: {tenant: [acme, beta], artifact_type: [t],\n"
                            "   time: {weekdays: [mon, sun], from: \"22:00\", to: \"06:00\",\n"
                            "   not_before: 2026-01-01T00:00:00Z}}, then: allow}\n"
                            "- {name: rest, when: {mode: key}, then: deny, reason: not \"this\"}\n";

static void assert_json(const struct buf *json, const char *want)
{
    char said[8192];
    (void)snprintf(said, sizeof(said), "%.*s", (int)json->len, (const char *)json->at);
    assert_string_equal(said, want);
}

static const char *explain(const struct policy *policy, const struct config *config, const struct may_sign *input)
{
    static char text[8192];
    CLEANUP(buf_free) struct buf json = BUF_INIT(sizeof(text) - 1);
    struct jout jout;
    jout_init(&jout, &json);
    policy_explain(&jout, policy, config, input);
    assert_fault(jout_end(&jout), NONE);
    (void)snprintf(text, sizeof(text), "%.*s", (int)json.len, (const char *)json.at);
    char *digest = strstr(text, ",\"digest\":\""); /* tested below */
    assert_non_null(digest);
    assert_int_equal(strlen(digest), strlen(",\"digest\":\"\"}") + 64);
    (void)snprintf(digest, 2, "}");
    return text;
}

static void an_explanation_names_what_each_rule_failed_on(void **state)
{
    (void)state;
    CLEANUP(policy_freep) struct policy *policy = rules_of(rules);
    const struct config config = policy_config();
    const char *roles[] = { "ci", "x" };
    struct may_sign input = { .tenant = "acme",
                              .principal = "ci/1",
                              .roles = roles,
                              .role_count = 2,
                              .key_id = "1",
                              .key_name = "k",
                              .artifact_type = "t",
                              .digest_algorithm = "sha256",
                              .now = time_of("2026-11-21T12:00:00Z") };
    assert_string_equal(
        explain(policy, &config, &input),
        "{\"policy_enabled\":true,\"require_approval\":false,\"outcome\":\"deny\",\"rule\":\"rest\",\"file\":\"r.yaml\","
        "\"line\":8,\"reason\":\"not \\\"this\\\"\",\"input\":{\"tenant_id\":\"acme\",\"principal\":\"ci/1\","
        "\"roles\":[\"ci\",\"x\"],\"mode\":\"key\",\"key_id\":\"1\",\"key_name\":\"k\",\"artifact_type\":\"t\","
        "\"digest_algorithm\":\"sha256\",\"at\":\"2026-11-21T12:00:00.000000Z\"},\"considered\":["
        "{\"rule\":\"release\",\"file\":\"r.yaml\",\"line\":3,\"matched\":false,\"failed_on\":\"key\"},"
        "{\"rule\":\"nights\",\"file\":\"r.yaml\",\"line\":5,\"matched\":false,\"failed_on\":\"time\"},"
        "{\"rule\":\"rest\",\"file\":\"r.yaml\",\"line\":8,\"matched\":true}]}");
    input = (struct may_sign){ .tenant = "acme",
                               .principal = "p",
                               .keyless = true,
                               .issuer = "i",
                               .san = "s",
                               .artifact_type = "u",
                               .digest_algorithm = "sha512" };
    assert_string_equal(
        explain(policy, &config, &input),
        "{\"policy_enabled\":true,\"require_approval\":false,\"outcome\":\"deny\",\"rule\":\"(no rule)\",\"file\":\"\","
        "\"line\":0,\"reason\":\"no rule allows this\",\"input\":{\"tenant_id\":\"acme\",\"principal\":\"p\","
        "\"roles\":[],\"mode\":\"keyless\",\"issuer\":\"i\",\"san\":\"s\",\"artifact_type\":\"u\","
        "\"digest_algorithm\":\"sha512\",\"at\":\"1970-01-01T00:00:00.000000Z\"},\"considered\":["
        "{\"rule\":\"release\",\"file\":\"r.yaml\",\"line\":3,\"matched\":false,\"failed_on\":\"key\"},"
        "{\"rule\":\"nights\",\"file\":\"r.yaml\",\"line\":5,\"matched\":false,\"failed_on\":\"artifact_type\"},"
        "{\"rule\":\"rest\",\"file\":\"r.yaml\",\"line\":8,\"matched\":false,\"failed_on\":\"mode\"}]}");
}

static void an_explanation_has_the_terms_of_an_approval(void **state)
{
    (void)state;
    CLEANUP(policy_freep) struct policy *policy = rules_of(rules);
    struct config config = policy_config();
    struct may_sign input = { .tenant = "acme", .principal = "p", .key_name = "release-1" };
    assert_non_null(strstr(explain(policy, &config, &input),
                           "\"outcome\":\"require_approval\",\"rule\":\"release\",\"file\":\"r.yaml\",\"line\":3,"
                           "\"approvers\":2,\"window_seconds\":28800,\"max_signings\":3,"));
    config.policy_approval = true;
    input.key_name = "k";
    input.artifact_type = "t";
    input.now = time_of("2026-11-22T23:00:00Z");
    const char *said = explain(policy, &config, &input);
    assert_non_null(strstr(said, "\"require_approval\":true,\"outcome\":\"require_approval\","
                                 "\"rule\":\"ca.policy.require_approval\",\"file\":\"\",\"line\":0,\"approvers\":1,"
                                 "\"window_seconds\":86400,\"input\""));
    assert_non_null(strstr(said, "{\"rule\":\"nights\",\"file\":\"r.yaml\",\"line\":5,\"matched\":true}]"));
}

static void a_policy_that_is_off_says_so(void **state)
{
    (void)state;
    struct config config = policy_config();
    const struct may_sign input = { .tenant = "acme", .principal = "p" };
    config.policy_enabled = false;
    const char *said = explain(NULL, &config, &input);
    assert_ptr_equal(strstr(said, "{\"policy_enabled\":false,\"require_approval\":false,\"outcome\":\"allow\","
                                  "\"rule\":\"(no rule)\",\"file\":\"\",\"line\":0,\"input\""),
                     said);
    assert_non_null(strstr(said, "\"considered\":[]}"));
}

/* Rules that can never concern a tenant, and the other tenants of rules that do, are none of its business. */
static void other_tenants_are_not_shown(void **state)
{
    (void)state;
    CLEANUP(policy_freep) struct policy *policy = rules_of(rules);
    const struct config config = policy_config();
    CLEANUP(buf_free) struct buf json = BUF_INIT(8192);
    char want[4096], digest[65];
    struct jout jout;
    policy_digest(policy, &config, digest);
    jout_init(&jout, &json);
    policy_print(&jout, policy, &config, "acme");
    assert_fault(jout_end(&jout), NONE);
    (void)snprintf(want, sizeof(want),
                   "{\"policy_enabled\":true,\"require_approval\":false,\"approval_window_seconds\":86400,"
                   "\"digest\":\"%s\",\"rules\":["
                   "{\"rule\":\"release\",\"file\":\"r.yaml\",\"line\":3,\"when\":{\"key\":[\"release-*\"]},"
                   "\"then\":\"require_approval\",\"approvers\":2,\"window_seconds\":28800,\"max_signings\":3},"
                   "{\"rule\":\"nights\",\"file\":\"r.yaml\",\"line\":5,\"when\":{\"tenant\":[\"acme\"],"
                   "\"artifact_type\":[\"t\"],\"time\":{\"not_before\":\"2026-01-01T00:00:00.000000Z\","
                   "\"weekdays\":[\"mon\",\"sun\"],\"from\":\"22:00\",\"to\":\"06:00\"}},\"then\":\"allow\"},"
                   "{\"rule\":\"rest\",\"file\":\"r.yaml\",\"line\":8,\"when\":{\"mode\":\"key\"},\"then\":\"deny\","
                   "\"reason\":\"not \\\"this\\\"\"}]}",
                   digest);
    assert_json(&json, want);
    buf_clear(&json);
    jout_init(&jout, &json);
    policy_print(&jout, policy, &config, "gamma");
    assert_fault(jout_end(&jout), NONE);
    assert_non_null(memmem(json.at, json.len, "{\"tenant\":[\"g*\"]}", 17));
    assert_null(memmem(json.at, json.len, "\"beta\"", 6));
}

/* ---- the digest ---- */

static void digest_of(const char *text, const struct config *config, char out[65])
{
    CLEANUP(policy_freep) struct policy *policy = text != NULL ? rules_of(text) : NULL;
    memset(out, 'x', 65);
    policy_digest(policy, config, out);
    assert_int_equal(strlen(out), 64);
    assert_int_equal(strspn(out, "0123456789abcdef"), 64);
}

static void the_digest_changes_with_whatever_decides(void **state)
{
    (void)state;
    struct config config = policy_config();
    static const char *const texts[] = {
        NULL,
        "rules:\n- {name: a, when: {}, then: allow}\n",
        "rules:\n- {name: b, when: {}, then: allow}\n",
        "rules:\n- {name: a, when: {}, then: require_approval}\n",
        "rules:\n- {name: a, when: {}, then: require_approval, approvers: 2}\n",
        "rules:\n- {name: a, when: {}, then: require_approval, window: 8h}\n",
        "rules:\n- {name: a, when: {}, then: require_approval, window: 8h0.0000015s}\n",
        "rules:\n- {name: a, when: {}, then: require_approval, max_signings: 1}\n",
        "rules:\n- {name: a, when: {}, then: deny, reason: x}\n",
        "rules:\n- {name: a, when: {}, then: deny, reason: y}\n",
        "rules:\n- {name: a, when: {tenant: [a]}, then: allow}\n",
        "rules:\n- {name: a, when: {tenant: [b]}, then: allow}\n",
        "rules:\n- {name: a, when: {tenant: [a, b]}, then: allow}\n",
        "rules:\n- {name: a, when: {principal: [a]}, then: allow}\n",
        "rules:\n- {name: a, when: {role: [a]}, then: allow}\n",
        "rules:\n- {name: a, when: {key: [a]}, then: allow}\n",
        "rules:\n- {name: a, when: {mode: key}, then: allow}\n",
        "rules:\n- {name: a, when: {mode: keyless}, then: allow}\n",
        "rules:\n- {name: a, when: {artifact_type: [a]}, then: allow}\n",
        "rules:\n- {name: a, when: {digest_algorithm: [sha256]}, then: allow}\n",
        "rules:\n- {name: a, when: {issuer: [a]}, then: allow}\n",
        "rules:\n- {name: a, when: {san: [a]}, then: allow}\n",
        "rules:\n- {name: a, when: {time: {weekdays: [mon]}}, then: allow}\n",
        "rules:\n- {name: a, when: {time: {weekdays: [tue]}}, then: allow}\n",
        "rules:\n- {name: a, when: {time: {from: \"01:00\", to: \"02:00\"}}, then: allow}\n",
        "rules:\n- {name: a, when: {time: {from: \"01:00\", to: \"02:01\"}}, then: allow}\n",
        "rules:\n- {name: a, when: {time: {from: \"01:01\", to: \"02:00\"}}, then: allow}\n",
        "rules:\n- {name: a, when: {time: {not_before: 2026-01-01T00:00:00Z}}, then: allow}\n",
        "rules:\n- {name: a, when: {time: {not_before: 2026-01-01T00:00:00.000001Z}}, then: allow}\n",
        "rules:\n- {name: a, when: {time: {not_after: 2026-01-01T00:00:00Z}}, then: allow}\n",
        "rules:\n- {name: a, when: {}, then: allow}\n- {name: b, when: {}, then: allow}\n",
        "rules:\n- {name: b, when: {}, then: allow}\n- {name: a, when: {}, then: allow}\n",
    };
    char digests[COUNT_OF(texts) + 3][65];
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        digest_of(texts[i], &config, digests[i]);
    }
    config.policy_approval = true;
    digest_of(texts[1], &config, digests[COUNT_OF(texts)]);
    config.policy_approval = false;
    config.approval_window++;
    digest_of(texts[1], &config, digests[COUNT_OF(texts) + 1]);
    config.approval_window--;
    config.policy_enabled = false;
    digest_of(NULL, &config, digests[COUNT_OF(texts) + 2]);
    for (size_t i = 0; i < COUNT_OF(digests); i++) {
        for (size_t j = 0; j < i; j++) {
            if (strcmp(digests[i], digests[j]) == 0) {
                fail_msg("%zu and %zu have the same digest", j, i);
            }
        }
    }
}

/* It stands in fingerprints: another build must compute the same. */
static void the_digest_does_not_change_with_words_and_places(void **state)
{
    (void)state;
    const struct config config = policy_config();
    char one[65], other[65];
    digest_of("rules:\n- {name: a, when: {role: [x], key: [k]}, then: allow}\n", &config, one);
    digest_of(
        "# words\nrules:\n\n  - name: 'a'\n    then: allow   # more\n    when:\n      key:\n      - k\n      role: "
        "[\"x\"]\n",
        &config, other);
    assert_string_equal(one, other);
    assert_string_equal(one, "eab7977c2a53f69bb0ee8348826c929df6f51fcb9b94f1d16f33987bc9532141");
    digest_of(NULL, &config, one);
    assert_string_equal(one, "18618013e17c2d40b7f8c64827c2d5171613db890be3e8ed1f4ada01be6de460");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_explanation_names_what_each_rule_failed_on),
        cmocka_unit_test(an_explanation_has_the_terms_of_an_approval),
        cmocka_unit_test(a_policy_that_is_off_says_so),
        cmocka_unit_test(other_tenants_are_not_shown),
        cmocka_unit_test(the_digest_changes_with_whatever_decides),
        cmocka_unit_test(the_digest_does_not_change_with_words_and_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
