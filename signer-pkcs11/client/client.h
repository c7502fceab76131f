/*
 * The pooled client of svc-signer. One call = one request frame on a pooled connection, bounded by the operation's
 * deadline and by signer.operation_timeout. Thread-safe. A refused or broken connection is SIGNER_UNAVAILABLE, and the
 * next call connects anew: nothing has to be restarted when the signer returns. Nothing here ever signs by itself.
 */
#ifndef SIGNER_CLIENT_CLIENT_H
#define SIGNER_CLIENT_CLIENT_H

#include "appliance/base/bulkhead.h"
#include "appliance/base/config.h"
#include "appliance/base/op.h"
#include "signer-pkcs11/protocol/health.h"

struct signer_client;

/* Does not connect yet. `config` is borrowed for the client's life. */
struct fault signer_client_new(const struct config *config, struct signer_client **ret_client);
void signer_client_free(struct signer_client *client);
DEFINE_FREEP(struct signer_client, signer_client_free)

/* From now on every operation but signer_health passes `bulkhead` (borrowed; NULL = none), waiting there as long as the
 * call may take. With as many places as there are connections at most, a connection for signer_health is always left:
 * whether the signer is well can be told while all that it may do is being done. Before the client is used. */
void signer_client_bound(struct signer_client *client, struct bulkhead *bulkhead);

/* For measurements: called at the end of every call, in its thread. Set once, before the first. */
typedef void (*signer_call_fn)(void *arg, enum wire_op op, mono_ns took, struct fault end);
void signer_client_on_call(struct signer_client *client, signer_call_fn on_call, void *arg);

struct fault signer_health(struct op *op, struct signer_client *client, struct signer_health *ret_health);
/* The new key's PKIX DER public key is appended to `spki` (nothing for AES). KEY_EXISTS when the label is taken: then
 * signer_public_key tells what it is. */
struct fault signer_generate(struct op *op, struct signer_client *client, const struct key_ref *key,
                             enum key_algorithm algorithm, struct buf *spki);
struct fault signer_public_key(struct op *op, struct signer_client *client, const struct key_ref *key,
                               enum key_algorithm *ret_algorithm, struct buf *spki);

struct sign_request {
    struct key_ref key;
    enum sign_scheme scheme;
    enum hash_algorithm hash;
    struct span digest;
    struct uuid op_id; /* "" = not journalled; otherwise the same id and request give the same bytes for ever */
};
/* Appends the signature: DER SEQUENCE(r, s) for ECDSA, the integer's octets for RSA. */
struct fault signer_sign(struct op *op, struct signer_client *client, const struct sign_request *request,
                         struct buf *signature);
/* Up to SIGNER_MANY_MAX digests of one request's size with one key, outside the journal (request->op_id is ""), in one
 * exchange: all signatures or none. request->digest: the digests, one behind the other. ret_signatures: as many spans,
 * in their order, of what was appended to `room` (valid until it changes). Not for ML-DSA. */
#define SIGNER_MANY_MAX 64
struct fault signer_sign_many(struct op *op, struct signer_client *client, const struct sign_request *request,
                              struct buf *room, struct span *ret_signatures);
/* OK or SIGNATURE_INVALID. */
struct fault signer_verify(struct op *op, struct signer_client *client, const struct sign_request *request,
                           struct span signature);
/* The same under a public key that is given (PKIX DER), for keys that the token no longer has: the signer's
 * cryptography judges, the token is not asked. `request->key` says in whose name and for which purpose. */
struct fault signer_verify_under(struct op *op, struct signer_client *client, const struct sign_request *request,
                                 struct span spki, struct span signature);
struct fault signer_destroy(struct op *op, struct signer_client *client, const struct key_ref *key);
/* AES-256-GCM inside the token. The output names format and key, so it can be unsealed after rotation; UNSEAL when
 * aad, key or bytes differ. */
struct fault signer_seal(struct op *op, struct signer_client *client, const struct key_ref *key, struct span aad,
                         struct span plain, struct buf *sealed);
struct fault signer_unseal(struct op *op, struct signer_client *client, const struct key_ref *key, struct span aad,
                           struct span sealed, struct buf *plain);

#endif
