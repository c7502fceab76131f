/* One request on its way through the pipeline: what dispatch.c, request.c, probes.c and idempotency.c share. */
#ifndef API_SERVER_EXCHANGE_H
#define API_SERVER_EXCHANGE_H

#include "api/server/message.h"
#include "api/server/request.h"
#include "api/server/response.h"
#include "api/server/router.h"

#include <stdatomic.h>

struct probes;

/* What every request needs. Owned by the server; read-only after start except the atomics. */
struct core {
    struct services *services;
    const struct feature *const *features;
    size_t feature_count;
    struct router *router;
    struct probes *probes;
    struct buf openapi;   /* printed once */
    atomic_bool leaving;  /* readiness has ended and answers close their connections; requests are taken */
    atomic_bool draining; /* they are not */
};

struct request_private {
    struct core *core;
    struct message *message;
    struct route_match match;
    struct query query;
};

/* Takes the message through the whole pipeline; the response is always filled. *ret_match tells the route ({ 0 } when
 * there was none) for the access record. The operation has its deadline, trace and arena already. */
void dispatch(struct core *core, struct op *op, struct message *message, struct response *response,
              struct route_match *ret_match);

/* Decodes a body by the route's table into a struct in op's arena: pure, the part that outside bytes reach. */
struct fault body_decode(struct op *op, const struct route *route, struct span body, void **ret_struct);

#endif
