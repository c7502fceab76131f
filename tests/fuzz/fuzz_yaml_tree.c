/* rooms: base */
/* Policy and configuration files. Every node of an accepted tree can be walked and found by its key. */
#include "appliance/base/yaml_tree.h"

static void walk(const struct yaml_node *node, unsigned depth)
{
    size_t count = 0;
    BUG_IF(depth > YAML_TREE_DEPTH_MAX || node->line == 0);
    BUG_IF((node->kind == YAML_KIND_SCALAR) != (node->text != NULL));
    for (const struct yaml_node *child = node->first; child != NULL; child = child->next) {
        BUG_IF((node->kind == YAML_KIND_MAP) != (child->key != NULL));
        BUG_IF(node->kind == YAML_KIND_MAP && yaml_tree_get(node, child->key) != child);
        walk(child, depth + 1);
        count++;
    }
    BUG_IF(count != node->count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(arena_freep) struct arena *arena = NULL;
    struct yaml_node *root = NULL;
    if (FAULTED(arena_new((size_t)4 << 20, &arena))) {
        return 0;
    }
    if (!FAULTED(yaml_tree_parse(arena, span_of(data, size), "fuzz", NULL, &root))) {
        walk(root, 0);
    }
    return 0;
}
