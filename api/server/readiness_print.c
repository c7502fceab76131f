#include "api/server/readiness_internal.h"
#include "api/server/signer_metrics.h"
#include "appliance/base/json.h"

static const char *word_of(const struct check *check, mono_ns now)
{
    if (check->ended == 0) {
        return "starting";
    }
    return now - check->ended > READINESS_STALE_NS ? "stuck" : check->outcome.word;
}

static bool is_ok(const struct check *check, mono_ns now)
{
    return strcmp(word_of(check, now), "ok") == 0;
}

static void put_checks_locked(struct jout *json, const struct readiness *readiness, mono_ns now, bool *ready)
{
    jout_key(json, "checks");
    jout_object(json);
    for (size_t i = 0; i < readiness->count; i++) {
        const struct check *check = &readiness->checks[i];
        if (check->name != NULL) {
            jout_key_text(json, check->name, word_of(check, now));
            *ready = *ready && (!check_is_needed(check) || is_ok(check, now));
        }
    }
    jout_object_end(json);
}

static bool degrades(const struct check *check, mono_ns now)
{
    bool ails = check->outcome.shed || check->outcome.part || (!check_is_needed(check) && !is_ok(check, now));
    return check->name != NULL && ails;
}

static void put_degraded_locked(struct jout *json, const struct readiness *readiness, mono_ns now)
{
    size_t count = 0;
    for (size_t i = 0; i < readiness->count; i++) {
        if (!degrades(&readiness->checks[i], now)) {
            continue;
        }
        if (count++ == 0) {
            jout_key(json, "degraded");
            jout_array(json);
        }
        jout_text(json, readiness->checks[i].name);
    }
    if (count > 0) {
        jout_array_end(json);
    }
}

/* It told of itself, and not that all is well. */
static bool signer_ails(const struct readiness *readiness)
{
    static const char *const nothing_to_tell[] = { "ok", "unreachable", "unknown" };
    for (size_t i = 0; i < COUNT_OF(nothing_to_tell); i++) {
        if (strcmp(readiness->signer, nothing_to_tell[i]) == 0) {
            return false;
        }
    }
    return true;
}

static void put_numbers_locked(struct jout *json, const struct readiness *readiness)
{
    const struct projector_state *state = &readiness->state;
    jout_key(json, "projection");
    jout_object(json);
    jout_key_int(json, "checkpoint", (int64_t)state->checkpoint);
    jout_key_int(json, "log_last", (int64_t)state->log_last);
    jout_key_int(json, "lag", (int64_t)state->lag);
    if (state->stopped_at_failure) {
        jout_key_int(json, "failed_seq", (int64_t)state->failed_seq);
    }
    if (!state->log_trusted) {
        jout_key_int(json, "first_bad_seq", (int64_t)state->first_bad_seq);
    }
    jout_object_end(json);
    jout_key(json, "event_log");
    jout_object(json);
    jout_key_int(json, "replicas_desired", readiness->services->config->nats_replicas);
    jout_key_int(json, "replicas_actual", readiness->log.replicas_actual);
    jout_object_end(json);
}

struct fault readiness_print(struct readiness *readiness, bool draining, mono_ns now, struct buf *out, bool *ret_ready)
{
    bool ready = !draining;
    readiness_look(readiness, CHECK_PROJECTION); /* it waits for nothing, so it is told as it is now */
    CLEANUP(buf_free) struct buf rest = BUF_INIT(out->max);
    struct jout json;
    jout_init(&json, &rest);
    jout_object(&json);
    readiness_lock(readiness);
    put_checks_locked(&json, readiness, now, &ready);
    put_degraded_locked(&json, readiness, now);
    if (signer_ails(readiness)) {
        signer_print_state(&json, &readiness->health);
    }
    put_numbers_locked(&json, readiness);
    readiness_unlock(readiness);
    jout_object_end(&json);
    TRY(jout_end(&json));
    TRY(buf_printf(out, "{\"status\":\"%s\",", draining ? "stopping" : ready ? "ready" : "not_ready"));
    TRY(buf_put(out, span_of(rest.at + 1, rest.len - 1)));
    *ret_ready = ready;
    return OK;
}

struct fault readiness_print_health(struct readiness *readiness, mono_ns now, struct buf *out, bool *ret_well)
{
    const char *word = "unknown";
    readiness_lock(readiness);
    for (size_t i = 0; i < readiness->count; i++) {
        const struct check *check = &readiness->checks[i];
        if (check->kind == CHECK_SIGNER && check->ended != 0 && now - check->ended <= READINESS_STALE_NS) {
            word = readiness->signer;
        }
    }
    readiness_unlock(readiness);
    bool well = strcmp(word, "unreachable") != 0 && strcmp(word, "unknown") != 0;
    struct jout json;
    jout_init(&json, out);
    jout_object(&json);
    jout_key_text(&json, "status", well ? "ok" : "unhealthy");
    jout_key_text(&json, "signer", word);
    jout_object_end(&json);
    TRY(jout_end(&json));
    *ret_well = well;
    return OK;
}

static void pool_gauges(struct services *services)
{
    for (int pool = 0; pool < STORE_POOL_COUNT; pool++) {
        struct store_pool_stats stats = store_pool_stats(services->store, (enum store_pool)pool);
        const char *name = store_pool_text((enum store_pool)pool);
        const struct metric *metric = &probe_metrics[POOL];
        metrics_set(services->metrics, metric, stats.max, (const char *const[]){ name, "max" });
        metrics_set(services->metrics, metric, stats.total, (const char *const[]){ name, "total" });
        metrics_set(services->metrics, metric, stats.acquired, (const char *const[]){ name, "acquired" });
        metrics_set(services->metrics, metric, stats.idle, (const char *const[]){ name, "idle" });
    }
}

void readiness_gauges(struct readiness *readiness, mono_ns now)
{
    mono_ns oldest = now;
    readiness_look(readiness, CHECK_PROJECTION);
    readiness_lock(readiness);
    for (size_t i = 0; i < readiness->count; i++) {
        mono_ns ended = readiness->checks[i].ended;
        oldest = ended < oldest ? ended : oldest;
    }
    readiness_unlock(readiness);
    pool_gauges(readiness->services);
    metrics_set(readiness->services->metrics, &probe_metrics[AGE], (double)(now - oldest) / (double)NS_PER_S, NULL);
}
