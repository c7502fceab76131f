/* rooms: server */
/* What a stranger can write into a request's head: path, query, traceparent, framing headers, cursor. The first byte
 * picks the parser. Whatever is accepted must be what its definition says. */
#include "api/server/message.h"
#include "api/server/request.h"
#include "api/server/trace.h"
#include "api/server/uri.h"
#include "appliance/base/secret.h"
#include "appliance/base/utf8.h"

static void try_path(struct op *op, const char *text)
{
    struct path path;
    if (FAULTED(path_split(op, text, &path))) {
        return;
    }
    for (size_t i = 0; i < path.count; i++) {
        const char *decoded = NULL;
        BUG_IF(path.segments[i].len == 0 && i + 1 < path.count); /* the last one of "/folder/" is empty */
        if (path.segments[i].len == 0) {
            continue;
        }
        if (FAULTED(percent_decode(op, path.segments[i], false, &decoded))) {
            continue; /* not UTF-8 */
        }
        BUG_IF(strchr(decoded, '/') != NULL || strchr(decoded, '\\') != NULL);
        BUG_IF(strcmp(decoded, ".") == 0 || strcmp(decoded, "..") == 0 || decoded[0] == 0);
    }
}

static void try_query(struct op *op, const char *text)
{
    static const char *const accepted[] = { "a", "limit", "cursor", NULL };
    struct query query;
    if (FAULTED(query_parse(op, text, accepted, &query))) {
        return;
    }
    BUG_IF(query.count > COUNT_OF(accepted) - 1);
    for (size_t i = 0; i < query.count; i++) {
        BUG_IF(FAULTED(utf8_check(span_text(query.at[i].value))));
        BUG_IF(query_get(&query, query.at[i].name) != query.at[i].value);
    }
}

static void try_trace(struct op *op, const char *text)
{
    struct traceparent parent, again;
    char printed[TRACEPARENT_LEN + 1];
    const struct message message = { .headers = { { "traceparent", text } }, .header_count = 1 };
    if (!traceparent_parse(text, &parent)) {
        return;
    }
    BUG_IF(strlen(parent.trace_id) != 32 || strlen(parent.parent_id) != 16 || FAULTED(trace_begin(op, &message)) ||
           strcmp(op->trace_id, parent.trace_id) != 0 || op->sampled);
    trace_caller_known(op, &message);
    BUG_IF(op->sampled != parent.sampled);
    traceparent_print(op, printed);
    BUG_IF(!traceparent_parse(printed, &again) || strcmp(again.trace_id, parent.trace_id) != 0);
}

/* "Name: value" lines. */
static void try_headers(struct op *op, char *text)
{
    struct message message = { .method = "POST", .path = "/" };
    char *rest = NULL;
    for (char *line = strtok_r(text, "\n", &rest); line != NULL && message.header_count < MESSAGE_HEADERS_MAX;
         line = strtok_r(NULL, "\n", &rest)) {
        char *colon = strchr(line, ':');
        if (colon != NULL) {
            *colon = 0;
            message.headers[message.header_count++] = (struct http_header){ line, colon + 1 };
        }
    }
    if (FAULTED(message_check(op, &message))) {
        return;
    }
    BUG_IF(message_header_count(&message, "Content-Length") > 1 ||
           message_header(&message, "Transfer-Encoding") != NULL);
    IGNORE(message_check_content_type(op, &message, "application/json"));
}

static void try_cursor(struct op *op, const char *text)
{
    static const uint8_t key[32] = { 7 };
    static const struct route route = { .name = "list" };
    struct services services = { 0 };
    struct request request = { .op = op, .services = &services, .route = &route };
    const char *position = NULL;
    BUG_IF(FAULTED(secret_new(SPAN_ARRAY(key), &services.fingerprint_key)));
    BUG_IF(!FAULTED(cursor_read(&request, text, &position)) || position != NULL); /* nobody guesses 16 bytes */
    secret_free(services.fingerprint_key);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0 || memchr(data + 1, 0, size - 1) != NULL) {
        return 0; /* a head holds no NUL */
    }
    CLEANUP(op_freep) struct op *op = NULL;
    const char *text = NULL;
    BUG_IF(FAULTED(op_new("fuzz", (struct tenant_id){ "fuzz" }, 60000, &op)));
    if (FAULTED(arena_text(op->arena, span_of(data + 1, size - 1), &text))) {
        return 0;
    }
    switch (data[0] % 5) {
    case 0:
        try_path(op, text);
        break;
    case 1:
        try_query(op, text);
        break;
    case 2:
        try_trace(op, text);
        break;
    case 3:
        try_headers(op, (char *)(uintptr_t)text);
        break;
    default:
        try_cursor(op, text);
        break;
    }
    return 0;
}
