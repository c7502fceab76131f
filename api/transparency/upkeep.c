/*
 * What operators and the reconciliation at start need to know of publications (outbox.h). One that failed may be taken
 * up again: a log has an entry once, however often it is submitted, so a repetition neither doubles nor contradicts
 * anything. Its next failure is another one, so the round is part of that event's id.
 */
#include "api/transparency/internal.h"

static const struct sql SQL_OWED = {
    "transparency_owed",
    "SELECT 1::bigint FROM svc.transparency_entries WHERE tenant_id = $1 AND operation_id = $2 AND state = 'pending'",
    2,
};
static const struct sql SQL_MISSING = {
    "transparency_missing",
    "SELECT e.operation_id, a.stream_seq, 0::bigint FROM svc.transparency_entries e JOIN svc.audit_records a"
    " ON a.tenant_id = e.tenant_id AND a.sequence = e.sequence WHERE e.tenant_id = $1 AND $2::bigint = 0"
    " AND e.state = 'pending' AND NOT EXISTS (SELECT FROM svc.outbox o WHERE o.tenant_id = $1"
    " AND o.destination = '" TRANSPARENCY_DESTINATION "' AND o.key = e.operation_id) LIMIT 1000",
    2,
};
static const struct sql SQL_REOPENABLE = {
    "transparency_reopenable",
    "SELECT 1::bigint FROM svc.transparency_entries WHERE tenant_id = $1 AND operation_id = $2 AND state = 'failed'",
    2,
};
static const struct sql SQL_REOPEN = {
    "transparency_reopen",
    "UPDATE svc.transparency_entries SET state = 'pending', failure_code = NULL, ended_us = NULL, round = round + 1"
    " WHERE tenant_id = $1 AND operation_id = $2 AND state = 'failed'",
    2,
};

static struct fault reopen(struct projection *projection, const char *key)
{
    const struct sql_arg args[] = { SQL_TEXT(projection_op(projection)->tenant.text), SQL_TEXT(key) };
    return tx_queue(projection_tx(projection), &SQL_REOPEN, args, COUNT_OF(args));
}

const struct outbox_upkeep transparency_upkeep = {
    .owed = &SQL_OWED,
    .missing = &SQL_MISSING,
    .reopenable = &SQL_REOPENABLE,
    .reopen = reopen,
    .closed = "the signing is published",
};
