/*
 * Idempotency-Key: one command runs once, and its answer is given again byte for byte. A key belongs to a tenant and is
 * bound to method, path, query, caller and body by a digest.
 *
 *   begin    sends the claim; the handler's first question to the database travels behind it and takes the answer along
 *   await    another digest: IDEMPOTENCY_KEY_REUSED, whatever the state (a stranger learns nothing about progress);
 *            done: the kept answer; in progress: IDEMPOTENCY_IN_PROGRESS; walled: IDEMPOTENCY_INDETERMINATE;
 *            in progress for more than ten minutes, or its process is gone (presence.h): taken over by
 *            compare-and-set. Should its process be alive all the same, nothing happens twice: both run the command
 *            under the same id, which the log stores once, and only the claim's owner can keep an answer.
 *   record   keeps status, headers and body, and what the log has of the command (op->recorded). When that fails
 *            although the command ran, the key is walled.
 *   release  forgets the claim: the same key may run again, under the same command id.
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
enum idempotency_state {
    IDEMPOTENCY_SENT,
    IDEMPOTENCY_OURS,
    IDEMPOTENCY_REPLAYED,  /* the response holds the kept answer; there is nothing to run */
    IDEMPOTENCY_REFUSED,   /* reused, in progress, indeterminate */
    IDEMPOTENCY_ABANDONED, /* idempotency_await takes it over */
    IDEMPOTENCY_AGAIN,     /* the row went away between two looks: idempotency_await looks again */
    IDEMPOTENCY_UNKNOWN,   /* the database did not answer */
};
/* Lives in its caller's frame from begin to await; all but key, token and state is idempotency.c's. */
struct idempotency_claim {
    const char *key, *route;
    struct uuid token; /* of this claim: a claim that was taken over can no longer record or release */
    enum idempotency_state state;
    struct uuid instance;
    struct sha256 fingerprint;
    struct op *op;
    struct store *store;
    struct response *response, kept;
    struct store_ahead ahead;
    struct sql_arg args[5];
    struct fault fault; /* when it is neither ours nor a replay, with its note */
    struct fault_note note;
};

/* The digest that binds a key; subject and tenant are op's. Pure. */
struct fault idempotency_fingerprint(const struct op *op, const struct idempotency_request *request,
                                     struct sha256 *ret_fingerprint);
/* Sets op->command_id: the same for the same tenant, caller, key and route. Pure. */
struct fault idempotency_command_id(struct op *op, const struct idempotency_request *request);
/* Sets op->command_id and sends the claim. Until idempotency_await the operation's first transaction asks for its
 * answer, and so does op_settle(): both fail, with nothing done, when there is nothing to run. Fails when nothing was
 * sent. */
struct fault idempotency_begin(struct op *op, struct store *store, const struct idempotency_request *request,
                               struct idempotency_claim *claim, struct response *response);
/* Sends it again, when it was begun and not answered for good. */
struct fault idempotency_send(struct idempotency_claim *claim);
/* What became of it: OK with state OURS or REPLAYED; else the fault that is the answer. */
struct fault idempotency_await(struct idempotency_claim *claim);
/* Both. */
struct fault idempotency_claim(struct op *op, struct store *store, const struct idempotency_request *request,
                               struct idempotency_claim *claim, struct response *response);
/* Keeps trying for a few seconds beyond op's deadline. secret: the body is not kept, and a replay is told so.
 * IDEMPOTENCY_INDETERMINATE when the answer could not be kept. */
struct fault idempotency_record(struct op *op, struct store *store, const struct idempotency_claim *claim,
                                const struct response *response, bool secret);
void idempotency_release(struct op *op, struct store *store, const struct idempotency_claim *claim);

#endif
