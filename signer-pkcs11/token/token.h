/*
 * The PKCS#11 token: one module, one token, a pool of sessions; nothing of Cryptoki leaves this folder. libp11 loads
 * and initialises the module and finds the slot; from the first session on everything goes through one gate of C_ calls
 * on the module's function list, so mechanisms, sessions and CK_RV codes are ours to see. Handles are cached for an
 * epoch. Recovery (new session, login, find again, Finalize/Initialize) is the work of one thread, the keeper, with
 * jittered backoff of at most a second; token_open starts it, so no process may be forked afterwards. No PIN is tried a
 * second time after CKR_PIN_INCORRECT, also not by the next process, until its file changes. Thread-safe; each caller
 * brings its session from the pool.
 *
 * A module may hang inside a C_ call: no deadline ends that, only the caller's own. Who watches the deadlines sets the
 * session aside; a stand-in takes its place, and other sessions go on. token_status advises a restart of the process
 * (restart_advised, and the cause) when nothing less helps: no stand-in is left, a call that hangs bars C_Finalize,
 * recovery itself hangs, the library cannot be initialised again, or a PIN that was refused has been changed.
 */
#ifndef SIGNER_TOKEN_TOKEN_H
#define SIGNER_TOKEN_TOKEN_H

#include "appliance/base/config.h"
#include "appliance/base/op.h"
#include "appliance/base/secret.h"
#include "signer-pkcs11/protocol/key.h"
#include "signer-pkcs11/token/settings.h"

struct token;
struct token_session; /* one thread's at a time; from token_session_take */

#define CKR_CLASSES 7 /* in the order of enum ckr_class, see gate.h and health.h */

enum token_state { TOKEN_OK, TOKEN_DEGRADED, TOKEN_DOWN };
struct token_status {
    enum token_state state;
    char label[33], model[17], serial[17];
    char cause[160]; /* why not OK, and what to do */
    uint64_t recoveries;
    unsigned sessions;              /* open on the token now */
    unsigned in_use;                /* taken, the ones set aside not counted */
    unsigned set_aside;             /* whose call does not come back */
    unsigned waiting;               /* callers that wait for a session */
    uint64_t refusals[CKR_CLASSES]; /* of the module, by class */
    int64_t oldest_call_ms;         /* how long the longest running call has been inside the module; 0 = none is */
    bool restart_advised;           /* a call does not come back: only a new process can go on */
};

/* Loads the module and logs in. TOKEN_UNAVAILABLE, TOKEN_PIN. `settings` is borrowed for the token's life. */
struct fault token_open(const struct token_settings *settings, struct buf *why, struct token **ret_token);
/* Has a process of this signer opened this very token before? Then a token that is not found is away, not mistaken. */
bool token_known(const struct token_settings *settings);
void token_close(struct token *token);
DEFINE_FREEP(struct token, token_close)
void token_status(struct token *token, struct token_status *ret_status);

/* A session for the calling thread; as many exist as the token's settings allow. Waits until op's deadline; SATURATED
 * then, and at once when as many wait already as signer.queue allows. */
struct fault token_session_take(struct op *op, struct token *token, struct token_session **ret_session);
void token_session_put(struct token_session *session);
DEFINE_FREEP(struct token_session, token_session_put)
/* On another thread, while the session's call does not come back from the module: the session is set aside, and a new
 * one may take its place. Its own thread puts it as ever when the call has returned; then it is closed. Idempotent. */
void token_session_set_aside(struct token_session *session);

/* Each: KEY_NOT_FOUND, TOKEN_UNAVAILABLE (after bounded recovery within op's deadline), TOKEN_MECHANISM ... */
struct fault token_generate(struct op *op, struct token_session *session, const struct key_ref *key,
                            enum key_algorithm algorithm, struct buf *spki); /* KEY_EXISTS */
struct fault token_public_key(struct op *op, struct token_session *session, const struct key_ref *key,
                              enum key_algorithm *ret_algorithm, struct buf *spki);
/* digest is exactly hash_size(hash). Signature: DER for ECDSA, raw octets for RSA. The caller has checked the purpose.
 */
struct fault token_sign(struct op *op, struct token_session *session, const struct key_ref *key,
                        enum sign_scheme scheme, enum hash_algorithm hash, struct span digest, struct buf *signature);
struct fault token_verify(struct op *op, struct token_session *session, const struct key_ref *key,
                          enum sign_scheme scheme, enum hash_algorithm hash, struct span digest, struct span signature);
/* The same under a public key (PKIX DER) that the caller gives: for keys that the token no longer has. Touches no
 * token. BAD_ARGUMENT when it is no key of ours to verify with. */
struct fault token_verify_under(struct op *op, struct span spki, enum sign_scheme scheme, enum hash_algorithm hash,
                                struct span digest, struct span signature);
struct fault token_destroy(struct op *op, struct token_session *session, const struct key_ref *key);
/* AES-256-GCM (CKM_AES_GCM), 96-bit IV from C_GenerateRandom, 128-bit tag. Output: version byte, 16-byte key id,
 * 12-byte IV, ciphertext, tag. */
struct fault token_seal(struct op *op, struct token_session *session, const struct key_ref *key, struct span aad,
                        struct span plain, struct buf *sealed);
struct fault token_unseal(struct op *op, struct token_session *session, const struct key_ref *key, struct span aad,
                          struct span sealed, struct buf *plain);
/* Drops the cached handles and sessions (tests, and after an operator's change of the token). */
void token_forget_handles(struct token *token);

#endif
