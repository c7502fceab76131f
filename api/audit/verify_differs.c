/* Two lines that should be the same: which column, field or member is the first that differs, and how. */
#include "api/audit/verify_internal.h"

#include <stdio.h>

#define SHOWN 48

/* Where they part; the length of the shorter one when it is the beginning of the other. */
static size_t parting(struct span a, struct span b)
{
    size_t len = a.len < b.len ? a.len : b.len, at = 0;
    while (at < len && a.at[at] == b.at[at]) {
        at++;
    }
    return at;
}

/* ---- csv ---- */

static const char *const csv_columns[] = { "sequence", "time", "type",     "actor",  "roles",
                                           "event_id", "lane", "trace_id", "record", "chain" };

static void csv_field(struct span made, size_t at, char *out, size_t size)
{
    size_t column = 0;
    bool quoted = false;
    for (size_t i = 0; i < at && i < made.len; i++) {
        quoted ^= made.at[i] == '"';
        column += made.at[i] == ',' && !quoted;
    }
    (void)snprintf(out, size, "column %s", csv_columns[column < COUNT_OF(csv_columns) ? column : 0]);
}

/* ---- cef ---- */

static const char *const cef_fields[] = {
    "version", "vendor", "product", "device version", "type", "title", "severity"
};

static void cef_field(struct span made, size_t at, char *out, size_t size)
{
    size_t field = 0, key = 0, blank = 0;
    for (size_t i = 0; i < at && i < made.len; i++) {
        uint8_t c = made.at[i];
        if (c == '\\') {
            i++;
        } else if (c == '|' && field < COUNT_OF(cef_fields)) {
            key = blank = i + 1;
            field++;
        } else if (c == ' ') {
            blank = i + 1;
        } else if (c == '=' && field == COUNT_OF(cef_fields)) {
            key = blank; /* the word before an equals sign that is not escaped */
        }
    }
    if (field < COUNT_OF(cef_fields)) {
        (void)snprintf(out, size, "field %s", cef_fields[field]);
        return;
    }
    size_t len = 0;
    while (key + len < made.len && made.at[key + len] != '=' && len < 32) {
        len++;
    }
    (void)snprintf(out, size, "extension field %.*s", (int)len, (const char *)made.at + key);
}

/* ---- json ---- */

#define DEPTH_MAX 8

/* The members that are open at `at`, as "metadata.uid". */
static void json_field(struct span made, size_t at, char *out, size_t size)
{
    struct span names[DEPTH_MAX] = { 0 }, last = { 0 };
    size_t depth = 0, used = 0;
    bool is_name = false;
    for (size_t i = 0; i < made.len && i <= at; i++) {
        uint8_t c = made.at[i];
        if (c == '"') {
            size_t from = ++i;
            while (i < made.len && made.at[i] != '"') {
                i += made.at[i] == '\\' ? 2 : 1;
            }
            last = i <= made.len && is_name ? span_of(made.at + from, i - from) : last;
        } else if (c == ':' && depth > 0 && depth <= DEPTH_MAX) {
            names[depth - 1] = last;
            is_name = false;
        } else if (c == '{' || c == '[') {
            depth++;
            is_name = c == '{';
        } else if (c == '}' || c == ']') {
            depth -= depth > 0;
            is_name = false;
        } else if (c == ',') {
            is_name = true;
        }
        if (i < at && (c == '{' || c == ',') && depth > 0 && depth <= DEPTH_MAX) {
            names[depth - 1] = (struct span){ 0 };
        }
    }
    if (is_name && depth > 0 && depth <= DEPTH_MAX) {
        names[depth - 1] = last;
    }
    used = (size_t)snprintf(out, size, "member ");
    for (size_t i = 0; i < depth && i < DEPTH_MAX && used < size; i++) {
        if (names[i].len > 0) {
            int more = snprintf(out + used, size - used, "%s%.*s", used > 7 ? "." : "",
                                (int)(names[i].len < 40 ? names[i].len : 40), (const char *)names[i].at);
            used += more > 0 ? (size_t)more : 0;
        }
    }
}

/* ---- words ---- */

/* Some bytes from the parting on, made fit to be shown. */
static void show(struct span text, size_t at, char out[SHOWN + 1])
{
    size_t len = 0;
    for (size_t i = at; i < text.len && len < SHOWN; i++) {
        uint8_t c = text.at[i];
        out[len++] = (char)(c < 0x20 || c >= 0x7f ? '?' : c);
    }
    out[len] = '\0';
}

void line_differs(enum audit_shape shape, struct span line, struct span made, char *out, size_t size)
{
    char field[96] = "", here[SHOWN + 1], wanted[SHOWN + 1];
    size_t at = parting(line, made);
    if (shape == AUDIT_CSV) {
        csv_field(made, at, field, sizeof(field));
    } else if (shape == AUDIT_CEF) {
        cef_field(made, at, field, sizeof(field));
    } else {
        json_field(made, at, field, sizeof(field));
    }
    show(line, at, here);
    show(made, at, wanted);
    (void)snprintf(
        out, size,
        "%s is not what the record makes, from byte %zu of the line on: \"%s\" stands there, and \"%s\" belongs there",
        field, at + 1, here, wanted);
}
