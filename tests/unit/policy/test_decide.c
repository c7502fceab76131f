/* Decisions, refusals first. One set of rules; each row changes one thing of an input that is allowed. */
#include "unit/policy/policy_testlib.h"

static const char rules[] = "rules:\n"
                            "- name: frozen\n" /* line 2 */
                            "  when: {time: {not_before: 2026-12-24T00:00:00Z, not_after: 2027-01-01T00:00:00Z}}\n"
                            "  then: deny\n"
                            "  reason: year-end freeze\n"
                            "- name: release\n" /* line 6 */
                            "  when: {key: [\"release-*\", 11111111-1111-4111-8111-111111111111]}\n"
                            "  then: require_approval\n"
                            "  approvers: 2\n"
                            "  window: 8h\n"
                            "  max_signings: 3\n"
                            "- name: cosigned\n" /* line 12 */
                            "  when: {artifact_type: [\"oci-*\"]}\n"
                            "  then: require_approval\n"
                            "- name: build\n" /* line 15 */
                            "  when:\n"
                            "    tenant: [default, \"team-*\"]\n"
                            "    principal: [\"ci/*\", bot]\n"
                            "    role: [ci, builder]\n"
                            "    mode: key\n"
                            "    key: [\"snap-*\"]\n"
                            "    artifact_type: [tarball]\n"
                            "    digest_algorithm: [sha256, sha384]\n"
                            "  then: allow\n"
                            "- name: workflow\n" /* line 25 */
                            "  when:\n"
                            "    issuer: [\"https://issuer.example\"]\n"
                            "    san: [\"https://git.example/acme/*@refs/tags/*\"]\n"
                            "  then: allow\n";

#define DENY(tells) POLICY_DENY, "(no rule)", "", 0, tells
#define NOT_ALLOWED DENY("no rule allows this")
#define ALLOW_BUILD POLICY_ALLOW, "build", "r.yaml", 15, NULL
#define RELEASE     POLICY_APPROVE, "release", "r.yaml", 6, NULL
#define WORKFLOW    POLICY_ALLOW, "workflow", "r.yaml", 25, NULL
#define ROLES(...) \
    .roles = (const char *const[]){ __VA_ARGS__ }, .role_count = COUNT_OF(((const char *[]){ __VA_ARGS__ }))
#define BUILD                                                                                              \
    .tenant = "default", .principal = "ci/1", ROLES("auditor", "ci"), .key_id = "2", .key_name = "snap-1", \
    .artifact_type = "tarball", .digest_algorithm = "sha256", .now = 1795000000000000
#define KEYLESS                                                                                                     \
    .tenant = "x", .principal = "p", .keyless = true, .issuer = "https://issuer.example",                           \
    .san = "https://git.example/acme/a/.ci/w.yml@refs/tags/v1", .artifact_type = "t", .digest_algorithm = "sha512", \
    .now = 1795000000000000

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
static const struct {
    const char *what;
    struct may_sign input;
    enum policy_outcome outcome;
    const char *rule, *file;
    unsigned line;
    const char *reason;
} rows[] = {
    { "nothing given", { 0 }, NOT_ALLOWED },
    { "other tenant", { BUILD, .tenant = "defaults" }, NOT_ALLOWED },
    { "no tenant", { BUILD, .tenant = NULL }, NOT_ALLOWED },
    { "other principal", { BUILD, .principal = "ci" }, NOT_ALLOWED },
    { "no principal", { BUILD, .principal = NULL }, NOT_ALLOWED },
    { "no roles", { BUILD, .roles = NULL, .role_count = 0 }, NOT_ALLOWED },
    { "other roles", { BUILD, ROLES("c", "cix") }, NOT_ALLOWED },
    { "other key", { BUILD, .key_name = "snap" }, NOT_ALLOWED },
    { "nameless key", { BUILD, .key_name = NULL }, NOT_ALLOWED },
    { "keyless though a key is given", { BUILD, .keyless = true }, NOT_ALLOWED },
    { "other artifact", { BUILD, .artifact_type = "Tarball" }, NOT_ALLOWED },
    { "no artifact", { BUILD, .artifact_type = NULL }, NOT_ALLOWED },
    { "other digest", { BUILD, .digest_algorithm = "sha512" }, NOT_ALLOWED },
    { "other issuer", { KEYLESS, .issuer = "https://issuer.example/" }, NOT_ALLOWED },
    { "no issuer", { KEYLESS, .issuer = NULL }, NOT_ALLOWED },
    { "other repository", { KEYLESS, .san = "https://git.example/acme-evil/w@refs/tags/v1" }, NOT_ALLOWED },
    { "branch, no tag", { KEYLESS, .san = "https://git.example/acme/a@refs/heads/v1" }, NOT_ALLOWED },
    { "no SAN", { KEYLESS, .san = NULL }, NOT_ALLOWED },
    { "an identity without keyless", { KEYLESS, .keyless = false }, NOT_ALLOWED },
    { "frozen", { BUILD, .now = 1798070400000000 }, POLICY_DENY, "frozen", "r.yaml", 2, "year-end freeze" },
    { "frozen keyless", { KEYLESS, .now = 1798070400000000 }, POLICY_DENY, "frozen", "r.yaml", 2, "year-end freeze" },
    { "release by name", { BUILD, .key_name = "release-1" }, RELEASE },
    { "release by id", { BUILD, .key_id = "11111111-1111-4111-8111-111111111111", .key_name = "x" }, RELEASE },
    { "release before others", { BUILD, .key_name = "release-1", .artifact_type = "oci-image" }, RELEASE },
    { "cosigned", { KEYLESS, .artifact_type = "oci-image" }, POLICY_APPROVE, "cosigned", "r.yaml", 12, NULL },
    { "build", { BUILD }, ALLOW_BUILD },
    { "build of a team", { BUILD, .tenant = "team-1", .principal = "bot", ROLES("builder") }, ALLOW_BUILD },
    { "build with SHA-384", { BUILD, .digest_algorithm = "sha384" }, ALLOW_BUILD },
    { "workflow", { KEYLESS }, WORKFLOW },
};
#pragma GCC diagnostic pop

static void the_first_rule_that_holds_decides(void **state)
{
    (void)state;
    CLEANUP(policy_freep) struct policy *policy = rules_of(rules);
    const struct config config = policy_config();
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct policy_decision got, again;
        policy_decide(policy, &config, &rows[i].input, &got);
        policy_decide(policy, &config, &rows[i].input, &again);
        bool same_reason = (got.reason == NULL) == (rows[i].reason == NULL) &&
                           (got.reason == NULL || strcmp(got.reason, rows[i].reason) == 0);
        if (got.outcome != rows[i].outcome || strcmp(got.rule, rows[i].rule) != 0 ||
            strcmp(got.file, rows[i].file) != 0 || got.line != rows[i].line || !same_reason) {
            fail_msg("%s: %s by %s (%s:%u, %s)", rows[i].what, policy_outcome_text(got.outcome), got.rule, got.file,
                     got.line, got.reason != NULL ? got.reason : "-");
        }
        assert_true(got.outcome == again.outcome && got.rule == again.rule && got.approvers == again.approvers);
        assert_int_equal(got.approvers > 0, got.outcome == POLICY_APPROVE);
        assert_int_equal(got.window_us > 0, got.outcome == POLICY_APPROVE);
    }
}

/* Whatever the caller fills in: a keyless signing has no key, and one with a key has no identity. */
static void what_belongs_to_the_other_mode_matches_nothing(void **state)
{
    (void)state;
    static const struct {
        const char *condition;
        bool keyless; /* that it may match */
    } lone[] = { { "key: [k]", false }, { "key: [\"id\"]", false }, { "issuer: [i]", true }, { "san: [s]", true } };
    for (size_t i = 0; i < COUNT_OF(lone); i++) {
        char text[128];
        (void)snprintf(text, sizeof(text), "rules:\n- {name: a, when: {%s}, then: allow}\n", lone[i].condition);
        CLEANUP(policy_freep) struct policy *policy = rules_of(text);
        const struct config config = policy_config();
        struct may_sign input = { .key_id = "id", .key_name = "k", .issuer = "i", .san = "s" };
        struct policy_decision got;
        input.keyless = !lone[i].keyless;
        policy_decide(policy, &config, &input, &got);
        assert_int_equal(got.outcome, POLICY_DENY);
        input.keyless = lone[i].keyless;
        policy_decide(policy, &config, &input, &got);
        assert_int_equal(got.outcome, POLICY_ALLOW);
    }
}

static void the_terms_of_an_approval_are_the_rules_or_the_settings(void **state)
{
    (void)state;
    CLEANUP(policy_freep) struct policy *policy = rules_of(rules);
    struct config config = policy_config();
    struct policy_decision got;
    const struct may_sign release = { .key_name = "release-1" }, image = { .artifact_type = "oci-image" };
    policy_decide(policy, &config, &release, &got);
    assert_int_equal(got.approvers, 2);
    assert_int_equal(got.window_us, 8 * 3600 * US_PER_S);
    assert_int_equal(got.max_signings, 3);
    policy_decide(policy, &config, &image, &got);
    assert_int_equal(got.approvers, 1);
    assert_int_equal(got.window_us, 24 * 3600 * US_PER_S);
    assert_int_equal(got.max_signings, 0);
    config.approval_window = 60 * NS_PER_S;
    policy_decide(policy, &config, &image, &got);
    assert_int_equal(got.window_us, 60 * US_PER_S);
}

static void rules_that_are_not_loaded_deny(void **state)
{
    (void)state;
    const struct config config = policy_config();
    const struct may_sign input = { BUILD };
    struct policy_decision got;
    policy_decide(NULL, &config, &input, &got);
    assert_int_equal(got.outcome, POLICY_DENY);
    assert_string_equal(got.rule, "(no rule)");
    assert_string_equal(got.reason, "the rules of signing are not loaded");
}

static void without_a_policy_everything_is_allowed(void **state)
{
    (void)state;
    struct config config = policy_config();
    const struct may_sign input = { 0 };
    struct policy_decision got;
    config.policy_enabled = false;
    policy_decide(NULL, &config, &input, &got);
    assert_int_equal(got.outcome, POLICY_ALLOW);
    assert_string_equal(got.rule, "(no rule)");
    assert_string_equal(got.file, "");
    assert_null(got.reason);
}

static void the_setting_turns_an_allow_into_one_approval_and_nothing_else(void **state)
{
    (void)state;
    CLEANUP(policy_freep) struct policy *policy = rules_of(rules);
    struct config config = policy_config();
    const struct may_sign build = { BUILD }, release = { .key_name = "release-1" }, other = { 0 };
    struct policy_decision got;
    config.policy_approval = true;
    policy_decide(policy, &config, &other, &got);
    assert_int_equal(got.outcome, POLICY_DENY);
    policy_decide(policy, &config, &release, &got);
    assert_string_equal(got.rule, "release");
    assert_int_equal(got.approvers, 2);
    policy_decide(policy, &config, &build, &got);
    assert_int_equal(got.outcome, POLICY_APPROVE);
    assert_string_equal(got.rule, "ca.policy.require_approval");
    assert_string_equal(got.file, "");
    assert_int_equal(got.line, 0);
    assert_int_equal(got.approvers, 1);
    assert_int_equal(got.window_us, 24 * 3600 * US_PER_S);
    assert_int_equal(got.max_signings, 0);
    config.policy_enabled = false;
    policy_decide(NULL, &config, &other, &got);
    assert_string_equal(got.rule, "ca.policy.require_approval");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_rule_that_holds_decides),
        cmocka_unit_test(what_belongs_to_the_other_mode_matches_nothing),
        cmocka_unit_test(the_terms_of_an_approval_are_the_rules_or_the_settings),
        cmocka_unit_test(rules_that_are_not_loaded_deny),
        cmocka_unit_test(without_a_policy_everything_is_allowed),
        cmocka_unit_test(the_setting_turns_an_allow_into_one_approval_and_nothing_else),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
