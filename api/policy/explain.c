#include "api/policy/internal.h"

static void print_decision(struct jout *jout, const struct policy_decision *decision)
{
    jout_key_text(jout, "outcome", policy_outcome_text(decision->outcome));
    jout_key_text(jout, "rule", decision->rule);
    jout_key_text(jout, "file", decision->file);
    jout_key_int(jout, "line", decision->line);
    if (decision->reason != NULL) {
        jout_key_text(jout, "reason", decision->reason);
    }
    if (decision->outcome == POLICY_APPROVE) {
        jout_key_int(jout, "approvers", decision->approvers);
        jout_key_int(jout, "window_seconds", decision->window_us / US_PER_S);
        if (decision->max_signings != 0) {
            jout_key_int(jout, "max_signings", decision->max_signings);
        }
    }
}

static void print_given(struct jout *jout, const char *key, const char *text)
{
    if (text != NULL) {
        jout_key_text(jout, key, text);
    }
}

/* The question with all that was filled in, so that nobody misreads for whom it was answered. */
static void print_input(struct jout *jout, const struct may_sign *input)
{
    jout_key(jout, "input");
    jout_object(jout);
    jout_key_text(jout, "tenant_id", input->tenant);
    jout_key_text(jout, "principal", input->principal);
    jout_key(jout, "roles");
    jout_array(jout);
    for (size_t i = 0; i < input->role_count; i++) {
        jout_text(jout, input->roles[i]);
    }
    jout_array_end(jout);
    jout_key_text(jout, "mode", input->keyless ? "keyless" : "key");
    print_given(jout, "key_id", input->key_id);
    print_given(jout, "key_name", input->key_name);
    print_given(jout, "issuer", input->issuer);
    print_given(jout, "san", input->san);
    jout_key_text(jout, "artifact_type", input->artifact_type);
    jout_key_text(jout, "digest_algorithm", input->digest_algorithm);
    jout_key_time(jout, "at", input->now);
    jout_object_end(jout);
}

static void print_considered(struct jout *jout, const struct policy *policy, const struct may_sign *input)
{
    enum condition failed = CONDITION_TIME;
    jout_key(jout, "considered");
    jout_array(jout);
    const struct rule *rule = policy != NULL ? policy->first : NULL;
    for (; rule != NULL && failed != CONDITION_NONE; rule = rule->next) {
        if (!rule_concerns(rule, input->tenant)) {
            continue;
        }
        failed = rule_fails_on(rule, input);
        jout_object(jout);
        jout_key_text(jout, "rule", rule->name);
        jout_key_text(jout, "file", rule->file);
        jout_key_int(jout, "line", rule->line);
        jout_key_bool(jout, "matched", failed == CONDITION_NONE);
        if (failed != CONDITION_NONE) {
            jout_key_text(jout, "failed_on", condition_text(failed));
        }
        jout_object_end(jout);
    }
    jout_array_end(jout);
}

void policy_explain(struct jout *jout, const struct policy *policy, const struct config *config,
                    const struct may_sign *input)
{
    struct policy_decision decision;
    char digest[65];
    policy_decide(policy, config, input, &decision);
    policy_digest(policy, config, digest);
    jout_object(jout);
    jout_key_bool(jout, "policy_enabled", config->policy_enabled);
    jout_key_bool(jout, "require_approval", config->policy_approval);
    print_decision(jout, &decision);
    print_input(jout, input);
    print_considered(jout, policy, input);
    jout_key_text(jout, "digest", digest);
    jout_object_end(jout);
}
