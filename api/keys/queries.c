#include "api/keys/internal.h"

#include "appliance/base/der.h"

#define KEY_COLUMNS                                                                                                    \
    "SELECT k.key_id, k.purpose, k.algorithm, k.name, k.state, k.version, k.system, k.spki, k.chain, k.created_us,"    \
    " k.created_by, k.destroyed_us, k.destroyed_by, k.destroy_reason, k.token, k.max_uses, k.claimed, k.not_after_us," \
    " k.activated_us, k.retires_us, k.retired_us, k.retire_reason, k.replaced_by, k.certificate_not_after_us,"         \
    " k.probe_code, k.probe_us, u.uses, u.last_used_us FROM svc.managed_keys k"                                        \
    " LEFT JOIN svc.key_uses u ON u.tenant_id = k.tenant_id AND u.key_id = k.key_id "

static const struct sql SQL_BY_ID = { "keys_by_id", KEY_COLUMNS "WHERE k.key_id = $1", 1 };
static const struct sql SQL_NEWEST = {
    "keys_newest",
    KEY_COLUMNS "WHERE k.purpose = $1 AND ($2::text IS NULL OR k.name = $2) AND k.state = 'active'"
                " ORDER BY k.activated_us DESC, k.created_us DESC, k.key_id DESC LIMIT 1",
    2,
};
static const struct sql SQL_HISTORY = {
    "keys_history",
    KEY_COLUMNS "WHERE k.purpose = $1 ORDER BY k.created_us, k.key_id",
    1,
};
static const struct sql SQL_LIST = {
    "keys_list",
    KEY_COLUMNS "WHERE ($1::text IS NULL OR k.purpose = $1) AND ($2::text IS NULL OR k.state = $2)"
                " AND (k.created_us, k.key_id) < ($3, $4) AND ($6::text IS NULL OR k.algorithm = $6)"
                " AND ($7::text IS NULL OR k.name = $7)"
                " AND ($8::bigint IS NULL OR least(k.certificate_not_after_us, k.not_after_us) < $8)"
                " ORDER BY k.created_us DESC, k.key_id DESC LIMIT $5",
    8,
};
static const struct sql SQL_NAME_TAKEN = {
    "keys_name_taken",
    "SELECT count(*) FROM svc.managed_keys WHERE purpose = $1 AND name = $2 AND state = $3",
    3,
};
static const struct sql SQL_DESTROY_COMMAND = {
    "keys_destroy_command",
    "SELECT coalesce(destroy_command, '') FROM svc.managed_keys WHERE key_id = $1",
    1,
};
static const struct sql SQL_MOVE_COMMAND = {
    "keys_move_command",
    "SELECT coalesce(move_command, '') FROM svc.managed_keys WHERE key_id = $1",
    1,
};
static const struct sql SQL_CERTIFY_COMMAND = {
    "keys_certify_command",
    "SELECT coalesce(certify_command, '') FROM svc.managed_keys WHERE key_id = $1",
    1,
};

/* Certificates stand one behind the other; each tells its own length. */
static struct fault split_chain(struct op *op, struct span chain, struct managed_key *key)
{
    struct span *certificates = NULL;
    TRY(arena_take(op->arena, KEYS_CERTIFICATES_MAX, sizeof(*certificates), &certificates));
    struct span rest = chain;
    while (rest.len > 0) {
        struct span whole = { 0 };
        REQUIRE(key->chain_count < KEYS_CERTIFICATES_MAX, INTERNAL);
        struct der_element certificate;
        const uint8_t *start = rest.at;
        TRY(der_next(&rest, &certificate));
        whole = span_of(start, (size_t)(rest.at - start));
        TRY(arena_copy(op->arena, whole, &certificates[key->chain_count++]));
    }
    key->chain = certificates;
    return OK;
}

static struct fault text_of(struct op *op, const struct rows *rows, size_t row, size_t column, const char **ret_text)
{
    return rows_null(rows, row, column) ? OK : arena_text(op->arena, span_text(rows_text(rows, row, column)), ret_text);
}

static struct fault read_row(struct op *op, const struct rows *rows, size_t row, struct managed_key *ret_key)
{
    struct managed_key key = {
        .ref.tenant = op->tenant,
        .version = rows_int(rows, row, 5),
        .system = rows_bool(rows, row, 6),
        .created = rows_int(rows, row, 9),
        .destroyed = rows_int(rows, row, 11),
        .max_uses = rows_int(rows, row, 15),
        .claimed = rows_int(rows, row, 16),
        .not_after = rows_int(rows, row, 17),
        .activated = rows_int(rows, row, 18),
        .retires = rows_int(rows, row, 19),
        .retired = rows_int(rows, row, 20),
        .certificate_not_after = rows_int(rows, row, 23),
        .probed = rows_int(rows, row, 25),
        .uses = rows_int(rows, row, 26),
        .last_used = rows_int(rows, row, 27),
    };
    const char *token = rows_text(rows, row, 14);
    TRY(uuid_parse(span_text(rows_text(rows, row, 0)), &key.ref.id));
    TRY(key_purpose_parse(span_text(rows_text(rows, row, 1)), &key.ref.purpose));
    TRY(key_algorithm_parse(span_text(rows_text(rows, row, 2)), &key.algorithm));
    TRY(text_of(op, rows, row, 3, &key.name));
    TRY(text_of(op, rows, row, 4, &key.state));
    TRY(arena_copy(op->arena, rows_bytes(rows, row, 7), &key.spki));
    TRY(split_chain(op, rows_bytes(rows, row, 8), &key));
    TRY(text_of(op, rows, row, 10, &key.created_by));
    TRY(text_of(op, rows, row, 12, &key.destroyed_by));
    TRY(text_of(op, rows, row, 13, &key.destroy_reason));
    TRY(text_of(op, rows, row, 21, &key.retire_reason));
    TRY(text_of(op, rows, row, 22, &key.replaced_by));
    TRY(text_of(op, rows, row, 24, &key.probe_code));
    TRY(token[0] != '\0' ? token_name_parse(span_text(token), &key.ref.token) : OK);
    *ret_key = key;
    return OK;
}

/* All rows of one statement, in op's arena. */
static struct fault read_keys(struct op *op, struct services *services, const struct sql *sql,
                              const struct sql_arg *args, size_t count, struct managed_key **ret_keys,
                              size_t *ret_count)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, sql, args, count, &rows));
    struct managed_key *keys = NULL;
    TRY(arena_take(op->arena, rows_count(rows) + 1, sizeof(*keys), &keys));
    for (size_t row = 0; row < rows_count(rows); row++) {
        TRY(read_row(op, rows, row, &keys[row]));
    }
    *ret_keys = keys;
    *ret_count = rows_count(rows);
    return OK;
}

struct fault keys_get(struct op *op, struct services *services, struct uuid id, struct managed_key *ret_key)
{
    struct managed_key *keys = NULL;
    size_t count = 0;
    TRY(read_keys(op, services, &SQL_BY_ID, (struct sql_arg[]){ SQL_TEXT(id.text) }, 1, &keys, &count));
    if (count == 0) {
        return op_fail(op, FAULT(KEY_NOT_FOUND), "no such key: list the keys with GET /api/v1/keys");
    }
    *ret_key = keys[0];
    return OK;
}

struct fault keys_newest(struct op *op, struct services *services, enum key_purpose purpose, const char *name,
                         struct managed_key *ret_key)
{
    struct managed_key *keys = NULL;
    size_t count = 0;
    const struct sql_arg args[] = { SQL_TEXT(key_purpose_text(purpose)), name != NULL ? SQL_TEXT(name) : SQL_NONE };
    TRY(read_keys(op, services, &SQL_NEWEST, args, COUNT_OF(args), &keys, &count));
    REQUIRE(count == 1, KEY_NOT_FOUND);
    *ret_key = keys[0];
    return OK;
}

struct fault keys_history(struct op *op, struct services *services, enum key_purpose purpose,
                          struct managed_key **ret_keys, size_t *ret_count)
{
    const struct sql_arg args[] = { SQL_TEXT(key_purpose_text(purpose)) };
    return read_keys(op, services, &SQL_HISTORY, args, COUNT_OF(args), ret_keys, ret_count);
}

struct fault key_list(struct op *op, struct services *services, const struct key_filter *filter,
                      struct managed_key **ret_keys, size_t *ret_count)
{
    const struct sql_arg args[] = {
        filter->purpose != NULL ? SQL_TEXT(filter->purpose) : SQL_NONE,
        filter->state != NULL ? SQL_TEXT(filter->state) : SQL_NONE,
        SQL_INT(filter->before_us),
        SQL_TEXT(filter->before_id),
        SQL_INT(filter->limit),
        filter->algorithm != NULL ? SQL_TEXT(filter->algorithm) : SQL_NONE,
        filter->name != NULL ? SQL_TEXT(filter->name) : SQL_NONE,
        filter->expires_before != 0 ? SQL_INT(filter->expires_before) : SQL_NONE,
    };
    return read_keys(op, services, &SQL_LIST, args, COUNT_OF(args), ret_keys, ret_count);
}

struct fault key_name_taken(struct op *op, struct services *services, const char *purpose, const char *name,
                            enum key_state state, bool *ret_taken)
{
    const struct sql_arg args[] = { SQL_TEXT(purpose), SQL_TEXT(name), SQL_TEXT(key_state_text(state)) };
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, &SQL_NAME_TAKEN, args, COUNT_OF(args), &rows));
    *ret_taken = rows_int(rows, 0, 0) > 0;
    return OK;
}

static struct fault command_of(struct op *op, struct services *services, const struct sql *sql, struct uuid id,
                               const char **ret_command)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, sql, (struct sql_arg[]){ SQL_TEXT(id.text) }, 1, &rows));
    REQUIRE(rows_count(rows) == 1, KEY_NOT_FOUND);
    return arena_text(op->arena, span_text(rows_text(rows, 0, 0)), ret_command);
}

struct fault key_destroy_command(struct op *op, struct services *services, struct uuid id, const char **ret_command)
{
    return command_of(op, services, &SQL_DESTROY_COMMAND, id, ret_command);
}

struct fault key_move_command(struct op *op, struct services *services, struct uuid id, const char **ret_command)
{
    return command_of(op, services, &SQL_MOVE_COMMAND, id, ret_command);
}

struct fault key_certify_command(struct op *op, struct services *services, struct uuid id, const char **ret_command)
{
    return command_of(op, services, &SQL_CERTIFY_COMMAND, id, ret_command);
}

struct fault key_lane_last(struct op *op, struct services *services, uint64_t *ret_seq)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    return projection_lane_last(tx, op->tenant, LANE_KEYS, ret_seq);
}
