#include "api/server/listener.h"

#include "api/server/access.h"
#include "api/server/problem.h"
#include "api/server/slots.h"
#include "api/server/sockets.h"
#include "api/server/trace.h"
#include "api/server/wire.h"
#include "appliance/base/alloc.h"
#include "appliance/base/log.h"

#include <civetweb.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdio.h>
#include <strings.h>

#define HEADER_BLOCK_MAX "16384"
#define KEEP_DRAIN_MAX   ((size_t)64 << 10) /* an unread body of this size is read away to keep the connection */
#define LINGER_MAX       ((size_t)8 << 20)  /* of a larger one so much is read, so that the sender sees the answer */
#define BODIES_IN_ARENA  4                  /* room for a body, its decoded form, and what the handler makes of it */

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

struct body_source {
    struct mg_connection *connection;
    struct worker *worker;
    bool wants_continue;
};

static void enter(struct worker *worker, enum slot_phase phase)
{
    slot_enter(worker->listener->slots, worker->slot, phase, clock_mono());
}

/* Threads */

static void *thread_begins(const struct mg_context *civet, int type)
{
    if (type != 1) {
        return NULL;
    }
    struct listener *listener = mg_get_user_data(civet);
    struct worker *worker = NULL;
    size_t body_max = (size_t)listener->core->services->config->http_body_max;
    size_t arena_max = ARENA_DEFAULT_MAX + BODIES_IN_ARENA * body_max;
    (void)pthread_setname_np(pthread_self(), listener->kind == LISTENER_PROBE ? "svc-probe" : "svc-http");
    BUG_IF(FAULTED(mem_new(1, sizeof(*worker), &worker)) || FAULTED(arena_new(arena_max, &worker->op.arena)));
    worker->listener = listener;
    worker->out.max = WIRE_HEAD_MAX + WIRE_JOIN_MAX;
    worker->slot = slots_take(listener->slots);
    BUG_IF(worker->slot == NULL);
    return worker;
}

static void thread_ends(const struct mg_context *civet, int type, void *arg)
{
    (void)civet;
    struct worker *worker = arg;
    if (type != 1 || worker == NULL) {
        return;
    }
    arena_free(worker->op.arena);
    buf_free(&worker->out);
    mem_free(worker);
}

/* Connections */

static void connection_begins(struct worker *worker, int fd)
{
    struct slots *slots = worker->listener->slots;
    mono_ns now = clock_mono();
    slot_open(slots, worker->slot, fd, now);
    if (slots_pressed(slots)) {
        (void)slots_relieve(slots, now);
    }
}

/* The first sight of a TLS connection is its handshake: from then on it can be cut. */
static void handshake(const SSL *ssl, int where, int result)
{
    (void)result;
    if ((where & SSL_CB_HANDSHAKE_START) != 0) {
        connection_begins(mg_get_thread_pointer(SSL_get_app_data(ssl)), SSL_get_fd(ssl));
    }
}

/* civetweb tells nothing of a plain connection yet: until its first request, whose header block has its own time limit,
 * it cannot be cut. */
static int plain_connection_begins(const struct mg_connection *connection, void **conn_data)
{
    (void)conn_data;
    struct worker *worker = mg_get_thread_pointer(connection);
    if (worker->listener->tls == NULL) {
        connection_begins(worker, -1);
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

static void connection_ends(const struct mg_connection *connection)
{
    struct worker *worker = mg_get_thread_pointer(connection);
    slot_close(worker->listener->slots, worker->slot);
}

/* Requests */

static struct fault read_body(void *arg, uint8_t *at, size_t len)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    struct body_source *source = arg;
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

static void message_from(const struct mg_request_info *info, struct worker *worker, struct message *message)
{
    static_assert(MESSAGE_HEADERS_MAX >= MG_MAX_HEADERS);
    *message = (struct message){ .method = info->request_method,
                                 .path = info->local_uri_raw,
                                 .query = info->query_string,
                                 .http_1_0 = strcmp(info->http_version, "1.0") == 0,
                                 .malformed = !block_is_whole(info),
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
    bool once = message != NULL && message_header_count(message, "traceparent") == 1;
    /* Without randomness there is no operation to trust either: dispatch fails on its own, the trace stays empty. */
    IGNORE(trace_begin(&worker->op, once ? message_header(message, "traceparent") : NULL));
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
           (unread && message_header(message, "Expect") != NULL) || atomic_load(&worker->listener->core->draining) ||
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

static int request_arrived(struct mg_connection *connection)
{
    struct worker *worker = mg_get_thread_pointer(connection);
    struct listener *listener = worker->listener;
    const mono_ns started = clock_mono();
    enter(worker, SLOT_HANDLING);
    const struct mg_request_info *info = mg_get_request_info(connection);
    learn_descriptor(worker, info);
    struct message message;
    message_from(info, worker, &message);
    op_begin(worker, started, &message);
    const char *expect = message_header(&message, "Expect");
    struct body_source source = { .connection = connection,
                                  .worker = worker,
                                  .wants_continue = expect != NULL && strcasecmp(expect, "100-continue") == 0 };
    message.read_body = read_body;
    message.arg = &source;

    struct response response;
    struct route_match match = { 0 };
    dispatch(listener->core, &worker->op, &message, &response, &match);

    bool close = must_close(worker, &message, &response);
    if (close) {
        mg_disable_connection_keep_alive(connection);
    }
    const struct wire_answer answer = { .response = &response,
                                        .reason = mg_get_response_code_text(connection, response.status),
                                        .head_only = strcmp(message.method, "HEAD") == 0,
                                        .keep_alive = !close && peer_keeps(&message),
                                        .tls = listener->tls != NULL };
    size_t bytes = send_answer(connection, worker, &answer);
    access_record(listener->core->services->metrics, &worker->op, &message, &response, &match, bytes, started);
    if (!message.body_read && (message.content_length > 0 || response.close)) {
        drain_body(connection, worker, response.close ? LINGER_MAX : message.content_length);
    }
    return response.status;
}

static void request_ended(const struct mg_connection *connection, int status)
{
    (void)status;
    enter(mg_get_thread_pointer(connection), SLOT_WAITING);
}

/* What civetweb refuses before there is a request: a malformed or oversized header block, another HTTP version. */
static int library_refuses(struct mg_connection *connection, int status, const char *text)
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

/* The library */

static int give_tls_context(void **ssl_ctx, void *user_data)
{
    struct listener *listener = user_data;
    if (*ssl_ctx == NULL) {
        *ssl_ctx = listener->tls;
    }
    return 1; /* made and freed by us */
}

static int library_logs(const struct mg_connection *connection, const char *message)
{
    if (connection != NULL) {
        log_write(DEBUG, "http_library", LOG_TEXT("message", message)); /* about a peer: handshakes that fail, mostly */
    } else {
        log_write(WARN, "http_library", LOG_TEXT("message", message));
    }
    return 1;
}

static void init_library(void)
{
    (void)mg_init_library(MG_FEATURES_TLS); /* for the life of the process */
}

static struct fault start_civet(struct listener *listener, const struct listener_config *config, struct buf *why)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    BUG_IF(pthread_once(&once, init_library) != 0);
    char ports[256];
    char threads[16];
    char header_ms[16];
    char keep_alive_ms[16];
    int len = snprintf(ports, sizeof(ports), "%s%s", config->address, config->tls != NULL ? "s" : "");
    REQUIRE(len > 0 && (size_t)len < sizeof(ports), CONFIG);
    (void)snprintf(threads, sizeof(threads), "%u", config->threads);
    (void)snprintf(header_ms, sizeof(header_ms), "%d", config->header_ms);
    (void)snprintf(keep_alive_ms, sizeof(keep_alive_ms), "%d", config->keep_alive_ms);
    const char *options[] = { "listening_ports",
                              ports,
                              "num_threads",
                              threads,
                              "enable_keep_alive",
                              "yes",
                              "keep_alive_timeout_ms",
                              keep_alive_ms,
                              "request_timeout_ms",
                              header_ms,
                              "tcp_nodelay",
                              "1",
                              "max_request_size",
                              HEADER_BLOCK_MAX,
                              "decode_url",
                              "no",
                              "enable_auth_domain_check",
                              "no",
                              "access_control_allow_origin",
                              "",
                              "access_control_allow_methods",
                              "",
                              "access_control_allow_headers",
                              "",
                              NULL };
    const struct mg_callbacks callbacks = { .begin_request = request_arrived,
                                            .end_request = request_ended,
                                            .log_message = library_logs,
                                            .external_ssl_ctx = give_tls_context,
                                            .connection_close = connection_ends,
                                            .http_error = library_refuses,
                                            .init_thread = thread_begins,
                                            .exit_thread = thread_ends,
                                            .init_connection = plain_connection_begins };
    char text[256] = "";
    struct mg_error_data error = { .text = text, .text_buffer_size = sizeof(text) };
    struct mg_init_data init = { .callbacks = &callbacks, .user_data = listener, .configuration_options = options };
    struct listening before;
    struct listening after;
    sockets_listening(&before);
    listener->civet = mg_start2(&init, &error);
    if (listener->civet == NULL) {
        TRY(buf_printf(why, "cannot listen on %s: %s", config->address, text));
        return FAULT(IO);
    }
    sockets_listening(&after);
    sockets_difference(&before, &after, &listener->sockets);
    return OK;
}

struct fault listener_open(const struct listener_config *config, struct buf *why, struct listener **ret_listener)
{
    struct listener *made = NULL;
    BUG_IF(config->spare >= config->threads);
    TRY(mem_new(1, sizeof(*made), &made));
    made->core = config->core;
    made->kind = config->kind;
    made->tls = config->tls;
    made->admission.max = config->threads - config->spare;
    made->accepting = true;
    struct fault fault = slots_new(config->threads, config->spare, &made->slots);
    if (!FAULTED(fault)) {
        if (made->tls != NULL) {
            SSL_CTX_set_info_callback(made->tls, handshake);
        }
        fault = start_civet(made, config, why);
    }
    if (FAULTED(fault)) {
        made->tls = NULL; /* still the caller's */
        listener_close(made);
        return fault;
    }
    *ret_listener = made;
    return OK;
}

int listener_port(const struct listener *listener)
{
    struct mg_server_port port[1];
    return mg_get_server_ports(listener->civet, 1, port) == 1 ? port[0].port : 0;
}

void listener_relieve(struct listener *listener)
{
    (void)slots_relieve(listener->slots, clock_mono());
}

void listener_stop_accepting(struct listener *listener)
{
    if (!listener->accepting) {
        return;
    }
    listener->accepting = false;
    struct fault fault = sockets_stop_listening(&listener->sockets);
    if (FAULTED(fault)) {
        log_fault(LOG_LEVEL_WARN, "stop_listening_failed", NULL, fault);
    }
    (void)slots_cut_waiting(listener->slots);
}

size_t listener_busy(struct listener *listener)
{
    return slots_busy(listener->slots);
}

void listener_close(struct listener *listener)
{
    if (listener == NULL) {
        return;
    }
    if (listener->civet != NULL) {
        listener_stop_accepting(listener);
        sockets_wake(&listener->sockets);
        mg_stop(listener->civet);
    }
    slots_free(listener->slots);
    SSL_CTX_free(listener->tls);
    mem_free(listener);
}
