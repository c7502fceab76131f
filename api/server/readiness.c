#include "api/server/readiness_internal.h"
#include "api/server/signer_metrics.h"
#include "appliance/base/alloc.h"
#include "appliance/base/file.h"
#include "appliance/base/json.h"

#include <stdio.h>

#define DB_BUDGET_MS    1000
#define CHECK_BUDGET_MS 500
#define STATE_MAX       65536

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
    [LEADER] = { "svc_projector_leader",
                 METRIC_GAUGE,
                 "1 while this process leads: applies the log to the read model and runs the leader's periodic work.",
                 { 0 } },
    [AGE] = { "svc_readiness_age_seconds", METRIC_GAUGE, "Age of the oldest outcome that /readyz tells of.", { 0 } },
};
const size_t probe_metric_count = COUNT_OF(probe_metrics);

static void say(struct outcome *outcome, const char *word)
{
    (void)snprintf(outcome->word, sizeof(outcome->word), "%s", word);
}

/* The looks. Each has a budget of its own. */

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

static void look_at_db(struct readiness *readiness, struct check *check, struct outcome *ret_outcome)
{
    CLEANUP(op_freep) struct op *op = NULL;
    struct fault fault = op_new("system:probe", (struct tenant_id){ 0 }, DB_BUDGET_MS, &op);
    if (!FAULTED(fault)) {
        fault = store_ping(op, readiness->services->store, DB_BUDGET_MS);
    }
    say(ret_outcome, readiness_db_word(fault, clock_mono(), &check->shed_since, &ret_outcome->shed));
}

static void look_at_nats(struct readiness *readiness, struct check *check, struct outcome *ret_outcome)
{
    (void)check;
    struct services *services = readiness->services;
    struct event_log_state log = { 0 };
    CLEANUP(op_freep) struct op *op = NULL;
    struct fault fault = op_new("system:probe", (struct tenant_id){ 0 }, CHECK_BUDGET_MS, &op);
    if (!FAULTED(fault)) {
        fault = event_log_state(op, services->log, &log);
    }
    say(ret_outcome, "ok");
    if (FAULTED(fault) || !log.connected) {
        say(ret_outcome, "unreachable");
    } else if (log.replicas_actual < (unsigned)services->config->nats_replicas) {
        say(ret_outcome, "replicas_missing");
    }
    metrics_set(services->metrics, &probe_metrics[REPLICAS_DESIRED], (double)services->config->nats_replicas, NULL);
    metrics_set(services->metrics, &probe_metrics[REPLICAS_ACTUAL], (double)log.replicas_actual, NULL);
    readiness_lock(readiness);
    readiness->log = log;
    readiness_unlock(readiness);
}

static void look_at_projection(struct readiness *readiness, struct check *check, struct outcome *ret_outcome)
{
    (void)check;
    struct services *services = readiness->services;
    struct projector_state state;
    projector_state(services->projector, &state);
    say(ret_outcome, "ok");
    if (state.stopped_at_failure) {
        say(ret_outcome, "failed");
    } else if (!state.log_trusted) {
        say(ret_outcome, state.cause[0] != 0 ? state.cause : "untrusted");
    }
    metrics_set(services->metrics, &probe_metrics[LAG], (double)state.lag, NULL);
    metrics_set(services->metrics, &probe_metrics[LEADER], state.leader, NULL);
    struct bulkhead *backlog = bulkheads_get(services->bulkheads, BULKHEAD_PROJECTION);
    if (backlog != NULL) {
        bulkhead_backlog(backlog, state.lag);
    }
    readiness_lock(readiness);
    readiness->state = state;
    readiness_unlock(readiness);
}

static void look_at_signer(struct readiness *readiness, struct check *check, struct outcome *ret_outcome)
{
    (void)check;
    struct services *services = readiness->services;
    struct signer_health health = { 0 };
    CLEANUP(op_freep) struct op *op = NULL;
    bool answered = !FAULTED(op_new("system:probe", (struct tenant_id){ 0 }, CHECK_BUDGET_MS, &op)) &&
                    !FAULTED(signer_health(op, services->signer, &health));
    signer_metrics_take(services->metrics, answered ? &health : NULL);
    const char *word = answered ? signer_word(&health) : "unreachable";
    ret_outcome->part = strcmp(word, "degraded") == 0; /* it signs, and recovers a part of itself */
    say(ret_outcome, ret_outcome->part ? "ok" : word);
    metrics_set(services->metrics, &probe_metrics[SIGNER_UP], strcmp(ret_outcome->word, "ok") == 0, NULL);
    readiness_lock(readiness);
    readiness->health = health;
    readiness->signer = word;
    readiness_unlock(readiness);
}

/* A part that may be missing says what is wrong with it. What has to be there and was not read in time is shed as the
 * datastore is. */
static void look_at_feature(struct readiness *readiness, struct check *check, struct outcome *ret_outcome)
{
    CLEANUP(op_freep) struct op *op = NULL;
    struct fault fault = op_new("system:probe", (struct tenant_id){ 0 }, CHECK_BUDGET_MS, &op);
    if (!FAULTED(fault)) {
        fault = check->row->check(op, readiness->services);
    }
    const char *word = FAULTED(fault) ? fault_row(fault.code)->text : "ok";
    if (check_is_needed(check)) {
        const char *while_busy = readiness_db_word(fault, clock_mono(), &check->shed_since, &ret_outcome->shed);
        word = ret_outcome->shed ? while_busy : word;
    }
    say(ret_outcome, word);
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

/* Which the supervisor writes: how often it started the signer again. */
static void look_at_state_file(struct readiness *readiness, struct check *check, struct outcome *ret_outcome)
{
    (void)check, (void)ret_outcome;
    struct services *services = readiness->services;
    char path[512];
    CLEANUP(buf_free) struct buf state = BUF_INIT(STATE_MAX);
    (void)snprintf(path, sizeof(path), "%s/state.json", services->config->run_dir);
    if (!FAULTED(file_read(path, &state))) {
        metrics_set(services->metrics, &probe_metrics[SIGNER_RESTARTS], (double)state_signer_restarts(buf_span(&state)),
                    NULL);
    }
}

void readiness_look(void *arg, size_t which)
{
    static void (*const looks[])(struct readiness *readiness, struct check *check, struct outcome *ret_outcome) = {
        [CHECK_DB] = look_at_db,         [CHECK_NATS] = look_at_nats,       [CHECK_PROJECTION] = look_at_projection,
        [CHECK_SIGNER] = look_at_signer, [CHECK_FEATURE] = look_at_feature, [CHECK_STATE_FILE] = look_at_state_file,
    };
    struct readiness *readiness = arg;
    struct check *check = &readiness->checks[which];
    struct outcome outcome = { 0 };
    looks[check->kind](readiness, check, &outcome);
    if (check->kind == CHECK_DB || (check->kind == CHECK_FEATURE && check_is_needed(check))) {
        metrics_set(readiness->services->metrics, &probe_metrics[SHED], outcome.shed,
                    (const char *const[]){ check->name });
    }
    readiness_lock(readiness);
    check->outcome = outcome;
    check->ended = clock_mono();
    readiness_unlock(readiness);
}

/* The table */

static void put_check(struct readiness *readiness, struct check check)
{
    readiness->checks[readiness->count++] = check;
}

struct fault readiness_new(struct services *services, const struct feature *const *features, size_t count,
                           struct readiness **ret_readiness)
{
    size_t total = CHECK_STATE_FILE + 1;
    for (size_t i = 0; i < count; i++) {
        total += features[i]->readiness_count;
    }
    struct readiness *made = NULL;
    TRY(mem_new(1, sizeof(*made) + total * sizeof(made->checks[0]), &made));
    BUG_IF(pthread_mutex_init(&made->lock, NULL) != 0);
    made->services = services;
    made->signer = "unknown";
    put_check(made, (struct check){ .kind = CHECK_DB, .name = "db" });
    put_check(made, (struct check){ .kind = CHECK_NATS, .name = "nats" });
    put_check(made, (struct check){ .kind = CHECK_PROJECTION, .name = "projection" });
    put_check(made, (struct check){ .kind = CHECK_SIGNER, .name = "signer" });
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < features[i]->readiness_count; j++) {
            const struct readiness_row *row = &features[i]->readiness[j];
            put_check(made, (struct check){ .kind = CHECK_FEATURE, .name = row->name, .row = row });
        }
    }
    put_check(made, (struct check){ .kind = CHECK_STATE_FILE });
    *ret_readiness = made;
    return OK;
}

void readiness_free(struct readiness *readiness)
{
    if (readiness != NULL) {
        BUG_IF(pthread_mutex_destroy(&readiness->lock) != 0);
        mem_free(readiness);
    }
}

size_t readiness_looks(const struct readiness *readiness)
{
    return readiness->count;
}
