/*
 * A token that lives in this test: signer_sign() as the provider calls it, answered by keys in OpenSSL's default
 * library context. Included by one test file per program; it takes the place of signer-pkcs11/client at link time.
 */
#ifndef TESTS_PROVIDER_TOKEN_H
#define TESTS_PROVIDER_TOKEN_H

#include "appliance/base/crypto.h"
#include "signer-pkcs11/client/client.h"

#include <openssl/rsa.h>
#include <stdatomic.h>

#define TOKEN_KEYS_MAX 8
#define TOKEN_NAME     "backup" /* it is not the first one */

static struct {
    struct uuid ids[TOKEN_KEYS_MAX];
    EVP_PKEY *keys[TOKEN_KEYS_MAX];
    size_t count;
    atomic_uint signatures; /* made so far */
    atomic_uint exchanges;  /* in which several may have been made */
    struct fault refuse;    /* when set: what every call answers */
} token;
static thread_local struct uuid token_last_op_id; /* of this thread's last signature */

static struct signer_client *token_client(void)
{
    return (struct signer_client *)&token;
}

/* type: "P-256", "P-384" or "RSA". The public half is PKIX DER in *spki, which the caller frees. */
static struct key_ref token_make_key(const char *type, enum key_purpose purpose, struct buf *spki)
{
    struct key_ref ref = { .tenant = { "default" }, .purpose = purpose, .token = { TOKEN_NAME } };
    EVP_PKEY *key = strcmp(type, "RSA") == 0 ? EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)3072)
                                             : EVP_PKEY_Q_keygen(NULL, NULL, "EC", type);
    BUG_IF(key == NULL || token.count == TOKEN_KEYS_MAX || FAULTED(uuid_new(&ref.id)));
    token.ids[token.count] = ref.id;
    token.keys[token.count++] = key;
    unsigned char *der = NULL;
    int len = i2d_PUBKEY(key, &der);
    BUG_IF(len <= 0);
    *spki = (struct buf)BUF_INIT(SPKI_MAX);
    BUG_IF(FAULTED(buf_put(spki, span_of(der, (size_t)len))));
    OPENSSL_free(der);
    return ref;
}

static void token_clear(void)
{
    while (token.count > 0) {
        EVP_PKEY_free(token.keys[--token.count]);
    }
}

struct fault signer_sign(struct op *op, struct signer_client *client, const struct sign_request *request,
                         struct buf *signature)
{
    static const char *const digests[] = { "", "SHA256", "SHA384", "SHA512" };
    BUG_IF(op == NULL || client != token_client());
    if (FAULTED(token.refuse)) {
        return op_fail(op, token.refuse, "the token of this test refuses");
    }
    EVP_PKEY *key = NULL;
    for (size_t i = 0; i < token.count; i++) {
        key = uuid_equal(token.ids[i], request->key.id) ? token.keys[i] : key;
    }
    REQUIRE(key != NULL && strcmp(request->key.token.text, TOKEN_NAME) == 0, KEY_NOT_FOUND);
    REQUIRE(request->digest.len == hash_size(request->hash), BAD_ARGUMENT);
    CLEANUP(EVP_PKEY_CTX_freep) EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_pkey(NULL, key, NULL);
    CLEANUP(EVP_MD_freep) EVP_MD *md = EVP_MD_fetch(NULL, digests[request->hash], NULL);
    BUG_IF(ctx == NULL || md == NULL || EVP_PKEY_sign_init(ctx) != 1 || EVP_PKEY_CTX_set_signature_md(ctx, md) != 1);
    if (request->scheme == SIGN_SCHEME_RSA_PSS) {
        BUG_IF(EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PSS_PADDING) != 1 ||
               EVP_PKEY_CTX_set_rsa_pss_saltlen(ctx, RSA_PSS_SALTLEN_DIGEST) != 1);
    }
    BUG_IF((request->scheme == SIGN_SCHEME_ECDSA) != (EVP_PKEY_is_a(key, "EC") == 1));
    uint8_t out[SIGNATURE_MAX];
    size_t len = sizeof(out);
    REQUIRE(EVP_PKEY_sign(ctx, out, &len, request->digest.at, request->digest.len) == 1, CRYPTO);
    token_last_op_id = request->op_id;
    atomic_fetch_add(&token.signatures, 1);
    return buf_put(signature, span_of(out, len));
}

[[maybe_unused]] struct fault signer_sign_many(struct op *op, struct signer_client *client,
                                               const struct sign_request *request, struct buf *room,
                                               struct span *ret_signatures)
{
    size_t size = hash_size(request->hash);
    size_t count = request->digest.len / size;
    size_t ends[SIGNER_MANY_MAX];
    BUG_IF(count == 0 || count > SIGNER_MANY_MAX || request->digest.len % size != 0 || request->op_id.text[0] != 0);
    for (size_t i = 0; i < count; i++) {
        struct sign_request one = *request;
        one.digest = span_of(request->digest.at + i * size, size);
        TRY(signer_sign(op, client, &one, room));
        ends[i] = room->len;
    }
    for (size_t i = 0; i < count; i++) {
        size_t from = i > 0 ? ends[i - 1] : 0;
        ret_signatures[i] = span_of(room->at + from, ends[i] - from);
    }
    atomic_fetch_add(&token.exchanges, 1);
    return OK;
}

#endif
