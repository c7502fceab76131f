/* The inside of listener.c, and connection.c with the callbacks that serve connections: the only files that know
 * civetweb. */
#ifndef API_SERVER_CONNECTION_H
#define API_SERVER_CONNECTION_H

#include "api/server/listener.h"
#include "api/server/slots.h"
#include "api/server/sockets.h"

#include <civetweb.h>
#include <openssl/types.h>

#define HEADER_BLOCK_MAX "16384"

struct listener {
    struct core *core;
    enum listener_kind kind;
    SSL_CTX *tls;
    struct mg_context *civet;
    struct slots *slots;
    struct admission admission;
    struct listening sockets;
    bool accepting;
};

/* What a thread keeps between requests. */
struct worker {
    struct listener *listener;
    struct slot *slot;
    struct op op;
    struct buf out;
};

/* An info callback of OpenSSL's: the first sight of a TLS connection is its handshake. */
void connection_handshake(const SSL *ssl, int where, int result);
/* Callbacks of civetweb's. */
int connection_begins(const struct mg_connection *connection, void **conn_data);
void connection_ends(const struct mg_connection *connection);
int connection_request(struct mg_connection *connection);
void connection_request_ended(const struct mg_connection *connection, int status);
int connection_refused(struct mg_connection *connection, int status, const char *text);

#endif
