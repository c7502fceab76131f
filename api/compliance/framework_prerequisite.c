#include "api/compliance/framework_internal.h"
#include "api/inventory/fact.h"

#define TYPE_MAX 63 /* EVENT_TYPE_MAX */

static const char lower[] = "abcdefghijklmnopqrstuvwxyz";

/* "codesign.signed": words of lower-case letters, at least two. Whether a feature has it is for the tests to say. */
static struct fault take_type(const struct framework_reading *reading, const struct yaml_node *node,
                              const char **ret_text)
{
    const char *text = NULL;
    TRY(framework_text(reading, node, TYPE_MAX, &text));
    size_t words = 0;
    for (const char *at = text;; at++) {
        size_t len = strspn(at, "abcdefghijklmnopqrstuvwxyz_");
        words += len > 0 && at[0] != '_';
        at += len;
        if (len == 0 || *at != '.') {
            if (*at != '\0' || len == 0 || words < 2) {
                return framework_refuse(reading, node->line, "types: '%s' is no event type", text);
            }
            break;
        }
    }
    *ret_text = text;
    return OK;
}

/* A member that every record has a right to: of its data, or who acted. */
static struct fault take_path(const struct framework_reading *reading, const struct yaml_node *node,
                              const char **ret_text)
{
    const char *text = NULL;
    TRY(framework_text(reading, node, FRAMEWORK_PATH_MAX, &text));
    bool data = strncmp(text, "data.", 5) == 0 && strchr(lower, text[5]) != NULL && text[5] != '\0' &&
                strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_.") == strlen(text) && strstr(text, "..") == NULL &&
                text[strlen(text) - 1] != '.';
    if (!data && strcmp(text, "actor.subject") != 0) {
        return framework_refuse(reading, node->line, "%s: '%s' must be data.<member> or actor.subject",
                                node->key != NULL ? node->key : "path", text);
    }
    *ret_text = text;
    return OK;
}

static struct fault take_value(const struct framework_reading *reading, const struct yaml_node *node,
                               const char **ret_text)
{
    return framework_text(reading, node, FRAMEWORK_TITLE_MAX, ret_text);
}

/* "key.*": all types of the prerequisite that begin so. Else exactly the one. */
static bool is_of(const char *of, const char *type)
{
    size_t len = strlen(of);
    return len > 2 && strcmp(of + len - 2, ".*") == 0 ? strncmp(of, type, len - 1) == 0 : strcmp(of, type) == 0;
}

/* One condition for each type that it is about: whoever reads them later knows types only. */
static struct fault spread(const struct framework_reading *reading, const struct yaml_node *of,
                           struct framework_prerequisite *prerequisite, const struct framework_condition *condition,
                           struct framework_condition *conditions)
{
    size_t before = prerequisite->where_count;
    const char *text = NULL;
    TRY(framework_text(reading, of, TYPE_MAX, &text));
    for (size_t i = 0; i < prerequisite->type_count; i++) {
        if (is_of(text, prerequisite->types[i])) {
            conditions[prerequisite->where_count] = *condition;
            conditions[prerequisite->where_count++].of = prerequisite->types[i];
        }
    }
    return prerequisite->where_count > before
               ? OK
               : framework_refuse(reading, of->line, "of: '%s' is none of the prerequisite's types", text);
}

static struct fault take_condition(const struct framework_reading *reading, const struct yaml_node *node,
                                   struct framework_condition *condition)
{
    static const struct framework_member members[] = { { "of", false },      { "path", true },
                                                       { "is", false },      { "is_not", false },
                                                       { "present", false }, { "differs_from", false } };
    TRY(framework_members(reading, node, "a condition", members, COUNT_OF(members)));
    const struct yaml_node *is = yaml_tree_get(node, "is"), *is_not = yaml_tree_get(node, "is_not");
    const struct yaml_node *present = yaml_tree_get(node, "present");
    const struct yaml_node *differs = yaml_tree_get(node, "differs_from");
    if ((is != NULL) + (is_not != NULL) + (present != NULL) + (differs != NULL) != 1) {
        return framework_refuse(reading, node->line, "a condition has one of is, is_not, present and differs_from");
    }
    const char *path = "";
    TRY(take_path(reading, yaml_tree_get(node, "path"), &path));
    condition->path = path;
    if (present != NULL) {
        if (present->kind != YAML_KIND_SCALAR || strcmp(present->text, "true") != 0) {
            return framework_refuse(reading, present->line, "present: can only be true");
        }
        condition->present = true;
        return OK;
    }
    if (differs != NULL) {
        const char *other = "";
        TRY(take_path(reading, differs, &other));
        condition->differs_from = other;
        return strcmp(other, path) != 0
                   ? OK
                   : framework_refuse(reading, differs->line, "differs_from: nothing differs from itself");
    }
    return is != NULL ? framework_texts(reading, is, FRAMEWORK_VALUES_MAX, take_value, &condition->values,
                                        &condition->value_count)
                      : framework_texts(reading, is_not, FRAMEWORK_VALUES_MAX, take_value, &condition->except,
                                        &condition->except_count);
}

static struct fault take_where(const struct framework_reading *reading, const struct yaml_node *node,
                               struct framework_prerequisite *prerequisite)
{
    struct framework_condition *conditions = NULL;
    TRY(framework_list(reading, node, FRAMEWORK_CONDITION_MAX));
    TRY(arena_take(reading->arena, node->count * prerequisite->type_count, sizeof(*conditions), &conditions));
    for (const struct yaml_node *item = node->first; item != NULL; item = item->next) {
        struct framework_condition condition = { 0 };
        TRY(take_condition(reading, item, &condition));
        const struct yaml_node *of = yaml_tree_get(item, "of");
        if (of != NULL) {
            TRY(spread(reading, of, prerequisite, &condition, conditions));
        } else {
            conditions[prerequisite->where_count++] = condition;
        }
    }
    prerequisite->where = conditions;
    return OK;
}

static struct fault take_event(const struct framework_reading *reading, const struct yaml_node *node,
                               struct framework_prerequisite *prerequisite)
{
    const struct yaml_node *where = yaml_tree_get(node, "where"), *min = yaml_tree_get(node, "min");
    const struct yaml_node *actors = yaml_tree_get(node, "distinct_actors");
    TRY(framework_texts(reading, yaml_tree_get(node, "types"), FRAMEWORK_TYPES_MAX, take_type, &prerequisite->types,
                        &prerequisite->type_count));
    prerequisite->min = 1;
    if (where != NULL) {
        TRY(take_where(reading, where, prerequisite));
    }
    if (min != NULL) {
        TRY(framework_number(reading, min, 1, FRAMEWORK_MIN_MAX, &prerequisite->min));
    }
    if (actors != NULL) {
        TRY(framework_number(reading, actors, 2, FRAMEWORK_ACTORS_MAX, &prerequisite->distinct_actors));
    }
    return OK;
}

static struct fault take_fact(const struct framework_reading *reading, const struct yaml_node *node,
                              struct framework_prerequisite *prerequisite)
{
    const struct yaml_node *fact = yaml_tree_get(node, "fact");
    TRY(framework_text(reading, fact, FRAMEWORK_NAME_MAX, &prerequisite->fact));
    return inventory_fact_known(prerequisite->fact)
               ? OK
               : framework_refuse(reading, fact->line, "fact: '%s' is no fact of the inventory", prerequisite->fact);
}

static struct fault take_attestation(const struct framework_reading *reading, const struct yaml_node *node,
                                     struct framework_prerequisite *prerequisite)
{
    return framework_name(reading, yaml_tree_get(node, "statement"), &prerequisite->statement);
}

/* Each kind has keys of its own beside the common ones; the first of them is needed. */
static const struct kind {
    const char *text;
    struct framework_member own[4];
    size_t own_count;
    struct fault (*take)(const struct framework_reading *reading, const struct yaml_node *node,
                         struct framework_prerequisite *prerequisite);
} kinds[] = {
    [PREREQUISITE_EVENT] = { "event",
                             { { "types", true }, { "where", false }, { "min", false }, { "distinct_actors", false } },
                             4,
                             take_event },
    [PREREQUISITE_FACT] = { "fact", { { "fact", true } }, 1, take_fact },
    [PREREQUISITE_ATTESTATION] = { "attestation", { { "statement", true } }, 1, take_attestation },
};

static struct fault find_kind(const struct framework_reading *reading, const struct yaml_node *node, size_t *ret_kind)
{
    const struct yaml_node *kind = node->kind == YAML_KIND_MAP ? yaml_tree_get(node, "kind") : NULL;
    if (kind == NULL) {
        return framework_refuse(reading, node->line, "a prerequisite is a mapping with 'kind'");
    }
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        if (kind->kind == YAML_KIND_SCALAR && strcmp(kinds[i].text, kind->text) == 0) {
            *ret_kind = i;
            return OK;
        }
    }
    return framework_refuse(reading, kind->line, "kind: must be event, fact or attestation");
}

static struct fault take_prerequisite(const struct framework_reading *reading, const struct yaml_node *node,
                                      struct framework_prerequisite *prerequisite)
{
    struct framework_member members[9] = {
        { "name", true }, { "title", true }, { "recovery", true }, { "kind", true }, { "max_age_days", false },
    };
    size_t kind = 0;
    TRY(find_kind(reading, node, &kind));
    memcpy(&members[5], kinds[kind].own, sizeof(kinds[kind].own));
    TRY(framework_members(reading, node, "a prerequisite of this kind", members, 5 + kinds[kind].own_count));
    prerequisite->kind = (enum prerequisite_kind)kind;
    TRY(framework_name(reading, yaml_tree_get(node, "name"), &prerequisite->name));
    TRY(framework_text(reading, yaml_tree_get(node, "title"), FRAMEWORK_TITLE_MAX, &prerequisite->title));
    TRY(framework_text(reading, yaml_tree_get(node, "recovery"), FRAMEWORK_TEXT_MAX, &prerequisite->recovery));
    const struct yaml_node *age = yaml_tree_get(node, "max_age_days");
    if (age != NULL) {
        TRY(framework_number(reading, age, 1, FRAMEWORK_AGE_MAX, &prerequisite->max_age_days));
    }
    return kinds[kind].take(reading, node, prerequisite);
}

struct fault framework_take_prerequisites(const struct framework_reading *reading, const struct yaml_node *node,
                                          struct framework_control *control)
{
    struct framework_prerequisite *made = NULL;
    size_t count = 0;
    TRY(framework_list(reading, node, FRAMEWORK_PREREQ_MAX));
    TRY(arena_take(reading->arena, node->count, sizeof(*made), &made));
    for (const struct yaml_node *item = node->first; item != NULL; item = item->next, count++) {
        TRY(take_prerequisite(reading, item, &made[count]));
        for (size_t i = 0; i < count; i++) {
            if (strcmp(made[i].name, made[count].name) == 0) {
                return framework_refuse(reading, item->line, "name: '%s' stands there twice", made[i].name);
            }
        }
    }
    control->prerequisites = made;
    control->prerequisite_count = count;
    return OK;
}
