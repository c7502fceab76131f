#include "api/server/exchange.h"

const char *request_path(const struct request *request, const char *name)
{
    const struct route_params *params = &request->private_->match.params;
    for (size_t i = 0; i < params->count; i++) {
        if (strcmp(params->at[i].name, name) == 0) {
            return params->at[i].value;
        }
    }
    fault_bug(__FILE__, __LINE__, "a handler asked for a name that its path template does not have");
}

const char *request_query(const struct request *request, const char *name)
{
    return query_get(&request->private_->query, name);
}

const char *request_header(const struct request *request, const char *name)
{
    return message_header(request->private_->message, name);
}

void request_bulkhead(const struct request *request, enum bulkhead_name bulkhead, struct bulkhead_load *ret_load)
{
    bulkheads_load(request->services->bulkheads, bulkhead, ret_load);
}

const char *request_base_url(const struct request *request)
{
    const struct config *config = request->services->config;
    if (config->http_base_url != NULL && config->http_base_url[0] != 0) {
        return config->http_base_url;
    }
    const char *url = NULL;
    struct fault fault = arena_printf(request->op->arena, &url, "https://%s", config->http_listen);
    return FAULTED(fault) ? "" : url;
}

static int status_of(const struct request *request, int status)
{
    int chosen = status != 0 ? status : request->route->success_status;
    BUG_IF(chosen < 200 || chosen > 599);
    return chosen;
}

struct fault response_bytes(struct request *request, int status, const char *content_type, struct span bytes)
{
    struct span kept = { 0 };
    if (bytes.len > 0) {
        TRY(arena_copy(request->op->arena, bytes, &kept));
    }
    const char *type = NULL;
    TRY(arena_text(request->op->arena, span_text(content_type), &type));
    request->response->status = status_of(request, status);
    request->response->content_type = type;
    request->response->body = kept;
    return OK;
}

struct fault response_json(struct request *request, int status, const struct buf *json)
{
    return response_bytes(request, status, "application/json", buf_span(json));
}

static bool head_only(const struct request *request)
{
    return strcmp(request->private_->message->method, "HEAD") == 0;
}

struct fault response_stream_begin(struct request *request, int status, const char *content_type)
{
    const struct message *message = request->private_->message;
    BUG_IF(request->response->streams || (request->route->flags & ROUTE_MUTATION) != 0);
    REQUIRE(message->stream != NULL, UNSUPPORTED);
    if (message->http_1_0) {
        return op_fail(request->op, FAULT(BAD_ARGUMENT), "this answer is streamed: ask with HTTP/1.1");
    }
    TRY(response_bytes(request, status, content_type, (struct span){ 0 }));
    request->response->streams = true;
    return message->stream->begin(message->arg, request->response);
}

bool response_stream_wanted(const struct request *request)
{
    return !head_only(request);
}

struct fault response_stream_write(struct request *request, struct span bytes)
{
    const struct message *message = request->private_->message;
    BUG_IF(!request->response->streams || request->op->tx_open != 0);
    if (op_expired(request->op)) {
        return op_fail(request->op, FAULT(DEADLINE), "the answer took too long");
    }
    return head_only(request) ? OK : message->stream->put(message->arg, bytes);
}

struct fault response_header(struct request *request, const char *name, const char *value)
{
    return response_add(request->op, request->response, name, value);
}
