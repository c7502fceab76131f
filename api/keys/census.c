/* Keys by purpose and state, and when the first of them and of their certificates end: gauges of the process that
 * leads.
 */
#include "api/keys/internal.h"

#include "api/identity/identity_feature.h"

#include <math.h>

static const struct sql SQL_CENSUS = {
    "keys_census",
    "SELECT purpose, state, count(*), min(certificate_not_after_us), min(not_after_us) FROM svc.managed_keys"
    " GROUP BY purpose, state",
    0,
};

enum { END_OF_CERTIFICATE, END_OF_KEY, ENDS };
static const int end_metrics[ENDS] = { KEY_METRIC_CERTIFICATE_END, KEY_METRIC_END };

struct census {
    int64_t keys[KEY_PURPOSE_COUNT][KEY_STATES];
    utc_us first_end[KEY_PURPOSE_COUNT][ENDS]; /* of keys in use; 0 = without end */
};

static bool in_use(enum key_state state)
{
    return state == KEY_PREPARED || state == KEY_ACTIVE || state == KEY_RETIRING;
}

static struct fault count_tenant(struct op *op, struct services *services, struct census *census)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_begin(op, services->store, STORE_BOOKKEEPING, &tx));
    TRY(tx_query(tx, &SQL_CENSUS, NULL, 0, &rows));
    for (size_t row = 0; row < rows_count(rows); row++) {
        enum key_purpose purpose;
        enum key_state state;
        TRY(key_purpose_parse(span_text(rows_text(rows, row, 0)), &purpose));
        REQUIRE(key_state_parse(rows_text(rows, row, 1), &state), INTERNAL);
        census->keys[purpose][state] += rows_int(rows, row, 2);
        for (size_t kind = 0; kind < ENDS && in_use(state); kind++) {
            utc_us end = rows_int(rows, row, 3 + kind), *first = &census->first_end[purpose][kind];
            *first = end != 0 && (*first == 0 || end < *first) ? end : *first;
        }
    }
    return OK;
}

static void show_ends(struct metrics *metrics, const struct census *census, enum key_purpose purpose)
{
    static bool shown[KEY_PURPOSE_COUNT][ENDS]; /* one worker thread at a time */
    for (size_t kind = 0; kind < ENDS; kind++) {
        utc_us end = census != NULL ? census->first_end[purpose][kind] : 0;
        shown[purpose][kind] = shown[purpose][kind] || end != 0;
        if (shown[purpose][kind]) {
            metrics_set(metrics, &key_metrics[end_metrics[kind]], end != 0 ? (double)end / (double)US_PER_S : NAN,
                        (const char *const[]){ key_purpose_text(purpose), NULL });
        }
    }
}

/* What was shown once is shown on, at nothing; NaN where this process does not know any more. */
static void show(struct metrics *metrics, const struct census *census)
{
    static bool shown[KEY_PURPOSE_COUNT][KEY_STATES];
    for (enum key_purpose purpose = KEY_PURPOSE_NONE + 1; purpose < KEY_PURPOSE_COUNT; purpose++) {
        const char *text = key_purpose_text(purpose);
        for (enum key_state state = 0; state < KEY_STATES; state++) {
            int64_t keys = census != NULL ? census->keys[purpose][state] : 0;
            shown[purpose][state] = shown[purpose][state] || keys > 0;
            if (shown[purpose][state]) {
                metrics_set(metrics, &key_metrics[KEY_METRIC_COUNT_OF_KEYS], census != NULL ? (double)keys : NAN,
                            (const char *const[]){ text, key_state_text(state), NULL });
            }
        }
        show_ends(metrics, census, purpose);
    }
}

struct fault key_census(struct op *op, struct services *services)
{
    struct census census = { 0 };
    struct projector_state state;
    struct tenant_id *tenants = NULL, before = op->tenant;
    size_t count = 0;
    projector_state(services->projector, &state);
    if (!state.leader) {
        show(services->metrics, NULL);
        return OK;
    }
    TRY(identity_tenants(op, services->store, &tenants, &count));
    struct fault fault = OK;
    for (size_t i = 0; i < count && !FAULTED(fault); i++) {
        op->tenant = tenants[i];
        fault = count_tenant(op, services, &census);
    }
    op->tenant = before;
    TRY(fault);
    show(services->metrics, &census);
    return OK;
}
