#include "api/tsa/internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/json.h"

#include <pthread.h>

#define LEASE_BITS 20
#define LEASE_SIZE (UINT64_C(1) << LEASE_BITS)
#define LEASE_MAX  (UINT64_C(1) << (63 - LEASE_BITS)) /* serials stay positive in 64 bits */

struct tsa_serials {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* on CLOCK_MONOTONIC */
    uint64_t next, end;     /* guarded by lock; next == end: used up */
    bool leasing;           /* guarded by lock: one caller is appending, without the lock */
};

struct fault tsa_serials_new(struct tsa_serials **ret_serials)
{
    struct tsa_serials *made = NULL;
    pthread_condattr_t monotonic;
    TRY(mem_new(1, sizeof(*made), &made));
    BUG_IF(pthread_mutex_init(&made->lock, NULL) != 0 || pthread_condattr_init(&monotonic) != 0 ||
           pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) != 0 ||
           pthread_cond_init(&made->changed, &monotonic) != 0 || pthread_condattr_destroy(&monotonic) != 0);
    *ret_serials = made;
    return OK;
}

void tsa_serials_free(struct tsa_serials *serials)
{
    if (serials == NULL) {
        return;
    }
    BUG_IF(pthread_cond_destroy(&serials->changed) != 0 || pthread_mutex_destroy(&serials->lock) != 0);
    mem_free(serials);
}

/* The log orders leases over all instances: a later lease has a greater sequence, and no sequence comes twice. */
static struct fault append_lease(struct op *op, const struct services *services, uint64_t *ret_lease)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(512);
    struct jout json;
    jout_init(&json, &data);
    jout_object(&json);
    jout_key_text(&json, "instance", services->instance.text);
    jout_key_int(&json, "size", (int64_t)LEASE_SIZE);
    jout_object_end(&json);
    TRY(jout_end(&json));
    struct event event = { .type = "tsa.serial.leased", .schema_version = 1, .data = buf_span(&data) };
    struct event_append append = { .lane = "tsa-serial", .events = &event, .count = 1 };
    uint64_t sequence = 0;
    TRY(events_append(op, services->log, &append, &sequence));
    BUG_IF(sequence == 0 || sequence >= LEASE_MAX);
    *ret_lease = sequence;
    return OK;
}

static struct fault wait_locked(struct op *op, struct tsa_serials *serials)
{
    struct timespec until = { .tv_sec = op->deadline / NS_PER_S, .tv_nsec = op->deadline % NS_PER_S };
    return pthread_cond_timedwait(&serials->changed, &serials->lock, &until) == 0
               ? OK
               : op_fail(op, FAULT(DEADLINE), "no serial number in time; try again");
}

static struct fault lease_locked(struct op *op, const struct services *services, struct tsa_serials *serials)
{
    serials->leasing = true;
    BUG_IF(pthread_mutex_unlock(&serials->lock) != 0);
    uint64_t lease = 0;
    struct fault fault = append_lease(op, services, &lease);
    BUG_IF(pthread_mutex_lock(&serials->lock) != 0);
    serials->leasing = false;
    if (!FAULTED(fault)) {
        serials->next = lease << LEASE_BITS;
        serials->end = serials->next + LEASE_SIZE;
    }
    BUG_IF(pthread_cond_broadcast(&serials->changed) != 0);
    return fault;
}

struct fault tsa_serial_next(struct op *op, const struct services *services, struct tsa_serials *serials,
                             uint64_t *ret_serial)
{
    struct fault fault = OK;
    BUG_IF(pthread_mutex_lock(&serials->lock) != 0);
    while (serials->next == serials->end && !FAULTED(fault)) {
        fault = serials->leasing ? wait_locked(op, serials) : lease_locked(op, services, serials);
    }
    if (!FAULTED(fault)) {
        *ret_serial = serials->next++;
    }
    BUG_IF(pthread_mutex_unlock(&serials->lock) != 0);
    return fault;
}
