/*
 * For the users of OpenSSL: handles that free themselves at the end of their scope (R13), and one border where its
 * error queue becomes a fault. Everything is fetched from crypto_context() (id.h), never from the default context by
 * accident.
 *
 *     CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = NULL;
 *     if (EVP_PKEY_up_ref(other) != 1) { return crypto_fail(op, "the key cannot be used"); }
 */
#ifndef APPLIANCE_BASE_CRYPTO_H
#define APPLIANCE_BASE_CRYPTO_H

#include "appliance/base/op.h"

#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

DEFINE_FREEP(BIO, BIO_free_all)
DEFINE_FREEP(BIGNUM, BN_free)
DEFINE_FREEP(EVP_CIPHER, EVP_CIPHER_free)
DEFINE_FREEP(EVP_CIPHER_CTX, EVP_CIPHER_CTX_free)
DEFINE_FREEP(EVP_MD, EVP_MD_free)
DEFINE_FREEP(EVP_MD_CTX, EVP_MD_CTX_free)
DEFINE_FREEP(EVP_PKEY, EVP_PKEY_free)
DEFINE_FREEP(EVP_PKEY_CTX, EVP_PKEY_CTX_free)
DEFINE_FREEP(X509, X509_free)
DEFINE_FREEP(X509_NAME, X509_NAME_free)
DEFINE_FREEP(X509_STORE, X509_STORE_free)
DEFINE_FREEP(X509_STORE_CTX, X509_STORE_CTX_free)

/* The newest error of this thread's queue as text (its reason, and the function that raised it), then the queue is
 * emptied. "" when there was none. For logs and start-up lines, never for callers of the API. */
void crypto_last_error(char *out, size_t size);
/* FAULT_CRYPTO with `what` for the caller and OpenSSL's own words for the log; empties the queue. op may be NULL. */
struct fault crypto_fail(struct op *op, const char *what);

#endif
