/*
 * Sealing of what must not stand in the clear in log, database and outbox (code-signing commands). Envelope encryption:
 * AES-256-GCM in this process under a data key of the tenant, which itself is sealed by the tenant's "seal" key in the
 * token and travels in front of the ciphertext. So a command costs no call to the signer, except the first one with a
 * data key (one an hour for a tenant and process), and without the token nothing opens.
 *
 * Sealed bytes: u8 1, u16 length of key id, key id, u16 length of the sealed data key, that, 12 bytes nonce, ciphertext
 * and tag. The header and the caller's `aad` are authenticated. Thread-safe.
 */
#ifndef API_KEYS_SEAL_H
#define API_KEYS_SEAL_H

#include "api/services.h"

#define KEYS_SEAL_OVERHEAD 1024
#define SEAL_KEY_NAME      "seal" /* of a tenant's sealing keys: the newest seals, every one of them opens */

/* Makes the tenant's seal key (at first) and a data key, so that the next keys_seal calls nobody. */
struct fault keys_seal_prepare(struct op *op, struct services *services);
/* Appends the sealed bytes. Scope: op's tenant. */
struct fault keys_seal(struct op *op, struct services *services, struct span aad, struct span plain,
                       struct buf *sealed);
/* Appends what was sealed. UNSEAL when tenant, aad or any byte differs. */
struct fault keys_unseal(struct op *op, struct services *services, struct span aad, struct span sealed,
                         struct buf *plain);
/* The tenant's data keys that this process made are not used for sealing any more: the next one is made under the
 * newest seal key. What they sealed still opens. */
void keys_seal_renew(struct tenant_id tenant);
/* Wipes all data keys. */
void keys_seal_forget(void);

#endif
