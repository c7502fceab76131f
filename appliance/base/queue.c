#include "appliance/base/queue.h"

#include "appliance/base/alloc.h"

#include <errno.h>
#include <pthread.h>
#include <time.h>

struct queue {
    size_t depth; /* never changes */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    size_t first, count; /* these and items: under lock */
    bool closed;
    void *items[];
};

static void lock(struct queue *queue)
{
    BUG_IF(pthread_mutex_lock(&queue->lock) != 0);
}

static void unlock(struct queue *queue)
{
    BUG_IF(pthread_mutex_unlock(&queue->lock) != 0);
}

struct fault queue_new(size_t depth, struct queue **ret_queue)
{
    REQUIRE(depth >= 1 && depth <= 1u << 20, BAD_ARGUMENT);
    struct queue *made = NULL;
    TRY(mem_new(1, sizeof(*made) + depth * sizeof(void *), &made));
    made->depth = depth;
    pthread_condattr_t attributes;
    BUG_IF(pthread_mutex_init(&made->lock, NULL) != 0 || pthread_condattr_init(&attributes) != 0);
    BUG_IF(pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) != 0);
    BUG_IF(pthread_cond_init(&made->changed, &attributes) != 0);
    (void)pthread_condattr_destroy(&attributes);
    *ret_queue = made;
    return OK;
}

void queue_free(struct queue *queue)
{
    if (queue == NULL) {
        return;
    }
    BUG_IF(queue->count != 0);
    (void)pthread_cond_destroy(&queue->changed);
    (void)pthread_mutex_destroy(&queue->lock);
    mem_free(queue);
}

struct fault queue_push(struct queue *queue, void *item)
{
    lock(queue);
    struct fault fault = queue->closed ? FAULT(CANCELLED) : queue->count == queue->depth ? FAULT(SATURATED) : OK;
    if (!FAULTED(fault)) {
        queue->items[(queue->first + queue->count) % queue->depth] = item;
        queue->count++;
        BUG_IF(pthread_cond_signal(&queue->changed) != 0);
    }
    unlock(queue);
    return fault;
}

struct fault queue_pop(struct queue *queue, mono_ns deadline, void **ret_item)
{
    mono_ns stop = deadline > 0 ? deadline : 0;
    struct timespec until = { .tv_sec = stop / NS_PER_S, .tv_nsec = stop % NS_PER_S };
    lock(queue);
    int code = 0;
    while (queue->count == 0 && !queue->closed && code != ETIMEDOUT) {
        code = pthread_cond_timedwait(&queue->changed, &queue->lock, &until);
        BUG_IF(code != 0 && code != ETIMEDOUT);
    }
    struct fault fault = queue->count > 0 ? OK : queue->closed ? FAULT(CANCELLED) : FAULT(DEADLINE);
    if (!FAULTED(fault)) {
        *ret_item = queue->items[queue->first];
        queue->first = (queue->first + 1) % queue->depth;
        queue->count--;
    }
    unlock(queue);
    return fault;
}

void queue_close(struct queue *queue)
{
    lock(queue);
    queue->closed = true;
    BUG_IF(pthread_cond_broadcast(&queue->changed) != 0);
    unlock(queue);
}

size_t queue_length(struct queue *queue)
{
    lock(queue);
    size_t count = queue->count;
    unlock(queue);
    return count;
}
