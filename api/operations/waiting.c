/*
 * Dead letters that wait for an operator: of each destination so many as a requeueing would take. What ended for good
 * stays dead-lettered too and waits for nobody, so each is judged as a requeueing judges it. The leader goes through
 * them a piece at a time; a round of a few is over at once.
 */
#include "api/operations/internal.h"

#include <math.h>
#include <stdio.h>

#define KINDS  64 /* destinations that are counted; there are not a dozen */
#define PAGE   500
#define RUN_NS (500 * NS_PER_MS)

static const struct sql SQL_PAGE = {
    "operations_dead_page",
    "SELECT tenant_id, destination, key, id FROM svc.outbox WHERE state = 'dead-lettered'"
    " AND (tenant_id, destination, id) > ($1, $2, $3) ORDER BY tenant_id, destination, id LIMIT $4",
    4,
};

struct dead {
    const char *tenant, *destination, *key;
    int64_t id;
};

/* Where the round stands. The worker's alone. */
static struct {
    char tenant[64], destination[DESTINATION_SIZE + 1];
    int64_t id;
    int64_t counts[KINDS]; /* by destination_at */
} walk;
static int64_t found[KINDS]; /* by the last whole round */

void outbox_waiting_forget(struct services *services)
{
    memset(&walk, 0, sizeof(walk));
    memset(found, 0, sizeof(found));
    metrics_set_all(services->metrics, &operations_metrics[OPERATIONS_REQUEUEABLE], NAN);
}

/* More than the last round found is told before the round ends. */
static void show(struct services *services)
{
    const struct outbox_row *row = NULL;
    for (size_t i = 0; i < KINDS && (row = destination_at(i)) != NULL; i++) {
        int64_t count = walk.counts[i] > found[i] ? walk.counts[i] : found[i];
        if (row->upkeep != NULL && (row->upkeep->owed != NULL || row->upkeep->reopenable != NULL)) {
            metrics_set(services->metrics, &operations_metrics[OPERATIONS_REQUEUEABLE], (double)count,
                        (const char *const[]){ row->destination });
        }
    }
}

static struct fault read_page(struct op *op, struct services *services, struct dead **ret_list, size_t *ret_count)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct dead *list = NULL;
    const struct sql_arg args[] = { SQL_TEXT(walk.tenant), SQL_TEXT(walk.destination), SQL_INT(walk.id),
                                    SQL_INT(PAGE) };
    TRY(tx_begin(op, services->store, STORE_BOOKKEEPING, &tx));
    TRY(tx_query(tx, &SQL_PAGE, args, COUNT_OF(args), &rows));
    TRY(arena_take(op->arena, rows_count(rows) + 1, sizeof(*list), &list));
    for (size_t i = 0; i < rows_count(rows); i++) {
        TRY(arena_text(op->arena, span_text(rows_text(rows, i, 0)), &list[i].tenant));
        TRY(arena_text(op->arena, span_text(rows_text(rows, i, 1)), &list[i].destination));
        TRY(arena_text(op->arena, span_text(rows_text(rows, i, 2)), &list[i].key));
        list[i].id = rows_int(rows, i, 3);
    }
    *ret_list = list;
    *ret_count = rows_count(rows);
    return OK;
}

static size_t kind_of(const char *destination, const struct outbox_row **ret_row)
{
    for (size_t i = 0; i < KINDS && (*ret_row = destination_at(i)) != NULL; i++) {
        if (strcmp((*ret_row)->destination, destination) == 0) {
            return i;
        }
    }
    return KINDS;
}

static struct fault judge(struct tx *tx, struct tenant_id tenant, const struct dead *dead)
{
    const struct outbox_row *row = NULL;
    const char *why = NULL;
    bool allowed = false;
    size_t kind = kind_of(dead->destination, &row);
    if (kind < KINDS) {
        TRY(destination_judge(tx, tenant, row, dead->key, &allowed, &why));
        walk.counts[kind] += allowed ? 1 : 0;
    }
    return OK;
}

/* The rows of one tenant at the beginning of the list. *ret_done of them were judged. */
static struct fault judge_tenant(struct services *services, const struct dead *list, size_t count, size_t *ret_done)
{
    CLEANUP(op_freep) struct op *op = NULL;
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    struct tenant_id tenant;
    TRY(tenant_id_parse(span_text(list[0].tenant), &tenant));
    TRY(op_new("system:outbox-waiting", tenant, 5000, &op));
    TRY(tx_begin(op, services->store, STORE_BOOKKEEPING, &tx));
    for (*ret_done = 0; *ret_done < count && strcmp(list[*ret_done].tenant, list[0].tenant) == 0; (*ret_done)++) {
        const struct dead *dead = &list[*ret_done];
        TRY(judge(tx, tenant, dead));
        (void)snprintf(walk.tenant, sizeof(walk.tenant), "%s", dead->tenant);
        (void)snprintf(walk.destination, sizeof(walk.destination), "%s", dead->destination);
        walk.id = dead->id;
    }
    return OK;
}

/* *ret_over: the round ended. */
static struct fault page(struct op *op, struct services *services, bool *ret_over)
{
    struct dead *list = NULL;
    size_t count = 0;
    TRY(read_page(op, services, &list, &count));
    for (size_t at = 0, done = 0; at < count; at += done) {
        TRY(judge_tenant(services, &list[at], count - at, &done));
    }
    *ret_over = count < PAGE;
    return OK;
}

struct fault outbox_waiting_count(struct op *op, struct services *services)
{
    mono_ns until = clock_mono() + RUN_NS;
    bool over = false;
    struct fault fault = OK;
    while (!FAULTED(fault) && !over && clock_mono() < until && !op_expired(op)) {
        fault = page(op, services, &over);
    }
    if (!FAULTED(fault) && over) {
        memcpy(found, walk.counts, sizeof(found));
        memset(&walk, 0, sizeof(walk));
    }
    show(services);
    return fault;
}
