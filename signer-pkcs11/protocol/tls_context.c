#include "appliance/base/crypto.h"
#include "appliance/base/file.h"
#include "appliance/base/id.h"
#include "appliance/base/secret.h"
#include "signer-pkcs11/protocol/tls_internal.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#define CIPHERS "TLS_AES_256_GCM_SHA384:TLS_AES_128_GCM_SHA256"
#define GROUPS  "P-256:P-384" /* the default would offer hybrids, which are fenced */
/* PKCS#1 v1.5 is for the signatures inside certificates: TLS 1.3 has no other use for it. */
#define SIGNATURES                                                                                                   \
    "ecdsa_secp256r1_sha256:ecdsa_secp384r1_sha384:rsa_pss_rsae_sha256:rsa_pss_rsae_sha384:rsa_pss_rsae_sha512:rsa_" \
    "pkcs1_sha256:rsa_pkcs1_sha384:rsa_pkcs1_sha512"
#define SECURITY_LEVEL 2 /* 112 bits: RSA of 2048, curves of 224 */
#define DEPTH_MAX      4
#define CHAIN_MAX      ((size_t)32 << 10) /* of the peer */
#define CA_FILE_MAX    ((size_t)256 << 10)

DEFINE_FREEP(SSL_CTX, SSL_CTX_free)

/* OpenSSL's own words; its queue is empty afterwards. */
static struct fault complain(struct buf *why, const char *what, const char *file)
{
    const char *reason = ERR_reason_error_string(ERR_peek_error());
    if (why != NULL) {
        IGNORE(buf_printf(why, "%s %s: %s", what, file, reason != NULL ? reason : "not usable"));
    }
    ERR_clear_error();
    return FAULT(CONFIG);
}

static struct fault refuse(struct buf *why, const char *what, const char *file, const char *reason)
{
    if (why != NULL) {
        IGNORE(buf_printf(why, "%s %s: %s", what, file, reason));
    }
    ERR_clear_error();
    return FAULT(CONFIG);
}

/* Nothing is resumed, so that every connection is judged by the certificates of its own time. */
static bool restrict_context(SSL_CTX *context)
{
    (void)SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET |
                                           SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_CLEANSE_PLAINTEXT);
    (void)SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    (void)SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_max_cert_list(context, (long)CHAIN_MAX);
    SSL_CTX_set_read_ahead(context, 1); /* a record costs one system call instead of two */
    SSL_CTX_set_security_level(context, SECURITY_LEVEL);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, tls_verify);
    SSL_CTX_set_verify_depth(context, DEPTH_MAX);
    return SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_max_proto_version(context, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_ciphersuites(context, CIPHERS) == 1 && SSL_CTX_set1_groups_list(context, GROUPS) == 1 &&
           SSL_CTX_set1_sigalgs_list(context, SIGNATURES) == 1 && SSL_CTX_set_num_tickets(context, 0) == 1 &&
           SSL_CTX_set_max_early_data(context, 0) == 1 && SSL_CTX_set_recv_max_early_data(context, 0) == 1;
}

/* An encrypted key must not make a daemon ask a terminal. */
static int no_passphrase(char *out, int size, int rwflag, void *arg)
{
    (void)out;
    (void)size;
    (void)rwflag;
    (void)arg;
    return -1;
}

static struct fault load_key(SSL_CTX *context, const char *file, struct buf *why)
{
    CLEANUP(secret_freep) struct secret *pem = NULL;
    if (FAULTED(secret_from_file(file, &pem))) {
        return refuse(why, "signer.tls_key_file", file, "must be a readable file of this user with mode 0600");
    }
    struct span bytes = secret_span(pem);
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new_mem_buf(bytes.at, (int)bytes.len);
    REQUIRE(bio != NULL, NO_MEMORY);
    CLEANUP(EVP_PKEY_freep)
    EVP_PKEY *key = PEM_read_bio_PrivateKey_ex(bio, NULL, no_passphrase, NULL, crypto_context(), NULL);
    bool used = key != NULL && SSL_CTX_use_PrivateKey(context, key) == 1 && SSL_CTX_check_private_key(context) == 1;
    return used ? OK : complain(why, "signer.tls_key_file", file);
}

static struct fault load_certificate(SSL_CTX *context, const struct tls_settings *settings, struct buf *why)
{
    static const char what[] = "signer.tls_certificate_file";
    const char *file = settings->certificate_file;
    if (SSL_CTX_use_certificate_chain_file(context, file) != 1) {
        return complain(why, what, file);
    }
    X509 *leaf = SSL_CTX_get0_certificate(context);
    if (leaf == NULL || !tls_certificate_is_for(leaf, settings->side)) {
        return refuse(why, what, file,
                      settings->side == TLS_SERVER
                          ? "its extended key usage must have serverAuth: it is the signer's end"
                          : "its extended key usage must have clientAuth: it is the end that asks the signer");
    }
    return load_key(context, settings->key_file, why);
}

/* Every certificate of the file, each an authority; what follows the last must not be another that does not parse. */
static struct fault load_authorities(SSL_CTX *context, const char *file, struct buf *why)
{
    static const char what[] = "signer.tls_ca_file";
    CLEANUP(buf_free) struct buf pem = BUF_INIT(CA_FILE_MAX);
    struct fault read = file_read(file, &pem);
    if (FAULTED(read)) {
        return refuse(why, what, file, fault_row(read.code)->title);
    }
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new_mem_buf(pem.at, (int)pem.len);
    REQUIRE(bio != NULL, NO_MEMORY);
    X509_STORE *store = SSL_CTX_get_cert_store(context);
    size_t count = 0;
    for (;; count++) {
        CLEANUP(X509_freep) X509 *one = X509_new_ex(crypto_context(), NULL);
        REQUIRE(one != NULL, NO_MEMORY);
        if (PEM_read_bio_X509(bio, &one, no_passphrase, NULL) == NULL) {
            break;
        }
        if (X509_check_ca(one) != 1) {
            return refuse(why, what, file, "holds a certificate that is not an authority's (CA:TRUE)");
        }
        if (X509_STORE_add_cert(store, one) != 1) {
            return complain(why, what, file);
        }
    }
    if (ERR_GET_REASON(ERR_peek_last_error()) != PEM_R_NO_START_LINE) {
        return complain(why, what, file);
    }
    ERR_clear_error();
    return count > 0 ? OK : refuse(why, what, file, "holds no certificate in PEM form");
}

struct fault tls_context_make(const struct tls_settings *settings, struct buf *why, SSL_CTX **ret_context)
{
    ERR_clear_error();
    const SSL_METHOD *method = settings->side == TLS_SERVER ? TLS_server_method() : TLS_client_method();
    CLEANUP(SSL_CTX_freep) SSL_CTX *context = SSL_CTX_new_ex(crypto_context(), NULL, method);
    if (context == NULL || !restrict_context(context)) {
        return complain(why, "TLS cannot be set up", "with approved algorithms");
    }
    /* What is pinned may be an authority below a root. */
    if (X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_PARTIAL_CHAIN) != 1) {
        return complain(why, "TLS cannot be set up", "with a pinned authority");
    }
    TRY(load_certificate(context, settings, why));
    TRY(load_authorities(context, settings->ca_file, why));
    *ret_context = TAKE(context);
    return OK;
}
