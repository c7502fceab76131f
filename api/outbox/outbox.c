#include "api/outbox/internal.h"

#include "appliance/base/alloc.h"

static void list_rows(struct outbox *outbox)
{
    const struct outbox_config *config = &outbox->config;
    for (size_t i = 0; i < config->table_count; i++) {
        for (size_t j = 0; j < config->counts[i]; j++) {
            const struct outbox_row *row = &config->tables[i][j];
            BUG_IF(outbox->row_count == DESTINATIONS_MAX || row->deadline_ms <= 0 || row->attempts == 0);
            for (size_t k = 0; k < outbox->row_count; k++) {
                BUG_IF(strcmp(outbox->rows[k]->destination, row->destination) == 0); /* one handler a destination */
            }
            outbox->rows[outbox->row_count++] = row;
        }
    }
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
    list_rows(made);
    BUG_IF(pthread_mutex_init(&made->lock, NULL) != 0);
    BUG_IF(pthread_cond_init(&made->changed, NULL) != 0);
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

void outbox_wake(struct outbox *outbox)
{
    BUG_IF(pthread_mutex_lock(&outbox->lock) != 0);
    bool new = !outbox->wake;
    outbox->wake = true;
    if (new && !outbox->leasing) {
        BUG_IF(pthread_cond_signal(&outbox->changed) != 0);
    }
    BUG_IF(pthread_mutex_unlock(&outbox->lock) != 0);
}

void outbox_stop(struct outbox *outbox)
{
    BUG_IF(pthread_mutex_lock(&outbox->lock) != 0);
    outbox->stopping = true;
    unsigned threads = outbox->thread_count;
    outbox->thread_count = 0; /* theirs is joined once */
    BUG_IF(pthread_cond_broadcast(&outbox->changed) != 0);
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
    mem_free(outbox);
}
