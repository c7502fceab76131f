/*
 * Private keys of algorithms that no token here has a mechanism for (ML-DSA-65), kept sealed by the token and used
 * inside svc-signer only, behind the fence of fips/fence.h.
 *
 * Each key is one file in a folder of the signer's (0700; the files 0600), whose private half is its 32-byte seed,
 * sealed with AES-256-GCM in the token by a key of its own: purpose key-seal, which no peer of the signer may ask for,
 * with an id that follows from the sealed key's. Destroying that token key makes every copy of the file worthless,
 * those in backups too. The sealing binds tenant, purpose, id, algorithm and public key, so files cannot be swapped or
 * altered: what does not fit is SEALED_KEY, never "no such key".
 *
 * Where a seed is in the clear: in the locked arena (secret.h) from unsealing to the end of the call; in OpenSSL's
 * memory, expanded, during the one computation; and in the module's and token_unseal's buffers while they hand it over,
 * the latter wiped. Nothing is kept between calls.
 *
 * kill -9 at any point of sealed_generate or sealed_destroy leaves the whole key or none; repeating finishes. Only keys
 * of purpose codesign (SIGNER_REFUSED). Thread-safe; `session` is of the token that key->token names, which is the one
 * that can open the key.
 */
#ifndef SIGNER_SEALED_SEALED_H
#define SIGNER_SEALED_SEALED_H

#include "signer-pkcs11/token/token.h"

struct sealed_keys;
/* Makes the folder when it is missing, and removes what an interrupted generation left. One process at a time: the
 * journal's lock, whose folder it stands in, sees to that. SEALED_STORE, and `why` (not NULL) gets one line. */
struct fault sealed_keys_open(const char *folder, struct buf *why, size_t *ret_count, struct sealed_keys **ret_keys);
void sealed_keys_close(struct sealed_keys *keys);
DEFINE_FREEP(struct sealed_keys, sealed_keys_close)

/* Is there a file of this key, whatever its state? One system call; purposes other than codesign have none. */
bool sealed_has(struct sealed_keys *keys, const struct key_ref *key);

/* KEY_EXISTS, also for a token key of this place; SEALED_STORE, ALGORITHM_FENCED, PQC_DISABLED, BAD_ARGUMENT (the
 * algorithm is the token's business); and what token.h's calls answer, for all of these. */
struct fault sealed_generate(struct op *op, struct sealed_keys *keys, struct token_session *session,
                             const struct key_ref *key, enum key_algorithm algorithm, struct buf *spki);
/* KEY_NOT_FOUND, SEALED_KEY, SEALED_STORE, ALGORITHM_FENCED, PQC_DISABLED. */
struct fault sealed_public_key(struct op *op, struct sealed_keys *keys, struct token_session *session,
                               const struct key_ref *key, enum key_algorithm *ret_algorithm, struct buf *spki);
/* `digest` is the message. Hedged: each call gives another signature. */
struct fault sealed_sign(struct op *op, struct sealed_keys *keys, struct token_session *session,
                         const struct key_ref *key, enum sign_scheme scheme, enum hash_algorithm hash,
                         struct span digest, struct buf *signature);
struct fault sealed_verify(struct op *op, struct sealed_keys *keys, struct token_session *session,
                           const struct key_ref *key, enum sign_scheme scheme, enum hash_algorithm hash,
                           struct span digest, struct span signature);
/* Behind a closed fence too: whoever gives post-quantum keys up can be rid of them. A file that was altered is not
 * touched (SEALED_KEY). */
struct fault sealed_destroy(struct op *op, struct sealed_keys *keys, struct token_session *session,
                            const struct key_ref *key);

#endif
