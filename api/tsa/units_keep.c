/* What happens to units by itself: before a key's usage period ends its successor is made, certified and put in place.
 */
#include "api/tsa/units.h"

#define LOCK_KEY      INT64_C(0x7376635f747361) /* "svc_tsa": who keeps the units, over all instances */
#define LOCK_RETRY_NS (200 * NS_PER_MS)

/* Within `ahead` of the end, or without an active unit at all. */
static bool ends_within(const struct unit *active, int64_t ahead_ns, utc_us now)
{
    return active == NULL || active->usage_end - now <= ahead_ns / 1000;
}

static bool is_usable(const struct unit *unit, utc_us now)
{
    return unit != NULL && unit->state == UNIT_CERTIFIED && now >= unit->not_before && now < unit->usage_end;
}

static struct fault issue_for(struct op *op, struct services *services, const struct tsa_settings *settings,
                              const struct unit *unit)
{
    struct managed_key key;
    struct span chain[2];
    TRY(keys_get(op, services, unit->id, &key));
    if (key.chain_count >= 2) { /* of an authority from before units were recorded */
        return unit_certify(op, services, settings, unit->id, UNIT_ISSUED_EXTERNAL, key.chain, key.chain_count);
    }
    TRY(unit_issue(op, services, settings, &key, chain));
    return unit_certify(op, services, settings, unit->id, UNIT_ISSUED_OWN, chain, 2);
}

static struct fault retire_replaced(struct op *op, struct services *services, const struct tsa_settings *settings,
                                    const struct units *units, utc_us now)
{
    for (size_t i = 0; i < units->count; i++) {
        const struct unit *unit = &units->at[i];
        if (unit->state == UNIT_REPLACED && unit->replaced + settings->config->tsa_unit_overlap / 1000 <= now) {
            TRY(unit_retire(op, services, unit->id, "replaced, and its overlap is over", false));
        }
    }
    return OK;
}

/* One step; *ret_done when nothing is due any more. */
static struct fault step(struct op *op, struct services *services, const struct tsa_settings *settings, bool *ret_done)
{
    const struct config *config = settings->config;
    struct units units;
    utc_us now = clock_utc();
    TRY(units_read(op, services, &units));
    const struct unit *active = units_active(&units);
    const struct unit *waiting = units_waiting(&units);
    bool takes_over = ends_within(active, config->tsa_unit_activate, now);
    bool due = takes_over || ends_within(active, config->tsa_unit_prepare, now);
    *ret_done = false;
    if (waiting == NULL && due) {
        return unit_prepare(op, services, settings);
    }
    if (waiting != NULL && waiting->state == UNIT_PREPARED && strcmp(waiting->issuance, "own") == 0) {
        return issue_for(op, services, settings, waiting);
    }
    if (is_usable(waiting, now) && takes_over) {
        return unit_activate(op, services, waiting->id);
    }
    if (waiting != NULL && waiting->state == UNIT_CERTIFIED && now >= waiting->usage_end) {
        return unit_retire(op, services, waiting->id, "its key's usage period ended before it was activated", false);
    }
    TRY(retire_replaced(op, services, settings, &units, now));
    *ret_done = true;
    return OK;
}

static struct fault keep_locked(struct op *op, struct services *services, const struct tsa_settings *settings)
{
    bool done = false;
    TRY(projector_catch_up(op, services->projector));
    for (int i = 0; i < 8 && !done; i++) {
        TRY(step(op, services, settings, &done));
    }
    return OK;
}

static struct fault has_active(struct op *op, struct services *services, bool *ret_active)
{
    struct units units;
    TRY(units_read(op, services, &units));
    *ret_active = units_active(&units) != NULL;
    return OK;
}

struct fault units_keep(struct op *op, struct services *services, const struct tsa_settings *settings, bool wait)
{
    uint64_t seen = 0;
    for (;;) {
        CLEANUP(store_lock_freep) struct store_lock *lock = NULL;
        bool held = false, active = false;
        TRY(store_lock_try(op, services->store, LOCK_KEY, &lock, &held));
        if (held) {
            return keep_locked(op, services, settings);
        }
        if (!wait) {
            return OK;
        }
        TRY(has_active(op, services, &active));
        if (active) {
            return OK;
        }
        if (op_expired(op)) {
            return op_fail(op, FAULT(DEADLINE), "another instance is certifying the TSA keys and does not finish");
        }
        IGNORE(projector_changed(op, services->projector, &seen, clock_mono() + LOCK_RETRY_NS));
    }
}
