/*
 * Handles of keys that were found. Two steps: each session has a small table of its own, which only its thread touches,
 * and behind it is one table for the token under a lock. So a key that is in use costs no lock and no shared write. An
 * entry is good for one epoch; forgetting a key makes all own tables void at once, which is rare.
 */
#include "signer-pkcs11/token/internal.h"

/* How long one waits for another's search of the same key. After an epoch's end all want the same few keys at once; but
 * a search may hang, and then it shall hang alone. */
#define FIND_WAIT_NS (250 * NS_PER_MS)

static uint32_t hash_text(uint32_t hash, const char *text)
{
    for (; *text != '\0'; text++) {
        hash = (hash ^ (uint8_t)*text) * 16777619u; /* FNV-1a: spreads, keeps no secret */
    }
    return hash;
}

static uint32_t hash_key(const struct key_ref *ref)
{
    return hash_text(hash_text(2166136261u, ref->id.text), ref->tenant.text) + (uint32_t)ref->purpose;
}

static bool same_key(const struct key_ref *a, const struct key_ref *b)
{
    return a->purpose == b->purpose && uuid_equal(a->id, b->id) && tenant_id_equal(a->tenant, b->tenant);
}

/* The session's own table, emptied if a key was forgotten since it was last looked at. */
static struct handle *own_place(struct token_session *session, uint32_t hash)
{
    uint64_t forgotten = atomic_load_explicit(&session->token->cache.forgotten, memory_order_acquire);
    if (session->own_forgotten != forgotten) {
        memset(session->own, 0, sizeof(session->own));
        session->own_forgotten = forgotten;
    }
    return &session->own[hash % OWN_HANDLES];
}

static bool good(const struct handle *known, const struct handle *wanted)
{
    return known->generation == wanted->generation && same_key(&known->ref, &wanted->ref);
}

static const struct handle *look_up_locked(const struct handle_cache *cache, const struct handle *wanted, uint32_t hash)
{
    const struct handle *set = cache->at[hash % HANDLE_SETS];
    for (size_t i = 0; i < HANDLE_WAYS; i++) {
        if (good(&set[i], wanted)) {
            return &set[i];
        }
    }
    return NULL;
}

static bool somebody_finds_locked(const struct token *token, uint32_t hash)
{
    for (unsigned i = 0; i < token->pool.count + SPARES_MAX; i++) {
        if (token->pool.at[i].finds && token->pool.at[i].finding == hash) {
            return true;
        }
    }
    return false;
}

bool cache_recall(struct token_session *session, struct handle *handle)
{
    struct handle_cache *cache = &session->token->cache;
    uint32_t hash = hash_key(&handle->ref);
    struct handle *own = own_place(session, hash);
    if (good(own, handle)) {
        *handle = *own;
        return true;
    }
    token_lock(&cache->lock);
    const struct handle *known = look_up_locked(cache, handle, hash);
    mono_ns until = known == NULL ? clock_mono() + FIND_WAIT_NS : 0;
    while (known == NULL && somebody_finds_locked(session->token, hash) &&
           token_wait(&cache->found, &cache->lock, until)) {
        known = look_up_locked(cache, handle, hash);
    }
    if (known != NULL) {
        *handle = *own = *known;
    } else {
        session->finds = true;
        session->finding = hash;
    }
    token_unlock(&cache->lock);
    return known != NULL;
}

static void remember_locked(struct handle_cache *cache, const struct handle *handle)
{
    struct handle *set = cache->at[hash_key(&handle->ref) % HANDLE_SETS];
    struct handle *place = &set[cache->next_way++ % HANDLE_WAYS];
    for (size_t i = 0; i < HANDLE_WAYS; i++) {
        if (same_key(&set[i].ref, &handle->ref)) {
            place = &set[i];
            break;
        }
        if (set[i].generation != handle->generation) {
            place = &set[i];
        }
    }
    *place = *handle;
}

void cache_found(struct token_session *session, const struct handle *handle)
{
    struct handle_cache *cache = &session->token->cache;
    token_lock(&cache->lock);
    session->finds = false;
    /* A key that was destroyed meanwhile may have been this one: its handle may be another key's by now. */
    if (handle != NULL && atomic_load_explicit(&cache->forgotten, memory_order_relaxed) == session->own_forgotten) {
        remember_locked(cache, handle);
    }
    BUG_IF(pthread_cond_broadcast(&cache->found) != 0);
    token_unlock(&cache->lock);
}

void key_forget(struct token *token, const struct key_ref *ref)
{
    struct handle_cache *cache = &token->cache;
    token_lock(&cache->lock);
    struct handle *set = cache->at[hash_key(ref) % HANDLE_SETS];
    for (size_t i = 0; i < HANDLE_WAYS; i++) {
        if (same_key(&set[i].ref, ref)) {
            set[i].generation = 0;
        }
    }
    atomic_fetch_add_explicit(&cache->forgotten, 1, memory_order_release);
    token_unlock(&cache->lock);
}
