/* The dispatcher's SQL. Leases are measured by the database's clock, which all processes share. */
#include "api/outbox/internal.h"

#include "appliance/base/alloc.h"

#define NOW_US          "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
/* A list of texts that is a parameter. The planner must not see its length: it would prefer a plan for just that list,
 * and make one each time, which takes several times as long as the statement. */
#define LIST(parameter) "string_to_array((SELECT " parameter "::text), ',')"
/* The next pair with a pending row behind (d, t), among the destinations of $3: a step in the index for each of these,
 * however many rows a pair has. */
/* clang-format off */
#define PAIR_AFTER(d, t)                                                                                          \
    "SELECT w.destination, x.tenant_id FROM unnest(" LIST("$3") ") AS w (destination)"                            \
    " CROSS JOIN LATERAL (SELECT o.tenant_id FROM svc.outbox o WHERE o.state = 'pending'"                         \
    " AND o.destination = w.destination AND o.tenant_id > CASE WHEN w.destination > " d " THEN '' ELSE " t " END" \
    " ORDER BY o.tenant_id LIMIT 1) x WHERE w.destination >= " d " ORDER BY w.destination LIMIT 1"
/* clang-format on */
#define LIST_MAX        ((size_t)64 << 10)

static const struct sql SQL_ASYNC = { "outbox_async", "SELECT set_config('synchronous_commit', 'off', true)", 0 };
/* clang-format off */
static const struct sql SQL_PAIRS = {
    "outbox_pairs",
    "WITH RECURSIVE behind AS ((" PAIR_AFTER("$1", "$2") ") UNION ALL SELECT n.destination, n.tenant_id"
    " FROM behind b CROSS JOIN LATERAL (" PAIR_AFTER("b.destination", "b.tenant_id") ") n),"
    " every AS ((" PAIR_AFTER("''", "''") ") UNION ALL SELECT n.destination, n.tenant_id"
    " FROM every e CROSS JOIN LATERAL (" PAIR_AFTER("e.destination", "e.tenant_id") ") n)"
    " (SELECT destination, tenant_id FROM behind LIMIT 256)"
    " UNION ALL (SELECT destination, tenant_id FROM every LIMIT 256)",
    3,
};
static const struct sql SQL_TAKE = {
    "outbox_take",
    "WITH picked AS MATERIALIZED (SELECT x.id, w.lease FROM unnest(" LIST("$1") ", " LIST("$2") ", "
    LIST("$3") "::bigint[], " LIST("$4") "::bigint[]) AS w (destination, tenant_id, count, lease)"
    " CROSS JOIN LATERAL (SELECT o.id FROM svc.outbox o WHERE o.state = 'pending' AND o.destination = w.destination"
    " AND o.tenant_id = w.tenant_id AND o.due_us <= " NOW_US " ORDER BY o.due_us, o.id LIMIT w.count"
    " FOR UPDATE SKIP LOCKED) x)"
    " UPDATE svc.outbox SET state = 'processing', worker_id = $5, attempts = attempts + 1,"
    " lease_until_us = " NOW_US " + picked.lease FROM picked WHERE outbox.id = picked.id"
    " RETURNING outbox.id, tenant_id, destination, key, trace_id, payload, attempts,"
    " EXISTS (SELECT FROM svc.outbox_failures f WHERE f.tenant_id = outbox.tenant_id AND f.outbox_id = outbox.id)",
    5,
};
/* clang-format on */
static const struct sql SQL_SWEEP = {
    "outbox_sweep",
    "UPDATE svc.outbox SET state = 'pending', worker_id = '', lease_until_us = 0"
    " WHERE state = 'processing' AND lease_until_us < " NOW_US,
    0,
};

static const struct sql SQL_RETURN = {
    "outbox_return",
    "UPDATE svc.outbox SET state = 'pending', worker_id = '', lease_until_us = 0"
    " WHERE state = 'processing' AND (worker_id = $1 OR lease_until_us < " NOW_US ")",
    1,
};

/* Only as long as the lease is still this one: `attempts` tells. */
#define MINE " WHERE id = $1 AND state = 'processing' AND worker_id = $2 AND attempts = $3"
static const struct sql outcomes[] = {
    [OUTCOME_DELIVERED] = { "outbox_delivered",
                            "UPDATE svc.outbox SET state = 'delivered', worker_id = '', lease_until_us = 0, attempts = "
                            "0,"
                            " due_us = 0" MINE,
                            3 },
    [OUTCOME_RETRY] = { "outbox_retry",
                        "UPDATE svc.outbox SET state = 'pending', worker_id = '', lease_until_us = 0,"
                        " due_us = " NOW_US " + $4" MINE,
                        4 },
    [OUTCOME_DEAD] = { "outbox_dead",
                       "UPDATE svc.outbox SET state = 'dead-lettered', worker_id = '', lease_until_us = 0, attempts = "
                       "0,"
                       " due_us = 0" MINE,
                       3 },
    [OUTCOME_GIVE_BACK] = { "outbox_give_back",
                            "UPDATE svc.outbox SET state = 'pending', worker_id = '', lease_until_us = 0,"
                            " attempts = attempts - 1" MINE,
                            3 },
};

static const struct sql SQL_FAILED = {
    "outbox_failed",
    "INSERT INTO svc.outbox_failures (tenant_id, outbox_id, code, attempts, first_us, last_us)"
    " VALUES ($1, $2, $3, $4, " NOW_US ", " NOW_US ")"
    " ON CONFLICT (tenant_id, outbox_id) DO UPDATE SET code = excluded.code, attempts = excluded.attempts,"
    " last_us = excluded.last_us",
    4,
};
static const struct sql SQL_UNFAILED = {
    "outbox_unfailed",
    "DELETE FROM svc.outbox_failures WHERE tenant_id = $1 AND outbox_id = $2",
    2,
};

void job_free(struct job *job)
{
    if (job != NULL) {
        mem_free(job->key);
        buf_free(&job->payload);
        mem_free(job);
    }
}

static const struct outbox_row *row_of(const struct outbox *outbox, const char *destination)
{
    for (size_t i = 0; i < outbox->row_count; i++) {
        if (strcmp(outbox->rows[i]->destination, destination) == 0) {
            return outbox->rows[i];
        }
    }
    return NULL;
}

struct fault lease_async(struct tx *tx)
{
    return tx_queue(tx, &SQL_ASYNC, NULL, 0);
}

struct fault lease_sweep(struct tx *tx)
{
    return tx_queue(tx, &SQL_SWEEP, NULL, 0);
}

struct fault lease_return(struct tx *tx, const struct outbox *outbox, int64_t *ret_rows)
{
    return tx_exec(tx, &SQL_RETURN, (struct sql_arg[]){ SQL_TEXT(outbox->worker_id.text) }, 1, ret_rows);
}

static bool listed(const struct pair *pairs, size_t count, const struct outbox_row *row, const char *tenant)
{
    for (size_t i = 0; i < count; i++) {
        if (pairs[i].row == row && strcmp(pairs[i].tenant.text, tenant) == 0) {
            return true;
        }
    }
    return false;
}

struct fault lease_pairs(struct tx *tx, const struct outbox *outbox, const struct pair *cursor, struct pair *ret_pairs,
                         size_t *ret_count)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const char *destination = cursor->row != NULL ? cursor->row->destination : "";
    struct sql_arg args[] = { SQL_TEXT(destination), SQL_TEXT(cursor->tenant.text),
                              SQL_SPAN(
                                  buf_span(atomic_load(&outbox->narrow) ? &outbox->awaited : &outbox->destinations)) };
    size_t count = 0;
    TRY(tx_query(tx, &SQL_PAIRS, args, COUNT_OF(args), &rows));
    for (size_t i = 0; i < rows_count(rows) && count < OUTBOX_PAIRS_MAX; i++) {
        const struct outbox_row *row = row_of(outbox, rows_text(rows, i, 0));
        if (row == NULL || listed(ret_pairs, count, row, rows_text(rows, i, 1))) {
            continue; /* met already */
        }
        ret_pairs[count] = (struct pair){ .row = row };
        TRY(tenant_id_parse(span_text(rows_text(rows, i, 1)), &ret_pairs[count].tenant));
        count++;
    }
    *ret_count = count;
    return OK;
}

static struct fault make_job(const struct outbox *outbox, const struct rows *rows, size_t at, struct job **ret_job)
{
    CLEANUP(job_freep) struct job *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    made->id = rows_int(rows, at, 0);
    TRY(tenant_id_parse(span_text(rows_text(rows, at, 1)), &made->tenant));
    made->row = row_of(outbox, rows_text(rows, at, 2));
    BUG_IF(made->row == NULL);
    TRY(mem_dup_text(rows_text(rows, at, 3), 1024, &made->key));
    struct span trace = rows_bytes(rows, at, 4);
    REQUIRE(trace.len < sizeof(made->trace_id), INTERNAL);
    memcpy(made->trace_id, trace.at, trace.len);
    struct span payload = rows_bytes(rows, at, 5);
    made->payload = (struct buf)BUF_INIT(payload.len + 1);
    TRY(buf_put(&made->payload, payload));
    made->attempt = rows_int(rows, at, 6);
    made->failed_before = rows_bool(rows, at, 7);
    *ret_job = TAKE(made);
    return OK;
}

static struct fault make_jobs(const struct outbox *outbox, const struct rows *rows, struct job **ret_jobs)
{
    struct job *jobs = NULL;
    for (size_t i = rows_count(rows); i > 0; i--) {
        struct job *job = NULL;
        struct fault fault = make_job(outbox, rows, i - 1, &job);
        if (FAULTED(fault)) {
            while (jobs != NULL) {
                job = jobs;
                jobs = job->next;
                job_free(job);
            }
            return fault;
        }
        job->next = jobs;
        jobs = job;
    }
    *ret_jobs = jobs;
    return OK;
}

struct fault lease_take(struct tx *tx, const struct outbox *outbox, const struct pair *pairs, size_t count,
                        struct job **ret_jobs, unsigned *ret_count)
{
    CLEANUP(buf_free) struct buf destinations = BUF_INIT(LIST_MAX);
    CLEANUP(buf_free) struct buf tenants = BUF_INIT(LIST_MAX);
    CLEANUP(buf_free) struct buf counts = BUF_INIT(LIST_MAX);
    CLEANUP(buf_free) struct buf leases = BUF_INIT(LIST_MAX);
    CLEANUP(rows_freep) struct rows *rows = NULL;
    for (size_t i = 0; i < count; i++) {
        const char *comma = i > 0 ? "," : "";
        int64_t lease = pairs[i].row->deadline_ms * 1000LL + LEASE_GRACE_US;
        TRY(buf_printf(&destinations, "%s%s", comma, pairs[i].row->destination));
        TRY(buf_printf(&tenants, "%s%s", comma, pairs[i].tenant.text));
        TRY(buf_printf(&counts, "%s%u", comma, pairs[i].count));
        TRY(buf_printf(&leases, "%s%lld", comma, (long long)lease));
    }
    struct sql_arg args[] = { SQL_SPAN(buf_span(&destinations)), SQL_SPAN(buf_span(&tenants)),
                              SQL_SPAN(buf_span(&counts)), SQL_SPAN(buf_span(&leases)),
                              SQL_TEXT(outbox->worker_id.text) };
    TRY(tx_query(tx, &SQL_TAKE, args, COUNT_OF(args), &rows));
    TRY(make_jobs(outbox, rows, ret_jobs));
    *ret_count = (unsigned)rows_count(rows);
    return OK;
}

/* For operators; nothing is decided from it. */
static struct fault note_failure(struct tx *tx, const struct job *job, enum outcome outcome, const char *code)
{
    struct sql_arg args[] = { SQL_TEXT(job->tenant.text), SQL_INT(job->id), SQL_TEXT(code), SQL_INT(job->attempt) };
    if (outcome == OUTCOME_RETRY || outcome == OUTCOME_DEAD) {
        return tx_queue(tx, &SQL_FAILED, args, COUNT_OF(args));
    }
    return outcome == OUTCOME_DELIVERED && job->failed_before ? tx_queue(tx, &SQL_UNFAILED, args, 2) : OK;
}

struct fault lease_outcome(struct op *op, const struct outbox *outbox, const struct job *job, enum outcome outcome,
                           int64_t delay_us, const char *code)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    struct sql_arg args[] = { SQL_INT(job->id), SQL_TEXT(outbox->worker_id.text), SQL_INT(job->attempt),
                              SQL_INT(delay_us) };
    TRY(tx_begin(op, outbox->config.store, STORE_BOOKKEEPING, &tx));
    TRY(lease_async(tx));
    TRY(tx_queue(tx, &outcomes[outcome], args, outcomes[outcome].args));
    TRY(note_failure(tx, job, outcome, code));
    return tx_commit(&tx);
}
