#include "api/identity/internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/yaml_tree.h"

#include <stdio.h>

#define ROLES_MAX 64u

struct role {
    char name[ROLE_NAME_MAX + 1];
    uint64_t permissions;
};
struct roles {
    size_t count;
    struct role at[ROLES_MAX];
};

static struct fault refuse(struct buf *why, const char *file, unsigned line, const char *what, const char *name)
{
    if (why != NULL) {
        IGNORE(buf_printf(why, "%s:%u: %s: %s\n", file, line, what, name));
    }
    return FAULT(CONFIG);
}

static bool role_name_is_good(const char *name)
{
    size_t len = strlen(name);
    return len >= 1 && len <= ROLE_NAME_MAX && strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

static struct fault permission_parse(const char *text, enum permission *ret_permission)
{
    for (int i = PERMISSION_NONE + 1; i < PERMISSION_COUNT; i++) {
        if (strcmp(permission_text((enum permission)i), text) == 0) {
            *ret_permission = (enum permission)i;
            return OK;
        }
    }
    return FAULT(BAD_ARGUMENT);
}

static struct fault role_parse(const struct yaml_node *node, const char *file, struct buf *why, struct role *ret_role)
{
    if (!role_name_is_good(node->key)) {
        return refuse(why, file, node->line, "a role is named by 1 to 31 of a-z, 0-9 and -", node->key);
    }
    if (node->kind != YAML_KIND_LIST) {
        return refuse(why, file, node->line, "a role is a list of permissions", node->key);
    }
    (void)snprintf(ret_role->name, sizeof(ret_role->name), "%s", node->key);
    for (const struct yaml_node *item = node->first; item != NULL; item = item->next) {
        enum permission permission = PERMISSION_NONE;
        if (item->kind != YAML_KIND_SCALAR || FAULTED(permission_parse(item->text, &permission))) {
            return refuse(why, file, item->line, "no such permission",
                          item->kind == YAML_KIND_SCALAR ? item->text : node->key);
        }
        ret_role->permissions |= UINT64_C(1) << permission;
    }
    return OK;
}

static struct fault roles_fill(const struct yaml_node *root, const char *file, struct buf *why, struct roles *roles)
{
    const struct yaml_node *list = yaml_tree_get(root, "roles");
    if (list == NULL || list->kind != YAML_KIND_MAP || root->count != 1) {
        return refuse(why, file, root->line, "one mapping is due", "roles");
    }
    for (const struct yaml_node *node = list->first; node != NULL; node = node->next) {
        if (roles->count == ROLES_MAX) {
            return refuse(why, file, node->line, "too many roles", node->key);
        }
        TRY(role_parse(node, file, why, &roles->at[roles->count]));
        roles->count++;
    }
    return OK;
}

struct fault roles_parse(struct span yaml, const char *file, struct buf *why, struct roles **ret_roles)
{
    CLEANUP(arena_freep) struct arena *arena = NULL;
    CLEANUP(roles_freep) struct roles *made = NULL;
    struct yaml_node *root = NULL;
    TRY(arena_new((size_t)1 << 20, &arena));
    TRY(mem_new(1, sizeof(*made), &made));
    TRY(yaml_tree_parse(arena, yaml, file, why, &root));
    TRY(roles_fill(root, file, why, made));
    *ret_roles = TAKE(made);
    return OK;
}

void roles_free(struct roles *roles)
{
    mem_free(roles);
}

bool roles_find(const struct roles *roles, const char *name, uint64_t *ret_permissions)
{
    for (size_t i = 0; i < roles->count; i++) {
        if (strcmp(roles->at[i].name, name) == 0) {
            *ret_permissions = roles->at[i].permissions;
            return true;
        }
    }
    return false;
}
