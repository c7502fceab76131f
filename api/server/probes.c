#include "api/server/probes.h"

#include "api/server/readiness.h"
#include "appliance/base/alloc.h"
#include "appliance/base/json.h"

#include <errno.h>
#include <pthread.h>

#define READY_FRESH_NS    (250 * NS_PER_MS)
#define HEALTH_FRESH_NS   (1000 * NS_PER_MS)
#define WAIT_FOR_CHECK_NS (4 * NS_PER_S)
#define TEXT_MAX          4096

/* The kept outcome of one kind of check. */
struct kept {
    bool running;  /* somebody checks now */
    mono_ns until; /* fresh until then; 0 at first */
    bool well;
    struct buf json;
};

struct probes {
    struct services *services;
    const atomic_bool *draining;
    struct readiness *readiness;
    pthread_mutex_t lock;
    pthread_cond_t done;       /* on the monotonic clock */
    struct kept health, ready; /* guarded by lock */
};

struct fault probes_new(struct services *services, const struct feature *const *features, size_t count,
                        const atomic_bool *draining, struct probes **ret_probes)
{
    CLEANUP(probes_freep) struct probes *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    BUG_IF(pthread_mutex_init(&made->lock, NULL) != 0);
    pthread_condattr_t clock;
    BUG_IF(pthread_condattr_init(&clock) != 0 || pthread_condattr_setclock(&clock, CLOCK_MONOTONIC) != 0 ||
           pthread_cond_init(&made->done, &clock) != 0);
    (void)pthread_condattr_destroy(&clock);
    made->services = services;
    made->draining = draining;
    made->health.json.max = TEXT_MAX;
    made->ready.json.max = TEXT_MAX;
    TRY(readiness_new(services, features, count, &made->readiness));
    *ret_probes = TAKE(made);
    return OK;
}

void probes_free(struct probes *probes)
{
    if (probes == NULL) {
        return;
    }
    readiness_free(probes->readiness);
    buf_free(&probes->health.json);
    buf_free(&probes->ready.json);
    BUG_IF(pthread_cond_destroy(&probes->done) != 0 || pthread_mutex_destroy(&probes->lock) != 0);
    mem_free(probes);
}

/* With the lock. *ret_mine: the caller must check, without the lock, and then call put_locked. */
static struct fault wait_locked(struct probes *probes, struct kept *kept, bool *ret_mine)
{
    mono_ns until = clock_mono() + WAIT_FOR_CHECK_NS;
    struct timespec at = { .tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S };
    while (kept->running && clock_mono() >= kept->until) {
        int code = pthread_cond_timedwait(&probes->done, &probes->lock, &at);
        BUG_IF(code != 0 && code != ETIMEDOUT);
        REQUIRE(code == 0, SATURATED);
    }
    *ret_mine = clock_mono() >= kept->until;
    kept->running = kept->running || *ret_mine;
    return OK;
}

typedef struct fault (*check_fn)(struct probes *probes, struct buf *out, bool *ret_well);

static struct fault check_health(struct probes *probes, struct buf *out, bool *ret_well)
{
    const char *word = readiness_signer_word(probes->services);
    *ret_well = strcmp(word, "unreachable") != 0;
    struct jout json;
    jout_init(&json, out);
    jout_object(&json);
    jout_key_text(&json, "status", *ret_well ? "ok" : "unhealthy");
    jout_key_text(&json, "signer", word);
    jout_object_end(&json);
    return jout_end(&json);
}

static struct fault check_ready(struct probes *probes, struct buf *out, bool *ret_well)
{
    return readiness_check(probes->readiness, atomic_load(probes->draining), out, ret_well);
}

static struct fault refresh(struct probes *probes, struct kept *kept, int64_t fresh_ns, check_fn check)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(TEXT_MAX);
    bool well = false;
    struct fault fault = check(probes, &json, &well);
    BUG_IF(pthread_mutex_lock(&probes->lock) != 0);
    if (!FAULTED(fault)) {
        struct buf old = kept->json;
        kept->json = json;
        json = old;
        kept->well = well;
        kept->until = clock_mono() + fresh_ns;
    }
    kept->running = false;
    BUG_IF(pthread_cond_broadcast(&probes->done) != 0);
    BUG_IF(pthread_mutex_unlock(&probes->lock) != 0);
    return fault;
}

static struct fault bring_up_to_date(struct probes *probes, struct kept *kept, int64_t fresh_ns, check_fn check)
{
    bool mine = false;
    BUG_IF(pthread_mutex_lock(&probes->lock) != 0);
    struct fault fault = wait_locked(probes, kept, &mine);
    BUG_IF(pthread_mutex_unlock(&probes->lock) != 0);
    TRY(fault);
    return mine ? refresh(probes, kept, fresh_ns, check) : OK;
}

static struct fault answer(struct op *op, struct probes *probes, const struct kept *kept, struct span *ret_json,
                           bool *ret_well)
{
    BUG_IF(pthread_mutex_lock(&probes->lock) != 0);
    struct fault fault = arena_copy(op->arena, buf_span(&kept->json), ret_json);
    *ret_well = kept->well;
    BUG_IF(pthread_mutex_unlock(&probes->lock) != 0);
    return fault;
}

struct fault probes_health(struct op *op, struct probes *probes, struct span *ret_json, bool *ret_well)
{
    TRY(bring_up_to_date(probes, &probes->health, HEALTH_FRESH_NS, check_health));
    return answer(op, probes, &probes->health, ret_json, ret_well);
}

struct fault probes_readiness(struct op *op, struct probes *probes, struct span *ret_json, bool *ret_well)
{
    TRY(bring_up_to_date(probes, &probes->ready, READY_FRESH_NS, check_ready));
    return answer(op, probes, &probes->ready, ret_json, ret_well);
}

struct fault probes_metrics(struct op *op, struct probes *probes, struct buf *out)
{
    struct span json = { 0 };
    bool well = false;
    TRY(probes_readiness(op, probes, &json, &well));
    readiness_gauges(probes->readiness);
    return metrics_print(probes->services->metrics, out);
}
