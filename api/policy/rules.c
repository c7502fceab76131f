#include "api/policy/internal.h"

#include "appliance/base/alloc.h"

#define POLICY_ARENA_MAX ((size_t)32 << 20)
#define TREE_ARENA_MAX   ((size_t)4 << 20)

static const char rule_keys[] = "name, when, then, approvers, window, max_signings and reason";

static bool name_is_good(const char *name)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    size_t len = strlen(name);
    return len >= 1 && len <= POLICY_RULE_NAME_MAX && strspn(name, letters) == len;
}

static struct fault take_name(struct reading *reading, const struct yaml_node *node, struct rule *rule)
{
    const char *text = "";
    const struct yaml_node *name = yaml_tree_get(node, "name");
    if (name == NULL) {
        return reading_refuse(reading, node->line, "a rule needs a name");
    }
    TRY(value_text(reading, name, "name", &text));
    if (!name_is_good(text)) {
        return reading_refuse(reading, name->line, "name: '%.80s' must be 1 to %u of a-z, A-Z, 0-9, '-' and '_'", text,
                              POLICY_RULE_NAME_MAX);
    }
    for (const struct rule *other = reading->policy->first; other != NULL; other = other->next) {
        if (strcmp(other->name, text) == 0) {
            return reading_refuse(reading, name->line, "name: '%s' is a rule of %s:%u already", text, other->file,
                                  other->line);
        }
    }
    rule->line = node->line;
    TRY(arena_text(reading->policy->arena, span_text(text), &rule->name));
    reading->rule = rule->name;
    return OK;
}

static struct fault take_condition(const struct reading *reading, const struct yaml_node *node, struct rule *rule)
{
    for (enum condition condition = 0; condition < CONDITION_TEXTS; condition++) {
        if (strcmp(node->key, condition_text(condition)) == 0) {
            return value_patterns(reading, node, condition, &rule->when[condition]);
        }
    }
    if (strcmp(node->key, condition_text(CONDITION_TIME)) == 0) {
        return value_window(reading, node, &rule->window);
    }
    return reading_refuse(reading, node->line,
                          "when: '%.40s' is no condition; there are tenant, principal, role, key, mode, artifact_type, "
                          "digest_algorithm, issuer, san and time",
                          node->key);
}

/* Conditions that exclude each other: a reader would believe in a rule that never holds. */
static struct fault check_when(const struct reading *reading, const struct yaml_node *when, const struct rule *rule)
{
    const struct patterns *mode = &rule->when[CONDITION_MODE];
    bool key = rule->when[CONDITION_KEY].count > 0;
    const struct yaml_node *issuer = yaml_tree_get(when, "issuer"), *san = yaml_tree_get(when, "san");
    const struct yaml_node *identity = issuer != NULL ? issuer : san;
    if (key && mode->count > 0 && strcmp(mode->at[0], "keyless") == 0) {
        return reading_refuse(reading, yaml_tree_get(when, "key")->line,
                              "when: key and mode: keyless exclude each other: the rule would never hold");
    }
    if (identity != NULL && (key || (mode->count > 0 && strcmp(mode->at[0], "key") == 0))) {
        return reading_refuse(reading, identity->line, "when: %s and %s exclude each other: the rule would never hold",
                              identity->key, key ? "key" : "mode: key");
    }
    return OK;
}

static struct fault take_when(const struct reading *reading, const struct yaml_node *node, struct rule *rule)
{
    const struct yaml_node *when = yaml_tree_get(node, "when");
    if (when == NULL) {
        return reading_refuse(reading, node->line, "a rule needs 'when'; {} = always");
    }
    if (when->kind != YAML_KIND_MAP) {
        return reading_refuse(reading, when->line, "when: must be a mapping of conditions; {} = always");
    }
    for (const struct yaml_node *condition = when->first; condition != NULL; condition = condition->next) {
        TRY(take_condition(reading, condition, rule));
    }
    return check_when(reading, when, rule);
}

static struct fault take_outcome(const struct reading *reading, const struct yaml_node *node, struct rule *rule)
{
    static const enum policy_outcome outcomes[] = { POLICY_ALLOW, POLICY_DENY, POLICY_APPROVE };
    const struct yaml_node *then = yaml_tree_get(node, "then");
    const char *text = "";
    if (then == NULL) {
        return reading_refuse(reading, node->line, "a rule needs 'then': allow, deny or require_approval");
    }
    TRY(value_text(reading, then, "then", &text));
    for (size_t i = 0; i < COUNT_OF(outcomes); i++) {
        if (strcmp(text, policy_outcome_text(outcomes[i])) == 0) {
            rule->outcome = outcomes[i];
            return OK;
        }
    }
    return reading_refuse(reading, then->line, "then: '%.40s' must be allow, deny or require_approval", text);
}

/* The same bounds as ca.policy.approval_window. */
static struct fault take_period(const struct reading *reading, const struct yaml_node *node, int64_t *ret_us)
{
    static const int64_t min_ns = 60 * NS_PER_S, max_ns = 720 * 3600 * NS_PER_S;
    const char *text = "";
    int64_t ns = 0;
    TRY(value_text(reading, node, "window", &text));
    if (FAULTED(duration_parse(span_text(text), &ns)) || ns < min_ns || ns > max_ns) {
        return reading_refuse(reading, node->line,
                              "window: '%.40s' must be a duration of 1m to 720h, such as 8h or 30m", text);
    }
    *ret_us = ns / 1000;
    return OK;
}

static struct fault take_reason(const struct reading *reading, const struct yaml_node *node, struct rule *rule)
{
    const char *text = "";
    TRY(value_text(reading, node, "reason", &text));
    for (const char *at = text; *at != '\0'; at++) {
        if ((uint8_t)*at < 0x20 || *at == 0x7f) {
            return reading_refuse(reading, node->line, "reason: must be one line");
        }
    }
    if (strlen(text) > POLICY_REASON_MAX) {
        return reading_refuse(reading, node->line, "reason: is longer than %u bytes", POLICY_REASON_MAX);
    }
    return arena_text(reading->policy->arena, span_text(text), &rule->reason);
}

/* What goes with an outcome, and what the outcome needs. */
static struct fault take_terms(const struct reading *reading, const struct yaml_node *node, struct rule *rule)
{
    int64_t approvers = 1;
    const struct yaml_node *term = yaml_tree_get(node, "approvers");
    if (term != NULL) {
        TRY(value_count(reading, term, "approvers", POLICY_APPROVERS_MAX, &approvers));
    }
    rule->approvers = rule->outcome == POLICY_APPROVE ? (unsigned)approvers : 0;
    if ((term = yaml_tree_get(node, "window")) != NULL) {
        TRY(take_period(reading, term, &rule->window_us));
    }
    if ((term = yaml_tree_get(node, "max_signings")) != NULL) {
        TRY(value_count(reading, term, "max_signings", POLICY_SIGNINGS_MAX, &rule->max_signings));
    }
    if ((term = yaml_tree_get(node, "reason")) != NULL) {
        TRY(take_reason(reading, term, rule));
    }
    if (rule->outcome == POLICY_DENY && rule->reason == NULL) {
        return reading_refuse(reading, node->line, "deny needs a 'reason', which the caller is told");
    }
    return OK;
}

static const struct {
    const char *key;
    bool any;                 /* goes with every outcome, */
    enum policy_outcome only; /* or with this one */
} keys[] = {
    { "name", true, POLICY_ALLOW },      { "when", true, POLICY_ALLOW },
    { "then", true, POLICY_ALLOW },      { "approvers", false, POLICY_APPROVE },
    { "window", false, POLICY_APPROVE }, { "max_signings", false, POLICY_APPROVE },
    { "reason", false, POLICY_DENY },
};

static size_t key_of(const struct yaml_node *node)
{
    size_t i = 0;
    while (i < COUNT_OF(keys) && strcmp(keys[i].key, node->key) != 0) {
        i++;
    }
    return i;
}

static struct fault check_known(const struct reading *reading, const struct yaml_node *node)
{
    for (const struct yaml_node *child = node->first; child != NULL; child = child->next) {
        if (key_of(child) == COUNT_OF(keys)) {
            return reading_refuse(reading, child->line, "'%.40s' is no key of a rule; there are %s", child->key,
                                  rule_keys);
        }
    }
    return OK;
}

static struct fault check_terms(const struct reading *reading, const struct yaml_node *node, const struct rule *rule)
{
    for (const struct yaml_node *child = node->first; child != NULL; child = child->next) {
        size_t i = key_of(child);
        if (!keys[i].any && keys[i].only != rule->outcome) {
            return reading_refuse(reading, child->line, "%s goes with %s only, not with %s", child->key,
                                  policy_outcome_text(keys[i].only), policy_outcome_text(rule->outcome));
        }
    }
    return OK;
}

static struct fault take_rule(struct reading *reading, const struct yaml_node *node)
{
    struct policy *policy = reading->policy;
    struct rule *rule = NULL;
    reading->rule = NULL;
    if (node->kind != YAML_KIND_MAP) {
        return reading_refuse(reading, node->line, "a rule is a mapping with %s", rule_keys);
    }
    if (policy->count == POLICY_RULES_MAX) {
        return reading_refuse(reading, node->line, "more than %u rules", POLICY_RULES_MAX);
    }
    TRY(arena_take(policy->arena, 1, sizeof(*rule), &rule));
    rule->file = reading->file;
    TRY(take_name(reading, node, rule));
    TRY(check_known(reading, node));
    TRY(take_outcome(reading, node, rule));
    TRY(check_terms(reading, node, rule));
    TRY(take_when(reading, node, rule));
    TRY(take_terms(reading, node, rule));
    if (policy->last == NULL) {
        policy->first = rule;
    } else {
        policy->last->next = rule;
    }
    policy->last = rule;
    policy->count++;
    return OK;
}

struct fault policy_add(struct policy *policy, const char *name, struct span yaml, struct buf *why)
{
    CLEANUP(arena_freep) struct arena *arena = NULL;
    struct reading reading = { .policy = policy, .why = why };
    struct yaml_node *root = NULL;
    TRY(arena_text(policy->arena, span_text(name), &reading.file));
    TRY(arena_new(TREE_ARENA_MAX, &arena));
    TRY(yaml_tree_parse(arena, yaml, reading.file, why, &root));
    const struct yaml_node *rules = yaml_tree_get(root, "rules");
    if (root->kind != YAML_KIND_MAP || rules == NULL) {
        return reading_refuse(&reading, root->line, "one list is due: rules");
    }
    for (const struct yaml_node *child = root->first; child != NULL; child = child->next) {
        if (child != rules) {
            return reading_refuse(&reading, child->line, "'%.40s' is no key of this file; there is only rules",
                                  child->key);
        }
    }
    if (rules->kind != YAML_KIND_LIST || rules->count == 0) {
        return reading_refuse(&reading, rules->line, "rules: must be a list of at least one rule");
    }
    for (const struct yaml_node *node = rules->first; node != NULL; node = node->next) {
        TRY(take_rule(&reading, node));
    }
    return OK;
}

struct fault policy_new(struct policy **ret_policy)
{
    CLEANUP(policy_freep) struct policy *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    TRY(arena_new(POLICY_ARENA_MAX, &made->arena));
    *ret_policy = TAKE(made);
    return OK;
}

void policy_free(struct policy *policy)
{
    if (policy != NULL) {
        arena_free(policy->arena);
        mem_free(policy);
    }
}

struct fault policy_seal(struct policy *policy, const char *folder, struct buf *why)
{
    if (policy->count == 0) {
        if (why != NULL) {
            IGNORE(buf_printf(why, "%s: holds no *.yaml file with rules: everything would be denied\n", folder));
        }
        return FAULT(CONFIG);
    }
    return rules_digest(policy, policy->digest);
}
