#include "api/server/presence.h"

#include "appliance/base/alloc.h"
#include "appliance/base/log.h"

#include <errno.h>
#include <pthread.h>

#define PERIOD_NS NS_PER_S
#define ASK_MS    1000 /* with the lock's own question, a round stays below PRESENCE_LAPSE_US */

static const struct sql SQL_SEEN = {
    "presence_seen",
    "INSERT INTO svc.instances AS i (instance, server_us, since_us, seen_us) VALUES ($1, " PRESENCE_SERVER_US
    ", " PRESENCE_NOW_US ", " PRESENCE_NOW_US ") ON CONFLICT (instance) DO UPDATE SET seen_us = excluded.seen_us, "
    "server_us = excluded.server_us, since_us = CASE WHEN i.server_us = excluded.server_us "
    "AND i.seen_us > excluded.seen_us - " PRESENCE_LAPSE_US " THEN i.since_us ELSE excluded.since_us END",
    1,
};
static const struct sql SQL_FORGET = {
    "presence_forget",
    "DELETE FROM svc.instances WHERE seen_us < " PRESENCE_NOW_US " - 86400000000",
    0,
};

struct presence {
    struct store *store;
    struct uuid instance;
    int64_t key;
    struct store_lock *lock; /* NULL: lost. The keeper's while it runs */
    bool seen;               /* the last time it could be written */
    pthread_t keeper;
    bool keeper_runs;
    pthread_mutex_t mutex; /* guards stopping */
    pthread_cond_t changed;
    bool stopping;
};

int64_t presence_key(struct uuid instance)
{
    uint64_t key = 0;
    int digits = 0;
    for (const char *at = instance.text; *at != '\0' && digits < 16; at++) {
        if (*at != '-') {
            unsigned digit = (unsigned)(*at <= '9' ? *at - '0' : *at - 'a' + 10);
            key = key << 4 | (digit & 15u);
            digits++;
        }
    }
    int64_t made = 0;
    memcpy(&made, &key, sizeof(made));
    return made;
}

static struct fault take(struct op *op, struct presence *presence)
{
    bool held = false;
    TRY(store_lock_try(op, presence->store, presence->key, &presence->lock, &held));
    return held ? OK : op_fail(op, FAULT(CONFLICT), "another process has this instance's lock in the database");
}

static struct fault write_seen(struct op *op, const struct presence *presence)
{
    const struct sql_arg args[] = { SQL_TEXT(presence->instance.text) };
    return store_once(op, presence->store, STORE_BOOKKEEPING, STORE_SOON, &SQL_SEEN, args, COUNT_OF(args), NULL, NULL);
}

/* ---- the keeper ---- */

/* With the mutex. False: it is to end. */
static bool pause_locked(struct presence *presence)
{
    mono_ns until = clock_mono() + PERIOD_NS;
    struct timespec at = { .tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S };
    int waited = 0;
    while (!presence->stopping && waited == 0) {
        waited = pthread_cond_clockwait(&presence->changed, &presence->mutex, CLOCK_MONOTONIC, &at);
        BUG_IF(waited != 0 && waited != ETIMEDOUT);
    }
    return !presence->stopping;
}

static void be_seen(struct presence *presence)
{
    CLEANUP(op_freep) struct op *op = NULL;
    struct fault fault = op_new("system:presence", (struct tenant_id){ 0 }, ASK_MS, &op);
    if (!FAULTED(fault)) {
        fault = write_seen(op, presence);
    }
    if (FAULTED(fault) && presence->seen) {
        log_fault(LOG_LEVEL_WARN, "presence_not_written", op, fault);
    }
    presence->seen = !FAULTED(fault);
}

/* Takes it again where it was lost; in vain until the server has noticed that our old session is no more. */
static void keep_lock(struct presence *presence)
{
    if (presence->lock != NULL && store_lock_alive(presence->lock)) {
        return;
    }
    if (presence->lock != NULL) {
        log_write(WARN, "presence_lost");
        store_lock_free(TAKE(presence->lock));
    }
    CLEANUP(op_freep) struct op *op = NULL;
    if (!FAULTED(op_new("system:presence", (struct tenant_id){ 0 }, ASK_MS, &op)) && !FAULTED(take(op, presence))) {
        log_write(INFO, "presence_regained");
    }
}

static void *keep(void *arg)
{
    struct presence *presence = arg;
    (void)pthread_setname_np(pthread_self(), "svc-presence");
    BUG_IF(pthread_mutex_lock(&presence->mutex) != 0);
    while (pause_locked(presence)) {
        BUG_IF(pthread_mutex_unlock(&presence->mutex) != 0);
        be_seen(presence);
        keep_lock(presence);
        BUG_IF(pthread_mutex_lock(&presence->mutex) != 0);
    }
    BUG_IF(pthread_mutex_unlock(&presence->mutex) != 0);
    return NULL;
}

struct fault presence_new(struct op *op, struct store *store, struct uuid instance, struct presence **ret_presence)
{
    CLEANUP(presence_freep) struct presence *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    BUG_IF(pthread_mutex_init(&made->mutex, NULL) != 0 || pthread_cond_init(&made->changed, NULL) != 0);
    made->store = store;
    made->instance = instance;
    made->key = presence_key(instance);
    made->seen = true;
    TRY(take(op, made));
    TRY(write_seen(op, made));
    TRY(store_once(op, store, STORE_BOOKKEEPING, STORE_SOON, &SQL_FORGET, NULL, 0, NULL, NULL));
    made->keeper_runs = pthread_create(&made->keeper, NULL, keep, made) == 0;
    REQUIRE(made->keeper_runs, NO_MEMORY);
    *ret_presence = TAKE(made);
    return OK;
}

void presence_free(struct presence *presence)
{
    if (presence == NULL) {
        return;
    }
    BUG_IF(pthread_mutex_lock(&presence->mutex) != 0);
    presence->stopping = true;
    BUG_IF(pthread_cond_signal(&presence->changed) != 0);
    BUG_IF(pthread_mutex_unlock(&presence->mutex) != 0);
    if (presence->keeper_runs) {
        BUG_IF(pthread_join(presence->keeper, NULL) != 0);
    }
    store_lock_free(presence->lock);
    BUG_IF(pthread_cond_destroy(&presence->changed) != 0 || pthread_mutex_destroy(&presence->mutex) != 0);
    mem_free(presence);
}
