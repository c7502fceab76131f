/* Operations of a batch of events: made, signed and ended in memory, where the projection folds (projection.h). The
 * statements of projection.c say the same, one event at a time. */
#include "api/codesign/internal.h"

enum column {
    OP_OPERATION_ID,
    OP_COMMAND_ID,
    OP_POSITION,
    OP_COUNT,
    OP_MODE,
    OP_KEY_ID,
    OP_IDENTITY_METHOD,
    OP_ARTIFACT_TYPE,
    OP_DIGEST_ALGORITHM,
    OP_SIGNATURE_SCHEME,
    OP_PRINCIPAL,
    OP_REQUEST_FINGERPRINT,
    OP_COMMAND_FINGERPRINT,
    OP_TRANSPARENCY_DESTINATION,
    OP_CREATED_US,
    OP_MADE_SEQ,
    OP_GIVEN, /* how many of them the first event says */
    OP_STATE = OP_GIVEN,
    OP_ALGORITHM,
    OP_DIGEST,
    OP_SIGNATURE,
    OP_SPKI,
    OP_CHAIN,
    OP_FULCIO_SAN,
    OP_FULCIO_ISSUER,
    OP_APPROVED_MODE,
    OP_FAILURE_CODE,
    OP_RESOURCE,
    OP_ENDED_US,
    OP_EPHEMERAL_DESTROYED_US,
    OP_COLUMNS
};
static const enum sql_array_kind kinds[OP_COLUMNS] = {
    [OP_OPERATION_ID] = SQL_ARRAY_TEXT,
    [OP_COMMAND_ID] = SQL_ARRAY_TEXT,
    [OP_POSITION] = SQL_ARRAY_INT,
    [OP_COUNT] = SQL_ARRAY_INT,
    [OP_MODE] = SQL_ARRAY_TEXT,
    [OP_KEY_ID] = SQL_ARRAY_TEXT,
    [OP_IDENTITY_METHOD] = SQL_ARRAY_TEXT,
    [OP_ARTIFACT_TYPE] = SQL_ARRAY_TEXT,
    [OP_DIGEST_ALGORITHM] = SQL_ARRAY_TEXT,
    [OP_SIGNATURE_SCHEME] = SQL_ARRAY_TEXT,
    [OP_PRINCIPAL] = SQL_ARRAY_TEXT,
    [OP_REQUEST_FINGERPRINT] = SQL_ARRAY_TEXT,
    [OP_COMMAND_FINGERPRINT] = SQL_ARRAY_TEXT,
    [OP_TRANSPARENCY_DESTINATION] = SQL_ARRAY_TEXT,
    [OP_CREATED_US] = SQL_ARRAY_INT,
    [OP_MADE_SEQ] = SQL_ARRAY_INT,
    [OP_STATE] = SQL_ARRAY_TEXT,
    [OP_ALGORITHM] = SQL_ARRAY_TEXT,
    [OP_DIGEST] = SQL_ARRAY_BYTES,
    [OP_SIGNATURE] = SQL_ARRAY_BYTES,
    [OP_SPKI] = SQL_ARRAY_BYTES,
    [OP_CHAIN] = SQL_ARRAY_BYTES,
    [OP_FULCIO_SAN] = SQL_ARRAY_TEXT,
    [OP_FULCIO_ISSUER] = SQL_ARRAY_TEXT,
    [OP_APPROVED_MODE] = SQL_ARRAY_BOOL,
    [OP_FAILURE_CODE] = SQL_ARRAY_TEXT,
    [OP_RESOURCE] = SQL_ARRAY_TEXT,
    [OP_ENDED_US] = SQL_ARRAY_INT,
    [OP_EPHEMERAL_DESTROYED_US] = SQL_ARRAY_INT,
};
static const struct sql SQL_ROWS = {
    "codesign_operation_rows",
    "INSERT INTO svc.codesign_operations (tenant_id, operation_id, command_id, position, count, mode, key_id,"
    " identity_method, artifact_type, digest_algorithm, signature_scheme, principal, request_fingerprint,"
    " command_fingerprint, transparency_destination, created_us, made_seq, state, algorithm, digest, signature, spki,"
    " chain, fulcio_san, fulcio_issuer, approved_mode, failure_code, resource, ended_us, ephemeral_destroyed_us)"
    " SELECT $1, * FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::text[], $8::text[],"
    " $9::text[], $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[], $16::bigint[],"
    " $17::bigint[], $18::text[], $19::text[], $20::bytea[], $21::bytea[], $22::bytea[], $23::bytea[], $24::text[],"
    " $25::text[], $26::boolean[], $27::text[], $28::text[], $29::bigint[], $30::bigint[])",
    OP_COLUMNS + 1,
};
static const struct projection_table table = { &SQL_ROWS, kinds, OP_COLUMNS };

static struct projection_row *row_in_state(struct projection *projection, const char *operation_id, const char *state,
                                           bool *ret_kept)
{
    struct projection_row *row = projection_row_of(projection, &table, operation_id);
    *ret_kept = row != NULL;
    return row != NULL && projection_row_is(row, OP_STATE, state) ? row : NULL;
}

static struct fault set_all(struct projection *projection, struct projection_row *row, size_t first,
                            const struct sql_arg *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        TRY(projection_row_set(projection, row, first + i, values[i]));
    }
    return OK;
}

struct fault codesign_row_commanded(struct projection *projection, const char *operation_id,
                                    const struct sql_arg *given, size_t count)
{
    struct sql_arg values[OP_COLUMNS];
    BUG_IF(count != OP_GIVEN);
    if (projection_row_of(projection, &table, operation_id) != NULL) {
        return OK;
    }
    for (size_t i = 0; i < OP_COLUMNS; i++) {
        values[i] = i < OP_GIVEN ? given[i] : SQL_NONE;
    }
    values[OP_STATE] = SQL_TEXT("commanded");
    values[OP_APPROVED_MODE] = SQL_BOOL(false);
    return projection_row_make(projection, &table, operation_id, values);
}

struct fault codesign_row_signed(struct projection *projection, const char *operation_id, const struct sql_arg *values,
                                 size_t count, bool *ret_kept)
{
    struct projection_row *row = row_in_state(projection, operation_id, "commanded", ret_kept);
    BUG_IF(count != OP_FAILURE_CODE - OP_ALGORITHM);
    if (row == NULL) {
        return OK;
    }
    TRY(set_all(projection, row, OP_ALGORITHM, values, count));
    return projection_row_set(projection, row, OP_STATE, SQL_TEXT("signed"));
}

struct fault codesign_row_completed(struct projection *projection, const char *operation_id, utc_us time,
                                    bool *ret_kept)
{
    struct projection_row *row = row_in_state(projection, operation_id, "signed", ret_kept);
    if (row == NULL) {
        return OK;
    }
    TRY(projection_row_set(projection, row, OP_ENDED_US, SQL_INT(time)));
    return projection_row_set(projection, row, OP_STATE, SQL_TEXT("completed"));
}

struct fault codesign_row_ended(struct projection *projection, const char *operation_id, const char *state,
                                const struct sql_arg *values, size_t count, bool *ret_kept)
{
    struct projection_row *row = row_in_state(projection, operation_id, "commanded", ret_kept);
    BUG_IF(count != OP_EPHEMERAL_DESTROYED_US - OP_FAILURE_CODE);
    if (row == NULL) {
        return OK;
    }
    TRY(set_all(projection, row, OP_FAILURE_CODE, values, count));
    return projection_row_set(projection, row, OP_STATE, SQL_TEXT(state));
}

struct fault codesign_row_destroyed(struct projection *projection, const char *operation_id, utc_us time,
                                    bool *ret_kept)
{
    struct projection_row *row = projection_row_of(projection, &table, operation_id);
    *ret_kept = row != NULL;
    return row != NULL && projection_row_null(row, OP_EPHEMERAL_DESTROYED_US)
               ? projection_row_set(projection, row, OP_EPHEMERAL_DESTROYED_US, SQL_INT(time))
               : OK;
}
