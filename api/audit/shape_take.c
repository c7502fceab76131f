/*
 * A line of outside bytes taken apart: which bytes claim to be the record, and which its chain value. Nothing else of
 * it is believed or even read, since the verifier makes the line again from the record and compares it whole. Each way
 * here finds the record where the renderer puts it, in one way only: where a quote or an equals sign of somebody's text
 * could look like a border, the shape's escaping keeps it from doing so.
 */
#include "api/audit/shape_lines.h"

#include "appliance/base/codec.h"

#define HASH_TEXT ((size_t)2 * SHA256_LEN)

static struct fault refuse(struct op *scratch, const char *what)
{
    return op_fail(scratch, FAULT(AUDIT_LINE), "%s", what);
}

static bool begins_with(struct span text, const char *with)
{
    size_t len = strlen(with);
    return text.len >= len && memcmp(text.at, with, len) == 0;
}

static bool ends_with(struct span text, const char *with)
{
    size_t len = strlen(with);
    return text.len >= len && memcmp(text.at + text.len - len, with, len) == 0;
}

static struct span behind(struct span text, size_t len)
{
    return span_of(text.at + len, text.len - len);
}

/* The first place of `mark`; false when there is none. */
static bool find(struct span text, const char *mark, size_t *ret_at)
{
    const uint8_t *found = text.len > 0 ? memmem(text.at, text.len, mark, strlen(mark)) : NULL;
    if (found == NULL) {
        return false;
    }
    *ret_at = (size_t)(found - text.at);
    return true;
}

static bool read_hash(struct span text, struct sha256 *ret_hash)
{
    uint8_t room[HASH_TEXT];
    struct buf bytes = { .at = room, .cap = sizeof(room), .max = SHA256_LEN };
    if (text.len != HASH_TEXT || FAULTED(hex_decode(text, &bytes))) {
        return false;
    }
    memcpy(ret_hash->at, room, SHA256_LEN);
    return true;
}

static struct fault refuse_chain(struct op *scratch)
{
    return refuse(scratch, "the chain value is not 64 lower-case hex digits");
}

/* ---- ndjson ---- */

static struct fault take_ndjson(struct op *scratch, struct span line, struct audit_line *out)
{
    static const char chain[] = "{\"chain\":\"", record[] = "\",\"record\":", trailer[] = "{\"trailer\":\"";
    size_t from = sizeof(chain) - 1 + HASH_TEXT, to = from + sizeof(record) - 1;
    if (begins_with(line, trailer) && ends_with(line, "\"}") && line.len > sizeof(trailer) + 1) {
        out->is_trailer = true;
        out->trailer = span_of(line.at + sizeof(trailer) - 1, line.len - (sizeof(trailer) - 1) - 2);
        return OK;
    }
    if (!begins_with(line, chain) || line.len < to + 3 || !begins_with(behind(line, from), record) ||
        line.at[line.len - 1] != '}') {
        return refuse(scratch, "it is not {\"chain\":\"...\",\"record\":{...}} without blanks, nor a trailer");
    }
    if (!read_hash(span_of(line.at + sizeof(chain) - 1, HASH_TEXT), &out->chain)) {
        return refuse_chain(scratch);
    }
    out->record = span_of(line.at + to, line.len - to - 1);
    return OK;
}

/* ---- csv ---- */

enum { CSV_RECORD = 8, CSV_COLUMNS = 10 };

/* The column at the front, with its quotes, and the comma behind it, which the last one has not. */
static bool take_column(struct span *rest, bool last, struct span *ret_column)
{
    size_t at = 0;
    if (rest->len > 0 && rest->at[0] == '"') {
        for (at = 1;; at += 2) { /* behind the opening quote, then behind each doubled one */
            const uint8_t *quote = at < rest->len ? memchr(rest->at + at, '"', rest->len - at) : NULL;
            if (quote == NULL) {
                return false;
            }
            at = (size_t)(quote - rest->at);
            if (at + 1 >= rest->len || quote[1] != '"') {
                at++;
                break;
            }
        }
    } else {
        const uint8_t *comma = rest->len > 0 ? memchr(rest->at, ',', rest->len) : NULL;
        at = comma != NULL ? (size_t)(comma - rest->at) : rest->len;
    }
    *ret_column = span_of(rest->at, at);
    if (last) {
        return at == rest->len;
    }
    if (at >= rest->len || rest->at[at] != ',') {
        return false;
    }
    *rest = behind(*rest, at + 1);
    return true;
}

/* A quoted column's text, in the arena. */
static struct fault unquote(struct op *scratch, struct span column, struct span *ret_text)
{
    uint8_t *out = NULL;
    size_t len = 0;
    if (column.len < 2 || column.at[0] != '"') {
        return refuse(scratch, "the column record is not in quotes");
    }
    struct span rest = span_of(column.at + 1, column.len - 2);
    TRY(arena_take(scratch->arena, rest.len + 1, 1, &out));
    while (rest.len > 0) {
        const uint8_t *quote = memchr(rest.at, '"', rest.len);
        size_t run = quote != NULL ? (size_t)(quote - rest.at) + 1 : rest.len;
        memcpy(out + len, rest.at, run);
        len += run;
        rest = behind(rest, quote != NULL && run < rest.len ? run + 1 : run);
    }
    *ret_text = span_of(out, len);
    return OK;
}

static struct fault take_csv(struct op *scratch, struct span line, struct audit_line *out)
{
    struct span columns[CSV_COLUMNS] = { 0 }, rest = line;
    for (size_t i = 0; i < CSV_COLUMNS; i++) {
        if (!take_column(&rest, i + 1 == CSV_COLUMNS, &columns[i])) {
            return op_fail(scratch, FAULT(AUDIT_LINE), "column %zu does not end as it must: a row has %d columns",
                           i + 1, CSV_COLUMNS);
        }
    }
    if (span_equal_text(columns[0], "trailer")) {
        out->is_trailer = true;
        out->trailer = columns[CSV_RECORD];
        return OK;
    }
    if (!read_hash(columns[CSV_COLUMNS - 1], &out->chain)) {
        return refuse_chain(scratch);
    }
    return unquote(scratch, columns[CSV_RECORD], &out->record);
}

/* ---- cef ---- */

/* Where the extension begins: behind the seventh pipe that is not escaped; also the fifth field, the type. */
static bool split_header(struct span line, struct span *ret_type, struct span *ret_extension)
{
    size_t pipes = 0, type = 0;
    for (size_t i = 0; i < line.len; i++) {
        if (line.at[i] == '\\') {
            i++;
        } else if (line.at[i] == '|' && ++pipes == 4) {
            type = i + 1;
        } else if (line.at[i] == '|' && pipes == 5) {
            *ret_type = span_of(line.at + type, i - type);
        } else if (line.at[i] == '|' && pipes == 7) {
            *ret_extension = behind(line, i + 1);
            return true;
        }
    }
    return false;
}

static struct fault unescape(struct op *scratch, struct span text, char other, struct span *ret_text)
{
    uint8_t *out = NULL;
    size_t len = 0;
    TRY(arena_take(scratch->arena, text.len + 1, 1, &out));
    while (text.len > 0) {
        const uint8_t *slash = memchr(text.at, '\\', text.len);
        size_t run = slash != NULL ? (size_t)(slash - text.at) : text.len;
        memcpy(out + len, text.at, run);
        len += run;
        text = behind(text, run);
        if (text.len == 0) {
            break;
        }
        if (text.len < 2 || (text.at[1] != '\\' && text.at[1] != (uint8_t)other)) {
            return refuse(scratch, "the record is escaped as no export escapes it");
        }
        out[len++] = text.at[1];
        text = behind(text, 2);
    }
    *ret_text = span_of(out, len);
    return OK;
}

static struct fault take_cef(struct op *scratch, struct span line, struct audit_line *out)
{
    static const char record[] = " cs1=", chain[] = " cs2=";
    struct span type = { 0 }, extension = { 0 };
    size_t at = 0;
    if (!begins_with(line, "CEF:0|svc|svc|1|") || !split_header(line, &type, &extension)) {
        return refuse(scratch, "it does not begin with the seven fields of CEF:0|svc|svc|1|");
    }
    if (!find(extension, record, &at)) {
        return refuse(scratch, "the extension has no cs1, where the record belongs");
    }
    struct span value = behind(extension, at + sizeof(record) - 1);
    if (span_equal_text(type, SHAPE_TRAILER)) {
        out->is_trailer = true;
        out->trailer = value;
        return OK;
    }
    extension.len = at;
    if (!find(extension, chain, &at) || extension.len - at < sizeof(chain) - 1 + HASH_TEXT ||
        !read_hash(span_of(extension.at + at + sizeof(chain) - 1, HASH_TEXT), &out->chain)) {
        return refuse(scratch, "cs2, the chain value, is not 64 lower-case hex digits");
    }
    return unescape(scratch, value, '=', &out->record);
}

/* ---- ocsf ---- */

/* Up to the quote that ends the JSON string; false when none does. */
static bool string_end(struct span text, size_t *ret_len)
{
    size_t at = 0;
    while (at < text.len && text.at[at] != '"') {
        at += text.at[at] == '\\' ? 2 : 1;
    }
    *ret_len = at;
    return at < text.len;
}

static struct fault take_ocsf(struct op *scratch, struct span line, struct audit_line *out)
{
    static const char raw[] = ",\"raw_data\":\"", unmapped[] = ",\"unmapped\":{\"", chain[] = "chain\":\"",
                      trailer[] = "trailer\":\"";
    struct span value = { 0 }, rest = line;
    size_t at = 0, len = 0;
    bool has_record = find(line, raw, &at);
    if (has_record) {
        value = behind(line, at + sizeof(raw) - 1);
        if (!string_end(value, &len)) {
            return refuse(scratch, "raw_data does not end");
        }
        rest = behind(value, len + 1);
        value.len = len;
    }
    if (!find(rest, unmapped, &at) || !ends_with(rest, "\"}}")) {
        return refuse(scratch, "it has no unmapped, where chain value or trailer belong, as its last member");
    }
    rest = behind(rest, at + sizeof(unmapped) - 1);
    rest.len = rest.len >= 3 ? rest.len - 3 : 0;
    if (!has_record && begins_with(rest, trailer)) {
        out->is_trailer = true;
        out->trailer = behind(rest, sizeof(trailer) - 1);
        return OK;
    }
    if (!has_record) {
        return refuse(scratch, "it has no raw_data, where the record belongs");
    }
    if (!begins_with(rest, chain) || !read_hash(behind(rest, sizeof(chain) - 1), &out->chain)) {
        return refuse(scratch, "unmapped.chain is not 64 lower-case hex digits");
    }
    return unescape(scratch, value, '"', &out->record);
}

/* What a compact JWS is made of: nothing that a line would have to escape. */
static bool is_compact(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.at[i];
        bool fine = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
                    c == '_' || c == '.';
        if (!fine) {
            return false;
        }
    }
    return text.len > 0;
}

struct fault audit_shape_take(struct op *scratch, enum audit_shape shape, struct span line, struct audit_line *ret_line)
{
    static struct fault (*const take[AUDIT_SHAPES])(struct op *, struct span, struct audit_line *) = {
        [AUDIT_NDJSON] = take_ndjson,
        [AUDIT_CSV] = take_csv,
        [AUDIT_CEF] = take_cef,
        [AUDIT_OCSF] = take_ocsf,
    };
    struct audit_line taken = { 0 };
    BUG_IF(take[shape] == NULL);
    TRY(take[shape](scratch, line, &taken));
    if (taken.is_trailer && !is_compact(taken.trailer)) {
        return refuse(scratch, "its trailer is no compact JWS");
    }
    *ret_line = taken;
    return OK;
}
