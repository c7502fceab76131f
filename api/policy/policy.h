/*
 * The may-sign policy: ordered rules from policy_dir/codesign/ (files in name order, rules in file order), read once at
 * start. The first rule whose every condition holds decides; what no rule decides is denied. Deciding is pure: the same
 * rules, input and time give the same decision, nothing is read or written.
 *
 *     rules:
 *       - name: releases-need-two    # a-z A-Z 0-9 - _; unique over all files
 *         when:                      # needed; {} = always. Every condition that is given must hold; a list holds when
 *           tenant: [default]        # one of it matches; `*` within a text matches any run of characters, nothing else
 *           principal: ["ci-*"]      # is special
 *           role: [ci]
 *           key: ["release-*"]       # name or id of the key; never matches a keyless signing
 *           mode: key                # key or keyless
 *           artifact_type: [tarball, "oci-*"]
 *           digest_algorithm: [sha256]
 *           issuer: ["https://token.actions.githubusercontent.com"]     # of a verified keyless identity
 *           san: ["https://github.com/acme/app*"]
 *           time: {not_before: 2026-01-01T00:00:00Z, not_after: ..., weekdays: [mon, tue], from: "08:00", to: "18:00"}
 *         then: require_approval     # allow, deny or require_approval
 *         approvers: 2               # of require_approval: 1 to 16; 1 when not given
 *         window: 8h                 # how long an approval permits signing; ca.policy.approval_window when not given
 *         max_signings: 3            # under one approval; without limit when not given
 *         reason: "..."              # of deny, and needed there: told to the caller
 *
 * Times are UTC. not_before and not_after are inclusive; `from` is inclusive, `to` is not and may be "24:00". A window
 * over midnight (from: "22:00", to: "06:00") belongs to the day on which it opens: with weekdays: [fri] it ends on
 * Saturday at 06:00. A rule that could never match (an issuer with mode: key, a `key` with mode: keyless) is refused,
 * as is every key that does not go with the outcome.
 */
#ifndef API_POLICY_POLICY_H
#define API_POLICY_POLICY_H

#include "api/feature.h"
#include "appliance/base/config.h"
#include "signer-pkcs11/protocol/key.h"

extern const struct feature policy_feature;

struct policy;

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
    unsigned line;        /* of the rule; 0 for the two former */
    const char *reason;   /* of deny, never NULL there; NULL otherwise */
    unsigned approvers;   /* >= 1 of APPROVE, else 0 */
    int64_t window_us;    /* of APPROVE */
    int64_t max_signings; /* of APPROVE; 0 = without limit */
};

/* Reads the rules, whatever ca.policy.enabled says. CONFIG with "file:line: what" in `why` (may be NULL). No file at
 * all is refused, too: it would deny everything. At most 64 regular files *.yaml of 256 KiB, 1 MiB and 1024 rules in
 * all. */
struct fault policy_load(const struct config *config, struct buf *why, struct policy **ret_policy);
void policy_free(struct policy *policy);
DEFINE_FREEP(struct policy, policy_free)

/* `policy` is NULL where ca.policy.enabled is false: then everything is allowed. NULL although it is true (the rules
 * are not loaded yet, or not any more) denies. ca.policy.require_approval turns an allow into one approval. */
void policy_decide(const struct policy *policy, const struct config *config, const struct may_sign *input,
                   struct policy_decision *ret_decision);
/* naming.c: how many rules that concern the tenant have a condition on keys that this key meets; 0 for a NULL policy. A
 * rule without such a condition holds for every key and names none. */
size_t policy_rules_naming(const struct policy *policy, const char *tenant, const char *key_id, const char *key_name);
/* naming.c: how many rules can concern the tenant; 0 for a NULL policy. */
size_t policy_rules_concerning(const struct policy *policy, const char *tenant);
/* 64 hex digits over all rules and the ca.policy settings: part of a preview's configuration. "" for NULL policy is
 * not used: it is the digest of the settings alone. Comments, file names and lines are no part of it. */
void policy_digest(const struct policy *policy, const struct config *config, char ret_text[65]);

#endif
