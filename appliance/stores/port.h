/* TCP, as far as the supervisor needs it: is a port free, and a bounded exchange of text with a server. */
#ifndef APPLIANCE_STORES_PORT_H
#define APPLIANCE_STORES_PORT_H

#include "appliance/base/op.h"

/* "127.0.0.1:8443", "[::1]:8443": host without brackets, port digits; both in the arena. BAD_ARGUMENT. */
struct fault port_split(struct op *op, const char *address, const char **ret_host, const char **ret_port);
/* CONFLICT when somebody else holds it. Nothing is listened on. `key` names the setting for the message. */
struct fault port_free(struct op *op, const char *key, const char *address);
/* A connection within op's deadline; the caller closes *ret_fd. IO, DEADLINE, CANCELLED. */
struct fault port_connect(struct op *op, const char *host, const char *port, int *ret_fd);
struct fault port_connect_unix(struct op *op, const char *path, int *ret_fd);
struct fault port_send(struct op *op, int fd, struct span bytes);
/* Appends what has come until the connection ends, `until` was seen, or `out` is full. */
struct fault port_receive(struct op *op, int fd, const char *until, struct buf *out);

#endif
