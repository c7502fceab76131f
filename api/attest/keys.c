#include "api/attest/internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/log.h"

#include <pthread.h>
#include <stdio.h>

struct issuer_keys {
    struct keys_source source; /* fetch NULL: pinned */
    pthread_mutex_t lock;      /* guards what follows; never held over a fetch */
    pthread_cond_t fetched;
    struct key_set *set; /* NULL = none yet */
    mono_ns since;       /* when `set` was fetched */
    mono_ns tried;       /* when the last fetch ended */
    bool fetching, ever_tried;
};

/* ---- sets ---- */

struct fault key_set_parse(struct op *op, struct span json, struct key_set **ret_set)
{
    CLEANUP(key_set_unrefp) struct key_set *set = NULL;
    TRY(mem_new(1, sizeof(*set), &set));
    set->users = 1;
    TRY(jwk_set_parse_foreign(op, json, &set->jwks, &set->left_out));
    *ret_set = TAKE(set);
    return OK;
}

static struct key_set *key_set_ref(struct key_set *set)
{
    __atomic_add_fetch(&set->users, 1, __ATOMIC_RELAXED);
    return set;
}

void key_set_unref(struct key_set *set)
{
    if (set != NULL && __atomic_sub_fetch(&set->users, 1, __ATOMIC_ACQ_REL) == 0) {
        jwk_set_free(&set->jwks);
        mem_free(set);
    }
}

static bool knows(const struct key_set *set, const char *kid)
{
    for (size_t i = 0; kid != NULL && i < set->jwks.count; i++) {
        if (strcmp(set->jwks.at[i].kid, kid) == 0) {
            return true;
        }
    }
    return kid == NULL;
}

/* ---- life ---- */

static void enter(struct issuer_keys *keys)
{
    BUG_IF(pthread_mutex_lock(&keys->lock) != 0);
}
static void leave(struct issuer_keys *keys)
{
    BUG_IF(pthread_mutex_unlock(&keys->lock) != 0);
}

struct fault issuer_keys_new(const struct keys_source *source, struct issuer_keys **ret_keys)
{
    struct issuer_keys *keys = NULL;
    pthread_condattr_t monotonic;
    TRY(mem_new(1, sizeof(*keys), &keys));
    keys->source = *source;
    BUG_IF(pthread_mutex_init(&keys->lock, NULL) != 0);
    BUG_IF(pthread_condattr_init(&monotonic) != 0);
    BUG_IF(pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC) != 0);
    BUG_IF(pthread_cond_init(&keys->fetched, &monotonic) != 0);
    BUG_IF(pthread_condattr_destroy(&monotonic) != 0);
    *ret_keys = keys;
    return OK;
}

struct fault issuer_keys_new_pinned(struct key_set *set, struct issuer_keys **ret_keys)
{
    const struct keys_source source = { 0 };
    TRY(issuer_keys_new(&source, ret_keys));
    (*ret_keys)->set = set;
    return OK;
}

void issuer_keys_free(struct issuer_keys *keys)
{
    if (keys == NULL) {
        return;
    }
    BUG_IF(keys->fetching);
    key_set_unref(keys->set);
    BUG_IF(pthread_cond_destroy(&keys->fetched) != 0);
    BUG_IF(pthread_mutex_destroy(&keys->lock) != 0);
    mem_free(keys);
}

/* ---- one fetch ---- */

static const char *result_of(struct fault fault)
{
    return !FAULTED(fault) ? "ok" : fault.code == FAULT_JWS_FORMAT ? "malformed" : "unavailable";
}

static struct fault fetch(struct op *op, const struct keys_source *source, int64_t timeout_ns, struct key_set **ret_set)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT(JWKS_MAX);
    TRY(source->fetch(op, source, timeout_ns, &body));
    return key_set_parse(op, buf_span(&body), ret_set);
}

static void tell(struct op *op, const struct keys_source *source, struct fault fault, const struct key_set *set)
{
    if (source->metrics != NULL) {
        const char *const labels[] = { result_of(fault) };
        metrics_add(source->metrics, &attest_metrics[ATTEST_METRIC_FETCHES], 1, labels);
    }
    if (FAULTED(fault)) {
        op_note_log(op, "%s", source->url);
        log_fault(LOG_LEVEL_WARN, "jwks_fetch_failed", op, fault);
        return;
    }
    log_write(INFO, "jwks_fetched", LOG_TEXT("url", source->url), LOG_INT("keys", set->jwks.count),
              LOG_INT("left_out", set->left_out));
}

/* On an operation of its own: what is wrong with an issuer's answer is for the log, and its bytes are not the caller's
 * to keep. */
static struct key_set *fetch_alone(const struct keys_source *source, mono_ns deadline)
{
    CLEANUP(op_freep) struct op *op = NULL;
    struct key_set *set = NULL;
    int64_t left = deadline - clock_mono();
    if (left < NS_PER_MS || FAULTED(op_new("system:attest", (struct tenant_id){ 0 }, 1000, &op))) {
        return NULL;
    }
    struct fault fault = fetch(op, source, left < KEYS_TIMEOUT_NS ? left : KEYS_TIMEOUT_NS, &set);
    tell(op, source, fault, set);
    return FAULTED(fault) ? NULL : set;
}

static void fetch_unlocked(struct issuer_keys *keys, mono_ns deadline)
{
    keys->fetching = true;
    leave(keys);
    struct key_set *set = fetch_alone(&keys->source, deadline);
    enter(keys);
    keys->fetching = false;
    keys->ever_tried = true;
    keys->tried = keys->source.now();
    if (set != NULL) {
        key_set_unref(keys->set);
        keys->set = set;
        keys->since = keys->tried;
    }
    BUG_IF(pthread_cond_broadcast(&keys->fetched) != 0);
}

/* ---- which set ---- */

static bool wait_locked(struct issuer_keys *keys, mono_ns deadline)
{
    mono_ns longest = clock_mono() + KEYS_TIMEOUT_NS + NS_PER_S;
    mono_ns until = deadline < longest ? deadline : longest;
    const struct timespec when = { .tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S };
    while (keys->fetching) {
        if (pthread_cond_timedwait(&keys->fetched, &keys->lock, &when) != 0) {
            return !keys->fetching;
        }
    }
    return true;
}

static struct fault unavailable(struct op *op, const char *what)
{
    struct fault fault = op_fail(op, FAULT(JWKS_UNAVAILABLE), "%s", what);
    op->note.retry_after_s = (int)(KEYS_RETRY_NS / NS_PER_S);
    return fault;
}

/* What the keys are good for at this moment. */
struct standing {
    bool fresh, known, usable, may_fetch;
};

static struct standing standing_of(const struct issuer_keys *keys, const char *kid)
{
    if (keys->source.fetch == NULL) {
        return (struct standing){ .fresh = true, .known = true };
    }
    mono_ns now = keys->source.now();
    int64_t age = now - keys->since;
    bool usable = keys->set != NULL && age < KEYS_GRACE_NS;
    return (struct standing){
        .usable = usable,
        .fresh = usable && age < KEYS_FRESH_NS,
        .known = usable && knows(keys->set, kid),
        .may_fetch = !keys->ever_tried || now - keys->tried >= (usable ? KEYS_AGAIN_NS : KEYS_RETRY_NS),
    };
}

/* Whoever finds the set old or without the kid fetches; meanwhile the others go on with what they know, or wait. After
 * a fetch the next one is not due yet, so that no caller fetches twice. */
static struct fault settle_locked(struct op *op, struct issuer_keys *keys, const char *kid)
{
    for (;;) {
        struct standing now = standing_of(keys, kid);
        if (now.fresh && now.known) {
            return OK;
        }
        if (keys->fetching) {
            if (now.known) {
                return OK;
            }
            if (!wait_locked(keys, op->deadline)) {
                return unavailable(op, "the issuer's keys are still being fetched; repeat the request");
            }
            continue;
        }
        if (!now.may_fetch || op_expired(op)) {
            /* A fresh set that lacks the kid is an answer too: the caller will not find the key. */
            return now.known || now.fresh ? OK : unavailable(op, "the issuer's keys cannot be fetched at present");
        }
        fetch_unlocked(keys, op->deadline);
    }
}

struct fault issuer_keys_get(struct op *op, struct issuer_keys *keys, const char *kid, struct key_set **ret_set)
{
    BUG_IF(op->tx_open != 0);
    enter(keys);
    struct fault fault = settle_locked(op, keys, kid);
    if (!FAULTED(fault)) {
        *ret_set = key_set_ref(keys->set);
    }
    leave(keys);
    return fault;
}
