#include "api/server/message.h"

#include <strings.h>

/* Twice the same of these would let two readers of one request disagree about it. */
static const char *const once_only[] = { "Host",          "Content-Length",  "Content-Type", "Content-Encoding",
                                         "Authorization", "Idempotency-Key", "Expect",       "Transfer-Encoding" };

const char *message_header(const struct message *message, const char *name)
{
    for (size_t i = 0; i < message->header_count; i++) {
        if (strcasecmp(message->headers[i].name, name) == 0) {
            return message->headers[i].value;
        }
    }
    return NULL;
}

size_t message_header_count(const struct message *message, const char *name)
{
    size_t count = 0;
    for (size_t i = 0; i < message->header_count; i++) {
        count += strcasecmp(message->headers[i].name, name) == 0;
    }
    return count;
}

static struct fault content_length(struct op *op, struct message *message)
{
    const char *text = message_header(message, "Content-Length");
    message->content_length = 0;
    if (text == NULL) {
        return OK;
    }
    size_t length = 0;
    size_t digits = 0;
    for (; text[digits] >= '0' && text[digits] <= '9' && digits < 16; digits++) {
        length = length * 10 + (size_t)(text[digits] - '0');
    }
    if (digits == 0 || text[digits] != 0) {
        return op_fail_field(op, FAULT(BAD_ARGUMENT), "Content-Length", "Content-Length must be a decimal number");
    }
    message->content_length = length;
    return OK;
}

struct fault message_check(struct op *op, struct message *message)
{
    if (message->malformed) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "the header fields are malformed or more than %d",
                       MESSAGE_HEADERS_MAX - 1);
    }
    for (size_t i = 0; i < COUNT_OF(once_only); i++) {
        if (message_header_count(message, once_only[i]) > 1) {
            return op_fail_field(op, FAULT(BAD_ARGUMENT), once_only[i], "the header %s must be sent once",
                                 once_only[i]);
        }
    }
    if (!message->http_1_0 && message_header(message, "Host") == NULL) {
        return op_fail_field(op, FAULT(BAD_ARGUMENT), "Host", "the Host header is missing");
    }
    if (message_header(message, "Transfer-Encoding") != NULL) {
        return op_fail_field(op, FAULT(LENGTH_REQUIRED), "Transfer-Encoding",
                             "chunked bodies are not accepted: send the body with Content-Length");
    }
    return content_length(op, message);
}

static const char *skip_blanks(const char *at)
{
    while (*at == ' ' || *at == '\t') {
        at++;
    }
    return at;
}

/* What may follow type/subtype: nothing, or for JSON one charset parameter that says UTF-8 (RFC 8259 8.1). */
static bool parameters_fine(const char *at, const char *expected)
{
    at = skip_blanks(at);
    if (*at == 0) {
        return true;
    }
    if (*at != ';' || strcasecmp(expected, "application/json") != 0) {
        return false;
    }
    at = skip_blanks(at + 1);
    return strcasecmp(at, "charset=utf-8") == 0 || strcasecmp(at, "charset=\"utf-8\"") == 0;
}

struct fault message_check_content_type(struct op *op, const struct message *message, const char *expected)
{
    const char *encoding = message_header(message, "Content-Encoding");
    if (encoding != NULL && strcasecmp(encoding, "identity") != 0) {
        return op_fail_field(op, FAULT(MEDIA_TYPE), "Content-Encoding", "encoded bodies are not accepted");
    }
    const char *type = message_header(message, "Content-Type");
    size_t len = strlen(expected);
    if (type == NULL || strncasecmp(type, expected, len) != 0 || !parameters_fine(type + len, expected)) {
        return op_fail_field(op, FAULT(MEDIA_TYPE), "Content-Type", "send the body as Content-Type: %s", expected);
    }
    return OK;
}
