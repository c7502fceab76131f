/* What the machine knows about itself without asking anybody. */
#ifndef APPLIANCE_MACHINE_BOOT_FACTS_H
#define APPLIANCE_MACHINE_BOOT_FACTS_H

#include "appliance/base/op.h"

/* VERSION_ID of an os-release text; "" when there is none. In op's arena. */
struct fault facts_version(struct op *op, struct span os_release, const char **ret_version);
/* The value of "NAME=value" of a kernel command line as a number within the bounds, else `fallback`. */
int64_t facts_number(struct span command_line, const char *name, int64_t min, int64_t max, int64_t fallback);
/* Does the firmware say that Secure Boot is on? The content of its variable: 4 bytes of attributes, one of value. */
bool facts_secure_boot(struct span variable);
/* The addresses of an interface as "192.0.2.10/24", scope link left out. At most `max`; in op's arena. */
struct fault facts_addresses(struct op *op, const char *interface, const char **ret_addresses, size_t max,
                             size_t *ret_count);

#endif
