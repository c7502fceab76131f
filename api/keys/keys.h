/*
 * Managed keys: what the token holds, who may use it, and its certificate, as events (lane "keys") and read model. The
 * private half never leaves the token; the public half stays in the events for ever, so what a key signed is verifiable
 * after the token is lost. Users make keys of purpose codesign; the features make their own (tsa, audit-export, seal,
 * ca).
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
    const char *state;        /* "active", "destroyed" */
    struct span spki;         /* PKIX DER */
    const struct span *chain; /* certificates, leaf first, DER; empty when it has none */
    size_t chain_count;
    utc_us created;
    bool system;                               /* made by a feature, not by a user */
    int64_t version;                           /* counts the key's changes: what a transition expects */
    const char *created_by;                    /* subject */
    utc_us destroyed;                          /* 0 while it is not */
    const char *destroyed_by, *destroy_reason; /* NULL while it is not */
};

/* Results live in op's arena; scope is op's tenant. KEY_NOT_FOUND also for another tenant's key. */
struct fault keys_get(struct op *op, struct services *services, struct uuid id, struct managed_key *ret_key);
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
/* Records key.certified with the chain (leaf first, DER) and waits until it is projected. */
struct fault keys_set_chain(struct op *op, struct services *services, const struct managed_key *key,
                            const struct span *chain, size_t count);

#endif
