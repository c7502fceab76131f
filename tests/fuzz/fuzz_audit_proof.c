/* rooms: svc-verify */
/*
 * Signed heads and proofs of the audit trail, as outside bytes. Oracles: what a reader takes it prints again byte for
 * byte, with numbers that fit one another; nothing verifies (nobody has the pinned key), a refusal has words, and
 * nothing is called good on the way.
 */
#include "api/audit/verify_proof.h"

#include <openssl/err.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#define KEY                                                  \
    "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\","          \
    "\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\"," \
    "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\"}]}"

static struct op *op;
static struct jwk_set keys;
static struct buf again = BUF_INIT(AUDIT_PROOF_FILE_MAX);

static void fresh(void)
{
    op->note = (struct fault_note){ 0 };
    arena_clear(op->arena);
    buf_clear(&again);
}

static void check_readers(struct span bytes)
{
    struct audit_head head;
    struct audit_inclusion inclusion;
    struct audit_consistency consistency;
    if (!FAULTED(audit_head_read(op, bytes, &head))) {
        BUG_IF(head.generation < 1 || head.tree_size < 0 || head.tenant.text[0] == '\0');
        BUG_IF(FAULTED(audit_head_print(&head, &again)) || !span_equal(buf_span(&again), bytes));
    } else {
        BUG_IF(!op->note.set);
    }
    fresh();
    if (!FAULTED(audit_inclusion_read(op, bytes, &inclusion))) {
        BUG_IF(inclusion.sequence < 1 || inclusion.sequence > inclusion.tree_size);
        BUG_IF(inclusion.proof.count > AUDIT_PROOF_MAX || inclusion.record.len == 0);
        BUG_IF(FAULTED(audit_inclusion_print(&inclusion, &again)) || !span_equal(buf_span(&again), bytes));
    } else {
        BUG_IF(!op->note.set);
    }
    fresh();
    if (!FAULTED(audit_consistency_read(op, bytes, &consistency))) {
        BUG_IF(consistency.first < 0 || consistency.first > consistency.second);
        BUG_IF(FAULTED(audit_consistency_print(&consistency, &again)) || !span_equal(buf_span(&again), bytes));
    } else {
        BUG_IF(!op->note.set);
    }
    fresh();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (op == NULL) {
        BUG_IF(FAULTED(audit_verify_op(AUDIT_PROOF_FILE_MAX, &op)));
        BUG_IF(FAULTED(jwk_set_parse(op, span_text(KEY), &keys)));
    }
    struct audit_pins pins = { .keys = &keys };
    struct audit_proof_verdict verdict;
    fresh();
    check_readers(span_of(bytes, len));
    BUG_IF(!FAULTED(audit_proof_verify(op, span_of(bytes, len), &pins, span_of(bytes, len), &verdict)));
    BUG_IF(verdict.reason[0] == '\0' || verdict.signature_good || verdict.proof_good || verdict.kept_good);
    ERR_clear_error();
    return 0;
}
