/* The public half outside the token: what it is, and verification with it. */
#include "signer-pkcs11/token/internal.h"

#include "appliance/base/crypto.h"

#include <openssl/evp.h>
#include <openssl/rsa.h>

struct public_job {
    const struct key_ref *key;
    enum key_algorithm algorithm;
    EVP_PKEY *loaded;
    struct buf *spki;
};

static struct fault public_step(struct op *op, struct token_session *session, void *arg)
{
    struct public_job *job = arg;
    struct key_objects objects;
    TRY(key_find(op, session, job->key, &objects));
    if (objects.private_key == CK_INVALID_HANDLE && objects.secret_key == CK_INVALID_HANDLE) {
        return key_not_found(op);
    }
    job->algorithm = objects.algorithm;
    if (objects.algorithm == KEY_ALGORITHM_AES_256) {
        return OK;
    }
    if (job->spki != NULL) {
        return public_key_read(op, session, job->key, &objects, job->spki);
    }
    return public_key_load(op, session, job->key, &objects, &job->loaded);
}

struct fault token_public_key(struct op *op, struct token_session *session, const struct key_ref *key,
                              enum key_algorithm *ret_algorithm, struct buf *spki)
{
    TRY(key_ref_check(op, key));
    struct public_job job = { .key = key, .spki = spki };
    TRY(token_run(op, session, key, public_step, &job));
    *ret_algorithm = job.algorithm;
    return OK;
}

static bool verified(EVP_PKEY *key, enum sign_scheme scheme, enum hash_algorithm hash, struct span digest,
                     struct span signature)
{
    CLEANUP(EVP_PKEY_CTX_freep) EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(crypto_context(), key, NULL);
    CLEANUP(EVP_MD_freep) EVP_MD *md = EVP_MD_fetch(crypto_context(), hash_algorithm_text(hash), NULL);
    if (ctx == NULL || md == NULL || EVP_PKEY_verify_init(ctx) != 1 || EVP_PKEY_CTX_set_signature_md(ctx, md) != 1) {
        return false;
    }
    if (scheme == SIGN_SCHEME_RSA_PKCS1 && EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PADDING) != 1) {
        return false;
    }
    if (scheme == SIGN_SCHEME_RSA_PSS &&
        (EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PSS_PADDING) != 1 || EVP_PKEY_CTX_set_rsa_mgf1_md(ctx, md) != 1 ||
         EVP_PKEY_CTX_set_rsa_pss_saltlen(ctx, RSA_PSS_SALTLEN_DIGEST) != 1)) {
        return false;
    }
    return EVP_PKEY_verify(ctx, signature.at, signature.len, digest.at, digest.len) == 1;
}

static struct fault judge(struct op *op, EVP_PKEY *key, enum sign_scheme scheme, enum hash_algorithm hash,
                          struct span digest, struct span signature)
{
    if (!verified(key, scheme, hash, digest, signature)) {
        IGNORE(crypto_fail(NULL, "signature"));
        return op_fail(op, FAULT(SIGNATURE_INVALID), "the signature does not belong to this digest and key");
    }
    return OK;
}

/* Outside the token on purpose: a token that signs wrongly would also find its own signatures good. */
struct fault token_verify(struct op *op, struct token_session *session, const struct key_ref *key,
                          enum sign_scheme scheme, enum hash_algorithm hash, struct span digest, struct span signature)
{
    TRY(key_ref_check(op, key));
    TRY(sign_check(op, scheme, hash, digest));
    struct public_job job = { .key = key };
    struct fault fault = token_run(op, session, key, public_step, &job);
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *loaded = TAKE(job.loaded);
    TRY(fault);
    TRY(sign_check_key(op, job.algorithm, scheme));
    return judge(op, loaded, scheme, hash, digest, signature);
}

struct fault token_verify_under(struct op *op, struct span spki, enum sign_scheme scheme, enum hash_algorithm hash,
                                struct span digest, struct span signature)
{
    TRY(sign_check(op, scheme, hash, digest));
    const unsigned char *at = spki.at;
    CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = d2i_PUBKEY_ex(NULL, &at, (long)spki.len, crypto_context(), NULL);
    bool rsa = scheme != SIGN_SCHEME_ECDSA;
    if (key == NULL || at != spki.at + spki.len || EVP_PKEY_is_a(key, rsa ? "RSA" : "EC") != 1) {
        IGNORE(crypto_fail(NULL, "public key"));
        return op_fail(op, FAULT(BAD_ARGUMENT), "the public key is not PKIX DER of a key that goes with the scheme");
    }
    return judge(op, key, scheme, hash, digest, signature);
}
