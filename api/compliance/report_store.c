/* The documents of reports, as bytes beside the read model: plain, so that an erasure finds a subject in them. */
#include "api/compliance/schedules.h"

static const struct sql SQL_KEEP = {
    "report_document_keep",
    "INSERT INTO svc.compliance_documents (tenant_id, report_id, schedule_id, digest, window_from_us, window_to_us, body)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
    7,
};
static const struct sql SQL_FIND = {
    "report_document_find",
    "SELECT digest, window_from_us, window_to_us, octet_length(body)::bigint, CASE WHEN $2 THEN body END"
    " FROM svc.compliance_documents WHERE report_id = $1",
    2,
};
static const struct sql SQL_PRUNE = {
    "report_documents_prune",
    "DELETE FROM svc.compliance_documents d WHERE d.schedule_id = $1 AND d.report_id <> $2 AND NOT EXISTS"
    " (SELECT FROM svc.compliance_reports r WHERE r.report_id = d.report_id AND r.state = 'generated')",
    2,
};

struct fault report_document_keep(struct op *op, struct services *services, struct uuid report_id,
                                  struct uuid schedule_id, struct span document, struct report_window window)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    struct sha256 digest;
    REQUIRE(document.len <= REPORT_DOCUMENT_MAX, TOO_LARGE);
    TRY(sha256_of(document, &digest));
    const struct sql_arg args[] = { SQL_TEXT(op->tenant.text),  SQL_TEXT(report_id.text),
                                    SQL_TEXT(schedule_id.text), SQL_BYTES(SPAN_ARRAY(digest.at)),
                                    SQL_INT(window.from),       SQL_INT(window.to),
                                    SQL_BYTES(document) };
    TRY(tx_begin(op, services->store, STORE_BOOKKEEPING, &tx));
    TRY(tx_exec(tx, &SQL_KEEP, args, COUNT_OF(args), NULL));
    return tx_commit(&tx);
}

struct fault report_document_find(struct op *op, struct services *services, struct uuid report_id, struct buf *document,
                                  struct report_document *ret_document)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const struct sql_arg args[] = { SQL_TEXT(report_id.text), SQL_BOOL(document != NULL) };
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, &SQL_FIND, args, COUNT_OF(args), &rows));
    REQUIRE(rows_count(rows) == 1, NOT_FOUND);
    struct report_document made = { .window = { rows_int(rows, 0, 1), rows_int(rows, 0, 2) },
                                    .size = rows_int(rows, 0, 3) };
    memcpy(made.digest.at, rows_bytes(rows, 0, 0).at, SHA256_LEN); /* its length is a CHECK of the table */
    if (document != NULL) {
        TRY(buf_put(document, rows_bytes(rows, 0, 4)));
    }
    *ret_document = made;
    return OK;
}

struct fault report_documents_prune(struct op *op, struct services *services, struct uuid schedule_id,
                                    struct uuid except)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    const struct sql_arg args[] = { SQL_TEXT(schedule_id.text), SQL_TEXT(except.text) };
    TRY(tx_begin(op, services->store, STORE_BOOKKEEPING, &tx));
    TRY(tx_exec(tx, &SQL_PRUNE, args, COUNT_OF(args), NULL));
    return tx_commit(&tx);
}
