#include "api/server/router.h"

#include "appliance/base/alloc.h"

#include <stdio.h>

#define LABEL_MAX 128

struct entry {
    const struct route *route;
    struct span segments[PATH_SEGMENTS_MAX]; /* borrow from route->path; a {name} without its braces */
    bool param[PATH_SEGMENTS_MAX];
    size_t count;
    char label[LABEL_MAX];
};

struct router {
    struct entry *entries;
    size_t count;
};

const char *route_method_text(enum route_method method)
{
    static const char *const texts[] = {
        [ROUTE_GET] = "GET", [ROUTE_POST] = "POST", [ROUTE_PUT] = "PUT", [ROUTE_DELETE] = "DELETE"
    };
    return texts[method];
}

static struct fault complain(struct buf *why, const struct route *route, const char *what)
{
    if (why != NULL) {
        TRY(buf_printf(why, "route %s (%s): %s\n", route->name, route->path, what));
    }
    return FAULT(CONFIG);
}

static struct fault entry_init(const struct route *route, struct buf *why, struct entry *entry)
{
    *entry = (struct entry){ .route = route };
    size_t params = 0;
    int label = 0;
    for (const char *at = route->path; *at == '/' && entry->count < PATH_SEGMENTS_MAX; entry->count++) {
        size_t len = strcspn(at + 1, "/");
        bool param = len > 2 && at[1] == '{' && at[len] == '}';
        entry->param[entry->count] = param;
        entry->segments[entry->count] = param ? span_of(at + 2, len - 2) : span_of(at + 1, len);
        params += param;
        bool inside = at[1] != 0 || entry->count == 0; /* only "/folder/" ends with an empty one */
        if ((len == 0 && inside) || label + (int)len + 2 > LABEL_MAX) {
            return complain(why, route, "empty segment or path too long");
        }
        label += snprintf(entry->label + label, LABEL_MAX - (size_t)label, "/%.*s", param ? 3 : (int)len,
                          param ? ":id" : at + 1);
        at += 1 + len;
        if (*at == 0) {
            entry->count++;
            return params <= ROUTE_PARAMS_MAX ? OK : complain(why, route, "too many parameters");
        }
    }
    return complain(why, route, "the path must begin with '/' and have few segments");
}

/* Literals before parameters at the first segment where two templates differ; otherwise as they came. */
static int entry_order(const void *left, const void *right)
{
    const struct entry *a = left;
    const struct entry *b = right;
    for (size_t i = 0; i < a->count && i < b->count; i++) {
        if (a->param[i] != b->param[i]) {
            return a->param[i] ? 1 : -1;
        }
        if (!a->param[i] && !span_equal(a->segments[i], b->segments[i])) {
            size_t len = a->segments[i].len < b->segments[i].len ? a->segments[i].len : b->segments[i].len;
            int order = strncmp((const char *)a->segments[i].at, (const char *)b->segments[i].at, len);
            return order != 0 ? order : (a->segments[i].len < b->segments[i].len ? -1 : 1);
        }
    }
    if (a->count != b->count) {
        return a->count < b->count ? -1 : 1;
    }
    return (int)a->route->method - (int)b->route->method;
}

static bool needs_class(const struct route *route)
{
    bool raw_protocol = (route->flags & ROUTE_RAW_BODY) != 0 && route->permission == PERMISSION_PUBLIC;
    return route->method != ROUTE_GET && (route->flags & (ROUTE_MUTATION | ROUTE_EFFECT_FREE)) == 0 && !raw_protocol;
}

static struct fault route_check(const struct route *route, struct buf *why)
{
    bool mutation = (route->flags & ROUTE_MUTATION) != 0;
    if (route->name == NULL || route->handler == NULL || route->success_status < 200 || route->success_status > 299) {
        return complain(why, route, "name, handler and a 2xx success status are needed");
    }
    if (route->method == ROUTE_GET && (mutation || route->body != NULL || (route->flags & ROUTE_RAW_BODY) != 0)) {
        return complain(why, route, "GET takes no body and changes nothing");
    }
    if (needs_class(route)) {
        return complain(why, route, "must be a mutation, effect-free, or a public raw protocol");
    }
    if (mutation && (route->permission == PERMISSION_PUBLIC || (route->flags & ROUTE_EFFECT_FREE) != 0)) {
        return complain(why, route, "a mutation has a caller and an effect");
    }
    if ((route->flags & ROUTE_RAW_BODY) != 0 && (route->body != NULL || route->content_type == NULL)) {
        return complain(why, route, "a raw body has a content type and no table");
    }
    if (route->body != NULL && (route->body_count == 0 || route->body_size == 0)) {
        return complain(why, route, "a body table has rows and a struct");
    }
    return OK;
}

static struct fault check_doubles(const struct router *router, struct buf *why)
{
    for (size_t i = 0; i < router->count; i++) {
        for (size_t j = i + 1; j < router->count; j++) {
            const struct route *a = router->entries[i].route;
            const struct route *b = router->entries[j].route;
            if (strcmp(a->name, b->name) == 0 || entry_order(&router->entries[i], &router->entries[j]) == 0) {
                return complain(why, b, "the name, or method and path, is taken by another route");
            }
        }
    }
    return OK;
}

struct fault router_new(const struct feature *const *features, size_t count, struct buf *why,
                        struct router **ret_router)
{
    CLEANUP(router_freep) struct router *router = NULL;
    size_t total = 0;
    for (size_t i = 0; i < count; i++) {
        total += features[i]->route_count;
    }
    TRY(mem_new(1, sizeof(*router), &router));
    TRY(mem_new(total, sizeof(*router->entries), &router->entries));
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < features[i]->route_count; j++) {
            const struct route *route = &features[i]->routes[j];
            TRY(route_check(route, why));
            TRY(entry_init(route, why, &router->entries[router->count]));
            router->count++;
        }
    }
    TRY(check_doubles(router, why));
    qsort(router->entries, router->count, sizeof(*router->entries), entry_order);
    *ret_router = TAKE(router);
    return OK;
}

void router_free(struct router *router)
{
    if (router == NULL) {
        return;
    }
    mem_free(router->entries);
    mem_free(router);
}

size_t router_count(const struct router *router)
{
    return router->count;
}

const struct route *router_at(const struct router *router, size_t index)
{
    return router->entries[index].route;
}

static bool shown(const struct route *route, enum listener_kind listener)
{
    switch (listener) {
    case LISTENER_PLAIN:
        return (route->flags & ROUTE_PLAIN_TOO) != 0;
    case LISTENER_PROBE:
        return (route->flags & ROUTE_PROBE) != 0;
    case LISTENER_TLS:
    case LISTENER_COUNT:
        break;
    }
    return true;
}

static bool path_matches(const struct entry *entry, const struct path *path)
{
    if (entry->count != path->count) {
        return false;
    }
    for (size_t i = 0; i < path->count; i++) {
        bool fits = entry->param[i] ? path->segments[i].len > 0 : span_equal(entry->segments[i], path->segments[i]);
        if (!fits) {
            return false;
        }
    }
    return true;
}

static struct fault take_params(struct op *op, const struct entry *entry, const struct path *path,
                                struct route_params *params)
{
    params->count = 0;
    for (size_t i = 0; i < entry->count; i++) {
        if (!entry->param[i]) {
            continue;
        }
        const char *name = NULL;
        const char *value = NULL;
        TRY(arena_text(op->arena, entry->segments[i], &name));
        struct fault fault = percent_decode(op, path->segments[i], false, &value);
        if (FAULTED(fault)) {
            return op_fail_field(op, fault, name, "the path parameter is malformed");
        }
        params->at[params->count].name = name;
        params->at[params->count].value = value;
        params->count++;
    }
    return OK;
}

static struct fault allow_header(struct op *op, unsigned allowed, const char **ret_allow)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(64);
    for (int method = ROUTE_GET; method <= ROUTE_DELETE; method++) {
        if ((allowed & (1U << method)) != 0) {
            TRY(buf_printf(&out, "%s%s", out.len > 0 ? ", " : "", route_method_text((enum route_method)method)));
            TRY(buf_text(&out, method == ROUTE_GET ? ", HEAD" : ""));
        }
    }
    return arena_text(op->arena, buf_span(&out), ret_allow);
}

struct fault router_match(struct op *op, const struct router *router, enum listener_kind listener, const char *method,
                          const struct path *path, struct route_match *ret_match, const char **ret_allow)
{
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    unsigned allowed = 0;
    for (size_t i = 0; i < router->count; i++) {
        const struct entry *entry = &router->entries[i];
        if (!shown(entry->route, listener) || !path_matches(entry, path)) {
            continue;
        }
        allowed |= 1U << entry->route->method;
        if (strcmp(wanted, route_method_text(entry->route->method)) == 0) {
            struct route_match match = { .route = entry->route, .label = entry->label };
            TRY(take_params(op, entry, path, &match.params));
            *ret_match = match;
            return OK;
        }
    }
    if (allowed == 0) {
        return op_fail(op, FAULT(ROUTE), "no route has this path: /api/v1/openapi.json lists all of them");
    }
    if (ret_allow != NULL) {
        TRY(allow_header(op, allowed, ret_allow));
        return op_fail(op, FAULT(METHOD), "this path accepts: %s", *ret_allow);
    }
    return FAULT(METHOD);
}
