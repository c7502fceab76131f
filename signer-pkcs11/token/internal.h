/*
 * What the files of this folder share. One `struct token` owns the module, the pool of sessions, the cache of key
 * handles and the recovery. How an operation runs:
 *
 *     token_run: enter (refused at once while the token is DOWN) -> a session that is not stale -> the step's calls ->
 *     leave. A step that was refused is judged by its class in ckr.def: the key's handle is found again, the session is
 *     opened anew, or the keeper thread heals what all share, and the step runs again, until op's deadline.
 *
 * An *epoch* is a stretch of time in which sessions and handles stay good. The keeper ends it when it has healed
 * something; stale sessions and handles are then replaced where they are next used.
 *
 * Locks: token->lock guards what says so below, and is never held while a call is inside the module. cache.lock and it
 * are not nested.
 */
#ifndef SIGNER_TOKEN_INTERNAL_H
#define SIGNER_TOKEN_INTERNAL_H

#include "signer-pkcs11/token/gate.h"
#include "signer-pkcs11/token/module.h"
#include "signer-pkcs11/token/token.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define TOKEN_WHY_MAX 320

/* Strikes: refusals in a row that needed healing, without an operation that worked between. */
#define STRIKES_RESTART 2 /* from here on only C_Finalize and C_Initialize help */
#define STRIKES_DOWN    3 /* from here on callers are refused, and one attempt is on trial after each healing */

/* One key's handle, good for one epoch. `generation` 0 = empty. */
struct handle {
    struct key_ref ref;
    enum key_algorithm algorithm;
    CK_OBJECT_HANDLE object; /* private or secret key */
    uint64_t generation;
};
#define HANDLE_SETS 512
#define HANDLE_WAYS 4
/* Set-associative, so that looking up is short and memory is bounded; what falls out is found again. */
struct handle_cache {
    pthread_mutex_t lock;
    struct handle at[HANDLE_SETS][HANDLE_WAYS];
    unsigned next_way;
};

struct token_session {
    struct token *token;
    struct token_session *next_free;
    struct call call;
    CK_SESSION_HANDLE handle; /* CK_INVALID_HANDLE = none open */
    uint64_t epoch;           /* in which `handle` was opened */
    uint64_t ground;          /* module_starts at that time: a handle of an earlier one means nothing now */
    uint64_t seen;            /* epoch of the present attempt */
    bool on_trial;            /* this attempt decides whether a token that was DOWN is back */
};

struct token {
    const struct secret *pin; /* borrowed */
    struct module module;     /* changed by the keeper while nobody is inside */
    struct handle_cache cache;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* anything below that a caller may wait for */
    pthread_cond_t work;    /* the keeper's */
    /* pool; guarded by lock */
    struct token_session *sessions, *free;
    unsigned session_count;
    atomic_uint open_sessions;

    char label[33], model[17], serial[17];

    /* recovery; guarded by lock */
    uint64_t epoch;
    uint64_t ground;
    enum token_state state;
    char cause[TOKEN_WHY_MAX];
    uint64_t recoveries;
    unsigned strikes;
    enum ckr_class wanted; /* what the keeper is asked to heal; CALL = nothing */
    bool generating;       /* one key at a time is made, so that "exists" is decided once */
    bool trial_out;        /* an attempt is inside that decides whether the token is back */
    bool closed;           /* nobody may enter: the module is being restarted */
    bool stopping, stuck, keeper_left;
    unsigned inside;         /* attempts between enter and leave */
    atomic_bool pin_refused; /* latched until the process ends */
    pthread_t keeper;
    bool keeper_runs;
    struct call keeper_call;
    CK_SESSION_HANDLE anchor; /* the keeper's session; keeps the login alive while others come and go */
};

static inline void token_lock(pthread_mutex_t *lock)
{
    BUG_IF(pthread_mutex_lock(lock) != 0);
}
static inline void token_unlock(pthread_mutex_t *lock)
{
    BUG_IF(pthread_mutex_unlock(lock) != 0);
}
/* Waits once; false when `deadline` has passed. The condition's clock is CLOCK_MONOTONIC. */
bool token_wait(pthread_cond_t *cond, pthread_mutex_t *lock, mono_ns deadline);

/* ---- recover.c ---- */
/* One attempt's calls. Must append nothing to results of the caller before it succeeds: it may run again. */
typedef struct fault (*token_step)(struct op *op, struct token_session *session, void *job);
struct fault token_run(struct op *op, struct token_session *session, const struct key_ref *key, token_step step,
                       void *job);
/* Tells the keeper what an attempt of epoch `seen` met. Several that met the same count once. */
void keeper_ask_locked(struct token *token, const struct ckr_row *refusal, uint64_t seen);

/* ---- keeper.c ---- */
struct fault keeper_start(struct token *token);
bool keeper_stop(struct token *token); /* false: it is stuck in the module and was left behind */
/* A session of the keeper's, logged in, on which the token answers. TOKEN_PIN latches. `why` in words. */
struct fault keeper_connect(struct token *token, char *why, size_t why_size);

/* ---- token.c ---- */
void token_identity_locked(struct token *token); /* label, model and serial, from the module */

/* ---- session.c ---- */
struct fault session_pool_new(struct token *token, unsigned count);
void session_pool_free(struct token *token);
/* Opens the session anew if it is stale. Only between enter and leave. */
struct fault session_ready(struct token_session *session);
/* Forgets the session's handle; closes it first if the token still knows it. */
void session_drop(struct token_session *session, bool known);
/* Is the user logged in, as this session sees it? Otherwise the refusal is CKR_USER_NOT_LOGGED_IN. */
struct fault session_logged_in(struct call *call, const struct token *token, CK_SESSION_HANDLE session);

/* ---- keys.c ---- */
#define KEY_ID_LEN    16
#define KEY_LABEL_MAX 192
struct key_label {
    char text[KEY_LABEL_MAX];
};
void key_label_print(const struct key_ref *ref, enum key_algorithm algorithm, struct key_label *ret_label);
/* Is `label` the place of `ref`? Then also which algorithm it names. */
bool key_label_match(struct span label, const struct key_ref *ref, enum key_algorithm *ret_algorithm);
void key_id_bytes(const struct uuid *id, uint8_t out[KEY_ID_LEN]);
/* Purpose known, id a UUID, tenant present unless the purpose is post. BAD_ARGUMENT. */
struct fault key_ref_check(struct op *op, const struct key_ref *ref);

/* The objects of one key. CK_INVALID_HANDLE = none of that kind. */
struct key_objects {
    CK_OBJECT_HANDLE private_key, public_key, secret_key;
    enum key_algorithm algorithm;
    bool doubled; /* two of one kind, or of two algorithms: whose key it is cannot be told */
};
static inline bool key_objects_any(const struct key_objects *objects)
{
    return objects->private_key != CK_INVALID_HANDLE || objects->public_key != CK_INVALID_HANDLE ||
           objects->secret_key != CK_INVALID_HANDLE;
}
/* Asks the token. No object at all is fine (see key_objects_any), doubled ones too. */
struct fault key_find_all(struct token_session *session, const struct key_ref *ref, struct key_objects *ret_objects);
/* The same; doubled ones are INTERNAL. */
struct fault key_find(struct op *op, struct token_session *session, const struct key_ref *ref,
                      struct key_objects *ret_objects);
/* The private or secret key, from the cache or the token. KEY_NOT_FOUND. */
struct fault key_use(struct op *op, struct token_session *session, const struct key_ref *ref,
                     CK_OBJECT_HANDLE *ret_object, enum key_algorithm *ret_algorithm);
void key_forget(struct token *token, const struct key_ref *ref);
struct fault key_not_found(struct op *op);

/* ---- public.c ---- */
/* PKIX DER of the token's public key object, which must be of `algorithm`. */
struct fault public_key_read(struct op *op, struct token_session *session, CK_OBJECT_HANDLE object,
                             enum key_algorithm algorithm, struct buf *spki);

/* ---- mechanism.c ---- */
/* Checks that key, scheme and hash go together and that the digest has its length. BAD_ARGUMENT, DIGEST_LENGTH. */
struct fault sign_check(struct op *op, enum sign_scheme scheme, enum hash_algorithm hash, struct span digest);
struct fault sign_check_key(struct op *op, enum key_algorithm algorithm, enum sign_scheme scheme);
bool algorithm_is_ec(enum key_algorithm algorithm);
bool algorithm_is_rsa(enum key_algorithm algorithm);
unsigned algorithm_bits(enum key_algorithm algorithm); /* field or modulus */

#endif
