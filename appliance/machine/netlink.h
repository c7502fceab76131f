/* As much of rtnetlink as static addresses need: one request, one acknowledgement, bounded. For network.c. */
#ifndef APPLIANCE_MACHINE_NETLINK_H
#define APPLIANCE_MACHINE_NETLINK_H

#include "appliance/machine/network.h"

struct fault netlink_open(struct op *op, int *ret_fd);
struct fault netlink_up(struct op *op, int fd, unsigned interface);
/* An address or route that is there already is fine. */
struct fault netlink_address(struct op *op, int fd, unsigned interface, const struct network_address *address);
/* The default route of its family. */
struct fault netlink_gateway(struct op *op, int fd, unsigned interface, const struct network_address *gateway);

/* The messages themselves, for tests: they are written into `out`. */
struct fault netlink_print_address(struct buf *out, unsigned interface, const struct network_address *address);
struct fault netlink_print_gateway(struct buf *out, unsigned interface, const struct network_address *gateway);

#endif
