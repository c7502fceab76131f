/* Inside the JSON module only: the strict parse that jin_ and json_canonical share, and the canonical writer. jansson's
 * own type stays behind `void *`, so that no header names it. */
#ifndef APPLIANCE_BASE_JSON_TREE_H
#define APPLIANCE_BASE_JSON_TREE_H

#include "appliance/base/bytes.h"

/* The root as json_t *, to be released by json_tree_free. JSON_SYNTAX; `why` (may be NULL) gets a phrase. */
struct fault json_tree_parse(struct span json, unsigned depth_max, char why[160], void **ret_root);
void json_tree_free(void *root);
static inline void json_tree_freep(void **root)
{
    void *old = *root;
    *root = NULL;
    json_tree_free(old);
}
/* RFC 8785 text of a json_t, appended. */
struct fault json_tree_canonical(const void *node, struct buf *out);

#endif
