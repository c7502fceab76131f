/* A bounded first-in first-out queue of pointers between threads. push never blocks: full is SATURATED. */
#ifndef APPLIANCE_BASE_QUEUE_H
#define APPLIANCE_BASE_QUEUE_H

#include "appliance/base/clock.h"
#include "appliance/base/fault.h"

struct queue;
struct fault queue_new(size_t depth, struct queue **ret_queue);
void queue_free(struct queue *queue); /* items still inside are a bug */
DEFINE_FREEP(struct queue, queue_free)
struct fault queue_push(struct queue *queue, void *item); /* SATURATED when full, CANCELLED when closed */
/* Waits until an item, the deadline (DEADLINE), or closed and empty (CANCELLED). */
struct fault queue_pop(struct queue *queue, mono_ns deadline, void **ret_item);
void queue_close(struct queue *queue); /* no more pushes; poppers drain, then see CANCELLED */
size_t queue_length(struct queue *queue);

#endif
