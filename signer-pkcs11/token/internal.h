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
 * The usual way takes no lock: a session says that it is inside, and looks whether the gate is open (`open_epoch`); who
 * closes the gate does so first and looks at the sessions then. One of the two sees the other.
 *
 * Locks: token->lock guards what says so below, pool.lock the pool; neither is held while a call is inside the module.
 * No two of token->lock, pool.lock and cache.lock are nested.
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
#define OWN_HANDLES 16 /* of one session */
/* Set-associative, so that looking up is short and memory is bounded; what falls out is found again. */
struct handle_cache {
    _Atomic uint64_t forgotten; /* how often a key was; see cache.c */
    pthread_mutex_t lock;
    pthread_cond_t found; /* or given up */
    struct handle at[HANDLE_SETS][HANDLE_WAYS];
    unsigned next_way;
};

/* Where a session object is. FREE ones wait in the pool; SPARE ones stand by to take the place of those set ASIDE;
 * UNUSED ones are more than the token allows. */
enum session_place { SESSION_FREE, SESSION_TAKEN, SESSION_ASIDE, SESSION_SPARE, SESSION_UNUSED };

struct token_session {
    struct token *token;
    struct token_session *next; /* in the list of free or of spare ones; pool.lock */
    enum session_place place;   /* pool.lock */
    struct call call;
    atomic_bool inside;       /* between enter and leave; see above */
    CK_SESSION_HANDLE handle; /* CK_INVALID_HANDLE = none open */
    uint64_t epoch;           /* in which `handle` was opened */
    uint64_t ground;          /* module_starts at that time: a handle of an earlier one means nothing now */
    uint64_t seen;            /* epoch of the present attempt */
    atomic_bool on_trial;     /* this attempt decides whether a token that was DOWN is back; set under token->lock */
    bool finds;               /* a key that is in no cache, the one that hashes to `finding`; cache.lock */
    uint32_t finding;
    uint64_t own_forgotten;         /* cache.forgotten when `own` was begun */
    struct handle own[OWN_HANDLES]; /* also keeps what different threads write to apart */
};

#define SPARES_MAX 8
/* One thread's wait for a session; on its stack. */
struct session_wait {
    struct session_wait *next;
    struct token_session *given; /* by who put it */
    pthread_cond_t given_to;
};
/* Which PIN file, as it was at one time; changes with the file. "" = unknown. */
struct pin_mark {
    char text[192];
};
struct session_pool {
    pthread_mutex_t lock;
    struct token_session *at; /* all of them: `count` to work with and `spares` to stand by */
    unsigned count, spares;
    unsigned usable; /* of `count`: the token may allow fewer */
    struct token_session *free, *spare;
    struct session_wait *first, **last; /* who came first is served first */
    unsigned in_use, set_aside, waiting;
    atomic_bool crowded; /* the token has no more sessions to give */
};

struct token {
    const struct token_settings *settings; /* borrowed */
    struct module module;                  /* changed by the keeper while nobody is inside */
    struct handle_cache cache;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* anything below that a caller may wait for */
    pthread_cond_t work;    /* the keeper's */
    struct session_pool pool;
    atomic_uint open_sessions;
    _Atomic uint64_t open_epoch; /* the epoch, while anybody may enter without a look at the rest; else 0 */

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
    atomic_bool pin_refused; /* latched until the process ends */
    pthread_t keeper;
    bool keeper_runs;
    mono_ns last_all;     /* when other tokens of the library were last asked to stop for this one */
    mono_ns broken_since; /* since when the library contradicts itself; 0 = it does not; the keeper's */
    bool broken;          /* for so long that only a new process can help */
    bool pin_renewed;     /* the PIN file has changed since: a new process may show what is in it now */
    struct call keeper_call;
    bool login_unclear;       /* the last C_Login failed, but not for the PIN; the keeper's */
    struct pin_mark pin_mark; /* the PIN file as it was when its PIN was read */
    int64_t patience_ms;      /* a call of the keeper's that is inside for longer does not come back */
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

/* The session's call was given up: what waited for its outcome goes on. On any thread. */
void recover_abandon(struct token_session *session);
/* Closes the session's handle, if calls may be made now; else it is stale. */
void recover_close(struct token_session *session);
/* Is a session between enter and leave? */
bool token_inside(const struct token *token);
/* After any change of what open_epoch is made of. */
void token_publish_locked(struct token *token);

/* ---- keeper.c ---- */
struct fault keeper_start(struct token *token);
void keeper_asked(void *owner);        /* see struct module */
bool keeper_stop(struct token *token); /* false: it is stuck in the module and was left behind */
/* A session of the keeper's, logged in, on which the token answers. TOKEN_PIN latches. `why` in words. */
struct fault keeper_connect(struct token *token, char *why, size_t why_size);

/* ---- login.c ---- */
/* Shows the PIN, or says why not. A PIN that was refused latches (pin_refused). The anchor is open. `why` is written
 * where the refusal of keeper_call does not say it. */
struct fault login_show(struct token *token, char *why, size_t why_size);
void login_pin_mark(const char *pin_file, struct pin_mark *ret_mark);
bool login_pin_changed(const struct token *token);

/* ---- notes.c ---- */
#define NOTE_MAX 1024
bool note_read(const struct token_settings *settings, const char *kind, struct buf *text);
bool note_write(const struct token_settings *settings, const char *kind, const char *text); /* true without a folder */
void note_opened(const struct token *token);

/* ---- token.c ---- */
void token_identity_locked(struct token *token); /* label, model and serial, from the module */

/* ---- session.c ---- */
struct fault session_pool_new(struct token *token, unsigned count);
void session_pool_free(struct token *token);
/* Once, before any session is taken: no more than `limit` are given out. */
void session_pool_limit(struct token *token, unsigned limit);
/* The pool's part of token_status. */
void session_pool_status(struct token *token, struct token_status *status);
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
/* As this token keeps it: quirk short-labels. */
struct fault key_label_on(const struct token_quirks *quirks, const struct key_ref *ref, enum key_algorithm algorithm,
                          struct key_label *ret_label);
/* Is `label` the place of `ref`? Then also which algorithm it names. */
bool key_label_match(const struct token_quirks *quirks, struct span label, const struct key_ref *ref,
                     enum key_algorithm *ret_algorithm);
void key_id_bytes(const struct uuid *id, uint8_t out[KEY_ID_LEN]);
/* CKA_ID as this token keeps it, in `id`: 16 bytes, 36 characters (quirk id-text) or nothing (quirk id-none). */
struct key_id {
    uint8_t at[36];
};
struct span key_id_on(const struct token *token, const struct key_ref *ref, struct key_id *id);
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
struct fault key_not_found(struct op *op);
/* The one certificate object with the key's CKA_ID; CK_INVALID_HANDLE when there is none, or more. */
struct fault key_find_certificate(struct token_session *session, const struct key_ref *ref,
                                  CK_OBJECT_HANDLE *ret_object);

/* ---- cache.c ---- */
/* handle->ref and generation say which key; the rest is written when it is known. When not, the caller finds it and
 * tells cache_found; others who want the same key wait for that a moment. Both only between enter and leave. */
bool cache_recall(struct token_session *session, struct handle *handle);
void cache_found(struct token_session *session, const struct handle *handle); /* NULL: it was not */
void key_forget(struct token *token, const struct key_ref *ref);

/* ---- spki.c ---- */
/* The key's public half, from wherever it can be had: the public key object, the private one, a certificate object,
 * public_keys_dir. It must be of the objects' algorithm. */
struct fault public_key_load(struct op *op, struct token_session *session, const struct key_ref *ref,
                             const struct key_objects *objects, struct evp_pkey_st **ret_key);
/* The same as PKIX DER. */
struct fault public_key_read(struct op *op, struct token_session *session, const struct key_ref *ref,
                             const struct key_objects *objects, struct buf *spki);
/* Writes it where public_key_load looks last. Nothing when the token has no public_keys_dir. */
struct fault public_key_store(struct op *op, const struct token *token, const struct key_ref *ref, struct span spki);

/* ---- make.c ---- */
struct key_order {
    enum key_algorithm algorithm;
    struct key_label label;
    struct key_id id_bytes;
    struct span id; /* "" = the token keeps none */
};
/* A key of a new name; what was made is in *made also when a later step fails. TOKEN_MECHANISM. */
struct fault key_make(struct op *op, struct token_session *session, const struct key_order *order,
                      struct key_objects *made);
struct fault key_no_generator(struct op *op, enum key_algorithm algorithm);

/* ---- template.c ---- */
/* An attribute list that minds the token's quirks. Values are borrowed: they must outlive the call that uses it. */
#define TEMPLATE_MAX 24
struct template_list {
    const struct token_quirks *quirks;
    CK_ULONG count;
    CK_ATTRIBUTE at[TEMPLATE_MAX];
};
void template_put(struct template_list *list, CK_ATTRIBUTE_TYPE type, const void *at, size_t len);
/* Unless the quirks leave it out. */
void template_flag(struct template_list *list, CK_ATTRIBUTE_TYPE type, enum quirk_attribute attribute, bool value);
/* What the quirks set: for private and secret keys. */
void template_put_set(struct template_list *list);

/* ---- pss.c ---- */
#define RSA_BYTES_MAX 512
/* EMSA-PSS-ENCODE (RFC 8017 9.1.1) with MGF1 of the same hash and a salt of its length, for a modulus of 8 * `len`
 * bits. `encoded` has `len` bytes. */
struct fault pss_encode(struct op *op, enum hash_algorithm hash, struct span digest, uint8_t *encoded, size_t len);

/* ---- mechanism.c ---- */
/* Behind an *Init call, for keys with CKA_ALWAYS_AUTHENTICATE: the PIN once more. Nothing on other tokens. */
struct fault key_login_again(struct token_session *session);
/* Checks that key, scheme and hash go together and that the digest has its length. BAD_ARGUMENT, DIGEST_LENGTH. */
struct fault sign_check(struct op *op, enum sign_scheme scheme, enum hash_algorithm hash, struct span digest);
struct fault sign_check_key(struct op *op, enum key_algorithm algorithm, enum sign_scheme scheme);
bool algorithm_is_ec(enum key_algorithm algorithm);
bool algorithm_is_rsa(enum key_algorithm algorithm);
unsigned algorithm_bits(enum key_algorithm algorithm); /* field or modulus */

#endif
