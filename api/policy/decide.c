#include "api/policy/internal.h"

#define US_PER_NS_STEP 1000 /* config keeps nanoseconds */

const char *policy_outcome_text(enum policy_outcome outcome)
{
    static const char *const texts[] = { "allow", "deny", "require_approval" };
    BUG_IF((size_t)outcome >= COUNT_OF(texts));
    return texts[outcome];
}

const char *condition_text(enum condition condition)
{
    static const char *const texts[] = { "tenant", "mode",          "principal",        "role", "key", "issuer",
                                         "san",    "artifact_type", "digest_algorithm", "time", "" };
    static_assert(COUNT_OF(texts) == CONDITION_NONE + 1);
    return texts[condition];
}

/* What the input has for a condition; a signing has no key or no identity, according to its mode. */
struct values {
    const char *const *at;
    size_t count;
    const char *own[2];
};

static void values_of(const struct may_sign *input, enum condition condition, struct values *values)
{
    const char *const of_key[2] = { input->key_id, input->key_name };
    const char *one = NULL;
    switch (condition) {
    case CONDITION_TENANT:
        one = input->tenant;
        break;
    case CONDITION_MODE:
        one = input->keyless ? "keyless" : "key";
        break;
    case CONDITION_PRINCIPAL:
        one = input->principal;
        break;
    case CONDITION_ROLE:
        values->at = input->roles;
        values->count = input->role_count;
        return;
    case CONDITION_KEY:
        values->at = values->own;
        for (size_t i = 0; i < COUNT_OF(of_key) && !input->keyless; i++) {
            values->own[i] = of_key[i];
        }
        values->count = COUNT_OF(of_key);
        return;
    case CONDITION_ISSUER:
        one = input->keyless ? input->issuer : NULL;
        break;
    case CONDITION_SAN:
        one = input->keyless ? input->san : NULL;
        break;
    case CONDITION_ARTIFACT_TYPE:
        one = input->artifact_type;
        break;
    case CONDITION_DIGEST_ALGORITHM:
        one = input->digest_algorithm;
        break;
    case CONDITION_TIME:
    case CONDITION_NONE:
        BUG_IF(true);
    }
    values->own[0] = one;
    values->at = values->own;
    values->count = 1;
}

static bool one_matches(const struct patterns *patterns, const struct values *values)
{
    for (size_t i = 0; i < patterns->count; i++) {
        for (size_t j = 0; j < values->count; j++) {
            if (values->at[j] != NULL && glob_matches(patterns->at[i], values->at[j])) {
                return true;
            }
        }
    }
    return false;
}

enum condition rule_fails_on(const struct rule *rule, const struct may_sign *input)
{
    for (enum condition condition = 0; condition < CONDITION_TEXTS; condition++) {
        struct values values = { 0 };
        if (rule->when[condition].count == 0) {
            continue;
        }
        values_of(input, condition, &values);
        if (!one_matches(&rule->when[condition], &values)) {
            return condition;
        }
    }
    return rule->window == NULL || window_is_open(rule->window, input->now) ? CONDITION_NONE : CONDITION_TIME;
}

bool rule_concerns(const struct rule *rule, const char *tenant)
{
    const struct values values = { .at = &tenant, .count = 1 };
    return rule->when[CONDITION_TENANT].count == 0 || one_matches(&rule->when[CONDITION_TENANT], &values);
}

static struct policy_decision decision_of(const struct rule *rule, const struct config *config)
{
    struct policy_decision made = {
        .outcome = rule->outcome, .rule = rule->name, .file = rule->file, .line = rule->line, .reason = rule->reason
    };
    if (rule->outcome == POLICY_APPROVE) {
        made.approvers = rule->approvers;
        made.window_us = rule->window_us != 0 ? rule->window_us : config->approval_window / US_PER_NS_STEP;
        made.max_signings = rule->max_signings;
    }
    return made;
}

static struct policy_decision decide(const struct policy *policy, const struct config *config,
                                     const struct may_sign *input)
{
    struct policy_decision made = { .outcome = POLICY_DENY, .rule = POLICY_NO_RULE, .file = "" };
    if (policy == NULL) {
        made.outcome = config->policy_enabled ? POLICY_DENY : POLICY_ALLOW;
        made.reason = config->policy_enabled ? "the rules of signing are not loaded" : NULL;
        return made;
    }
    for (const struct rule *rule = policy->first; rule != NULL; rule = rule->next) {
        if (rule_fails_on(rule, input) == CONDITION_NONE) {
            return decision_of(rule, config);
        }
    }
    made.reason = "no rule allows this";
    return made;
}

void policy_decide(const struct policy *policy, const struct config *config, const struct may_sign *input,
                   struct policy_decision *ret_decision)
{
    struct policy_decision made = decide(policy, config, input);
    if (made.outcome == POLICY_ALLOW && config->policy_approval) {
        made = (struct policy_decision){ .outcome = POLICY_APPROVE,
                                         .rule = POLICY_APPROVAL_RULE,
                                         .file = "",
                                         .approvers = 1,
                                         .window_us = config->approval_window / US_PER_NS_STEP };
    }
    *ret_decision = made;
}
