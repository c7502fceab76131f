#include "api/server/connection.h"

#include "api/server/wire.h"
#include "appliance/base/alloc.h"
#include "appliance/base/log.h"

#include <openssl/ssl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#define BODIES_IN_ARENA 4 /* room for a body, its decoded form, and what the handler makes of it */

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
    const struct sched_param none = { 0 };
    bool probe = listener->kind == LISTENER_PROBE;
    (void)pthread_setname_np(pthread_self(), probe ? "svc-probe" : "svc-http");
    if (!probe) {
        /* One that is woken takes no processor from one that works, here or in the signer: under load that spares a
         * change of process for each answer. Probes stay what they are, and are answered first. */
        (void)sched_setscheduler(0, SCHED_BATCH, &none);
    }
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
    const struct mg_callbacks callbacks = { .begin_request = connection_request,
                                            .end_request = connection_request_ended,
                                            .log_message = library_logs,
                                            .external_ssl_ctx = give_tls_context,
                                            .connection_close = connection_ends,
                                            .http_error = connection_refused,
                                            .init_thread = thread_begins,
                                            .exit_thread = thread_ends,
                                            .init_connection = connection_begins };
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
            SSL_CTX_set_info_callback(made->tls, connection_handshake);
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

void listener_cut(struct listener *listener)
{
    (void)slots_cut_all(listener->slots);
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
