/* The words behind `svc-release COMMAND`: --flags with a value, name=path for parts, and files. */
#ifndef APPLIANCE_RELEASE_TOOL_OPTIONS_H
#define APPLIANCE_RELEASE_TOOL_OPTIONS_H

#include "appliance/release/container.h"

struct options {
    const char *kind, *name, *version, *min_version, *profile, *created, *roothash, *blocks, *salt, *sbom_sha256;
    const char *manifest, *signature, *output;
    const char *keys[RELEASE_KEYS_MAX];
    size_t key_count;
    const char *parts[RELEASE_PARTS_MAX]; /* "root=PATH", as given */
    size_t part_count;
    const char *file;
};

/* BAD_ARGUMENT, with what is not understood. */
struct fault options_parse(struct op *op, int argc, char **argv, struct options *ret_options);
/* The path given for the part NAME; BAD_ARGUMENT when there is none. */
struct fault options_part(struct op *op, const struct options *options, const char *name, const char **ret_path);
struct fault options_need(struct op *op, const char *value, const char *flag);
struct fault options_version(struct op *op, const char *text, const char *flag, struct version *ret_version);
/* --roothash, --blocks and --salt. */
struct fault options_tree(struct op *op, const struct options *options, struct release_tree *ret_tree);

#endif
