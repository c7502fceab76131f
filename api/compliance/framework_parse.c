#include "api/compliance/framework_internal.h"

#define TREE_ARENA_MAX ((size_t)4 << 20)

/* ---- controls ---- */

static struct fault take_control(const struct framework_reading *reading, const struct yaml_node *node,
                                 struct framework_control *control)
{
    static const struct framework_member members[] = { { "id", true }, { "title", true }, { "prerequisites", true } };
    TRY(framework_members(reading, node, "a control", members, COUNT_OF(members)));
    TRY(framework_text(reading, yaml_tree_get(node, "id"), FRAMEWORK_ID_MAX, &control->id));
    TRY(framework_text(reading, yaml_tree_get(node, "title"), FRAMEWORK_TITLE_MAX, &control->title));
    return framework_take_prerequisites(reading, yaml_tree_get(node, "prerequisites"), control);
}

static struct fault take_controls(const struct framework_reading *reading, const struct yaml_node *node,
                                  struct framework *framework)
{
    struct framework_control *made = NULL;
    size_t count = 0;
    TRY(framework_list(reading, node, FRAMEWORK_CONTROLS_MAX));
    TRY(arena_take(reading->arena, node->count, sizeof(*made), &made));
    for (const struct yaml_node *item = node->first; item != NULL; item = item->next, count++) {
        TRY(take_control(reading, item, &made[count]));
        for (size_t i = 0; i < count; i++) {
            if (strcmp(made[i].id, made[count].id) == 0) {
                return framework_refuse(reading, item->line, "control '%s' stands there twice", made[i].id);
            }
        }
    }
    framework->controls = made;
    framework->control_count = count;
    return OK;
}

/* ---- gaps ---- */

static struct fault take_owner(const struct framework_reading *reading, const struct yaml_node *node,
                               enum gap_owner *ret_owner)
{
    bool operator= node->kind == YAML_KIND_SCALAR && strcmp(node->text, "operator") == 0;
    bool auditor = node->kind == YAML_KIND_SCALAR && strcmp(node->text, "auditor") == 0;
    if (!operator&& !auditor) {
        return framework_refuse(reading, node->line, "owner: must be operator or auditor");
    }
    *ret_owner = operator? GAP_OPERATOR : GAP_AUDITOR;
    return OK;
}

static struct fault take_gap(const struct framework_reading *reading, const struct yaml_node *node,
                             struct framework_gap *gap)
{
    static const struct framework_member members[] = {
        { "id", true }, { "title", true }, { "owner", true }, { "statement", false }
    };
    TRY(framework_members(reading, node, "a gap", members, COUNT_OF(members)));
    const struct yaml_node *statement = yaml_tree_get(node, "statement");
    TRY(framework_name(reading, yaml_tree_get(node, "id"), &gap->id));
    TRY(framework_text(reading, yaml_tree_get(node, "title"), FRAMEWORK_TITLE_MAX, &gap->title));
    TRY(take_owner(reading, yaml_tree_get(node, "owner"), &gap->owner));
    if (statement == NULL) {
        return OK;
    }
    /* Nobody attests an auditor's decision in its place. */
    if (gap->owner == GAP_AUDITOR) {
        return framework_refuse(reading, statement->line, "statement: goes with owner: operator only");
    }
    return framework_name(reading, statement, &gap->statement);
}

static struct fault take_gaps(const struct framework_reading *reading, const struct yaml_node *node,
                              struct framework *framework)
{
    struct framework_gap *made = NULL;
    size_t count = 0;
    TRY(framework_list(reading, node, FRAMEWORK_GAPS_MAX));
    TRY(arena_take(reading->arena, node->count, sizeof(*made), &made));
    for (const struct yaml_node *item = node->first; item != NULL; item = item->next, count++) {
        TRY(take_gap(reading, item, &made[count]));
        for (size_t i = 0; i < count; i++) {
            if (strcmp(made[i].id, made[count].id) == 0) {
                return framework_refuse(reading, item->line, "gap '%s' stands there twice", made[i].id);
            }
        }
    }
    framework->gaps = made;
    framework->gap_count = count;
    return OK;
}

/* ---- the file ---- */

static struct fault take_head(const struct framework_reading *reading, const struct yaml_node *root, const char *id,
                              struct framework *framework)
{
    static const struct framework_member members[] = { { "name", true }, { "version", true } };
    const struct yaml_node *named = yaml_tree_get(root, "id"), *catalogue = yaml_tree_get(root, "catalogue");
    TRY(framework_text(reading, named, FRAMEWORK_NAME_MAX, &framework->id));
    if (strcmp(framework->id, id) != 0) {
        return framework_refuse(reading, named->line, "id: '%s' stands in the file of %s", framework->id, id);
    }
    TRY(framework_members(reading, catalogue, "catalogue", members, COUNT_OF(members)));
    TRY(framework_text(reading, yaml_tree_get(catalogue, "name"), FRAMEWORK_TITLE_MAX, &framework->catalogue));
    return framework_text(reading, yaml_tree_get(catalogue, "version"), FRAMEWORK_TITLE_MAX, &framework->version);
}

static struct fault take_file(const struct framework_reading *reading, const struct yaml_node *root, const char *id,
                              const struct framework **ret_framework)
{
    static const struct framework_member members[] = {
        { "id", true }, { "catalogue", true }, { "controls", true }, { "gaps", true }
    };
    struct framework *made = NULL;
    TRY(framework_members(reading, root, "a framework", members, COUNT_OF(members)));
    TRY(arena_take(reading->arena, 1, sizeof(*made), &made));
    TRY(take_head(reading, root, id, made));
    TRY(take_controls(reading, yaml_tree_get(root, "controls"), made));
    TRY(take_gaps(reading, yaml_tree_get(root, "gaps"), made));
    *ret_framework = made;
    return OK;
}

struct fault framework_take(const struct framework_reading *reading, const char *id, struct span yaml,
                            const struct framework **ret_framework)
{
    CLEANUP(arena_freep) struct arena *tree = NULL;
    CLEANUP(buf_free) struct buf why = BUF_INIT(1024);
    struct yaml_node *root = NULL;
    if (yaml.len > FRAMEWORK_FILE_MAX) {
        return op_fail(reading->op, FAULT(CONFIG), "%s: is larger than 256 KiB", reading->file);
    }
    TRY(arena_new(TREE_ARENA_MAX, &tree));
    struct fault fault = yaml_tree_parse(tree, yaml, reading->file, &why, &root);
    if (fault.code == FAULT_CONFIG && why.len > 0) {
        size_t len = why.at[why.len - 1] == '\n' ? why.len - 1 : why.len;
        return op_fail(reading->op, fault, "%.*s", (int)len, (const char *)why.at);
    }
    TRY(fault);
    return take_file(reading, root, id, ret_framework);
}

struct fault framework_parse(struct op *op, const char *id, struct span yaml, const struct framework **ret_framework)
{
    struct framework_reading reading = { .op = op, .arena = op->arena };
    TRY(arena_printf(op->arena, &reading.file, "%s.yaml", id));
    return framework_take(&reading, id, yaml, ret_framework);
}
