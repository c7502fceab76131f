/* rooms: cli */
/*
 * A Sigstore bundle of anybody. The corpus holds true bundles of a certificate authority, a log and a time-stamping
 * authority that nobody has the keys of any more; the trusted root here names others. Oracles: nothing is ever
 * believed, and a refusal has its reason; what was read and written is read again as the same.
 */
#include "api/cli/bundle.h"
#include "appliance/base/codec.h"

#include <openssl/err.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

/* A P-256 key whose private half was thrown away: of the log, and pinned. */
static const char spki_text[] = "MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE4eZMqqx5iJRFGotcy6YxY8DNSPVcx84rM21PzUFUNK/y"
                                "91Ikfd6e1nNv3bAcyLIHnxoX7hBsX8SbCi/SckzdGA==";
/* Its self-signed certificate: the only authority. */
static const char root_text[] =
    "MIIBhjCCASugAwIBAgIUS+4q/F+/Gmvj6Zg1H/O6q3SPIg8wCgYIKoZIzj0EAwIwDDEKMAgGA1UEAwwBdDAeFw0yNjExMjEwNTExMDRaFw0yNjEy"
    "MjEwNTExMDRaMAwxCjAIBgNVBAMMAXQwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAATh5kyqrHmIlEUai1zLpjFjwM1I9VzHziszbU/NQVQ0r/L3"
    "UiR93p7Wc2/dsBzIsgefGhfuEGxfxJsKL9JyTN0Yo2swaTAdBgNVHQ4EFgQUJ0hLWstKcGAtsPWPJp3nuloBOXswHwYDVR0jBBgwFoAUJ0hLWstK"
    "cGAtsPWPJp3nuloBOXswDwYDVR0TAQH/BAUwAwEB/zAWBgNVHSUBAf8EDDAKBggrBgEFBQcDCDAKBggqhkjOPQQDAgNJADBGAiEA4ECIPcIFH+ix"
    "vo4R8x/T9kc/NNnuGZ28U2QTHQ3v/goCIQCtDdMrXx59Z8K3jDAVN2/x/YDUvKqC4QqI7b+DVKrmrA==";

static struct buf spki_bytes = BUF_INIT(4096), root_bytes = BUF_INIT(4096);
static struct trusted_root root;

static void set_up(void)
{
    BUG_IF(FAULTED(base64_decode(span_text(spki_text), &spki_bytes)));
    BUG_IF(FAULTED(base64_decode(span_text(root_text), &root_bytes)));
    root.logs[root.log_count++] = (struct tlog_key){ .spki = buf_span(&spki_bytes) };
    const struct trusted_authority authority = { .chain = { .at = { buf_span(&root_bytes) }, .count = 1 } };
    root.authorities[root.authority_count++] = authority;
    root.stampers[root.stamper_count++] = authority;
}

static void refuse(struct op *op, const struct bundle *bundle, const struct bundle_expect *expect)
{
    struct bundle_verdict verdict;
    op->note = (struct fault_note){ 0 };
    BUG_IF(!FAULTED(bundle_verify(op, bundle, expect, &verdict)));
    BUG_IF(!op->note.set || op->note.detail[0] == '\0');
}

static void round_trip(struct op *op, const struct bundle *bundle)
{
    CLEANUP(buf_free) struct buf first = BUF_INIT((size_t)1 << 20), second = BUF_INIT((size_t)1 << 20);
    struct bundle again;
    for (size_t i = 0; i < bundle->entry_count; i++) {
        if (bundle->entries[i].checkpoint == NULL) {
            return; /* of an older version, which is not written */
        }
    }
    BUG_IF(FAULTED(bundle_print(bundle, &first)));
    op->note = (struct fault_note){ 0 };
    BUG_IF(FAULTED(bundle_parse(op, buf_span(&first), &again)));
    BUG_IF(FAULTED(bundle_print(&again, &second)));
    BUG_IF(!span_equal(buf_span(&first), buf_span(&second)));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    static struct op *op;
    struct bundle bundle;
    if (op == NULL) {
        BUG_IF(FAULTED(op_new("fuzz", (struct tenant_id){ "default" }, 1 << 30, &op)));
        set_up();
    }
    op->note = (struct fault_note){ 0 };
    arena_clear(op->arena);
    if (len > 65536) {
        return 0;
    }
    if (FAULTED(bundle_parse(op, span_of(bytes, len), &bundle))) {
        BUG_IF(!op->note.set || op->note.detail[0] == '\0');
        return 0;
    }
    BUG_IF(bundle.hash == NULL || bundle.signature.len == 0 || bundle_hash_name(bundle.hash) == NULL);
    round_trip(op, &bundle);
    refuse(op, &bundle, &(struct bundle_expect){ .digest = bundle.digest, .key = buf_span(&spki_bytes) });
    refuse(op, &bundle,
           &(struct bundle_expect){ .digest = bundle.digest, .key = buf_span(&spki_bytes), .root = &root });
    refuse(op, &bundle,
           &(struct bundle_expect){ .digest = bundle.digest, .root = &root, .identity = "i", .issuer = "i" });
    ERR_clear_error();
    return 0;
}
