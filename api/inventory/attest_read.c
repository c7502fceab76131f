#include "api/inventory/crypto.h"

#include "api/page.h"

#define LIST_MAX ((size_t)8 << 20)

#define COLUMNS                                                                                                  \
    "SELECT a.attestation_id, a.event_id, a.statement, a.title, a.note, a.locator, a.media_type, a.attested_by," \
    " a.withdrawn_by, a.withdraw_reason, a.withdraw_command, a.evidence_sha256, a.sequence, a.valid_from_us,"    \
    " a.expires_us, a.attested_us, a.withdrawn_us FROM svc.operator_attestations a "
/* The newest of each statement among those that were not withdrawn. */
#define CURRENT                                                                                                   \
    "a.withdrawn_us IS NULL AND NOT EXISTS (SELECT FROM svc.operator_attestations b"                              \
    " WHERE b.tenant_id = a.tenant_id AND b.statement = a.statement AND b.withdrawn_us IS NULL AND b.sequence > " \
    "a.sequence)"

static const struct sql SQL_GET = { "attest_get", COLUMNS "WHERE a.attestation_id = $1", 1 };
static const struct sql SQL_LIST = {
    "attest_list",
    COLUMNS "WHERE a.sequence < $1 AND ($3::text IS NULL OR a.statement = $3)"
            " AND ($4::bigint IS NULL OR (" CURRENT " AND coalesce(a.expires_us > $4, true)))"
            " ORDER BY a.sequence DESC LIMIT $2",
    4,
};
static const struct sql SQL_CURRENT = {
    "attest_current",
    "SELECT a.statement, a.attestation_id, a.event_id, a.sequence, a.attested_us, a.expires_us,"
    " encode(a.evidence_sha256, 'hex'), r.chain FROM svc.operator_attestations a"
    " JOIN svc.audit_records r ON r.tenant_id = a.tenant_id AND r.sequence = a.sequence WHERE " CURRENT
    " ORDER BY a.statement",
    0,
};

static struct fault read_row(struct op *op, const struct rows *rows, size_t row, struct attested *ret_attested)
{
    struct attested attested = {
        .sequence = rows_int(rows, row, 12),
        .valid_from = rows_int(rows, row, 13),
        .expires = rows_int(rows, row, 14),
        .made = rows_int(rows, row, 15),
        .withdrawn = rows_int(rows, row, 16),
    };
    const char **const texts[] = {
        &attested.attestation_id, &attested.event_id,        &attested.statement,        &attested.title,
        &attested.note,           &attested.locator,         &attested.media_type,       &attested.attested_by,
        &attested.withdrawn_by,   &attested.withdraw_reason, &attested.withdraw_command,
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        TRY(rows_null(rows, row, i) ? OK : arena_text(op->arena, span_text(rows_text(rows, row, i)), texts[i]));
    }
    TRY(arena_copy(op->arena, rows_bytes(rows, row, 11), &attested.sha256));
    *ret_attested = attested;
    return OK;
}

struct fault attested_get(struct op *op, struct services *services, struct uuid id, struct attested *ret_attested)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, &SQL_GET, (struct sql_arg[]){ SQL_TEXT(id.text) }, 1, &rows));
    if (rows_count(rows) == 0) {
        return op_fail(op, FAULT(NOT_FOUND), "no such attestation: list them with GET /api/v1/compliance/attestations");
    }
    return read_row(op, rows, 0, ret_attested);
}

static const char *state_of(const struct attested *attested, utc_us now)
{
    if (attested->withdrawn != 0) {
        return "withdrawn";
    }
    return attested->expires != 0 && attested->expires <= now ? "expired" : "valid";
}

void attested_print(const struct attested *attested, utc_us now, struct jout *out)
{
    jout_object(out);
    jout_key_text(out, "attestation_id", attested->attestation_id);
    jout_key_text(out, "statement", attested->statement);
    jout_key_text(out, "state", state_of(attested, now));
    jout_key_text(out, "title", attested->title);
    jout_key_text(out, "note", attested->note);
    jout_key(out, "evidence");
    jout_object(out);
    jout_key_text(out, "locator", attested->locator);
    jout_key_hex(out, "sha256", attested->sha256);
    jout_key_text(out, "media_type", attested->media_type);
    jout_object_end(out);
    jout_key_time(out, "valid_from", attested->valid_from);
    if (attested->expires != 0) {
        jout_key_time(out, "expires_at", attested->expires);
    }
    jout_key_text(out, "attested_by", attested->attested_by);
    jout_key_time(out, "attested_at", attested->made);
    jout_key_text(out, "event_id", attested->event_id);
    jout_key_int(out, "sequence", attested->sequence);
    if (attested->withdrawn != 0) {
        jout_key_time(out, "withdrawn_at", attested->withdrawn);
        jout_key_text(out, "withdrawn_by", attested->withdrawn_by);
        jout_key_text(out, "withdraw_reason", attested->withdraw_reason);
    }
    jout_object_end(out);
}

static struct fault read_list(struct request *request, const struct page *page, utc_us now, struct attested **ret_list,
                              size_t *ret_count)
{
    struct op *op = request->op;
    const char *current = request_query(request, "current");
    const char *statement = request_query(request, "statement");
    bool only_current = current != NULL && strcmp(current, "true") == 0;
    if (current != NULL && !only_current && strcmp(current, "false") != 0) {
        return op_fail_field(op, FAULT(QUERY), "current", "current must be true or false");
    }
    if (statement != NULL && !attest_statement_fits(statement)) {
        return op_fail_field(op, FAULT(QUERY), "statement", "statement must be of a-z, 0-9 and -");
    }
    const struct sql_arg args[] = { SQL_INT(page->number), SQL_INT(page->limit + 1),
                                    statement != NULL ? SQL_TEXT(statement) : SQL_NONE,
                                    only_current ? SQL_INT(now) : SQL_NONE };
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct attested *list = NULL;
    TRY(tx_begin(op, request->services->store, STORE_REQUEST, &tx));
    TRY(tx_query(tx, &SQL_LIST, args, COUNT_OF(args), &rows));
    TRY(arena_take(op->arena, rows_count(rows) + 1, sizeof(*list), &list));
    for (size_t row = 0; row < rows_count(rows); row++) {
        TRY(read_row(op, rows, row, &list[row]));
    }
    *ret_list = list;
    *ret_count = rows_count(rows);
    return OK;
}

struct fault route_attest_list(struct request *request)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(LIST_MAX);
    struct attested *list = NULL;
    struct page page;
    struct jout jout;
    size_t count = 0;
    utc_us now = clock_utc();
    TRY(page_read(request, &page));
    TRY(read_list(request, &page, now, &list, &count));
    bool more = count > (size_t)page.limit;
    size_t shown = more ? (size_t)page.limit : count;
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key(&jout, "items");
    jout_array(&jout);
    for (size_t i = 0; i < shown; i++) {
        attested_print(&list[i], now, &jout);
    }
    TRY(page_end(request, &jout, more, more ? list[shown - 1].sequence : 0, ""));
    return response_json(request, 0, &out);
}

/* ---- for packs ---- */

static struct fault read_current(struct op *op, const struct rows *rows, size_t row,
                                 struct inventory_attestation *ret_attestation)
{
    struct inventory_attestation read = {
        .event_type = EVENT_ATTESTED,
        .sequence = rows_int(rows, row, 3),
        .made = rows_int(rows, row, 4),
        .expires = rows_int(rows, row, 5),
    };
    struct span chain = rows_bytes(rows, row, 7);
    REQUIRE(chain.len == SHA256_LEN, INTERNAL);
    memcpy(read.chain.at, chain.at, SHA256_LEN);
    TRY(arena_text(op->arena, span_text(rows_text(rows, row, 0)), &read.statement));
    TRY(arena_text(op->arena, span_text(rows_text(rows, row, 1)), &read.attestation_id));
    TRY(arena_text(op->arena, span_text(rows_text(rows, row, 2)), &read.event_id));
    TRY(arena_text(op->arena, span_text(rows_text(rows, row, 6)), &read.evidence_sha256));
    *ret_attestation = read;
    return OK;
}

struct fault inventory_attestations(struct op *op, struct tx *tx, const struct inventory_attestation **ret_attestations,
                                    size_t *ret_count)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct inventory_attestation *list = NULL;
    TRY(tx_query(tx, &SQL_CURRENT, NULL, 0, &rows));
    TRY(arena_take(op->arena, rows_count(rows) + 1, sizeof(*list), &list));
    for (size_t row = 0; row < rows_count(rows); row++) {
        TRY(read_current(op, rows, row, &list[row]));
    }
    *ret_attestations = list;
    *ret_count = rows_count(rows);
    return OK;
}
