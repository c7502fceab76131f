/* Finding the descriptors that civetweb keeps to itself: to stop accepting without stopping, and to cut connections. */
#ifndef API_SERVER_SOCKETS_H
#define API_SERVER_SOCKETS_H

#include "appliance/base/fault.h"

#define SOCKETS_LISTENING_MAX 8

/* Listening descriptors of this process. Two sets around the opening of a listener tell which are its own. */
struct listening {
    int fd[SOCKETS_LISTENING_MAX];
    size_t count;
};
void sockets_listening(struct listening *ret_set);
/* What `after` has more than `before`. */
void sockets_difference(const struct listening *before, const struct listening *after, struct listening *ret_new);

/* Ends listening on each: the descriptors stay taken (an event descriptor is put in their place), so that their owner
 * may poll and close them as ever. Waiting connections are reset. */
struct fault sockets_stop_listening(const struct listening *set);
/* Wakes whoever polls them, after sockets_stop_listening. */
void sockets_wake(const struct listening *set);

/* The descriptor of the connection from `address` (numeric) and `peer_port` to our `port`; -1 when it is not found. */
int sockets_connection(const char *address, int peer_port, int port);

#endif
