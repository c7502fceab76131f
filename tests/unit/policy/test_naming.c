/* How many rules name a key. */
#include "unit/policy/policy_testlib.h"

static const char rules[] = RULES("  - {name: by-name, when: {key: [\"release-*\", other]}, then: allow}\n"
                                  "  - {name: by-id, when: {key: [k-1]}, then: allow}\n"
                                  "  - {name: elsewhere, when: {tenant: [acme], key: [\"*\"]}, then: allow}\n"
                                  "  - {name: any-key, when: {artifact_type: [file]}, then: allow}\n");

static void only_rules_with_a_condition_on_keys_name_one(void **state)
{
    (void)state;
    CLEANUP(policy_freep) struct policy *policy = rules_of(rules);
    assert_int_equal(policy_rules_naming(NULL, "default", "k-1", "release-a"), 0);
    assert_int_equal(policy_rules_naming(policy, "default", "k-9", "unknown"), 0);
    assert_int_equal(policy_rules_naming(policy, "default", "k-9", "release-a"), 1);
    assert_int_equal(policy_rules_naming(policy, "default", "k-1", "other"), 2);
    assert_int_equal(policy_rules_naming(policy, "acme", "k-1", "other"), 3);
    assert_int_equal(policy_rules_concerning(NULL, "default"), 0);
    assert_int_equal(policy_rules_concerning(policy, "default"), 3);
    assert_int_equal(policy_rules_concerning(policy, "acme"), 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_rules_with_a_condition_on_keys_name_one),
    };
    return cmocka_run_group_tests_name("naming", tests, NULL, NULL);
}
