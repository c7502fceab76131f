/* rooms: tsa */
/*
 * The offline verifier of time stamps on bytes of anybody, against a pinned root whose key nobody here has. Oracles: it
 * never believes anything, a refusal has its reason; what can be inspected has all its members.
 */
#include "api/tsa/verify.h"

#include <openssl/err.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static const char root[] = "-----BEGIN CERTIFICATE-----\n"
                           "MIIBTjCB9qADAgECAhRhAAAAAAAAAAAAAAAAAAAAAAAAATAKBggqhkjOPQQDAjAP\n"
                           "-----END CERTIFICATE-----\n";

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static struct op *op;
    static const uint8_t digest[32];
    if (op == NULL) {
        BUG_IF(FAULTED(op_new("fuzz", (struct tenant_id){ "default" }, 1 << 30, &op)));
    }
    struct tst_expect expect = { .hash = "sha256", .digest = SPAN_ARRAY(digest), .roots_pem = span_text(root) };
    struct tst_info info = { 0 };
    op->note = (struct fault_note){ 0 };
    arena_clear(op->arena);
    if (!FAULTED(tst_inspect(op, span_of(bytes, len), &info))) {
        BUG_IF(info.policy == NULL || info.serial == NULL || info.hash == NULL || info.imprint.len < 32);
        BUG_IF((info.signer == NULL) != (info.certificate.len == 0));
    }
    op->note = (struct fault_note){ 0 };
    BUG_IF(!FAULTED(tst_verify(op, span_of(bytes, len), &expect, &info)));
    BUG_IF(!op->note.set || op->note.detail[0] == '\0');
    ERR_clear_error();
    return 0;
}
