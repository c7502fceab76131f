#include "api/tsa/tsa.h"
#include "api/tsa/units.h"

/* Every unit that has stamped, newest first. */
static void add_units(const struct units *units, struct tsa_chain *chains, size_t *count)
{
    for (size_t i = units->count; i > 0; i--) {
        const struct unit *unit = &units->at[i - 1];
        if (unit->activated != 0 && unit->chain_count >= 2) {
            chains[(*count)++] = (struct tsa_chain){ .leaf = unit->chain[0],
                                                     .root = unit->chain[unit->chain_count - 1],
                                                     .chain = unit->chain,
                                                     .chain_count = unit->chain_count };
        }
    }
}

static struct fault read_of(struct op *op, struct services *services, struct tenant_id tenant, struct units *ret_units)
{
    struct tenant_id before = op->tenant;
    op->tenant = tenant;
    struct fault fault = units_read(op, services, ret_units);
    op->tenant = before;
    return fault;
}

struct fault tsa_history(struct op *op, struct services *services, struct tsa_chain **ret_chains, size_t *ret_count)
{
    struct tenant_id first;
    struct units shared = { 0 }, own = { 0 };
    struct tsa_chain *chains = NULL;
    size_t count = 0;
    if (FAULTED(tenant_id_parse(span_text(services->config->tsa_tenant), &first))) {
        *ret_count = 0; /* no authority can have been started for it */
        return OK;
    }
    TRY(read_of(op, services, first, &shared));
    if (!tenant_id_equal(op->tenant, first)) {
        TRY(read_of(op, services, op->tenant, &own));
    }
    TRY(arena_take(op->arena, shared.count + own.count + 1, sizeof(*chains), &chains));
    add_units(&own, chains, &count);
    add_units(&shared, chains, &count);
    *ret_chains = chains;
    *ret_count = count;
    return OK;
}
