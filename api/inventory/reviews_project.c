#include "api/inventory/credentials.h"

static const struct sql SQL_OPENED = {
    "inventory_review_opened",
    "INSERT INTO svc.access_reviews (tenant_id, review_id, state, title, kinds, owner_id, digest, total, opened_us,"
    " opened_by, opened_sequence, last_command) VALUES ($1, $2, 'open', $3, $4, $5, $6, $7, $8, $9, $10, $11)"
    " ON CONFLICT DO NOTHING",
    11,
};
/* "kind:id" */
static const struct sql SQL_ITEMS = {
    "inventory_review_items",
    "INSERT INTO svc.access_review_items (tenant_id, review_id, position, kind, credential_id)"
    " SELECT $1, $2, n, split_part(name, ':', 1), substr(name, strpos(name, ':') + 1)"
    " FROM jsonb_array_elements_text($3::jsonb) WITH ORDINALITY AS list (name, n) ON CONFLICT DO NOTHING",
    3,
};
static const struct sql SQL_DECIDED = {
    "inventory_review_decided",
    "UPDATE svc.access_review_items i SET decision = d.decision, reason = d.reason, decided_us = $3, decided_by = $4"
    " FROM jsonb_to_recordset($2::jsonb) AS d (kind text, credential_id text, decision text, reason text)"
    " WHERE i.review_id = $1 AND i.kind = d.kind AND i.credential_id = d.credential_id",
    4,
};
static const struct sql SQL_COMMAND = {
    "inventory_review_command",
    "UPDATE svc.access_reviews SET last_command = $2 WHERE review_id = $1",
    2,
};
static const struct sql SQL_COMPLETED = {
    "inventory_review_completed",
    "UPDATE svc.access_reviews SET state = 'completed', completed_us = $2, completed_by = $3, kept = $4, revoked = $5,"
    " last_command = $6 WHERE review_id = $1",
    6,
};

#define LIST_MAX   ((int64_t)1 << 20)
#define STORED_MAX 32768 /* longer than what is taken: an erasure may have put longer words in place of others */

struct review_data {
    const char *review_id, *command_id, *title, *kinds, *owner_id, *reviewer, *opened_by;
    struct span inventory_digest, credentials, decisions;
    int64_t total, kept, revoked;
    bool whole;
};
static const struct jin_field opened_fields[] = {
    JIN_TEXT(struct review_data, review_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct review_data, command_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct review_data, title, JIN_REQUIRED, 1, STORED_MAX),
    JIN_TEXT(struct review_data, kinds, JIN_REQUIRED, 1, STORED_MAX),
    JIN_TEXT(struct review_data, owner_id, JIN_REQUIRED, 0, STORED_MAX),
    JIN_HEX(struct review_data, inventory_digest, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
    JIN_INT(struct review_data, total, JIN_REQUIRED, 1, REVIEW_MAX),
    JIN_RAW(struct review_data, credentials, JIN_REQUIRED, 2, LIST_MAX),
};
static const struct jin_field decided_fields[] = {
    JIN_TEXT(struct review_data, review_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct review_data, command_id, JIN_REQUIRED, 36, 36),
    JIN_RAW(struct review_data, decisions, JIN_REQUIRED, 2, LIST_MAX),
};
static const struct jin_field completed_fields[] = {
    JIN_TEXT(struct review_data, review_id, JIN_REQUIRED, 36, 36),
    JIN_TEXT(struct review_data, command_id, JIN_REQUIRED, 36, 36),
    JIN_HEX(struct review_data, inventory_digest, JIN_REQUIRED, SHA256_LEN, SHA256_LEN),
    JIN_INT(struct review_data, total, JIN_REQUIRED, 1, REVIEW_MAX),
    JIN_INT(struct review_data, kept, JIN_REQUIRED, 0, REVIEW_MAX),
    JIN_INT(struct review_data, revoked, JIN_REQUIRED, 0, REVIEW_MAX),
    JIN_TEXT(struct review_data, reviewer, JIN_REQUIRED, 1, STORED_MAX),
    JIN_TEXT(struct review_data, opened_by, JIN_REQUIRED, 1, STORED_MAX),
    JIN_TEXT(struct review_data, kinds, JIN_OPTIONAL, 1, STORED_MAX),
    JIN_TEXT(struct review_data, owner_id, JIN_OPTIONAL, 0, STORED_MAX),
    JIN_BOOL(struct review_data, whole, JIN_OPTIONAL),
};

struct fault project_review_opened(struct projection *projection, const struct event_view *event)
{
    struct review_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, opened_fields, COUNT_OF(opened_fields), &data));
    const struct sql_arg args[] = {
        SQL_TEXT(event->tenant.text),
        SQL_TEXT(data.review_id),
        SQL_TEXT(data.title),
        SQL_TEXT(data.kinds),
        SQL_TEXT(data.owner_id),
        SQL_BYTES(data.inventory_digest),
        SQL_INT(data.total),
        SQL_INT(event->time),
        SQL_TEXT(event->actor_subject),
        SQL_INT(projection_sequence(projection)),
        SQL_TEXT(data.command_id),
    };
    TRY(tx_queue(projection_tx(projection), &SQL_OPENED, args, COUNT_OF(args)));
    const struct sql_arg items[] = { SQL_TEXT(event->tenant.text), SQL_TEXT(data.review_id),
                                     SQL_SPAN(data.credentials) };
    return tx_queue(projection_tx(projection), &SQL_ITEMS, items, COUNT_OF(items));
}

struct fault project_review_decided(struct projection *projection, const struct event_view *event)
{
    struct review_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, decided_fields, COUNT_OF(decided_fields), &data));
    const struct sql_arg args[] = { SQL_TEXT(data.review_id), SQL_SPAN(data.decisions), SQL_INT(event->time),
                                    SQL_TEXT(event->actor_subject) };
    TRY(tx_queue(projection_tx(projection), &SQL_DECIDED, args, COUNT_OF(args)));
    const struct sql_arg command[] = { SQL_TEXT(data.review_id), SQL_TEXT(data.command_id) };
    return tx_queue(projection_tx(projection), &SQL_COMMAND, command, COUNT_OF(command));
}

struct fault project_review_completed(struct projection *projection, const struct event_view *event)
{
    struct review_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, completed_fields, COUNT_OF(completed_fields), &data));
    const struct sql_arg args[] = { SQL_TEXT(data.review_id), SQL_INT(event->time),  SQL_TEXT(event->actor_subject),
                                    SQL_INT(data.kept),       SQL_INT(data.revoked), SQL_TEXT(data.command_id) };
    return tx_queue(projection_tx(projection), &SQL_COMPLETED, args, COUNT_OF(args));
}
