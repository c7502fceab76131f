#include "api/audit/shape_record.h"

struct scan {
    struct arena *arena;
    struct span rest;
    const char *member; /* that is being read */
};

static bool is_next(const struct scan *scan, const char *text, size_t len)
{
    return scan->rest.len >= len && memcmp(scan->rest.at, text, len) == 0;
}

static void pass(struct scan *scan, size_t len)
{
    scan->rest = span_of(scan->rest.at + len, scan->rest.len - len);
}

static bool take(struct scan *scan, const char *text)
{
    size_t len = strlen(text);
    if (!is_next(scan, text, len)) {
        return false;
    }
    pass(scan, len);
    return true;
}

/* Length of the string at the front, its quotes included; 0 when none is there whole. */
static size_t string_length(struct span text, bool *ret_escaped)
{
    *ret_escaped = false;
    if (text.len == 0 || text.at[0] != '"') {
        return 0;
    }
    for (size_t i = 1; i < text.len; i++) {
        if (text.at[i] == '"') {
            return i + 1;
        }
        if (text.at[i] < 0x20) {
            return 0;
        }
        if (text.at[i] == '\\') {
            *ret_escaped = true;
            i++;
        }
    }
    return 0;
}

static int hex_value(uint8_t c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* RFC 8785 3.2.2.2: two-character escapes where there are some, else \u00xx of a control character. 0: another one. */
static size_t unescape_one(struct span text, uint8_t *ret_byte)
{
    static const char from[] = "\"\\bfnrt";
    static const uint8_t to[] = { '"', '\\', '\b', '\f', '\n', '\r', '\t' };
    const char *at = text.len >= 2 && text.at[1] != 0 ? strchr(from, text.at[1]) : NULL;
    if (at != NULL) {
        *ret_byte = to[at - from];
        return 2;
    }
    if (text.len < 6 || memcmp(text.at, "\\u00", 4) != 0) {
        return 0;
    }
    int high = hex_value(text.at[4]), low = hex_value(text.at[5]);
    if (high < 0 || high > 1 || low < 0) {
        return 0;
    }
    *ret_byte = (uint8_t)(high << 4 | low);
    return 6;
}

static struct fault unescape(struct scan *scan, struct span text, struct span *ret_text)
{
    uint8_t *out = NULL;
    size_t len = 0;
    TRY(arena_take(scan->arena, text.len, 1, &out));
    while (text.len > 0) {
        size_t used = 1;
        out[len] = text.at[0];
        if (text.at[0] == '\\') {
            used = unescape_one(text, &out[len]);
            REQUIRE(used > 0, BAD_ARGUMENT);
        }
        len++;
        text = span_of(text.at + used, text.len - used);
    }
    *ret_text = span_of(out, len);
    return OK;
}

static struct fault take_string(struct scan *scan, struct span *ret_text)
{
    bool escaped = false;
    size_t len = string_length(scan->rest, &escaped);
    REQUIRE(len >= 2, BAD_ARGUMENT);
    struct span inner = span_of(scan->rest.at + 1, len - 2);
    pass(scan, len);
    if (escaped) {
        return unescape(scan, inner, ret_text);
    }
    *ret_text = inner;
    return OK;
}

static struct fault take_number(struct scan *scan, int64_t *ret_number)
{
    int64_t number = 0;
    size_t digits = 0;
    while (digits < 18 && digits < scan->rest.len && scan->rest.at[digits] >= '0' && scan->rest.at[digits] <= '9') {
        number = number * 10 + (scan->rest.at[digits++] - '0');
    }
    REQUIRE(digits > 0 && (digits == 1 || scan->rest.at[0] != '0'), BAD_ARGUMENT);
    pass(scan, digits);
    *ret_number = number;
    return OK;
}

/* The object at the front, by its brackets. */
static struct fault take_object(struct scan *scan, struct span *ret_object)
{
    size_t depth = 0, len = 0;
    bool escaped = false;
    REQUIRE(scan->rest.len > 0 && scan->rest.at[0] == '{', BAD_ARGUMENT);
    do {
        REQUIRE(len < scan->rest.len, BAD_ARGUMENT);
        uint8_t c = scan->rest.at[len];
        size_t used = c == '"' ? string_length(span_of(scan->rest.at + len, scan->rest.len - len), &escaped) : 1;
        REQUIRE(used > 0, BAD_ARGUMENT);
        depth += c == '{' || c == '[' ? 1 : 0;
        depth -= c == '}' || c == ']' ? 1 : 0;
        len += used;
    } while (depth > 0);
    *ret_object = span_of(scan->rest.at, len);
    pass(scan, len);
    return OK;
}

static struct fault take_roles(struct scan *scan, struct audit_record *record)
{
    REQUIRE(take(scan, "["), BAD_ARGUMENT);
    if (take(scan, "]")) {
        return OK;
    }
    do {
        REQUIRE(record->role_count < OP_ROLES_MAX, BAD_ARGUMENT);
        TRY(take_string(scan, &record->roles[record->role_count++]));
    } while (take(scan, ","));
    REQUIRE(take(scan, "]"), BAD_ARGUMENT);
    return OK;
}

static struct fault member(struct scan *scan, const char *before, const char *name)
{
    scan->member = name;
    REQUIRE(take(scan, before) && take(scan, "\"") && take(scan, name) && take(scan, "\":"), BAD_ARGUMENT);
    return OK;
}

static struct fault text_member(struct scan *scan, const char *name, struct span *ret_text)
{
    TRY(member(scan, ",", name));
    return take_string(scan, ret_text);
}

static struct fault read_members(struct scan *scan, struct audit_record *record)
{
    char printed[RFC3339_MAX];
    TRY(member(scan, "{", "actor"));
    TRY(member(scan, "{", "roles"));
    TRY(take_roles(scan, record));
    TRY(text_member(scan, "subject", &record->subject));
    REQUIRE(take(scan, "}"), BAD_ARGUMENT);
    TRY(member(scan, ",", "data"));
    TRY(take_object(scan, &record->data));
    TRY(text_member(scan, "event_id", &record->event_id));
    TRY(text_member(scan, "lane", &record->lane));
    TRY(member(scan, ",", "schema_version"));
    TRY(take_number(scan, &record->schema_version));
    TRY(member(scan, ",", "sequence"));
    TRY(take_number(scan, &record->sequence));
    TRY(text_member(scan, "tenant_id", &record->tenant_id));
    TRY(text_member(scan, "time", &record->time));
    TRY(rfc3339_parse(record->time, &record->at));
    rfc3339_print(record->at, printed);
    REQUIRE(span_equal_text(record->time, printed), BAD_ARGUMENT); /* one moment has one text */
    TRY(text_member(scan, "trace_id", &record->trace_id));
    TRY(text_member(scan, "type", &record->type));
    REQUIRE(take(scan, "}") && scan->rest.len == 0, BAD_ARGUMENT);
    return OK;
}

struct fault audit_record_read(struct arena *arena, struct span bytes, struct audit_record *ret_record,
                               const char **ret_wrong)
{
    struct scan scan = { .arena = arena, .rest = bytes, .member = "actor" };
    struct audit_record record = { .role_count = 0 };
    struct fault fault = read_members(&scan, &record);
    if (FAULTED(fault)) {
        if (ret_wrong != NULL) {
            *ret_wrong = scan.member;
        }
        return fault;
    }
    *ret_record = record;
    return OK;
}
