/*
 * Approvals: who may let somebody else's signing pass. A request is made by the event that refused a signing for want
 * of an approval; it names a resource, "approval_required:codesign:<sha256>", that binds tenant, requester, key or
 * keyless identity, and exact digest. Approvers (certs:issue, somebody else than the requester, each counted once)
 * approve or deny it. With enough of them it is approved until its window ends, for so many signings as its rule says.
 *
 *     pending -> approved      enough distinct approvers
 *     pending, approved -> denied      one denial is enough; for good
 *     pending, approved -> expired     by time; a new refusal of the same resource opens it again
 *
 * Events (lane "approvals" where approvers decide; approval.requested travels in the refusal's own message):
 *   approval.requested {request_id, resource, action, requester, subject_of, approvers, window_us, max_signings, rule}
 *   approval.granted   {request_id, resource, approver, reason}
 *   approval.denied    {request_id, resource, approver, reason}
 *   approval.used      {request_id, resource, operation_id, use}       one more signing under an approval with a limit
 */
#ifndef API_APPROVALS_APPROVALS_H
#define API_APPROVALS_APPROVALS_H

#include "api/feature.h"
#include "api/services.h"

extern const struct feature approvals_feature;

#define APPROVALS_LANE        "approvals"
#define APPROVAL_RESOURCE_MAX 96
#define APPROVAL_CODESIGN     "approval_required:codesign:" /* and 64 hex digits */

enum approval_state {
    APPROVAL_NONE, /* never asked for, or expired: a refusal asks (again) */
    APPROVAL_PENDING,
    APPROVAL_APPROVED, /* and a signing is left under it */
    APPROVAL_USED_UP,  /* approved, and all its signings are made: a refusal asks again */
    APPROVAL_DENIED,
};
struct approval_status {
    enum approval_state state;
    struct uuid request_id; /* "" for NONE */
    unsigned approvals, needed;
    utc_us expires;             /* of the window; 0 = not running */
    int64_t uses, max_signings; /* max 0 = without limit */
    const char *denied_by;      /* of DENIED */
};

/* How the resource stands at `now`, from the read model. Scope: op's tenant. `needed`, `window` and `limit` are the
 * present rule's: an approval that was given by fewer approvers than are needed now is PENDING. */
struct fault approvals_status(struct op *op, struct services *services, const char *resource, unsigned needed,
                              utc_us now, struct approval_status *ret_status);

/* The data of an approval.requested event, for the message that refuses. */
struct approval_ask {
    const char *resource, *requester, *rule;
    const char *action; /* "sign" */
    const char *about;  /* canonical JSON object that approvers are shown: key, artifact type, digest ... */
    unsigned approvers;
    int64_t window_us, max_signings;
    struct uuid operation_id; /* what was refused */
};
struct fault approvals_print_requested(const struct approval_ask *ask, struct buf *out);

/* Takes one signing of an approval that limits them, by approval.used with a deterministic message id: the same
 * operation never counts twice. Concurrent ones meet at the lane's expected sequence and decide again. OK when this
 * operation may sign; APPROVAL_REQUIRED when none is left. Without a limit it only checks the state. */
struct fault approvals_use(struct op *op, struct services *services, const char *resource, unsigned needed,
                           struct uuid operation_id, utc_us now);

#endif
