/*
 * Requests, decisions and uses into the read model. Here it is decided what counts: each statement changes its row only
 * if the request takes the event at the event's own time, and what does not count leaves no row. (A use is judged by
 * the request's state alone: whether its window was open when the command was accepted is the command's to know.)
 */
#include "api/approvals/internal.h"

static const struct sql SQL_OUTGROWN = {
    "approvals_outgrown",
    "UPDATE svc.approval_requests SET state = 'replaced', decided_us = $3 WHERE resource = $1 AND expires_us > $3"
    " AND ((state = 'pending' AND needed <> $2)"
    " OR (state = 'approved' AND needed < $2 AND (max_signings = 0 OR uses < max_signings)))",
    3,
};
static const struct sql SQL_REQUESTED = {
    "approvals_requested",
    "INSERT INTO svc.approval_requests (tenant_id, request_id, resource, action, requester, rule, about, operation_id,"
    " needed, window_us, max_signings, state, approvals, uses, created_us, expires_us, made_seq)"
    " SELECT $1::text, $2::text, $3::text, $4::text, $5::text, $6::text, $7::text, $8::text, $9::bigint, $10::bigint,"
    " $11::bigint, 'pending', 0, 0, $12::bigint, $12::bigint + $10::bigint, $13::bigint"
    " WHERE NOT EXISTS (SELECT FROM svc.approval_requests WHERE resource = $3 AND expires_us > $12"
    " AND state <> 'replaced' AND NOT (state = 'approved' AND max_signings > 0 AND uses >= max_signings))"
    " ON CONFLICT DO NOTHING",
    13,
};
static const struct sql SQL_GRANTED = {
    "approvals_granted",
    "WITH counted AS (UPDATE svc.approval_requests SET approvals = approvals + 1,"
    " state = CASE WHEN approvals + 1 >= needed THEN 'approved' ELSE state END,"
    " decided_us = CASE WHEN approvals + 1 >= needed THEN $5::bigint END,"
    " expires_us = CASE WHEN approvals + 1 >= needed THEN $5::bigint + window_us ELSE expires_us END"
    " WHERE request_id = $2 AND state = 'pending' AND expires_us > $5 AND requester <> $3"
    " AND NOT EXISTS (SELECT FROM svc.approval_decisions"
    " WHERE request_id = $2 AND approver = $3 AND verdict = 'granted') RETURNING 1)"
    " INSERT INTO svc.approval_decisions (tenant_id, request_id, approver, verdict, reason, decided_us, decided_seq)"
    " SELECT $1::text, $2::text, $3::text, 'granted', $4::text, $5::bigint, $6::bigint FROM counted",
    6,
};
static const struct sql SQL_DENIED = {
    "approvals_denied",
    "WITH counted AS (UPDATE svc.approval_requests SET state = 'denied', denied_by = $3, decided_us = $5::bigint,"
    " expires_us = $5::bigint + window_us"
    " WHERE request_id = $2 AND state IN ('pending', 'approved') AND expires_us > $5 AND requester <> $3"
    " AND NOT (state = 'approved' AND max_signings > 0 AND uses >= max_signings) RETURNING 1)"
    " INSERT INTO svc.approval_decisions (tenant_id, request_id, approver, verdict, reason, decided_us, decided_seq)"
    " SELECT $1::text, $2::text, $3::text, 'denied', $4::text, $5::bigint, $6::bigint FROM counted",
    6,
};
static const struct sql SQL_USED = {
    "approvals_used",
    "WITH counted AS (UPDATE svc.approval_requests SET uses = uses + 1"
    " WHERE request_id = $3 AND state = 'approved' AND uses < max_signings"
    " AND NOT EXISTS (SELECT FROM svc.approval_uses WHERE operation_id = $2 AND request_id = $3) RETURNING resource)"
    " INSERT INTO svc.approval_uses (tenant_id, operation_id, request_id, resource, used_us)"
    " SELECT $1::text, $2::text, $3::text, resource, $4::bigint FROM counted",
    4,
};

struct requested_data {
    const char *request_id, *resource, *action, *requester, *rule, *operation_id;
    struct span about;
    int64_t approvers, window_us, max_signings;
};
static const struct jin_field requested_fields[] = {
    JIN_TEXT(struct requested_data, request_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct requested_data, resource, JIN_REQUIRED, 1, APPROVAL_RESOURCE_MAX),
    JIN_TEXT(struct requested_data, action, JIN_REQUIRED, 1, APPROVAL_ACTION_MAX),
    JIN_TEXT(struct requested_data, requester, JIN_REQUIRED, 1, OP_SUBJECT_MAX),
    JIN_TEXT(struct requested_data, rule, JIN_REQUIRED, 1, APPROVAL_RULE_MAX),
    JIN_RAW(struct requested_data, about, JIN_REQUIRED, 2, APPROVAL_ABOUT_MAX),
    JIN_INT(struct requested_data, approvers, JIN_REQUIRED, 1, APPROVAL_APPROVERS_MAX),
    JIN_INT(struct requested_data, window_us, JIN_REQUIRED, 1, APPROVAL_WINDOW_MAX),
    JIN_INT(struct requested_data, max_signings, JIN_REQUIRED, 0, INT32_MAX),
    JIN_TEXT(struct requested_data, operation_id, JIN_REQUIRED, 36, 36),
};
struct decided_data {
    const char *request_id, *resource, *action, *requester, *approver, *reason;
    bool approved;
};
static const struct jin_field decided_fields[] = {
    JIN_TEXT(struct decided_data, request_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct decided_data, resource, JIN_REQUIRED, 1, APPROVAL_RESOURCE_MAX),
    JIN_TEXT(struct decided_data, action, JIN_OPTIONAL, 1, APPROVAL_ACTION_MAX), /* for readers, as are the next */
    JIN_TEXT(struct decided_data, requester, JIN_OPTIONAL, 1, OP_SUBJECT_MAX),   /* one and `approved` */
    JIN_TEXT(struct decided_data, approver, JIN_REQUIRED, 1, OP_SUBJECT_MAX),
    JIN_TEXT(struct decided_data, reason, JIN_REQUIRED, 0, APPROVAL_REASON_MAX),
    JIN_BOOL(struct decided_data, approved, JIN_OPTIONAL),
};
struct used_data {
    const char *request_id, *resource, *operation_id;
    int64_t use;
};
static const struct jin_field used_fields[] = {
    JIN_TEXT(struct used_data, request_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct used_data, resource, JIN_REQUIRED, 1, APPROVAL_RESOURCE_MAX),
    JIN_TEXT(struct used_data, operation_id, JIN_REQUIRED, 36, 36),
    JIN_INT(struct used_data, use, JIN_REQUIRED, 1, INT32_MAX),
};

struct fault project_approval_requested(struct projection *projection, const struct event_view *event)
{
    struct requested_data data = { 0 };
    struct tx *tx = projection_tx(projection);
    TRY(jin_decode(projection_op(projection), event->data, requested_fields, COUNT_OF(requested_fields), &data));
    TRY(tx_queue(tx, &SQL_OUTGROWN,
                 (struct sql_arg[]){ SQL_TEXT(data.resource), SQL_INT(data.approvers), SQL_INT(event->time) }, 3));
    const struct sql_arg args[] = {
        SQL_TEXT(event->tenant.text),
        SQL_TEXT(data.request_id),
        SQL_TEXT(data.resource),
        SQL_TEXT(data.action),
        SQL_TEXT(data.requester),
        SQL_TEXT(data.rule),
        SQL_SPAN(data.about),
        SQL_TEXT(data.operation_id),
        SQL_INT(data.approvers),
        SQL_INT(data.window_us),
        SQL_INT(data.max_signings),
        SQL_INT(event->time),
        SQL_INT((int64_t)event->stream_seq),
    };
    return tx_queue(tx, &SQL_REQUESTED, args, COUNT_OF(args));
}

static struct fault project_decided(struct projection *projection, const struct event_view *event,
                                    const struct sql *sql)
{
    struct decided_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, decided_fields, COUNT_OF(decided_fields), &data));
    const struct sql_arg args[] = {
        SQL_TEXT(event->tenant.text), SQL_TEXT(data.request_id), SQL_TEXT(data.approver),
        SQL_TEXT(data.reason),        SQL_INT(event->time),      SQL_INT((int64_t)event->stream_seq),
    };
    return tx_queue(projection_tx(projection), sql, args, COUNT_OF(args));
}

struct fault project_approval_granted(struct projection *projection, const struct event_view *event)
{
    return project_decided(projection, event, &SQL_GRANTED);
}

struct fault project_approval_denied(struct projection *projection, const struct event_view *event)
{
    return project_decided(projection, event, &SQL_DENIED);
}

struct fault project_approval_used(struct projection *projection, const struct event_view *event)
{
    struct used_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, used_fields, COUNT_OF(used_fields), &data));
    const struct sql_arg args[] = { SQL_TEXT(event->tenant.text), SQL_TEXT(data.operation_id),
                                    SQL_TEXT(data.request_id), SQL_INT(event->time) };
    return tx_queue(projection_tx(projection), &SQL_USED, args, COUNT_OF(args));
}
