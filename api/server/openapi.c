#include "api/server/openapi.h"

#include "api/server/idempotency.h"
#include "api/server/router.h"

#include <stdio.h>

static void put_fields(struct jout *out, const struct jin_field *fields, size_t count);

static void put_bounds(struct jout *out, const char *least, int64_t min, const char *most, int64_t max)
{
    if (min != 0) {
        jout_key_int(out, least, min);
    }
    if (max != 0) {
        jout_key_int(out, most, max);
    }
}

static void put_texts(struct jout *out, const struct jin_field *field)
{
    jout_key_text(out, "type", "array");
    put_bounds(out, "minItems", field->min, "maxItems", field->max);
    jout_key(out, "items");
    jout_object(out);
    jout_key_text(out, "type", "string");
    jout_key_int(out, "maxLength", 1024);
    jout_object_end(out);
}

static void put_kind(struct jout *out, const struct jin_field *field)
{
    switch (field->kind) {
    case JIN_KIND_TEXT:
        jout_key_text(out, "type", "string");
        put_bounds(out, "minLength", field->min > 0 ? 1 : 0, "maxLength", field->max); /* ours are bytes */
        break;
    case JIN_KIND_BASE64:
        jout_key_text(out, "type", "string");
        jout_key_text(out, "contentEncoding", "base64");
        put_bounds(out, "minLength", (field->min + 2) / 3 * 4, "maxLength", (field->max + 2) / 3 * 4);
        break;
    case JIN_KIND_HEX:
        jout_key_text(out, "type", "string");
        jout_key_text(out, "pattern", "^([0-9a-f]{2})*$");
        put_bounds(out, "minLength", field->min * 2, "maxLength", field->max * 2);
        break;
    case JIN_KIND_INT:
        jout_key_text(out, "type", "integer");
        jout_key_text(out, "format", "int64");
        jout_key_int(out, "minimum", field->min);
        jout_key_int(out, "maximum", field->max);
        break;
    case JIN_KIND_BOOL:
        jout_key_text(out, "type", "boolean");
        break;
    case JIN_KIND_TIME:
        jout_key_text(out, "type", "string");
        jout_key_text(out, "format", "date-time");
        break;
    case JIN_KIND_TEXTS:
        put_texts(out, field);
        break;
    case JIN_KIND_OBJECT:
        put_fields(out, field->sub, field->sub_count);
        break;
    case JIN_KIND_RAW: /* any value */
        break;
    }
}

/* The members of an object's schema, into an object that is open already. */
static void put_fields(struct jout *out, const struct jin_field *fields, size_t count)
{
    jout_key_text(out, "type", "object");
    jout_key_bool(out, "additionalProperties", false);
    jout_key(out, "required");
    jout_array(out);
    for (size_t i = 0; i < count; i++) {
        if ((fields[i].flags & JIN_REQUIRED) != 0) {
            jout_text(out, fields[i].name);
        }
    }
    jout_array_end(out);
    jout_key(out, "properties");
    jout_object(out);
    for (size_t i = 0; i < count; i++) {
        jout_key(out, fields[i].name);
        jout_object(out);
        put_kind(out, &fields[i]);
        if (fields[i].doc != NULL) {
            jout_key_text(out, "description", fields[i].doc);
        }
        jout_object_end(out);
    }
    jout_object_end(out);
}

static void put_parameter(struct jout *out, const char *name, const char *where, bool required, int64_t max)
{
    jout_object(out);
    jout_key_text(out, "name", name);
    jout_key_text(out, "in", where);
    jout_key_bool(out, "required", required);
    jout_key(out, "schema");
    jout_object(out);
    jout_key_text(out, "type", "string");
    if (max != 0) {
        jout_key_int(out, "minLength", 1);
        jout_key_int(out, "maxLength", max);
    }
    jout_object_end(out);
    jout_object_end(out);
}

static void put_path_parameters(struct jout *out, const char *path)
{
    for (const char *at = strchr(path, '{'); at != NULL; at = strchr(at, '{')) {
        char name[64];
        at++;
        (void)snprintf(name, sizeof(name), "%.*s", (int)strcspn(at, "}"), at);
        put_parameter(out, name, "path", true, 0);
    }
}

static void put_parameters(struct jout *out, const struct route *route)
{
    jout_key(out, "parameters");
    jout_array(out);
    put_path_parameters(out, route->path);
    for (size_t i = 0; route->query != NULL && route->query[i] != NULL; i++) {
        put_parameter(out, route->query[i], "query", false, 0);
    }
    if ((route->flags & ROUTE_MUTATION) != 0) {
        put_parameter(out, "Idempotency-Key", "header", true, IDEMPOTENCY_KEY_MAX);
    }
    jout_array_end(out);
}

static void put_request(struct jout *out, const struct route *route)
{
    if (route->body == NULL && (route->flags & ROUTE_RAW_BODY) == 0) {
        return;
    }
    jout_key(out, "requestBody");
    jout_object(out);
    jout_key_bool(out, "required", true);
    jout_key(out, "content");
    jout_object(out);
    jout_key(out, route->content_type != NULL ? route->content_type : "application/json");
    jout_object(out);
    if (route->body != NULL) {
        jout_key(out, "schema");
        jout_object(out);
        put_fields(out, route->body, route->body_count);
        jout_object_end(out);
    }
    jout_object_end(out);
    jout_object_end(out);
    jout_object_end(out);
}

static void put_answer_schema(struct jout *out, const char *content_type, const struct answer_field *fields,
                              size_t count)
{
    jout_key(out, "content");
    jout_object(out);
    jout_key(out, content_type);
    jout_object(out);
    jout_key(out, "schema");
    jout_object(out);
    jout_key_text(out, "type", "object");
    jout_key(out, "properties");
    jout_object(out);
    for (size_t i = 0; i < count; i++) {
        jout_key(out, fields[i].name);
        jout_object(out);
        jout_key_text(out, "type", fields[i].type);
        if (fields[i].doc != NULL) {
            jout_key_text(out, "description", fields[i].doc);
        }
        jout_object_end(out);
    }
    jout_object_end(out);
    jout_object_end(out);
    jout_object_end(out);
    jout_object_end(out);
}

static void put_responses(struct jout *out, const struct route *route)
{
    char status[16];
    (void)snprintf(status, sizeof(status), "%d", route->success_status);
    jout_key(out, "responses");
    jout_object(out);
    jout_key(out, status);
    jout_object(out);
    jout_key_text(out, "description", "Success");
    if (route->answer != NULL) {
        put_answer_schema(out, "application/json", route->answer, route->answer_count);
    }
    jout_object_end(out);
    jout_key(out, "default");
    jout_object(out);
    jout_key_text(out, "$ref", "#/components/responses/Problem");
    jout_object_end(out);
    jout_object_end(out);
}

static void put_security(struct jout *out, const struct route *route)
{
    jout_key(out, "security");
    jout_array(out);
    if (route->permission != PERMISSION_PUBLIC) {
        jout_object(out);
        jout_key(out, "bearer");
        jout_array(out);
        jout_array_end(out);
        jout_object_end(out);
    }
    jout_array_end(out);
    if (route->permission != PERMISSION_PUBLIC && route->permission != PERMISSION_NONE) {
        jout_key_text(out, "x-permission", permission_text(route->permission));
    }
}

static void put_operation(struct jout *out, const struct route *route)
{
    static const char *const methods[] = {
        [ROUTE_GET] = "get", [ROUTE_POST] = "post", [ROUTE_PUT] = "put", [ROUTE_DELETE] = "delete"
    };
    jout_key(out, methods[route->method]);
    jout_object(out);
    jout_key_text(out, "operationId", route->name);
    if (route->doc != NULL) {
        jout_key_text(out, "description", route->doc);
    }
    put_security(out, route);
    put_parameters(out, route);
    put_request(out, route);
    put_responses(out, route);
    jout_object_end(out);
}

static void put_paths(struct jout *out, const struct router *router)
{
    jout_key(out, "paths");
    jout_object(out);
    const char *open = NULL;
    for (size_t i = 0; i < router_count(router); i++) {
        const struct route *route = router_at(router, i);
        if (open == NULL || strcmp(open, route->path) != 0) {
            if (open != NULL) {
                jout_object_end(out);
            }
            open = route->path;
            jout_key(out, open);
            jout_object(out);
        }
        put_operation(out, route);
    }
    if (open != NULL) {
        jout_object_end(out);
    }
    jout_object_end(out);
}

static void put_problem(struct jout *out)
{
    static const struct answer_field members[] = {
        { "type", "string", "urn:svc:problem: and the code." },
        { "title", "string", "What the code means." },
        { "status", "integer", "The HTTP status." },
        { "code", "string", "The closed code: what programs decide by." },
        { "detail", "string", "What is wrong with this request, and what to do." },
        { "instance", "string", "urn:svc:trace: and the trace id." },
        { "trace_id", "string", "The W3C trace id of the request: the log has it too." },
        { "pointer", "string", "The JSON pointer, parameter or header at fault." },
        { "resource", "string", "The resource that the refusal is about." },
        { "retryable", "boolean", "The same request may succeed later; see Retry-After." },
        { "sqlstate", "string", "Of a transaction that was rolled back." },
    };
    jout_key(out, "Problem");
    jout_object(out);
    jout_key_text(out, "description", "A refusal or failure (RFC 9457).");
    put_answer_schema(out, "application/problem+json", members, COUNT_OF(members));
    jout_object_end(out);
}

static void put_components(struct jout *out)
{
    jout_key(out, "components");
    jout_object(out);
    jout_key(out, "securitySchemes");
    jout_object(out);
    jout_key(out, "bearer");
    jout_object(out);
    jout_key_text(out, "type", "http");
    jout_key_text(out, "scheme", "bearer");
    jout_object_end(out);
    jout_object_end(out);
    jout_key(out, "responses");
    jout_object(out);
    put_problem(out);
    jout_object_end(out);
    jout_object_end(out);
}

struct fault openapi_print(const struct feature *const *features, size_t count, struct buf *out)
{
    CLEANUP(router_freep) struct router *router = NULL;
    TRY(router_new(features, count, NULL, &router));
    struct jout json;
    jout_init(&json, out);
    jout_object(&json);
    jout_key_text(&json, "openapi", "3.1.0");
    jout_key(&json, "info");
    jout_object(&json);
    jout_key_text(&json, "title", "svc signing appliance");
    jout_key_text(&json, "version", SVC_VERSION);
    jout_object_end(&json);
    put_paths(&json, router);
    put_components(&json);
    jout_object_end(&json);
    return jout_end(&json);
}
