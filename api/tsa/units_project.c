/* The read model of time-stamping units; their keys follow. A move changes a row only if the row may move. */
#include "api/tsa/units.h"

#define CHAIN_BYTES_MAX 32768

static const struct sql SQL_PREPARED = {
    "tsa_unit_prepared",
    "INSERT INTO svc.tsa_units (tenant_id, unit_id, number, algorithm, issuance, state, version, chain, prepared_us,"
    " prepare_command) VALUES ($1, $2, $3, $4, $5, 'prepared', 1, '', $6, $7) ON CONFLICT DO NOTHING",
    7,
};
static const struct sql SQL_CERTIFIED = {
    "tsa_unit_certified",
    "UPDATE svc.tsa_units SET state = 'certified', version = version + 1, chain = $2, not_before_us = $3,"
    " not_after_us = $4, usage_end_us = $5, certified_us = $6, command = coalesce($7, command)"
    " WHERE unit_id = $1 AND state IN ('prepared', 'certified')",
    7,
};
static const struct sql SQL_REPLACED = {
    "tsa_unit_replaced",
    "UPDATE svc.tsa_units SET state = 'replaced', version = version + 1, replaced_us = $2, replaced_by = $3"
    " WHERE unit_id = $1 AND state = 'active'",
    3,
};
static const struct sql SQL_ACTIVATED = {
    "tsa_unit_activated",
    "UPDATE svc.tsa_units SET state = 'active', version = version + 1, activated_us = $2,"
    " command = coalesce($3, command) WHERE unit_id = $1 AND state = 'certified'",
    3,
};
static const struct sql SQL_RETIRED = {
    "tsa_unit_retired",
    "UPDATE svc.tsa_units SET state = 'retired', version = version + 1, retired_us = $2, retire_reason = $3,"
    " command = coalesce($4, command) WHERE unit_id = $1 AND state <> 'retired'",
    4,
};

struct data {
    const char *unit_id, *algorithm, *issuance, *replaces, *reason, *command_id;
    int64_t number;
    utc_us not_before, not_after, usage_end;
    struct span certificate_chain;
};
static const struct jin_field prepared_fields[] = {
    JIN_TEXT(struct data, unit_id, JIN_REQUIRED, 36, 36),    JIN_INT(struct data, number, JIN_REQUIRED, 1, INT64_MAX),
    JIN_TEXT(struct data, algorithm, JIN_REQUIRED, 1, 32),   JIN_TEXT(struct data, issuance, JIN_REQUIRED, 1, 32),
    JIN_TEXT(struct data, command_id, JIN_OPTIONAL, 36, 36),
};
static const struct jin_field certified_fields[] = {
    JIN_TEXT(struct data, unit_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct data, issuance, JIN_OPTIONAL, 1, 32), /* for readers */
    JIN_BASE64(struct data, certificate_chain, JIN_REQUIRED, 1, CHAIN_BYTES_MAX),
    JIN_TIME(struct data, not_before, JIN_REQUIRED),
    JIN_TIME(struct data, not_after, JIN_REQUIRED),
    JIN_TIME(struct data, usage_end, JIN_REQUIRED),
    JIN_TEXT(struct data, command_id, JIN_OPTIONAL, 36, 36),
};
static const struct jin_field activated_fields[] = {
    JIN_TEXT(struct data, unit_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct data, replaces, JIN_OPTIONAL, 36, 36),
    JIN_TEXT(struct data, command_id, JIN_OPTIONAL, 36, 36),
};
static const struct jin_field retired_fields[] = {
    JIN_TEXT(struct data, unit_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct data, reason, JIN_REQUIRED, 1, UNIT_REASON_MAX),
    JIN_TEXT(struct data, command_id, JIN_OPTIONAL, 36, 36),
};

static struct sql_arg text_or_null(const char *text)
{
    return text != NULL ? SQL_TEXT(text) : SQL_NONE;
}

struct fault project_unit_prepared(struct projection *projection, const struct event_view *event)
{
    struct data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, prepared_fields, COUNT_OF(prepared_fields), &data));
    const struct sql_arg args[] = { SQL_TEXT(event->tenant.text), SQL_TEXT(data.unit_id),  SQL_INT(data.number),
                                    SQL_TEXT(data.algorithm),     SQL_TEXT(data.issuance), SQL_INT(event->time),
                                    text_or_null(data.command_id) };
    return tx_queue(projection_tx(projection), &SQL_PREPARED, args, COUNT_OF(args));
}

struct fault project_unit_certified(struct projection *projection, const struct event_view *event)
{
    struct data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, certified_fields, COUNT_OF(certified_fields), &data));
    const struct sql_arg args[] = { SQL_TEXT(data.unit_id),       SQL_BYTES(data.certificate_chain),
                                    SQL_INT(data.not_before),     SQL_INT(data.not_after),
                                    SQL_INT(data.usage_end),      SQL_INT(event->time),
                                    text_or_null(data.command_id) };
    TRY(tx_queue(projection_tx(projection), &SQL_CERTIFIED, args, COUNT_OF(args)));
    return keys_project_certificates(projection, data.unit_id, data.certificate_chain);
}

struct fault project_unit_activated(struct projection *projection, const struct event_view *event)
{
    struct data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, activated_fields, COUNT_OF(activated_fields), &data));
    if (data.replaces != NULL) {
        const struct sql_arg args[] = { SQL_TEXT(data.replaces), SQL_INT(event->time), SQL_TEXT(data.unit_id) };
        TRY(tx_queue(projection_tx(projection), &SQL_REPLACED, args, COUNT_OF(args)));
    }
    const struct sql_arg args[] = { SQL_TEXT(data.unit_id), SQL_INT(event->time), text_or_null(data.command_id) };
    TRY(tx_queue(projection_tx(projection), &SQL_ACTIVATED, args, COUNT_OF(args)));
    return keys_project_activation(projection, event, data.unit_id);
}

struct fault project_unit_retired(struct projection *projection, const struct event_view *event)
{
    struct data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, retired_fields, COUNT_OF(retired_fields), &data));
    const struct sql_arg args[] = { SQL_TEXT(data.unit_id), SQL_INT(event->time), SQL_TEXT(data.reason),
                                    text_or_null(data.command_id) };
    TRY(tx_queue(projection_tx(projection), &SQL_RETIRED, args, COUNT_OF(args)));
    return keys_project_end(projection, event, data.unit_id, KEY_PURPOSE_TSA, data.reason);
}
