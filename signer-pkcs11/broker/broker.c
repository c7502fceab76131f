#include "signer-pkcs11/broker/broker_internal.h"

#include "appliance/base/alloc.h"

#include <time.h>
#include <unistd.h>

static void locks_init(struct broker *broker)
{
    pthread_condattr_t attr;
    BUG_IF(pthread_mutex_init(&broker->lock, NULL) != 0 || pthread_mutex_init(&broker->noise.lock, NULL) != 0);
    BUG_IF(pthread_condattr_init(&attr) != 0 || pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) != 0);
    BUG_IF(pthread_cond_init(&broker->emptied, &attr) != 0);
    (void)pthread_condattr_destroy(&attr);
    for (size_t i = 0; i < BROKER_CONNECTIONS_MAX; i++) {
        struct connection *c = &broker->connections[i];
        c->broker = broker;
        c->fd = -1;
        BUG_IF(pthread_mutex_init(&c->lock, NULL) != 0 || pthread_cond_init(&c->handed, NULL) != 0);
    }
}

struct fault broker_new(const struct broker_parts *parts, struct broker **ret_broker)
{
    CLEANUP(broker_freep) struct broker *broker = NULL;
    TRY(mem_new(1, sizeof(*broker), &broker));
    broker->parts = *parts;
    broker->processors = (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
    broker->frame = (struct buf)BUF_INIT(FRAME_HEADER + FRAME_MAX);
    locks_init(broker);
    TRY(connections_start(broker));
    *ret_broker = TAKE(broker);
    return OK;
}

void broker_free(struct broker *broker)
{
    if (broker == NULL) {
        return;
    }
    BUG_IF(broker->count != 0);
    connections_stop(broker);
    buf_free(&broker->frame);
    for (size_t i = 0; i < BROKER_CONNECTIONS_MAX; i++) {
        (void)pthread_mutex_destroy(&broker->connections[i].lock);
        (void)pthread_cond_destroy(&broker->connections[i].handed);
    }
    (void)pthread_cond_destroy(&broker->emptied);
    (void)pthread_mutex_destroy(&broker->noise.lock);
    (void)pthread_mutex_destroy(&broker->lock);
    mem_free(broker);
}
