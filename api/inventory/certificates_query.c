/*
 * What the read model says of certificates. Custody of a managed key's certificate is not stored but follows from the
 * key's row: every key is made in a token, and svc-signer keeps none that the token does not show as CKA_SENSITIVE and
 * not CKA_EXTRACTABLE; those of algorithms that the token has no mechanism for are files that the token has sealed; and
 * a key that was erased is no more.
 */
#include "api/inventory/credentials.h"
#include "api/keys/keys.h"

#include <stdio.h>

#define WALK_ROWS  1000
#define WALK_ARENA ((size_t)1 << 20)

#define OWN "k.key_id IS NOT NULL"
#define ORIGIN                                                                                                      \
    "(CASE WHEN NOT (" OWN ") THEN c.origin WHEN k.purpose = 'tsa' THEN 'time_stamping_unit' WHEN k.purpose = 'ca'" \
    " THEN 'own_authority' ELSE 'managed_key' END)"
#define STORAGE                                                                                        \
    "(CASE WHEN NOT (" OWN ") THEN c.storage_class WHEN k.erased_us IS NOT NULL THEN 'destroyed' WHEN" \
    " k.algorithm LIKE 'ml-dsa-%' THEN 'sealed_file' ELSE 'pkcs11_token' END)"
#define EXPORTABILITY                                                                                             \
    "(CASE WHEN NOT (" OWN ") THEN c.exportability WHEN k.algorithm LIKE 'ml-dsa-%' AND k.erased_us IS NULL THEN" \
    " 'exportable_wrapped' ELSE 'non_exportable' END)"
#define STATED(text) "CASE WHEN " ERASED(text) " THEN '' ELSE " text " END" /* who was erased holds nothing */
#define HOLDER       "(CASE WHEN " OWN " THEN 'svc-signer' ELSE " STATED("c.holder") " END)"
#define LOCUS \
    "(CASE WHEN " OWN " THEN 'token:' || coalesce(nullif(k.token, ''), 'first') ELSE " STATED("c.locus") " END)"
#define RECORDED                                                                                                      \
    "(" OWN " OR (c.origin <> '' AND c.storage_class <> '' AND c.exportability <> '' AND " HOLDER " <> '' AND " LOCUS \
    " <> ''))"
#define FROM_CERTIFICATES \
    " FROM svc.certificates c LEFT JOIN svc.managed_keys k ON k.tenant_id = c.tenant_id AND k.key_id = c.key_id "
#define COLUMNS(der)                                                                                              \
    "SELECT c.certificate_id, c.fingerprint, " der ", c.key_id, k.state, " ORIGIN ", " STORAGE ", " EXPORTABILITY \
    ", " HOLDER ", " LOCUS ", c.recorded_us, c.custody_us, c.recorded_by, c.custody_by, c.version,"               \
    " c.custody_command, c.not_after_us" FROM_CERTIFICATES

static const struct sql SQL_ONE = { "inventory_certificate", COLUMNS("c.der") "WHERE c.certificate_id = $1", 1 };
static const struct sql SQL_LIST = {
    "inventory_certificates",
    COLUMNS("c.der") "WHERE (c.recorded_us, c.certificate_id) < ($1, $2) AND ($3::text IS NULL OR " ORIGIN " = $3)"
                     " AND ($4::bigint = 0 OR ($4::bigint = 1) = coalesce(" RECORDED ", false))"
                     " AND ($5::bigint = 9223372036854775807 OR c.not_after_us < $5)"
                     " ORDER BY c.recorded_us DESC, c.certificate_id DESC LIMIT $6",
    6,
};
static const struct sql SQL_WALK = {
    "inventory_certificates_walk",
    COLUMNS("c.der") "WHERE c.certificate_id > $1 ORDER BY c.certificate_id LIMIT $2",
    2,
};
static const struct sql SQL_COUNT = {
    "inventory_custody_count",
    "SELECT count(*), count(*) FILTER (WHERE " RECORDED "), count(*) FILTER (WHERE " EXPORTABILITY
    " = 'non_exportable'), count(*) FILTER (WHERE " EXPORTABILITY
    " IN ('exportable', 'exportable_wrapped'))" FROM_CERTIFICATES,
    0,
};

static struct fault text_of(struct op *op, const struct rows *rows, size_t row, size_t column, const char **ret_text)
{
    return rows_null(rows, row, column) ? OK : arena_text(op->arena, span_text(rows_text(rows, row, column)), ret_text);
}

static struct fault read_row(struct op *op, const struct rows *rows, size_t row, struct certificate_row *ret_row)
{
    struct certificate_row made = {
        .recorded = rows_int(rows, row, 10),
        .custody_recorded = rows_int(rows, row, 11),
        .version = rows_int(rows, row, 14),
        .not_after = rows_int(rows, row, 16),
    };
    struct span fingerprint = rows_bytes(rows, row, 1);
    BUG_IF(fingerprint.len != SHA256_LEN); /* a CHECK of the table */
    memcpy(made.fingerprint.at, fingerprint.at, SHA256_LEN);
    TRY(uuid_parse(span_text(rows_text(rows, row, 0)), &made.id));
    TRY(text_of(op, rows, row, 3, &made.key_id));
    TRY(text_of(op, rows, row, 4, &made.key_state));
    TRY(text_of(op, rows, row, 5, &made.custody.origin));
    TRY(text_of(op, rows, row, 6, &made.custody.storage_class));
    TRY(text_of(op, rows, row, 7, &made.custody.exportability));
    TRY(text_of(op, rows, row, 8, &made.custody.holder));
    TRY(text_of(op, rows, row, 9, &made.custody.locus));
    TRY(text_of(op, rows, row, 12, &made.recorded_by));
    TRY(text_of(op, rows, row, 13, &made.custody_by));
    TRY(text_of(op, rows, row, 15, &made.custody_command));
    *ret_row = made;
    return OK;
}

static struct fault read_rows(struct op *op, const struct rows *rows, struct certificate_row **ret_rows,
                              size_t *ret_count)
{
    struct certificate_row *made = NULL;
    TRY(arena_take(op->arena, rows_count(rows) + 1, sizeof(*made), &made));
    for (size_t row = 0; row < rows_count(rows); row++) {
        TRY(read_row(op, rows, row, &made[row]));
        certificate_describe(op, rows_bytes(rows, row, 2), &made[row].facts);
    }
    *ret_rows = made;
    *ret_count = rows_count(rows);
    return OK;
}

struct fault certificate_get(struct op *op, struct store *store, const char *id, struct certificate_row *ret_row)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_begin(op, store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, &SQL_ONE, (struct sql_arg[]){ SQL_TEXT(id) }, 1, &rows));
    REQUIRE(rows_count(rows) == 1, NOT_FOUND);
    struct certificate_row made;
    TRY(read_row(op, rows, 0, &made));
    certificate_describe(op, rows_bytes(rows, 0, 2), &made.facts);
    TRY(arena_copy(op->arena, rows_bytes(rows, 0, 2), &made.der));
    *ret_row = made;
    return OK;
}

struct fault certificate_list(struct op *op, struct store *store, const struct certificate_filter *filter,
                              struct certificate_row **ret_rows, size_t *ret_count)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    bool recorded = filter->custody != NULL && strcmp(filter->custody, "recorded") == 0;
    const struct sql_arg args[] = {
        SQL_INT(filter->before_us),
        SQL_TEXT(filter->before_id),
        filter->origin != NULL ? SQL_TEXT(filter->origin) : SQL_NONE,
        SQL_INT(filter->custody == NULL ? 0
                : recorded              ? 1
                                        : 2),
        SQL_INT(filter->expiring_before),
        SQL_INT(filter->limit),
    };
    TRY(tx_begin(op, store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, &SQL_LIST, args, COUNT_OF(args), &rows));
    return read_rows(op, rows, ret_rows, ret_count);
}

static struct fault walk_page(struct op *scratch, const struct rows *rows, certificate_visit visit, void *arg)
{
    for (size_t row = 0; row < rows_count(rows); row++) {
        struct certificate_row made;
        arena_clear(scratch->arena);
        TRY(read_row(scratch, rows, row, &made));
        made.der = rows_bytes(rows, row, 2);
        TRY(visit(scratch, arg, &made));
    }
    return OK;
}

struct fault certificate_walk(struct op *op, struct tx *tx, certificate_visit visit, void *arg)
{
    CLEANUP(arena_freep) struct arena *arena = NULL;
    struct op scratch = *op;
    char last[40] = "";
    TRY(arena_new(WALK_ARENA, &arena));
    scratch.arena = arena;
    scratch.ahead = NULL; /* op's own: answered with the first page */
    for (bool more = true; more;) {
        CLEANUP(rows_freep) struct rows *rows = NULL;
        TRY(tx_query(tx, &SQL_WALK, (struct sql_arg[]){ SQL_TEXT(last), SQL_INT(WALK_ROWS) }, 2, &rows));
        TRY(walk_page(&scratch, rows, visit, arg));
        more = rows_count(rows) == WALK_ROWS;
        if (more) {
            (void)snprintf(last, sizeof(last), "%s", rows_text(rows, WALK_ROWS - 1, 0));
        }
    }
    return OK;
}

struct fault custody_count(struct op *op, struct tx *tx, struct custody_counts *ret_counts)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    (void)op;
    TRY(tx_query(tx, &SQL_COUNT, NULL, 0, &rows));
    *ret_counts = (struct custody_counts){ .total = rows_int(rows, 0, 0),
                                           .recorded = rows_int(rows, 0, 1),
                                           .not_exportable = rows_int(rows, 0, 2),
                                           .exportable = rows_int(rows, 0, 3) };
    return OK;
}
