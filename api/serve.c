#include "api/commands.h"
#include "api/feature.h"
#include "api/server/server.h"
#include "api/server/server_feature.h"
#include "api/server/workers.h"
#include "api/start.h"
#include "appliance/base/log.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define DRAIN_MS 20000

/* Every thread inherits the blocked set; only this one waits for a signal. A second signal ends the process at once. */
static void block_signals(sigset_t *set)
{
    BUG_IF(sigemptyset(set) != 0 || sigaddset(set, SIGTERM) != 0 || sigaddset(set, SIGINT) != 0);
    BUG_IF(pthread_sigmask(SIG_BLOCK, set, NULL) != 0);
}

static void wait_for_stop(const sigset_t *set)
{
    int signal_number = 0;
    BUG_IF(sigwait(set, &signal_number) != 0);
    log_write(INFO, "draining", LOG_INT("signal", signal_number));
    BUG_IF(pthread_sigmask(SIG_UNBLOCK, set, NULL) != 0);
}

static int refused(const struct buf *why, struct fault fault)
{
    (void)fprintf(stderr, "svc-api: %s: %.*s\n", fault_row(fault.code)->text, (int)why->len,
                  why->len > 0 ? (const char *)why->at : "");
    return fault.code == FAULT_CONFIG ? 2 : 1;
}

/* A log that cannot be trusted is not served from, and not written to. /readyz says so for as long as it is so. */
static int look_until(const sigset_t *set, struct services *services)
{
    struct projector_state state = { 0 };
    const struct timespec look = { .tv_sec = 1 };
    int signal_number = -1;
    while (!state.log_trusted && signal_number < 0) {
        signal_number = sigtimedwait(set, NULL, &look);
        projector_state(services->projector, &state);
    }
    log_write(INFO, "looked", LOG_INT("signal", signal_number));
    return signal_number < 0 ? 1 : 0; /* 1: a new start serves */
}

static int look(const struct config *config, const sigset_t *set)
{
    static const struct feature *const probes[] = { &server_feature };
    CLEANUP(buf_free) struct buf why = BUF_INIT(65536);
    struct services *services = NULL;
    struct server *server = NULL;
    struct fault fault = services_start(config, START_LOOKING, &why, &services);
    if (FAULTED(fault)) {
        return refused(&why, fault);
    }
    const struct server_config server_config = {
        .services = services, .features = probes, .feature_count = COUNT_OF(probes), .probes_only = true
    };
    fault = server_start(&server_config, &why, &server);
    int code = FAULTED(fault) ? refused(&why, fault) : look_until(set, services);
    server_stop(server, DRAIN_MS);
    services_stop(services);
    return code;
}

int command_serve(const struct config *config, int argc, char **argv)
{
    (void)argv;
    if (argc > 1) {
        (void)fprintf(stderr, "svc-api: serve takes no arguments but --config FILE\n");
        return 2;
    }
    sigset_t stop_signals;
    block_signals(&stop_signals);
    CLEANUP(buf_free) struct buf why = BUF_INIT(65536);
    struct services *services = NULL;
    struct fault fault = services_start(config, START_SERVING, &why, &services);
    if (FAULTED(fault)) {
        int code = refused(&why, fault);
        return fault.code == FAULT_LOG_UNTRUSTED && config->http_probe_listen[0] != '\0' ? look(config, &stop_signals)
                                                                                         : code;
    }
    struct server *server = NULL;
    struct server_config server_config = { .services = services };
    server_config.features = features_all(&server_config.feature_count);
    struct workers *workers = NULL;
    fault = workers_start(services, server_config.features, server_config.feature_count, &workers);
    if (!FAULTED(fault)) {
        fault = server_start(&server_config, &why, &server);
    }
    if (FAULTED(fault)) {
        workers_stop(workers);
        services_stop(services);
        return refused(&why, fault);
    }
    log_write(INFO, "serving", LOG_TEXT("listen", config->http_listen), LOG_TEXT("version", SVC_VERSION));
    wait_for_stop(&stop_signals);
    server_stop_accepting(server);
    server_stop(server, DRAIN_MS); /* requests in hand are answered first: they wait for their own outbox rows */
    workers_stop(workers);
    services_stop(services);
    log_write(INFO, "stopped");
    return 0;
}
