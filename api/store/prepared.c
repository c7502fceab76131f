#include "api/store/internal.h"

#include "appliance/base/alloc.h"

#define PREPARED_FIRST_SIZE 64u

static size_t name_hash(const char *name)
{
    uint64_t hash = 1469598103934665603u; /* FNV-1a */
    for (const unsigned char *c = (const unsigned char *)name; *c != '\0'; c++) {
        hash = (hash ^ *c) * 1099511628211u;
    }
    return (size_t)hash;
}

/* The slot of `name`, or the empty one where it belongs. size is a power of two and never full. */
static size_t slot_of(struct prepared *const *slots, size_t size, const char *name)
{
    size_t at = name_hash(name) & (size - 1);
    while (slots[at] != NULL && strcmp(slots[at]->name, name) != 0) {
        at = (at + 1) & (size - 1);
    }
    return at;
}

static struct fault grow(struct prepared_set *set)
{
    size_t size = set->size == 0 ? PREPARED_FIRST_SIZE : set->size * 2;
    struct prepared **slots = NULL;
    TRY(mem_new(size, sizeof(struct prepared *), &slots));
    for (size_t i = 0; i < set->size; i++) {
        if (set->slots[i] != NULL) {
            slots[slot_of(slots, size, set->slots[i]->name)] = set->slots[i];
        }
    }
    mem_free(set->slots);
    set->slots = slots;
    set->size = size;
    return OK;
}

struct fault prepared_get(struct prepared_set *set, const struct sql *sql, struct prepared **ret_prepared)
{
    if (set->count * 2 >= set->size) {
        TRY(grow(set));
    }
    size_t at = slot_of(set->slots, set->size, sql->name);
    if (set->slots[at] == NULL) {
        struct prepared *made = NULL;
        TRY(mem_new(1, sizeof(*made), &made));
        *made = (struct prepared){ .name = sql->name, .text = sql->text, .state = PREPARED_NOT };
        set->slots[at] = made;
        set->count++;
    }
    BUG_IF(strcmp(set->slots[at]->text, sql->text) != 0); /* one name, one statement */
    *ret_prepared = set->slots[at];
    return OK;
}

void prepared_clear(struct prepared_set *set)
{
    for (size_t i = 0; i < set->size; i++) {
        mem_free(set->slots[i]);
    }
    mem_free(set->slots);
    *set = (struct prepared_set){ 0 };
}
