/* json_canonical: one pass that writes each value in its canonical form as it reads it. The members of an object stand
 * in the output as they came; only where their order is wrong are they put right at the closing brace. */
#include "appliance/base/json.h"

#include "appliance/base/codec.h"
#include "appliance/base/json_number.h"
#include "appliance/base/utf8.h"

#define DEPTH_MAX    32
#define PLAIN_DIGITS 15 /* an integer of so many digits is canonical as it stands */
#define MEMBERS_MAX  ((size_t)1 << 20)

struct member {
    size_t at, key_len, len; /* in the output: from its opening quote; the key with its quotes; the whole */
};

struct canon {
    struct reader in;
    struct buf *out;
    struct buf members; /* struct member of the objects that are open, outermost first */
    struct buf scratch;
};

static void canon_done(struct canon *canon)
{
    buf_free(&canon->members);
    buf_free(&canon->scratch);
}

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void skip_blanks(struct reader *in)
{
    while (in->rest.len > 0 && is_blank(in->rest.at[0])) {
        in->rest.at++;
        in->rest.len--;
    }
}

static bool next_is(const struct reader *in, char c)
{
    return in->rest.len > 0 && in->rest.at[0] == (uint8_t)c;
}

static bool skip(struct reader *in, char c)
{
    if (!next_is(in, c)) {
        return false;
    }
    in->rest.at++;
    in->rest.len--;
    return true;
}

static struct fault expect(struct reader *in, const char *text)
{
    struct span got;
    REQUIRE(!FAULTED(reader_bytes(in, strlen(text), &got)) && span_equal_text(got, text), JSON_SYNTAX);
    return OK;
}

static struct fault take_hex4(struct reader *in, uint32_t *ret_unit)
{
    uint32_t unit = 0;
    for (int i = 0; i < 4; i++) {
        uint8_t c;
        REQUIRE(!FAULTED(reader_u8(in, &c)), JSON_SYNTAX);
        uint8_t lower = c | 0x20;
        REQUIRE((c >= '0' && c <= '9') || (lower >= 'a' && lower <= 'f'), JSON_SYNTAX);
        unit = unit << 4 | (uint32_t)(c <= '9' ? c - '0' : lower - 'a' + 10);
    }
    *ret_unit = unit;
    return OK;
}

static struct fault put_point(struct buf *out, uint32_t point)
{
    uint8_t at[4];
    size_t len = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    static const uint8_t lead[] = { 0, 0, 0xc0, 0xe0, 0xf0 };
    for (size_t i = len; i > 1; i--, point >>= 6) {
        at[i - 1] = (uint8_t)(0x80 | (point & 0x3f));
    }
    at[0] = (uint8_t)(lead[len] | point);
    return buf_put(out, span_of(at, len));
}

/* RFC 8785 3.2.2.2. */
static struct fault put_ascii(struct buf *out, uint32_t c)
{
    static const char two[] = "btn\0fr"; /* 8 to 13 */
    if (c == '"' || c == '\\') {
        TRY(buf_u8(out, '\\'));
        return buf_u8(out, (uint8_t)c);
    }
    if (c >= 0x20) {
        return buf_u8(out, (uint8_t)c);
    }
    if (c >= 8 && c <= 13 && c != 11) {
        TRY(buf_u8(out, '\\'));
        return buf_u8(out, (uint8_t)two[c - 8]);
    }
    TRY(buf_text(out, "\\u00"));
    return hex_encode(span_of(&(uint8_t){ (uint8_t)c }, 1), out);
}

static struct fault take_escape(struct canon *canon)
{
    static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    uint8_t c;
    REQUIRE(!FAULTED(reader_u8(&canon->in, &c)), JSON_SYNTAX);
    if (c != 'u') {
        const char *letter = c != 0 ? strchr(letters, c) : NULL;
        REQUIRE(letter != NULL, JSON_SYNTAX);
        return put_ascii(canon->out, (uint8_t)values[letter - letters]);
    }
    uint32_t unit, low;
    TRY(take_hex4(&canon->in, &unit));
    if (unit < 0x80) {
        return put_ascii(canon->out, unit);
    }
    if (unit < 0xd800 || unit > 0xdfff) {
        return put_point(canon->out, unit);
    }
    REQUIRE(unit < 0xdc00, JSON_SYNTAX); /* a low surrogate with no high one before it */
    TRY(expect(&canon->in, "\\u"));
    TRY(take_hex4(&canon->in, &low));
    REQUIRE(low >= 0xdc00 && low <= 0xdfff, JSON_SYNTAX);
    return put_point(canon->out, 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00));
}

/* Length of the run that is copied as it stands: ASCII without quote, backslash and controls. */
static size_t plain_run(struct span text)
{
    size_t len = 0;
    while (len < text.len && text.at[len] >= 0x20 && text.at[len] < 0x80 && text.at[len] != '"' &&
           text.at[len] != '\\') {
        len++;
    }
    return len;
}

static struct fault take_string(struct canon *canon)
{
    struct reader *in = &canon->in;
    REQUIRE(skip(in, '"'), JSON_SYNTAX);
    TRY(buf_u8(canon->out, '"'));
    for (;;) {
        struct span run;
        TRY(reader_bytes(in, plain_run(in->rest), &run));
        TRY(buf_put(canon->out, run));
        if (skip(in, '"')) {
            return buf_u8(canon->out, '"');
        }
        if (skip(in, '\\')) {
            TRY(take_escape(canon));
            continue;
        }
        REQUIRE(in->rest.len > 0 && in->rest.at[0] >= 0x80, JSON_SYNTAX);
        struct span before = in->rest;
        uint32_t point;
        TRY(utf8_next(in, &point));
        TRY(buf_put(canon->out, span_of(before.at, before.len - in->rest.len)));
    }
}

/* Almost every number of ours is a small integer, and those are canonical already. */
static bool plain_integer(struct span text, size_t *ret_len)
{
    size_t sign = text.len > 0 && text.at[0] == '-', len = sign;
    while (len < text.len && text.at[len] >= '0' && text.at[len] <= '9') {
        len++;
    }
    bool zero_first = len > sign && text.at[sign] == '0';
    bool goes_on = len < text.len && (text.at[len] == '.' || (text.at[len] | 0x20) == 'e');
    *ret_len = len;
    return len > sign && len - sign <= PLAIN_DIGITS && !goes_on && !(zero_first && len > 1);
}

static struct fault take_number(struct canon *canon)
{
    size_t len;
    if (plain_integer(canon->in.rest, &len)) {
        struct span text;
        TRY(reader_bytes(&canon->in, len, &text));
        return buf_put(canon->out, text);
    }
    double value;
    char text[JSON_NUMBER_MAX];
    TRY(json_number_read(&canon->in, &value));
    json_number_print(value, text);
    return buf_text(canon->out, text);
}

/* The next byte of a canonical key, its escapes undone, so that the order is that of the text. 3.2.3 sorts by UTF-16
 * code units: there U+E000 to U+FFFF (first byte ee and ef) come behind the surrogates (f0 to f4). */
static int key_byte(struct span *key)
{
    if (key->len == 0) {
        return -1;
    }
    uint8_t c = key->at[0];
    size_t used = 1;
    if (c == '\\') {
        static const char letters[] = "btnfr\"\\", values[] = "\b\t\n\f\r\"\\";
        const char *letter = strchr(letters, key->at[1]);
        used = letter != NULL ? 2 : 6;
        uint8_t high = key->at[4 % key->len], low = key->at[5 % key->len];
        c = letter != NULL ? (uint8_t)values[letter - letters]
                           : (uint8_t)((high - '0') << 4 | (low <= '9' ? low - '0' : low - 'a' + 10));
    }
    *key = span_of(key->at + used, key->len - used);
    return c == 0xee || c == 0xef ? c + 0x10 : c;
}

static int key_order(const struct buf *out, const struct member *a, const struct member *b)
{
    struct span left = span_of(out->at + a->at + 1, a->key_len - 2),
                right = span_of(out->at + b->at + 1, b->key_len - 2);
    for (;;) {
        int x = key_byte(&left), y = key_byte(&right);
        if (x != y || x < 0) {
            return x - y;
        }
    }
}

static int compare_members(const void *a, const void *b, void *out)
{
    return key_order(out, a, b);
}

/* Sorts the members from `first` on, if they are not in order; doubled names are refused. */
static struct fault put_in_order(struct canon *canon, size_t first)
{
    struct member *members = (struct member *)canon->members.at + first;
    size_t count = canon->members.len / sizeof(*members) - first;
    bool in_order = true;
    for (size_t i = 1; i < count && in_order; i++) {
        in_order = key_order(canon->out, &members[i - 1], &members[i]) < 0;
    }
    if (in_order) {
        return OK;
    }
    size_t from = members[0].at, len = canon->out->len - from;
    qsort_r(members, count, sizeof(*members), compare_members, canon->out);
    buf_clear(&canon->scratch);
    for (size_t i = 0; i < count; i++) {
        REQUIRE(i == 0 || key_order(canon->out, &members[i - 1], &members[i]) != 0, JSON_SYNTAX);
        TRY(buf_text(&canon->scratch, i == 0 ? "" : ","));
        TRY(buf_put(&canon->scratch, span_of(canon->out->at + members[i].at, members[i].len)));
    }
    BUG_IF(canon->scratch.len != len);
    memcpy(canon->out->at + from, canon->scratch.at, len);
    return OK;
}

static struct fault take_value(struct canon *canon, unsigned depth);

static struct fault take_member(struct canon *canon, unsigned depth)
{
    struct member member = { .at = canon->out->len };
    TRY(take_string(canon));
    member.key_len = canon->out->len - member.at;
    skip_blanks(&canon->in);
    REQUIRE(skip(&canon->in, ':'), JSON_SYNTAX);
    TRY(buf_u8(canon->out, ':'));
    TRY(take_value(canon, depth));
    member.len = canon->out->len - member.at;
    return buf_put(&canon->members, span_of(&member, sizeof(member)));
}

static struct fault take_object(struct canon *canon, unsigned depth)
{
    size_t before = canon->members.len;
    REQUIRE(skip(&canon->in, '{'), JSON_SYNTAX);
    TRY(buf_u8(canon->out, '{'));
    skip_blanks(&canon->in);
    bool empty = next_is(&canon->in, '}');
    while (!empty) {
        skip_blanks(&canon->in);
        TRY(take_member(canon, depth));
        skip_blanks(&canon->in);
        if (!skip(&canon->in, ',')) {
            break;
        }
        TRY(buf_u8(canon->out, ','));
    }
    REQUIRE(skip(&canon->in, '}'), JSON_SYNTAX);
    if (!empty) {
        TRY(put_in_order(canon, before / sizeof(struct member)));
    }
    canon->members.len = before;
    return buf_u8(canon->out, '}');
}

static struct fault take_array(struct canon *canon, unsigned depth)
{
    REQUIRE(skip(&canon->in, '['), JSON_SYNTAX);
    TRY(buf_u8(canon->out, '['));
    skip_blanks(&canon->in);
    bool empty = next_is(&canon->in, ']');
    while (!empty) {
        TRY(take_value(canon, depth));
        skip_blanks(&canon->in);
        if (!skip(&canon->in, ',')) {
            break;
        }
        TRY(buf_u8(canon->out, ','));
    }
    REQUIRE(skip(&canon->in, ']'), JSON_SYNTAX);
    return buf_u8(canon->out, ']');
}

static struct fault take_word(struct canon *canon, const char *word)
{
    TRY(expect(&canon->in, word));
    return buf_text(canon->out, word);
}

static struct fault take_value(struct canon *canon, unsigned depth)
{
    skip_blanks(&canon->in);
    REQUIRE(canon->in.rest.len > 0, JSON_SYNTAX);
    switch (canon->in.rest.at[0]) {
    case '{':
        REQUIRE(depth < DEPTH_MAX, JSON_SYNTAX);
        return take_object(canon, depth + 1);
    case '[':
        REQUIRE(depth < DEPTH_MAX, JSON_SYNTAX);
        return take_array(canon, depth + 1);
    case '"':
        return take_string(canon);
    case 't':
        return take_word(canon, "true");
    case 'f':
        return take_word(canon, "false");
    case 'n':
        return take_word(canon, "null");
    default:
        return take_number(canon);
    }
}

struct fault json_canonical(struct span json, struct buf *out)
{
    CLEANUP(canon_done)
    struct canon canon = {
        .in = { json },
        .out = out,
        .members = BUF_INIT(MEMBERS_MAX * sizeof(struct member)),
        .scratch = BUF_INIT(out->max),
    };
    size_t before = out->len;
    struct fault fault = take_value(&canon, 0);
    skip_blanks(&canon.in);
    if (!FAULTED(fault) && canon.in.rest.len > 0) {
        fault = FAULT(JSON_SYNTAX);
    }
    if (FAULTED(fault)) {
        out->len = before;
    }
    return fault;
}
