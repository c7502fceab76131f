/*
 * Idempotency-Key: one command runs once, and its answer is given again byte for byte. A key belongs to a tenant and is
 * bound to method, path, query, caller and body by a digest.
 *
 *   claim    another digest: IDEMPOTENCY_KEY_REUSED, whatever the state (a stranger learns nothing about progress);
 *            done: the kept answer; in progress: IDEMPOTENCY_IN_PROGRESS; walled: IDEMPOTENCY_INDETERMINATE;
 *            in progress for more than ten minutes: its process is gone, the claim is taken over by compare-and-set.
 *   record   keeps status, headers and body, and what the log has of the command (op->recorded). When that fails
 * although the command ran, the key is walled. release  forgets the claim: the same key may run again, under the same
 * command id.
 *
 * Rows are kept for ever: an answer must stay the same bytes for ever. One row is about the size of its answer.
 */
#ifndef API_SERVER_IDEMPOTENCY_H
#define API_SERVER_IDEMPOTENCY_H

#include "api/feature.h"
#include "api/server/response.h"
#include "api/store/store.h"

#define IDEMPOTENCY_KEY_MAX     255
#define IDEMPOTENCY_TAKEOVER_US (600 * US_PER_S)

/* 1..255 visible ASCII characters. OK for a route that is no mutation, whatever the key is. */
struct fault idempotency_key_check(struct op *op, const struct route *route, const char *key);

struct idempotency_request {
    const char *key, *route, *method, *path, *query; /* query may be NULL */
    struct span body;
    struct uuid instance;
};
struct idempotency_claim {
    const char *key;
    struct uuid token; /* of this claim: a claim that was taken over can no longer record or release */
    bool replayed;     /* the response holds the kept answer; there is nothing to run */
};

/* The digest that binds a key; subject and tenant are op's. Pure. */
struct fault idempotency_fingerprint(const struct op *op, const struct idempotency_request *request,
                                     struct sha256 *ret_fingerprint);
/* Sets op->command_id: the same for the same tenant, caller, key and route. Pure. */
struct fault idempotency_command_id(struct op *op, const struct idempotency_request *request);
/* Also sets op->command_id. */
struct fault idempotency_claim(struct op *op, struct store *store, const struct idempotency_request *request,
                               struct idempotency_claim *ret_claim, struct response *response);
/* Keeps trying for a few seconds beyond op's deadline. secret: the body is not kept, and a replay is told so.
 * IDEMPOTENCY_INDETERMINATE when the answer could not be kept. */
struct fault idempotency_record(struct op *op, struct store *store, const struct idempotency_claim *claim,
                                const struct response *response, bool secret);
void idempotency_release(struct op *op, struct store *store, const struct idempotency_claim *claim);

#endif
