#include "api/server/tls.h"

#include "appliance/base/secret.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>

#define SIGNATURES                                                                                                   \
    "ecdsa_secp256r1_sha256:ecdsa_secp384r1_sha384:rsa_pss_rsae_sha256:rsa_pss_rsae_sha384:rsa_pss_rsae_sha512:rsa_" \
    "pkcs1_sha256:rsa_pkcs1_sha384:rsa_pkcs1_sha512"

static void context_freep(SSL_CTX **context)
{
    SSL_CTX_free(TAKE(*context));
}

/* The first thing of OpenSSL's queue that a human can use; the queue is empty afterwards. */
static struct fault complain(struct buf *why, const char *what, const char *file)
{
    const char *reason = ERR_reason_error_string(ERR_peek_error());
    ERR_clear_error();
    TRY(buf_printf(why, "%s %s: %s", what, file, reason != NULL ? reason : "not usable"));
    return FAULT(CONFIG);
}

/* RFC 7301 3.2: who offers protocols, and not ours, is told so. */
static int choose_protocol(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *in,
                           unsigned in_len, void *arg)
{
    (void)ssl;
    (void)arg;
    static const unsigned char ours[] = "http/1.1";
    for (unsigned at = 0; at < in_len && in[at] <= in_len - at - 1; at += 1U + in[at]) {
        if (in[at] == sizeof(ours) - 1 && memcmp(in + at + 1, ours, sizeof(ours) - 1) == 0) {
            *out = in + at + 1;
            *out_len = in[at];
            return SSL_TLSEXT_ERR_OK;
        }
    }
    return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static bool restrict_context(SSL_CTX *context)
{
    (void)SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET |
                                           SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_CLEANSE_PLAINTEXT);
    (void)SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
    (void)SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_alpn_select_cb(context, choose_protocol, NULL);
    return SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_cipher_list(context, SERVER_TLS12_CIPHERS) == 1 &&
           SSL_CTX_set_ciphersuites(context, SERVER_TLS13_CIPHERS) == 1 &&
           SSL_CTX_set1_groups_list(context, SERVER_TLS_GROUPS) == 1 &&
           SSL_CTX_set1_sigalgs_list(context, SIGNATURES) == 1 && SSL_CTX_set_num_tickets(context, 0) == 1;
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

static bool use_key(SSL_CTX *context, OSSL_LIB_CTX *libctx, struct span pem)
{
    BIO *bio = BIO_new_mem_buf(pem.at, (int)pem.len);
    EVP_PKEY *key = bio != NULL ? PEM_read_bio_PrivateKey_ex(bio, NULL, no_passphrase, NULL, libctx, NULL) : NULL;
    bool used = key != NULL && SSL_CTX_use_PrivateKey(context, key) == 1 && SSL_CTX_check_private_key(context) == 1;
    EVP_PKEY_free(key);
    BIO_free(bio);
    return used;
}

static struct fault load_key(SSL_CTX *context, OSSL_LIB_CTX *libctx, const char *key_file, struct buf *why)
{
    CLEANUP(secret_freep) struct secret *pem = NULL;
    if (FAULTED(secret_from_file(key_file, &pem))) {
        TRY(buf_printf(why, "TLS key %s: must be a readable file of this user with mode 0600", key_file));
        return FAULT(CONFIG);
    }
    return use_key(context, libctx, secret_span(pem)) ? OK : complain(why, "TLS key", key_file);
}

struct fault tls_context_new(OSSL_LIB_CTX *libctx, const char *chain_file, const char *key_file, struct buf *why,
                             SSL_CTX **ret_context)
{
    ERR_clear_error();
    CLEANUP(context_freep) SSL_CTX *context = SSL_CTX_new_ex(libctx, NULL, TLS_server_method());
    if (context == NULL || !restrict_context(context)) {
        return complain(why, "TLS cannot be set up", "with approved algorithms");
    }
    if (SSL_CTX_use_certificate_chain_file(context, chain_file) != 1) {
        return complain(why, "TLS certificate", chain_file);
    }
    TRY(load_key(context, libctx, key_file, why));
    *ret_context = TAKE(context);
    return OK;
}
