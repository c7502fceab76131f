#include "api/compliance/framework_internal.h"

#include <stdarg.h>
#include <stdio.h>

struct fault framework_refuse(const struct framework_reading *reading, unsigned line, const char *format, ...)
{
    char what[200];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    return op_fail(reading->op, FAULT(CONFIG), "%s:%u: %s", reading->file, line, what);
}

static bool is_member(const struct framework_member *members, size_t count, const char *key)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(members[i].key, key) == 0) {
            return true;
        }
    }
    return false;
}

struct fault framework_members(const struct framework_reading *reading, const struct yaml_node *node, const char *what,
                               const struct framework_member *members, size_t count)
{
    if (node->kind != YAML_KIND_MAP) {
        return framework_refuse(reading, node->line, "%s: must be a mapping", what);
    }
    for (const struct yaml_node *child = node->first; child != NULL; child = child->next) {
        if (!is_member(members, count, child->key)) {
            return framework_refuse(reading, child->line, "'%.40s' is no key of %s", child->key, what);
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (members[i].required && yaml_tree_get(node, members[i].key) == NULL) {
            return framework_refuse(reading, node->line, "%s needs '%s'", what, members[i].key);
        }
    }
    return OK;
}

struct fault framework_list(const struct framework_reading *reading, const struct yaml_node *node, size_t max)
{
    if (node->kind != YAML_KIND_LIST || node->count == 0 || node->count > max) {
        return framework_refuse(reading, node->line, "%s: must be a list of 1 to %zu",
                                node->key != NULL ? node->key : "this", max);
    }
    return OK;
}

static const char *key_of(const struct yaml_node *node)
{
    return node->key != NULL ? node->key : "an item";
}

struct fault framework_text(const struct framework_reading *reading, const struct yaml_node *node, size_t max,
                            const char **ret_text)
{
    if (node->kind != YAML_KIND_SCALAR || node->text[0] == '\0' || strlen(node->text) > max) {
        return framework_refuse(reading, node->line, "%s: must be a text of 1 to %zu bytes", key_of(node), max);
    }
    for (const char *at = node->text; *at != '\0'; at++) {
        if (*at < ' ' || *at > '~') {
            return framework_refuse(reading, node->line, "%s: must be one line of printable ASCII", key_of(node));
        }
    }
    return arena_text(reading->arena, span_text(node->text), ret_text);
}

struct fault framework_name(const struct framework_reading *reading, const struct yaml_node *node,
                            const char **ret_text)
{
    const char *text = "";
    TRY(framework_text(reading, node, FRAMEWORK_NAME_MAX, &text));
    size_t len = strlen(text);
    if (len == 0 || strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-") != len || text[0] == '-' ||
        text[len - 1] == '-') {
        return framework_refuse(reading, node->line, "%s: '%s' must be of a-z, 0-9 and '-' inside", key_of(node), text);
    }
    *ret_text = text;
    return OK;
}

struct fault framework_number(const struct framework_reading *reading, const struct yaml_node *node, int64_t min,
                              int64_t max, int64_t *ret_number)
{
    int64_t number = 0;
    bool good = node->kind == YAML_KIND_SCALAR && !node->quoted && node->text[0] != '\0' && strlen(node->text) <= 7;
    for (const char *at = good ? node->text : ""; *at != '\0'; at++) {
        good = good && *at >= '0' && *at <= '9';
        number = number * 10 + (*at - '0');
    }
    if (!good || number < min || number > max) {
        return framework_refuse(reading, node->line, "%s: must be a number of %lld to %lld", key_of(node),
                                (long long)min, (long long)max);
    }
    *ret_number = number;
    return OK;
}

struct fault framework_texts(const struct framework_reading *reading, const struct yaml_node *node, size_t max,
                             framework_take_fn take, const char *const **ret_texts, size_t *ret_count)
{
    const char **texts = NULL;
    size_t count = 0;
    TRY(framework_list(reading, node, max));
    TRY(arena_take(reading->arena, node->count, sizeof(*texts), &texts));
    for (const struct yaml_node *item = node->first; item != NULL; item = item->next) {
        TRY(take(reading, item, &texts[count]));
        for (size_t i = 0; i < count; i++) {
            if (strcmp(texts[i], texts[count]) == 0) {
                return framework_refuse(reading, item->line, "%s: '%s' stands there twice", key_of(node), texts[i]);
            }
        }
        count++;
    }
    *ret_texts = texts;
    *ret_count = count;
    return OK;
}
