#include "api/server/presence.h"

#include "appliance/base/alloc.h"
#include "appliance/base/log.h"

struct presence {
    struct store *store;
    int64_t key;
    struct store_lock *lock; /* NULL: lost */
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

struct fault presence_new(struct op *op, struct store *store, struct uuid instance, struct presence **ret_presence)
{
    CLEANUP(presence_freep) struct presence *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    made->store = store;
    made->key = presence_key(instance);
    TRY(take(op, made));
    *ret_presence = TAKE(made);
    return OK;
}

struct fault presence_keep(struct op *op, struct presence *presence)
{
    if (presence->lock != NULL && store_lock_alive(presence->lock)) {
        return OK;
    }
    if (presence->lock != NULL) {
        log_write(WARN, "presence_lost");
        store_lock_free(TAKE(presence->lock));
    }
    TRY(take(op, presence)); /* CONFLICT until the server has noticed that our old session is no more */
    log_write(INFO, "presence_regained");
    return OK;
}

void presence_free(struct presence *presence)
{
    if (presence != NULL) {
        store_lock_free(presence->lock);
        mem_free(presence);
    }
}
