#include "appliance/base/json.h"

#include "appliance/base/codec.h"
#include "appliance/base/utf8.h"

void jout_init(struct jout *jout, struct buf *out)
{
    *jout = (struct jout){ .out = out };
}

static void keep(struct jout *jout, struct fault fault)
{
    if (FAULTED(fault) && !FAULTED(jout->first)) {
        jout->first = fault;
    }
}

static void raw(struct jout *jout, const char *text)
{
    if (!FAULTED(jout->first)) {
        keep(jout, buf_text(jout->out, text));
    }
}

static void put_comma(struct jout *jout)
{
    if ((jout->need_comma >> jout->depth & 1) != 0) {
        raw(jout, ",");
    }
    jout->need_comma |= (uint64_t)1 << jout->depth;
}

/* What stands before a value: a comma, unless it is the first of its level or follows its key. */
static void before_value(struct jout *jout)
{
    if (jout->after_key) {
        jout->after_key = false;
        return;
    }
    BUG_IF((jout->in_object >> jout->depth & 1) != 0);       /* a key is due */
    BUG_IF(jout->depth == 0 && (jout->need_comma & 1) != 0); /* one document has one root */
    put_comma(jout);
}

static void open_level(struct jout *jout, const char *bracket)
{
    before_value(jout);
    raw(jout, bracket);
    jout->depth++;
    BUG_IF(jout->depth >= 64);
    uint64_t bit = (uint64_t)1 << jout->depth;
    jout->need_comma &= ~bit;
    jout->in_object = bracket[0] == '{' ? jout->in_object | bit : jout->in_object & ~bit;
}

static void close_level(struct jout *jout, const char *bracket)
{
    bool object = (jout->in_object >> jout->depth & 1) != 0;
    BUG_IF(jout->depth == 0 || jout->after_key || object != (bracket[0] == '}'));
    jout->depth--;
    raw(jout, bracket);
}

void jout_object(struct jout *jout)
{
    open_level(jout, "{");
}

void jout_object_end(struct jout *jout)
{
    close_level(jout, "}");
}

void jout_array(struct jout *jout)
{
    open_level(jout, "[");
}

void jout_array_end(struct jout *jout)
{
    close_level(jout, "]");
}

/* Printable ASCII that needs no escape: almost all of it. */
static bool is_plain(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.at[i];
        if (c < 0x20 || c >= 0x80 || c == '"' || c == '\\') {
            return false;
        }
    }
    return true;
}

static struct fault put_plain(struct buf *out, struct span text)
{
    uint8_t *at;
    REQUIRE(text.len <= SIZE_MAX - 2, TOO_LARGE);
    TRY(buf_reserve(out, text.len + 2, &at));
    at[0] = '"';
    if (text.len > 0) {
        memcpy(at + 1, text.at, text.len);
    }
    at[text.len + 1] = '"';
    return OK;
}

/* RFC 8785 3.2.2.2: the two-character escapes where JSON has them, \u00xx for other controls, nothing else. */
static struct fault put_string(struct buf *out, struct span text)
{
    if (is_plain(text)) {
        return put_plain(out, text);
    }
    TRY(utf8_check(text));
    TRY(buf_u8(out, '"'));
    size_t from = 0;
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.at[i];
        if (c >= 0x20 && c != '"' && c != '\\') {
            continue;
        }
        TRY(buf_put(out, span_of(text.at + from, i - from)));
        from = i + 1;
        static const char two[] = "btnvfr"; /* 8..13; 11 has no short form */
        if (c == '"' || c == '\\') {
            TRY(buf_u8(out, '\\'));
            TRY(buf_u8(out, c));
        } else if (c >= 8 && c <= 13 && c != 11) {
            TRY(buf_u8(out, '\\'));
            TRY(buf_u8(out, (uint8_t)two[c - 8]));
        } else {
            TRY(buf_printf(out, "\\u%04x", c));
        }
    }
    TRY(buf_put(out, span_of(text.at + from, text.len - from)));
    return buf_u8(out, '"');
}

void jout_span_text(struct jout *jout, struct span text)
{
    before_value(jout);
    if (!FAULTED(jout->first)) {
        keep(jout, put_string(jout->out, text));
    }
}

void jout_key(struct jout *jout, const char *key)
{
    BUG_IF((jout->in_object >> jout->depth & 1) == 0 || jout->after_key);
    put_comma(jout);
    if (!FAULTED(jout->first)) {
        keep(jout, put_string(jout->out, span_text(key)));
    }
    raw(jout, ":");
    jout->after_key = true;
}

void jout_text(struct jout *jout, const char *text)
{
    if (text == NULL) {
        jout_null(jout);
        return;
    }
    jout_span_text(jout, span_text(text));
}

void jout_int(struct jout *jout, int64_t value)
{
    char digits[20]; /* of 2^63, a sign in front */
    size_t at = sizeof(digits);
    uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
    do {
        digits[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest != 0);
    if (value < 0) {
        digits[--at] = '-';
    }
    before_value(jout);
    if (!FAULTED(jout->first)) {
        keep(jout, buf_put(jout->out, span_of(digits + at, sizeof(digits) - at)));
    }
}

void jout_bool(struct jout *jout, bool value)
{
    before_value(jout);
    raw(jout, value ? "true" : "false");
}

void jout_null(struct jout *jout)
{
    before_value(jout);
    raw(jout, "null");
}

static void encoded(struct jout *jout, struct span bytes, struct fault (*encode)(struct span bytes, struct buf *out))
{
    before_value(jout);
    raw(jout, "\"");
    if (!FAULTED(jout->first)) {
        keep(jout, encode(bytes, jout->out));
    }
    raw(jout, "\"");
}

void jout_base64(struct jout *jout, struct span bytes)
{
    encoded(jout, bytes, base64_encode);
}

void jout_hex(struct jout *jout, struct span bytes)
{
    encoded(jout, bytes, hex_encode);
}

void jout_time(struct jout *jout, utc_us time)
{
    char text[RFC3339_MAX];
    rfc3339_print(time, text);
    jout_text(jout, text);
}

void jout_raw(struct jout *jout, struct span json)
{
    before_value(jout);
    if (!FAULTED(jout->first)) {
        keep(jout, buf_put(jout->out, json));
    }
}

void jout_key_text(struct jout *jout, const char *key, const char *text)
{
    jout_key(jout, key);
    jout_text(jout, text);
}

void jout_key_int(struct jout *jout, const char *key, int64_t value)
{
    jout_key(jout, key);
    jout_int(jout, value);
}

void jout_key_bool(struct jout *jout, const char *key, bool value)
{
    jout_key(jout, key);
    jout_bool(jout, value);
}

void jout_key_base64(struct jout *jout, const char *key, struct span bytes)
{
    jout_key(jout, key);
    jout_base64(jout, bytes);
}

void jout_key_hex(struct jout *jout, const char *key, struct span bytes)
{
    jout_key(jout, key);
    jout_hex(jout, bytes);
}

void jout_key_time(struct jout *jout, const char *key, utc_us time)
{
    jout_key(jout, key);
    jout_time(jout, time);
}

void jout_key_raw(struct jout *jout, const char *key, struct span json)
{
    jout_key(jout, key);
    jout_raw(jout, json);
}

struct fault jout_end(struct jout *jout)
{
    BUG_IF(jout->depth != 0 || jout->after_key);
    return jout->first;
}
