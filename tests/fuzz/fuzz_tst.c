/* rooms: tsa */
/*
 * The offline verifier of time stamps on bytes of anybody. The corpus holds true tokens of the pinned root, but over
 * another digest than the one expected. Oracles: nothing is ever believed, and a refusal has its reason; what can be
 * inspected has all its members.
 */
#include "api/tsa/verify.h"

#include <openssl/err.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

/* The signer of the corpus; its key was thrown away. */
static const char root[] = "-----BEGIN CERTIFICATE-----\n"
                           "MIIBhjCCASugAwIBAgIUS+4q/F+/Gmvj6Zg1H/O6q3SPIg8wCgYIKoZIzj0EAwIw\n"
                           "DDEKMAgGA1UEAwwBdDAeFw0yNjExMjEwNTExMDRaFw0yNjEyMjEwNTExMDRaMAwx\n"
                           "CjAIBgNVBAMMAXQwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATh5kyqrHmIlEUa\n"
                           "i1zLpjFjwM1I9VzHziszbU/NQVQ0r/L3UiR93p7Wc2/dsBzIsgefGhfuEGxfxJsK\n"
                           "L9JyTN0Yo2swaTAdBgNVHQ4EFgQUJ0hLWstKcGAtsPWPJp3nuloBOXswHwYDVR0j\n"
                           "BBgwFoAUJ0hLWstKcGAtsPWPJp3nuloBOXswDwYDVR0TAQH/BAUwAwEB/zAWBgNV\n"
                           "HSUBAf8EDDAKBggrBgEFBQcDCDAKBggqhkjOPQQDAgNJADBGAiEA4ECIPcIFH+ix\n"
                           "vo4R8x/T9kc/NNnuGZ28U2QTHQ3v/goCIQCtDdMrXx59Z8K3jDAVN2/x/YDUvKqC\n"
                           "4QqI7b+DVKrmrA==\n"
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
