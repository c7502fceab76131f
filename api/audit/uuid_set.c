#include "api/audit/uuid_set.h"

#include "appliance/base/alloc.h"

#define ROOM_FIRST ((size_t)1 << 12)
#define ROOM_MOST  ((size_t)1 << 32)

struct entry {
    uint64_t high, low;
};
struct uuid_set {
    struct entry *at; /* both 0 = empty */
    size_t room, count;
    bool has_zero;
};

struct fault uuid_set_new(struct uuid_set **ret_set)
{
    struct uuid_set *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    made->room = ROOM_FIRST;
    struct fault fault = mem_new(made->room, sizeof(*made->at), &made->at);
    if (FAULTED(fault)) {
        mem_free(made);
        return fault;
    }
    *ret_set = made;
    return OK;
}

void uuid_set_free(struct uuid_set *set)
{
    if (set != NULL) {
        mem_free(set->at);
        mem_free(set);
    }
}

static struct fault read_id(struct uuid id, struct entry *ret_entry)
{
    uint64_t half[2] = { 0, 0 };
    size_t digits = 0;
    for (const char *at = id.text; *at != '\0'; at++) {
        uint64_t digit = 0;
        if (*at == '-') {
            continue;
        }
        if (*at >= '0' && *at <= '9') {
            digit = (uint64_t)(*at - '0');
        } else {
            REQUIRE(*at >= 'a' && *at <= 'f', BAD_ARGUMENT);
            digit = (uint64_t)(*at - 'a') + 10;
        }
        REQUIRE(digits < 32, BAD_ARGUMENT);
        half[digits / 16] = half[digits / 16] << 4 | digit;
        digits++;
    }
    REQUIRE(digits == 32, BAD_ARGUMENT);
    *ret_entry = (struct entry){ half[0], half[1] };
    return OK;
}

/* Ids are hashes or random: mixing keeps those in the order of time apart, too. */
static size_t place_of(const struct uuid_set *set, struct entry entry)
{
    uint64_t mixed = (entry.high ^ (entry.low >> 29)) * 0x9e3779b97f4a7c15u + entry.low;
    mixed ^= mixed >> 32;
    size_t at = (size_t)mixed & (set->room - 1);
    while ((set->at[at].high != 0 || set->at[at].low != 0) &&
           (set->at[at].high != entry.high || set->at[at].low != entry.low)) {
        at = (at + 1) & (set->room - 1);
    }
    return at;
}

static struct fault grow(struct uuid_set *set)
{
    struct uuid_set larger = { .room = 2 * set->room };
    REQUIRE(larger.room <= ROOM_MOST, TOO_LARGE);
    TRY(mem_new(larger.room, sizeof(*larger.at), &larger.at));
    for (size_t i = 0; i < set->room; i++) {
        if (set->at[i].high != 0 || set->at[i].low != 0) {
            larger.at[place_of(&larger, set->at[i])] = set->at[i];
        }
    }
    mem_free(set->at);
    set->at = larger.at;
    set->room = larger.room;
    return OK;
}

struct fault uuid_set_add(struct uuid_set *set, struct uuid id, bool *ret_again)
{
    struct entry entry;
    TRY(read_id(id, &entry));
    if (entry.high == 0 && entry.low == 0) {
        *ret_again = set->has_zero;
        set->has_zero = true;
        return OK;
    }
    if (set->count >= set->room / 2) {
        TRY(grow(set));
    }
    size_t at = place_of(set, entry);
    *ret_again = set->at[at].high == entry.high && set->at[at].low == entry.low;
    if (!*ret_again) {
        set->at[at] = entry;
        set->count++;
    }
    return OK;
}
