/* The outbox's numbers, counted by the leader now and then and not by every scrape; elsewhere they are NaN. What
 * counting costs bounds how often it is done: after a count that took a second there is none for twenty. */
#include "api/operations/internal.h"

#include <math.h>

#define REST 20 /* times as long as the count took */

/* When a row became due first is how old it is: an effect that is to happen in a month is not late today. */
static const struct sql SQL_COUNTS = {
    "operations_outbox_counts",
    "SELECT 'pending', count(*), coalesce(min(CASE WHEN attempts = 0 THEN greatest(created_us, due_us) ELSE created_us"
    " END), 0) FROM svc.outbox WHERE state = 'pending'"
    " UNION ALL SELECT 'processing', count(*), 0 FROM svc.outbox WHERE state = 'processing'"
    " UNION ALL SELECT 'dead-lettered', count(*), 0 FROM svc.outbox WHERE state = 'dead-lettered'",
    0,
};

static mono_ns due; /* the worker's */

static void set(struct services *services, const char *state, double count, double oldest_age)
{
    metrics_set(services->metrics, &operations_metrics[OPERATIONS_ROWS], count, (const char *const[]){ state });
    if (strcmp(state, "pending") == 0) {
        metrics_set(services->metrics, &operations_metrics[OPERATIONS_OLDEST], oldest_age, NULL);
    }
}

static struct fault count(struct op *op, struct services *services)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_begin(op, services->store, STORE_BOOKKEEPING, &tx));
    TRY(tx_query(tx, &SQL_COUNTS, NULL, 0, &rows));
    for (size_t i = 0; i < rows_count(rows); i++) {
        utc_us now = clock_utc(), oldest = rows_int(rows, i, 2);
        double age = oldest > 0 && oldest < now ? (double)(now - oldest) / (double)US_PER_S : 0;
        set(services, rows_text(rows, i, 0), (double)rows_int(rows, i, 1), age);
    }
    return OK;
}

struct fault outbox_gauges_run(struct op *op, struct services *services)
{
    static const char *const states[] = { "pending", "processing", "dead-lettered" };
    struct projector_state state;
    projector_state(services->projector, &state);
    mono_ns began = clock_mono();
    if (!state.leader) {
        for (size_t i = 0; i < COUNT_OF(states); i++) {
            set(services, states[i], NAN, NAN);
        }
        outbox_waiting_forget(services);
        due = 0;
        return OK;
    }
    if (began < due) {
        return OK;
    }
    struct fault fault = count(op, services);
    fault = FAULTED(fault) ? fault : outbox_waiting_count(op, services);
    due = clock_mono() + (clock_mono() - began) * REST;
    return fault;
}
