/* Every instance shows the unit that the record names, a moment after it was recorded: nothing else decides. */
#include "api/identity/identity_feature.h"
#include "api/tsa/internal.h"
#include "api/tsa/units.h"
#include "appliance/base/alloc.h"
#include "appliance/base/codec.h"
#include "appliance/base/crypto.h"
#include "appliance/base/log.h"

#include <math.h>
#include <stdio.h>

#define CHAIN_PEM_MAX ((size_t)1 << 20)
#define ANEW_NS       (3600 * NS_PER_S) /* expired certificates leave the published chain */
#define EACH_MS       20000             /* for one tenant */

struct tsa *tsa_of_tenant(const struct services *services, struct tenant_id tenant)
{
    for (struct tsa *tsa = services->tsa; tsa != NULL; tsa = tsa->next) {
        if (atomic_load(&tsa->known) && tenant_id_equal(tsa->settings.tenant, tenant)) {
            return tsa;
        }
    }
    return NULL;
}

/* ---- what is shown ---- */

static struct fault unit_of(struct op *op, struct services *services, const struct tsa *tsa, const struct unit *active,
                            struct tsa_unit **ret_unit)
{
    CLEANUP(tsa_unit_freep) struct tsa_unit *made = NULL;
    struct managed_key key;
    TRY(keys_get(op, services, active->id, &key));
    TRY(tsa_unit_of_chain(op, &key.ref, key.algorithm, key.spki, active->chain, active->chain_count,
                          tsa_accuracy_stated_ms(tsa->settings.config), &made));
    made->usage_end = active->usage_end < made->usage_end ? active->usage_end : made->usage_end;
    *ret_unit = TAKE(made);
    return OK;
}

static struct fault name_chain(struct tsa_snapshot *snapshot)
{
    struct sha256 digest;
    char hex[2 * SHA256_LEN + 1];
    TRY(sha256_of(buf_span(&snapshot->chain_pem), &digest));
    hex_text(SPAN_ARRAY(digest.at), hex, sizeof(hex));
    (void)snprintf(snapshot->etag, sizeof(snapshot->etag), "\"%s\"", hex);
    return OK;
}

static struct fault snapshot_of(struct op *op, struct services *services, const struct tsa *tsa,
                                const struct units *units, struct tsa_snapshot **ret_snapshot)
{
    CLEANUP(tsa_snapshot_freep) struct tsa_snapshot *made = NULL;
    const struct unit *active = units_active(units), *waiting = units_waiting(units);
    TRY(mem_new(1, sizeof(*made), &made));
    made->chain_pem = (struct buf)BUF_INIT(CHAIN_PEM_MAX);
    if (active != NULL) {
        TRY(unit_of(op, services, tsa, active, &made->unit));
    }
    made->successor = waiting != NULL && waiting->state == UNIT_CERTIFIED;
    TRY(tsa_chain_print(units, clock_utc(), &made->chain_pem));
    TRY(name_chain(made));
    *ret_snapshot = TAKE(made);
    return OK;
}

static void gauge(const struct services *services, enum tsa_metric metric, double value, const char *const *labels)
{
    metrics_set(services->metrics, &tsa_metrics[metric], value, labels);
}

static void tell(const struct services *services, const struct tsa *tsa, const struct tsa_snapshot *snapshot)
{
    const char *const labels[METRIC_LABELS_MAX] = { tsa->settings.tenant.text };
    const struct tsa_unit *unit = snapshot->unit;
    gauge(services, TSA_METRIC_UNIT_CERTIFICATE_END, unit != NULL ? (double)unit->not_after / (double)US_PER_S : NAN,
          labels);
    gauge(services, TSA_METRIC_UNIT_USAGE_END, unit != NULL ? (double)unit->usage_end / (double)US_PER_S : NAN, labels);
    gauge(services, TSA_METRIC_UNIT_SUCCESSOR, snapshot->successor, labels);
    log_write(INFO, "tsa_unit_in_place", LOG_TEXT("tenant", tsa->settings.tenant.text),
              LOG_TEXT("unit", unit != NULL ? unit->ref.id.text : NULL));
}

static struct fault follow_locked(struct op *op, struct services *services, struct tsa *tsa)
{
    CLEANUP(tsa_snapshot_freep) struct tsa_snapshot *made = NULL;
    struct units units;
    uint64_t lane = 0, serial = 0;
    TRY(units_lane(op, services, &lane));
    if (lane == tsa->followed && (lane == 0 || clock_mono() - tsa->followed_at < ANEW_NS)) {
        return OK;
    }
    TRY(units_read(op, services, &units));
    TRY(snapshot_of(op, services, tsa, &units, &made));
    if (made->unit != NULL && !tsa->leased) {
        TRY(tsa_serial_next(op, services, tsa->serials, &serial)); /* a lease is there before the first request */
        tsa->leased = true;
    }
    tell(services, tsa, made);
    TRY(tsa_current_show(&tsa->current, &made));
    tsa->followed = units.lane;
    tsa->followed_at = clock_mono();
    return OK;
}

/* Tokens of other instances, and of this one before it was started. The first authority's mark is with the clock. */
static struct fault read_mark(struct op *op, struct services *services, struct tsa *tsa)
{
    utc_us mark = 0;
    if (tsa->settings.first || (tsa->marked_at != 0 && clock_mono() - tsa->marked_at < CLOCK_MARK_NS)) {
        return OK;
    }
    TRY(clock_mark_read(op, services, &mark));
    if (mark > atomic_load(&tsa->mark)) {
        atomic_store(&tsa->mark, mark);
    }
    tsa->marked_at = clock_mono();
    return OK;
}

struct fault tsa_follow(struct op *op, struct services *services, struct tsa *tsa)
{
    BUG_IF(pthread_mutex_lock(&tsa->follow_lock) != 0);
    struct fault fault = read_mark(op, services, tsa);
    if (!FAULTED(fault)) {
        fault = follow_locked(op, services, tsa);
    }
    BUG_IF(pthread_mutex_unlock(&tsa->follow_lock) != 0);
    return fault;
}

/* ---- all of them ---- */

static struct fault look_for_tenants(struct op *op, struct services *services)
{
    struct tenant_id *tenants = NULL;
    size_t count = 0;
    bool unknown = false;
    for (struct tsa *tsa = services->tsa; tsa != NULL; tsa = tsa->next) {
        unknown = unknown || !atomic_load(&tsa->known);
    }
    if (!unknown) {
        return OK;
    }
    TRY(identity_tenants(op, services->store, &tenants, &count));
    for (struct tsa *tsa = services->tsa; tsa != NULL; tsa = tsa->next) {
        for (size_t i = 0; i < count; i++) {
            if (tenant_id_equal(tenants[i], tsa->settings.tenant)) {
                atomic_store(&tsa->known, true);
            }
        }
    }
    return OK;
}

/* What fails for one tenant is no other's concern. Gives the last fault. `level`: at which each is told. */
static struct fault for_each(struct services *services, enum log_level level,
                             struct fault (*run)(struct op *op, struct services *services, struct tsa *tsa))
{
    struct fault last = OK;
    for (struct tsa *tsa = services->tsa; tsa != NULL; tsa = tsa->next) {
        CLEANUP(op_freep) struct op *op = NULL;
        if (!atomic_load(&tsa->known)) {
            continue;
        }
        struct fault fault = op_new("system:tsa-units", tsa->settings.tenant, EACH_MS, &op);
        if (!FAULTED(fault)) {
            fault = run(op, services, tsa);
        }
        if (FAULTED(fault)) {
            log_fault(level, "tsa_units_failed", op, fault);
            last = fault;
        }
    }
    return last;
}

struct fault tsa_follow_all(struct op *op, struct services *services)
{
    TRY(look_for_tenants(op, services));
    return for_each(services, LOG_LEVEL_DEBUG, tsa_follow); /* every second: a store that is away is told by others */
}

static struct fault keep(struct op *op, struct services *services, struct tsa *tsa)
{
    TRY(units_keep(op, services, &tsa->settings, false));
    return tsa_follow(op, services, tsa);
}

struct fault tsa_keep_all(struct op *op, struct services *services)
{
    TRY(look_for_tenants(op, services));
    return for_each(services, LOG_LEVEL_WARN, keep);
}

/* ---- readiness ---- */

static struct fault check_one(struct op *op, const struct tsa *tsa, const struct tsa_snapshot *snapshot)
{
    utc_us now = clock_utc();
    if (snapshot->unit == NULL || now >= snapshot->unit->usage_end) {
        return op_fail(op, FAULT(TSA_NO_UNIT), "no valid time-stamping unit is in place for a tenant");
    }
    bool nears = snapshot->unit->usage_end - now <= tsa->settings.config->tsa_unit_activate / 1000;
    if (nears && !snapshot->successor) {
        return op_fail(op, FAULT(TSA_NO_UNIT), "a time-stamping unit's end is near and no successor is certified");
    }
    return OK;
}

struct fault tsa_units_ready(struct op *op, struct services *services)
{
    struct fault fault = OK;
    for (struct tsa *tsa = services->tsa; tsa != NULL && !FAULTED(fault); tsa = tsa->next) {
        if (!atomic_load(&tsa->known)) {
            continue;
        }
        struct tsa_snapshot *held = tsa_current_take(&tsa->current);
        fault = check_one(op, tsa, held);
        tsa_current_give(&tsa->current, held);
    }
    return fault;
}
