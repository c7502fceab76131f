/* When certificates end: those of the inventory by horizon, and the one of the HTTPS listener. Gauges of the process
 * that leads, except the listener's, which every process has. */
#include "api/inventory/crypto.h"

#include "api/identity/identity_feature.h"

#include <math.h>

#define DAY_US   (86400 * US_PER_S)
#define AGAIN_NS (60 * NS_PER_S)

enum { CERTIFICATES, NEXT, LISTENER };
const struct metric expiry_metrics[EXPIRY_METRICS] = {
    [CERTIFICATES] = { "svc_certificates",
                       METRIC_GAUGE,
                       "Certificates of the inventory by when they end: expired, 7d, 30d, 90d, later (each certificate "
                       "once). Those of keys that no longer sign are left out. NaN in a process that does not lead.",
                       { "horizon" } },
    [NEXT] = { "svc_certificate_next_expiry_timestamp_seconds",
               METRIC_GAUGE,
               "When the next certificate of the inventory ends; NaN where there is none.",
               { 0 } },
    [LISTENER] = { "svc_listener_certificate_expiry_timestamp_seconds",
                   METRIC_GAUGE,
                   "When the certificate that a listener shows ends.",
                   { "listener" } },
};

static const struct {
    const char *name;
    int64_t days; /* from the former bound to this one; of the last: beyond */
} horizons[] = { { "expired", 0 }, { "7d", 7 }, { "30d", 30 }, { "90d", 90 }, { "later", INT32_MAX } };

static const struct sql SQL_EXPIRY = {
    "inventory_expiry",
    "SELECT count(*) FILTER (WHERE c.not_after_us <= $1), count(*) FILTER (WHERE c.not_after_us <= $2),"
    " count(*) FILTER (WHERE c.not_after_us <= $3), count(*) FILTER (WHERE c.not_after_us <= $4), count(*),"
    " coalesce(min(c.not_after_us) FILTER (WHERE c.not_after_us > $1), 0)"
    " FROM svc.certificates c LEFT JOIN svc.managed_keys k ON k.tenant_id = c.tenant_id AND k.key_id = c.key_id"
    " WHERE k.key_id IS NULL OR k.state IN ('prepared', 'active', 'retiring')",
    4,
};

struct expiry {
    int64_t until[COUNT_OF(horizons)]; /* so many end by then; cumulative */
    utc_us next;                       /* 0 = none */
};

static struct fault count_tenant(struct op *op, struct services *services, utc_us now, struct expiry *expiry)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct sql_arg args[COUNT_OF(horizons) - 1];
    for (size_t i = 0; i < COUNT_OF(args); i++) {
        args[i] = SQL_INT(now + horizons[i].days * DAY_US);
    }
    TRY(tx_begin(op, services->store, STORE_BOOKKEEPING, &tx));
    TRY(tx_query(tx, &SQL_EXPIRY, args, COUNT_OF(args), &rows));
    for (size_t i = 0; i < COUNT_OF(horizons); i++) {
        expiry->until[i] += rows_int(rows, 0, i);
    }
    utc_us next = rows_int(rows, 0, COUNT_OF(horizons));
    expiry->next = next != 0 && (expiry->next == 0 || next < expiry->next) ? next : expiry->next;
    return OK;
}

static void show(struct metrics *metrics, const struct expiry *expiry)
{
    for (size_t i = 0; i < COUNT_OF(horizons); i++) {
        double count = expiry == NULL ? NAN : (double)(expiry->until[i] - (i > 0 ? expiry->until[i - 1] : 0));
        metrics_set(metrics, &expiry_metrics[CERTIFICATES], count, (const char *const[]){ horizons[i].name });
    }
    bool known = expiry != NULL && expiry->next != 0;
    metrics_set(metrics, &expiry_metrics[NEXT], known ? (double)expiry->next / (double)US_PER_S : NAN, NULL);
}

struct fault inventory_expiry(struct op *op, struct services *services)
{
    static mono_ns due; /* soon after the start, then seldom: one worker thread at a time */
    struct expiry expiry = { 0 };
    struct projector_state state;
    struct tenant_id *tenants = NULL, before = op->tenant;
    size_t count = 0;
    const struct crypto_listener *listener = crypto_listener();
    metrics_set(services->metrics, &expiry_metrics[LISTENER],
                listener->not_after != 0 ? (double)listener->not_after / (double)US_PER_S : NAN,
                (const char *const[]){ "https" });
    projector_state(services->projector, &state);
    if (!state.leader) {
        show(services->metrics, NULL);
        due = 0;
        return OK;
    }
    if (clock_mono() < due) {
        return OK;
    }
    TRY(identity_tenants(op, services->store, &tenants, &count));
    struct fault fault = OK;
    utc_us now = clock_utc();
    for (size_t i = 0; i < count && !FAULTED(fault); i++) {
        op->tenant = tenants[i];
        fault = count_tenant(op, services, now, &expiry);
    }
    op->tenant = before;
    TRY(fault);
    show(services->metrics, &expiry);
    due = clock_mono() + AGAIN_NS;
    return OK;
}
