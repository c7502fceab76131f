#include "api/tsa/internal.h"

#define POLICY_BYTES_MAX 4096

static struct fault add_policy(struct op *op, const char *key, const char *text, struct tsa_rules *rules)
{
    size_t start = rules->policy_bytes.len;
    if (FAULTED(der_oid_parse(text, &rules->policy_bytes))) {
        return op_fail_field(op, FAULT(CONFIG), key, "%s: \"%s\" is no dotted object identifier", key, text);
    }
    if (rules->policy_count == TSA_POLICIES_MAX) {
        return op_fail_field(op, FAULT(CONFIG), key, "%s: at most %d policies", key, TSA_POLICIES_MAX);
    }
    /* An offset for now: the buffer may move until all are in. */
    rules->policies[rules->policy_count++] = span_of(NULL, start);
    return OK;
}

static struct fault add_policies(struct op *op, const struct config *config, struct tsa_rules *rules)
{
    rules->policy_bytes = (struct buf)BUF_INIT(POLICY_BYTES_MAX);
    TRY(add_policy(op, "protocols.tsa.policy_oid", config->tsa_policy, rules));
    for (size_t i = 0; i < config->tsa_policies.count; i++) {
        TRY(add_policy(op, "protocols.tsa.policies", config->tsa_policies.at[i], rules));
    }
    size_t end = rules->policy_bytes.len;
    for (size_t i = rules->policy_count; i-- > 0;) {
        size_t start = rules->policies[i].len;
        rules->policies[i] = span_of(rules->policy_bytes.at + start, end - start);
        end = start;
    }
    return OK;
}

static struct fault add_hashes(struct op *op, const struct config *config, struct tsa_rules *rules)
{
    for (size_t i = 0; i < config->tsa_hashes.count; i++) {
        const struct tst_hash *hash = tst_hash_by_name(config->tsa_hashes.at[i]);
        if (hash == NULL) {
            return op_fail_field(op, FAULT(CONFIG), "protocols.tsa.hash_algorithms",
                                 "protocols.tsa.hash_algorithms: \"%s\" is none of sha256, sha384, sha512",
                                 config->tsa_hashes.at[i]);
        }
        rules->hashes[hash->id] = true;
    }
    if (config->tsa_hashes.count == 0) {
        return op_fail_field(op, FAULT(CONFIG), "protocols.tsa.hash_algorithms",
                             "protocols.tsa.hash_algorithms: name at least one of sha256, sha384, sha512");
    }
    return OK;
}

struct fault tsa_rules_init(struct op *op, const struct config *config, struct tsa_rules *ret_rules)
{
    CLEANUP(tsa_rules_clear) struct tsa_rules rules = { 0 };
    TRY(add_policies(op, config, &rules));
    TRY(add_hashes(op, config, &rules));
    *ret_rules = rules;
    rules = (struct tsa_rules){ 0 };
    return OK;
}

void tsa_rules_clear(struct tsa_rules *rules)
{
    buf_free(&rules->policy_bytes);
    *rules = (struct tsa_rules){ 0 };
}
