#include "api/outbox/internal.h"

#include "appliance/base/alloc.h"

static struct fault list_row(struct outbox *outbox, const struct outbox_row *row)
{
    BUG_IF(outbox->row_count == DESTINATIONS_MAX || row->deadline_ms <= 0 || row->attempts == 0);
    for (size_t i = 0; i < outbox->row_count; i++) {
        BUG_IF(strcmp(outbox->rows[i]->destination, row->destination) == 0); /* one handler a destination */
    }
    TRY(buf_printf(&outbox->destinations, "%s%s", outbox->row_count > 0 ? "," : "", row->destination));
    if (row->awaited) {
        TRY(buf_printf(&outbox->awaited, "%s%s", outbox->awaited.len > 0 ? "," : "", row->destination));
    }
    outbox->rows[outbox->row_count++] = row;
    return OK;
}

static struct fault list_rows(struct outbox *outbox)
{
    const struct outbox_config *config = &outbox->config;
    for (size_t i = 0; i < config->table_count; i++) {
        for (size_t j = 0; j < config->counts[i]; j++) {
            if (config->tables[i][j].outbound == config->outbound) {
                TRY(list_row(outbox, &config->tables[i][j]));
            }
        }
    }
    return OK;
}

struct fault outbox_start(const struct outbox_config *config, struct outbox **ret_outbox)
{
    struct outbox *made = NULL;
    REQUIRE(config->threads >= 1 && config->threads <= OUTBOX_THREADS_MAX, BAD_ARGUMENT);
    struct uuid worker_id;
    TRY(uuid_new(&worker_id));
    TRY(mem_new(1, sizeof(*made), &made));
    made->config = *config;
    made->worker_id = worker_id;
    made->ready_end = &made->ready;
    made->destinations = (struct buf)BUF_INIT((size_t)DESTINATIONS_MAX * 64);
    made->awaited = (struct buf)BUF_INIT((size_t)DESTINATIONS_MAX * 64);
    share_caps(made);
    BUG_IF(pthread_mutex_init(&made->lock, NULL) != 0);
    BUG_IF(pthread_cond_init(&made->changed, NULL) != 0);
    struct fault fault = list_rows(made);
    if (FAULTED(fault)) {
        outbox_free(made);
        return fault;
    }
    while (made->thread_count < config->threads) {
        if (pthread_create(&made->threads[made->thread_count], NULL, outbox_run, made) != 0) {
            outbox_free(made);
            return FAULT(NO_MEMORY);
        }
        made->thread_count++;
    }
    *ret_outbox = made;
    return OK;
}

/* Other services take a tenth of a second and more: a wake for each of our own commits would cost more than it gains.
 */
static bool gathered(struct outbox *outbox)
{
    mono_ns due = outbox->leased + GATHER_NS;
    if (!outbox->config.outbound || clock_mono() >= due) {
        return false;
    }
    if (due < outbox->poll_due) {
        outbox->poll_due = due;
        BUG_IF(pthread_cond_signal(&outbox->changed) != 0);
    }
    return true;
}

void outbox_wake(struct outbox *outbox)
{
    BUG_IF(pthread_mutex_lock(&outbox->lock) != 0);
    if (!gathered(outbox)) {
        bool new = !outbox->wake;
        outbox->wake = true;
        if (new && !outbox->leasing) {
            BUG_IF(pthread_cond_signal(&outbox->changed) != 0);
        }
    }
    BUG_IF(pthread_mutex_unlock(&outbox->lock) != 0);
}

void outbox_narrow(struct outbox *outbox)
{
    atomic_store(&outbox->narrow, true);
}

struct fault outbox_sweep(struct op *op, struct outbox *outbox, int64_t *ret_rows)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    TRY(tx_begin(op, outbox->config.store, STORE_BOOKKEEPING, &tx));
    TRY(lease_return(tx, outbox, ret_rows));
    return tx_commit(&tx);
}

void outbox_stop_begin(struct outbox *outbox)
{
    BUG_IF(pthread_mutex_lock(&outbox->lock) != 0);
    outbox->stopping = true;
    atomic_store(&outbox->stop_told, true);
    BUG_IF(pthread_cond_broadcast(&outbox->changed) != 0);
    BUG_IF(pthread_mutex_unlock(&outbox->lock) != 0);
}

void outbox_stop(struct outbox *outbox)
{
    outbox_stop_begin(outbox);
    BUG_IF(pthread_mutex_lock(&outbox->lock) != 0);
    unsigned threads = outbox->thread_count;
    outbox->thread_count = 0; /* theirs is joined once */
    BUG_IF(pthread_mutex_unlock(&outbox->lock) != 0);
    for (unsigned i = 0; i < threads; i++) {
        BUG_IF(pthread_join(outbox->threads[i], NULL) != 0);
    }
    BUG_IF(outbox->ready != NULL);
}

void outbox_free(struct outbox *outbox)
{
    if (outbox == NULL) {
        return;
    }
    outbox_stop(outbox);
    BUG_IF(pthread_cond_destroy(&outbox->changed) != 0);
    BUG_IF(pthread_mutex_destroy(&outbox->lock) != 0);
    buf_free(&outbox->destinations);
    buf_free(&outbox->awaited);
    mem_free(outbox);
}
