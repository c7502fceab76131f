/* Events that move a key from state to state, and those of its probe. A move changes a row only if the row may move. */
#include "api/keys/internal.h"

static const struct sql SQL_ACTIVATED = {
    "keys_activated",
    "UPDATE svc.managed_keys SET state = 'active', version = version + 1, activated_us = $2, move_command = $3,"
    " max_uses = coalesce($4, max_uses), not_after_us = coalesce($5, not_after_us)"
    " WHERE key_id = $1 AND state = 'prepared'",
    5,
};
/* With an overlap of nothing the end is now. */
static const struct sql SQL_RETIRING = {
    "keys_retiring",
    "UPDATE svc.managed_keys SET state = CASE WHEN $3::bigint > 0 THEN 'retiring' ELSE 'retired' END,"
    " retires_us = $2::bigint + $3::bigint, retired_us = CASE WHEN $3::bigint > 0 THEN NULL ELSE $2::bigint END,"
    " replaced_by = $4, move_command = coalesce($5, move_command), retire_reason = $6, version = version + 1"
    " WHERE key_id = $1 AND state = 'active'",
    6,
};
static const struct sql SQL_RETIRED = {
    "keys_retired",
    "UPDATE svc.managed_keys SET state = 'retired', retired_us = $2, move_command = coalesce($3, move_command),"
    " retire_reason = coalesce($4, retire_reason), version = version + 1"
    " WHERE key_id = $1 AND state IN ('active', 'retiring')",
    4,
};
static const struct sql SQL_PROBE = {
    "keys_probe",
    "UPDATE svc.managed_keys SET probe_code = $2, probe_us = $3 WHERE key_id = $1",
    3,
};

struct move_data {
    const char *key_id, *reason, *command_id, *replaces, *code;
    int64_t overlap_us, max_uses;
    utc_us not_after;
    bool system;
};
static const struct jin_field activated_fields[] = {
    JIN_TEXT(struct move_data, key_id, JIN_REQUIRED, 36, 36),
    JIN_BOOL(struct move_data, system, JIN_OPTIONAL), /* for readers */
    JIN_TEXT(struct move_data, reason, JIN_REQUIRED, 1, KEY_REASON_MAX),
    JIN_TEXT(struct move_data, command_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct move_data, replaces, JIN_OPTIONAL, 36, 36),
    JIN_INT(struct move_data, overlap_us, JIN_OPTIONAL, 0, KEY_OVERLAP_MAX),
    JIN_INT(struct move_data, max_uses, JIN_OPTIONAL, 1, INT64_MAX),
    JIN_TIME(struct move_data, not_after, JIN_OPTIONAL),
};
static const struct jin_field retiring_fields[] = {
    JIN_TEXT(struct move_data, key_id, JIN_REQUIRED, 36, 36),
    JIN_BOOL(struct move_data, system, JIN_OPTIONAL), /* for readers */
    JIN_TEXT(struct move_data, reason, JIN_REQUIRED, 1, KEY_REASON_MAX),
    JIN_TEXT(struct move_data, command_id, JIN_REQUIRED, 36, 36),
    JIN_INT(struct move_data, overlap_us, JIN_REQUIRED, 1, KEY_OVERLAP_MAX),
};
static const struct jin_field retired_fields[] = {
    JIN_TEXT(struct move_data, key_id, JIN_REQUIRED, 36, 36),
    JIN_BOOL(struct move_data, system, JIN_OPTIONAL), /* for readers */
    JIN_TEXT(struct move_data, reason, JIN_OPTIONAL, 1, KEY_REASON_MAX),
    JIN_TEXT(struct move_data, command_id, JIN_OPTIONAL, 36, 36), /* of the user's command, where there was one */
};
static const struct jin_field failed_fields[] = {
    JIN_TEXT(struct move_data, key_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct move_data, code, JIN_REQUIRED, 1, 64),
};
static const struct jin_field recovered_fields[] = {
    JIN_TEXT(struct move_data, key_id, JIN_REQUIRED, 36, 36),
};

static struct sql_arg text_or_null(const char *text)
{
    return text != NULL ? SQL_TEXT(text) : SQL_NONE;
}

static struct fault queue_retirement(struct projection *projection, const char *key_id, int64_t delay_us)
{
    CLEANUP(buf_free) struct buf payload = BUF_INIT(1024);
    struct jout jout;
    jout_init(&jout, &payload);
    jout_object(&jout);
    jout_key_text(&jout, "key_id", key_id);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return projection_outbox(projection, KEYS_DESTINATION_RETIRE, key_id, buf_span(&payload), delay_us);
}

/* `by`: the key that takes its place; `command`: the user's that asked for just this. */
static struct fault begin_overlap(struct projection *projection, const struct event_view *event,
                                  const struct move_data *data, const char *key_id, const char *by, const char *command)
{
    const struct sql_arg args[] = { SQL_TEXT(key_id), SQL_INT(event->time),  SQL_INT(data->overlap_us),
                                    text_or_null(by), text_or_null(command), SQL_TEXT(data->reason) };
    TRY(tx_queue(projection_tx(projection), &SQL_RETIRING, args, COUNT_OF(args)));
    return data->overlap_us > 0 ? queue_retirement(projection, key_id, data->overlap_us) : OK;
}

struct fault project_key_activated(struct projection *projection, const struct event_view *event)
{
    struct move_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, activated_fields, COUNT_OF(activated_fields), &data));
    if (data.replaces != NULL) {
        TRY(begin_overlap(projection, event, &data, data.replaces, data.key_id, NULL));
    }
    const struct sql_arg args[] = { SQL_TEXT(data.key_id), SQL_INT(event->time), SQL_TEXT(data.command_id),
                                    data.max_uses > 0 ? SQL_INT(data.max_uses) : SQL_NONE,
                                    data.not_after != 0 ? SQL_INT(data.not_after) : SQL_NONE };
    if (data.max_uses > 0) {
        keys_project_limited(projection);
    }
    return tx_queue(projection_tx(projection), &SQL_ACTIVATED, args, COUNT_OF(args));
}

struct fault project_key_retiring(struct projection *projection, const struct event_view *event)
{
    struct move_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, retiring_fields, COUNT_OF(retiring_fields), &data));
    return begin_overlap(projection, event, &data, data.key_id, NULL, data.command_id);
}

struct fault project_key_retired(struct projection *projection, const struct event_view *event)
{
    struct move_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, retired_fields, COUNT_OF(retired_fields), &data));
    const struct sql_arg args[] = { SQL_TEXT(data.key_id), SQL_INT(event->time), text_or_null(data.command_id),
                                    text_or_null(data.reason) };
    TRY(tx_queue(projection_tx(projection), &SQL_RETIRED, args, COUNT_OF(args)));
    return projection_outbox_settle(projection, KEYS_DESTINATION_RETIRE, data.key_id, "delivered");
}

static struct fault set_probe(struct projection *projection, const struct event_view *event,
                              const struct jin_field *fields, size_t count)
{
    struct move_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, fields, count, &data));
    const struct sql_arg args[] = { SQL_TEXT(data.key_id), text_or_null(data.code), SQL_INT(event->time) };
    return tx_queue(projection_tx(projection), &SQL_PROBE, args, COUNT_OF(args));
}

struct fault project_key_probe_failed(struct projection *projection, const struct event_view *event)
{
    return set_probe(projection, event, failed_fields, COUNT_OF(failed_fields));
}

struct fault project_key_probe_recovered(struct projection *projection, const struct event_view *event)
{
    return set_probe(projection, event, recovered_fields, COUNT_OF(recovered_fields));
}

struct fault keys_project_activation(struct projection *projection, const struct event_view *event, const char *key_id)
{
    const struct sql_arg args[] = { SQL_TEXT(key_id), SQL_INT(event->time), SQL_NONE, SQL_NONE, SQL_NONE };
    return tx_queue(projection_tx(projection), &SQL_ACTIVATED, args, COUNT_OF(args));
}
