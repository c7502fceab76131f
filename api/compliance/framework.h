/*
 * Compliance frameworks as data: policies/frameworks/<id>.yaml, one for each of the fifteen ids. A framework names the
 * controls that this service can evidence; a control its prerequisites, all of which have to resolve inside the
 * evidence window; and what is left to operator and auditor stands as gaps, by name.
 *
 *     id: soc2
 *     catalogue: { name: "...", version: "..." }
 *     controls:
 *       - id: CC7
 *         title: ...
 *         prerequisites:
 *           - { name: policy-decision, title: ..., kind: event, types: [codesign.refused, ...], min: 1,
 *               where: [ { of: codesign.refused, path: data.code, is: [policy_denied] } ],
 *               max_age_days: 30, distinct_actors: 2, recovery: "..." }
 *           - { name: custody, title: ..., kind: fact, fact: custody.recorded, recovery: "..." }
 *           - { name: access-policy, title: ..., kind: attestation, statement: access-policy, ... }
 *     gaps:
 *       - { id: cpa-examination, title: ..., owner: auditor }
 *       - { id: management-assertion, title: ..., owner: operator, statement: management-assertion }
 *
 * A condition is { path, and one of is: [...], is_not: [...], present: true, differs_from: path }, and `of` where it is
 * about one of several types, or about a family of them ("key.*"). In is and is_not a value that ends in * stands for
 * all that begin so. min, where, distinct_actors and max_age_days may be left out.
 *
 * A gap with a statement is filled by an operator's attestation of that statement with exact evidence; one without,
 * never. Pure: no clock, no store. Loaded once at start; a file that is not as it must be fails the start and says
 * where.
 */
#ifndef API_COMPLIANCE_FRAMEWORK_H
#define API_COMPLIANCE_FRAMEWORK_H

#include "appliance/base/op.h"

#define FRAMEWORKS              15
#define FRAMEWORK_CONTROLS_MAX  64
#define FRAMEWORK_PREREQ_MAX    16                                              /* of one control */
#define FRAMEWORK_TYPES_MAX     16                                              /* of one prerequisite */
#define FRAMEWORK_CONDITION_MAX 4                                               /* of one prerequisite, in its file */
#define FRAMEWORK_WHERE_MAX     (FRAMEWORK_CONDITION_MAX * FRAMEWORK_TYPES_MAX) /* with families spelled out */

enum prerequisite_kind { PREREQUISITE_EVENT, PREREQUISITE_FACT, PREREQUISITE_ATTESTATION };
enum gap_owner { GAP_OPERATOR, GAP_AUDITOR };

/* A member of the record, by path ("data.verdict", "actor.subject"). One of: is any of `values` (as text; true, false
 * and numbers too); is none of `except`; `present`; or differs from the member `differs_from` (an approver from the
 * requester). A record that lacks the member, or has no single value there, does not meet `present`; for the other
 * three it is malformed, and counted as such. Conditions are judged in order, and the first that does not hold ends it.
 */
struct framework_condition {
    const char *of; /* asked of records of this type only; NULL = of all types of the prerequisite */
    const char *path;
    const char *const *values;
    size_t value_count;
    const char *const *except;
    size_t except_count;
    bool present;
    const char *differs_from; /* NULL = not asked */
};
struct framework_prerequisite {
    const char *name;     /* unique within its control: what a gap names */
    const char *title;    /* one line, for people */
    const char *recovery; /* what to do about it when it is missing */
    enum prerequisite_kind kind;
    /* of an event */
    const char *const *types;
    size_t type_count;
    const struct framework_condition *where;
    size_t where_count;
    int64_t min;             /* matching events at least; 1 when not said */
    int64_t distinct_actors; /* subjects at least among them; 0 = not asked */
    /* of a fact: a name of api/inventory/fact.def */
    const char *fact;
    /* of an attestation */
    const char *statement;
    /* of all: how old the newest event, the snapshot, the attestation may be, at most the window's days; 0 = the window
     * says it all */
    int64_t max_age_days;
};
struct framework_control {
    const char *id; /* as the catalogue writes it */
    const char *title;
    const struct framework_prerequisite *prerequisites;
    size_t prerequisite_count; /* at least 1 */
};
struct framework_gap {
    const char *id, *title;
    enum gap_owner owner;
    const char *statement; /* NULL = nothing that this service takes fills it */
};
struct framework {
    const char *id, *catalogue, *version;
    const struct framework_control *controls;
    size_t control_count;
    const struct framework_gap *gaps;
    size_t gap_count;
};

/* The ids, in the order of the contract; index 0..FRAMEWORKS-1. */
const char *framework_id(size_t index);
bool framework_known(const char *id);

struct frameworks;
/* All fifteen from `folder`. CONFIG with a note: file, line, what is wrong (a missing file, an unknown key, fact, event
 * type shape, a control without prerequisites, a name twice). */
struct fault frameworks_load(struct op *op, const char *folder, struct frameworks **ret_frameworks);
void frameworks_free(struct frameworks *frameworks);
DEFINE_FREEP(struct frameworks, frameworks_free)
const struct framework *frameworks_get(const struct frameworks *frameworks, const char *id); /* NULL: no such id */
/* One file's text (tests, fuzzing). */
struct fault framework_parse(struct op *op, const char *id, struct span yaml, const struct framework **ret_framework);

#endif
