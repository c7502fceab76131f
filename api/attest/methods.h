/* What methods.c, method_members.c and method_keys.c share while the file of methods is read. */
#ifndef API_ATTEST_METHODS_H
#define API_ATTEST_METHODS_H

#include "api/attest/internal.h"
#include "appliance/base/yaml_tree.h"

struct reading {
    struct attest *attest;
    const char *file; /* its last name */
    struct buf *why;
};
/* CONFIG, and "FILE:LINE: what" in why. */
#define refuse_at(reading, line, ...) (refuse_note((reading), (line), __VA_ARGS__), FAULT(CONFIG))
void refuse_note(struct reading *reading, unsigned line, const char *format, ...) PRINTF(3, 4);
/* The keys of one method, each by itself. */
struct fault method_take_members(struct reading *reading, const struct yaml_node *node, struct method *method);
/* Reads the files that the method pins; sets its keys and its digest. CONFIG, with the line of `node`. */
struct fault method_open_keys(struct reading *reading, const struct yaml_node *node, struct method *method);

#endif
