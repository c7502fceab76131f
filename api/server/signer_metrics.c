#include "api/server/signer_metrics.h"

#include <math.h>
#include <pthread.h>

enum {
    OPERATIONS,
    REFUSALS,
    RECOVERIES,
    SESSIONS_OPEN,
    SESSIONS_IN_USE,
    SESSIONS_SET_ASIDE,
    TOKEN_STATE,
    QUEUE,
    JOURNAL_BYTES,
    JOURNAL_USABLE
};
const struct metric signer_metrics[] = {
    [OPERATIONS] = { "svc_signer_operations_total",
                     METRIC_COUNTER,
                     "Operations of svc-signer by purpose of the key, operation and outcome: ok, refused, unavailable, "
                     "late.",
                     { "purpose", "operation", "outcome" } },
    [REFUSALS] = { "svc_signer_module_refusals_total",
                   METRIC_COUNTER,
                   "What the PKCS#11 module refused, by what it takes to go on: call, handle, session, login, device, "
                   "module, pin.",
                   { "class" } },
    [RECOVERIES] = { "svc_signer_recoveries_total", METRIC_COUNTER, "How often a token came back.", { "token" } },
    [SESSIONS_OPEN] = { "svc_signer_sessions_open", METRIC_GAUGE, "Sessions that are open on a token.", { "token" } },
    [SESSIONS_IN_USE] = { "svc_signer_sessions_in_use",
                          METRIC_GAUGE,
                          "Sessions of a token that carry out an operation.",
                          { "token" } },
    [SESSIONS_SET_ASIDE] = { "svc_signer_sessions_set_aside",
                             METRIC_GAUGE,
                             "Sessions of a token that hang in a call of its module.",
                             { "token" } },
    [TOKEN_STATE] = { "svc_signer_token_state",
                      METRIC_GAUGE,
                      "1 for the state that a token is in: ok, degraded or down.",
                      { "token", "state" } },
    [QUEUE] = { "svc_signer_queue_requests", METRIC_GAUGE, "Requests that wait for a session.", { NULL } },
    [JOURNAL_BYTES] = { "svc_signer_journal_bytes", METRIC_GAUGE, "Size of the signer's journal.", { NULL } },
    [JOURNAL_USABLE] = { "svc_signer_journal_usable",
                         METRIC_GAUGE,
                         "1 while the signer's journal can be written, else 0: code signing then fails closed.",
                         { NULL } },
};
const size_t signer_metric_count = COUNT_OF(signer_metrics);

static const char *const states[] = { "ok", "degraded", "down" };

/* The last sample: what was added already. */
struct seen {
    uint64_t counts[WIRE_OP_COUNT][KEY_PURPOSE_COUNT][OP_OUTCOME_COUNT];
    uint64_t refusals[HEALTH_CLASSES];
    struct token_health tokens[HEALTH_TOKENS_MAX]; /* whatever happens, their series are set on */
    size_t token_count;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct seen seen; /* guarded by lock */

/* A signer without named tokens has one that is just called that. */
static const char *name_of(const struct token_health *token)
{
    return token->name.text[0] != '\0' ? token->name.text : "default";
}

static bool in_range(const struct operation_count *count)
{
    return count->op < WIRE_OP_COUNT && count->purpose < KEY_PURPOSE_COUNT && count->outcome < OP_OUTCOME_COUNT;
}

static struct token_health *seen_token_locked(const struct token_health *token)
{
    for (size_t i = 0; i < seen.token_count; i++) {
        if (strcmp(seen.tokens[i].name.text, token->name.text) == 0) {
            return &seen.tokens[i];
        }
    }
    if (seen.token_count == HEALTH_TOKENS_MAX) {
        return NULL;
    }
    struct token_health *made = &seen.tokens[seen.token_count++];
    *made = (struct token_health){ .name = token->name };
    return made;
}

static bool began_anew_locked(const struct signer_health *health)
{
    bool anew = false;
    for (size_t i = 0; i < health->count_count && i < HEALTH_COUNTS_MAX; i++) {
        const struct operation_count *count = &health->counts[i];
        anew = anew || (in_range(count) && count->count < seen.counts[count->op][count->purpose][count->outcome]);
    }
    for (size_t i = 0; i < HEALTH_CLASSES; i++) {
        anew = anew || health->refusals[i] < seen.refusals[i];
    }
    for (size_t i = 0; i < health->token_count && i < HEALTH_TOKENS_MAX; i++) {
        const struct token_health *known = seen_token_locked(&health->tokens[i]);
        anew = anew || (known != NULL && health->tokens[i].recoveries < known->recoveries);
    }
    return anew;
}

/* Counters that are not in a sample are nothing yet: the signer leaves them out. */
static bool lacks_one_locked(const struct signer_health *health)
{
    uint64_t known = 0, now = 0;
    for (size_t op = 0; op < WIRE_OP_COUNT; op++) {
        for (size_t purpose = 0; purpose < KEY_PURPOSE_COUNT; purpose++) {
            for (size_t outcome = 0; outcome < OP_OUTCOME_COUNT; outcome++) {
                known += seen.counts[op][purpose][outcome] > 0;
            }
        }
    }
    for (size_t i = 0; i < health->count_count && i < HEALTH_COUNTS_MAX; i++) {
        const struct operation_count *count = &health->counts[i];
        now += in_range(count) && seen.counts[count->op][count->purpose][count->outcome] > 0;
    }
    return now < known;
}

static void forget_counts_locked(void)
{
    memset(seen.counts, 0, sizeof(seen.counts));
    memset(seen.refusals, 0, sizeof(seen.refusals));
    for (size_t i = 0; i < seen.token_count; i++) {
        seen.tokens[i].recoveries = 0;
    }
}

static void add_since(struct metrics *metrics, const struct metric *metric, uint64_t now, uint64_t *last,
                      const char *const *labels)
{
    if (now > *last) {
        metrics_add(metrics, metric, (double)(now - *last), labels);
    }
    *last = now;
}

static void take_counts_locked(struct metrics *metrics, const struct signer_health *health)
{
    for (size_t i = 0; i < health->count_count && i < HEALTH_COUNTS_MAX; i++) {
        const struct operation_count *count = &health->counts[i];
        if (in_range(count)) {
            add_since(metrics, &signer_metrics[OPERATIONS], count->count,
                      &seen.counts[count->op][count->purpose][count->outcome],
                      (const char *const[]){ key_purpose_text(count->purpose), wire_op_text(count->op),
                                             op_outcome_text(count->outcome) });
        }
    }
    for (unsigned i = 0; i < HEALTH_CLASSES; i++) {
        add_since(metrics, &signer_metrics[REFUSALS], health->refusals[i], &seen.refusals[i],
                  (const char *const[]){ health_class_text(i) });
    }
}

/* NAN: not known. */
static void set_token(struct metrics *metrics, const struct token_health *token, bool known)
{
    const char *name = name_of(token);
    const char *const labels[] = { name, NULL };
    metrics_set(metrics, &signer_metrics[SESSIONS_OPEN], known ? (double)token->sessions : NAN, labels);
    metrics_set(metrics, &signer_metrics[SESSIONS_IN_USE], known ? (double)token->in_use : NAN, labels);
    metrics_set(metrics, &signer_metrics[SESSIONS_SET_ASIDE], known ? (double)token->set_aside : NAN, labels);
    for (size_t state = 0; state < COUNT_OF(states); state++) {
        metrics_set(metrics, &signer_metrics[TOKEN_STATE], known ? (double)(token->state == state) : NAN,
                    (const char *const[]){ name, states[state] });
    }
}

static void take_tokens_locked(struct metrics *metrics, const struct signer_health *health)
{
    for (size_t i = 0; i < health->token_count && i < HEALTH_TOKENS_MAX; i++) {
        const struct token_health *token = &health->tokens[i];
        struct token_health *known = seen_token_locked(token);
        if (known != NULL) {
            add_since(metrics, &signer_metrics[RECOVERIES], token->recoveries, &known->recoveries,
                      (const char *const[]){ name_of(token) });
            set_token(metrics, token, true);
        }
    }
}

static void take_locked(struct metrics *metrics, const struct signer_health *health)
{
    if (began_anew_locked(health) || lacks_one_locked(health)) {
        forget_counts_locked();
    }
    take_counts_locked(metrics, health);
    take_tokens_locked(metrics, health);
    metrics_set(metrics, &signer_metrics[QUEUE], (double)health->queue, NULL);
    metrics_set(metrics, &signer_metrics[JOURNAL_BYTES], (double)health->journal_bytes, NULL);
    metrics_set(metrics, &signer_metrics[JOURNAL_USABLE], health->journal_usable, NULL);
}

void signer_metrics_take(struct metrics *metrics, const struct signer_health *health)
{
    BUG_IF(pthread_mutex_lock(&lock) != 0);
    if (health != NULL) {
        take_locked(metrics, health);
    } else {
        for (size_t i = 0; i < seen.token_count; i++) {
            set_token(metrics, &seen.tokens[i], false);
        }
        metrics_set(metrics, &signer_metrics[QUEUE], NAN, NULL);
        metrics_set(metrics, &signer_metrics[JOURNAL_USABLE], NAN, NULL);
    }
    BUG_IF(pthread_mutex_unlock(&lock) != 0);
}

struct fault signer_metrics_sample(struct op *op, struct services *services)
{
    struct signer_health health;
    bool answered = !FAULTED(signer_health(op, services->signer, &health));
    op->note = (struct fault_note){ 0 }; /* that it does not answer is what /readyz says */
    signer_metrics_take(services->metrics, answered ? &health : NULL);
    return OK;
}

const char *signer_word(const struct signer_health *health)
{
    bool first_down = health->token_count > 0 ? health->tokens[0].state == SIGNER_DOWN : health->state == SIGNER_DOWN;
    if (first_down) {
        return "down";
    }
    if (!health->journal_usable) {
        return "journal_unusable";
    }
    return health->state == SIGNER_OK ? "ok" : "degraded";
}

void signer_print_state(struct jout *jout, const struct signer_health *health)
{
    jout_key(jout, "signer");
    jout_object(jout);
    jout_key_text(jout, "state", states[health->state <= SIGNER_DOWN ? health->state : SIGNER_DOWN]);
    jout_key_bool(jout, "journal_usable", health->journal_usable);
    jout_key(jout, "tokens");
    jout_array(jout);
    for (size_t i = 0; i < health->token_count && i < HEALTH_TOKENS_MAX; i++) {
        const struct token_health *token = &health->tokens[i];
        jout_object(jout);
        jout_key_text(jout, "token", name_of(token));
        jout_key_text(jout, "state", states[token->state <= SIGNER_DOWN ? token->state : SIGNER_DOWN]);
        if (token->state != SIGNER_OK) {
            jout_key_text(jout, "cause", token->cause); /* of the signer's own table (ckr.def), not the module's */
        }
        jout_object_end(jout);
    }
    jout_array_end(jout);
    jout_object_end(jout);
}
