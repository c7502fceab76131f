/*
 * Is this canonical JSON beyond doubt? The projector writes records so, and most are plain ASCII with small numbers: to
 * be sure of that takes one look at each byte, where parsing takes twenty times as long. A no is no verdict: whatever
 * is not of that plain kind (other letters, fractions, escapes in names, damage) is parsed by whoever reads it.
 */
#include "api/compliance/load.h"

#define DEPTH_MAX  16
#define DIGITS_MAX 15 /* every such integer is a double, so it is printed as it stands */

struct look {
    const uint8_t *at, *end;
    unsigned depth;
};

static bool look_value(struct look *look);

static bool look_byte(struct look *look, uint8_t wanted)
{
    bool is = look->at < look->end && *look->at == wanted;
    look->at += is;
    return is;
}

/* RFC 8785 3.2.2.2: the short escapes, and \u00xx in lower case for the controls that have none. */
static bool look_escape(struct look *look)
{
    if (look->end - look->at < 2) {
        return false;
    }
    if (look->at[1] != 'u') {
        bool known = look->at[1] != '\0' && strchr("\"\\bfnrt", look->at[1]) != NULL;
        look->at += 2;
        return known;
    }
    if (look->end - look->at < 6 || memcmp(look->at + 2, "00", 2) != 0 || look->at[5] == '\0') {
        return false;
    }
    const char *last = look->at[4] == '0' ? "01234567bef" : look->at[4] == '1' ? "0123456789abcdef" : "";
    bool good = strchr(last, look->at[5]) != NULL;
    look->at += good ? 6 : 0;
    return good;
}

static bool look_text(struct look *look)
{
    if (!look_byte(look, '"')) {
        return false;
    }
    while (look->at < look->end && *look->at != '"') {
        uint8_t c = *look->at;
        if (c < 0x20 || c >= 0x7f || (c == '\\' && !look_escape(look))) {
            return false;
        }
        look->at += c != '\\';
    }
    return look_byte(look, '"');
}

static bool look_integer(struct look *look)
{
    (void)look_byte(look, '-');
    const uint8_t *first = look->at;
    while (look->at < look->end && *look->at >= '0' && *look->at <= '9') {
        look->at++;
    }
    size_t digits = (size_t)(look->at - first);
    bool zero = digits > 0 && *first == '0'; /* "-0" and "01" are not canonical */
    return digits > 0 && digits <= DIGITS_MAX && (!zero || (digits == 1 && first[-1] != '-'));
}

static bool look_word(struct look *look, const char *word)
{
    size_t len = strlen(word);
    bool is = (size_t)(look->end - look->at) >= len && memcmp(look->at, word, len) == 0;
    look->at += is ? len : 0;
    return is;
}

static bool look_array(struct look *look)
{
    look->at++;
    if (look_byte(look, ']')) {
        return true;
    }
    do {
        if (!look_value(look)) {
            return false;
        }
    } while (look_byte(look, ','));
    return look_byte(look, ']');
}

/* Names ascend, so none comes twice. */
static bool look_name(struct look *look, struct span *last)
{
    const uint8_t *begin = look->at;
    if (!look_text(look)) {
        return false;
    }
    struct span name = span_of(begin + 1, (size_t)(look->at - begin) - 2);
    size_t common = name.len < last->len ? name.len : last->len;
    int order = last->at != NULL ? memcmp(last->at, name.at, common) : -1;
    bool ascends = order < 0 || (order == 0 && last->len < name.len);
    bool escaped = name.len > 0 && memchr(name.at, '\\', name.len) != NULL;
    *last = name;
    return ascends && !escaped && look_byte(look, ':');
}

static bool look_object(struct look *look)
{
    struct span last = { 0 };
    look->at++;
    if (look_byte(look, '}')) {
        return true;
    }
    do {
        if (!look_name(look, &last) || !look_value(look)) {
            return false;
        }
    } while (look_byte(look, ','));
    return look_byte(look, '}');
}

static bool look_value(struct look *look)
{
    if (look->at >= look->end || look->depth >= DEPTH_MAX) {
        return false;
    }
    bool good = false;
    look->depth++;
    switch (*look->at) {
    case '"':
        good = look_text(look);
        break;
    case '{':
        good = look_object(look);
        break;
    case '[':
        good = look_array(look);
        break;
    case 't':
        good = look_word(look, "true");
        break;
    case 'f':
        good = look_word(look, "false");
        break;
    case 'n':
        good = look_word(look, "null");
        break;
    default:
        good = look_integer(look);
        break;
    }
    look->depth--;
    return good;
}

bool load_is_canonical(struct span json)
{
    if (json.len == 0 || json.at[0] != '{') {
        return false;
    }
    struct look look = { json.at, json.at + json.len, 0 };
    return look_value(&look) && look.at == look.end;
}
