/*
 * The may-sign policy: ordered rules from policy_dir/codesign/ (files in name order, rules in file order), read once at
 * start. The first rule whose every condition holds decides; what no rule decides is denied. Deciding is pure: the same
 * rules, input and time give the same decision, nothing is read or written.
 *
 *     rules:
 *       - name: releases-need-two
 *         when:                      # every condition that is given must hold; a list holds when one of it matches;
 *           tenant: [default]        # `*` within a text matches any run of characters
 *           principal: ["ci/*"]
 *           role: [ci]
 *           key: ["release-*"]       # name or id of the key; never matches a keyless signing
 *           mode: key                # key or keyless
 *           artifact_type: [tarball, "oci-*"]
 *           digest_algorithm: [sha256]
 *           issuer: ["https://token.actions.githubusercontent.com"]     # of a verified keyless identity
 *           san: ["https://github.com/acme/*"]
 *           time: {not_before: 2026-01-01T00:00:00Z, not_after: ..., weekdays: [mon, tue], from: "08:00", to: "18:00"}
 *         then: require_approval     # allow, deny or require_approval
 *         approvers: 2               # of require_approval; 1 when not given
 *         window: 8h                 # how long an approval permits signing; ca.policy.approval_window when not given
 *         max_signings: 3            # under one approval; without limit when not given
 *         reason: "..."              # of deny: told to the caller
 */
#ifndef API_POLICY_POLICY_H
#define API_POLICY_POLICY_H

#include "api/feature.h"
#include "appliance/base/config.h"
#include "signer-pkcs11/protocol/key.h"

extern const struct feature policy_feature;

/* What is asked. Texts are borrowed; NULL = there is none (then no condition on it holds). */
struct may_sign {
    const char *tenant, *principal;
    const char *const *roles;
    size_t role_count;
    bool keyless;
    const char *key_id, *key_name; /* of a key-based signing */
    const char *issuer, *san;      /* of a verified keyless identity */
    const char *artifact_type, *digest_algorithm;
    utc_us now;
};

enum policy_outcome { POLICY_ALLOW, POLICY_DENY, POLICY_APPROVE };
const char *policy_outcome_text(enum policy_outcome outcome); /* "allow", "deny", "require_approval" */

/* Texts live as long as the policy, or are constant. */
struct policy_decision {
    enum policy_outcome outcome;
    const char *rule;     /* its name; "(no rule)" when none matched; "ca.policy.require_approval" when that decided */
    const char *file;     /* "10-releases.yaml"; "" for the two former */
    unsigned line;        /* of the rule */
    const char *reason;   /* of deny; NULL otherwise */
    unsigned approvers;   /* >= 1 of APPROVE, else 0 */
    int64_t window_us;    /* of APPROVE */
    int64_t max_signings; /* of APPROVE; 0 = without limit */
};

/* Reads the rules. CONFIG with "file:line: what" in `why`. No file at all is refused, too: it would deny everything. */
struct fault policy_load(const struct config *config, struct buf *why, struct policy **ret_policy);
void policy_free(struct policy *policy);
DEFINE_FREEP(struct policy, policy_free)

/* `policy` may be NULL (ca.policy.enabled is false): then everything is allowed. ca.policy.require_approval turns an
 * allow into one approval. */
void policy_decide(const struct policy *policy, const struct config *config, const struct may_sign *input,
                   struct policy_decision *ret_decision);
/* 64 hex digits over all rules and the ca.policy settings: part of a preview's configuration. "" for NULL policy is
 * not used: it is the digest of the settings alone. */
void policy_digest(const struct policy *policy, const struct config *config, char ret_text[65]);

#endif
