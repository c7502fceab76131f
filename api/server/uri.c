#include "api/server/uri.h"

#include "appliance/base/utf8.h"

static int hex_value(uint8_t c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* The byte behind "%XX" at `at`, or -1. */
static int escape_value(struct span text, size_t at)
{
    if (text.len - at < 3) {
        return -1;
    }
    int high = hex_value(text.at[at + 1]);
    int low = hex_value(text.at[at + 2]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static bool is_pchar(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != 0 && strchr("-._~!$&'()*+,;=:@", c) != NULL);
}

/* Decoded bytes that would mean something else to a reader that decodes first. */
static bool unsafe_in_segment(int byte)
{
    return byte < 0x20 || byte == 0x7f || byte == '/' || byte == '\\';
}

static struct fault segment_check(struct op *op, struct span segment)
{
    size_t dots = 0;
    size_t length = 0;
    for (size_t at = 0; at < segment.len; at++, length++) {
        int byte = segment.at[at];
        if (byte == '%') {
            byte = escape_value(segment, at);
            at += 2;
        } else if (!is_pchar((uint8_t)byte)) {
            byte = -1;
        }
        if (unsafe_in_segment(byte)) {
            return op_fail(op, FAULT(BAD_ARGUMENT), "the path holds a character or escape that is not accepted");
        }
        dots += byte == '.';
    }
    if (dots == length && length <= 2) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "the path must not hold '.' or '..'");
    }
    return OK;
}

struct fault path_split(struct op *op, const char *text, struct path *ret_path)
{
    struct path path = { .count = 0 };
    size_t len = strlen(text);
    if (text[0] != '/' || len > PATH_MAX_LEN) {
        return op_fail(op, FAULT(ROUTE), "the path must begin with '/' and be at most %d bytes", PATH_MAX_LEN);
    }
    for (const char *at = text; *at == '/' && len > 1;) {
        size_t end = strcspn(at + 1, "/");
        struct span segment = span_of(at + 1, end);
        bool last = at[1] == 0; /* "/folder/": the empty segment behind it is the folder's own page */
        if ((end == 0 && !last) || path.count == PATH_SEGMENTS_MAX) {
            return op_fail(op, FAULT(ROUTE), "no route has an empty path segment or more than %d of them",
                           PATH_SEGMENTS_MAX);
        }
        if (!last) {
            TRY(segment_check(op, segment));
        }
        path.segments[path.count++] = segment;
        at += 1 + end;
    }
    *ret_path = path;
    return OK;
}

struct fault percent_decode(struct op *op, struct span text, bool plus_is_blank, const char **ret_text)
{
    uint8_t *out = NULL;
    TRY(arena_take(op->arena, text.len + 1, 1, &out));
    size_t len = 0;
    for (size_t at = 0; at < text.len; at++) {
        int byte = text.at[at];
        if (byte == '%') {
            byte = escape_value(text, at);
            at += 2;
        } else if (byte == '+' && plus_is_blank) {
            byte = ' ';
        }
        REQUIRE(byte >= 0x20 && byte != 0x7f, BAD_ARGUMENT);
        out[len++] = (uint8_t)byte;
    }
    REQUIRE(!FAULTED(utf8_check(span_of(out, len))), BAD_ARGUMENT);
    *ret_text = (const char *)out;
    return OK;
}

const char *query_get(const struct query *query, const char *name)
{
    for (size_t i = 0; i < query->count; i++) {
        if (strcmp(query->at[i].name, name) == 0) {
            return query->at[i].value;
        }
    }
    return NULL;
}

static bool named(const char *const *accepted, const char *name)
{
    for (size_t i = 0; accepted != NULL && accepted[i] != NULL; i++) {
        if (strcmp(accepted[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static struct fault query_add(struct op *op, struct span pair, const char *const *accepted, struct query *query)
{
    const uint8_t *equals = memchr(pair.at, '=', pair.len);
    size_t name_len = equals != NULL ? (size_t)(equals - pair.at) : pair.len;
    struct span value = equals != NULL ? span_of(equals + 1, pair.len - name_len - 1) : span_of("", 0);
    const char *name = NULL;
    const char *decoded = NULL;
    if (FAULTED(percent_decode(op, span_of(pair.at, name_len), true, &name)) || !named(accepted, name)) {
        return op_fail_field(op, FAULT(QUERY), name != NULL ? name : "",
                             "this route does not know this query parameter: leave it out");
    }
    if (query_get(query, name) != NULL) {
        return op_fail_field(op, FAULT(QUERY), name, "the query parameter must be sent once");
    }
    if (query->count == QUERY_PARAMS_MAX || FAULTED(percent_decode(op, value, true, &decoded))) {
        return op_fail_field(op, FAULT(QUERY), name, "the value of the query parameter is malformed");
    }
    query->at[query->count].name = name;
    query->at[query->count].value = decoded;
    query->count++;
    return OK;
}

struct fault query_parse(struct op *op, const char *text, const char *const *accepted, struct query *ret_query)
{
    struct query query = { .count = 0 };
    if (text != NULL && strlen(text) > QUERY_MAX_LEN) {
        return op_fail(op, FAULT(QUERY), "the query is longer than %d bytes", QUERY_MAX_LEN);
    }
    while (text != NULL && *text != 0) {
        size_t len = strcspn(text, "&");
        TRY(query_add(op, span_of(text, len), accepted, &query));
        text += len;
        if (*text == '&' && *++text == 0) {
            return op_fail(op, FAULT(QUERY), "the query must not end with '&'");
        }
    }
    *ret_query = query;
    return OK;
}
