#include "api/operations/internal.h"

const struct outbox_row *destination_at(size_t index)
{
    size_t count = 0;
    const struct feature *const *features = features_all(&count);
    for (size_t i = 0; i < count; i++) {
        if (index < features[i]->outbox_count) {
            return &features[i]->outbox[index];
        }
        index -= features[i]->outbox_count;
    }
    return NULL;
}

const struct outbox_row *destination_find(const char *destination)
{
    const struct outbox_row *row = NULL;
    for (size_t i = 0; (row = destination_at(i)) != NULL; i++) {
        if (strcmp(row->destination, destination) == 0) {
            return row;
        }
    }
    return NULL;
}

static struct fault says(struct tx *tx, const struct sql *sql, struct tenant_id tenant, const char *key, bool *ret_yes)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const struct sql_arg args[] = { SQL_TEXT(tenant.text), SQL_TEXT(key) };
    *ret_yes = false;
    if (sql == NULL) {
        return OK;
    }
    TRY(tx_query(tx, sql, args, COUNT_OF(args), &rows));
    *ret_yes = rows_count(rows) > 0;
    return OK;
}

struct fault destination_judge(struct tx *tx, struct tenant_id tenant, const struct outbox_row *row, const char *key,
                               bool *ret_allowed, const char **ret_why)
{
    const struct outbox_upkeep *upkeep = row->upkeep;
    bool owed = false, reopenable = false;
    if (upkeep == NULL) {
        *ret_allowed = false;
        *ret_why = "its feature takes care of such effects itself";
        return OK;
    }
    TRY(says(tx, upkeep->owed, tenant, key, &owed));
    TRY(owed ? OK : says(tx, upkeep->reopenable, tenant, key, &reopenable));
    *ret_allowed = owed || reopenable;
    *ret_why = upkeep->closed;
    return OK;
}
