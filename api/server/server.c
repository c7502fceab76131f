#include "api/server/server.h"

#include "api/server/listener.h"
#include "api/server/openapi.h"
#include "api/server/probes.h"
#include "api/server/tls.h"
#include "appliance/base/alloc.h"
#include "appliance/base/log.h"
#include "fips/fips.h"

#include <errno.h>
#include <openssl/ssl.h>
#include <pthread.h>
#include <stdio.h>

#define HEADER_MS         10000
#define KEEP_ALIVE_MS     30000 /* idle ones are cut earlier when their threads are needed */
#define PLAIN_HEADER_MS   5000
#define PROBE_THREADS     8
#define PROBE_HEADER_MS   2000
#define JANITOR_PERIOD_NS (500 * NS_PER_MS)

struct server {
    struct core core;
    struct listener *listeners[LISTENER_COUNT]; /* NULL: not configured */
    pthread_mutex_t lock;                       /* guards stopping */
    pthread_cond_t wake;
    bool stopping;
    pthread_t janitor;
    bool janitor_runs;
};

static void tick(struct server *server)
{
    mono_ns until = clock_mono() + JANITOR_PERIOD_NS;
    struct timespec at = { .tv_sec = until / NS_PER_S, .tv_nsec = until % NS_PER_S };
    int code = pthread_cond_timedwait(&server->wake, &server->lock, &at);
    BUG_IF(code != 0 && code != ETIMEDOUT);
}

static void *janitor(void *arg)
{
    struct server *server = arg;
    (void)pthread_setname_np(pthread_self(), "svc-janitor");
    BUG_IF(pthread_mutex_lock(&server->lock) != 0);
    while (!server->stopping) {
        tick(server);
        for (int kind = 0; kind < LISTENER_COUNT; kind++) {
            if (server->listeners[kind] != NULL) {
                listener_relieve(server->listeners[kind]);
            }
        }
    }
    BUG_IF(pthread_mutex_unlock(&server->lock) != 0);
    return NULL;
}

static struct fault make_core(struct core *core, const struct server_config *config, struct buf *why)
{
    core->services = config->services;
    core->features = config->features;
    core->feature_count = config->feature_count;
    core->openapi.max = OPENAPI_MAX;
    TRY(router_new(config->features, config->feature_count, why, &core->router));
    TRY(openapi_print(config->features, config->feature_count, &core->openapi));
    return probes_new(config->services, config->features, config->feature_count, &core->leaving, &core->probes);
}

static struct fault open_tls(struct server *server, struct buf *why)
{
    const struct config *config = server->core.services->config;
    char chain[512];
    char key[512];
    bool given = config->http_tls_certificate != NULL && config->http_tls_certificate[0] != 0;
    (void)snprintf(chain, sizeof(chain), "%s/api/tls.crt", config->data_dir);
    (void)snprintf(key, sizeof(key), "%s/api/tls.key", config->data_dir);
    SSL_CTX *tls = NULL;
    TRY(tls_context_new(fips_libctx(), given ? config->http_tls_certificate : chain, given ? config->http_tls_key : key,
                        why, &tls));
    unsigned threads = (unsigned)config->http_threads;
    struct listener_config wanted = { .core = &server->core,
                                      .kind = LISTENER_TLS,
                                      .address = config->http_listen,
                                      .tls = tls,
                                      .threads = threads,
                                      .spare = threads / 8 > 2 ? threads / 8 : 2,
                                      .header_ms = HEADER_MS,
                                      .keep_alive_ms = KEEP_ALIVE_MS };
    struct fault fault = listener_open(&wanted, why, &server->listeners[LISTENER_TLS]);
    if (FAULTED(fault)) {
        SSL_CTX_free(tls);
    }
    return fault;
}

static struct fault open_plain(struct server *server, enum listener_kind kind, const char *address, struct buf *why)
{
    if (address == NULL || address[0] == 0) {
        return OK;
    }
    bool probe = kind == LISTENER_PROBE;
    struct listener_config wanted = { .core = &server->core,
                                      .kind = kind,
                                      .address = address,
                                      .threads =
                                          probe ? PROBE_THREADS : (unsigned)server->core.services->config->http_threads,
                                      .spare = probe ? 2 : 4,
                                      .header_ms = probe ? PROBE_HEADER_MS : PLAIN_HEADER_MS,
                                      .keep_alive_ms = probe ? PROBE_HEADER_MS : KEEP_ALIVE_MS };
    return listener_open(&wanted, why, &server->listeners[kind]);
}

static struct fault open_all(struct server *server, const struct server_config *config, struct buf *why)
{
    const struct config *settings = config->services->config;
    TRY(make_core(&server->core, config, why));
    TRY(probes_watch(server->core.probes));
    if (!config->probes_only) {
        TRY(open_tls(server, why));
        TRY(open_plain(server, LISTENER_PLAIN, settings->http_plain_listen, why));
    }
    TRY(open_plain(server, LISTENER_PROBE, settings->http_probe_listen, why));
    REQUIRE(pthread_create(&server->janitor, NULL, janitor, server) == 0, NO_MEMORY);
    server->janitor_runs = true;
    return OK;
}

struct fault server_start(const struct server_config *config, struct buf *why, struct server **ret_server)
{
    struct server *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    BUG_IF(pthread_mutex_init(&made->lock, NULL) != 0);
    pthread_condattr_t clock;
    BUG_IF(pthread_condattr_init(&clock) != 0 || pthread_condattr_setclock(&clock, CLOCK_MONOTONIC) != 0 ||
           pthread_cond_init(&made->wake, &clock) != 0);
    (void)pthread_condattr_destroy(&clock);
    struct fault fault = open_all(made, config, why);
    if (FAULTED(fault)) {
        server_stop(made, 0);
        return fault;
    }
    log_write(INFO, "listening", LOG_TEXT("https", config->services->config->http_listen),
              LOG_TEXT("plain", config->services->config->http_plain_listen),
              LOG_TEXT("probe", config->services->config->http_probe_listen));
    *ret_server = made;
    return OK;
}

void server_leave(struct server *server)
{
    atomic_store(&server->core.leaving, true);
}

void server_stop_accepting(struct server *server)
{
    server_leave(server);
    atomic_store(&server->core.draining, true);
    for (int kind = 0; kind < LISTENER_COUNT; kind++) {
        if (kind != LISTENER_PROBE && server->listeners[kind] != NULL) {
            listener_stop_accepting(server->listeners[kind]);
        }
    }
}

static size_t busy(struct server *server)
{
    size_t busy = 0;
    for (int kind = 0; kind < LISTENER_COUNT; kind++) {
        if (kind != LISTENER_PROBE && server->listeners[kind] != NULL) {
            busy += listener_busy(server->listeners[kind]);
        }
    }
    return busy;
}

static void cut(struct server *server)
{
    for (int kind = 0; kind < LISTENER_COUNT; kind++) {
        if (kind != LISTENER_PROBE && server->listeners[kind] != NULL) {
            listener_cut(server->listeners[kind]);
        }
    }
}

/* Nobody waits for the end of a drain but the supervisor: looking now and then is fine enough. */
size_t server_drain(struct server *server, int64_t drain_ms)
{
    mono_ns until = clock_mono() + drain_ms * NS_PER_MS;
    server_stop_accepting(server);
    BUG_IF(pthread_mutex_lock(&server->lock) != 0);
    size_t left = busy(server);
    while (left > 0 && clock_mono() < until) {
        mono_ns step = clock_mono() + 20 * NS_PER_MS;
        struct timespec at = { .tv_sec = step / NS_PER_S, .tv_nsec = step % NS_PER_S };
        int code = pthread_cond_timedwait(&server->wake, &server->lock, &at);
        BUG_IF(code != 0 && code != ETIMEDOUT);
        left = busy(server);
    }
    BUG_IF(pthread_mutex_unlock(&server->lock) != 0);
    if (left > 0) {
        cut(server);
    }
    return left;
}

static void stop_janitor(struct server *server)
{
    BUG_IF(pthread_mutex_lock(&server->lock) != 0);
    server->stopping = true;
    BUG_IF(pthread_cond_broadcast(&server->wake) != 0);
    BUG_IF(pthread_mutex_unlock(&server->lock) != 0);
    if (server->janitor_runs) {
        BUG_IF(pthread_join(server->janitor, NULL) != 0);
    }
}

void server_stop(struct server *server, int drain_ms)
{
    if (server == NULL) {
        return;
    }
    (void)server_drain(server, drain_ms);
    stop_janitor(server);
    for (int kind = 0; kind < LISTENER_COUNT; kind++) {
        listener_close(server->listeners[kind]);
    }
    probes_free(server->core.probes);
    router_free(server->core.router);
    buf_free(&server->core.openapi);
    BUG_IF(pthread_cond_destroy(&server->wake) != 0 || pthread_mutex_destroy(&server->lock) != 0);
    mem_free(server);
}

int server_port(const struct server *server, enum listener_kind listener)
{
    return server->listeners[listener] != NULL ? listener_port(server->listeners[listener]) : 0;
}
