#include "api/audit/internal.h"

#include "api/audit/floor.h"
#include "api/tsa/tsa.h"
#include "appliance/base/codec.h"
#include "appliance/base/crypto.h"
#include "fips/fips.h"
#include "fips/jws.h"
#include "signer-pkcs11/provider/provider.h"

#define RECORDS_AT_ONCE 2000
#define PIECE           ((size_t)64 << 10) /* handed to the sink when so much is there */
#define SCRATCH_MS      1000               /* its deadline is not looked at */

/* ---- what is exported ---- */

static struct fault refuse_range(struct op *op, int64_t served, int64_t newest)
{
    if (newest < served) {
        return op_fail_field(op, FAULT(QUERY), "from_sequence", "there is no record to export yet");
    }
    return op_fail_field(op, FAULT(QUERY), "to_sequence", "records go from %lld to %lld: ask within them",
                         (long long)served, (long long)newest);
}

/* The range of the wish as it is now: first > last when nothing lies in it. */
static struct fault choose_range(struct op *op, struct tx *tx, const struct export_wish *wish, int64_t *ret_first,
                                 int64_t *ret_last)
{
    int64_t newest = 0, floor = 0, first = wish->first, last = wish->last;
    TRY(record_head(tx, &newest));
    TRY(audit_floor(op, tx, &floor));
    if (first != 0) {
        TRY(audit_check_served(op, tx, first, "from_sequence"));
    }
    first = first == 0 ? floor + 1 : first;
    last = last == 0 ? newest : last;
    if (last > newest || first > last + 1) {
        return refuse_range(op, floor + 1, newest);
    }
    if (wish->from != INT64_MIN || wish->to != INT64_MAX) {
        int64_t since = 0, until = 0;
        TRY(record_span_of_time(tx, wish->from, wish->to, &since, &until));
        first = since > first ? since : first;
        last = until < last ? until : last;
    }
    *ret_first = first;
    *ret_last = last;
    return OK;
}

static struct fault fix_range(struct op *op, struct services *services, const struct export_wish *wish,
                              struct audit_statement *statement)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    int64_t first = 0, last = 0;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(choose_range(op, tx, wish, &first, &last));
    TRY(audit_generation(tx, &statement->generation));
    if (first > last) {
        return OK;
    }
    statement->first_sequence = first;
    statement->last_sequence = last;
    statement->count = last - first + 1;
    TRY(record_chain(tx, first - 1, &statement->seed));
    return record_chain(tx, last, &statement->head);
}

struct fault export_prepare(struct op *op, struct services *services, const struct export_wish *wish,
                            struct export_plan *ret_plan)
{
    struct export_plan plan = { .statement = { .shape = wish->shape, .tenant = op->tenant } };
    struct audit_statement *statement = &plan.statement;
    TRY(export_key(op, services, &plan.key));
    TRY(fix_range(op, services, wish, statement));
    utc_us now = clock_utc(), since = plan.key.activated; /* by the clock of whoever activated it */
    rfc3339_print(now > since ? now : since, statement->exported_at);
    statement->tree_size = statement->last_sequence;
    TRY(audit_tree_root(op, services, statement->tree_size, &statement->tree_root));
    if (tsa_is_on(services)) {
        TRY(tsa_anchor(op, services, &statement->head, &statement->timestamp));
        REQUIRE(statement->timestamp.len > 0 && statement->timestamp.len <= AUDIT_TIMESTAMP_MAX, INTERNAL);
    }
    *ret_plan = plan;
    return OK;
}

struct fault export_record_read(struct op *op, struct services *services, const char *artifact,
                                const struct audit_statement *statement)
{
    CLEANUP(buf_free) struct buf data = BUF_INIT(4096);
    uint64_t seq = 0;
    struct jout jout;
    jout_init(&jout, &data);
    jout_object(&jout);
    jout_key_text(&jout, "artifact", artifact);
    jout_key_text(&jout, "shape", audit_shape_name(statement->shape));
    jout_key_int(&jout, "first_sequence", statement->first_sequence);
    jout_key_int(&jout, "last_sequence", statement->last_sequence);
    jout_key_int(&jout, "count", statement->count);
    jout_key_hex(&jout, "chain_head", SPAN_ARRAY(statement->head.at));
    jout_key_int(&jout, "generation", statement->generation);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    const struct event event = { .type = AUDIT_READ_EVENT, .schema_version = 1, .data = buf_span(&data) };
    return events_append(op, services->log, &(struct event_append){ .lane = AUDIT_LANE, .events = &event, .count = 1 },
                         &seq);
}

/* ---- how it is written ---- */

struct writing {
    struct op *op;
    struct services *services;
    const struct audit_statement *statement;
    const struct managed_key *key;
    const struct export_sink *sink;
    EVP_PKEY *pkey;
    struct jws_writer *jws; /* of a bundle */
    EVP_MD_CTX *digest;     /* of a stream */
    struct op *scratch;     /* for one record at a time */
    struct buf piece;       /* of the payload, or of lines */
    struct buf out;         /* of a bundle: encoded */
    int64_t next;
};

static void writing_clear(struct writing *w)
{
    buf_free(&w->piece);
    buf_free(&w->out);
    EVP_MD_CTX_free(w->digest);
    jws_writer_free(w->jws);
    EVP_PKEY_free(w->pkey);
    op_free(w->scratch);
}

/* Takes the piece in hand away: encoded and hashed, or hashed as it is. */
static struct fault hand_over(struct writing *w)
{
    struct span piece = buf_span(&w->piece);
    if (w->jws != NULL) {
        TRY(jws_writer_payload(w->jws, piece, &w->out));
        TRY(w->sink->put(w->sink->arg, buf_span(&w->out)));
        w->out.len = 0;
    } else {
        REQUIRE(piece.len == 0 || EVP_DigestUpdate(w->digest, piece.at, piece.len) == 1, CRYPTO);
        TRY(w->sink->put(w->sink->arg, piece));
    }
    w->piece.len = 0;
    return OK;
}

static struct fault put_record(struct writing *w, struct span record, const struct sha256 *chain)
{
    const struct audit_statement *statement = w->statement;
    if (w->jws == NULL) {
        arena_clear(w->scratch->arena);
        return audit_shape_record(w->scratch, statement->shape, record, chain, &w->piece);
    }
    TRY(buf_text(&w->piece, w->next > statement->first_sequence ? ",{\"chain\":\"" : "{\"chain\":\""));
    TRY(hex_encode(SPAN_ARRAY(chain->at), &w->piece));
    TRY(buf_text(&w->piece, "\",\"record\":"));
    TRY(buf_put(&w->piece, record));
    return buf_text(&w->piece, "}");
}

/* In a transaction that is over before anything is written. That the generation is looked at last makes the page one of
 * that generation. */
static struct fault read_page(struct writing *w, struct rows **ret_rows)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    int64_t generation = 0;
    TRY(tx_begin(w->op, w->services->store, STORE_REQUEST, &tx));
    TRY(record_range(tx, w->next, w->statement->last_sequence, RECORDS_AT_ONCE, &rows));
    TRY(audit_generation(tx, &generation));
    if (generation != w->statement->generation) {
        return op_fail(w->op, FAULT(CONFLICT), "the history was rewritten meanwhile: export it again");
    }
    REQUIRE(rows_count(rows) > 0, INTERNAL); /* the head says that they are there */
    *ret_rows = TAKE(rows);
    return OK;
}

static struct fault put_page(struct writing *w)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(read_page(w, &rows));
    for (size_t i = 0; i < rows_count(rows); i++, w->next++) {
        struct sha256 chain;
        struct span stored = rows_bytes(rows, i, 2);
        REQUIRE(rows_int(rows, i, 0) == w->next && stored.len == SHA256_LEN, INTERNAL);
        memcpy(chain.at, stored.at, SHA256_LEN);
        TRY(put_record(w, rows_bytes(rows, i, 1), &chain));
        if (w->piece.len >= PIECE) {
            TRY(hand_over(w));
        }
    }
    return OK;
}

static struct fault put_records(struct writing *w)
{
    w->next = w->statement->first_sequence;
    while (w->statement->count > 0 && w->next <= w->statement->last_sequence) {
        TRY(put_page(w));
    }
    return hand_over(w);
}

/* What OpenSSL made of the signer's refusal, and the refusal itself. */
static struct fault signed_fault(struct fault fault)
{
    struct fault cause = svc_provider_fault();
    svc_provider_unbind();
    return FAULTED(fault) && FAULTED(cause) ? cause : fault;
}

static struct fault write_bundle(struct writing *w)
{
    TRY(jws_writer_new(w->op, w->pkey, w->key->spki, AUDIT_EXPORT_TYP, &w->jws, &w->out));
    TRY(audit_statement_begin(w->statement, &w->piece));
    TRY(put_records(w));
    TRY(audit_statement_end(w->statement, &w->piece));
    TRY(hand_over(w));
    svc_provider_bind(w->op, (struct uuid){ 0 });
    TRY(signed_fault(jws_writer_end(w->op, w->jws, &w->out)));
    return w->sink->put(w->sink->arg, buf_span(&w->out));
}

static struct fault put_trailer(struct writing *w)
{
    CLEANUP(buf_free) struct buf payload = BUF_INIT(AUDIT_LINE_MAX);
    CLEANUP(buf_free) struct buf compact = BUF_INIT(AUDIT_LINE_MAX);
    struct audit_statement statement = *w->statement;
    unsigned len = 0;
    REQUIRE(EVP_DigestFinal_ex(w->digest, statement.stream_sha256.at, &len) == 1 && len == SHA256_LEN, CRYPTO);
    TRY(audit_statement_begin(&statement, &payload));
    TRY(audit_statement_end(&statement, &payload));
    svc_provider_bind(w->op, (struct uuid){ 0 });
    TRY(signed_fault(jws_sign(w->op, w->pkey, w->key->spki, AUDIT_TRAILER_TYP, buf_span(&payload), &compact)));
    TRY(audit_shape_trailer(statement.shape, buf_span(&compact), &w->piece));
    return w->sink->put(w->sink->arg, buf_span(&w->piece));
}

static struct fault write_stream(struct writing *w)
{
    CLEANUP(EVP_MD_freep) EVP_MD *md = EVP_MD_fetch(crypto_context(), "SHA256", NULL);
    w->digest = EVP_MD_CTX_new();
    if (md == NULL || w->digest == NULL || EVP_DigestInit_ex2(w->digest, md, NULL) != 1) {
        return crypto_fail(w->op, "the export cannot be hashed");
    }
    TRY(op_new("export", w->op->tenant, SCRATCH_MS, &w->scratch));
    TRY(audit_shape_begin(w->statement->shape, &w->piece));
    TRY(put_records(w));
    return put_trailer(w);
}

struct fault export_write(struct op *op, struct services *services, const struct export_plan *plan,
                          const struct export_sink *sink)
{
    CLEANUP(writing_clear)
    struct writing w = { .op = op,
                         .services = services,
                         .statement = &plan->statement,
                         .key = &plan->key,
                         .sink = sink,
                         .piece = BUF_INIT(PIECE + AUDIT_LINE_MAX),
                         .out = BUF_INIT(2 * (PIECE + AUDIT_LINE_MAX)) };
    TRY(svc_pkey_new(fips_libctx(), &plan->key.ref, plan->key.spki, &w.pkey));
    return plan->statement.shape == AUDIT_JWS ? write_bundle(&w) : write_stream(&w);
}

static struct fault into_buf(void *arg, struct span bytes)
{
    return buf_put(arg, bytes);
}

struct fault export_make(struct op *op, struct services *services, int64_t first, int64_t last, struct buf *compact)
{
    const struct export_wish wish = {
        .shape = AUDIT_JWS, .first = first, .last = last, .from = INT64_MIN, .to = INT64_MAX
    };
    struct export_plan plan;
    TRY(export_prepare(op, services, &wish, &plan));
    return export_write(op, services, &plan, &(struct export_sink){ into_buf, compact });
}
