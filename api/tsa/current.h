/*
 * The unit that stamps, and how it is exchanged while requests are under way: a request holds what it began with until
 * it is done, and whoever lets go of it last frees it. Taking and giving back are one atomic addition each.
 *
 *     const struct tsa_snapshot *now = tsa_current_take(&tsa->current);
 *     ... now->unit ...
 *     tsa_current_give(&tsa->current, now);
 *
 * How: the word names a slot and counts who took from it since it was named. The slot counts backwards those who gave
 * back; who exchanges the word adds what it had counted, so the slot's count is nought when nobody holds it.
 */
#ifndef API_TSA_CURRENT_H
#define API_TSA_CURRENT_H

#include "appliance/base/bytes.h"
#include "appliance/base/clock.h"

#include <stdatomic.h>

struct tsa_unit;

/* Immutable once it is shown. */
struct tsa_snapshot {
    struct tsa_unit *unit; /* owned; NULL = nothing may stamp */
    struct buf chain_pem;  /* the active unit's certificates first, roots last */
    char etag[67];         /* of chain_pem, quoted */
    bool successor;        /* a certified unit waits to take over */
    unsigned slot;         /* of tsa_current */
    atomic_bool proven;    /* a token of it was checked with its path: all that changes while it is shown */
};
void tsa_snapshot_free(struct tsa_snapshot *snapshot);
DEFINE_FREEP(struct tsa_snapshot, tsa_snapshot_free)

#define TSA_SLOTS 8 /* as many may be held at once, the newest included */
struct tsa_current {
    _Atomic uint64_t word; /* slot << 56 | taken since */
    struct {
        _Atomic int64_t held;
        _Atomic(struct tsa_snapshot *) at; /* NULL = free */
    } slots[TSA_SLOTS];
};
/* `first` is taken over. */
void tsa_current_init(struct tsa_current *current, struct tsa_snapshot *first);
/* Frees what is shown; nobody holds anything any more. */
void tsa_current_clear(struct tsa_current *current);
struct tsa_snapshot *tsa_current_take(struct tsa_current *current);
void tsa_current_give(struct tsa_current *current, struct tsa_snapshot *snapshot);
/* One caller at a time. Takes `next` over and shows it from now on. SATURATED when all slots are still held by requests
 * under way: try again later. */
struct fault tsa_current_show(struct tsa_current *current, struct tsa_snapshot **next);

#endif
