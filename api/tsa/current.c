#include "api/tsa/current.h"

#include "api/tsa/internal.h"
#include "appliance/base/alloc.h"

#define SLOT_SHIFT 56
#define TAKEN_MASK ((UINT64_C(1) << SLOT_SHIFT) - 1)
#define SHOWN      (INT64_C(1) << 60) /* what a slot that is shown counts above those who gave back */

void tsa_snapshot_free(struct tsa_snapshot *snapshot)
{
    if (snapshot == NULL) {
        return;
    }
    tsa_unit_free(snapshot->unit);
    buf_free(&snapshot->chain_pem);
    mem_free(snapshot);
}

static void put(struct tsa_current *current, unsigned slot, struct tsa_snapshot *snapshot)
{
    snapshot->slot = slot;
    atomic_store(&current->slots[slot].held, SHOWN);
    atomic_store(&current->slots[slot].at, snapshot);
}

void tsa_current_init(struct tsa_current *current, struct tsa_snapshot *first)
{
    for (unsigned i = 0; i < TSA_SLOTS; i++) {
        atomic_init(&current->slots[i].held, 0);
        atomic_init(&current->slots[i].at, NULL);
    }
    put(current, 0, first);
    atomic_init(&current->word, 0);
}

void tsa_current_clear(struct tsa_current *current)
{
    for (unsigned i = 0; i < TSA_SLOTS; i++) {
        tsa_snapshot_free(atomic_exchange(&current->slots[i].at, NULL));
    }
}

struct tsa_snapshot *tsa_current_take(struct tsa_current *current)
{
    uint64_t word = atomic_fetch_add_explicit(&current->word, 1, memory_order_acq_rel);
    return atomic_load_explicit(&current->slots[word >> SLOT_SHIFT].at, memory_order_acquire);
}

/* Adds to who gave back, or (on exchange) the account of the word; at nought nobody holds it and nobody can any more.
 */
static void settle(struct tsa_current *current, unsigned slot, int64_t by)
{
    if (atomic_fetch_add_explicit(&current->slots[slot].held, by, memory_order_acq_rel) + by == 0) {
        tsa_snapshot_free(atomic_exchange_explicit(&current->slots[slot].at, NULL, memory_order_acq_rel));
    }
}

void tsa_current_give(struct tsa_current *current, struct tsa_snapshot *snapshot)
{
    settle(current, snapshot->slot, -1);
}

struct fault tsa_current_show(struct tsa_current *current, struct tsa_snapshot **next)
{
    unsigned slot = 0;
    while (slot < TSA_SLOTS && atomic_load(&current->slots[slot].at) != NULL) {
        slot++;
    }
    REQUIRE(slot < TSA_SLOTS, SATURATED);
    put(current, slot, TAKE(*next));
    uint64_t before = atomic_exchange_explicit(&current->word, (uint64_t)slot << SLOT_SHIFT, memory_order_acq_rel);
    settle(current, (unsigned)(before >> SLOT_SHIFT), (int64_t)(before & TAKEN_MASK) - SHOWN);
    return OK;
}
