/* The certificate that the HTTPS listener shows. Read when the feature starts, from the file that the listener read: a
 * file that is exchanged later is shown, like it is served, from the next start on. */
#include "api/inventory/crypto.h"

#include "appliance/base/codec.h"
#include "appliance/base/crypto.h"
#include "appliance/base/file.h"
#include "appliance/base/log.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdio.h>

#define CHAIN_MAX ((size_t)1 << 20)

static struct crypto_listener listener; /* written at start, before anything is served */

const struct crypto_listener *crypto_listener(void)
{
    return &listener;
}

static struct fault read_leaf(struct span pem, struct crypto_listener *ret_listener)
{
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new_mem_buf(pem.at, (int)pem.len);
    CLEANUP(X509_freep) X509 *leaf = bio != NULL ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    unsigned char *der = NULL, *spki = NULL;
    int der_len = leaf != NULL ? i2d_X509(leaf, &der) : -1;
    int spki_len = leaf != NULL ? i2d_X509_PUBKEY(X509_get_X509_PUBKEY(leaf), &spki) : -1;
    struct crypto_listener read = { 0 };
    struct sha256 digest;
    struct fault fault =
        der_len > 0 && spki_len > 0 ? sha256_of(span_of(der, (size_t)der_len), &digest) : FAULT(CRYPTO);
    if (!FAULTED(fault)) {
        hex_text(SPAN_ARRAY(digest.at), read.fingerprint, sizeof(read.fingerprint));
        read.algorithm = crypto_algorithm_of_spki(span_of(spki, (size_t)spki_len));
        read.not_before = crypto_time(X509_get0_notBefore(leaf));
        read.not_after = crypto_time(X509_get0_notAfter(leaf));
        *ret_listener = read;
    }
    OPENSSL_free(der);
    OPENSSL_free(spki);
    ERR_clear_error();
    return fault;
}

void crypto_listener_start(const struct config *config)
{
    CLEANUP(buf_free) struct buf pem = BUF_INIT(CHAIN_MAX);
    char path[512];
    bool given = config->http_tls_certificate != NULL && config->http_tls_certificate[0] != '\0';
    (void)snprintf(path, sizeof(path), "%s/api/tls.crt", config->data_dir);
    struct fault fault = file_read(given ? config->http_tls_certificate : path, &pem);
    fault = FAULTED(fault) ? fault : read_leaf(buf_span(&pem), &listener);
    if (FAULTED(fault)) {
        listener = (struct crypto_listener){ 0 }; /* absent from the inventory, and the log says so */
        log_write(WARN, "inventory_listener_unread", LOG_TEXT("code", fault_row(fault.code)->text));
    }
}
