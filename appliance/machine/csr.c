#include "appliance/machine/csr.h"

#include "appliance/base/crypto.h"
#include "appliance/base/file.h"
#include "appliance/machine/provision_store.h"
#include "appliance/stores/folder.h"
#include "appliance/stores/process.h"

#include <arpa/inet.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <unistd.h>

#define NAMES_TEXT  8192
#define CHAIN_COUNT 8

DEFINE_FREEP(X509_REQ, X509_REQ_free)
DEFINE_FREEP(X509_EXTENSION, X509_EXTENSION_free)

static void extensions_freep(STACK_OF(X509_EXTENSION) * *stack)
{
    sk_X509_EXTENSION_pop_free(*stack, X509_EXTENSION_free);
    *stack = NULL;
}

/* ---- keys and requests ---- */

static struct fault take_bio(BIO *bio, struct buf *out)
{
    char *at = NULL;
    long len = BIO_get_mem_data(bio, &at);
    REQUIRE(len > 0 && at != NULL, CRYPTO);
    return buf_put(out, span_of(at, (size_t)len));
}

struct fault csr_key_new(struct buf *key_pem)
{
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = EVP_PKEY_Q_keygen(crypto_context(), NULL, "EC", "P-256");
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new(BIO_s_secmem());
    REQUIRE(key != NULL && bio != NULL && PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) == 1,
            CRYPTO);
    return take_bio(bio, key_pem);
}

static EVP_PKEY *key_of(struct span pem)
{
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new_mem_buf(pem.at, (int)pem.len);
    return bio != NULL ? PEM_read_bio_PrivateKey_ex(bio, NULL, NULL, NULL, crypto_context(), NULL) : NULL;
}

static bool is_address(const char *name)
{
    struct in6_addr ignored;
    return inet_pton(AF_INET, name, &ignored) == 1 || inet_pton(AF_INET6, name, &ignored) == 1;
}

static bool push(STACK_OF(X509_EXTENSION) * stack, int nid, const char *value)
{
    X509V3_CTX context;
    X509V3_set_ctx(&context, NULL, NULL, NULL, NULL, 0);
    X509V3_set_ctx_nodb(&context);
    CLEANUP(X509_EXTENSION_freep) X509_EXTENSION *made = X509V3_EXT_conf_nid(NULL, &context, nid, value);
    if (made == NULL || sk_X509_EXTENSION_push(stack, made) <= 0) {
        return false;
    }
    made = NULL;
    return true;
}

static struct fault add_extensions(X509_REQ *request, const char *const *names)
{
    CLEANUP(buf_free) struct buf san = BUF_INIT(NAMES_TEXT);
    const char *text = NULL;
    for (size_t i = 0; names[i] != NULL; i++) {
        TRY(buf_printf(&san, "%s%s:%s", i > 0 ? "," : "", is_address(names[i]) ? "IP" : "DNS", names[i]));
    }
    TRY(buf_cstr(&san, &text));
    CLEANUP(extensions_freep) STACK_OF(X509_EXTENSION) *stack = sk_X509_EXTENSION_new_null();
    REQUIRE(stack != NULL && push(stack, NID_subject_alt_name, text) &&
                push(stack, NID_key_usage, "critical,digitalSignature") &&
                push(stack, NID_ext_key_usage, "serverAuth") && X509_REQ_add_extensions(request, stack) == 1,
            CRYPTO);
    return OK;
}

struct fault csr_print(struct op *op, const char *const *names, struct span key_pem, struct buf *pem)
{
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = key_of(key_pem);
    CLEANUP(X509_REQ_freep) X509_REQ *request = X509_REQ_new_ex(crypto_context(), NULL);
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new(BIO_s_mem());
    if (key == NULL || request == NULL || bio == NULL) {
        return crypto_fail(op, "the key of the certificate request cannot be used");
    }
    /* RFC 2986 4.1. A common name holds at most 64 characters; the names that count are in the extension. */
    X509_NAME *subject = X509_REQ_get_subject_name(request);
    bool done =
        X509_REQ_set_version(request, X509_REQ_VERSION_1) == 1 && X509_REQ_set_pubkey(request, key) == 1 &&
        X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_UTF8, (const unsigned char *)names[0], -1, -1, 0) == 1;
    if (!done || FAULTED(add_extensions(request, names)) || X509_REQ_sign(request, key, EVP_sha256()) <= 0 ||
        PEM_write_bio_X509_REQ(bio, request) != 1) {
        return crypto_fail(op, "the certificate request cannot be made");
    }
    return take_bio(bio, pem);
}

/* ---- the site's certificate ---- */

static void chain_freep(STACK_OF(X509) * *chain)
{
    sk_X509_pop_free(*chain, X509_free);
    *chain = NULL;
}

static struct fault bad(struct op *op, const char *what)
{
    char ignored[8];
    crypto_last_error(ignored, sizeof(ignored));
    return op_fail(op, FAULT(BAD_ARGUMENT), "certificate refused: %s", what);
}

static struct fault read_chain(struct op *op, struct span pem, STACK_OF(X509) * chain)
{
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new_mem_buf(pem.at, (int)pem.len);
    REQUIRE(bio != NULL, NO_MEMORY);
    while (true) {
        CLEANUP(X509_freep) X509 *one = X509_new_ex(crypto_context(), NULL);
        REQUIRE(one != NULL, NO_MEMORY);
        if (PEM_read_bio_X509(bio, &one, NULL, NULL) == NULL) {
            break; /* what it freed is NULL now */
        }
        if (sk_X509_num(chain) == CHAIN_COUNT) {
            return bad(op, "more than 8 certificates");
        }
        REQUIRE(sk_X509_push(chain, one) > 0, NO_MEMORY);
        one = NULL;
    }
    unsigned long error = ERR_peek_last_error();
    if (ERR_GET_REASON(error) != PEM_R_NO_START_LINE || sk_X509_num(chain) == 0) {
        return bad(op, "not a chain of certificates in PEM form");
    }
    return OK;
}

static struct fault check_names(struct op *op, X509 *leaf, const char *const *names)
{
    for (size_t i = 0; names[i] != NULL; i++) {
        int match = is_address(names[i])
                        ? X509_check_ip_asc(leaf, names[i], 0)
                        : X509_check_host(leaf, names[i], 0, X509_CHECK_FLAG_NEVER_CHECK_SUBJECT, NULL);
        if (match != 1) {
            return op_fail(op, FAULT(BAD_ARGUMENT),
                           "certificate refused: it is not good for %s, a name of this "
                           "machine",
                           names[i]);
        }
    }
    return OK;
}

static struct fault check_chain(struct op *op, STACK_OF(X509) * chain)
{
    X509 *leaf = sk_X509_value(chain, 0);
    if (X509_cmp_current_time(X509_get0_notAfter(leaf)) <= 0) {
        return bad(op, "it has expired");
    }
    if (X509_cmp_current_time(X509_get0_notBefore(leaf)) >= 0) {
        return bad(op, "it is not valid yet by this machine's clock");
    }
    if (X509_check_purpose(leaf, X509_PURPOSE_SSL_SERVER, 0) != 1) {
        return bad(op, "it is not for a TLS server");
    }
    for (int i = 0; i + 1 < sk_X509_num(chain); i++) {
        X509 *issuer = sk_X509_value(chain, i + 1);
        EVP_PKEY *key = X509_get0_pubkey(issuer);
        if (X509_check_issued(issuer, sk_X509_value(chain, i)) != X509_V_OK || key == NULL ||
            X509_verify(sk_X509_value(chain, i), key) != 1) {
            return bad(op, "each certificate must be issued by the one behind it");
        }
    }
    return OK;
}

struct fault csr_check(struct op *op, const char *const *names, struct span key_pem, struct span chain_pem)
{
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = key_of(key_pem);
    CLEANUP(chain_freep) STACK_OF(X509) *chain = sk_X509_new_null();
    if (key == NULL || chain == NULL) {
        return crypto_fail(op, "the key of the listener cannot be read");
    }
    ERR_clear_error();
    TRY(read_chain(op, chain_pem, chain));
    if (X509_check_private_key(sk_X509_value(chain, 0), key) != 1) {
        return bad(op, "the first certificate does not belong to this machine's request");
    }
    TRY(check_names(op, sk_X509_value(chain, 0), names));
    return check_chain(op, chain);
}
