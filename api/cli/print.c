#include "api/cli/print.h"

#include "appliance/base/codec.h"

#include <stdarg.h>

#define COLUMNS_MAX 12
#define LINE_SIZE   2048
#define JOINED_MAX  16384

void print_safe(FILE *out, struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.at[i];
        bool c1 = c == 0xc2 && i + 1 < text.len && text.at[i + 1] >= 0x80 && text.at[i + 1] < 0xa0;
        i += c1 ? 1 : 0;
        (void)fputc(c < 0x20 || c == 0x7f || c1 ? '?' : c, out);
    }
}

static void PRINTF(2, 0) line(const char *start, const char *format, va_list args)
{
    char text[LINE_SIZE];
    (void)vsnprintf(text, sizeof(text), format, args);
    (void)fflush(stdout); /* what was said before stands before */
    (void)fputs(start, stderr);
    print_safe(stderr, span_text(text));
    (void)fputc('\n', stderr);
}

void say(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    line("svc-cli: ", format, args);
    va_end(args);
}

void hint(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    line("  ", format, args);
    va_end(args);
}

/* Base64 as hex: what other tools print of a digest. */
static const char *to_hex(struct op *op, struct view value)
{
    struct span bytes;
    char *hex = NULL;
    if (FAULTED(view_base64(op, value, &bytes)) || FAULTED(arena_take(op->arena, 2 * bytes.len + 1, 1, &hex))) {
        return NULL;
    }
    hex_text(bytes, hex, 2 * bytes.len + 1);
    return hex;
}

static const char *join(struct op *op, struct view list, const char *(*one)(struct op *op, struct view item))
{
    CLEANUP(buf_free) struct buf joined = BUF_INIT(JOINED_MAX);
    struct view item;
    const char *text = NULL;
    while (view_next(&list, &item)) {
        const char *part = one(op, item);
        if (part == NULL || (joined.len > 0 && FAULTED(buf_text(&joined, ","))) || FAULTED(buf_text(&joined, part))) {
            break;
        }
    }
    return joined.len == 0 || FAULTED(arena_text(op->arena, buf_span(&joined), &text)) ? NULL : text;
}

static const char *cell(struct op *op, struct view object, const struct column *column)
{
    struct view value = view_get(object, column->path);
    const char *text = NULL;
    if (!view_is_there(value)) {
        return NULL;
    }
    switch (column->kind) {
    case COLUMN_TEXT:
        return view_text(op, value);
    case COLUMN_LIST:
        return join(op, value, view_text);
    case COLUMN_HEX:
        return value.json.at[0] == '[' ? join(op, value, to_hex) : to_hex(op, value);
    case COLUMN_YESNO:
        return span_equal_text(value.json, "true") ? "yes" : "no";
    case COLUMN_TIME:
        text = view_text(op, value);
        /* "2026-11-21T03:50:36.123456Z" */
        if (text != NULL && strlen(text) == 27 && !FAULTED(arena_printf(op->arena, &text, "%.19sZ", text))) {
            return text;
        }
        return text;
    }
    return NULL;
}

/* Characters, not bytes. */
static size_t width(const char *text)
{
    size_t count = 0;
    for (; *text != '\0'; text++) {
        count += ((uint8_t)*text & 0xc0) != 0x80;
    }
    return count;
}

static void put_cell(FILE *out, const char *text, size_t room)
{
    print_safe(out, span_text(text));
    for (size_t i = width(text); i < room; i++) {
        (void)fputc(' ', out);
    }
}

static void put_row(const char *const *cells, const size_t *widths, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        put_cell(stdout, cells[i], i + 1 < count ? widths[i] + 2 : 0);
    }
    (void)fputc('\n', stdout);
}

void print_table(struct op *op, struct view items, const struct column *columns, size_t count, const char *none)
{
    BUG_IF(count > COLUMNS_MAX);
    size_t widths[COLUMNS_MAX];
    const char *cells[COLUMNS_MAX];
    struct view rest = items, item;
    bool any = false;
    for (size_t i = 0; i < count; i++) {
        widths[i] = width(columns[i].title);
        cells[i] = columns[i].title;
    }
    while (view_next(&rest, &item)) {
        any = true;
        for (size_t i = 0; i < count; i++) {
            const char *text = cell(op, item, &columns[i]);
            size_t wide = text != NULL ? width(text) : 1;
            widths[i] = wide > widths[i] ? wide : widths[i];
        }
    }
    if (!any) {
        (void)fprintf(stderr, "%s\n", none);
        return;
    }
    put_row(cells, widths, count);
    for (rest = items; view_next(&rest, &item);) {
        for (size_t i = 0; i < count; i++) {
            const char *text = cell(op, item, &columns[i]);
            cells[i] = text != NULL ? text : "-";
        }
        put_row(cells, widths, count);
    }
}

static const char *own_or_cell(struct op *op, struct view object, const struct column *column,
                               const struct own_cell *own, size_t own_count)
{
    for (size_t i = 0; i < own_count; i++) {
        if (strcmp(own[i].path, column->path) == 0) {
            return own[i].text;
        }
    }
    return cell(op, object, column);
}

void print_pairs_and(struct op *op, FILE *out, struct view object, const struct column *columns, size_t count,
                     const struct own_cell *own, size_t own_count)
{
    size_t widest = 0;
    for (size_t i = 0; i < count; i++) {
        widest = width(columns[i].title) > widest ? width(columns[i].title) : widest;
    }
    for (size_t i = 0; i < count; i++) {
        const char *text = own_or_cell(op, object, &columns[i], own, own_count);
        if (text != NULL) {
            (void)fputs("  ", out);
            put_cell(out, columns[i].title, widest + 2);
            print_safe(out, span_text(text));
            (void)fputc('\n', out);
        }
    }
}

void print_pairs(struct op *op, FILE *out, struct view object, const struct column *columns, size_t count)
{
    print_pairs_and(op, out, object, columns, count, NULL, 0);
}

void print_json(struct span json)
{
    (void)fwrite(json.at, 1, json.len, stdout);
    (void)fputc('\n', stdout);
}

void print_more(struct op *op, struct view page)
{
    const char *cursor = view_member(op, page, "next_cursor");
    if (cursor != NULL) {
        hint("there are more: add --cursor %s", cursor);
    }
}
