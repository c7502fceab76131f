#include "api/identity/internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/secret.h"

#include <pthread.h>
#include <stdatomic.h>

#define CACHE_SIZE 1024u /* a power of two; a second token of the same place takes it over */

struct entry {
    bool used;
    uint64_t generation;
    mono_ns until;
    struct verified verified;
};
struct token_cache {
    pthread_mutex_t lock; /* guards entries */
    struct entry entries[CACHE_SIZE];
};

/* Of the process, not of one cache: the projection function that sees a revocation knows no cache. */
static atomic_uint_fast64_t generation;

struct fault token_cache_new(struct token_cache **ret_cache)
{
    struct token_cache *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    BUG_IF(pthread_mutex_init(&made->lock, NULL) != 0);
    *ret_cache = made;
    return OK;
}

void token_cache_free(struct token_cache *cache)
{
    if (cache != NULL) {
        BUG_IF(pthread_mutex_destroy(&cache->lock) != 0);
        secret_wipe(cache, sizeof(*cache));
        mem_free(cache);
    }
}

/* The hash is of a secret with 256 random bits: its first bytes tell nothing of the rest. */
static struct entry *place(struct token_cache *cache, const struct sha256 *hash)
{
    return &cache->entries[((size_t)hash->at[0] << 8 | hash->at[1]) & (CACHE_SIZE - 1)];
}

bool token_cache_get(struct token_cache *cache, const struct sha256 *hash, mono_ns now, struct verified *ret_verified)
{
    BUG_IF(pthread_mutex_lock(&cache->lock) != 0);
    const struct entry *entry = place(cache, hash);
    bool hit = entry->used && entry->generation == token_cache_generation() && now < entry->until &&
               secret_equal(SPAN_ARRAY(entry->verified.hash.at), SPAN_ARRAY(hash->at));
    if (hit) {
        *ret_verified = entry->verified;
    }
    BUG_IF(pthread_mutex_unlock(&cache->lock) != 0);
    return hit;
}

void token_cache_put(struct token_cache *cache, const struct verified *verified, mono_ns now, uint64_t seen)
{
    BUG_IF(pthread_mutex_lock(&cache->lock) != 0);
    struct entry *entry = place(cache, &verified->hash);
    *entry = (struct entry){
        .used = true,
        .generation = seen,
        .until = now + TOKEN_CACHE_TTL_MS * NS_PER_MS,
        .verified = *verified,
    };
    BUG_IF(pthread_mutex_unlock(&cache->lock) != 0);
}

uint64_t token_cache_generation(void)
{
    return atomic_load(&generation);
}

void token_cache_forget(void)
{
    (void)atomic_fetch_add(&generation, 1);
}
