#include "appliance/base/json_tree.h"

#include <jansson.h>

#include <stdio.h>

/* jansson's own limit is 2048 levels of recursion; ours is counted before it sees a byte. */
static bool depth_fits(struct span json, unsigned depth_max)
{
    unsigned depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < json.len; i++) {
        uint8_t c = json.at[i];
        if (quoted) {
            i += c == '\\';
            quoted = c != '"';
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{' || c == '[') {
            if (++depth > depth_max) {
                return false;
            }
        } else if ((c == '}' || c == ']') && depth > 0) {
            depth--;
        }
    }
    return true;
}

struct fault json_tree_parse(struct span json, unsigned depth_max, char why[160], void **ret_root)
{
    if (!depth_fits(json, depth_max)) {
        if (why != NULL) {
            (void)snprintf(why, 160, "nested deeper than %u levels", depth_max);
        }
        return FAULT(JSON_SYNTAX);
    }
    json_error_t error = { 0 };
    json_t *root = json_loadb(json.len > 0 ? (const char *)json.at : "", json.len,
                              JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (root == NULL) {
        if (why != NULL) {
            /* jansson quotes the text near the fault; what the caller sent need not come back to a log */
            char *near = strstr(error.text, " near ");
            if (near != NULL) {
                *near = 0;
            }
            (void)snprintf(why, 160, "line %d column %d: %.120s", error.line, error.column, error.text);
        }
        return FAULT(JSON_SYNTAX);
    }
    *ret_root = root;
    return OK;
}

void json_tree_free(void *root)
{
    json_decref(root);
}
