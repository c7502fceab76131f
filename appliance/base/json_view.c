#include "appliance/base/json_view.h"

#include "appliance/base/codec.h"
#include "appliance/base/json.h"

#define CANONICAL_MAX ((size_t)512 << 20)
#define DECODED_MAX   ((size_t)16 << 20)

struct fault view_of(struct op *op, struct span bytes, struct view *ret_view)
{
    CLEANUP(buf_free) struct buf canonical = BUF_INIT(CANONICAL_MAX);
    struct view view;
    TRY(json_canonical(bytes, &canonical));
    TRY(arena_copy(op->arena, buf_span(&canonical), &view.json));
    *ret_view = view;
    return OK;
}

/* The length of the value in front. Canonical text is well-formed and has no blanks, so this needs no care for either.
 */
static size_t value_len(struct span json)
{
    size_t at = 0, depth = 0;
    bool in_string = false;
    while (at < json.len) {
        uint8_t c = json.at[at];
        if (in_string) {
            at += c == '\\' ? 2 : 1;
            in_string = c != '"';
        } else if (depth == 0 && (c == ',' || c == ']' || c == '}' || c == ':')) {
            break;
        } else {
            in_string = c == '"';
            depth += c == '{' || c == '[';
            depth -= c == '}' || c == ']';
            at++;
        }
        if (depth == 0 && !in_string && (c == '"' || c == '}' || c == ']')) {
            break;
        }
    }
    return at < json.len ? at : json.len;
}

static struct span skip(struct span json, size_t len)
{
    size_t used = len < json.len ? len : json.len;
    return span_of(json.at + used, json.len - used);
}

static struct span take_value(struct span *rest)
{
    size_t len = value_len(*rest);
    struct span value = span_of(rest->at, len);
    *rest = skip(*rest, len);
    return value;
}

static struct view get(struct view object, const char *name, size_t name_len)
{
    struct span rest = object.json;
    if (rest.len < 2 || rest.at[0] != '{' || rest.at[1] == '}') {
        return (struct view){ 0 };
    }
    while (rest.len > 1 && rest.at[0] != '}') {
        rest = skip(rest, 1); /* '{' or ',' */
        struct span key = take_value(&rest);
        rest = skip(rest, 1); /* ':' */
        struct span value = take_value(&rest);
        if (key.len == name_len + 2 && memcmp(key.at + 1, name, name_len) == 0) {
            return (struct view){ value };
        }
    }
    return (struct view){ 0 };
}

struct view view_get(struct view object, const char *path)
{
    for (;;) {
        size_t len = strcspn(path, ".");
        object = get(object, path, len);
        if (path[len] == '\0') {
            return object;
        }
        path += len + 1;
    }
}

bool view_next(struct view *rest, struct view *ret_item)
{
    struct span json = rest->json;
    if (json.len < 2 || (json.at[0] != '[' && json.at[0] != ',') || json.at[1] == ']') {
        return false;
    }
    json = skip(json, 1);
    ret_item->json = take_value(&json);
    rest->json = json;
    return true;
}

static uint8_t unescape(struct span json, size_t *at)
{
    static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
    char c = (char)json.at[*at + 1];
    if (c == 'u') { /* canonical form writes only controls so, as 00xx */
        const uint8_t *hex = json.at + *at + 4;
        *at += 6;
        return (uint8_t)((hex[0] - '0') << 4 | (hex[1] <= '9' ? hex[1] - '0' : hex[1] - 'a' + 10));
    }
    const char *known = strchr(from, c);
    *at += 2;
    return (uint8_t)(known != NULL ? to[known - from] : c);
}

const char *view_text(struct op *op, struct view view)
{
    char *text = NULL;
    size_t len = 0;
    if (!view_is_there(view) || FAULTED(arena_take(op->arena, view.json.len + 1, 1, &text))) {
        return NULL;
    }
    bool quoted = view.json.at[0] == '"';
    size_t at = quoted ? 1 : 0, end = view.json.len - (quoted ? 1 : 0);
    while (at < end) {
        bool escaped = quoted && view.json.at[at] == '\\';
        text[len++] = (char)(escaped ? unescape(view.json, &at) : view.json.at[at++]);
    }
    text[len] = '\0';
    return text;
}

const char *view_member(struct op *op, struct view object, const char *path)
{
    return view_text(op, view_get(object, path));
}

struct fault view_int(struct view view, int64_t *ret_number)
{
    int64_t number = 0;
    bool negative = view.json.len > 0 && view.json.at[0] == '-';
    size_t at = negative ? 1 : 0;
    REQUIRE(view.json.len > at, JSON_FIELD);
    for (; at < view.json.len; at++) {
        uint8_t digit = view.json.at[at];
        REQUIRE(digit >= '0' && digit <= '9' && !__builtin_mul_overflow(number, 10, &number) &&
                    !__builtin_add_overflow(number, digit - '0', &number),
                JSON_FIELD);
    }
    *ret_number = negative ? -number : number;
    return OK;
}

struct fault view_base64(struct op *op, struct view view, struct span *ret_bytes)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(DECODED_MAX);
    REQUIRE(view.json.len >= 2 && view.json.at[0] == '"', JSON_FIELD);
    REQUIRE(!FAULTED(base64_decode(span_of(view.json.at + 1, view.json.len - 2), &bytes)), JSON_FIELD);
    return arena_copy(op->arena, buf_span(&bytes), ret_bytes);
}
