/* rooms: inventory */
/*
 * A certificate as a user hands it in, as DER and as PEM. Oracles: what is taken has one encoding (writing it as PEM
 * and reading that gives the same bytes, and OpenSSL writes them again as they came), its facts are plain text; a
 * refusal names its place; OpenSSL's error queue is left empty.
 */
#include "api/inventory/certificates.h"
#include "appliance/base/codec.h"

#include <openssl/err.h>
#include <openssl/x509.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static struct op *op;

static void check_refusal(struct fault fault)
{
    BUG_IF(FAULTED(fault) && (fault.code != FAULT_JSON_FIELD || !op->note.set || op->note.pointer[0] == '\0'));
    BUG_IF(ERR_peek_error() != 0);
    op->note = (struct fault_note){ 0 };
}

static void check_text(const char *text)
{
    for (; *text != '\0'; text++) {
        BUG_IF(*text < ' ' || *text > '~');
    }
}

static void check_pem(struct span der)
{
    CLEANUP(buf_free) struct buf base64 = BUF_INIT(CERTIFICATE_PEM_MAX), pem = BUF_INIT(CERTIFICATE_PEM_MAX * 2);
    const char *text = NULL;
    struct span again;
    BUG_IF(FAULTED(base64_encode(der, &base64)) || FAULTED(buf_text(&pem, "-----BEGIN CERTIFICATE-----\n")));
    for (size_t at = 0; at < base64.len; at += 64) {
        size_t part = base64.len - at < 64 ? base64.len - at : 64;
        BUG_IF(FAULTED(buf_put(&pem, span_of(base64.at + at, part))) || FAULTED(buf_text(&pem, "\n")));
    }
    BUG_IF(FAULTED(buf_text(&pem, "-----END CERTIFICATE-----\n")) || FAULTED(buf_cstr(&pem, &text)));
    BUG_IF(FAULTED(certificate_unwrap(op, text, "/pem", &again)) || !span_equal(again, der));
}

static void check_taken(struct span der, const struct certificate_facts *facts)
{
    struct certificate_facts again;
    check_text(facts->subject);
    check_text(facts->issuer);
    check_text(facts->serial);
    BUG_IF(facts->not_after < facts->not_before);
    certificate_describe(op, der, &again);
    BUG_IF(strcmp(again.subject, facts->subject) != 0 || strcmp(again.serial, facts->serial) != 0 ||
           again.not_after != facts->not_after);
    check_pem(der);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (op == NULL) {
        BUG_IF(FAULTED(op_new("fuzz", (struct tenant_id){ "default" }, 1 << 30, &op)));
    }
    struct certificate_facts facts = { 0 };
    struct span der = span_of(bytes, len);
    const char *text = NULL;
    op->note = (struct fault_note){ 0 };
    arena_clear(op->arena);
    struct fault fault = certificate_read(op, der, "/der", &facts);
    check_refusal(fault);
    if (!FAULTED(fault)) {
        check_taken(der, &facts);
    }
    if (FAULTED(arena_text(op->arena, der, &text))) {
        return 0; /* a NUL inside: no text of JSON has one */
    }
    fault = certificate_unwrap(op, text, "/pem", &der);
    check_refusal(fault);
    if (!FAULTED(fault)) {
        check_refusal(certificate_read(op, der, "/der", &facts));
    }
    return 0;
}
