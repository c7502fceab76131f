/* What svc-release does; each writes to stdout or to -o, and fails with the note of `op`. */
#ifndef APPLIANCE_RELEASE_TOOL_COMMANDS_H
#define APPLIANCE_RELEASE_TOOL_COMMANDS_H

#include "appliance/release/tool/options.h"

struct fault command_manifest(struct op *op, const struct options *options);
struct fault command_pack(struct op *op, const struct options *options);
struct fault command_verify(struct op *op, const struct options *options);
struct fault command_inspect(struct op *op, const struct options *options);
struct fault command_tree(struct op *op, const struct options *options);
struct fault command_footer(struct op *op, const struct options *options);

#endif
