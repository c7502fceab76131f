#include "api/server/idempotency.h"

#include "api/server/reconcile.h"
#include "appliance/base/log.h"
#include "appliance/base/secret.h"

#include <poll.h>

#define CLAIM_TRIES         4
#define SETTLE_GRACE_NS     (5 * NS_PER_S)
#define SETTLE_BACKOFF_MS   100
#define HEADERS_TEXT_MAX    8192
#define IN_PROGRESS_RETRY_S 1

/* The database's clock, so that several instances agree about ten minutes. */
#define NOW_US "(extract(epoch FROM clock_timestamp()) * 1000000)::int8"
#define MINE   " WHERE tenant_id = current_setting('svc.tenant') AND key = $1 AND claim = $2"

static const struct sql CLAIM = {
    "idempotency_claim",
    "INSERT INTO svc.idempotency_keys (tenant_id, key, route, fingerprint, state, claim, instance, claimed_us) "
    "VALUES (current_setting('svc.tenant'), $1, $2, $3, 'in_progress', $4, $5, " NOW_US ") "
    "ON CONFLICT (tenant_id, key) DO NOTHING",
    5,
};
static const struct sql READ = {
    "idempotency_read",
    "SELECT fingerprint, state, status, content_type, headers, body, " NOW_US " - claimed_us "
    "FROM svc.idempotency_keys WHERE tenant_id = current_setting('svc.tenant') AND key = $1",
    1,
};
static const struct sql TAKE_OVER = {
    "idempotency_take_over",
    "UPDATE svc.idempotency_keys SET claim = $2, instance = $3, claimed_us = " NOW_US
    " WHERE tenant_id = current_setting('svc.tenant') AND key = $1 AND state = 'in_progress' "
    "AND claimed_us <= " NOW_US " - $4",
    4,
};
/* 'done' too: a commit whose acknowledgement was lost is the same row again. */
static const struct sql RECORD = {
    "idempotency_record",
    "UPDATE svc.idempotency_keys SET state = 'done', status = $3, content_type = $4, headers = $5, body = $6, "
    "recorded = $7, event_seq = $8, trace_id = $9, done_us = " NOW_US MINE " AND state IN ('in_progress', 'done')",
    9,
};
static const struct sql WALL = {
    "idempotency_wall",
    "UPDATE svc.idempotency_keys SET state = 'indeterminate', done_us = " NOW_US MINE " AND state = 'in_progress'",
    2,
};
static const struct sql RELEASE = {
    "idempotency_release",
    "DELETE FROM svc.idempotency_keys" MINE " AND state = 'in_progress'",
    2,
};

static struct fault replay(struct op *op, const struct rows *rows, struct response *response)
{
    if (rows_null(rows, 0, 5)) {
        return op_fail(op, FAULT(IDEMPOTENCY_INDETERMINATE),
                       "the command ran; its answer held a secret, was sent once and is not kept: "
                       "use a new Idempotency-Key to make another");
    }
    TRY(arena_copy(op->arena, rows_bytes(rows, 0, 5), &response->body));
    TRY(arena_text(op->arena, span_text(rows_text(rows, 0, 3)), &response->content_type));
    TRY(response_headers_parse(op, span_text(rows_text(rows, 0, 4)), response));
    TRY(response_add(op, response, "Idempotent-Replayed", "true"));
    response->status = (int)rows_int(rows, 0, 2);
    return OK;
}

static struct fault in_progress(struct op *op)
{
    struct fault fault = op_fail(op, FAULT(IDEMPOTENCY_IN_PROGRESS),
                                 "the request with this Idempotency-Key is still running: repeat it as it is");
    op->note.retry_after_s = IN_PROGRESS_RETRY_S;
    return fault;
}

static struct fault take_over(struct op *op, struct tx *tx, const struct idempotency_request *request,
                              const struct idempotency_claim *claim)
{
    int64_t taken = 0;
    TRY(tx_exec(tx, &TAKE_OVER,
                (struct sql_arg[]){ SQL_TEXT(request->key), SQL_TEXT(claim->token.text),
                                    SQL_TEXT(request->instance.text), SQL_INT(IDEMPOTENCY_TAKEOVER_US) },
                4, &taken));
    if (taken == 0) {
        return in_progress(op);
    }
    log_write(WARN, "idempotency_taken_over", LOG_TEXT("trace_id", op->trace_id), LOG_TEXT("tenant", op->tenant.text),
              LOG_TEXT("route", request->route));
    return OK;
}

/* Somebody has the key: what the row says. OK with *ret_ours false means a replay. */
static struct fault read_row(struct op *op, const struct rows *rows, const struct sha256 *fingerprint,
                             struct response *response, bool *ret_abandoned)
{
    if (!secret_equal(rows_bytes(rows, 0, 0), SPAN_ARRAY(fingerprint->at))) {
        return op_fail(op, FAULT(IDEMPOTENCY_KEY_REUSED),
                       "this Idempotency-Key belongs to another command (method, path, caller or body differ): "
                       "use a new one");
    }
    const char *state = rows_text(rows, 0, 1);
    if (strcmp(state, "done") == 0) {
        return replay(op, rows, response);
    }
    if (strcmp(state, "in_progress") != 0) {
        return op_fail(op, FAULT(IDEMPOTENCY_INDETERMINATE),
                       "the command ran but its answer could not be kept: look whether its effect is there, and use "
                       "a new Idempotency-Key if it is not");
    }
    *ret_abandoned = rows_int(rows, 0, 6) >= IDEMPOTENCY_TAKEOVER_US;
    return *ret_abandoned ? OK : in_progress(op);
}

/* One transaction. *ret_again: the row went away between two statements. */
static struct fault claim_in(struct op *op, struct tx *tx, const struct idempotency_request *request,
                             const struct sha256 *fingerprint, struct idempotency_claim *claim,
                             struct response *response, bool *ret_again)
{
    int64_t claimed = 0;
    TRY(tx_exec(tx, &CLAIM,
                (struct sql_arg[]){ SQL_TEXT(request->key), SQL_TEXT(request->route),
                                    SQL_BYTES(SPAN_ARRAY(fingerprint->at)), SQL_TEXT(claim->token.text),
                                    SQL_TEXT(request->instance.text) },
                5, &claimed));
    if (claimed == 1) {
        return OK;
    }
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_query(tx, &READ, (struct sql_arg[]){ SQL_TEXT(request->key) }, 1, &rows));
    *ret_again = rows_count(rows) == 0;
    if (*ret_again) {
        return OK;
    }
    bool abandoned = false;
    TRY(read_row(op, rows, fingerprint, response, &abandoned));
    if (abandoned) {
        return take_over(op, tx, request, claim);
    }
    claim->replayed = true;
    return OK;
}

static struct fault claim_once(struct op *op, struct store *store, const struct idempotency_request *request,
                               const struct sha256 *fingerprint, struct idempotency_claim *claim,
                               struct response *response, bool *ret_again)
{
    *ret_again = false;
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    TRY(tx_begin(op, store, STORE_REQUEST, &tx));
    TRY(claim_in(op, tx, request, fingerprint, claim, response, ret_again));
    struct fault fault = tx_commit(&tx);
    if (FAULTED(fault) && !claim->replayed) {
        idempotency_release(op, store, claim); /* it may have been committed all the same */
    }
    return fault;
}

struct fault idempotency_claim(struct op *op, struct store *store, const struct idempotency_request *request,
                               struct idempotency_claim *ret_claim, struct response *response)
{
    struct idempotency_claim claim = { .key = request->key };
    struct sha256 fingerprint;
    TRY(idempotency_fingerprint(op, request, &fingerprint));
    TRY(idempotency_command_id(op, request));
    TRY(uuid_new(&claim.token));
    bool again = true;
    for (int tries = 0; again; tries++) {
        if (tries == CLAIM_TRIES) {
            return in_progress(op);
        }
        TRY(claim_once(op, store, request, &fingerprint, &claim, response, &again));
    }
    *ret_claim = claim;
    return OK;
}

/* One statement about our claim in its own transaction; the reserved pool, because requests may have all others. */
static struct fault settle_once(struct op *op, struct store *store, const struct sql *sql, const struct sql_arg *args,
                                size_t count, int64_t *ret_affected)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    TRY(tx_begin(op, store, STORE_RESERVED, &tx));
    TRY(tx_exec(tx, sql, args, count, ret_affected));
    return tx_commit(&tx);
}

/* Until it worked, a fault that does not pass, or the grace ran out. The note stays as it was: it is the handler's. */
static struct fault settle(struct op *op, struct store *store, const struct sql *sql, const struct sql_arg *args,
                           size_t count, int64_t *ret_affected)
{
    const struct fault_note note = op->note;
    const mono_ns deadline = op->deadline;
    mono_ns grace = clock_mono() + SETTLE_GRACE_NS;
    op->deadline = deadline > grace ? deadline : grace;
    struct fault fault = settle_once(op, store, sql, args, count, ret_affected);
    while (FAULTED(fault) && fault_row(fault.code)->retry == FAULT_RETRY_LATER && clock_mono() < grace) {
        (void)poll(NULL, 0, SETTLE_BACKOFF_MS); /* backoff: nothing tells when the database is back */
        fault = settle_once(op, store, sql, args, count, ret_affected);
    }
    if (FAULTED(fault)) {
        log_fault(LOG_LEVEL_ERROR, sql->name, op, fault);
    }
    op->deadline = deadline;
    op->note = note;
    return fault;
}

static struct fault wall(struct op *op, struct store *store, const struct idempotency_claim *claim)
{
    int64_t walled = 0;
    IGNORE(
        settle(op, store, &WALL, (struct sql_arg[]){ SQL_TEXT(claim->key), SQL_TEXT(claim->token.text) }, 2, &walled));
    op->note = (struct fault_note){ .set = false };
    return op_fail(op, FAULT(IDEMPOTENCY_INDETERMINATE),
                   "the command ran but its answer could not be kept: look whether its effect is there, and use a new "
                   "Idempotency-Key if it is not");
}

struct fault idempotency_record(struct op *op, struct store *store, const struct idempotency_claim *claim,
                                const struct response *response, bool secret)
{
    CLEANUP(buf_free) struct buf headers = BUF_INIT(HEADERS_TEXT_MAX);
    const char *headers_text = NULL;
    int64_t kept = 0;
    struct fault fault = response_headers_print(response, &headers);
    if (!FAULTED(fault)) {
        fault = buf_cstr(&headers, &headers_text);
    }
    if (!FAULTED(fault)) {
        struct span body = response->body.len > 0 ? response->body : span_of("", 0);
        struct sql_arg args[] = { SQL_TEXT(claim->key),
                                  SQL_TEXT(claim->token.text),
                                  SQL_INT(response->status),
                                  SQL_TEXT(response->content_type),
                                  SQL_TEXT(headers_text),
                                  secret ? SQL_NONE : SQL_BYTES(body),
                                  SQL_TEXT(reconcile_word(op->recorded)),
                                  SQL_INT((int64_t)op->recorded_seq),
                                  SQL_TEXT(op->trace_id) };
        fault = settle(op, store, &RECORD, args, COUNT_OF(args), &kept);
    }
    return FAULTED(fault) || kept != 1 ? wall(op, store, claim) : OK;
}

void idempotency_release(struct op *op, struct store *store, const struct idempotency_claim *claim)
{
    int64_t released = 0;
    IGNORE(settle(op, store, &RELEASE, (struct sql_arg[]){ SQL_TEXT(claim->key), SQL_TEXT(claim->token.text) }, 2,
                  &released));
}
