#include "signer-pkcs11/broker/index.h"

#include "appliance/base/alloc.h"
#include "appliance/base/id.h"

#define SIZE_MIN ((size_t)1024)

struct fault index_init(struct index *index)
{
    *index = (struct index){ 0 };
    return random_bytes((uint8_t *)index->seed, sizeof(index->seed));
}

void index_clear(struct index *index)
{
    mem_free(TAKE(index->slots));
    *index = (struct index){ 0 };
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u; /* the finaliser of splitmix64 */
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

static uint32_t hash_of(const struct index *index, const uint8_t id[16])
{
    uint64_t half[2];
    memcpy(half, id, sizeof(half));
    return (uint32_t)(mix(mix(half[0] ^ index->seed[0]) + (half[1] ^ index->seed[1])) >> 32);
}

static void place_slot(uint64_t *slots, size_t size, uint64_t slot)
{
    size_t at = (size_t)(slot >> 32) & (size - 1);
    while (slots[at] != 0) {
        at = (at + 1) & (size - 1);
    }
    slots[at] = slot;
}

struct fault index_reserve(struct index *index, size_t more)
{
    size_t size = index->size == 0 ? SIZE_MIN : index->size;
    while (index->used + more > size / 4 * 3) {
        size *= 2;
    }
    if (size == index->size) {
        return OK;
    }
    uint64_t *slots = NULL;
    TRY(mem_new(size, sizeof(*slots), &slots));
    for (size_t i = 0; i < index->size; i++) {
        if (index->slots[i] != 0) {
            place_slot(slots, size, index->slots[i]);
        }
    }
    mem_free(index->slots);
    index->slots = slots;
    index->size = size;
    return OK;
}

void index_put(struct index *index, const uint8_t id[16], uint32_t place)
{
    BUG_IF(place == 0 || index->used >= index->size / 4 * 3);
    place_slot(index->slots, index->size, (uint64_t)hash_of(index, id) << 32 | place);
    index->used++;
}

/* Those behind it that were driven from their own places by it move up. */
static void take_out(struct index *index, size_t hole)
{
    uint64_t *slots = index->slots;
    size_t mask = index->size - 1;
    for (size_t at = (hole + 1) & mask; slots[at] != 0; at = (at + 1) & mask) {
        size_t home = (size_t)(slots[at] >> 32) & mask;
        if (((at - home) & mask) >= ((at - hole) & mask)) {
            slots[hole] = slots[at];
            hole = at;
        }
    }
    slots[hole] = 0;
    index->used--;
}

void index_forget(struct index *index, size_t from, size_t count, bool (*gone)(const void *arg, uint32_t place),
                  const void *arg)
{
    for (size_t at = from; at < from + count && at < index->size;) {
        if (index->slots[at] != 0 && gone(arg, (uint32_t)index->slots[at])) {
            take_out(index, at);
        } else {
            at++;
        }
    }
}

size_t index_find(const struct index *index, const uint8_t id[16], uint32_t out[INDEX_CANDIDATES_MAX])
{
    size_t count = 0;
    if (index->size == 0) {
        return 0;
    }
    uint32_t hash = hash_of(index, id);
    for (size_t at = hash & (index->size - 1); index->slots[at] != 0; at = (at + 1) & (index->size - 1)) {
        if ((uint32_t)(index->slots[at] >> 32) == hash && count < INDEX_CANDIDATES_MAX) {
            out[count++] = (uint32_t)index->slots[at];
        }
    }
    return count;
}
