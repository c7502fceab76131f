#include "api/server/idempotency.h"

#include "api/server/presence.h"
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

/* One statement: the row is ours now, or what the row says that is there. No row: it is being made or taken away at
 * this moment. A claim that is ours already (sent twice, because its connection broke) is ours. */
static const struct sql CLAIM = {
    "idempotency_claim",
    "WITH mine AS (INSERT INTO svc.idempotency_keys (tenant_id, key, route, fingerprint, state, claim, instance, "
    "claimed_us) VALUES (current_setting('svc.tenant'), $1, $2, $3, 'in_progress', $4, $5, " NOW_US ") "
    "ON CONFLICT (tenant_id, key) DO NOTHING RETURNING 1) "
    "SELECT true, NULL::bytea, '', NULL::int8, '', '', NULL::bytea, NULL::int8, false FROM mine UNION ALL "
    "SELECT claim = $4 AND state = 'in_progress', fingerprint, state, status, content_type, headers, body, " NOW_US
    " - claimed_us, state = 'in_progress' AND instance <> $5 AND " PRESENCE_GONE(
        "idempotency_keys.instance",
        "$5") " FROM svc.idempotency_keys WHERE tenant_id = current_setting('svc.tenant') AND key = $1 "
              "AND NOT EXISTS (SELECT 1 FROM mine)",
    5,
};
static const struct sql TAKE_OVER = {
    "idempotency_take_over",
    "UPDATE svc.idempotency_keys SET claim = $2, instance = $3, claimed_us = " NOW_US
    " WHERE tenant_id = current_setting('svc.tenant') AND key = $1 AND state = 'in_progress' AND fingerprint = $5 "
    "AND (claimed_us <= " NOW_US " - $4 OR (instance <> $3 AND " PRESENCE_GONE("idempotency_keys.instance", "$3") "))",
    5,
};
/* 'done' too: a commit whose acknowledgement was lost is the same row again. Without a row the database has forgotten
 * the claim in a crash of its own. */
static const struct sql RECORD = {
    "idempotency_record",
    "INSERT INTO svc.idempotency_keys AS k (tenant_id, key, claim, status, content_type, headers, body, recorded, "
    "event_seq, trace_id, route, fingerprint, instance, state, claimed_us, done_us) "
    "VALUES (current_setting('svc.tenant'), $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, 'done', " NOW_US
    ", " NOW_US ") ON CONFLICT (tenant_id, key) DO UPDATE SET state = 'done', status = $3, content_type = $4, "
    "headers = $5, body = $6, recorded = $7, event_seq = $8, trace_id = $9, done_us = " NOW_US
    " WHERE k.claim = $2 AND k.state IN ('in_progress', 'done')",
    12,
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
    if (rows_null(rows, 0, 6)) {
        return op_fail(op, FAULT(IDEMPOTENCY_INDETERMINATE),
                       "the command ran; its answer held a secret, was sent once and is not kept: "
                       "use a new Idempotency-Key to make another");
    }
    TRY(arena_copy(op->arena, rows_bytes(rows, 0, 6), &response->body));
    TRY(arena_text(op->arena, span_text(rows_text(rows, 0, 4)), &response->content_type));
    TRY(response_headers_parse(op, span_text(rows_text(rows, 0, 5)), response));
    TRY(response_add(op, response, "Idempotent-Replayed", "true"));
    response->status = (int)rows_int(rows, 0, 3);
    return OK;
}

static struct fault in_progress(struct op *op)
{
    struct fault fault = op_fail(op, FAULT(IDEMPOTENCY_IN_PROGRESS),
                                 "the request with this Idempotency-Key is still running: repeat it as it is");
    op->note.retry_after_s = IN_PROGRESS_RETRY_S;
    return fault;
}

/* The state and the words of a row that somebody else made. */
static struct fault read_row(struct idempotency_claim *claim, const struct rows *rows)
{
    struct op *op = claim->op;
    if (!secret_equal(rows_bytes(rows, 0, 1), SPAN_ARRAY(claim->fingerprint.at))) {
        return op_fail(op, FAULT(IDEMPOTENCY_KEY_REUSED),
                       "this Idempotency-Key belongs to another command (method, path, caller or body differ): "
                       "use a new one");
    }
    const char *state = rows_text(rows, 0, 2);
    if (strcmp(state, "done") == 0) {
        claim->state = IDEMPOTENCY_REPLAYED;
        response_clear(&claim->kept);
        return replay(op, rows, &claim->kept);
    }
    if (strcmp(state, "in_progress") != 0) {
        return op_fail(op, FAULT(IDEMPOTENCY_INDETERMINATE),
                       "the command ran but its answer could not be kept: look whether its effect is there, and use "
                       "a new Idempotency-Key if it is not");
    }
    bool abandoned = rows_int(rows, 0, 7) >= IDEMPOTENCY_TAKEOVER_US || rows_bool(rows, 0, 8);
    claim->state = abandoned ? IDEMPOTENCY_ABANDONED : IDEMPOTENCY_REFUSED;
    return abandoned ? OK : in_progress(op);
}

/* Anything but a fault lets the handler's transaction go on: so only a claim that is ours is none. */
static struct fault judge(void *arg, struct fault fault, const struct rows *rows)
{
    struct idempotency_claim *claim = arg;
    struct op *op = claim->op;
    claim->state = FAULTED(fault) ? IDEMPOTENCY_UNKNOWN : IDEMPOTENCY_REFUSED;
    claim->fault = fault;
    if (!FAULTED(fault) && rows_count(rows) == 0) {
        claim->state = IDEMPOTENCY_AGAIN;
    } else if (!FAULTED(fault) && rows_bool(rows, 0, 0)) {
        claim->state = IDEMPOTENCY_OURS;
        return OK;
    } else if (!FAULTED(fault)) {
        op->note = (struct fault_note){ 0 }; /* the handler's, if any: it is not this fault's */
        claim->fault = read_row(claim, rows);
    } else if (op->note.code != fault.code) {
        op->note = (struct fault_note){ 0 };
    }
    claim->note = op->note;
    return FAULTED(claim->fault) ? claim->fault : FAULT(IDEMPOTENCY_IN_PROGRESS);
}

struct fault idempotency_begin(struct op *op, struct store *store, const struct idempotency_request *request,
                               struct idempotency_claim *claim, struct response *response)
{
    *claim = (struct idempotency_claim){ .key = request->key,
                                         .route = request->route,
                                         .instance = request->instance,
                                         .op = op,
                                         .store = store,
                                         .response = response };
    TRY(idempotency_fingerprint(op, request, &claim->fingerprint));
    TRY(idempotency_command_id(op, request));
    TRY(uuid_new(&claim->token));
    return idempotency_send(claim);
}

struct fault idempotency_send(struct idempotency_claim *claim)
{
    const struct sql_arg args[] = { SQL_TEXT(claim->key), SQL_TEXT(claim->route),
                                    SQL_BYTES(SPAN_ARRAY(claim->fingerprint.at)), SQL_TEXT(claim->token.text),
                                    SQL_TEXT(claim->instance.text) };
    static_assert(COUNT_OF(args) == COUNT_OF(claim->args));
    memcpy(claim->args, args, sizeof(args));
    claim->state = IDEMPOTENCY_SENT;
    claim->ahead = (struct store_ahead){
        .judge = judge, .arg = claim, .sql = &CLAIM, .args = claim->args, .count = COUNT_OF(args)
    };
    return store_send_ahead(claim->op, claim->store, &claim->ahead);
}

static struct fault take_over(struct idempotency_claim *claim)
{
    struct op *op = claim->op;
    int64_t taken = 0;
    const struct sql_arg args[] = { SQL_TEXT(claim->key), SQL_TEXT(claim->token.text), SQL_TEXT(claim->instance.text),
                                    SQL_INT(IDEMPOTENCY_TAKEOVER_US), SQL_BYTES(SPAN_ARRAY(claim->fingerprint.at)) };
    TRY(store_once(op, claim->store, STORE_REQUEST, STORE_SOON, &TAKE_OVER, args, COUNT_OF(args), NULL, &taken));
    if (taken == 0) {
        claim->state = IDEMPOTENCY_REFUSED;
        return in_progress(op);
    }
    claim->state = IDEMPOTENCY_OURS;
    log_write(WARN, "idempotency_taken_over", LOG_TEXT("trace_id", op->trace_id), LOG_TEXT("tenant", op->tenant.text),
              LOG_TEXT("route", claim->route));
    return OK;
}

struct fault idempotency_await(struct idempotency_claim *claim)
{
    IGNORE(store_ahead_end(&claim->ahead)); /* what it says is in the claim */
    for (int tries = 1; claim->state == IDEMPOTENCY_AGAIN && tries < CLAIM_TRIES; tries++) {
        claim->op->note = (struct fault_note){ 0 };
        TRY(idempotency_send(claim));
        IGNORE(store_ahead_end(&claim->ahead));
    }
    if (claim->state == IDEMPOTENCY_ABANDONED) {
        claim->op->note = (struct fault_note){ 0 };
        return take_over(claim);
    }
    if (claim->state == IDEMPOTENCY_UNKNOWN) {
        idempotency_release(claim->op, claim->store, claim); /* it may have been committed all the same */
    }
    if (claim->state == IDEMPOTENCY_OURS) {
        return OK;
    }
    claim->op->note = claim->note;
    if (claim->state == IDEMPOTENCY_REPLAYED && !FAULTED(claim->fault)) {
        bool close = claim->response->close;
        *claim->response = claim->kept;
        claim->response->close = close;
        return OK;
    }
    return claim->state == IDEMPOTENCY_AGAIN ? in_progress(claim->op) : claim->fault;
}

struct fault idempotency_claim(struct op *op, struct store *store, const struct idempotency_request *request,
                               struct idempotency_claim *claim, struct response *response)
{
    TRY(idempotency_begin(op, store, request, claim, response));
    return idempotency_await(claim);
}

/* Until it worked, a fault that does not pass, or the grace ran out. The note stays as it was: it is the handler's. */
static struct fault settle(struct op *op, struct store *store, const struct sql *sql, const struct sql_arg *args,
                           size_t count, int64_t *ret_affected)
{
    const struct fault_note note = op->note;
    const mono_ns deadline = op->deadline;
    mono_ns grace = clock_mono() + SETTLE_GRACE_NS;
    op->deadline = deadline > grace ? deadline : grace;
    /* The reserved pool, because requests may have all others. */
    struct fault fault = store_once(op, store, STORE_RESERVED, STORE_DURABLE, sql, args, count, NULL, ret_affected);
    while (FAULTED(fault) && fault_row(fault.code)->retry == FAULT_RETRY_LATER && clock_mono() < grace) {
        (void)poll(NULL, 0, SETTLE_BACKOFF_MS); /* backoff: nothing tells when the database is back */
        fault = store_once(op, store, STORE_RESERVED, STORE_DURABLE, sql, args, count, NULL, ret_affected);
    }
    if (FAULTED(fault)) {
        log_fault(LOG_LEVEL_ERROR, sql->name, op, fault);
    }
    op->deadline = deadline;
    op->note = note;
    return fault;
}

/* The command ran and its answer is not kept. `taken`: because somebody else has the claim by now, whose answer it is
 * that counts. */
static struct fault wall(struct op *op, struct store *store, const struct idempotency_claim *claim, bool taken)
{
    int64_t walled = 0;
    struct fault fault =
        settle(op, store, &WALL, (struct sql_arg[]){ SQL_TEXT(claim->key), SQL_TEXT(claim->token.text) }, 2, &walled);
    op->note = (struct fault_note){ .set = false };
    if (taken && !FAULTED(fault) && walled == 0) {
        return in_progress(op);
    }
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
                                  SQL_TEXT(op->trace_id),
                                  SQL_TEXT(claim->route),
                                  SQL_BYTES(SPAN_ARRAY(claim->fingerprint.at)),
                                  SQL_TEXT(claim->instance.text) };
        fault = settle(op, store, &RECORD, args, COUNT_OF(args), &kept);
    }
    return FAULTED(fault) || kept != 1 ? wall(op, store, claim, !FAULTED(fault)) : OK;
}

void idempotency_release(struct op *op, struct store *store, const struct idempotency_claim *claim)
{
    int64_t released = 0;
    IGNORE(settle(op, store, &RELEASE, (struct sql_arg[]){ SQL_TEXT(claim->key), SQL_TEXT(claim->token.text) }, 2,
                  &released));
}
