/* What the files of api/approvals/ share. */
#ifndef API_APPROVALS_INTERNAL_H
#define API_APPROVALS_INTERNAL_H

#include "api/approvals/approvals.h"
#include "api/server/request.h"

#define APPROVAL_REASON_MAX   512
#define APPROVAL_WINDOW_MAX   (366LL * 24 * 3600 * US_PER_S)
#define APPROVAL_RESOURCE_HEX 64
/* How often a lane that moved on is read again before the caller is asked to come later. Every round one of those who
 * meet there gets through. */
#define DECIDE_AGAIN_MAX      32
#define USE_AGAIN_MAX         64

extern const struct metric approvals_metrics[1];
#define APPROVALS_TOTAL (&approvals_metrics[0]) /* {decision} */

/* ---- state.c: pure ---- */

/* One request as the read model has it. Texts live in op's arena. */
struct approval_row {
    struct uuid id, operation_id;
    const char *resource, *action, *requester, *rule;
    const char *about;  /* canonical JSON object */
    const char *stored; /* pending, approved, denied, replaced */
    int64_t needed, approvals, uses, max_signings, window_us, made_seq;
    const char *denied_by; /* NULL = nobody */
    utc_us created, decided /* 0 = not yet */, expires;
};

/* How a request stands at a time. */
enum approval_standing {
    STANDING_PENDING,
    STANDING_APPROVED,
    STANDING_USED_UP,
    STANDING_DENIED,
    STANDING_EXPIRED,
    STANDING_REPLACED,
    STANDING_COUNT,
};
const char *approval_standing_text(enum approval_standing standing);
bool approval_standing_parse(const char *text, enum approval_standing *ret_standing);
enum approval_standing approval_standing_at(const struct approval_row *row, utc_us now);
/* NULL: there is no request. */
void approval_status_of(const struct approval_row *newest, unsigned needed, utc_us now,
                        struct approval_status *ret_status);
/* One of the heads of approvals.h and 64 lower-case hex digits. */
bool approval_resource_valid(const char *resource);

/* ---- queries.c: results live in op's arena ---- */

enum approval_verdict { VERDICT_GRANTED, VERDICT_DENIED };
const char *approval_verdict_text(enum approval_verdict verdict); /* "granted", "denied" */

struct approval_decision {
    const char *approver, *verdict, *reason; /* reason "" = none given */
    utc_us time;
};
/* What a decision rests on, read in this order: the lane's last sequence, the request (found=false: there is none), and
 * the approver's earlier decision of the same verdict (decided=false: none). */
struct approval_case {
    uint64_t lane;
    bool found, decided;
    struct approval_row row;
    struct approval_decision decision;
};
struct fault approval_case_read(struct op *op, struct services *services, struct uuid id, const char *approver,
                                enum approval_verdict verdict, struct approval_case *ret_case);
/* The same for a signing: the resource's newest request, and whether the operation has its signing already. */
struct approval_use_case {
    uint64_t lane;
    bool found;
    struct approval_row row;
    bool used, used_denied; /* under whichever request of the resource; and that one was denied */
};
struct fault approval_use_case_read(struct op *op, struct services *services, const char *resource,
                                    struct uuid operation_id, struct approval_use_case *ret_case);
/* NOT_FOUND. */
struct fault approval_get(struct op *op, struct services *services, struct uuid id, struct approval_row *ret_row);
struct fault approval_newest(struct op *op, struct services *services, const char *resource, bool *ret_found,
                             struct approval_row *ret_row);
struct fault approval_decisions(struct op *op, struct services *services, struct uuid id,
                                struct approval_decision **ret_decisions, size_t *ret_count);
struct approval_filter {
    const char *standing;  /* NULL = any */
    const char *waits_for; /* pending, asked for by somebody else and not granted by this subject; NULL = any */
    utc_us now;
    int64_t before_seq;
    const char *before_id;
    int64_t limit;
};
struct fault approval_list(struct op *op, struct services *services, const struct approval_filter *filter,
                           struct approval_row **ret_rows, size_t *ret_count);

/* ---- decide.c ---- */

/* The caller's decision on a request, recorded once: a repetition gives what was recorded. NOT_FOUND, SELF_APPROVAL,
 * APPROVAL_CLOSED, LOG_CONFLICT. */
struct fault approval_decide(struct op *op, struct services *services, struct uuid id, enum approval_verdict verdict,
                             const char *reason, struct approval_case *ret_case);
/* One event on the lane, under an id that follows from the parts, if the lane has not moved on; projected when it
 * returns OK. After LOG_CONFLICT the read model has what the lane moved on to. */
struct fault approval_append(struct op *op, struct services *services, const char *type, const struct span *parts,
                             size_t count, const struct buf *data, uint64_t expected_lane);

/* ---- projection.c ---- */

struct fault project_approval_requested(struct projection *projection, const struct event_view *event);
struct fault project_approval_granted(struct projection *projection, const struct event_view *event);
struct fault project_approval_denied(struct projection *projection, const struct event_view *event);
struct fault project_approval_used(struct projection *projection, const struct event_view *event);

/* ---- routes.c ---- */

struct approval_body {
    const char *action, *reason;
};
struct fault route_approval_resource(struct request *request);
struct fault route_approval_list(struct request *request);
struct fault route_approval_get(struct request *request);
struct fault route_approval_grant(struct request *request);
struct fault route_approval_deny(struct request *request);

#endif
