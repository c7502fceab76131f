#include "api/server/readiness.h"

#include "api/server/probes.h"
#include "api/server/signer_metrics.h"
#include "appliance/base/alloc.h"
#include "appliance/base/file.h"
#include "appliance/base/json.h"

#include <stdio.h>

#define DB_BUDGET_MS    1000
#define CHECK_BUDGET_MS 500
#define STATE_MAX       65536
#define DEGRADED_MAX    32

enum { SIGNER_UP, SIGNER_RESTARTS, REPLICAS_DESIRED, REPLICAS_ACTUAL, LAG, POOL, SHED };
const struct metric probe_metrics[] = {
    [SIGNER_UP] = { "svc_signer_up", METRIC_GAUGE, "1 while svc-signer and its token work, else 0.", { 0 } },
    [SIGNER_RESTARTS] = { "svc_signer_restarts_total",
                          METRIC_COUNTER,
                          "How often the supervisor started svc-signer again.",
                          { 0 } },
    [REPLICAS_DESIRED] = { "svc_event_log_replicas_desired",
                           METRIC_GAUGE,
                           "Configured replicas of the event log.",
                           { 0 } },
    [REPLICAS_ACTUAL] = { "svc_event_log_replicas_actual", METRIC_GAUGE, "Replicas that are current.", { 0 } },
    [LAG] = { "svc_projection_lag_events",
              METRIC_GAUGE,
              "Messages of the log that the read model has not applied.",
              { 0 } },
    [POOL] = { "svc_store_pool_connections",
               METRIC_GAUGE,
               "Connections of each pool: max, total, acquired, idle.",
               { "pool", "state" } },
    [SHED] = { "svc_readiness_probe_shed", METRIC_GAUGE, "1 while a readiness check is shed by load.", { "check" } },
};
const size_t probe_metric_count = COUNT_OF(probe_metrics);

struct readiness {
    struct services *services;
    const struct feature *const *features;
    size_t feature_count;
    mono_ns shed_since; /* 0: not shed */
};

/* One round of checks. */
struct findings {
    const char *db, *nats, *projection, *signer;
    const char *degraded[DEGRADED_MAX];
    size_t degraded_count;
    struct event_log_state log;
    struct projector_state state;
    struct signer_health health;
    bool signer_ails; /* and health says how */
    bool ready;
};

struct fault readiness_new(struct services *services, const struct feature *const *features, size_t count,
                           struct readiness **ret_readiness)
{
    struct readiness *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    *made = (struct readiness){ .services = services, .features = features, .feature_count = count };
    *ret_readiness = made;
    return OK;
}

void readiness_free(struct readiness *readiness)
{
    mem_free(readiness);
}

const char *readiness_db_word(struct fault fault, mono_ns now, mono_ns *since, bool *ret_shed)
{
    bool busy = fault.code == FAULT_STORE_BUSY || fault.code == FAULT_DEADLINE || fault.code == FAULT_SATURATED;
    *ret_shed = busy;
    if (!busy) {
        *since = 0;
        return FAULTED(fault) ? "unreachable" : "ok";
    }
    if (*since == 0) {
        *since = now;
    }
    return now - *since <= READINESS_SHED_GRACE_NS ? "ok" : "busy";
}

static const char *ask_signer(struct services *services, struct signer_health *ret_health)
{
    CLEANUP(op_freep) struct op *op = NULL;
    bool answered = !FAULTED(op_new("system:probe", (struct tenant_id){ 0 }, CHECK_BUDGET_MS, &op)) &&
                    !FAULTED(signer_health(op, services->signer, ret_health));
    signer_metrics_take(services->metrics, answered ? ret_health : NULL);
    return answered ? signer_word(ret_health) : "unreachable";
}

const char *readiness_signer_word(struct services *services)
{
    struct signer_health health;
    return ask_signer(services, &health);
}

static void degrade(struct findings *findings, const char *check)
{
    BUG_IF(findings->degraded_count == DEGRADED_MAX);
    findings->degraded[findings->degraded_count++] = check;
}

static void check_db(struct readiness *readiness, struct findings *findings)
{
    struct services *services = readiness->services;
    CLEANUP(op_freep) struct op *op = NULL;
    struct fault fault = op_new("system:probe", (struct tenant_id){ 0 }, DB_BUDGET_MS, &op);
    if (!FAULTED(fault)) {
        fault = store_ping(op, services->store, DB_BUDGET_MS);
    }
    bool shed = false;
    findings->db = readiness_db_word(fault, clock_mono(), &readiness->shed_since, &shed);
    if (shed) {
        degrade(findings, "db");
    }
    metrics_set(services->metrics, &probe_metrics[SHED], shed, (const char *const[]){ "db" });
}

static void check_nats(struct readiness *readiness, struct findings *findings)
{
    CLEANUP(op_freep) struct op *op = NULL;
    struct fault fault = op_new("system:probe", (struct tenant_id){ 0 }, CHECK_BUDGET_MS, &op);
    if (!FAULTED(fault)) {
        fault = event_log_state(op, readiness->services->log, &findings->log);
    }
    findings->nats = "ok";
    if (FAULTED(fault) || !findings->log.connected) {
        findings->nats = "unreachable";
    } else if (findings->log.replicas_actual < (unsigned)readiness->services->config->nats_replicas) {
        findings->nats = "replicas_missing";
    }
}

static void check_projection(struct readiness *readiness, struct findings *findings)
{
    struct projector_state *state = &findings->state;
    projector_state(readiness->services->projector, state);
    findings->projection = "ok";
    if (state->stopped_at_failure) {
        findings->projection = "failed";
    } else if (!state->log_trusted) {
        findings->projection = state->cause[0] != 0 ? state->cause : "untrusted";
    }
}

static void check_signer(struct readiness *readiness, struct findings *findings)
{
    findings->signer = ask_signer(readiness->services, &findings->health);
    findings->signer_ails = strcmp(findings->signer, "ok") != 0 && strcmp(findings->signer, "unreachable") != 0;
    bool degraded = strcmp(findings->signer, "degraded") == 0;
    if (degraded) {
        degrade(findings, "signer");
        findings->signer = "ok"; /* it signs, and recovers a part of itself */
    }
    metrics_set(readiness->services->metrics, &probe_metrics[SIGNER_UP], strcmp(findings->signer, "ok") == 0, NULL);
}

static void put_check(struct jout *json, struct findings *findings, const char *name, const char *word)
{
    jout_key_text(json, name, word);
    findings->ready = findings->ready && strcmp(word, "ok") == 0;
}

/* A part that may be missing: it says what is wrong with it, and the rest goes on. */
static void put_part(struct jout *json, struct findings *findings, const char *name, const char *word)
{
    jout_key_text(json, name, word);
    if (strcmp(word, "ok") != 0) {
        degrade(findings, name);
    }
}

static void put_features(struct jout *json, struct readiness *readiness, struct findings *findings)
{
    for (size_t i = 0; i < readiness->feature_count; i++) {
        for (size_t j = 0; j < readiness->features[i]->readiness_count; j++) {
            const struct readiness_row *row = &readiness->features[i]->readiness[j];
            CLEANUP(op_freep) struct op *op = NULL;
            struct fault fault = op_new("system:probe", (struct tenant_id){ 0 }, CHECK_BUDGET_MS, &op);
            if (!FAULTED(fault)) {
                fault = row->check(op, readiness->services);
            }
            const char *word = FAULTED(fault) ? fault_row(fault.code)->text : "ok";
            if (row->degrades) {
                put_part(json, findings, row->name, word);
            } else {
                put_check(json, findings, row->name, word);
            }
        }
    }
}

static void put_numbers(struct jout *json, const struct findings *findings)
{
    const struct projector_state *state = &findings->state;
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
    jout_key_int(json, "replicas_desired", findings->log.replicas_desired);
    jout_key_int(json, "replicas_actual", findings->log.replicas_actual);
    jout_object_end(json);
}

static void put_degraded(struct jout *json, const struct findings *findings)
{
    if (findings->degraded_count == 0) {
        return;
    }
    jout_key(json, "degraded");
    jout_array(json);
    for (size_t i = 0; i < findings->degraded_count; i++) {
        jout_text(json, findings->degraded[i]);
    }
    jout_array_end(json);
}

static void keep_numbers(struct readiness *readiness, const struct findings *findings)
{
    struct metrics *metrics = readiness->services->metrics;
    metrics_set(metrics, &probe_metrics[LAG], (double)findings->state.lag, NULL);
    metrics_set(metrics, &probe_metrics[REPLICAS_DESIRED], (double)readiness->services->config->nats_replicas, NULL);
    metrics_set(metrics, &probe_metrics[REPLICAS_ACTUAL], (double)findings->log.replicas_actual, NULL);
}

struct fault readiness_check(struct readiness *readiness, bool draining, struct buf *out, bool *ret_ready)
{
    struct findings findings = { .ready = !draining };
    CLEANUP(buf_free) struct buf checks = BUF_INIT(out->max);
    check_db(readiness, &findings);
    check_nats(readiness, &findings);
    check_projection(readiness, &findings);
    check_signer(readiness, &findings);
    keep_numbers(readiness, &findings);

    struct jout json;
    jout_init(&json, &checks);
    jout_object(&json);
    put_check(&json, &findings, "db", findings.db);
    put_check(&json, &findings, "nats", findings.nats);
    put_check(&json, &findings, "projection", findings.projection);
    put_check(&json, &findings, "signer", findings.signer);
    put_features(&json, readiness, &findings);
    jout_object_end(&json);
    TRY(jout_end(&json));

    jout_init(&json, out);
    jout_object(&json);
    jout_key_text(&json, "status", draining ? "stopping" : findings.ready ? "ready" : "not_ready");
    jout_key_raw(&json, "checks", buf_span(&checks));
    put_degraded(&json, &findings);
    if (findings.signer_ails) {
        signer_print_state(&json, &findings.health);
    }
    put_numbers(&json, &findings);
    jout_object_end(&json);
    *ret_ready = findings.ready;
    return jout_end(&json);
}

/* The file is the supervisor's and may grow members: canonical JSON has one spelling of each, so the member is found by
 * its text, which no string value can hold unescaped. */
int64_t state_signer_restarts(struct span state_json)
{
    static const char member[] = "\"signer_restarts\":";
    CLEANUP(buf_free) struct buf canonical = BUF_INIT(STATE_MAX);
    const char *text = NULL;
    if (FAULTED(json_canonical(state_json, &canonical)) || FAULTED(buf_cstr(&canonical, &text))) {
        return 0;
    }
    const char *at = strstr(text, member);
    int64_t restarts = 0;
    for (at = at != NULL ? at + strlen(member) : ""; *at >= '0' && *at <= '9' && restarts < INT32_MAX; at++) {
        restarts = restarts * 10 + (*at - '0');
    }
    return restarts;
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

void readiness_gauges(struct readiness *readiness)
{
    struct services *services = readiness->services;
    pool_gauges(services);
    char path[512];
    CLEANUP(buf_free) struct buf state = BUF_INIT(STATE_MAX);
    (void)snprintf(path, sizeof(path), "%s/state.json", services->config->run_dir);
    if (!FAULTED(file_read(path, &state))) {
        metrics_set(services->metrics, &probe_metrics[SIGNER_RESTARTS], (double)state_signer_restarts(buf_span(&state)),
                    NULL);
    }
}
