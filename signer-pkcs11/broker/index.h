/*
 * Where in the journal the record of an operation id may stand. A slot is 8 bytes: 32 bits of a seeded hash of the id
 * and a 32-bit place; whether it is really that id, the record on disk tells. Not thread-safe.
 */
#ifndef SIGNER_BROKER_INDEX_H
#define SIGNER_BROKER_INDEX_H

#include "appliance/base/bytes.h"

struct index {
    uint64_t *slots; /* hash << 32 | place; 0 = empty */
    size_t size;     /* power of two, or 0 */
    size_t used;
    uint64_t seed[2];
};
#define INDEX_CANDIDATES_MAX 8

struct fault index_init(struct index *index); /* CRYPTO: no seed */
void index_clear(struct index *index);        /* idempotent */
/* Room for `more` further ids. NO_MEMORY: nothing changed. */
struct fault index_reserve(struct index *index, size_t more);
/* Room must have been reserved, so that what is on disk is never unknown here. `place` is not 0. */
void index_put(struct index *index, const uint8_t id[16], uint32_t place);
/* Takes out what is `gone`, among the `count` slots from `from` on (and what moves there). A sweep over all slots with
 * steps of any size finds all, as long as `size` stays the same; what is put or found meanwhile does no harm. */
void index_forget(struct index *index, size_t from, size_t count, bool (*gone)(const void *arg, uint32_t place),
                  const void *arg);
/* Places whose hash is that of `id`, newest included; more than INDEX_CANDIDATES_MAX by chance: practically never. */
size_t index_find(const struct index *index, const uint8_t id[16], uint32_t out[INDEX_CANDIDATES_MAX]);

#endif
