/* The file of methods as a whole: what is due together, and what is there by default. */
#include "api/attest/methods.h"

#include "appliance/base/alloc.h"
#include "appliance/base/file.h"

#include <stdarg.h>
#include <stdio.h>

#define FILE_MAX_BYTES ((size_t)1 << 20)
#define ARENA_MAX      ((size_t)16 << 20)
#define LEEWAY_US      (30 * US_PER_S)
#define LIFETIME_US    (3600 * US_PER_S)

void refuse_note(struct reading *reading, unsigned line, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    IGNORE(buf_printf(reading->why, "%s:%u: %s", reading->file, line, text));
}

static struct fault check_together(struct reading *reading, const struct yaml_node *node, const struct method *method)
{
    if ((method->jwks_url == NULL) == (method->jwks_file == NULL)) {
        return refuse_at(reading, node->line, "%s: give exactly one of jwks_url and jwks_file", method->name);
    }
    if (method->ca_file != NULL && method->jwks_url == NULL) {
        return refuse_at(reading, node->line, "%s: jwks_ca_file goes with jwks_url", method->name);
    }
    if (method->kind == KIND_GENERIC && method->san == NULL) {
        return refuse_at(reading, node->line, "%s: a generic method needs a san", method->name);
    }
    if (method->kind == KIND_GENERIC && method->url != NULL) {
        return refuse_at(reading, node->line, "%s: a generic method has no url", method->name);
    }
    for (size_t i = 0; i < reading->attest->method_count; i++) {
        const struct method *other = &reading->attest->methods[i];
        if (strcmp(other->name, method->name) == 0 && tenant_id_equal(other->tenant, method->tenant)) {
            return refuse_at(reading, node->line, "method: '%s' is there already for tenant %s", method->name,
                             method->tenant.text);
        }
    }
    return OK;
}

static struct fault fill_defaults(struct reading *reading, struct method *method)
{
    struct arena *arena = reading->attest->arena;
    if (method->algorithm_count == 0) {
        method->algorithms[0] = "RS256";
        method->algorithms[1] = "ES256";
        method->algorithm_count = 2;
    }
    if (method->url == NULL && method->kind != KIND_GENERIC) {
        method->url = method->kind == KIND_GITHUB_ACTIONS ? "https://github.com" : "https://gitlab.com";
    }
    if (method->san != NULL) {
        return OK;
    }
    return method->kind == KIND_GITHUB_ACTIONS ? arena_printf(arena, &method->san, "%s/{job_workflow_ref}", method->url)
                                               : arena_printf(arena, &method->san, "https://{ci_config_ref_uri}");
}

static struct fault add_method(struct reading *reading, const struct yaml_node *node)
{
    struct attest *attest = reading->attest;
    struct method method = { .san_kind = -1, .leeway_us = LEEWAY_US, .max_lifetime_us = LIFETIME_US };
    if (node->kind != YAML_KIND_MAP) {
        return refuse_at(reading, node->line, "attestors: each item is a mapping");
    }
    TRY(method_take_members(reading, node, &method));
    TRY(check_together(reading, node, &method));
    TRY(fill_defaults(reading, &method));
    TRY(method_open_keys(reading, node, &method));
    attest->methods[attest->method_count++] = method;
    return OK;
}

static struct fault read_methods(struct reading *reading, struct span yaml)
{
    struct yaml_node *root = NULL;
    CLEANUP(arena_freep) struct arena *arena = NULL;
    TRY(arena_new(ARENA_MAX, &arena));
    TRY(yaml_tree_parse(arena, yaml, reading->file, reading->why, &root));
    const struct yaml_node *list = yaml_tree_get(root, "attestors");
    if (list == NULL || root->count != 1 || list->kind != YAML_KIND_LIST || list->count == 0 ||
        list->count > METHODS_MAX) {
        return refuse_at(reading, root->line, "one key is due, attestors: a list of 1 to %d identity methods",
                         METHODS_MAX);
    }
    TRY(mem_new(list->count, sizeof(*reading->attest->methods), &reading->attest->methods));
    for (const struct yaml_node *node = list->first; node != NULL; node = node->next) {
        TRY(add_method(reading, node));
    }
    return OK;
}

struct fault attest_parse(struct span yaml, const char *file, struct metrics *metrics, struct buf *why,
                          struct attest **ret_attest)
{
    CLEANUP(attest_freep) struct attest *attest = NULL;
    TRY(mem_new(1, sizeof(*attest), &attest));
    attest->metrics = metrics;
    TRY(arena_new(ARENA_MAX, &attest->arena));
    struct reading reading = { attest, file, why };
    TRY(read_methods(&reading, yaml));
    *ret_attest = TAKE(attest);
    return OK;
}

struct fault attest_load(const char *path, struct metrics *metrics, struct buf *why, struct attest **ret_attest)
{
    CLEANUP(buf_free) struct buf yaml = BUF_INIT(FILE_MAX_BYTES);
    const char *slash = strrchr(path, '/');
    struct fault fault = file_read(path, &yaml);
    REQUIRE(fault.code != FAULT_NO_MEMORY, NO_MEMORY);
    if (FAULTED(fault)) {
        IGNORE(buf_printf(why, "%s: cannot be read (%s)", path, fault_row(fault.code)->text));
        return FAULT(CONFIG);
    }
    return attest_parse(buf_span(&yaml), slash != NULL ? slash + 1 : path, metrics, why, ret_attest);
}

void attest_free(struct attest *attest)
{
    if (attest == NULL) {
        return;
    }
    for (size_t i = 0; i < attest->source_count; i++) {
        issuer_keys_free(attest->sources[i]);
    }
    mem_free(attest->methods);
    arena_free(attest->arena);
    mem_free(attest);
}
