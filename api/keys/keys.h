/*
 * Managed keys: what the token holds, who may use it, and its certificate, as events (lane "keys") and read model. The
 * private half never leaves the token; the public half stays in the events for ever, so what a key signed is verifiable
 * after the token is lost. Users make keys of purpose codesign; the features make their own (tsa, audit-export, seal,
 * ca).
 *
 *     prepared -> active               takes the place of the active key of its purpose and name, if there is one
 *     active   -> retiring             replaced or wound down with an overlap: signs on until the overlap's end
 *     active, retiring -> retired      signs no more; verifies for ever
 *     any of them -> destroyed         signs no more, and is erased from the token
 *
 * A purpose and name have at most one active and one prepared key. What is signed is judged by the moment at which it
 * was accepted: a command that came before a key's end is finished after it (unless the key was destroyed).
 *
 * A key may have a limit of uses and an end (not_after), both fixed once it is active. A use is one digest signed for a
 * caller; certificate requests and probes are none. The log's order says who gets the last use: the projection of a
 * command grants it what it needs or nothing (keys_project_claim), its worker asks (keys_claim_granted), and a command
 * that ends without signature gives back what it had (keys_project_return).
 */
#ifndef API_KEYS_KEYS_H
#define API_KEYS_KEYS_H

#include "api/feature.h"
#include "api/services.h"
#include "signer-pkcs11/protocol/key.h"

extern const struct feature keys_feature;

struct managed_key {
    struct key_ref ref; /* tenant, purpose, id */
    enum key_algorithm algorithm;
    const char *name;
    const char *state;        /* "prepared", "active", "retiring", "retired", "destroyed" */
    struct span spki;         /* PKIX DER */
    const struct span *chain; /* certificates, leaf first, DER; empty when it has none */
    size_t chain_count;
    utc_us created;
    bool system;                               /* made by a feature, not by a user */
    int64_t version;                           /* counts the key's changes: what a transition expects */
    const char *created_by;                    /* subject */
    utc_us destroyed;                          /* 0 while it is not */
    const char *destroyed_by, *destroy_reason; /* NULL while it is not */
    utc_us activated, retires, retired;        /* 0 = not (yet) */
    const char *retire_reason, *replaced_by;   /* NULL = not (yet) */
    int64_t max_uses, claimed;                 /* max 0 = without limit; claimed: of it, granted to commands */
    utc_us not_after;                          /* 0 = without end */
    int64_t uses;                              /* digests signed for callers */
    utc_us last_used;                          /* 0 = never */
    utc_us certificate_not_after;              /* of the leaf; 0 = it has none */
    const char *probe_code;                    /* NULL: its probe is good, or was not made */
    utc_us probed;                             /* when that last changed; 0 = never */
};

/* mode.c: ML-DSA is fenced off from what is approved (fips/fence.h). */
bool keys_fenced(enum key_algorithm algorithm);
/* May what a key of this algorithm does now be claimed as approved mode? (fips_approved_mode) */
bool keys_approved_mode(enum key_algorithm algorithm);
/* "approved_mode", and for what is fenced the note that says why it is none. */
void keys_print_mode(struct jout *jout, bool approved, bool fenced);
/* A fenced algorithm behind a closed fence is refused: ALGORITHM_FENCED, PQC_DISABLED. pointer: "" = none. */
struct fault keys_check_fence(struct op *op, enum key_algorithm algorithm, const char *pointer);

/* Results live in op's arena; scope is op's tenant. KEY_NOT_FOUND also for another tenant's key. */
struct fault keys_get(struct op *op, struct services *services, struct uuid id, struct managed_key *ret_key);
/* OK when the key signs what is accepted at `at`, and so many more digests are within its limit as far as the read
 * model knows (0 = do not look at the limit). Else KEY_STATE, KEY_EXPIRED or KEY_EXHAUSTED; `pointer`: the request's
 * member that named the key. */
struct fault keys_check_use(struct op *op, const struct managed_key *key, utc_us at, size_t digests,
                            const char *pointer);
/* Was this command granted its uses? OK for a key without limit; else OK or KEY_EXHAUSTED. */
struct fault keys_claim_granted(struct op *op, struct services *services, const struct managed_key *key,
                                struct uuid command_id);
/* For the projections of those who sign for callers: when a command is accepted, when a digest was signed (cheap: added
 * up over a batch), and when a command ended without signature. */
struct fault keys_project_claim(struct projection *projection, const char *key_id, const char *command_id,
                                int64_t count);
struct fault keys_project_use(struct projection *projection, const char *key_id);
struct fault keys_project_return(struct projection *projection, const char *command_id);
/* A projection_fn: counts a use of the key that the event's data names as "key_id". */
struct fault keys_project_use_of(struct projection *projection, const struct event_view *event);

/* The newest active key of a purpose and name (NULL = any name). KEY_NOT_FOUND. */
struct fault keys_newest(struct op *op, struct services *services, enum key_purpose purpose, const char *name,
                         struct managed_key *ret_key);
/* All keys that a purpose ever had, oldest first, destroyed ones too (their public keys still verify). */
struct fault keys_history(struct op *op, struct services *services, enum key_purpose purpose,
                          struct managed_key **ret_keys, size_t *ret_count);
/* keys_newest, or makes one under a deterministic id (so that two starting replicas make the same one), records
 * key.generated and waits until it is projected. For start-up and features. */
struct fault keys_ensure(struct op *op, struct services *services, enum key_purpose purpose,
                         enum key_algorithm algorithm, const char *name, struct managed_key *ret_key);
/* A new key in the place of the one that keys_newest gives, as a user's command (op->command_id: its retry gives the
 * same key): key.generated and key.activated, projected when it returns OK. The former one goes on for `overlap_us`,
 * for what is under way, and then signs no more; without a former one the new one is the first. */
struct fault keys_replace(struct op *op, struct services *services, enum key_purpose purpose,
                          enum key_algorithm algorithm, const char *name, int64_t overlap_us,
                          struct managed_key *ret_key);
/* Records key.certified with the chain (leaf first, DER) and waits until it is projected. */
struct fault keys_set_chain(struct op *op, struct services *services, const struct managed_key *key,
                            const struct span *chain, size_t count);

/* ---- for a feature whose keys follow events of its own (api/tsa) ---- */

#define KEYS_CERTIFICATES_MAX 8

/* A prepared key of this name, which stands for one key for ever: made unless it was before, and the same one whoever
 * asks and however often. Recorded as key.generated and projected when it returns OK. */
struct fault keys_prepare(struct op *op, struct services *services, enum key_purpose purpose,
                          enum key_algorithm algorithm, const char *name, struct managed_key *ret_key);
/* PKCS#10, signed by the key in the token under `journal_id`; DER in op's arena. subject: RFC 4514; usage: the extended
 * key usage to ask for ("critical,timeStamping"). JSON_FIELD. */
struct fault keys_csr(struct op *op, const struct managed_key *key, const char *subject, const char *usage,
                      struct uuid journal_id, struct span *ret_der);
/* The event of a certificate request that a key has signed for op's command. */
struct fault keys_record_csr(struct op *op, struct services *services, struct uuid id, const char *subject,
                             struct span csr);
/* The answer to a route that made a certificate request: as PEM and as base64 of DER. */
struct fault keys_answer_csr(struct request *request, struct span csr);
/* The JSON array of a body's certificate_chain: 1 to KEYS_CERTIFICATES_MAX of base64 DER, of 32 KiB together at most;
 * in op's arena. JSON_FIELD. */
struct fault keys_read_chain(struct op *op, struct span json, struct span chain[KEYS_CERTIFICATES_MAX],
                             size_t *ret_count);
/* May this chain, leaf first and up to its root, stand for a key that makes time stamps? CERTIFICATE_REFUSED with the
 * pointer of the bad one. At most KEYS_CERTIFICATES_MAX. */
struct fault keys_check_stamping(struct op *op, struct span spki, const struct span *certificates, size_t count,
                                 utc_us now);
/* The id of a certificate in the tenant's inventory: the first 16 bytes of its SHA-256 in the form of a UUID. */
void keys_certificate_id(const struct sha256 *fingerprint, struct uuid *ret_id);
/* For the feature's projections. chain: DER one behind the other. The last one takes the key out of the token. */
struct fault keys_project_certificates(struct projection *projection, const char *key_id, struct span chain);
struct fault keys_project_activation(struct projection *projection, const struct event_view *event, const char *key_id);
struct fault keys_project_end(struct projection *projection, const struct event_view *event, const char *key_id,
                              enum key_purpose purpose, const char *reason);

#endif
