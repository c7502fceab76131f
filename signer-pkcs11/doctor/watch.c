#include "signer-pkcs11/doctor/internal.h"

#include "appliance/base/alloc.h"

#include <unistd.h>

struct watch {
    struct report *report;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    char step[48];
    mono_ns limit, until;
    bool over;
};

static void *watch_main(void *arg)
{
    struct watch *watch = arg;
    char step[48];
    token_lock(&watch->lock);
    while (!watch->over) {
        mono_ns until = watch->until;
        if (token_wait(&watch->changed, &watch->lock, until) || watch->over || watch->until != until) {
            continue;
        }
        memcpy(step, watch->step, sizeof(step));
        token_unlock(&watch->lock);
        report_step(watch->report, step, STEP_FAILED,
                    "look at the token and its connection; objects of this run may be left: run the doctor again, it "
                    "removes them",
                    "a call does not return from the PKCS#11 module");
        _exit((int)report_end(watch->report));
    }
    token_unlock(&watch->lock);
    return NULL;
}

struct fault watch_new(struct report *report, unsigned step_s, struct watch **ret_watch)
{
    struct watch *watch = NULL;
    pthread_condattr_t attr;
    TRY(mem_new(1, sizeof(*watch), (void *)&watch));
    watch->report = report;
    watch->limit = step_s * NS_PER_S;
    watch->until = clock_mono() + watch->limit;
    BUG_IF(pthread_condattr_init(&attr) != 0 || pthread_condattr_setclock(&attr, CLOCK_MONOTONIC) != 0);
    BUG_IF(pthread_mutex_init(&watch->lock, NULL) != 0 || pthread_cond_init(&watch->changed, &attr) != 0);
    BUG_IF(pthread_condattr_destroy(&attr) != 0);
    if (pthread_create(&watch->thread, NULL, watch_main, watch) != 0) {
        mem_free(watch);
        return FAULT(NO_MEMORY);
    }
    *ret_watch = watch;
    return OK;
}

void watch_step(struct watch *watch, const char *step)
{
    token_lock(&watch->lock);
    (void)snprintf(watch->step, sizeof(watch->step), "%s", step);
    watch->until = clock_mono() + watch->limit;
    BUG_IF(pthread_cond_signal(&watch->changed) != 0);
    token_unlock(&watch->lock);
}

void watch_free(struct watch *watch)
{
    if (watch == NULL) {
        return;
    }
    token_lock(&watch->lock);
    watch->over = true;
    BUG_IF(pthread_cond_signal(&watch->changed) != 0);
    token_unlock(&watch->lock);
    BUG_IF(pthread_join(watch->thread, NULL) != 0);
    (void)pthread_cond_destroy(&watch->changed);
    (void)pthread_mutex_destroy(&watch->lock);
    mem_free(watch);
}
