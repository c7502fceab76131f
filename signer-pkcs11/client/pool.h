/*
 * The client's connections. At most `limit` exist; who finds none free waits until its deadline. The one used last is
 * taken first, so that few stay warm. A connection is put back only after a whole answer was read from it.
 */
#ifndef SIGNER_CLIENT_POOL_H
#define SIGNER_CLIENT_POOL_H

#include "appliance/base/config.h"
#include "appliance/base/op.h"
#include "signer-pkcs11/protocol/message.h"

struct pool;
struct connection {
    struct pool *pool;       /* borrowed */
    struct connection *next; /* of the idle ones */
    struct frame_stream stream;
    struct arena *arena; /* of the unpacked answer */
    struct buf frame;
    uint64_t last_id; /* of requests on this connection */
};

struct fault signer_pool_new(const struct config *config, struct pool **ret_pool);
void signer_pool_free(struct pool *pool); /* connections still out are a bug */
DEFINE_FREEP(struct pool, signer_pool_free)

/* An idle connection, or a new one. The peer may have left an idle one, which sending on it tells; then POOL_FRESH
 * drops all that are idle (the peer was restarted) and gives a new one. SIGNER_UNAVAILABLE (nobody listens), SATURATED
 * (all in use until `deadline`). POOL_SPARE may take one of two places beyond the limit, for questions about health. */
enum pool_choice { POOL_ANY, POOL_FRESH = 1, POOL_SPARE = 2, POOL_FRESH_SPARE = 3 };
struct fault signer_pool_take(struct op *op, struct pool *pool, enum pool_choice choice, mono_ns deadline,
                              struct connection **ret_connection);
void signer_pool_put(struct connection *connection); /* for the next caller */
void signer_pool_drop(
    struct connection *connection); /* closed: an answer may still come on it, or it broke; NULL is fine */
/* How long the caller does well to stay awake for its answer (frame.h): while it is alone and answers come within
 * microseconds. */
mono_ns signer_pool_awake(const struct connection *connection);
void signer_pool_took(const struct connection *connection, mono_ns span);
static inline void pool_dropp(struct connection **connection)
{
    signer_pool_drop(TAKE(*connection));
}

#endif
