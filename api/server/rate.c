#include "api/server/rate.h"

#include "appliance/base/alloc.h"

#include <errno.h>
#include <pthread.h>

#define PLACES      1024u /* tenants that have a lease at the same time, roughly; a power of two */
#define TOKEN       1000000
#define LEASE_FIRST 8
#define LEASE_MOST  256
#define LEASE_NS    NS_PER_S
#define BUSY_NS     (250 * NS_PER_MS) /* a lease that was spent so soon is followed by a larger one */
#define REFUSED_NS  (250 * NS_PER_MS) /* so long, at most, a refusal is not asked for again */

#define NOW_US "(extract(epoch FROM clock_timestamp()) * 1000000)::int8"
/* $1 requests, $2 window, $3 wanted, $4 given back. The row is locked before the clock is read, so time never runs
 * backwards between two that take; where the host's clock was set back, it counts from there. */
static const struct sql TAKE = {
    "rate_take",
    "WITH held AS MATERIALIZED (SELECT tokens, refilled_us FROM svc.rate_buckets "
    "WHERE tenant_id = current_setting('svc.tenant') FOR UPDATE), "
    "timed AS MATERIALIZED (SELECT tokens, " NOW_US " AS now_us, "
    "greatest(0, least($2::int8, " NOW_US " - refilled_us)) * $1::int8 AS grown FROM held), "
    "filled AS MATERIALIZED (SELECT now_us, least($1::int8 * 1000000, tokens + $4::int8 * 1000000 "
    "+ grown / $2::int8 * 1000000 + grown % $2::int8 * 1000000 / $2::int8) AS tokens FROM timed), "
    "given AS MATERIALIZED (SELECT now_us, tokens, CASE WHEN tokens < 1000000 THEN 0 "
    "ELSE least($3::int8, greatest(1, tokens / 8000000)) END AS number FROM filled) "
    "UPDATE svc.rate_buckets b SET tokens = g.tokens - g.number * 1000000, refilled_us = g.now_us FROM given g "
    "WHERE b.tenant_id = current_setting('svc.tenant') RETURNING g.number, b.tokens",
    4,
};
static const struct sql FIRST = {
    "rate_first",
    "INSERT INTO svc.rate_buckets (tenant_id, tokens, refilled_us) "
    "VALUES (current_setting('svc.tenant'), $1::int8 * 1000000, " NOW_US ") ON CONFLICT (tenant_id) DO NOTHING",
    1,
};

enum { REJECTIONS, LEASES, REFUNDS };
const struct metric rate_metrics[] = {
    [REJECTIONS] = { "svc_rate_limit_rejections_total",
                     METRIC_COUNTER,
                     "Requests that were refused with 429, their tenant's budget being spent.",
                     { 0 } },
    [LEASES] = { "svc_rate_limit_leases_total",
                 METRIC_COUNTER,
                 "How often this instance asked a tenant's budget for tokens.",
                 { 0 } },
    [REFUNDS] = { "svc_rate_limit_refunds_total",
                  METRIC_COUNTER,
                  "Tokens given back for requests that were refused with 503.",
                  { 0 } },
};
const size_t rate_metric_count = COUNT_OF(rate_metrics);

/* What this instance has leased for one tenant. */
struct lease {
    struct tenant_id tenant; /* "" = free */
    int64_t tokens;          /* to spend until `until`, to give back afterwards */
    mono_ns until, taken;
    int64_t size;
    bool asking; /* one thread asks; the others wait for what it gets */
    uint64_t asked;
    struct fault fault; /* of the last time */
    mono_ns refused_until;
    int retry_after_s;
};
struct rate {
    struct store *store;
    struct metrics *metrics;
    int64_t requests, window_us, first, most;
    pthread_mutex_t lock; /* guards the leases; never held over I/O */
    pthread_cond_t answered;
    struct lease leases[PLACES];
};

static int64_t at_least(int64_t value, int64_t least)
{
    return value < least ? least : value;
}

static int64_t at_most(int64_t value, int64_t most)
{
    return value > most ? most : value;
}

int rate_retry_after_s(int64_t tokens, int64_t requests, int64_t window_us)
{
    int64_t missing = at_least(TOKEN - tokens, 0);
    int64_t us = (missing * window_us + requests * TOKEN - 1) / (requests * TOKEN);
    return (int)at_least((us + US_PER_S - 1) / US_PER_S, 1);
}

struct fault rate_new(const struct config *config, struct store *store, struct metrics *metrics, struct rate **ret_rate)
{
    struct rate *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    made->store = store;
    made->metrics = metrics;
    made->requests = config->rate_limit_requests;
    made->window_us = config->rate_limit_window / 1000;
    made->first = at_least(at_most(made->requests / 64, LEASE_FIRST), 1);
    made->most = at_least(at_most(made->requests / 16, LEASE_MOST), 1);
    BUG_IF(pthread_mutex_init(&made->lock, NULL) != 0 || pthread_cond_init(&made->answered, NULL) != 0);
    *ret_rate = made;
    return OK;
}

void rate_free(struct rate *rate)
{
    if (rate != NULL) {
        BUG_IF(pthread_mutex_destroy(&rate->lock) != 0 || pthread_cond_destroy(&rate->answered) != 0);
        mem_free(rate);
    }
}

static void lock(struct rate *rate)
{
    BUG_IF(pthread_mutex_lock(&rate->lock) != 0);
}

static void unlock(struct rate *rate)
{
    BUG_IF(pthread_mutex_unlock(&rate->lock) != 0);
}

/* The tenant's lease. A place that is another tenant's is taken over when nothing is in it; NULL when something is:
 * then each request asks for itself. */
static struct lease *lease_locked(struct rate *rate, struct tenant_id tenant, mono_ns now)
{
    uint64_t hash = 1469598103934665603u; /* FNV-1a */
    for (const char *at = tenant.text; *at != '\0'; at++) {
        hash = (hash ^ (unsigned char)*at) * 1099511628211u;
    }
    struct lease *lease = &rate->leases[(hash ^ hash >> 32) & (PLACES - 1)];
    if (strcmp(lease->tenant.text, tenant.text) == 0) {
        return lease;
    }
    if (lease->asking || (lease->tokens > 0 && now < lease->until) || now < lease->refused_until) {
        return NULL;
    }
    *lease = (struct lease){ .tenant = tenant, .asked = lease->asked };
    return lease;
}

static struct fault limited(struct op *op, struct rate *rate, int retry_after_s)
{
    metrics_add(rate->metrics, &rate_metrics[REJECTIONS], 1, NULL);
    struct fault fault = op_fail(op, FAULT(RATE_LIMITED),
                                 "this tenant has spent its budget of %lld requests in %lld s: repeat the request as "
                                 "it is after Retry-After",
                                 (long long)rate->requests, (long long)(rate->window_us / US_PER_S));
    op->note.retry_after_s = retry_after_s;
    return fault;
}

struct answer {
    int64_t given;
    int64_t left; /* millionths */
};
static struct fault ask_once(struct op *op, struct rate *rate, int64_t wanted, int64_t back, struct answer *ret_answer,
                             bool *ret_there)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const struct sql_arg args[] = { SQL_INT(rate->requests), SQL_INT(rate->window_us), SQL_INT(wanted), SQL_INT(back) };
    TRY(store_once(op, rate->store, STORE_REQUEST, STORE_SOON, &TAKE, args, COUNT_OF(args), &rows, NULL));
    *ret_there = rows_count(rows) == 1;
    if (*ret_there) {
        *ret_answer = (struct answer){ .given = rows_int(rows, 0, 0), .left = rows_int(rows, 0, 1) };
    }
    return OK;
}

static struct fault ask(struct op *op, struct rate *rate, int64_t wanted, int64_t back, struct answer *ret_answer)
{
    bool there = false;
    metrics_add(rate->metrics, &rate_metrics[LEASES], 1, NULL);
    TRY(ask_once(op, rate, wanted, back, ret_answer, &there));
    if (!there) { /* the tenant's first request */
        const struct sql_arg args[] = { SQL_INT(rate->requests) };
        TRY(store_once(op, rate->store, STORE_REQUEST, STORE_SOON, &FIRST, args, COUNT_OF(args), NULL, NULL));
        TRY(ask_once(op, rate, wanted, 0, ret_answer, &there));
    }
    return there ? OK : FAULT(STORE_BUSY);
}

/* For a tenant that has no place. */
static struct fault take_alone(struct op *op, struct rate *rate)
{
    struct answer answer;
    TRY(ask(op, rate, 1, 0, &answer));
    return answer.given > 0 ? OK : limited(op, rate, rate_retry_after_s(answer.left, rate->requests, rate->window_us));
}

static int64_t next_size(const struct rate *rate, const struct lease *lease, mono_ns now)
{
    if (lease->tokens > 0 || lease->size == 0) {
        return rate->first;
    }
    return now - lease->taken < BUSY_NS ? at_most(lease->size * 2, rate->most) : lease->size;
}

static void keep_locked(struct rate *rate, struct lease *lease, const struct answer *answer, mono_ns now)
{
    if (answer->given > 0) {
        lease->tokens += answer->given - 1;
        lease->taken = now;
        lease->until = now + LEASE_NS;
        lease->refused_until = 0;
        return;
    }
    int64_t us = (TOKEN - answer->left) * rate->window_us / (rate->requests * TOKEN);
    lease->retry_after_s = rate_retry_after_s(answer->left, rate->requests, rate->window_us);
    lease->refused_until = now + at_most(us * 1000, REFUSED_NS);
}

/* Called with the lock, returns without. */
static struct fault ask_for_all(struct op *op, struct rate *rate, struct lease *lease, mono_ns now)
{
    struct answer answer = { 0 };
    int64_t wanted = next_size(rate, lease, now), back = lease->tokens;
    lease->size = wanted;
    lease->tokens = 0;
    lease->asking = true;
    unlock(rate);
    struct fault fault = ask(op, rate, wanted, back, &answer);
    lock(rate);
    lease->asking = false;
    lease->asked++;
    lease->fault = fault;
    if (!FAULTED(fault)) {
        keep_locked(rate, lease, &answer, clock_mono());
    }
    int retry_after_s = lease->retry_after_s;
    BUG_IF(pthread_cond_broadcast(&rate->answered) != 0);
    unlock(rate);
    TRY(fault);
    return answer.given > 0 ? OK : limited(op, rate, retry_after_s);
}

static struct fault too_late(struct op *op)
{
    return op_fail(op, FAULT(STORE_BUSY), "the tenant's request budget could not be asked in time: repeat the request");
}

/* True when the answer that was waited for is a failure: it is that of all who waited. */
static bool wait_locked(struct rate *rate, const struct lease *lease, mono_ns deadline)
{
    const struct timespec until = { .tv_sec = deadline / NS_PER_S, .tv_nsec = deadline % NS_PER_S };
    uint64_t asked = lease->asked;
    while (lease->asking && lease->asked == asked && clock_mono() < deadline) {
        int code = pthread_cond_clockwait(&rate->answered, &rate->lock, CLOCK_MONOTONIC, &until);
        BUG_IF(code != 0 && code != ETIMEDOUT);
    }
    return lease->asked == asked || FAULTED(lease->fault);
}

struct fault rate_take(struct op *op, struct rate *rate)
{
    lock(rate);
    for (;;) {
        mono_ns now = clock_mono();
        struct lease *lease = lease_locked(rate, op->tenant, now);
        if (lease == NULL) {
            unlock(rate);
            return take_alone(op, rate);
        }
        if (lease->tokens > 0 && now < lease->until) {
            lease->tokens--;
            unlock(rate);
            return OK;
        }
        if (now < lease->refused_until) {
            int retry_after_s = lease->retry_after_s;
            unlock(rate);
            return limited(op, rate, retry_after_s);
        }
        if (!lease->asking) {
            return ask_for_all(op, rate, lease, now);
        }
        if (wait_locked(rate, lease, op->deadline)) {
            unlock(rate);
            return too_late(op);
        }
    }
}

void rate_refund(const struct op *op, struct rate *rate)
{
    lock(rate);
    struct lease *lease = lease_locked(rate, op->tenant, clock_mono());
    bool given = lease != NULL && lease->tokens < rate->most;
    if (given) {
        lease->tokens++;
    }
    unlock(rate);
    if (given) {
        metrics_add(rate->metrics, &rate_metrics[REFUNDS], 1, NULL);
    }
}
