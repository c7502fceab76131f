/*
 * A record that is canonical JSON (RFC 8785) with the members of an audit record, recognised in one pass without
 * writing anything: nearly all are of the plain kind that needs no more (ASCII names in order, whole numbers, text that
 * is UTF-8 with the shortest escapes). Whatever is not plain is SCAN_ODD, neither good nor bad: json.h decides.
 */
#include "api/audit/verify_internal.h"
#include "appliance/base/utf8.h"

#define DEPTH_MAX  12 /* jin_decode's limit is further out */
#define DIGITS_MAX 15

struct scanner {
    const uint8_t *at, *end;
};

#define SCAN(expr)             \
    do {                       \
        enum scan s_ = (expr); \
        if (s_ != SCAN_GOOD) { \
            return s_;         \
        }                      \
    } while (0)

static enum scan scan_text(struct scanner *in, const char *text, size_t len)
{
    size_t left = (size_t)(in->end - in->at);
    size_t some = len < left ? len : left;
    if (memcmp(in->at, text, some) != 0) {
        return SCAN_ODD;
    }
    in->at += some;
    return some == len ? SCAN_GOOD : SCAN_MORE;
}
#define SCAN_TEXT(in, literal) SCAN(scan_text(in, literal, sizeof(literal) - 1))

/* Behind the backslash. RFC 8785 3.2.2.2 leaves one escape for each character that needs one. */
static enum scan scan_escape(struct scanner *in)
{
    if (in->end - in->at < 5) {
        return SCAN_MORE; /* a record does not end so near */
    }
    const uint8_t *at = in->at;
    if (at[0] != 'u') {
        in->at++;
        return at[0] != 0 && strchr("\"\\bfnrt", at[0]) != NULL ? SCAN_GOOD : SCAN_ODD;
    }
    bool low = at[4] != 0 && strchr(at[3] == '0' ? "01234567bef" : "0123456789abcdef", at[4]) != NULL;
    in->at += 5;
    return at[1] == '0' && at[2] == '0' && (at[3] == '0' || at[3] == '1') && low ? SCAN_GOOD : SCAN_ODD;
}

static enum scan scan_beyond_ascii(struct scanner *in)
{
    struct reader reader = { span_of(in->at, (size_t)(in->end - in->at)) };
    uint32_t point;
    if (FAULTED(utf8_next(&reader, &point))) {
        return in->end - in->at < 4 ? SCAN_MORE : SCAN_ODD;
    }
    in->at = reader.rest.at;
    return SCAN_GOOD;
}

/* With its quotes; *ret_plain: as it stands, without escapes and beyond-ASCII characters; empty when it has some. */
static enum scan scan_string(struct scanner *in, struct span *ret_plain)
{
    bool plain = true;
    SCAN_TEXT(in, "\"");
    const uint8_t *start = in->at;
    for (;;) {
        const uint8_t *at = in->at, *end = in->end;
        while (at < end && *at >= 0x20 && *at < 0x80 && *at != '"' && *at != '\\') {
            at++;
        }
        in->at = at;
        if (at == end) {
            return SCAN_MORE;
        }
        if (*at == '"') {
            *ret_plain = span_of(start, plain ? (size_t)(at - start) : 0);
            in->at++;
            return SCAN_GOOD;
        }
        plain = false;
        if (*at == '\\') {
            in->at++;
            SCAN(scan_escape(in));
        } else if (*at >= 0x80) {
            SCAN(scan_beyond_ascii(in));
        } else {
            return SCAN_ODD;
        }
    }
}

static enum scan scan_integer(struct scanner *in, int64_t *ret_value)
{
    int64_t value = 0;
    bool negative = in->at < in->end && *in->at == '-';
    in->at += negative;
    const uint8_t *start = in->at;
    while (in->at < in->end && *in->at >= '0' && *in->at <= '9' && in->at - start < DIGITS_MAX) {
        value = 10 * value + (*in->at++ - '0');
    }
    if (in->at == in->end) {
        return SCAN_MORE;
    }
    bool goes_on = (*in->at >= '0' && *in->at <= '9') || *in->at == '.' || (*in->at | 0x20) == 'e';
    bool zero = in->at > start && *start == '0';
    if (in->at == start || goes_on || (zero && (in->at - start > 1 || negative))) {
        return SCAN_ODD;
    }
    *ret_value = negative ? -value : value;
    return SCAN_GOOD;
}

static bool in_order(struct span before, struct span key)
{
    size_t len = before.len < key.len ? before.len : key.len;
    int order = len > 0 ? memcmp(before.at, key.at, len) : 0;
    return order < 0 || (order == 0 && before.len < key.len);
}

static enum scan scan_value(struct scanner *in, unsigned depth);

static enum scan scan_object(struct scanner *in, unsigned depth)
{
    struct span before = { 0 };
    in->at++;
    if (in->at < in->end && *in->at == '}') {
        in->at++;
        return SCAN_GOOD;
    }
    for (bool first = true;; first = false) {
        struct span key;
        SCAN(scan_string(in, &key));
        if (key.len == 0 || (!first && !in_order(before, key))) {
            return SCAN_ODD;
        }
        before = key;
        SCAN_TEXT(in, ":");
        SCAN(scan_value(in, depth + 1));
        if (in->at == in->end) {
            return SCAN_MORE;
        }
        uint8_t c = *in->at++;
        if (c != ',') {
            return c == '}' ? SCAN_GOOD : SCAN_ODD;
        }
    }
}

static enum scan scan_array(struct scanner *in, unsigned depth)
{
    in->at++;
    if (in->at < in->end && *in->at == ']') {
        in->at++;
        return SCAN_GOOD;
    }
    for (;;) {
        SCAN(scan_value(in, depth + 1));
        if (in->at == in->end) {
            return SCAN_MORE;
        }
        uint8_t c = *in->at++;
        if (c != ',') {
            return c == ']' ? SCAN_GOOD : SCAN_ODD;
        }
    }
}

static enum scan scan_value(struct scanner *in, unsigned depth)
{
    struct span plain;
    int64_t number;
    if (in->at == in->end) {
        return SCAN_MORE;
    }
    if (depth > DEPTH_MAX) {
        return SCAN_ODD;
    }
    switch (*in->at) {
    case '"':
        return scan_string(in, &plain);
    case '{':
        return scan_object(in, depth);
    case '[':
        return scan_array(in, depth);
    case 't':
        return scan_text(in, "true", 4);
    case 'f':
        return scan_text(in, "false", 5);
    case 'n':
        return scan_text(in, "null", 4);
    default:
        return scan_integer(in, &number);
    }
}

/* {"roles":[...],"subject":"..."} */
static enum scan scan_actor(struct scanner *in)
{
    struct span plain;
    SCAN_TEXT(in, "{\"roles\":");
    if (in->at < in->end && *in->at != '[') {
        return SCAN_ODD;
    }
    SCAN(scan_value(in, 2));
    SCAN_TEXT(in, ",\"subject\":");
    SCAN(scan_string(in, &plain));
    return scan_text(in, "}", 1);
}

static enum scan scan_bounded(struct scanner *in, size_t least, size_t most, struct span *ret_text)
{
    const uint8_t *start = in->at;
    SCAN(scan_string(in, ret_text));
    bool has_escapes = ret_text->len + 2 != (size_t)(in->at - start);
    return !has_escapes && ret_text->len >= least && ret_text->len <= most ? SCAN_GOOD : SCAN_ODD;
}

static enum scan scan_record(struct scanner *in, struct record_view *view)
{
    struct span text;
    int64_t version = 0;
    SCAN_TEXT(in, "{\"actor\":");
    SCAN(scan_actor(in));
    SCAN_TEXT(in, ",\"data\":");
    SCAN(scan_value(in, 1));
    SCAN_TEXT(in, ",\"event_id\":");
    SCAN(scan_bounded(in, 36, 36, &text));
    SCAN_TEXT(in, ",\"lane\":");
    SCAN(scan_bounded(in, 1, 64, &text));
    SCAN_TEXT(in, ",\"schema_version\":");
    SCAN(scan_integer(in, &version));
    SCAN_TEXT(in, ",\"sequence\":");
    SCAN(scan_integer(in, &view->sequence));
    SCAN_TEXT(in, ",\"tenant_id\":");
    SCAN(scan_bounded(in, 1, 63, &view->tenant));
    SCAN_TEXT(in, ",\"time\":");
    SCAN(scan_bounded(in, 20, RFC3339_MAX - 1, &view->time));
    SCAN_TEXT(in, ",\"trace_id\":");
    SCAN(scan_bounded(in, 0, 64, &text));
    SCAN_TEXT(in, ",\"type\":");
    SCAN(scan_bounded(in, 1, 128, &text));
    SCAN_TEXT(in, "}");
    return version >= 1 && version <= INT32_MAX && view->sequence >= 1 ? SCAN_GOOD : SCAN_ODD;
}

enum scan record_scan(struct span bytes, struct record_view *ret_view, size_t *ret_len)
{
    if (bytes.len == 0) {
        return SCAN_MORE;
    }
    struct scanner in = { bytes.at, bytes.at + bytes.len };
    struct record_view view = { 0 };
    enum scan scan = scan_record(&in, &view);
    if (scan == SCAN_GOOD) {
        *ret_view = view;
        *ret_len = (size_t)(in.at - bytes.at);
    }
    return scan;
}
