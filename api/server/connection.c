#include "api/server/connection.h"

#include "api/server/access.h"
#include "api/server/problem.h"
#include "api/server/trace.h"
#include "api/server/wire.h"
#include "appliance/base/secret.h"

#include <openssl/ssl.h>
#include <strings.h>

#define KEEP_DRAIN_MAX ((size_t)64 << 10) /* an unread body of this size is read away to keep the connection */
#define LINGER_MAX     ((size_t)8 << 20)  /* of a larger one so much is read, so that the sender sees the answer */

static void enter(struct worker *worker, enum slot_phase phase)
{
    slot_enter(worker->listener->slots, worker->slot, phase, clock_mono());
}

/* Connections */

static void begin(struct worker *worker, int fd)
{
    struct slots *slots = worker->listener->slots;
    mono_ns now = clock_mono();
    slot_open(slots, worker->slot, fd, now);
    if (slots_pressed(slots)) {
        (void)slots_relieve(slots, now);
    }
}

/* The first sight of a TLS connection is its handshake: from then on it can be cut. */
void connection_handshake(const SSL *ssl, int where, int result)
{
    (void)result;
    if ((where & SSL_CB_HANDSHAKE_START) != 0) {
        begin(mg_get_thread_pointer(SSL_get_app_data(ssl)), SSL_get_fd(ssl));
    }
}

/* civetweb tells nothing of a plain connection yet: until its first request, whose header block has its own time limit,
 * it cannot be cut. */
int connection_begins(const struct mg_connection *connection, void **conn_data)
{
    (void)conn_data;
    struct worker *worker = mg_get_thread_pointer(connection);
    if (worker->listener->tls == NULL) {
        begin(worker, -1);
    }
    return 0;
}

static void learn_descriptor(struct worker *worker, const struct mg_request_info *info)
{
    if (!slot_knows_fd(worker->listener->slots, worker->slot)) {
        int fd = sockets_connection(info->remote_addr, info->remote_port, info->server_port);
        slot_learn_fd(worker->listener->slots, worker->slot, fd);
    }
}

void connection_ends(const struct mg_connection *connection)
{
    struct worker *worker = mg_get_thread_pointer(connection);
    slot_close(worker->listener->slots, worker->slot);
}

/* Requests */

static struct fault read_body(void *arg, uint8_t *at, size_t len)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct exchange_io *source = arg;
    enter(source->worker, SLOT_BODY);
    if (source->wants_continue) {
        REQUIRE(mg_write(source->connection, go_on, sizeof(go_on) - 1) == (int)sizeof(go_on) - 1, IO);
    }
    size_t got = 0;
    while (got < len) {
        int read = mg_read(source->connection, at + got, len - got);
        REQUIRE(read > 0, IO);
        got += (size_t)read;
    }
    enter(source->worker, SLOT_HANDLING);
    return OK;
}

/* civetweb ends the header block at the first line that it does not understand, and says nothing. What follows the last
 * field must be the empty line; civetweb has put a NUL over the block's last byte, and over each line's end. */
static bool block_is_whole(const struct mg_request_info *info)
{
    if (info->num_headers == 0 || info->num_headers >= MG_MAX_HEADERS) {
        return false;
    }
    const char *end = info->http_headers[info->num_headers - 1].value;
    end += strlen(end) + 1;
    if (*end == 0) {
        end++; /* the line ended with CR LF */
    }
    return end[0] == '\r' && end[1] == 0;
}

/* What the check of a load balancer may send: a request line alone. Where it ends cannot be seen when civetweb gives no
 * field, and need not be: nothing here depends on one, and the connection ends with the answer. */
static bool is_bare_probe(const struct mg_request_info *info, const struct worker *worker)
{
    return worker->listener->kind == LISTENER_PROBE && info->num_headers == 0 &&
           strcmp(info->http_version, "1.0") == 0 && strcmp(info->request_method, "GET") == 0;
}

static void message_from(const struct mg_request_info *info, struct worker *worker, struct message *message)
{
    static_assert(MESSAGE_HEADERS_MAX >= MG_MAX_HEADERS);
    *message = (struct message){ .method = info->request_method,
                                 .path = info->local_uri_raw,
                                 .query = info->query_string,
                                 .http_1_0 = strcmp(info->http_version, "1.0") == 0,
                                 .malformed = !block_is_whole(info) && !is_bare_probe(info, worker),
                                 .listener = worker->listener->kind,
                                 .admission = &worker->listener->admission };
    for (int i = 0; i < info->num_headers; i++) {
        message->headers[message->header_count++] =
            (struct http_header){ info->http_headers[i].name, info->http_headers[i].value };
    }
}

static void op_begin(struct worker *worker, mono_ns started, const struct message *message)
{
    struct arena *arena = worker->op.arena;
    BUG_IF(worker->op.tx_open != 0);
    arena_clear(arena);
    secret_wipe(&worker->op, sizeof(worker->op));
    worker->op =
        (struct op){ .arena = arena, .deadline = started + worker->listener->core->services->config->http_deadline };
    /* A generator that fails is the module's error state: nothing may go on, the gate decides at the next start. */
    BUG_IF(FAULTED(trace_begin(&worker->op, message)));
}

/* The caller's credentials have been looked at. civetweb keeps the header block until the connection's next request;
 * who gets hold of our memory shall not find them there. */
static void forget_credentials(const struct message *message)
{
    for (size_t i = 0; i < message->header_count; i++) {
        if (strcasecmp(message->headers[i].name, "Authorization") == 0) {
            char *value = (char *)(uintptr_t)message->headers[i].value; /* in civetweb's own buffer */
            secret_wipe(value, strlen(value));
        }
    }
}

/* Sends; returns the number of bytes that left. */
static size_t send_answer(struct mg_connection *connection, struct worker *worker, const struct wire_answer *answer)
{
    struct span rest = { 0 };
    enter(worker, SLOT_WRITING);
    buf_clear(&worker->out);
    if (FAULTED(wire_print(&worker->op, answer, &worker->out, &rest))) {
        mg_disable_connection_keep_alive(connection);
        return 0;
    }
    int head = mg_write(connection, worker->out.at, worker->out.len);
    int tail = 0;
    if (rest.len > 0 && head == (int)worker->out.len) {
        tail = mg_write(connection, rest.at, rest.len);
    }
    if (head != (int)worker->out.len || (size_t)tail != rest.len) {
        mg_disable_connection_keep_alive(connection);
    }
    buf_clear(&worker->out); /* wipes: an answer may have shown a token */
    return (head > 0 ? (size_t)head : 0) + (tail > 0 ? (size_t)tail : 0);
}

/* Reads away what was not wanted, so that the sender gets to see the answer; what is too much ends the connection. */
static void drain_body(struct mg_connection *connection, struct worker *worker, size_t length)
{
    uint8_t sink[4096];
    size_t read = 0;
    enter(worker, SLOT_LINGERING);
    while (read < length && read < LINGER_MAX) {
        int got = mg_read(connection, sink, sizeof(sink));
        if (got <= 0) {
            break;
        }
        read += (size_t)got;
    }
    if (read < length) {
        mg_disable_connection_keep_alive(connection);
    }
}

static bool must_close(const struct worker *worker, const struct message *message, const struct response *response)
{
    bool unread = message->content_length > 0 && !message->body_read;
    return response->close || (unread && message->content_length > KEEP_DRAIN_MAX) ||
           (unread && message_header(message, "Expect") != NULL) || atomic_load(&worker->listener->core->leaving) ||
           slots_pressed(worker->listener->slots);
}

/* As civetweb decides it, so that the answer's Connection header tells the truth. */
static bool peer_keeps(const struct message *message)
{
    const char *connection = message_header(message, "Connection");
    if (connection == NULL) {
        return !message->http_1_0;
    }
    return strcasestr(connection, "keep-alive") != NULL;
}

bool connection_keeps(struct exchange_io *io, const struct response *response)
{
    if (must_close(io->worker, io->message, response)) {
        mg_disable_connection_keep_alive(io->connection);
        return false;
    }
    return peer_keeps(io->message);
}

int connection_request(struct mg_connection *connection)
{
    struct worker *worker = mg_get_thread_pointer(connection);
    struct listener *listener = worker->listener;
    const mono_ns started = clock_mono();
    if (!slot_begin(listener->slots, worker->slot, started)) {
        mg_disable_connection_keep_alive(connection);
        return 503; /* nobody reads it: the socket was shut down while this request was on its way */
    }
    const struct mg_request_info *info = mg_get_request_info(connection);
    learn_descriptor(worker, info);
    struct message message;
    message_from(info, worker, &message);
    op_begin(worker, started, &message);
    const char *expect = message_header(&message, "Expect");
    struct exchange_io io = { .connection = connection,
                              .worker = worker,
                              .message = &message,
                              .wants_continue = expect != NULL && strcasecmp(expect, "100-continue") == 0 };
    message.read_body = read_body;
    message.stream = &stream_in_chunks;
    message.arg = &io;

    struct response response;
    struct route_match match = { 0 };
    dispatch(listener->core, &worker->op, &message, &response, &match);
    forget_credentials(&message);

    size_t bytes = io.sent;
    stream_close(&io);
    if (!response.streams) {
        const struct wire_answer answer = { .response = &response,
                                            .reason = mg_get_response_code_text(connection, response.status),
                                            .head_only = strcmp(message.method, "HEAD") == 0,
                                            .keep_alive = connection_keeps(&io, &response),
                                            .tls = listener->tls != NULL };
        bytes = send_answer(connection, worker, &answer);
    }
    access_record(listener->core->services->metrics, &worker->op, &message, &response, &match, bytes, started);
    if (!message.body_read && !response.sent && (message.content_length > 0 || response.close)) {
        drain_body(connection, worker, response.close ? LINGER_MAX : message.content_length);
    }
    int status = response.status;
    arena_clear(worker->op.arena); /* wipes: bodies hold proofs and new tokens, and the next request may be far off */
    return status;
}

void connection_request_ended(const struct mg_connection *connection, int status)
{
    (void)status;
    enter(mg_get_thread_pointer(connection), SLOT_WAITING);
}

/* What civetweb refuses before there is a request: a malformed or oversized header block, another HTTP version. */
int connection_refused(struct mg_connection *connection, int status, const char *text)
{
    struct worker *worker = mg_get_thread_pointer(connection);
    const mono_ns started = clock_mono();
    (void)status; /* 400 also for what is too large */
    op_begin(worker, started, NULL);
    struct fault fault = op_fail(&worker->op, FAULT(BAD_ARGUMENT),
                                 "not an acceptable HTTP/1.1 request (%s): malformed, incomplete, or its header block "
                                 "is larger than %s bytes",
                                 text, HEADER_BLOCK_MAX);
    struct response response;
    response_clear(&response);
    problem_fill(&worker->op, fault, &response);
    const struct wire_answer answer = { .response = &response,
                                        .reason = mg_get_response_code_text(connection, response.status),
                                        .tls = worker->listener->tls != NULL };
    size_t bytes = send_answer(connection, worker, &answer);
    mg_disable_connection_keep_alive(connection);
    const struct message unread = { .method = "" };
    const struct route_match none = { 0 };
    access_record(worker->listener->core->services->metrics, &worker->op, &unread, &response, &none, bytes, started);
    return 0;
}
