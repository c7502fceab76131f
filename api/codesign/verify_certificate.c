#include "api/codesign/verify.h"

#include "appliance/base/crypto.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <time.h>

static void forget_errors(void)
{
    char reason[256];
    crypto_last_error(reason, sizeof(reason));
}

static struct fault refuse(struct op *op, const char *what)
{
    forget_errors();
    return op_fail(op, FAULT(BAD_ARGUMENT), "%s", what);
}

struct fault certificate_parse(struct op *op, struct span der, X509 **ret_certificate)
{
    const unsigned char *at = der.at;
    CLEANUP(X509_freep) X509 *certificate = X509_new_ex(crypto_context(), NULL);
    REQUIRE(certificate != NULL, NO_MEMORY);
    X509 *into = certificate;
    if (der.len == 0 || der.len > INT32_MAX || d2i_X509(&into, &at, (long)der.len) == NULL) {
        certificate = into; /* d2i has freed what it was given */
        return refuse(op, "a certificate does not decode");
    }
    if ((size_t)(at - der.at) != der.len) {
        return refuse(op, "bytes follow a certificate");
    }
    *ret_certificate = TAKE(certificate);
    return OK;
}

static struct fault keep_der(struct op *op, unsigned char *der, int len, struct span *ret_der)
{
    struct fault fault = len > 0 ? arena_copy(op->arena, span_of(der, (size_t)len), ret_der) : FAULT(CRYPTO);
    OPENSSL_free(der);
    return fault;
}

struct fault chain_from_pem(struct op *op, struct span pem, const char *what, struct chain *ret_chain)
{
    struct chain chain = { .count = 0 };
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new_mem_buf(pem.len > 0 ? (const void *)pem.at : "", (int)pem.len);
    REQUIRE(bio != NULL && pem.len <= INT32_MAX, NO_MEMORY);
    for (;;) {
        char *name = NULL, *header = NULL;
        unsigned char *bytes = NULL;
        long len = 0;
        if (PEM_read_bio(bio, &name, &header, &bytes, &len) != 1) {
            break;
        }
        bool wanted = strcmp(name, PEM_STRING_X509) == 0 && chain.count < CHAIN_MAX;
        OPENSSL_free(name);
        OPENSSL_free(header);
        if (!wanted) {
            OPENSSL_free(bytes);
            return op_fail(op, FAULT(BAD_ARGUMENT), "%s: nothing but certificates, and at most %d, may be in it", what,
                           CHAIN_MAX);
        }
        TRY(keep_der(op, bytes, (int)len, &chain.at[chain.count]));
        CLEANUP(X509_freep) X509 *certificate = NULL;
        TRY(certificate_parse(op, chain.at[chain.count], &certificate));
        chain.count++;
    }
    forget_errors(); /* "no start line" is how PEM ends */
    if (chain.count == 0) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "%s: no PEM certificate in it", what);
    }
    *ret_chain = chain;
    return OK;
}

struct fault chain_to_pem(const struct chain *chain, struct buf *out)
{
    for (size_t i = 0; i < chain->count; i++) {
        CLEANUP(BIO_free_allp) BIO *bio = BIO_new(BIO_s_mem());
        char *text = NULL;
        REQUIRE(bio != NULL, NO_MEMORY);
        REQUIRE(PEM_write_bio(bio, PEM_STRING_X509, "", chain->at[i].at, (long)chain->at[i].len) > 0, CRYPTO);
        long len = BIO_get_mem_data(bio, &text);
        TRY(buf_put(out, span_of(text, (size_t)len)));
    }
    return OK;
}

struct fault certificate_spki(struct op *op, struct span der, struct span *ret_spki)
{
    CLEANUP(X509_freep) X509 *certificate = NULL;
    unsigned char *spki = NULL;
    TRY(certificate_parse(op, der, &certificate));
    int len = i2d_X509_PUBKEY(X509_get_X509_PUBKEY(certificate), &spki);
    return keep_der(op, spki, len, ret_spki);
}

static struct fault time_of(const ASN1_TIME *asn1, utc_us *ret_time)
{
    struct tm tm = { 0 };
    REQUIRE(asn1 != NULL && ASN1_TIME_to_tm(asn1, &tm) == 1, BAD_ARGUMENT);
    *ret_time = (utc_us)timegm(&tm) * US_PER_S;
    return OK;
}

struct fault certificate_validity(struct op *op, struct span der, utc_us *ret_from, utc_us *ret_until)
{
    CLEANUP(X509_freep) X509 *certificate = NULL;
    utc_us from = 0, until = 0;
    TRY(certificate_parse(op, der, &certificate));
    if (FAULTED(time_of(X509_get0_notBefore(certificate), &from)) ||
        FAULTED(time_of(X509_get0_notAfter(certificate), &until))) {
        return refuse(op, "a certificate's validity does not decode");
    }
    *ret_from = from;
    *ret_until = until;
    return OK;
}

bool certificate_is_authority(struct op *op, struct span der)
{
    CLEANUP(X509_freep) X509 *certificate = NULL;
    bool is = !FAULTED(certificate_parse(op, der, &certificate)) && X509_check_ca(certificate) > 0;
    forget_errors();
    return is;
}
