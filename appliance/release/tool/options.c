#include "appliance/release/tool/options.h"

#include <stdio.h>

static const struct {
    const char *flag;
    size_t offset;
} flags[] = {
    { "--kind", offsetof(struct options, kind) },         { "--name", offsetof(struct options, name) },
    { "--version", offsetof(struct options, version) },   { "--min-version", offsetof(struct options, min_version) },
    { "--profile", offsetof(struct options, profile) },   { "--created", offsetof(struct options, created) },
    { "--roothash", offsetof(struct options, roothash) }, { "--blocks", offsetof(struct options, blocks) },
    { "--salt", offsetof(struct options, salt) },         { "--sbom-sha256", offsetof(struct options, sbom_sha256) },
    { "--manifest", offsetof(struct options, manifest) }, { "--signature", offsetof(struct options, signature) },
    { "-o", offsetof(struct options, output) },
};

static const char **place_of(struct options *options, const char *word)
{
    if (strcmp(word, "--key") == 0 && options->key_count < RELEASE_KEYS_MAX) {
        return &options->keys[options->key_count++];
    }
    for (size_t i = 0; i < COUNT_OF(flags); i++) {
        if (strcmp(flags[i].flag, word) == 0) {
            return (const char **)((char *)options + flags[i].offset);
        }
    }
    return NULL;
}

struct fault options_parse(struct op *op, int argc, char **argv, struct options *ret_options)
{
    struct options made = { 0 };
    for (int i = 0; i < argc; i++) {
        const char **place = place_of(&made, argv[i]);
        if (place != NULL && i + 1 < argc && *place == NULL) {
            *place = argv[++i];
        } else if (argv[i][0] != '-' && strchr(argv[i], '=') != NULL && made.part_count < RELEASE_PARTS_MAX) {
            made.parts[made.part_count++] = argv[i];
        } else if (argv[i][0] != '-' && strchr(argv[i], '=') == NULL && made.file == NULL) {
            made.file = argv[i];
        } else {
            return op_fail(op, FAULT(BAD_ARGUMENT), "'%s' is not understood, given twice, or lacks its value", argv[i]);
        }
    }
    *ret_options = made;
    return OK;
}

struct fault options_part(struct op *op, const struct options *options, const char *name, const char **ret_path)
{
    size_t len = strlen(name);
    for (size_t i = 0; i < options->part_count; i++) {
        if (strncmp(options->parts[i], name, len) == 0 && options->parts[i][len] == '=') {
            *ret_path = options->parts[i] + len + 1;
            return OK;
        }
    }
    return op_fail(op, FAULT(BAD_ARGUMENT), "give %s=FILE", name);
}

struct fault options_need(struct op *op, const char *value, const char *flag)
{
    if (value == NULL) {
        IGNORE(op_fail(op, FAULT(BAD_ARGUMENT), "give %s", flag));
        return FAULT(BAD_ARGUMENT);
    }
    return OK;
}

struct fault options_version(struct op *op, const char *text, const char *flag, struct version *ret_version)
{
    TRY(options_need(op, text, flag));
    return FAULTED(version_parse(span_text(text), ret_version))
               ? op_fail(op, FAULT(BAD_ARGUMENT), "%s is not MAJOR.MINOR.PATCH", flag)
               : OK;
}

struct fault options_tree(struct op *op, const struct options *options, struct release_tree *ret_tree)
{
    struct release_tree tree = { 0 };
    TRY(options_need(op, options->roothash, "--roothash"));
    TRY(options_need(op, options->salt, "--salt"));
    TRY(options_need(op, options->blocks, "--blocks"));
    for (const char *at = options->blocks; *at >= '0' && *at <= '9' && tree.blocks <= RELEASE_PART_MAX; at++) {
        tree.blocks = 10 * tree.blocks + (uint64_t)(*at - '0');
    }
    if (!release_hex_valid(options->roothash) || !release_hex_valid(options->salt) ||
        strspn(options->blocks, "0123456789") != strlen(options->blocks) || tree.blocks < 2) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "--roothash and --salt are 64 hex digits, --blocks is a number");
    }
    (void)snprintf(tree.roothash, sizeof(tree.roothash), "%s", options->roothash);
    (void)snprintf(tree.salt, sizeof(tree.salt), "%s", options->salt);
    *ret_tree = tree;
    return OK;
}
