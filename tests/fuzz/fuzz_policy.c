/* rooms: policy server signer_client signer_protocol base */
/* Rules of anybody, then a question. What is refused is told with its line; what is accepted decides the same way
 * twice, as its explanation says, and can be printed. Behind a NUL stand the texts of the question, one a line. */
#include "api/policy/internal.h"

#include "appliance/base/utf8.h"

#define TEXT_MAX ((size_t)64 << 10)
#define ASKED    10

static void ask(struct arena *arena, struct span question, struct may_sign *input)
{
    const char *texts[ASKED] = { 0 };
    for (size_t i = 0; i < ASKED && question.len > 0; i++) {
        const uint8_t *end = memchr(question.at, '\n', question.len);
        size_t len = end != NULL ? (size_t)(end - question.at) : question.len;
        if (FAULTED(arena_text(arena, span_of(question.at, len), &texts[i])) ||
            FAULTED(utf8_check(span_of(question.at, len)))) {
            texts[i] = NULL;
        }
        size_t step = end != NULL ? len + 1 : len;
        question = span_of(question.at + step, question.len - step);
    }
    const char **roles = NULL;
    BUG_IF(FAULTED(arena_take(arena, 1, sizeof(*roles), &roles)));
    roles[0] = texts[2];
    *input = (struct may_sign){ .tenant = texts[0] != NULL ? texts[0] : "default",
                                .principal = texts[1],
                                .roles = roles,
                                .role_count = texts[2] != NULL ? 1 : 0,
                                .key_id = texts[3],
                                .key_name = texts[4],
                                .issuer = texts[5],
                                .san = texts[6],
                                .artifact_type = texts[7],
                                .digest_algorithm = texts[8] };
    input->keyless = input->issuer != NULL && input->issuer[0] != '\0';
    if (texts[9] == NULL || FAULTED(rfc3339_parse(span_text(texts[9]), &input->now))) {
        input->now = 0;
    }
}

static void check_rules(const struct policy *policy)
{
    size_t count = 0;
    for (const struct rule *rule = policy->first; rule != NULL; rule = rule->next, count++) {
        BUG_IF(rule->line == 0 || rule->name[0] == '\0' || rule->name[0] == '(');
        BUG_IF((rule->outcome == POLICY_APPROVE) != (rule->approvers > 0) || rule->approvers > POLICY_APPROVERS_MAX);
        BUG_IF((rule->outcome == POLICY_DENY) != (rule->reason != NULL));
        BUG_IF(rule->outcome != POLICY_APPROVE && (rule->window_us != 0 || rule->max_signings != 0));
        for (enum condition condition = 0; condition < CONDITION_TEXTS; condition++) {
            for (size_t i = 0; i < rule->when[condition].count; i++) {
                BUG_IF(glob_complaint(rule->when[condition].at[i]) != NULL);
            }
        }
    }
    BUG_IF(count != policy->count || count == 0);
}

static void check_decision(const struct policy *policy, const struct config *config, const struct may_sign *input)
{
    struct policy_decision one, two;
    policy_decide(policy, config, input, &one);
    policy_decide(policy, config, input, &two);
    BUG_IF(one.outcome != two.outcome || one.rule != two.rule || one.line != two.line);
    const struct rule *rule = policy->first;
    while (rule != NULL && rule_fails_on(rule, input) != CONDITION_NONE) {
        rule = rule->next;
    }
    BUG_IF(rule != NULL ? one.rule != rule->name : one.outcome != POLICY_DENY);
    BUG_IF(rule != NULL && !rule_concerns(rule, input->tenant)); /* a rule that decides may be shown */

    CLEANUP(buf_free) struct buf json = BUF_INIT((size_t)4 << 20);
    CLEANUP(buf_free) struct buf canonical = BUF_INIT((size_t)4 << 20);
    struct jout jout;
    jout_init(&jout, &json);
    policy_explain(&jout, policy, config, input);
    BUG_IF(FAULTED(jout_end(&jout)) || FAULTED(json_canonical(buf_span(&json), &canonical)));
    buf_clear(&json);
    buf_clear(&canonical);
    jout_init(&jout, &json);
    policy_print(&jout, policy, config, input->tenant);
    BUG_IF(FAULTED(jout_end(&jout)) || FAULTED(json_canonical(buf_span(&json), &canonical)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(arena_freep) struct arena *arena = NULL;
    CLEANUP(policy_freep) struct policy *policy = NULL;
    CLEANUP(buf_free) struct buf why = BUF_INIT(TEXT_MAX);
    const struct config config = { .policy_enabled = true, .approval_window = 3600 * NS_PER_S };
    const uint8_t *nul = size > 0 ? memchr(data, 0, size) : NULL;
    struct span yaml = span_of(data, nul != NULL ? (size_t)(nul - data) : size);
    struct span question = nul != NULL ? span_of(nul + 1, size - yaml.len - 1) : span_of(NULL, 0);
    struct may_sign input;
    BUG_IF(FAULTED(arena_new((size_t)4 << 20, &arena)) || FAULTED(policy_new(&policy)));
    ask(arena, question, &input);
    struct fault fault = policy_add(policy, "fuzz.yaml", yaml, &why);
    if (!FAULTED(fault)) {
        fault = policy_seal(policy, "fuzz", &why);
    }
    if (FAULTED(fault)) {
        BUG_IF(fault.code != FAULT_CONFIG || why.len < 12 || memcmp(why.at, "fuzz.yaml:", 10) != 0);
        BUG_IF(why.at[why.len - 1] != '\n' || FAULTED(utf8_check(buf_span(&why))));
        return 0;
    }
    BUG_IF(why.len != 0);
    check_rules(policy);
    check_decision(policy, &config, &input);
    return 0;
}
