/*
 * The doors of svc-signer: a unix socket for its own machine, and where signer.listen asks for one, a TLS listener for
 * svc-api on another. A door is taken over from whoever started us (LISTEN_FDS and LISTEN_PID, as service managers and
 * svc-appliance do: then the socket belongs to svc-api, 0600 in its 0700 folder) or made here (0600 in a 0700 folder of
 * our own user).
 *
 * listeners_open before the sandbox, which allows neither sockets nor ports; listeners_begin when everything is proven;
 * door_admit on the connection's own thread, because a handshake takes as long as its peer wants, within DOOR_PATIENCE.
 */
#ifndef SIGNER_BROKER_LISTEN_H
#define SIGNER_BROKER_LISTEN_H

#include "appliance/base/config.h"
#include "signer-pkcs11/broker/purpose.h"
#include "signer-pkcs11/protocol/tls_end.h"
#include "signer-pkcs11/protocol/tls_stream.h"

#define LISTENERS_MAX  4u
#define HANDSHAKES_MAX 16u /* at once: strangers cannot take all connections by not finishing theirs */

enum listener_kind { LISTENER_UNIX, LISTENER_TLS };
struct listener {
    int fd; /* not blocking */
    enum listener_kind kind;
    bool handed; /* taken over: its name is not ours to remove */
};
struct listeners {
    struct listener at[LISTENERS_MAX];
    size_t count;
    struct tls_end *tls; /* NULL unless one is LISTENER_TLS */
};
#define LISTENERS_NONE { .count = 0 }

/* Binds, or takes over; nobody is answered yet. After fips_start. CONFIG or IO, and `why` gets a line. */
struct fault listeners_open(const struct config *config, struct buf *why, struct listeners *ret_listeners);
/* From here on they take connections. IO. */
struct fault listeners_begin(const struct listeners *listeners, struct buf *why);
/* Closes all, and removes the socket's name if we made it. Idempotent. */
void listeners_close(struct listeners *listeners, const struct config *config);
/* After the last connection is gone: their handshakes need it. */
void listeners_free(struct listeners *listeners);
/* Is the unix socket one that was handed to us? Then its folder is none of our business. */
bool listeners_handed(const struct listeners *listeners);

/* Who asks, as far as the accepting thread can know without waiting: by SO_PEERCRED on a unix socket, ASKER_API for a
 * TLS one (door_admit decides). 0: nobody; close it. */
unsigned door_askers(const struct listener *listener, const struct askers *askers, int fd);
/* On the connection's thread, first of all. A unix connection: OK at once, *ret_tls is NULL. A TLS one: its handshake
 * and the peer's name. *ret_report (written always) has the reason of a refusal for the log. SATURATED (too many
 * handshakes), DEADLINE, SIGNER_UNAVAILABLE: close it. */
struct fault door_admit(const struct listeners *listeners, enum listener_kind kind, int fd,
                        struct tls_report *ret_report, struct tls_stream **ret_tls);

#endif
