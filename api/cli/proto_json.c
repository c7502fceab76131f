#include "api/cli/proto_json.h"

static struct fault wrong(struct op *op, const char *path, const char *wanted)
{
    return op_fail(op, FAULT(BUNDLE_INVALID), "%s: must be %s", path, wanted);
}

static bool starts_with(struct view view, char c)
{
    return view.json.len > 0 && view.json.at[0] == (uint8_t)c;
}

/* Canonical form writes a NUL as \u0000; behind a backslash of its own it is no escape. */
static bool has_nul(struct span json)
{
    for (size_t i = 0; i + 1 < json.len; i++) {
        if (json.at[i] == '\\') {
            if (json.len - i >= 6 && memcmp(json.at + i, "\\u0000", 6) == 0) {
                return true;
            }
            i++;
        }
    }
    return false;
}

struct fault proto_text(struct op *op, struct view object, const char *path, const char **ret_text)
{
    struct view view = view_get(object, path);
    const char *text = NULL;
    if (view_is_there(view)) {
        if (!starts_with(view, '"') || has_nul(view.json)) {
            return wrong(op, path, "text");
        }
        text = view_text(op, view);
        REQUIRE(text != NULL, NO_MEMORY);
    }
    *ret_text = text;
    return OK;
}

struct fault proto_bytes(struct op *op, struct view object, const char *path, struct span *ret_bytes)
{
    struct view view = view_get(object, path);
    struct span bytes = { 0 };
    if (view_is_there(view) && FAULTED(view_base64(op, view, &bytes))) {
        return wrong(op, path, "base64");
    }
    *ret_bytes = bytes;
    return OK;
}

struct fault proto_int64(struct op *op, struct view object, const char *path, int64_t *ret_number)
{
    struct view view = view_get(object, path);
    int64_t number = 0;
    if (view_is_there(view)) {
        if (starts_with(view, '"') && view.json.len >= 2) {
            view.json = span_of(view.json.at + 1, view.json.len - 2);
        }
        if (FAULTED(view_int(view, &number)) || number < 0) {
            return wrong(op, path, "a whole number, not negative");
        }
    }
    *ret_number = number;
    return OK;
}

struct fault proto_time(struct op *op, struct view object, const char *path, utc_us *ret_time)
{
    const char *text = NULL;
    utc_us time = 0;
    TRY(proto_text(op, object, path, &text));
    if (text != NULL && FAULTED(rfc3339_parse(span_text(text), &time))) {
        return wrong(op, path, "an RFC 3339 time");
    }
    *ret_time = time;
    return OK;
}

static struct fault take(struct op *op, struct view object, const char *path, char opening, const char *wanted,
                         struct view *ret_view)
{
    struct view view = view_get(object, path);
    if (view_is_there(view) && !starts_with(view, opening)) {
        return wrong(op, path, wanted);
    }
    *ret_view = view_is_there(view) ? view : (struct view){ 0 };
    return OK;
}

struct fault proto_list(struct op *op, struct view object, const char *path, struct view *ret_list)
{
    return take(op, object, path, '[', "an array", ret_list);
}

struct fault proto_object(struct op *op, struct view object, const char *path, struct view *ret_object)
{
    return take(op, object, path, '{', "an object", ret_object);
}
