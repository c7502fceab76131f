/*
 * Inside the policy only: a rule as read, and who makes what of it.
 *     load.c     the folder: which files, in what order, how large
 *     rules.c    YAML to rules; values.c its scalars and lists; window.c the condition on time
 *     decide.c   rules and input to a decision, without any effect; glob.c matches
 *     print.c    rules as JSON: what the digest is over, and what people are shown; explain.c why a rule decides
 */
#ifndef API_POLICY_INTERNAL_H
#define API_POLICY_INTERNAL_H

#include "api/policy/policy.h"
#include "appliance/base/arena.h"
#include "appliance/base/json.h"
#include "appliance/base/yaml_tree.h"

#define POLICY_FILES_MAX      64u
#define POLICY_FILE_MAX       ((size_t)256 << 10) /* bytes of one file, */
#define POLICY_TOTAL_MAX      ((size_t)1 << 20)   /* and of all */
#define POLICY_RULES_MAX      1024u
#define POLICY_PATTERNS_MAX   64u /* of one condition */
#define POLICY_PATTERN_MAX    1024u
#define POLICY_RULE_NAME_MAX  64u
#define POLICY_FILE_NAME_MAX  128u
#define POLICY_REASON_MAX     200u
#define POLICY_APPROVERS_MAX  16
#define POLICY_SIGNINGS_MAX   1000000
#define POLICY_ARTIFACT_MAX   128 /* bytes of an artifact type in a question */
#define POLICY_JSON_MAX       ((size_t)16 << 20)
#define POLICY_MINUTES_OF_DAY 1440

#define POLICY_NO_RULE       "(no rule)"
#define POLICY_APPROVAL_RULE "ca.policy.require_approval"

/* In the order in which they are tested, so that explanations name the most telling one. */
enum condition {
    CONDITION_TENANT,
    CONDITION_MODE,
    CONDITION_PRINCIPAL,
    CONDITION_ROLE,
    CONDITION_KEY,
    CONDITION_ISSUER,
    CONDITION_SAN,
    CONDITION_ARTIFACT_TYPE,
    CONDITION_DIGEST_ALGORITHM,
    CONDITION_TEXTS, /* so many are lists of patterns; time is of its own kind */
    CONDITION_TIME = CONDITION_TEXTS,
    CONDITION_NONE,
};
const char *condition_text(enum condition condition); /* its key in the file; "" of NONE */

/* Patterns of one condition; none = the rule has no such condition. */
struct patterns {
    const char **at;
    size_t count;
};

/* When a rule holds, UTC. Without a bound: the extremes of its type. */
struct window {
    utc_us not_before, not_after; /* both inclusive */
    unsigned weekdays;            /* bit 0 = Monday; 0 = any day */
    int from, to; /* minutes of the day, `to` exclusive; from > to goes over midnight; equal = all day */
};
#define WINDOW_DAYS 7
extern const char *const window_days[WINDOW_DAYS]; /* "mon" first */
bool window_is_open(const struct window *window, utc_us now);

struct rule {
    struct rule *next;
    const char *name, *file;
    unsigned line;
    struct patterns when[CONDITION_TEXTS];
    const struct window *window; /* NULL = any time */
    enum policy_outcome outcome;
    const char *reason; /* of deny */
    unsigned approvers; /* of require_approval, as is what follows */
    int64_t window_us;  /* 0 = ca.policy.approval_window */
    int64_t max_signings;
};

struct policy {
    struct arena *arena; /* holds all that follows */
    struct rule *first, *last;
    size_t count;
    char digest[65]; /* over the rules alone */
};

/* What reading goes on with. A refusal is CONFIG and "file:line: what" in `why`. */
struct reading {
    struct policy *policy;
    const char *file;
    struct buf *why;  /* may be NULL */
    const char *rule; /* being read; NULL outside of one, or while it has no name */
};
struct fault reading_refuse(const struct reading *reading, unsigned line, const char *format, ...) PRINTF(3, 4);

/* Rules from memory: policy_new, policy_add for each file in order, policy_seal. `name` is copied. */
struct fault policy_new(struct policy **ret_policy);
struct fault policy_add(struct policy *policy, const char *name, struct span yaml, struct buf *why);
/* CONFIG when there is no rule; `folder` is named then. */
struct fault policy_seal(struct policy *policy, const char *folder, struct buf *why);

/* Scalars and lists of a rule's file. `what` begins the sentence of a refusal. */
struct fault value_text(const struct reading *reading, const struct yaml_node *node, const char *what,
                        const char **ret_text);
struct fault value_count(const struct reading *reading, const struct yaml_node *node, const char *what, int64_t max,
                         int64_t *ret_value);
struct fault value_patterns(const struct reading *reading, const struct yaml_node *node, enum condition condition,
                            struct patterns *ret_patterns);
struct fault value_window(const struct reading *reading, const struct yaml_node *node,
                          const struct window **ret_window);

/* `*` within the pattern matches any run of bytes, the empty one too; all else itself. Time at most the product of
 * both lengths, whatever they hold. */
bool glob_matches(const char *pattern, const char *text);
/* NULL, or what is wrong with it: empty, too long, control characters, `**`, or signs of other languages of patterns
 * (? [ ] { } \), which would not do here what a reader takes them for. */
const char *glob_complaint(const char *pattern);

/* The first condition of the rule that does not hold, in the order of the enum; NONE when the rule decides. */
enum condition rule_fails_on(const struct rule *rule, const struct may_sign *input);
/* Whether the rule can ever concern this tenant: others' rules are not shown. */
bool rule_concerns(const struct rule *rule, const char *tenant);

/* The conditions as a JSON object. With a tenant, its own patterns of tenants only; NULL = all. */
void rule_print_when(struct jout *jout, const struct rule *rule, const char *tenant);
/* Hex digest over the rules' canonical form (not their files and lines, which decide nothing). */
struct fault rules_digest(const struct policy *policy, char ret_text[65]);

/* Whole answers; `policy` may be NULL. */
void policy_print(struct jout *jout, const struct policy *policy, const struct config *config, const char *tenant);
void policy_explain(struct jout *jout, const struct policy *policy, const struct config *config,
                    const struct may_sign *input);

struct request;
struct explain_body {
    const char *principal, *key_id, *key_name, *mode, *issuer, *san, *artifact_type, *digest_algorithm;
    struct jin_texts roles;
    utc_us at;
};
struct fault route_policy_explain(struct request *request);
struct fault route_policy_get(struct request *request);

#endif
