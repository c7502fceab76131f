/* A certificate as somebody hands it in: one, whole, in its one encoding, and what it says. */
#include "api/inventory/certificates.h"
#include "api/inventory/crypto.h"

#include "appliance/base/codec.h"
#include "appliance/base/crypto.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <time.h>

#define NAME_MAX_LEN 4096
#define SERIAL_BITS  512 /* RFC 5280 4.1.2.2 has 160; others' certificates have more */
#define PEM_BEGIN    "-----BEGIN CERTIFICATE-----"
#define PEM_END      "-----END CERTIFICATE-----"
#define PEM_LINE_MAX 76

static struct fault refused(struct op *op, const char *pointer, const char *what)
{
    char cause[160];
    crypto_last_error(cause, sizeof(cause));
    struct fault fault = op_fail_field(op, FAULT(JSON_FIELD), pointer, "%s: %s", pointer, what);
    op_note_log(op, "certificate: %s", cause);
    return fault;
}

static struct fault name_text(struct op *op, const X509_NAME *name, const char **ret_text)
{
    char *at = NULL;
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new(BIO_s_mem());
    REQUIRE(bio != NULL, NO_MEMORY);
    REQUIRE(X509_NAME_print_ex(bio, name, 0, XN_FLAG_RFC2253) >= 0, CRYPTO);
    long len = BIO_get_mem_data(bio, &at);
    REQUIRE(len >= 0 && len <= NAME_MAX_LEN, TOO_LARGE);
    return arena_text(op->arena, span_of(at, (size_t)len), ret_text);
}

static bool time_of(const ASN1_TIME *time, utc_us *ret_time)
{
    struct tm parts = { 0 };
    if (ASN1_TIME_to_tm(time, &parts) != 1) {
        return false;
    }
    *ret_time = (utc_us)timegm(&parts) * US_PER_S;
    return true;
}

static struct fault serial_text(struct op *op, X509 *certificate, const char **ret_text)
{
    CLEANUP(BN_freep) BIGNUM *number = ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate), NULL);
    REQUIRE(number != NULL && BN_num_bits(number) <= SERIAL_BITS, CRYPTO);
    char *hex = BN_bn2hex(number);
    REQUIRE(hex != NULL, NO_MEMORY);
    for (char *at = hex; *at != '\0'; at++) {
        *at = (char)(*at >= 'A' && *at <= 'F' ? *at + ('a' - 'A') : *at);
    }
    struct fault fault = arena_text(op->arena, span_text(hex), ret_text);
    OPENSSL_free(hex);
    return fault;
}

/* DER has one encoding of a value (X.690 10): what OpenSSL writes for it has to be what came. */
static bool is_der(X509 *certificate, struct span der)
{
    unsigned char *again = NULL;
    int len = i2d_X509(certificate, &again);
    bool same = len >= 0 && span_equal(span_of(again, (size_t)len), der);
    OPENSSL_free(again);
    return same;
}

static struct fault read_facts(struct op *op, X509 *certificate, const char *pointer, struct certificate_facts *facts)
{
    if ((X509_get_extension_flags(certificate) & EXFLAG_INVALID) != 0) {
        return refused(op, pointer, "its extensions are malformed");
    }
    if (X509_get0_pubkey(certificate) == NULL) {
        ERR_clear_error(); /* an algorithm that is not known here: the certificate is one all the same */
    }
    if (FAULTED(name_text(op, X509_get_subject_name(certificate), &facts->subject)) ||
        FAULTED(name_text(op, X509_get_issuer_name(certificate), &facts->issuer))) {
        return refused(op, pointer, "its subject or issuer cannot be read, or is longer than 4096 bytes");
    }
    if (!time_of(X509_get0_notBefore(certificate), &facts->not_before) ||
        !time_of(X509_get0_notAfter(certificate), &facts->not_after) || facts->not_after < facts->not_before) {
        return refused(op, pointer, "its validity cannot be read");
    }
    if (FAULTED(serial_text(op, certificate, &facts->serial))) {
        return refused(op, pointer, "its serial number is no number of at most 512 bits");
    }
    return OK;
}

struct fault certificate_read(struct op *op, struct span der, const char *pointer, struct certificate_facts *ret_facts)
{
    struct certificate_facts facts = { 0 };
    const unsigned char *at = der.at;
    if (der.len == 0 || der.len > CERTIFICATE_DER_MAX) {
        return refused(op, pointer, "must be a certificate of at most 65536 bytes");
    }
    X509 *made = X509_new_ex(crypto_context(), NULL);
    REQUIRE(made != NULL, NO_MEMORY);
    if (d2i_X509(&made, &at, (long)der.len) == NULL) { /* which has freed it */
        return refused(op, pointer, "is no X.509 certificate in DER");
    }
    CLEANUP(X509_freep) X509 *certificate = made;
    if (at != der.at + der.len) {
        return refused(op, pointer, "bytes follow behind the certificate");
    }
    if (!is_der(certificate, der)) {
        return refused(op, pointer, "is BER, not DER");
    }
    struct fault fault = read_facts(op, certificate, pointer, &facts);
    ERR_clear_error();
    TRY(fault);
    *ret_facts = facts;
    return OK;
}

static struct fault plain_serial(struct op *op, struct span bytes, const char **ret_text)
{
    char text[SERIAL_BITS / 4 + 1] = "0";
    REQUIRE(bytes.len <= SERIAL_BITS / 8, TOO_LARGE);
    if (bytes.len > 0) {
        hex_text(bytes, text, sizeof(text));
    }
    return arena_text(op->arena, span_text(text), ret_text);
}

/* The same as OpenSSL reads it, of what has its plain form; false: it has not. */
static bool describe_plain(struct op *op, struct span der, struct certificate_facts *facts)
{
    char subject[NAME_MAX_LEN + 1], issuer[NAME_MAX_LEN + 1];
    struct crypto_plain plain;
    if (!crypto_read_certificate(der, &plain) || !crypto_read_name(plain.subject, subject, sizeof(subject)) ||
        !crypto_read_name(plain.issuer, issuer, sizeof(issuer)) ||
        FAULTED(plain_serial(op, plain.serial, &facts->serial))) {
        return false;
    }
    IGNORE(arena_text(op->arena, span_text(subject), &facts->subject));
    IGNORE(arena_text(op->arena, span_text(issuer), &facts->issuer));
    facts->not_before = plain.not_before;
    facts->not_after = plain.not_after;
    return true;
}

static void describe_by_openssl(struct op *op, struct span der, struct certificate_facts *facts)
{
    const unsigned char *at = der.at;
    CLEANUP(X509_freep) X509 *certificate = der.len > 0 ? d2i_X509(NULL, &at, (long)der.len) : NULL;
    if (certificate != NULL) {
        IGNORE(name_text(op, X509_get_subject_name(certificate), &facts->subject));
        IGNORE(name_text(op, X509_get_issuer_name(certificate), &facts->issuer));
        IGNORE(serial_text(op, certificate, &facts->serial));
        (void)time_of(X509_get0_notBefore(certificate), &facts->not_before);
        (void)time_of(X509_get0_notAfter(certificate), &facts->not_after);
    }
    ERR_clear_error();
}

void certificate_describe(struct op *op, struct span der, struct certificate_facts *ret_facts)
{
    struct certificate_facts facts = { .subject = "", .issuer = "", .serial = "" };
    if (!describe_plain(op, der, &facts)) {
        describe_by_openssl(op, der, &facts);
    }
    *ret_facts = facts;
}

static struct span trim(struct span text)
{
    while (text.len > 0 && strchr(" \t\r\n", text.at[0]) != NULL && text.at[0] != '\0') {
        text.at++, text.len--;
    }
    while (text.len > 0 && strchr(" \t\r\n", text.at[text.len - 1]) != NULL && text.at[text.len - 1] != '\0') {
        text.len--;
    }
    return text;
}

static bool take(struct span *text, const char *word)
{
    size_t len = strlen(word);
    if (text->len < len || memcmp(text->at, word, len) != 0) {
        return false;
    }
    text->at += len, text->len -= len;
    return true;
}

/* One line without its end, "\n" or "\r\n"; false when there is no end. */
static bool take_line(struct span *text, struct span *ret_line)
{
    const uint8_t *end = text->len > 0 ? memchr(text->at, '\n', text->len) : NULL;
    if (end == NULL) {
        return false;
    }
    size_t len = (size_t)(end - text->at);
    *ret_line = span_of(text->at, len > 0 && text->at[len - 1] == '\r' ? len - 1 : len);
    text->at += len + 1, text->len -= len + 1;
    return true;
}

struct fault certificate_unwrap(struct op *op, const char *pem, const char *pointer, struct span *ret_der)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(CERTIFICATE_PEM_MAX);
    CLEANUP(buf_free) struct buf der = BUF_INIT(CERTIFICATE_DER_MAX);
    struct span rest = trim(span_text(pem)), line;
    if (!take(&rest, PEM_BEGIN) || !take_line(&rest, &line) || line.len != 0) {
        return refused(op, pointer, "must begin with " PEM_BEGIN);
    }
    while (!take(&rest, PEM_END)) {
        if (!take_line(&rest, &line) || line.len == 0 || line.len > PEM_LINE_MAX) {
            return refused(op, pointer, "must be lines of base64 up to " PEM_END);
        }
        TRY(buf_put(&text, line));
    }
    if (rest.len != 0) {
        return refused(op, pointer, "must be one certificate: something follows behind its end");
    }
    if (FAULTED(base64_decode(buf_span(&text), &der))) {
        return refused(op, pointer, "is not base64 between its first and last line, or longer than 65536 bytes");
    }
    return arena_copy(op->arena, buf_span(&der), ret_der);
}
