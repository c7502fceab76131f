#include "api/server/response.h"

void response_clear(struct response *response)
{
    *response = (struct response){ .status = 0 };
}

static bool is_token(const char *name)
{
    for (const char *at = name; *at != 0; at++) {
        bool fine =
            (*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') || (*at >= '0' && *at <= '9') || *at == '-';
        if (!fine) {
            return false;
        }
    }
    return *name != 0;
}

static bool has_control(const char *value)
{
    for (const char *at = value; *at != 0; at++) {
        if ((uint8_t)*at < 0x20 || *at == 0x7f) {
            return true;
        }
    }
    return false;
}

struct fault response_add(struct op *op, struct response *response, const char *name, const char *value)
{
    REQUIRE(is_token(name) && !has_control(value), BAD_ARGUMENT);
    REQUIRE(response->header_count < RESPONSE_HEADERS_MAX, TOO_LARGE);
    const char *kept_name = NULL;
    const char *kept = NULL;
    TRY(arena_text(op->arena, span_text(name), &kept_name));
    TRY(arena_text(op->arena, span_text(value), &kept));
    response->headers[response->header_count].name = kept_name;
    response->headers[response->header_count].value = kept;
    response->header_count++;
    return OK;
}

struct fault response_headers_print(const struct response *response, struct buf *out)
{
    for (size_t i = 0; i < response->header_count; i++) {
        TRY(buf_printf(out, "%s: %s\n", response->headers[i].name, response->headers[i].value));
    }
    return OK;
}

struct fault response_headers_parse(struct op *op, struct span text, struct response *response)
{
    while (text.len > 0) {
        const uint8_t *end = memchr(text.at, '\n', text.len);
        const uint8_t *colon = end != NULL ? memchr(text.at, ':', (size_t)(end - text.at)) : NULL;
        REQUIRE(colon != NULL && end - colon >= 2 && colon[1] == ' ', INTERNAL);
        const char *name = NULL;
        const char *value = NULL;
        TRY(arena_text(op->arena, span_of(text.at, (size_t)(colon - text.at)), &name));
        TRY(arena_text(op->arena, span_of(colon + 2, (size_t)(end - colon - 2)), &value));
        TRY(response_add(op, response, name, value));
        text = span_of(end + 1, text.len - (size_t)(end + 1 - text.at));
    }
    return OK;
}
