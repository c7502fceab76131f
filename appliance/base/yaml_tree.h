/*
 * Policy files as a small tree: mappings, sequences and plain or quoted scalars, nothing else of YAML. Anchors,
 * aliases, tags, merge keys, a second document and doubled keys are refused with the line, so that what a reader sees
 * is what is read.
 *
 *     struct yaml_node *root = NULL;
 *     TRY(yaml_tree_parse(arena, text, "roles.yaml", why, &root));
 *     const struct yaml_node *roles = yaml_tree_get(root, "roles");
 */
#ifndef APPLIANCE_BASE_YAML_TREE_H
#define APPLIANCE_BASE_YAML_TREE_H

#include "appliance/base/arena.h"

#define YAML_TREE_DEPTH_MAX 16
#define YAML_TREE_NODES_MAX 4096

enum yaml_kind { YAML_KIND_SCALAR, YAML_KIND_LIST, YAML_KIND_MAP };
struct yaml_node {
    enum yaml_kind kind;
    unsigned line;           /* from 1; of its key within a mapping */
    const char *key;         /* within a mapping; NULL elsewhere */
    const char *text;        /* of a scalar */
    bool quoted;             /* a scalar in quotes or a block scalar: text, whatever it looks like */
    struct yaml_node *first; /* children in file order */
    struct yaml_node *next;
    size_t count; /* of children */
};

/* The tree lives in `arena`. A file without a document (empty, only comments) is an empty mapping. CONFIG: `why` (if
 * not NULL) gets "FILE:LINE: what". */
struct fault yaml_tree_parse(struct arena *arena, struct span text, const char *file, struct buf *why,
                             struct yaml_node **ret_root);
/* The member of a mapping; NULL when there is none, or `node` is NULL or no mapping. */
const struct yaml_node *yaml_tree_get(const struct yaml_node *node, const char *key);

#endif
