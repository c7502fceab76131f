#include "signer-pkcs11/protocol/tcp.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#define ALIVE_IDLE_S  15
#define ALIVE_EVERY_S 5
#define ALIVE_TRIES   3
#define UNANSWERED_MS 10000 /* what was sent, and nobody acknowledges */

struct fault tcp_address_parse(const char *text, struct tcp_address *ret_address)
{
    const char *colon = strrchr(text, ':');
    REQUIRE(colon != NULL && colon > text, BAD_ARGUMENT);
    size_t len = (size_t)(colon - text), digits = strlen(colon + 1);
    bool bracketed = text[0] == '[';
    REQUIRE(!bracketed || (len > 2 && text[len - 1] == ']'), BAD_ARGUMENT);
    if (bracketed) {
        text++;
        len -= 2;
    }
    REQUIRE(len <= TCP_HOST_MAX && digits >= 1 && digits <= 5 && strspn(colon + 1, "0123456789") == digits,
            BAD_ARGUMENT);
    struct tcp_address address;
    (void)snprintf(address.host, sizeof(address.host), "%.*s", (int)len, text);
    (void)snprintf(address.port, sizeof(address.port), "%s", colon + 1);
    *ret_address = address;
    return OK;
}

struct fault tcp_attend(int fd)
{
    static const struct {
        int level, option, value;
    } rows[] = {
        { SOL_SOCKET, SO_KEEPALIVE, 1 },
        { IPPROTO_TCP, TCP_KEEPIDLE, ALIVE_IDLE_S },
        { IPPROTO_TCP, TCP_KEEPINTVL, ALIVE_EVERY_S },
        { IPPROTO_TCP, TCP_KEEPCNT, ALIVE_TRIES },
        { IPPROTO_TCP, TCP_USER_TIMEOUT, UNANSWERED_MS },
        { IPPROTO_TCP, TCP_NODELAY, 1 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        REQUIRE(setsockopt(fd, rows[i].level, rows[i].option, &rows[i].value, sizeof(rows[i].value)) == 0, IO);
    }
    return OK;
}
