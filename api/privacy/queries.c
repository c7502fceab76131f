#include "api/privacy/internal.h"

#define ERASURE_COLUMNS                                                                                                \
    "tenant_id, erasure_id, state, requested_by, reason, failure_code, failure, requested_us, activated_us, ended_us," \
    " requested_seq, generation, replaced, rows_blanked, later, sealed_subject FROM svc.privacy_erasures "

static const struct sql SQL_ERASURE = { "privacy_erasure", "SELECT " ERASURE_COLUMNS "WHERE erasure_id = $1", 1 };
static const struct sql SQL_ERASURES = {
    "privacy_erasures",
    "SELECT " ERASURE_COLUMNS "WHERE requested_seq < $1 ORDER BY requested_seq DESC LIMIT $2",
    2,
};
static const struct sql SQL_NEXT = {
    "privacy_next",
    "SELECT " ERASURE_COLUMNS "WHERE state IN ('requested', 'activated') ORDER BY requested_seq LIMIT 1",
    0,
};
static const struct sql SQL_STANDING = {
    "privacy_standing",
    "SELECT (SELECT coalesce(max(stream_seq), 0) FROM svc.event_envelopes WHERE tenant_id = $1 AND lane = 'privacy'),"
    " coalesce((SELECT stream_seq FROM svc.projection_checkpoint), 0),"
    " (SELECT coalesce(max(generation), 1) FROM svc.audit_generations),"
    " EXISTS (SELECT FROM svc.privacy_erasures WHERE state IN ('requested', 'activated')),"
    " (SELECT count(*) FROM svc.tokens WHERE position($2 IN subject) > 0 AND revoked_us IS NULL AND expires_us > $3),"
    " (SELECT count(*) FROM svc.tokens WHERE position($2 IN roles) > 0),"
    " (SELECT count(*) FROM svc.audit_checkpoints)",
    3,
};
static const struct sql SQL_GENERATIONS = {
    "privacy_generations",
    "SELECT generation, boundary_sequence, replaced, erasure_id, statement, superseded_head, new_head, digest,"
    " activated_us FROM svc.audit_generations ORDER BY generation",
    0,
};
static const struct sql SQL_ATTESTATIONS = {
    "privacy_attestations",
    "SELECT attestation_id, erasure_id, archive_locator, action, note, performed_by, attested_by, archive_sha256,"
    " performed_us, attested_us, sequence FROM svc.privacy_attestations WHERE sequence < $1"
    " ORDER BY sequence DESC LIMIT $2",
    2,
};

static struct fault text_of(struct op *op, const struct rows *rows, size_t row, size_t column, const char **ret_text)
{
    return rows_null(rows, row, column) ? OK : arena_text(op->arena, span_text(rows_text(rows, row, column)), ret_text);
}

static struct fault read_erasure(struct op *op, const struct rows *rows, size_t row, struct erasure *ret_erasure)
{
    struct erasure made = {
        .requested = rows_int(rows, row, 7),
        .activated = rows_int(rows, row, 8),
        .ended = rows_int(rows, row, 9),
        .requested_seq = (uint64_t)rows_int(rows, row, 10),
        .generation = rows_int(rows, row, 11),
        .replaced = rows_int(rows, row, 12),
        .rows_blanked = rows_int(rows, row, 13),
        .later = rows_int(rows, row, 14),
    };
    TRY(tenant_id_parse(span_text(rows_text(rows, row, 0)), &made.tenant));
    TRY(uuid_parse(span_text(rows_text(rows, row, 1)), &made.id));
    TRY(text_of(op, rows, row, 2, &made.state));
    TRY(text_of(op, rows, row, 3, &made.requested_by));
    TRY(text_of(op, rows, row, 4, &made.reason));
    TRY(text_of(op, rows, row, 5, &made.failure_code));
    TRY(text_of(op, rows, row, 6, &made.failure));
    TRY(arena_copy(op->arena, rows_bytes(rows, row, 15), &made.sealed));
    *ret_erasure = made;
    return OK;
}

struct fault erasure_get(struct op *op, struct services *services, struct uuid id, struct erasure *ret_erasure)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, &SQL_ERASURE, (struct sql_arg[]){ SQL_TEXT(id.text) }, 1, &rows));
    REQUIRE(rows_count(rows) == 1, NOT_FOUND);
    return read_erasure(op, rows, 0, ret_erasure);
}

struct fault erasure_list(struct op *op, struct services *services, int64_t before, int64_t limit,
                          struct erasure **ret_list, size_t *ret_count)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct erasure *made = NULL;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, &SQL_ERASURES, (struct sql_arg[]){ SQL_INT(before), SQL_INT(limit) }, 2, &rows));
    TRY(arena_take(op->arena, rows_count(rows) + 1, sizeof(*made), &made));
    for (size_t row = 0; row < rows_count(rows); row++) {
        TRY(read_erasure(op, rows, row, &made[row]));
    }
    *ret_list = made;
    *ret_count = rows_count(rows);
    return OK;
}

struct fault erasure_next(struct op *op, struct services *services, bool *ret_found, struct erasure *ret_erasure)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_begin(op, services->store, STORE_BOOKKEEPING, &tx));
    TRY(tx_query(tx, &SQL_NEXT, NULL, 0, &rows));
    *ret_found = rows_count(rows) == 1;
    return *ret_found ? read_erasure(op, rows, 0, ret_erasure) : OK;
}

struct fault privacy_standing(struct op *op, struct services *services, struct span subject,
                              struct standing *ret_standing)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const struct sql_arg args[] = { SQL_TEXT(op->tenant.text), SQL_SPAN(subject), SQL_INT(clock_utc()) };
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, &SQL_STANDING, args, COUNT_OF(args), &rows));
    *ret_standing = (struct standing){
        .lane = (uint64_t)rows_int(rows, 0, 0),
        .checkpoint = (uint64_t)rows_int(rows, 0, 1),
        .generation = rows_int(rows, 0, 2) + 1,
        .open = rows_bool(rows, 0, 3),
        .credentials = rows_int(rows, 0, 4),
        .role_names = rows_int(rows, 0, 5),
        .archives = rows_int(rows, 0, 6),
    };
    return OK;
}

static void copy_digest(const struct rows *rows, size_t row, size_t column, struct sha256 *ret_digest)
{
    struct span bytes = rows_bytes(rows, row, column);
    BUG_IF(bytes.len != SHA256_LEN); /* a CHECK of the table */
    memcpy(ret_digest->at, bytes.at, SHA256_LEN);
}

struct fault generation_list(struct op *op, struct services *services, struct generation_row **ret_rows,
                             size_t *ret_count)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct generation_row *made = NULL;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, &SQL_GENERATIONS, NULL, 0, &rows));
    TRY(arena_take(op->arena, rows_count(rows) + 1, sizeof(*made), &made));
    for (size_t row = 0; row < rows_count(rows); row++) {
        made[row] = (struct generation_row){
            .generation = rows_int(rows, row, 0),
            .boundary_sequence = rows_int(rows, row, 1),
            .replaced = rows_int(rows, row, 2),
            .activated = rows_int(rows, row, 8),
        };
        TRY(text_of(op, rows, row, 3, &made[row].erasure_id));
        TRY(text_of(op, rows, row, 4, &made[row].statement));
        copy_digest(rows, row, 5, &made[row].superseded_head);
        copy_digest(rows, row, 6, &made[row].new_head);
        copy_digest(rows, row, 7, &made[row].digest);
    }
    *ret_rows = made;
    *ret_count = rows_count(rows);
    return OK;
}

struct fault attestation_list(struct op *op, struct services *services, int64_t before, int64_t limit,
                              struct attestation **ret_list, size_t *ret_count)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct attestation *made = NULL;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, &SQL_ATTESTATIONS, (struct sql_arg[]){ SQL_INT(before), SQL_INT(limit) }, 2, &rows));
    TRY(arena_take(op->arena, rows_count(rows) + 1, sizeof(*made), &made));
    for (size_t row = 0; row < rows_count(rows); row++) {
        struct attestation *one = &made[row];
        one->performed_at = rows_int(rows, row, 8);
        one->attested = rows_int(rows, row, 9);
        one->sequence = rows_int(rows, row, 10);
        TRY(text_of(op, rows, row, 0, &one->attestation_id));
        TRY(text_of(op, rows, row, 1, &one->erasure_id));
        TRY(text_of(op, rows, row, 2, &one->archive_locator));
        TRY(text_of(op, rows, row, 3, &one->action));
        TRY(text_of(op, rows, row, 4, &one->note));
        TRY(text_of(op, rows, row, 5, &one->performed_by));
        TRY(text_of(op, rows, row, 6, &one->attested_by));
        TRY(arena_copy(op->arena, rows_bytes(rows, row, 7), &one->archive_sha256));
    }
    *ret_list = made;
    *ret_count = rows_count(rows);
    return OK;
}
