/*
 * The one evaluator: facts in, verdicts out. Pure: no clock, no store, no randomness; the same facts give the same
 * verdicts. Whoever loads facts (load.c) reads them within one snapshot of the read model and streams records through
 * gather_take, so that memory does not grow with the log.
 *
 * A prerequisite is met, or it is a gap, with the closed state that says why:
 *     met, missing (nothing found), stale (found, too old), insufficient (too few, or too few actors), failed (the fact
 *     was looked at and does not hold), malformed (what was found cannot be read), foreign (it names another tenant)
 * A control is evidenced when all its prerequisites are met, else it is a gap that lists exactly those that are not.
 */
#ifndef API_COMPLIANCE_EVALUATE_H
#define API_COMPLIANCE_EVALUATE_H

#include "api/compliance/framework.h"
#include "appliance/base/clock.h"
#include "appliance/base/json.h"

#define EVIDENCE_WINDOW_DAYS    90
#define EVIDENCE_REFERENCES_MAX 8 /* of one prerequisite: the newest, and the first that make up actors */

struct evidence_window {
    utc_us from, to; /* inclusive */
};

enum prerequisite_state {
    STATE_MET,
    STATE_MISSING,
    STATE_STALE,
    STATE_INSUFFICIENT,
    STATE_FAILED,
    STATE_MALFORMED,
    STATE_FOREIGN,
    STATE_COUNT
};
const char *prerequisite_state_text(enum prerequisite_state state);

/* A record of the audit trail as evidence. */
struct evidence_event {
    struct tenant_id tenant;
    const char *event_id, *type, *actor;
    int64_t sequence;
    utc_us time;
    struct sha256 chain;
    struct span record; /* canonical JSON; parsed only where a condition asks */
    bool looked_at; /* it is certainly canonical and says the same tenant and type: nothing is left but conditions */
};
/* A reference as it stands in the manifest; texts are the op's. */
struct evidence_reference {
    bool is_object; /* current inventory; else an event */
    const char *event_id, *type;
    int64_t sequence;
    utc_us time; /* of the observation, or of the snapshot */
    struct sha256 chain;
    const char *object;          /* "custody-summary:default" */
    const char *evidence_sha256; /* of an attestation's evidence: hex; NULL = none */
};
/* What an auditor needs to test that a count is complete. total = matched + the excluded ones. */
struct evidence_population {
    int64_t total; /* records of the asked types in the window (or objects of the fact) */
    int64_t matched;
    int64_t excluded_condition, excluded_malformed, excluded_stale, excluded_foreign;
    int64_t excluded_archived; /* in the window, and no longer served: not looked at */
};

/* What one prerequisite of kind event has found so far. */
struct gathering {
    const struct framework_prerequisite *prerequisite;
    struct tenant_id tenant;
    struct evidence_window window;
    struct evidence_population population;
    int64_t newest_malformed; /* sequence; 0 = none */
    utc_us newest;            /* of matching ones; INT64_MIN = none */
    utc_us newest_stale;      /* matching but for its age; INT64_MIN = none */
    const char **actors;      /* distinct subjects, up to what is asked */
    size_t actor_count;
    struct evidence_reference references[EVIDENCE_REFERENCES_MAX];
    size_t reference_count;
};
void gathering_init(struct gathering *gathering, const struct framework_prerequisite *prerequisite,
                    struct tenant_id tenant, struct evidence_window window);
/* Takes a record of one of the asked types in the window: newest first. Keeps what it needs in op's arena (bounded by
 * the prerequisite, not by the records); `scratch`'s arena is used for parsing and is the caller's to clear. */
struct fault gather_take(struct op *op, struct op *scratch, struct gathering *gathering,
                         const struct evidence_event *event);
/* Many records that need no looking at (no condition): they count, and that is all. */
void gather_count(struct gathering *gathering, int64_t count);

/* A fact of current inventory or posture (api/inventory/fact.def), as read in the snapshot. */
enum fact_state { FACT_ABSENT, FACT_HOLDS, FACT_FAILS, FACT_MALFORMED };
struct evidence_fact {
    const char *name;
    enum fact_state state;
    struct tenant_id tenant;
    utc_us snapshot;
    const char *object;     /* the tenant's object that says so: "custody-summary:default" */
    const char *why;        /* one sentence: what holds, or what does not, with numbers; no secrets */
    int64_t total, matched; /* objects looked at, and those that are as they should be */
};
/* An operator's attestation of a statement (api/inventory): the newest of each statement that was not withdrawn. For a
 * prerequisite it counts when it was made inside the window and has not ended: attest again in each window. For a gap
 * it counts as well when it is older and says itself until when it holds. */
struct evidence_attestation {
    const char *statement;
    struct tenant_id tenant;
    bool malformed;
    utc_us made, expires;            /* expires 0 = never */
    const char *evidence_sha256;     /* hex of the exact evidence */
    struct evidence_reference event; /* that recorded it */
};
struct evidence_facts {
    struct tenant_id tenant;
    struct evidence_window window;
    const struct evidence_fact *facts;
    size_t fact_count;
    const struct evidence_attestation *attestations;
    size_t attestation_count;
    /* One for each prerequisite of kind event, in the framework's order of controls and prerequisites. */
    const struct gathering *gatherings;
    size_t gathering_count;
};

struct prerequisite_verdict {
    const struct framework_prerequisite *prerequisite;
    enum prerequisite_state state;
    const char *why;               /* one sentence, with numbers */
    struct evidence_window window; /* what was looked at: max_age_days makes it shorter */
    struct evidence_population population;
    const struct evidence_reference *references;
    size_t reference_count;
};
struct control_verdict {
    const struct framework_control *control;
    bool evidenced;
    const struct prerequisite_verdict *prerequisites; /* prerequisite_count of the control */
};
struct gap_verdict {
    const struct framework_gap *gap;
    const struct evidence_attestation *attested; /* NULL: still open */
    enum prerequisite_state state;               /* of the attestation: MET, MISSING, STALE, MALFORMED, FOREIGN */
};
struct framework_verdict {
    const struct framework *framework;
    const struct control_verdict *controls; /* control_count */
    const struct gap_verdict *gaps;         /* gap_count */
    size_t evidenced;                       /* controls */
};
/* Results in op's arena. BUG_IF the gatherings are not the framework's. */
struct fault framework_evaluate(struct op *op, const struct framework *framework, const struct evidence_facts *facts,
                                struct framework_verdict *ret_verdict);

#endif
