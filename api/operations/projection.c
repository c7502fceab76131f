/* Requeueing and recreation in the read model. Both ask once more whether the effect is owed, or may be taken up again:
 * what ended between the command and its event stays ended. */
#include "api/operations/internal.h"

#define PAYLOAD_MAX ((int64_t)256 << 10)

struct outbox_data {
    const char *destination, *key, *reason, *trace_id;
    int64_t outbox_id;
    utc_us created_us, due_us;
    struct span payload;
};
#define ROW_FIELDS                                                                \
    JIN_TEXT(struct outbox_data, destination, JIN_REQUIRED, 1, DESTINATION_SIZE), \
        JIN_TEXT(struct outbox_data, key, JIN_REQUIRED, 1, 255),                  \
        JIN_INT(struct outbox_data, outbox_id, JIN_REQUIRED, 0, INT64_MAX)
static const struct jin_field requeued_fields[] = {
    ROW_FIELDS,
    JIN_TEXT(struct outbox_data, reason, JIN_REQUIRED, 1, REQUEUE_REASON),
};
static const struct jin_field recreated_fields[] = {
    ROW_FIELDS,
    JIN_INT(struct outbox_data, created_us, JIN_REQUIRED, 0, INT64_MAX),
    JIN_INT(struct outbox_data, due_us, JIN_REQUIRED, 0, INT64_MAX),
    JIN_BASE64(struct outbox_data, payload, JIN_REQUIRED, 0, PAYLOAD_MAX),
    JIN_TEXT(struct outbox_data, trace_id, JIN_REQUIRED, 0, 32),
};

static struct fault judge(struct projection *projection, const struct outbox_row *row, const char *key,
                          bool *ret_allowed)
{
    const char *why = "";
    *ret_allowed = false;
    TRY(projection_fold_write(projection));
    return row == NULL ? OK
                       : destination_judge(projection_tx(projection), projection_op(projection)->tenant, row, key,
                                           ret_allowed, &why);
}

struct fault project_outbox_requeued(struct projection *projection, const struct event_view *event)
{
    struct outbox_data data = { 0 };
    bool allowed = false;
    TRY(jin_decode(projection_op(projection), event->data, requeued_fields, COUNT_OF(requeued_fields), &data));
    const struct outbox_row *row = destination_find(data.destination);
    TRY(judge(projection, row, data.key, &allowed));
    if (!allowed) {
        return OK;
    }
    TRY(row->upkeep->reopen != NULL ? row->upkeep->reopen(projection, data.key) : OK);
    return projection_outbox_requeue(projection, data.destination, data.key);
}

static struct fault is_owed(struct projection *projection, const struct outbox_row *row, const char *key,
                            bool *ret_owed)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const struct sql_arg args[] = { SQL_TEXT(projection_op(projection)->tenant.text), SQL_TEXT(key) };
    *ret_owed = false;
    if (row == NULL || row->upkeep == NULL || row->upkeep->owed == NULL) {
        return OK;
    }
    TRY(projection_fold_write(projection));
    TRY(tx_query(projection_tx(projection), row->upkeep->owed, args, COUNT_OF(args), &rows));
    *ret_owed = rows_count(rows) > 0;
    return OK;
}

struct fault project_outbox_recreated(struct projection *projection, const struct event_view *event)
{
    struct outbox_data data = { 0 };
    bool owed = false;
    TRY(jin_decode(projection_op(projection), event->data, recreated_fields, COUNT_OF(recreated_fields), &data));
    TRY(is_owed(projection, destination_find(data.destination), data.key, &owed));
    const struct projection_effect effect = { .destination = data.destination,
                                              .key = data.key,
                                              .trace_id = data.trace_id,
                                              .payload = data.payload,
                                              .id = data.outbox_id,
                                              .due = data.due_us,
                                              .created = data.created_us };
    return owed ? projection_outbox_restore(projection, &effect) : OK;
}
