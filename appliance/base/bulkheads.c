#include "appliance/base/bulkheads.h"

#include "appliance/base/alloc.h"

#define NEIGHBOUR_NS (3600 * NS_PER_S)

struct bulkheads {
    const struct config *config;
    struct neighbours *neighbours;
    struct bulkhead *at[BULKHEAD_COUNT]; /* NONE is NULL */
};

const char *bulkhead_name_text(enum bulkhead_name name)
{
    static const char *const texts[] = {
        "none",
#define BULKHEAD_ROW(symbol, text, ...)         text,
#define BULKHEAD_BACKLOG_ROW(symbol, text, ...) text,
#include "appliance/base/bulkheads.def"
#undef BULKHEAD_ROW
#undef BULKHEAD_BACKLOG_ROW
    };
    static_assert(COUNT_OF(texts) == BULKHEAD_COUNT);
    BUG_IF(name < 0 || name >= BULKHEAD_COUNT);
    return texts[name];
}

/* 0 = as many as there can be. */
static int64_t least(int64_t wanted, int64_t bound)
{
    return wanted == 0 || wanted > bound ? bound : wanted;
}

static int64_t longer(int64_t one, int64_t other)
{
    return one > other ? one : other;
}

static int64_t wait_of(const struct config *config, enum bulkhead_name name)
{
    const int64_t waits[] = {
        0,
#define BULKHEAD_ROW(symbol, text, limit, queue, wait) wait,
#define BULKHEAD_BACKLOG_ROW(...)                      0,
#include "appliance/base/bulkheads.def"
#undef BULKHEAD_ROW
#undef BULKHEAD_BACKLOG_ROW
    };
    static_assert(COUNT_OF(waits) == BULKHEAD_COUNT);
    return waits[name];
}

static struct fault make_all(const struct config *config, struct bulkheads *made)
{
#define BULKHEAD_ROW(symbol, text, limit, queue, ...)                                      \
    TRY(bulkhead_new((unsigned)(limit), (unsigned)(queue), &made->at[BULKHEAD_##symbol])); \
    bulkhead_among(made->at[BULKHEAD_##symbol], made->neighbours);
#define BULKHEAD_BACKLOG_ROW(symbol, text, queue) \
    TRY(bulkhead_new_of_backlog((unsigned)(queue), &made->at[BULKHEAD_##symbol]));
#include "appliance/base/bulkheads.def"
#undef BULKHEAD_ROW
#undef BULKHEAD_BACKLOG_ROW
    return OK;
}

struct fault bulkheads_new(const struct config *config, struct bulkheads **ret_bulkheads)
{
    CLEANUP(bulkheads_freep) struct bulkheads *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    made->config = config;
    TRY(neighbours_new(NEIGHBOUR_NS, &made->neighbours));
    TRY(make_all(config, made));
    *ret_bulkheads = TAKE(made);
    return OK;
}

void bulkheads_free(struct bulkheads *bulkheads)
{
    if (bulkheads == NULL) {
        return;
    }
    for (size_t i = 0; i < COUNT_OF(bulkheads->at); i++) {
        bulkhead_free(bulkheads->at[i]);
    }
    neighbours_free(bulkheads->neighbours);
    mem_free(bulkheads);
}

struct bulkhead *bulkheads_get(const struct bulkheads *bulkheads, enum bulkhead_name name)
{
    BUG_IF(name < 0 || name >= BULKHEAD_COUNT);
    return bulkheads != NULL ? bulkheads->at[name] : NULL;
}

static struct fault told(struct op *op, enum bulkhead_name name, struct fault fault)
{
    return FAULTED(fault)
               ? op_fail(op, fault, "too much of this kind (%s) is being handled: repeat the request as it is",
                         bulkhead_name_text(name))
               : OK;
}

static mono_ns until(const struct op *op, const struct bulkheads *bulkheads, enum bulkhead_name name)
{
    mono_ns patience = clock_mono() + wait_of(bulkheads->config, name);
    return patience < op->deadline ? patience : op->deadline;
}

struct fault bulkheads_join(struct op *op, const struct bulkheads *bulkheads, enum bulkhead_name name,
                            struct permit *ret_permit)
{
    struct bulkhead *bulkhead = bulkheads_get(bulkheads, name);
    return bulkhead != NULL ? told(op, name, bulkhead_join(bulkhead, ret_permit)) : OK;
}

struct fault bulkheads_turn(struct op *op, const struct bulkheads *bulkheads, enum bulkhead_name name,
                            struct permit *permit)
{
    if (bulkheads_get(bulkheads, name) == NULL) {
        return OK;
    }
    unsigned percent = (unsigned)bulkheads->config->bulkhead_tenant_share;
    if (op->tenant.text[0] != 0 && FAULTED(permit_charge(permit, op->tenant, percent))) {
        return op_fail(op, FAULT(SATURATED),
                       "this tenant has its share of what is handled at once (%s): repeat the request as it is",
                       bulkhead_name_text(name));
    }
    return told(op, name, permit_turn(permit, until(op, bulkheads, name)));
}

struct fault bulkheads_enter(struct op *op, const struct bulkheads *bulkheads, enum bulkhead_name name,
                             struct permit *ret_permit)
{
    CLEANUP(permit_release) struct permit permit = { 0 };
    TRY(bulkheads_join(op, bulkheads, name, &permit));
    TRY(bulkheads_turn(op, bulkheads, name, &permit));
    *ret_permit = permit;
    permit = (struct permit){ 0 };
    return OK;
}

void bulkheads_load(const struct bulkheads *bulkheads, enum bulkhead_name name, struct bulkhead_load *ret_load)
{
    struct bulkhead *bulkhead = bulkheads_get(bulkheads, name);
    *ret_load = (struct bulkhead_load){ 0 };
    if (bulkhead != NULL) {
        bulkhead_load(bulkhead, ret_load);
    }
}
