/* rooms: svc-verify */
/*
 * The offline verifier of audit exports on bytes of anybody: the whole of it, each shape's line parser, the reader of
 * statements, and the one-pass recogniser of records. Oracles: nothing is believed that no pinned key signed and no
 * pinned root stamped, and a refusal has words; a line that is taken apart and made again is taken apart the same; what
 * the recogniser calls canonical is canonical to json.h; the verdict does not depend on the pieces in which bytes come.
 */
#include "api/audit/verify_internal.h"
#include "appliance/base/json.h"

#include <openssl/err.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#define KEY                                                       \
    "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"kid\":\"k\"," \
    "\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\","      \
    "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}]}"

static struct op *op;
static struct jwk_set keys;

static void begin(void)
{
    op->note = (struct fault_note){ 0 };
    arena_clear(op->arena);
}

struct pieces {
    struct span left;
    size_t size;
};

static struct fault read_piece(void *context, uint8_t *at, size_t size, size_t *ret_len)
{
    struct pieces *pieces = context;
    size_t len = pieces->left.len < pieces->size ? pieces->left.len : pieces->size;
    len = len < size ? len : size;
    if (len > 0) {
        memcpy(at, pieces->left.at, len);
    }
    pieces->left = span_of(pieces->left.at + len, pieces->left.len - len);
    *ret_len = len;
    return OK;
}

static struct fault verify(struct span bytes, size_t size, const struct jwk_set *pinned, struct audit_verdict *verdict)
{
    struct pieces pieces = { bytes, size };
    struct audit_source source = { .read = read_piece, .context = &pieces };
    struct audit_pins pins = { .keys = pinned, .tsa_roots = span_text("none") };
    begin();
    return audit_verify(op, &source, &pins, NULL, verdict);
}

static void judge_whole(struct span bytes)
{
    struct audit_verdict verdict, again;
    const struct jwk_set *pins[] = { &keys, NULL };
    for (size_t i = 0; i < COUNT_OF(pins); i++) {
        struct fault fault = verify(bytes, SIZE_MAX, pins[i], &verdict);
        struct fault other = verify(bytes, 7, pins[i], &again);
        BUG_IF(!FAULTED(fault) || verdict.reason[0] == '\0' || verdict.signature_good || verdict.anchor_good);
        BUG_IF(verdict.kid != NULL || fault.code != other.code || verdict.checked != again.checked);
        BUG_IF(verdict.broken_sequence != again.broken_sequence || strcmp(verdict.reason, again.reason) != 0);
    }
}

static void judge_record(struct span bytes)
{
    struct record_view view = { 0 };
    CLEANUP(buf_free) struct buf canonical = BUF_INIT(bytes.len + 64);
    size_t len = 0;
    if (record_scan(bytes, &view, &len) != SCAN_GOOD) {
        return;
    }
    BUG_IF(len > bytes.len || view.sequence < 1);
    BUG_IF(FAULTED(json_canonical(span_of(bytes.at, len), &canonical)));
    BUG_IF(!span_equal(buf_span(&canonical), span_of(bytes.at, len)));
}

static void judge_line(enum audit_shape shape, struct span bytes)
{
    struct audit_line line = { 0 }, again = { 0 };
    CLEANUP(buf_free) struct buf made = BUF_INIT(AUDIT_LINE_MAX);
    begin();
    if (FAULTED(audit_shape_take(op, shape, bytes, &line))) {
        BUG_IF(!op->note.set || op->note.detail[0] == '\0');
        return;
    }
    judge_record(line.record);
    struct fault fault = line.is_trailer ? audit_shape_trailer(shape, line.trailer, &made)
                                         : audit_shape_record(op, shape, line.record, &line.chain, &made);
    size_t ending = shape == AUDIT_CSV ? 2 : 1;
    struct record_view view = { 0 };
    size_t len = 0;
    bool plain = record_scan(line.record, &view, &len) == SCAN_GOOD && len == line.record.len;
    if (FAULTED(fault) || (!line.is_trailer && !plain)) {
        return;
    }
    BUG_IF(FAULTED(audit_shape_take(op, shape, span_of(made.at, made.len - ending), &again)));
    BUG_IF(again.is_trailer != line.is_trailer || !span_equal(again.record, line.record));
    BUG_IF(!span_equal(again.trailer, line.trailer) || memcmp(again.chain.at, line.chain.at, SHA256_LEN) != 0);
    char what[256];
    line_differs(shape, bytes, span_of(made.at, made.len - ending), what, sizeof(what));
    BUG_IF(what[0] == '\0');
}

static void judge_statement(struct span bytes)
{
    struct audit_statement statement = { 0 };
    CLEANUP(buf_free) struct buf made = BUF_INIT((size_t)1 << 20);
    begin();
    if (FAULTED(audit_statement_read(op, bytes, &statement))) {
        BUG_IF(!op->note.set);
        return;
    }
    BUG_IF(FAULTED(audit_statement_begin(&statement, &made)) || FAULTED(audit_statement_end(&statement, &made)));
    BUG_IF(!span_equal(buf_span(&made), bytes));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct span input = span_of(bytes, len);
    if (op == NULL) {
        BUG_IF(FAULTED(audit_verify_op(1 << 20, &op)));
        BUG_IF(FAULTED(jwk_set_parse(op, span_text(KEY), &keys)));
    }
    judge_whole(input);
    judge_record(input);
    judge_statement(input);
    for (int shape = AUDIT_NDJSON; shape <= AUDIT_OCSF; shape++) {
        judge_line((enum audit_shape)shape, input);
    }
    struct audit_verdict verdict;
    begin();
    IGNORE(audit_verify_payload(op, input, &verdict));
    ERR_clear_error();
    return 0;
}
