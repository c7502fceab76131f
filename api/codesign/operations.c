#include "api/codesign/internal.h"

/* The worker of another process wakes nobody here: then this often the row itself is looked at. */
#define LOOK_EVERY_NS (250 * NS_PER_MS)
#define ANSWER_NS     (200 * NS_PER_MS) /* of the operation's deadline, kept for the answer */

#define COLUMNS                                                                                                  \
    "operation_id, command_id, position, count, mode, key_id, identity_method, artifact_type, digest_algorithm," \
    " signature_scheme, principal, request_fingerprint, command_fingerprint, transparency_destination, state,"   \
    " failure_code, resource, algorithm, fulcio_san, fulcio_issuer, digest, signature, spki, chain, created_us," \
    " ended_us, made_seq, approved_mode FROM svc.codesign_operations "

static const struct sql SQL_OPERATION = { "codesign_operation", "SELECT " COLUMNS "WHERE operation_id = $1", 1 };
static const struct sql SQL_COMMAND = { "codesign_operations_of",
                                        "SELECT " COLUMNS "WHERE command_id = $1 ORDER BY position", 1 };
static const struct sql SQL_OPERATIONS = {
    "codesign_operations",
    "SELECT " COLUMNS "WHERE ($1::text IS NULL OR state = $1) AND ($2::text IS NULL OR key_id = $2)"
    " AND ($3::text IS NULL OR mode = $3) AND (made_seq, operation_id) < ($4, $5)"
    " ORDER BY made_seq DESC, operation_id DESC LIMIT $6",
    6,
};

static struct fault copy_text(struct op *op, const struct rows *rows, size_t row, size_t column, const char **ret_text)
{
    return rows_null(rows, row, column) ? OK : arena_text(op->arena, span_text(rows_text(rows, row, column)), ret_text);
}

static struct fault read_texts(struct op *op, const struct rows *rows, size_t row, struct codesign_operation *made)
{
    const char **texts[] = {
        &made->mode,
        &made->key_id,
        &made->identity_method,
        &made->artifact_type,
        &made->digest_algorithm,
        &made->scheme,
        &made->principal,
        &made->request_fingerprint,
        &made->command_fingerprint,
        &made->destination,
        &made->state,
        &made->failure_code,
        &made->resource,
        &made->algorithm,
        &made->san,
        &made->issuer,
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        TRY(copy_text(op, rows, row, 4 + i, texts[i]));
    }
    return OK;
}

static struct fault read_row(struct op *op, const struct rows *rows, size_t row,
                             struct codesign_operation *ret_operation)
{
    struct codesign_operation made = {
        .position = rows_int(rows, row, 2),
        .count = rows_int(rows, row, 3),
        .created = rows_int(rows, row, 24),
        .ended = rows_int(rows, row, 25),
        .made_seq = rows_int(rows, row, 26),
        .approved_mode = rows_bool(rows, row, 27),
    };
    TRY(uuid_parse(span_text(rows_text(rows, row, 0)), &made.id));
    TRY(uuid_parse(span_text(rows_text(rows, row, 1)), &made.command_id));
    TRY(read_texts(op, rows, row, &made));
    TRY(arena_copy(op->arena, rows_bytes(rows, row, 20), &made.digest));
    TRY(arena_copy(op->arena, rows_bytes(rows, row, 21), &made.signature));
    TRY(arena_copy(op->arena, rows_bytes(rows, row, 22), &made.spki));
    TRY(arena_copy(op->arena, rows_bytes(rows, row, 23), &made.chain));
    *ret_operation = made;
    return OK;
}

static struct fault query(struct op *op, struct services *services, const struct sql *sql, const struct sql_arg *args,
                          size_t arg_count, struct codesign_operation **ret_operations, size_t *ret_count)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct codesign_operation *made = NULL;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, sql, args, arg_count, &rows));
    TRY(arena_take(op->arena, rows_count(rows) + 1, sizeof(*made), &made));
    for (size_t row = 0; row < rows_count(rows); row++) {
        TRY(read_row(op, rows, row, &made[row]));
    }
    *ret_operations = made;
    *ret_count = rows_count(rows);
    return OK;
}

struct fault codesign_operation_get(struct op *op, struct services *services, struct uuid id,
                                    struct codesign_operation *ret_operation)
{
    struct codesign_operation *found = NULL;
    size_t count = 0;
    TRY(query(op, services, &SQL_OPERATION, (struct sql_arg[]){ SQL_TEXT(id.text) }, 1, &found, &count));
    REQUIRE(count == 1, NOT_FOUND);
    *ret_operation = found[0];
    return OK;
}

struct fault codesign_operations_of(struct op *op, struct services *services, struct uuid command_id,
                                    struct codesign_operation **ret_operations, size_t *ret_count)
{
    return query(op, services, &SQL_COMMAND, (struct sql_arg[]){ SQL_TEXT(command_id.text) }, 1, ret_operations,
                 ret_count);
}

struct fault codesign_operation_list(struct op *op, struct services *services, const struct codesign_filter *filter,
                                     struct codesign_operation **ret_operations, size_t *ret_count)
{
    const struct sql_arg args[] = {
        filter->state != NULL ? SQL_TEXT(filter->state) : SQL_NONE,
        filter->key_id != NULL ? SQL_TEXT(filter->key_id) : SQL_NONE,
        filter->mode != NULL ? SQL_TEXT(filter->mode) : SQL_NONE,
        SQL_INT(filter->before_seq),
        SQL_TEXT(filter->before_id),
        SQL_INT(filter->limit),
    };
    return query(op, services, &SQL_OPERATIONS, args, COUNT_OF(args), ret_operations, ret_count);
}

bool codesign_operation_ended(const struct codesign_operation *operation)
{
    return strcmp(operation->state, "completed") == 0 || strcmp(operation->state, "failed") == 0 ||
           strcmp(operation->state, "refused") == 0;
}

static struct fault not_in_time(struct op *op, struct uuid id, enum fault_code met)
{
    struct fault fault = { met != FAULT_NONE ? met : FAULT_DEADLINE };
    op->note = (struct fault_note){ 0 };
    return op_fail(op, fault,
                   "operation %s is accepted but has not ended yet: repeat the request as it is, with the same "
                   "Idempotency-Key, to get its result",
                   id.text);
}

struct fault codesign_await(struct op *op, struct services *services, struct codesign_waiter *waiter,
                            struct codesign_operation *ret_operation)
{
    mono_ns deadline = clock_mono() + services->config->codesign_deadline;
    if (op->deadline - ANSWER_NS < deadline) {
        deadline = op->deadline - ANSWER_NS;
    }
    for (;;) {
        mono_ns look = clock_mono() + LOOK_EVERY_NS;
        uint64_t seq = 0;
        if (codesign_waiter_wait(waiter, look < deadline ? look : deadline, &seq)) {
            TRY(projector_wait(op, services->projector, seq));
        }
        struct fault found = codesign_operation_get(op, services, waiter->id, ret_operation);
        if (!FAULTED(found) && codesign_operation_ended(ret_operation)) {
            return OK;
        }
        if (FAULTED(found) && found.code != FAULT_NOT_FOUND) { /* not found: codesign.commanded is not projected yet */
            return found;
        }
        if (clock_mono() >= deadline) {
            return not_in_time(op, waiter->id, codesign_waiter_last(waiter));
        }
    }
}
