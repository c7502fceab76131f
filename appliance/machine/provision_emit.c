#include "appliance/machine/provision_rows.h"

static struct emit_entry *add(struct emit *emit, const char *key)
{
    BUG_IF(emit->count == EMIT_ENTRIES_MAX);
    struct emit_entry *entry = &emit->at[emit->count++];
    *entry = (struct emit_entry){ .key = key };
    return entry;
}

void emit_text(struct emit *emit, const char *key, const char *text)
{
    struct emit_entry *entry = add(emit, key);
    entry->kind = EMIT_TEXT;
    entry->text = text;
}

void emit_plain(struct emit *emit, const char *key, const char *text)
{
    struct emit_entry *entry = add(emit, key);
    entry->kind = EMIT_PLAIN;
    entry->text = text;
}

void emit_list(struct emit *emit, const char *key, struct provision_texts texts)
{
    if (texts.count > 0) {
        struct emit_entry *entry = add(emit, key);
        entry->kind = EMIT_LIST;
        entry->texts = texts;
    }
}

void emit_blocks(struct emit *emit, const char *key, struct provision_texts texts)
{
    if (texts.count > 0) {
        emit_list(emit, key, texts);
        emit->at[emit->count - 1].kind = EMIT_BLOCKS;
    }
}

bool emit_has(const struct emit *emit, const char *key)
{
    for (size_t i = 0; i < emit->count; i++) {
        if (strcmp(emit->at[i].key, key) == 0) {
            return true;
        }
    }
    return false;
}

/* ---- printing ---- */

static int by_key(const void *a, const void *b)
{
    const struct emit_entry *left = a, *right = b;
    return strcmp(left->key, right->key);
}

static struct fault blanks(unsigned count, struct buf *out)
{
    return buf_printf(out, "%*s", (int)count, "");
}

/* Single quotes: nothing inside has a meaning but the quote itself, which is doubled. */
static struct fault put_quoted(const char *text, struct buf *out)
{
    TRY(buf_text(out, "'"));
    for (; *text != '\0'; text++) {
        TRY(buf_put(out, span_of("''", *text == '\'' ? 1 : 0)));
        TRY(buf_put(out, span_of(text, 1)));
    }
    return buf_text(out, "'");
}

/* Lines behind `indent` blanks; the text ends with a line feed. */
static struct fault put_lines(const char *text, unsigned indent, struct buf *out)
{
    while (*text != '\0') {
        size_t len = strcspn(text, "\n");
        TRY(blanks(indent, out));
        TRY(buf_put(out, span_of(text, len)));
        TRY(buf_text(out, "\n"));
        text += len + (text[len] == '\n');
    }
    return OK;
}

static struct fault put_value(const struct emit_entry *entry, unsigned indent, struct buf *out)
{
    if (entry->kind == EMIT_TEXT || entry->kind == EMIT_PLAIN) {
        TRY(buf_text(out, " "));
        TRY(entry->kind == EMIT_PLAIN ? buf_text(out, entry->text) : put_quoted(entry->text, out));
        return buf_text(out, "\n");
    }
    TRY(buf_text(out, "\n"));
    for (size_t i = 0; i < entry->texts.count; i++) {
        TRY(blanks(indent + 2, out));
        if (entry->kind == EMIT_BLOCKS) {
            TRY(buf_text(out, "- |\n"));
            TRY(put_lines(entry->texts.at[i], indent + 4, out));
        } else {
            TRY(buf_text(out, "- "));
            TRY(put_quoted(entry->texts.at[i], out));
            TRY(buf_text(out, "\n"));
        }
    }
    return OK;
}

/* How many bytes of `key`, up to and with a dot, are the same in `before`. */
static size_t shared(const char *before, const char *key)
{
    size_t same = 0;
    for (size_t i = 0; before != NULL && before[i] != '\0' && before[i] == key[i]; i++) {
        same = key[i] == '.' ? i + 1 : same;
    }
    return same;
}

static struct fault put_entry(const struct emit_entry *entry, const char *before, unsigned indent, struct buf *out)
{
    size_t from = shared(before, entry->key);
    for (size_t i = 0; i < from; i++) {
        indent += entry->key[i] == '.' ? 2 : 0;
    }
    const char *part = entry->key + from;
    for (size_t len = strcspn(part, "."); part[len] == '.'; len = strcspn(part, ".")) {
        TRY(buf_printf(out, "%*s%.*s:\n", (int)indent, "", (int)len, part));
        part += len + 1;
        indent += 2;
    }
    TRY(buf_printf(out, "%*s%s:", (int)indent, "", part));
    return put_value(entry, indent, out);
}

struct fault emit_print(struct emit *emit, unsigned indent, struct buf *out)
{
    /* Keys with the same beginning stand together then. */
    qsort(emit->at, emit->count, sizeof(emit->at[0]), by_key);
    for (size_t i = 0; i < emit->count; i++) {
        TRY(put_entry(&emit->at[i], i > 0 ? emit->at[i - 1].key : NULL, indent, out));
    }
    return OK;
}
