#include "api/policy/internal.h"

size_t policy_rules_naming(const struct policy *policy, const char *tenant, const char *key_id, const char *key_name)
{
    size_t found = 0;
    for (const struct rule *rule = policy != NULL ? policy->first : NULL; rule != NULL; rule = rule->next) {
        const struct patterns *keys = &rule->when[CONDITION_KEY];
        bool names = false;
        for (size_t i = 0; i < keys->count && !names; i++) {
            names = glob_matches(keys->at[i], key_id) || glob_matches(keys->at[i], key_name);
        }
        found += names && rule_concerns(rule, tenant) ? 1 : 0;
    }
    return found;
}

size_t policy_rules_concerning(const struct policy *policy, const char *tenant)
{
    size_t found = 0;
    for (const struct rule *rule = policy != NULL ? policy->first : NULL; rule != NULL; rule = rule->next) {
        found += rule_concerns(rule, tenant) ? 1 : 0;
    }
    return found;
}
