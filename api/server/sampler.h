/*
 * Runs small looks at the world again and again, on a few threads of its own: each look on one thread at a time, and
 * again a moment after it ended. One that hangs holds a thread and nothing else.
 */
#ifndef API_SERVER_SAMPLER_H
#define API_SERVER_SAMPLER_H

#include "appliance/base/clock.h"
#include "appliance/base/fault.h"

#define SAMPLER_THREADS   4
#define SAMPLER_PERIOD_NS (500 * NS_PER_MS)

struct sampler;
typedef void (*sampler_fn)(void *arg, size_t which);

/* Looks 0..count-1, each for the first time at once. */
struct fault sampler_start(size_t count, sampler_fn look, void *arg, struct sampler **ret_sampler);
void sampler_stop(struct sampler *sampler); /* waits for the looks that are on; NULL is fine */

#endif
