#include "api/commands.h"
#include "api/drain.h"
#include "api/feature.h"
#include "api/server/server.h"
#include "api/server/server_feature.h"
#include "api/server/workers.h"
#include "api/start.h"
#include "appliance/base/log.h"

#include <signal.h>
#include <stdio.h>

static int refused(const struct buf *why, struct fault fault)
{
    (void)fprintf(stderr, "svc-api: %s: %.*s\n", fault_row(fault.code)->text, (int)why->len,
                  why->len > 0 ? (const char *)why->at : "");
    return fault.code == FAULT_CONFIG || fault.code == FAULT_RESTORE_UNFINISHED ? 2 : 1;
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
    server_stop(server, 0);
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
    drain_signals_block(&stop_signals);
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
    int signal_number = drain_signal_wait(&stop_signals);
    log_write(INFO, "draining", LOG_INT("signal", signal_number));
    drain(&stop_signals, server, workers, services);
    log_write(INFO, "stopped");
    return 0;
}
