#include "api/policy/internal.h"

#include "appliance/base/codec.h"

#include <stdio.h>

static void print_window(struct jout *jout, const struct window *window)
{
    char minute[16];
    jout_object(jout);
    if (window->not_before != INT64_MIN) {
        jout_key_time(jout, "not_before", window->not_before);
    }
    if (window->not_after != INT64_MAX) {
        jout_key_time(jout, "not_after", window->not_after);
    }
    if (window->weekdays != 0) {
        jout_key(jout, "weekdays");
        jout_array(jout);
        for (size_t i = 0; i < WINDOW_DAYS; i++) {
            if ((window->weekdays >> i & 1) != 0) {
                jout_text(jout, window_days[i]);
            }
        }
        jout_array_end(jout);
    }
    if (window->from != window->to) {
        (void)snprintf(minute, sizeof(minute), "%02d:%02d", window->from / 60, window->from % 60);
        jout_key_text(jout, "from", minute);
        (void)snprintf(minute, sizeof(minute), "%02d:%02d", window->to / 60, window->to % 60);
        jout_key_text(jout, "to", minute);
    }
    jout_object_end(jout);
}

void rule_print_when(struct jout *jout, const struct rule *rule, const char *tenant)
{
    jout_object(jout);
    for (enum condition condition = 0; condition < CONDITION_TEXTS; condition++) {
        const struct patterns *patterns = &rule->when[condition];
        if (patterns->count == 0) {
            continue;
        }
        jout_key(jout, condition_text(condition));
        if (condition == CONDITION_MODE) {
            jout_text(jout, patterns->at[0]);
            continue;
        }
        jout_array(jout);
        for (size_t i = 0; i < patterns->count; i++) {
            if (condition != CONDITION_TENANT || tenant == NULL || glob_matches(patterns->at[i], tenant)) {
                jout_text(jout, patterns->at[i]);
            }
        }
        jout_array_end(jout);
    }
    if (rule->window != NULL) {
        jout_key(jout, condition_text(CONDITION_TIME));
        print_window(jout, rule->window);
    }
    jout_object_end(jout);
}

/* What follows when a rule decides; absent members are those of the settings. */
static void print_terms(struct jout *jout, const struct rule *rule)
{
    jout_key_text(jout, "then", policy_outcome_text(rule->outcome));
    if (rule->outcome == POLICY_APPROVE) {
        jout_key_int(jout, "approvers", rule->approvers);
    }
    if (rule->window_us != 0) {
        jout_key_int(jout, "window_seconds", rule->window_us / US_PER_S);
    }
    if (rule->max_signings != 0) {
        jout_key_int(jout, "max_signings", rule->max_signings);
    }
    if (rule->reason != NULL) {
        jout_key_text(jout, "reason", rule->reason);
    }
}

struct fault rules_digest(const struct policy *policy, char ret_text[65])
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(POLICY_JSON_MAX), canonical = BUF_INIT(POLICY_JSON_MAX);
    struct sha256 digest;
    struct jout jout;
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key_text(&jout, "schema", "svc.codesign.rules.v1");
    jout_key(&jout, "rules");
    jout_array(&jout);
    for (const struct rule *rule = policy->first; rule != NULL; rule = rule->next) {
        jout_object(&jout);
        jout_key_text(&jout, "name", rule->name);
        jout_key(&jout, "when");
        rule_print_when(&jout, rule, NULL);
        print_terms(&jout, rule);
        jout_key_int(&jout, "window_us", rule->window_us);
        jout_object_end(&jout);
    }
    jout_array_end(&jout);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    TRY(json_canonical(buf_span(&json), &canonical));
    TRY(sha256_of(buf_span(&canonical), &digest));
    hex_text(SPAN_ARRAY(digest.at), ret_text, 65);
    return OK;
}

/* Canonical JSON as it stands: sorted members, no text that needs an escape. Without an allocation, since there is no
 * fault to give back; a library that cannot hash any more is in its error state, and nothing may go on with that. */
void policy_digest(const struct policy *policy, const struct config *config, char ret_text[65])
{
    char json[320];
    struct sha256 digest;
    int len = snprintf(json, sizeof(json),
                       "{\"approval_window_ns\":%lld,\"enabled\":%s,\"require_approval\":%s,\"rules\":\"%s\","
                       "\"schema\":\"svc.codesign.policy.v1\"}",
                       (long long)config->approval_window, config->policy_enabled ? "true" : "false",
                       config->policy_approval ? "true" : "false", policy != NULL ? policy->digest : "");
    BUG_IF(len < 0 || (size_t)len >= sizeof(json));
    BUG_IF(FAULTED(sha256_of(span_of(json, (size_t)len), &digest)));
    hex_text(SPAN_ARRAY(digest.at), ret_text, 65);
}

static void print_rule(struct jout *jout, const struct rule *rule, const char *tenant)
{
    jout_object(jout);
    jout_key_text(jout, "rule", rule->name);
    jout_key_text(jout, "file", rule->file);
    jout_key_int(jout, "line", rule->line);
    jout_key(jout, "when");
    rule_print_when(jout, rule, tenant);
    print_terms(jout, rule);
    jout_object_end(jout);
}

void policy_print(struct jout *jout, const struct policy *policy, const struct config *config, const char *tenant)
{
    char digest[65];
    policy_digest(policy, config, digest);
    jout_object(jout);
    jout_key_bool(jout, "policy_enabled", config->policy_enabled);
    jout_key_bool(jout, "require_approval", config->policy_approval);
    jout_key_int(jout, "approval_window_seconds", config->approval_window / NS_PER_S);
    jout_key_text(jout, "digest", digest);
    jout_key(jout, "rules");
    jout_array(jout);
    for (const struct rule *rule = policy != NULL ? policy->first : NULL; rule != NULL; rule = rule->next) {
        if (rule_concerns(rule, tenant)) {
            print_rule(jout, rule, tenant);
        }
    }
    jout_array_end(jout);
    jout_object_end(jout);
}
