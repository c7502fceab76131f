/* What both ends of a connection between hosts do with TCP. */
#ifndef SIGNER_PROTOCOL_TCP_H
#define SIGNER_PROTOCOL_TCP_H

#include "appliance/base/fault.h"

#define TCP_HOST_MAX 255

struct tcp_address {
    char host[TCP_HOST_MAX + 1]; /* without brackets */
    char port[6];
};
/* "127.0.0.1:9443", "[::1]:9443", "name.example:9443". BAD_ARGUMENT. */
struct fault tcp_address_parse(const char *text, struct tcp_address *ret_address);

/* Sends at once, and notices within half a minute that the peer is gone without a word. On a listener it holds for the
 * connections that come from it. IO. */
struct fault tcp_attend(int fd);

#endif
