/* rooms: inventory */
/*
 * A certificate, a name and a public key read without OpenSSL. Oracle: OpenSSL. Of what it takes for a certificate both
 * say the same; what is read as a name or a key is what it makes of it.
 */
#include "api/inventory/crypto.h"
#include "appliance/base/crypto.h"

#include <openssl/err.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static bool is_certificate(struct span der)
{
    const unsigned char *at = der.at;
    CLEANUP(X509_freep) X509 *certificate = d2i_X509(NULL, &at, (long)der.len);
    ERR_clear_error();
    return certificate != NULL;
}

static void check_certificate(struct span der)
{
    static struct crypto_parsed is, want;
    crypto_parse(der, &is);
    BUG_IF(ERR_peek_error() != 0);
    if (is_certificate(der)) {
        crypto_parse_by_openssl(der, &want);
        BUG_IF(is.algorithm != want.algorithm || is.not_before != want.not_before);
        BUG_IF(strcmp(is.subject, want.subject) != 0 || strcmp(is.issuer, want.issuer) != 0);
    }
}

static void check_name(struct span der)
{
    char is[4096], want[4096];
    const unsigned char *at = der.at;
    if (!crypto_read_name(der, is, sizeof(is))) {
        BUG_IF(is[0] != '\0');
        return;
    }
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new(BIO_s_mem());
    X509_NAME *name = d2i_X509_NAME(NULL, &at, (long)der.len);
    BUG_IF(bio == NULL || name == NULL || X509_NAME_print_ex(bio, name, 0, XN_FLAG_RFC2253) < 0);
    int said = BIO_read(bio, want, sizeof(want) - 1);
    want[said > 0 ? said : 0] = '\0';
    BUG_IF(strcmp(is, want) != 0);
    X509_NAME_free(name);
}

static void check_key(struct span der)
{
    const struct crypto_algorithm *algorithm = NULL;
    BUG_IF(crypto_read_spki(der, &algorithm) && algorithm != crypto_algorithm_by_openssl(der));
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct span der = span_of(bytes, len);
    struct crypto_plain plain;
    check_certificate(der);
    check_name(der);
    check_key(der);
    if (crypto_read_certificate(der, &plain)) {
        check_name(plain.subject);
        check_key(plain.spki);
    }
    return 0;
}
