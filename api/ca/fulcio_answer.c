#include "api/ca/internal.h"
#include "appliance/base/json_view.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#define PEM_MAX 65536

static struct fault refused(struct op *op, const char *what)
{
    return op_fail(op, FAULT(FULCIO_REFUSED), "Fulcio's answer is not acceptable: %s", what);
}

struct pem_read {
    char *name, *header;
    unsigned char *data;
    long len;
};
static void pem_read_clear(struct pem_read *pem)
{
    OPENSSL_free(pem->name);
    OPENSSL_free(pem->header);
    OPENSSL_free(pem->data);
}

/* One element of "certificates": PEM of one certificate and nothing behind it. */
static struct fault read_certificate(struct op *op, const char *text, struct span *ret_der)
{
    CLEANUP(pem_read_clear) struct pem_read first = { 0 };
    CLEANUP(pem_read_clear) struct pem_read second = { 0 };
    size_t len = text != NULL ? strlen(text) : 0;
    if (len == 0 || len > PEM_MAX) {
        return refused(op, "a certificate of its chain is missing or too large");
    }
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new_mem_buf(text, (int)len);
    REQUIRE(bio != NULL, NO_MEMORY);
    bool one = PEM_read_bio(bio, &first.name, &first.header, &first.data, &first.len) == 1 &&
               strcmp(first.name, PEM_STRING_X509) == 0 && first.len > 0 &&
               PEM_read_bio(bio, &second.name, &second.header, &second.data, &second.len) != 1;
    ERR_clear_error();
    if (!one) {
        return refused(op, "an element of its chain is not one PEM certificate");
    }
    return arena_copy(op->arena, span_of(first.data, (size_t)first.len), ret_der);
}

struct fault fulcio_answer_chain(struct op *op, struct span body, struct span *ret_chain, size_t *ret_count)
{
    struct view answer, item;
    struct span chain[CA_CHAIN_MAX];
    size_t count = 0;
    if (FAULTED(view_of(op, body, &answer))) {
        return refused(op, "it is not JSON");
    }
    struct view rest = view_get(answer, "signedCertificateEmbeddedSct.chain.certificates");
    if (!view_is_there(rest)) {
        rest = view_get(answer, "signedCertificateDetachedSct.chain.certificates");
    }
    while (view_next(&rest, &item)) {
        if (count == CA_CHAIN_MAX || item.json.at[0] != '"') {
            return refused(op, "its chain is too long, or holds something else than texts");
        }
        TRY(read_certificate(op, view_text(op, item), &chain[count++]));
    }
    if (count == 0) {
        return refused(op, "it holds no certificate chain");
    }
    memcpy(ret_chain, chain, count * sizeof(*chain));
    *ret_count = count;
    return OK;
}
