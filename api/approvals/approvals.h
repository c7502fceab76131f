/*
 * Approvals: who may let somebody else's signing pass. A request is made by the event that refused a signing for want
 * of an approval; it names a resource, "approval_required:codesign:<sha256>", that binds tenant, requester, key or
 * keyless identity, and exact digest. Approvers (certs:issue, somebody else than the requester, each counted once)
 * approve or deny it. With enough of them it is approved until its window ends, for so many signings as its rule says.
 *
 *     pending -> approved              enough distinct approvers; the window begins, and with it the signings
 *     pending, approved -> denied      one denial is enough; it holds for one window from then, and nothing undoes it
 *     approved -> used up              all its signings are made
 *     pending -> expired               one window after the request
 *     approved -> expired              one window after it became approved
 *     pending, approved -> replaced    the present rule asks for other approvers (below)
 *
 * A resource has one request that counts, its newest. Where a resource stands is a function of that row and the time:
 * nothing is written when a window ends. The refusals that a requester gets open a new request when there is none that
 * counts: never asked, expired, used up, or a denial whose window has passed. While one is open a further
 * approval.requested of the same resource changes nothing, with one exception: it replaces a pending request that asks
 * for another number of approvers, and an approved one that asked for fewer. The terms of a request (approvers, window,
 * signings) are those that its approvers were shown; a rule that changes later does not stretch them.
 *
 * Events (lane "approvals" where approvers decide; approval.requested travels in the refusal's own message):
 *   approval.requested {request_id, resource, action, requester, rule, about, approvers, window_us, max_signings,
 *                       operation_id}
 *   approval.granted   {request_id, resource, action, requester, approver, reason, approved}
 *                                                                      approved: the last one due
 *   approval.denied    {request_id, resource, action, requester, approver, reason}
 *   approval.used      {request_id, resource, operation_id, use}       one more signing under an approval with a limit
 *
 * Who decides is the projection: it counts a decision or a use only where the request still takes it. The commands wait
 * for it and answer what it recorded; the lane's expected sequence keeps what would not count out of the log.
 */
#ifndef API_APPROVALS_APPROVALS_H
#define API_APPROVALS_APPROVALS_H

#include "api/feature.h"
#include "api/services.h"

extern const struct feature approvals_feature;

#define APPROVALS_LANE         "approvals"
#define APPROVAL_RESOURCE_MAX  96
#define APPROVAL_CODESIGN      "approval_required:codesign:"    /* and 64 hex digits */
#define APPROVAL_KEY_DESTROY   "approval_required:key-destroy:" /* likewise; who asks is who would destroy */
#define APPROVAL_ERASURE       "approval_required:erasure:"     /* likewise; of a privacy erasure */
#define APPROVAL_APPROVERS_MAX 64
#define APPROVAL_RULE_MAX      256
#define APPROVAL_ACTION_MAX    32
#define APPROVAL_ABOUT_MAX     ((size_t)32 << 10)

enum approval_state {
    APPROVAL_NONE, /* never asked for, expired, or asked of other approvers than the present rule's: a refusal asks */
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

/* How the resource stands at `now`, from the read model. Scope: op's tenant. `needed` is the present rule's number of
 * approvers: a pending request of another number, or an approval by fewer, is NONE; the refusal that follows replaces
 * it. Results live in op's arena. */
struct fault approvals_status(struct op *op, struct services *services, const char *resource, unsigned needed,
                              utc_us now, struct approval_status *ret_status);

/* The data of an approval.requested event, for the message that refuses; appended to `out`. BAD_ARGUMENT when it is
 * not what the projection takes, TOO_LARGE beyond out's bound or APPROVAL_ABOUT_MAX. The request's id follows from
 * resource and operation: one refused operation asks once. */
struct approval_ask {
    const char *resource, *requester, *rule;
    const char *action; /* "sign", "destroy" */
    const char *about;  /* canonical JSON object that approvers are shown: key, artifact type, digest ... */
    unsigned approvers; /* 1..APPROVAL_APPROVERS_MAX */
    int64_t window_us;  /* > 0 */
    int64_t max_signings;
    struct uuid operation_id; /* what was refused */
};
struct fault approvals_print_requested(const struct approval_ask *ask, struct buf *out);

/* Takes one signing of an approval that limits them, by approval.used with a deterministic message id: the same
 * operation never counts twice, and a retry of one that has its signing gets it again whatever the resource's newer
 * requests say (unless its own was denied meanwhile), so ask whatever approvals_status says. Concurrent ones meet at
 * the lane's expected sequence and decide again. OK when this operation may sign; APPROVAL_REQUIRED when none is left
 * or nothing is approved, APPROVAL_DENIED; LOG_CONFLICT (retry later) when the lane never stood still. Without a limit
 * it only checks the state. The note names the resource. `now` is the moment as of which the window is judged. */
struct fault approvals_use(struct op *op, struct services *services, const char *resource, unsigned needed,
                           struct uuid operation_id, utc_us now);

#endif
