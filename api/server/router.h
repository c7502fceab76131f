/*
 * The routes of all features, checked once and matched by path segment. A literal segment wins over a {name}; literal
 * segments are compared as sent (an escaped letter is another path), a {name} takes one decoded, non-empty segment.
 */
#ifndef API_SERVER_ROUTER_H
#define API_SERVER_ROUTER_H

#include "api/feature.h"
#include "api/server/message.h"
#include "api/server/uri.h"

#define ROUTE_PARAMS_MAX 4

struct router;
/* Refuses tables that contradict themselves (CONFIG, one line each in `why`): doubled names or paths, a mutation that
 * is public, a body table on GET, unsafe methods that are neither mutation, effect-free nor a public raw protocol. */
struct fault router_new(const struct feature *const *features, size_t count, struct buf *why,
                        struct router **ret_router);
void router_free(struct router *router);
DEFINE_FREEP(struct router, router_free)

struct route_params {
    struct {
        const char *name, *value; /* decoded, in op's arena */
    } at[ROUTE_PARAMS_MAX];
    size_t count;
};
struct route_match {
    const struct route *route;
    const char *label; /* the path with ":id" for each {name}: for metrics and logs */
    struct route_params params;
};
/* ROUTE when no path matches on this listener; METHOD when only other methods do: then *ret_allow (may be NULL) is the
 * Allow header in op's arena. HEAD matches GET. */
struct fault router_match(struct op *op, const struct router *router, enum listener_kind listener, const char *method,
                          const struct path *path, struct route_match *ret_match, const char **ret_allow);

/* All routes in matching order, for generated documents. */
size_t router_count(const struct router *router);
const struct route *router_at(const struct router *router, size_t index);

const char *route_method_text(enum route_method method);

#endif
