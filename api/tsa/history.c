#include "api/tsa/tsa.h"
#include "api/tsa/units.h"

#define DAY_US (86400 * US_PER_S)

struct history {
    struct tsa_chain *at;
    size_t count;
};

static void add(struct history *history, const struct span *chain, size_t count)
{
    history->at[history->count++] = (struct tsa_chain){
        .leaf = count > 1 ? chain[0] : (struct span){ 0 },
        .root = chain[count - 1],
        .chain = chain,
        .chain_count = count,
    };
}

/* Before units were recorded one key could have several certificates after another, of which the log alone knows: the
 * root then stands for them. Such a key is older than its unit, which is the first one. */
static struct fault add_former(struct op *op, struct services *services, const struct unit *unit,
                               struct history *history)
{
    struct managed_key key;
    if (unit->number != 1 || strcmp(unit->issuance, "own") != 0) {
        return OK;
    }
    TRY(keys_get(op, services, unit->id, &key));
    if (unit->prepared - key.created >= DAY_US) {
        add(history, &unit->chain[unit->chain_count - 1], 1);
    }
    return OK;
}

/* Every unit that has stamped, newest first. */
static struct fault add_units(struct op *op, struct services *services, struct history *history)
{
    struct units units;
    TRY(units_read(op, services, &units));
    TRY(arena_take(op->arena, units.count + 2, sizeof(*history->at), &history->at));
    for (size_t i = units.count; i > 0; i--) {
        const struct unit *unit = &units.at[i - 1];
        if (unit->activated != 0 && unit->chain_count >= 2) {
            add(history, unit->chain, unit->chain_count);
            TRY(add_former(op, services, unit, history));
        }
    }
    return OK;
}

static struct fault history_of(struct op *op, struct services *services, struct tenant_id tenant,
                               struct history *history)
{
    struct tenant_id before = op->tenant;
    op->tenant = tenant;
    struct fault fault = add_units(op, services, history);
    op->tenant = before;
    return fault;
}

struct fault tsa_history(struct op *op, struct services *services, struct tsa_chain **ret_chains, size_t *ret_count)
{
    struct tenant_id first;
    struct history shared = { 0 }, own = { 0 };
    struct tsa_chain *chains = NULL;
    if (FAULTED(tenant_id_parse(span_text(services->config->tsa_tenant), &first))) {
        *ret_count = 0; /* no authority can have been started for it */
        return OK;
    }
    TRY(history_of(op, services, first, &shared));
    if (!tenant_id_equal(op->tenant, first)) {
        TRY(history_of(op, services, op->tenant, &own));
    }
    TRY(arena_take(op->arena, shared.count + own.count + 1, sizeof(*chains), &chains));
    for (size_t i = 0; i < own.count + shared.count; i++) {
        chains[i] = i < own.count ? own.at[i] : shared.at[i - own.count];
    }
    *ret_chains = chains;
    *ret_count = own.count + shared.count;
    return OK;
}
