#include "api/approvals/internal.h"

#define COLUMNS                                                                                                  \
    "SELECT request_id, operation_id, resource, action, requester, rule, about, state, needed, approvals, uses," \
    " max_signings, window_us, made_seq, denied_by, created_us, decided_us, expires_us FROM svc.approval_requests "

static const struct sql SQL_BY_ID = { "approvals_by_id", COLUMNS "WHERE request_id = $1", 1 };
static const struct sql SQL_NEWEST = {
    "approvals_newest",
    COLUMNS "WHERE resource = $1 ORDER BY made_seq DESC, request_id DESC LIMIT 1",
    1,
};
/* $1: how it stands at $2, as approval_standing_at has it. */
static const struct sql SQL_LIST = {
    "approvals_list",
    COLUMNS "WHERE ($1::text IS NULL OR $1 = CASE WHEN state IN ('denied', 'replaced') THEN state"
            " WHEN state = 'approved' AND max_signings > 0 AND uses >= max_signings THEN 'used_up'"
            " WHEN expires_us <= $2 THEN 'expired' ELSE state END)"
            " AND (made_seq, request_id) < ($3, $4) ORDER BY made_seq DESC, request_id DESC LIMIT $5",
    5,
};
/* The pending ones, through their own index; $1: the subject for whom they wait. */
static const struct sql SQL_LIST_PENDING = {
    "approvals_list_pending",
    COLUMNS "r WHERE state = 'pending' AND expires_us > $2 AND ($1::text IS NULL OR (requester <> $1"
            " AND NOT EXISTS (SELECT FROM svc.approval_decisions d"
            " WHERE d.request_id = r.request_id AND d.approver = $1)))"
            " AND (made_seq, request_id) < ($3, $4) ORDER BY made_seq DESC, request_id DESC LIMIT $5",
    5,
};
static const struct sql SQL_DECISION = {
    "approvals_decision",
    "SELECT approver, verdict, reason, decided_us FROM svc.approval_decisions"
    " WHERE request_id = $1 AND approver = $2 AND verdict = $3",
    3,
};
static const struct sql SQL_DECISIONS = {
    "approvals_decisions",
    "SELECT approver, verdict, reason, decided_us FROM svc.approval_decisions WHERE request_id = $1"
    " ORDER BY decided_seq, approver, verdict",
    1,
};
/* Whether the operation has a signing of this resource, and whether what gave it was denied. */
static const struct sql SQL_USE = {
    "approvals_use",
    "SELECT r.state = 'denied' FROM svc.approval_uses u JOIN svc.approval_requests r USING (tenant_id, request_id)"
    " WHERE u.operation_id = $1 AND u.resource = $2 ORDER BY 1 LIMIT 1",
    2,
};

static struct fault text_of(struct op *op, const struct rows *rows, size_t row, size_t column, const char **ret_text)
{
    return rows_null(rows, row, column) ? OK : arena_text(op->arena, span_text(rows_text(rows, row, column)), ret_text);
}

static struct fault read_row(struct op *op, const struct rows *rows, size_t at, struct approval_row *ret_row)
{
    struct approval_row row = {
        .needed = rows_int(rows, at, 8),
        .approvals = rows_int(rows, at, 9),
        .uses = rows_int(rows, at, 10),
        .max_signings = rows_int(rows, at, 11),
        .window_us = rows_int(rows, at, 12),
        .made_seq = rows_int(rows, at, 13),
        .created = rows_int(rows, at, 15),
        .decided = rows_int(rows, at, 16),
        .expires = rows_int(rows, at, 17),
    };
    const char **const texts[] = { &row.resource, &row.action, &row.requester, &row.rule, &row.about, &row.stored };
    TRY(uuid_parse(span_text(rows_text(rows, at, 0)), &row.id));
    TRY(uuid_parse(span_text(rows_text(rows, at, 1)), &row.operation_id));
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        TRY(text_of(op, rows, at, 2 + i, texts[i]));
    }
    TRY(text_of(op, rows, at, 14, &row.denied_by));
    *ret_row = row;
    return OK;
}

/* At most one row. */
static struct fault query_row(struct op *op, struct tx *tx, const struct sql *sql, const char *argument,
                              bool *ret_found, struct approval_row *ret_row)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_query(tx, sql, (struct sql_arg[]){ SQL_TEXT(argument) }, 1, &rows));
    if (rows_count(rows) > 0) {
        TRY(read_row(op, rows, 0, ret_row));
    }
    *ret_found = rows_count(rows) > 0;
    return OK;
}

static struct fault read_decision(struct op *op, const struct rows *rows, size_t at,
                                  struct approval_decision *ret_decision)
{
    struct approval_decision decision = { .time = rows_int(rows, at, 3) };
    TRY(text_of(op, rows, at, 0, &decision.approver));
    TRY(text_of(op, rows, at, 1, &decision.verdict));
    TRY(text_of(op, rows, at, 2, &decision.reason));
    *ret_decision = decision;
    return OK;
}

struct fault approval_case_read(struct op *op, struct services *services, struct uuid id, const char *approver,
                                enum approval_verdict verdict, struct approval_case *ret_case)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct approval_case found = { 0 };
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(projection_lane_last(tx, op->tenant, APPROVALS_LANE, &found.lane));
    TRY(query_row(op, tx, &SQL_BY_ID, id.text, &found.found, &found.row));
    const struct sql_arg args[] = { SQL_TEXT(id.text), SQL_TEXT(approver), SQL_TEXT(approval_verdict_text(verdict)) };
    TRY(tx_query(tx, &SQL_DECISION, args, COUNT_OF(args), &rows));
    if (rows_count(rows) > 0) {
        TRY(read_decision(op, rows, 0, &found.decision));
        found.decided = true;
    }
    *ret_case = found;
    return OK;
}

struct fault approval_use_case_read(struct op *op, struct services *services, const char *resource,
                                    struct uuid operation_id, struct approval_use_case *ret_case)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct approval_use_case found = { 0 };
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(projection_lane_last(tx, op->tenant, APPROVALS_LANE, &found.lane));
    TRY(query_row(op, tx, &SQL_NEWEST, resource, &found.found, &found.row));
    TRY(tx_query(tx, &SQL_USE, (struct sql_arg[]){ SQL_TEXT(operation_id.text), SQL_TEXT(resource) }, 2, &rows));
    if (rows_count(rows) > 0) {
        found.used = true;
        found.used_denied = rows_bool(rows, 0, 0);
    }
    *ret_case = found;
    return OK;
}

struct fault approval_get(struct op *op, struct services *services, struct uuid id, struct approval_row *ret_row)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    bool found = false;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(query_row(op, tx, &SQL_BY_ID, id.text, &found, ret_row));
    REQUIRE(found, NOT_FOUND);
    return OK;
}

struct fault approval_newest(struct op *op, struct services *services, const char *resource, bool *ret_found,
                             struct approval_row *ret_row)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    return query_row(op, tx, &SQL_NEWEST, resource, ret_found, ret_row);
}

struct fault approval_decisions(struct op *op, struct services *services, struct uuid id,
                                struct approval_decision **ret_decisions, size_t *ret_count)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct approval_decision *decisions = NULL;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, &SQL_DECISIONS, (struct sql_arg[]){ SQL_TEXT(id.text) }, 1, &rows));
    TRY(arena_take(op->arena, rows_count(rows) + 1, sizeof(*decisions), &decisions));
    for (size_t i = 0; i < rows_count(rows); i++) {
        TRY(read_decision(op, rows, i, &decisions[i]));
    }
    *ret_decisions = decisions;
    *ret_count = rows_count(rows);
    return OK;
}

struct fault approval_list(struct op *op, struct services *services, const struct approval_filter *filter,
                           struct approval_row **ret_rows, size_t *ret_count)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const char *pending = approval_standing_text(STANDING_PENDING);
    bool only_pending =
        filter->waits_for != NULL || (filter->standing != NULL && strcmp(filter->standing, pending) == 0);
    const char *first = only_pending ? filter->waits_for : filter->standing;
    const struct sql_arg args[] = {
        first != NULL ? SQL_TEXT(first) : SQL_NONE,
        SQL_INT(filter->now),
        SQL_INT(filter->before_seq),
        SQL_TEXT(filter->before_id),
        SQL_INT(filter->limit),
    };
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, only_pending ? &SQL_LIST_PENDING : &SQL_LIST, args, COUNT_OF(args), &rows));
    struct approval_row *found = NULL;
    TRY(arena_take(op->arena, rows_count(rows) + 1, sizeof(*found), &found));
    for (size_t i = 0; i < rows_count(rows); i++) {
        TRY(read_row(op, rows, i, &found[i]));
    }
    *ret_rows = found;
    *ret_count = rows_count(rows);
    return OK;
}

struct fault approvals_status(struct op *op, struct services *services, const char *resource, unsigned needed,
                              utc_us now, struct approval_status *ret_status)
{
    struct approval_row row;
    bool found = false;
    TRY(approval_newest(op, services, resource, &found, &row));
    approval_status_of(found ? &row : NULL, needed, now, ret_status);
    return OK;
}
