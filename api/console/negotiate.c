#include "api/console/internal.h"

#include <strings.h>

const struct console_asset *console_asset_find(const char *name)
{
    for (size_t i = 0; i < console_asset_count; i++) {
        if (strcmp(console_assets[i].name, name) == 0) {
            return &console_assets[i];
        }
    }
    return NULL;
}

static struct span trim(struct span text)
{
    while (text.len > 0 && (text.at[0] == ' ' || text.at[0] == '\t')) {
        text = span_of(text.at + 1, text.len - 1);
    }
    while (text.len > 0 && (text.at[text.len - 1] == ' ' || text.at[text.len - 1] == '\t')) {
        text.len--;
    }
    return text;
}

/* What stands before the separator, or all; the rest goes on behind it. */
static struct span next(struct span *rest, char separator)
{
    const uint8_t *end = rest->len > 0 ? memchr(rest->at, separator, rest->len) : NULL;
    struct span part = *rest;
    *rest = (struct span){ 0 };
    if (end != NULL) {
        size_t len = (size_t)(end - part.at);
        *rest = span_of(end + 1, part.len - len - 1);
        part.len = len;
    }
    return trim(part);
}

static bool is_word(struct span text, const char *word)
{
    return text.len == strlen(word) && strncasecmp((const char *)text.at, word, text.len) == 0;
}

/* "q=0.5", and no other parameter: is it more than nothing? */
static bool weighs(struct span parameter)
{
    if (parameter.len < 3 || parameter.len > 7 || (parameter.at[0] | 0x20) != 'q' || parameter.at[1] != '=') {
        return false;
    }
    bool more = false;
    for (size_t i = 2; i < parameter.len; i++) {
        uint8_t c = parameter.at[i];
        if ((c < '0' || c > '9') && (c != '.' || i != 3)) {
            return false;
        }
        more = more || (c >= '1' && c <= '9');
    }
    return more;
}

bool console_takes_gzip(const char *accept_encoding)
{
    struct span rest = span_text(accept_encoding);
    while (rest.len > 0) {
        struct span item = next(&rest, ',');
        struct span coding = next(&item, ';');
        if (is_word(coding, "gzip")) {
            return item.len == 0 || weighs(trim(item));
        }
    }
    return false;
}

bool console_tag_matches(const char *if_none_match, const char *tag)
{
    struct span rest = span_text(if_none_match);
    while (rest.len > 0) {
        struct span item = next(&rest, ',');
        if (item.len > 2 && item.at[0] == 'W' && item.at[1] == '/') { /* the weak comparison */
            item = span_of(item.at + 2, item.len - 2);
        }
        if (span_equal_text(item, tag) || span_equal_text(item, "*")) {
            return true;
        }
    }
    return false;
}
