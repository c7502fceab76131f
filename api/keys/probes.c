/*
 * Probes: does every key that signs, or soon will, still sign? One after another and paced over the interval, each
 * signs a random digest that nobody else ever sees, and the signature must verify under the public half that was
 * recorded when the key was made; a sealing key seals and opens. It is no use of the key: nothing is counted, and a key
 * whose uses are spent is probed all the same.
 *
 * Two kinds of failure: of the key (it is gone, or signs as another key would), which is tried again at once and then
 * recorded, as is its end; and of the token or the signer as a whole, which is no news about one key: it is shown, and
 * not recorded for each of them.
 */
#include "api/keys/internal.h"

#include "api/identity/identity_feature.h"
#include "appliance/base/alloc.h"
#include "appliance/base/log.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>

#define PROBED_MAX    10000
#define PROBE_SLACK   (2 * NS_PER_S)
#define PACE_NS       NS_PER_S       /* of the worker's row */
#define BUSY_SHARE(n) ((n) / 10 * 8) /* of an interval, in which a round is done */

struct probed {
    struct tenant_id tenant;
    struct uuid id;
    enum key_purpose purpose;
    bool tried, good;
    utc_us at, good_at; /* good_at: since when it is looked after, at first */
    enum fault_code code;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards the list; never held over a call outside */
static struct probed *list;                              /* in order of ids; replaced as a whole */
static size_t list_count;
/* Of the worker alone, of which one runs at a time. */
static size_t next;
static mono_ns round_begun;
static bool round_known;

static const struct sql SQL_PROBED = {
    "keys_probed",
    "SELECT key_id, purpose FROM svc.managed_keys WHERE state IN ('prepared', 'active', 'retiring')"
    " ORDER BY key_id LIMIT $1",
    1,
};

/* ---- what is known ---- */

static void enter(void)
{
    BUG_IF(pthread_mutex_lock(&lock) != 0);
}

static void leave(void)
{
    BUG_IF(pthread_mutex_unlock(&lock) != 0);
}

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct probed *)a)->id.text, ((const struct probed *)b)->id.text);
}

static struct probed *find_locked(struct uuid id)
{
    const struct probed wanted = { .id = id };
    return list_count > 0 ? bsearch(&wanted, list, list_count, sizeof(*list), by_id) : NULL;
}

void key_probe_get(struct uuid id, struct key_probed *ret_probed)
{
    *ret_probed = (struct key_probed){ 0 };
    enter();
    const struct probed *probed = find_locked(id);
    if (probed != NULL && probed->tried) {
        *ret_probed =
            (struct key_probed){ .known = true, .good = probed->good, .at = probed->at, .code = probed->code };
    }
    leave();
}

void key_probes_forget(void)
{
    enter();
    mem_free(TAKE(list));
    list_count = 0;
    leave();
    next = 0;
    round_known = false;
}

struct fault key_probes_well(struct op *op, struct services *services)
{
    struct fault found = OK;
    (void)op, (void)services;
    enter();
    for (size_t i = 0; i < list_count && !FAULTED(found); i++) {
        if (list[i].tried && !list[i].good) {
            found = (struct fault){ list[i].code };
        }
    }
    leave();
    return found;
}

/* Gauges of all purposes that have keys here; without a list (another process leads) they are not known. */
static void show(struct metrics *metrics)
{
    static bool shown[KEY_PURPOSE_COUNT];
    int64_t failing[KEY_PURPOSE_COUNT] = { 0 };
    utc_us good[KEY_PURPOSE_COUNT] = { 0 };
    enter();
    bool known = list != NULL;
    for (size_t i = 0; known && i < list_count; i++) {
        enum key_purpose purpose = list[i].purpose;
        failing[purpose] += list[i].tried && !list[i].good;
        good[purpose] = good[purpose] == 0 || list[i].good_at < good[purpose] ? list[i].good_at : good[purpose];
        shown[purpose] = true;
    }
    leave();
    for (enum key_purpose purpose = KEY_PURPOSE_NONE + 1; purpose < KEY_PURPOSE_COUNT; purpose++) {
        const char *const labels[] = { key_purpose_text(purpose), NULL };
        if (shown[purpose]) {
            metrics_set(metrics, &key_metrics[KEY_METRIC_PROBE_FAILING], known ? (double)failing[purpose] : NAN,
                        labels);
            metrics_set(metrics, &key_metrics[KEY_METRIC_PROBE_GOOD],
                        known && good[purpose] != 0 ? (double)good[purpose] / (double)US_PER_S : NAN, labels);
        }
    }
}

/* ---- a round ---- */

static struct fault list_tenant(struct op *op, struct services *services, struct probed *made, size_t *count)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_begin(op, services->store, STORE_BOOKKEEPING, &tx));
    TRY(tx_query(tx, &SQL_PROBED, (struct sql_arg[]){ SQL_INT((int64_t)(PROBED_MAX - *count)) }, 1, &rows));
    for (size_t row = 0; row < rows_count(rows); row++) {
        struct probed *probed = &made[*count];
        *probed = (struct probed){ .tenant = op->tenant, .good_at = clock_utc() };
        TRY(uuid_parse(span_text(rows_text(rows, row, 0)), &probed->id));
        TRY(key_purpose_parse(span_text(rows_text(rows, row, 1)), &probed->purpose));
        *count += 1;
    }
    return OK;
}

static struct fault list_all(struct op *op, struct services *services, struct probed *made, size_t *ret_count)
{
    struct tenant_id *tenants = NULL, before = op->tenant;
    size_t count = 0;
    struct fault fault = identity_tenants(op, services->store, &tenants, &count);
    *ret_count = 0;
    for (size_t i = 0; i < count && !FAULTED(fault) && *ret_count < PROBED_MAX; i++) {
        op->tenant = tenants[i];
        fault = list_tenant(op, services, made, ret_count);
    }
    op->tenant = before;
    return fault;
}

/* The keys of now, with what is known of those that were there before. */
static struct fault begin_round(struct op *op, struct services *services)
{
    struct probed *made = NULL;
    size_t count = 0;
    TRY(mem_new(PROBED_MAX, sizeof(*made), &made));
    struct fault fault = list_all(op, services, made, &count);
    if (FAULTED(fault)) {
        mem_free(made);
        return fault;
    }
    qsort(made, count, sizeof(*made), by_id);
    enter();
    for (size_t i = 0; i < count; i++) {
        const struct probed *known = find_locked(made[i].id);
        made[i] = known != NULL ? *known : made[i];
    }
    struct probed *old = list;
    list = made;
    list_count = count;
    leave();
    mem_free(old);
    next = 0;
    round_begun = clock_mono();
    round_known = true;
    return OK;
}

/* The n-th change of a key's probe has one id, whoever records it. */
static struct fault record_change(struct op *op, struct services *services, const struct managed_key *key,
                                  struct fault found)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(1024);
    char seed[64];
    struct jout jout;
    jout_init(&jout, &data);
    jout_object(&jout);
    jout_key_text(&jout, "key_id", key->ref.id.text);
    if (FAULTED(found)) {
        jout_key_text(&jout, "code", fault_row(found.code)->text);
    }
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    (void)snprintf(seed, sizeof(seed), "after %lld", (long long)key->probed);
    return key_append_one(op, services, FAULTED(found) ? "key.probe_failed" : "key.probe_recovered", seed, key->ref.id,
                          &data);
}

static void keep(struct services *services, const struct probed *probed, struct fault found)
{
    const char *result = !FAULTED(found) ? "ok" : key_probe_is_outage(found) ? "unavailable" : "failed";
    enter();
    struct probed *kept = find_locked(probed->id);
    if (kept != NULL) {
        kept->tried = true;
        kept->good = !FAULTED(found);
        kept->at = clock_utc();
        kept->good_at = kept->good ? kept->at : kept->good_at;
        kept->code = found.code;
    }
    leave();
    metrics_add(services->metrics, &key_metrics[KEY_METRIC_PROBES], 1,
                (const char *const[]){ key_purpose_text(probed->purpose), result, NULL });
    show(services->metrics);
}

static bool is_probed(const struct managed_key *key)
{
    enum key_state state = key_state_of(key);
    bool usable = state == KEY_PREPARED || state == KEY_ACTIVE || state == KEY_RETIRING;
    return usable && !FAULTED(keys_check_fence(NULL, key->algorithm, "")); /* what nobody may use does not fail */
}

static struct fault probe_one(struct services *services, const struct probed *probed, struct fault *ret_found)
{
    CLEANUP(op_freep) struct op *op = NULL;
    struct managed_key key;
    int64_t limit = 2 * services->config->signer_deadline + PROBE_SLACK;
    TRY(op_new("system:worker:keys-probe", probed->tenant, (int)(limit / NS_PER_MS), &op));
    TRY(keys_get(op, services, probed->id, &key));
    if (!is_probed(&key)) {
        return OK; /* since the round began */
    }
    struct fault found = key_probe(op, services, &key);
    if (FAULTED(found) && !key_probe_is_outage(found)) {
        op->note = (struct fault_note){ 0 };
        TRY(keys_get(op, services, probed->id, &key));
        if (!is_probed(&key)) {
            return OK; /* destroyed meanwhile */
        }
        found = key_probe(op, services, &key);
    }
    keep(services, probed, found);
    *ret_found = found;
    if (FAULTED(found)) {
        log_fault(LOG_LEVEL_WARN, "key_probe_failed", op, found);
        op->note = (struct fault_note){ 0 };
    }
    bool changed = FAULTED(found) ? key.probe_code == NULL && !key_probe_is_outage(found) : key.probe_code != NULL;
    return changed ? record_change(op, services, &key, found) : OK;
}

/* How many now, so that the round is done in time. */
static size_t share(const struct services *services, mono_ns now)
{
    mono_ns end = round_begun + BUSY_SHARE(services->config->keys_probe_interval);
    size_t left = list_count - next, ticks = end > now ? (size_t)((end - now) / PACE_NS) : 0;
    return ticks > 0 ? (left + ticks - 1) / ticks : left;
}

struct fault key_probe_some(struct op *op, struct services *services)
{
    struct projector_state state;
    mono_ns now = clock_mono(), interval = services->config->keys_probe_interval;
    projector_state(services->projector, &state);
    if (interval == 0 || !state.leader) {
        key_probes_forget();
        show(services->metrics);
        return OK;
    }
    if (!round_known || now >= round_begun + interval) {
        TRY(begin_round(op, services));
    }
    for (size_t count = share(services, now); count > 0 && next < list_count && !op_expired(op); count--) {
        struct fault found = OK;
        const struct probed probed = list[next++]; /* only this thread replaces the list */
        TRY(probe_one(services, &probed, &found));
        if (key_probe_is_outage(found)) {
            break; /* the others would wait as long: they come with the next ticks */
        }
    }
    return OK;
}
