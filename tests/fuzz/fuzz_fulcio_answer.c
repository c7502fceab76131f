/* rooms: ca */
/*
 * What Fulcio answers, up to the verdict. Oracles: nobody without the key of the pinned root gets a certificate in, and
 * every refusal is Fulcio's fault and says why.
 */
#include "tests/unit/ca/fulcio_fake.h"

#include <openssl/err.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#define NOW_S INT64_C(1800000000)

static struct op *op;
static struct fake_ca ca;
static struct buf roots = BUF_INIT(65536);
static struct buf spki = BUF_INIT(SPKI_MAX);

static void start(void)
{
    unsigned char *der = NULL;
    EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    BUG_IF(FAULTED(op_new("fuzz", (struct tenant_id){ "default" }, 1 << 30, &op)));
    fake_ca_new(&ca, NOW_S);
    fake_pem(ca.root, &roots);
    int len = i2d_PUBKEY(key, &der);
    BUG_IF(FAULTED(buf_put(&spki, span_of(der, (size_t)len))));
    OPENSSL_free(der);
    EVP_PKEY_free(key);
}

static void check_refused(struct fault fault)
{
    BUG_IF(fault.code != FAULT_FULCIO_REFUSED || !op->note.set || op->note.detail[0] == '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (op == NULL) {
        start();
    }
    struct span sent[CA_CHAIN_MAX], *chain = NULL;
    size_t count = 0, verified = 0;
    op->note = (struct fault_note){ 0 };
    arena_clear(op->arena);
    struct fault fault = fulcio_answer_chain(op, span_of(bytes, len), sent, &count);
    if (FAULTED(fault)) {
        check_refused(fault);
        return 0;
    }
    BUG_IF(count < 1 || count > CA_CHAIN_MAX);
    const struct keyless_subject subject = {
        .spki = buf_span(&spki), .san = "https://example.com/a", .san_kind = KEYLESS_SAN_URI, .issuer = "https://issuer"
    };
    check_refused(fulcio_verify(op, buf_span(&roots), &subject, sent, count, NOW_S * US_PER_S, &chain, &verified));
    BUG_IF(chain != NULL || ERR_peek_error() != 0);
    return 0;
}
