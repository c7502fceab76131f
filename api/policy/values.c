#include "api/policy/internal.h"

#include "appliance/base/utf8.h"

#include <stdarg.h>
#include <stdio.h>

struct fault reading_refuse(const struct reading *reading, unsigned line, const char *format, ...)
{
    char what[400];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    utf8_repair(what); /* a quoted text may be cut within a character */
    for (char *at = what; *at != '\0'; at++) {
        *at = (uint8_t)*at < 0x20 || *at == 0x7f ? '?' : *at;
    }
    if (reading->why != NULL) {
        bool named = reading->rule != NULL;
        IGNORE(buf_printf(reading->why, "%s:%u: %s%s%s%s\n", reading->file, line, named ? "rule " : "",
                          named ? reading->rule : "", named ? ": " : "", what));
    }
    return FAULT(CONFIG);
}

/* What other readers of YAML take for "no value". */
static bool is_null(const struct yaml_node *node)
{
    static const char *const nulls[] = { "", "~", "null", "Null", "NULL" };
    for (size_t i = 0; i < COUNT_OF(nulls) && !node->quoted; i++) {
        if (strcmp(node->text, nulls[i]) == 0) {
            return true;
        }
    }
    return false;
}

struct fault value_text(const struct reading *reading, const struct yaml_node *node, const char *what,
                        const char **ret_text)
{
    if (node->kind != YAML_KIND_SCALAR) {
        return reading_refuse(reading, node->line, "%s: must be one value", what);
    }
    if (is_null(node) || node->text[0] == '\0') {
        return reading_refuse(reading, node->line, "%s: has no value; give one or remove the key", what);
    }
    *ret_text = node->text;
    return OK;
}

struct fault value_count(const struct reading *reading, const struct yaml_node *node, const char *what, int64_t max,
                         int64_t *ret_value)
{
    const char *text = "";
    int64_t value = 0;
    TRY(value_text(reading, node, what, &text));
    size_t digits = strspn(text, "0123456789");
    bool good = !node->quoted && digits == strlen(text) && digits <= 9 && (digits == 1 || text[0] != '0');
    for (size_t i = 0; i < digits && good; i++) {
        value = value * 10 + (text[i] - '0');
    }
    if (!good || value < 1 || value > max) {
        return reading_refuse(reading, node->line, "%s: '%.40s' must be a whole number, 1 to %lld", what, text,
                              (long long)max);
    }
    *ret_value = value;
    return OK;
}

/* Conditions whose words are closed take those only: a misspelt one would never match. */
static const char *closed_complaint(enum condition condition, const char *text)
{
    enum hash_algorithm hash;
    struct tenant_id tenant;
    if (condition == CONDITION_MODE && strcmp(text, "key") != 0 && strcmp(text, "keyless") != 0) {
        return "must be key or keyless";
    }
    if (condition == CONDITION_DIGEST_ALGORITHM && FAULTED(hash_algorithm_parse(span_text(text), &hash))) {
        return "must be sha256, sha384 or sha512";
    }
    if (condition == CONDITION_TENANT && strchr(text, '*') == NULL &&
        FAULTED(tenant_id_parse(span_text(text), &tenant))) {
        return "can be no tenant: 1 to 63 of a-z, 0-9 and '-'";
    }
    return NULL;
}

static struct fault take_pattern(const struct reading *reading, const struct yaml_node *node, enum condition condition,
                                 const char **ret_pattern)
{
    const char *text = "";
    TRY(value_text(reading, node, condition_text(condition), &text));
    const char *complaint = closed_complaint(condition, text);
    complaint = complaint != NULL ? complaint : glob_complaint(text);
    if (complaint != NULL) {
        return reading_refuse(reading, node->line, "%s: '%.80s' %s", condition_text(condition), text, complaint);
    }
    return arena_text(reading->policy->arena, span_text(text), ret_pattern);
}

/* A list of patterns; mode alone is one value. */
struct fault value_patterns(const struct reading *reading, const struct yaml_node *node, enum condition condition,
                            struct patterns *ret_patterns)
{
    struct patterns made = { 0 };
    bool single = condition == CONDITION_MODE;
    if (!single && (node->kind != YAML_KIND_LIST || node->count == 0 || node->count > POLICY_PATTERNS_MAX)) {
        return reading_refuse(reading, node->line, "%s: must be a list of 1 to %u texts, such as [a, \"b-*\"]",
                              condition_text(condition), POLICY_PATTERNS_MAX);
    }
    TRY(arena_take(reading->policy->arena, single ? 1 : node->count, sizeof(*made.at), &made.at));
    const struct yaml_node *item = single ? node : node->first;
    for (; item != NULL; item = single ? NULL : item->next) {
        TRY(take_pattern(reading, item, condition, &made.at[made.count]));
        made.count++;
    }
    *ret_patterns = made;
    return OK;
}
