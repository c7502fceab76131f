#include "api/server/sampler.h"

#include "appliance/base/alloc.h"

#include <errno.h>
#include <pthread.h>

struct turn {
    mono_ns due;
    bool running;
};

struct sampler {
    sampler_fn look;
    void *arg;
    pthread_mutex_t lock; /* guards the rest but `threads` */
    pthread_cond_t changed;
    bool stopping;
    pthread_t threads[SAMPLER_THREADS];
    size_t thread_count;
    size_t count;
    struct turn turns[];
};

/* The look that is due first and does not run, or NULL. */
static struct turn *next_locked(struct sampler *sampler)
{
    struct turn *next = NULL;
    for (size_t i = 0; i < sampler->count; i++) {
        struct turn *turn = &sampler->turns[i];
        if (!turn->running && (next == NULL || turn->due < next->due)) {
            next = turn;
        }
    }
    return next;
}

static void wait_locked(struct sampler *sampler, const struct turn *turn)
{
    mono_ns due = turn != NULL ? turn->due : clock_mono() + SAMPLER_PERIOD_NS;
    struct timespec at = { .tv_sec = due / NS_PER_S, .tv_nsec = due % NS_PER_S };
    int code = pthread_cond_clockwait(&sampler->changed, &sampler->lock, CLOCK_MONOTONIC, &at);
    BUG_IF(code != 0 && code != ETIMEDOUT);
}

static void *sample(void *arg)
{
    struct sampler *sampler = arg;
    (void)pthread_setname_np(pthread_self(), "svc-sampler");
    BUG_IF(pthread_mutex_lock(&sampler->lock) != 0);
    while (!sampler->stopping) {
        struct turn *turn = next_locked(sampler);
        if (turn == NULL || turn->due > clock_mono()) {
            wait_locked(sampler, turn);
            continue;
        }
        turn->running = true;
        BUG_IF(pthread_mutex_unlock(&sampler->lock) != 0);
        sampler->look(sampler->arg, (size_t)(turn - sampler->turns));
        BUG_IF(pthread_mutex_lock(&sampler->lock) != 0);
        turn->running = false;
        turn->due = clock_mono() + SAMPLER_PERIOD_NS;
    }
    BUG_IF(pthread_mutex_unlock(&sampler->lock) != 0);
    return NULL;
}

struct fault sampler_start(size_t count, sampler_fn look, void *arg, struct sampler **ret_sampler)
{
    struct sampler *made = NULL;
    TRY(mem_new(1, sizeof(*made) + count * sizeof(made->turns[0]), &made));
    made->look = look;
    made->arg = arg;
    made->count = count;
    BUG_IF(pthread_mutex_init(&made->lock, NULL) != 0 || pthread_cond_init(&made->changed, NULL) != 0);
    while (made->thread_count < SAMPLER_THREADS) {
        if (pthread_create(&made->threads[made->thread_count], NULL, sample, made) != 0) {
            sampler_stop(made);
            return FAULT(NO_MEMORY);
        }
        made->thread_count++;
    }
    *ret_sampler = made;
    return OK;
}

void sampler_stop(struct sampler *sampler)
{
    if (sampler == NULL) {
        return;
    }
    BUG_IF(pthread_mutex_lock(&sampler->lock) != 0);
    sampler->stopping = true;
    BUG_IF(pthread_cond_broadcast(&sampler->changed) != 0);
    BUG_IF(pthread_mutex_unlock(&sampler->lock) != 0);
    for (size_t i = 0; i < sampler->thread_count; i++) {
        BUG_IF(pthread_join(sampler->threads[i], NULL) != 0);
    }
    BUG_IF(pthread_cond_destroy(&sampler->changed) != 0 || pthread_mutex_destroy(&sampler->lock) != 0);
    mem_free(sampler);
}
