#include "api/tsa/units.h"

#include "appliance/base/der.h"

static const struct sql SQL_UNITS = {
    "tsa_units",
    "SELECT unit_id, number, version, algorithm, state, issuance, chain, not_before_us, not_after_us, usage_end_us,"
    " prepared_us, certified_us, activated_us, replaced_us, retired_us, replaced_by, retire_reason,"
    " coalesce(command, ''), coalesce(prepare_command, '') FROM svc.tsa_units ORDER BY number, unit_id",
    0,
};

static const char *const states[UNIT_STATES] = { "prepared", "certified", "active", "replaced", "retired" };

const char *unit_state_text(enum unit_state state)
{
    return states[state];
}

static struct fault state_of(const char *text, enum unit_state *ret_state)
{
    for (enum unit_state state = UNIT_PREPARED; state < UNIT_STATES; state++) {
        if (strcmp(states[state], text) == 0) {
            *ret_state = state;
            return OK;
        }
    }
    return FAULT(INTERNAL);
}

/* Certificates stand one behind the other; each tells its own length. */
static struct fault split_chain(struct op *op, struct span bytes, struct unit *unit)
{
    struct span *chain = NULL, rest;
    TRY(arena_take(op->arena, KEYS_CERTIFICATES_MAX, sizeof(*chain), &chain));
    TRY(arena_copy(op->arena, bytes, &rest));
    while (rest.len > 0) {
        struct der_element certificate;
        REQUIRE(unit->chain_count < KEYS_CERTIFICATES_MAX, INTERNAL);
        TRY(der_next(&rest, &certificate));
        chain[unit->chain_count++] = certificate.whole;
    }
    unit->chain = chain;
    return OK;
}

static struct fault text_of(struct op *op, const struct rows *rows, size_t row, size_t column, const char **ret_text)
{
    return rows_null(rows, row, column) ? OK : arena_text(op->arena, span_text(rows_text(rows, row, column)), ret_text);
}

static struct fault read_row(struct op *op, const struct rows *rows, size_t row, struct unit *ret_unit)
{
    struct unit unit = {
        .number = rows_int(rows, row, 1),
        .version = rows_int(rows, row, 2),
        .not_before = rows_int(rows, row, 7),
        .not_after = rows_int(rows, row, 8),
        .usage_end = rows_int(rows, row, 9),
        .prepared = rows_int(rows, row, 10),
        .certified = rows_int(rows, row, 11),
        .activated = rows_int(rows, row, 12),
        .replaced = rows_int(rows, row, 13),
        .retired = rows_int(rows, row, 14),
    };
    TRY(uuid_parse(span_text(rows_text(rows, row, 0)), &unit.id));
    TRY(key_algorithm_parse(span_text(rows_text(rows, row, 3)), &unit.algorithm));
    TRY(state_of(rows_text(rows, row, 4), &unit.state));
    TRY(text_of(op, rows, row, 5, &unit.issuance));
    TRY(split_chain(op, rows_bytes(rows, row, 6), &unit));
    TRY(text_of(op, rows, row, 15, &unit.replaced_by));
    TRY(text_of(op, rows, row, 16, &unit.retire_reason));
    TRY(text_of(op, rows, row, 17, &unit.command));
    TRY(text_of(op, rows, row, 18, &unit.prepare_command));
    *ret_unit = unit;
    return OK;
}

struct fault units_lane(struct op *op, struct services *services, uint64_t *ret_lane)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    return projection_lane_last(tx, op->tenant, UNIT_LANE, ret_lane);
}

struct fault units_read(struct op *op, struct services *services, struct units *ret_units)
{
    struct units units = { 0 };
    TRY(units_lane(op, services, &units.lane));
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, &SQL_UNITS, NULL, 0, &rows));
    TRY(arena_take(op->arena, rows_count(rows) + 1, sizeof(*units.at), &units.at));
    for (size_t row = 0; row < rows_count(rows); row++) {
        TRY(read_row(op, rows, row, &units.at[row]));
    }
    units.count = rows_count(rows);
    *ret_units = units;
    return OK;
}

const struct unit *units_active(const struct units *units)
{
    for (size_t i = 0; i < units->count; i++) {
        if (units->at[i].state == UNIT_ACTIVE) {
            return &units->at[i];
        }
    }
    return NULL;
}

const struct unit *units_waiting(const struct units *units)
{
    for (size_t i = 0; i < units->count; i++) {
        if (units->at[i].state == UNIT_PREPARED || units->at[i].state == UNIT_CERTIFIED) {
            return &units->at[i];
        }
    }
    return NULL;
}

struct fault units_find(struct op *op, const struct units *units, struct uuid id, const struct unit **ret_unit)
{
    for (size_t i = 0; i < units->count; i++) {
        if (strcmp(units->at[i].id.text, id.text) == 0) {
            *ret_unit = &units->at[i];
            return OK;
        }
    }
    return op_fail(op, FAULT(NOT_FOUND),
                   "no such time-stamping unit: list them with "
                   "GET /api/v1/protocols/tsa/units");
}
