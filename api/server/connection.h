/* The inside of listener.c, and connection.c with the callbacks that serve connections: the only files that know
 * civetweb. */
#ifndef API_SERVER_CONNECTION_H
#define API_SERVER_CONNECTION_H

#include "api/server/admission.h"
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

/* One request's way in and out; what message.h's callbacks get. */
struct exchange_io {
    struct mg_connection *connection;
    struct worker *worker;
    const struct message *message;
    bool wants_continue;
    /* stream.c */
    struct response *response; /* NULL: nothing is streamed */
    struct buf chunk;          /* what was not sent yet: head, or a chunk with its size line */
    size_t data_at;            /* where the chunk's data begins; 0 = no chunk is open */
    size_t sent;
};
/* Is the connection to be used again after this answer? civetweb is told. */
bool connection_keeps(struct exchange_io *io, const struct response *response);

/* stream.c: an answer in chunks. */
extern const struct message_stream stream_in_chunks;
/* After the request: a cut answer ends the connection. */
void stream_close(struct exchange_io *io);

/* An info callback of OpenSSL's: the first sight of a TLS connection is its handshake. */
void connection_handshake(const SSL *ssl, int where, int result);
/* Callbacks of civetweb's. */
int connection_begins(const struct mg_connection *connection, void **conn_data);
void connection_ends(const struct mg_connection *connection);
int connection_request(struct mg_connection *connection);
void connection_request_ended(const struct mg_connection *connection, int status);
int connection_refused(struct mg_connection *connection, int status, const char *text);

#endif
