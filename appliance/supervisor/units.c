#include "appliance/supervisor/units.h"

#include "appliance/base/file.h"
#include "appliance/stores/nats.h"
#include "appliance/stores/port.h"
#include "appliance/stores/postgres.h"
#include "appliance/stores/process.h"
#include "appliance/stores/profiles.h"
#include "appliance/stores/softhsm.h"
#include "appliance/supervisor/http.h"
#include "appliance/supervisor/signer_door.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define ARGV_MAX             64
#define FEED_CREDENTIALS_MAX 64
#define API_REST_MS          15000 /* after its requests: more than svc-api allows itself (api/drain.h) */

struct fault unit_argv(struct op *op, const struct appliance *appliance, const char *program, const char *const *words,
                       const char *const **ret_argv)
{
    const char **argv = NULL;
    size_t used = 1;
    TRY(arena_take(op->arena, ARGV_MAX, sizeof(*argv), (void *)&argv));
    TRY(arena_printf(op->arena, &argv[0], "%s/%s", appliance->config->bin_dir, program));
    for (; words != NULL && *words != NULL; words++) {
        if (used + 3 >= ARGV_MAX) {
            return op_fail(op, FAULT(TOO_LARGE), "too many arguments for %s", program);
        }
        argv[used++] = *words;
    }
    argv[used++] = "--config";
    argv[used++] = appliance->config_path;
    *ret_argv = argv;
    return OK;
}

/* ---- stores ---- */

static struct fault start_postgres(struct op *op, const struct appliance *appliance, pid_t *ret_pid)
{
    return postgres_start(op, appliance->config, ret_pid);
}

static struct fault probe_postgres(struct op *op, const struct appliance *appliance)
{
    return postgres_check(op, appliance->config);
}

static struct fault start_nats(struct op *op, const struct appliance *appliance, pid_t *ret_pid)
{
    return nats_start(op, appliance->config, ret_pid);
}

static struct fault probe_nats(struct op *op, const struct appliance *appliance)
{
    return nats_check(op, appliance->config);
}

const struct unit_row *unit_postgres(const struct config *config)
{
    /* SIGINT ends sessions and writes a checkpoint; SIGQUIT leaves recovery to the next start. */
    static const struct unit_row own = { .name = "postgres",
                                         .start = start_postgres,
                                         .probe = probe_postgres,
                                         .stop_signal = SIGINT,
                                         .force_signal = SIGQUIT,
                                         .stop_ms = 30000 };
    static const struct unit_row external = { .name = "postgres", .probe = probe_postgres };
    return postgres_embedded(config) ? &own : &external;
}

const struct unit_row *unit_nats(const struct config *config)
{
    static const struct unit_row own = { .name = "nats",
                                         .start = start_nats,
                                         .probe = probe_nats,
                                         .stop_signal = SIGTERM,
                                         .force_signal = SIGKILL,
                                         .stop_ms = 15000 };
    static const struct unit_row external = { .name = "nats", .probe = probe_nats };
    return nats_embedded(config) ? &own : &external;
}

/* ---- our programs ---- */

static struct fault start_signer(struct op *op, const struct appliance *appliance, pid_t *ret_pid)
{
    const char *env[2] = { 0 };
    const char *const *argv = NULL;
    struct confine confine;
    if (softhsm_embedded(appliance->config)) {
        TRY(softhsm_environment(op, appliance->config, &env[0]));
    }
    TRY(profile_signer(op, appliance->config, &confine));
    TRY(unit_argv(op, appliance, "svc-signer", NULL, &argv));
    signer_door_ask_anew(appliance->door);
    return process_spawn(op,
                         &(struct process_spec){ .argv = argv,
                                                 .env = env,
                                                 .user = SOFTHSM_USER,
                                                 .listener = signer_door_listener(appliance->door),
                                                 .confine = profile_fits_signer(appliance->config) ? &confine : NULL,
                                                 .locks_memory = true },
                         ret_pid);
}

static struct fault probe_signer(struct op *op, const struct appliance *appliance)
{
    return signer_door_ask(op, appliance->door);
}

static void tell_door(const struct appliance *appliance, enum unit_presence presence)
{
    if (presence == UNIT_PRESENT) {
        signer_door_open(appliance->door);
    } else {
        signer_door_shut(appliance->door, presence == UNIT_LATE);
    }
}

/* The variables that audit.feeds.allow names ("host=NAME+NAME"), as far as they are set: nothing else of ours. */
static struct fault feed_credentials(struct op *op, const struct config *config, const char *const **ret_env)
{
    const char **env = NULL;
    size_t count = 0;
    TRY(arena_take(op->arena, FEED_CREDENTIALS_MAX + 1, sizeof(*env), &env));
    for (size_t i = 0; i < config->feeds_allow.count; i++) {
        const char *names = strchr(config->feeds_allow.at[i], '=');
        while (names != NULL && names[0] != '\0') {
            const char *name = NULL;
            size_t len = strcspn(++names, "+");
            TRY(arena_text(op->arena, span_of(names, len), &name));
            names += len;
            if (getenv(name) != NULL && count < FEED_CREDENTIALS_MAX) {
                TRY(arena_printf(op->arena, &env[count++], "%s=%s", name, getenv(name)));
            }
        }
    }
    *ret_env = env;
    return OK;
}

static struct fault start_api(struct op *op, const struct appliance *appliance, pid_t *ret_pid)
{
    static const char *const words[] = { "serve", NULL };
    const char *const *argv = NULL, *const *env = NULL;
    struct confine confine;
    TRY(unit_argv(op, appliance, "svc-api", words, &argv));
    TRY(feed_credentials(op, appliance->config, &env));
    TRY(profile_api(op, appliance->config, &confine));
    return process_spawn(op, &(struct process_spec){ .argv = argv, .env = env, .user = USER_API, .confine = &confine },
                         ret_pid);
}

static struct fault probe_api(struct op *op, const struct appliance *appliance)
{
    const char *address = appliance->config->http_probe_listen;
    if (address[0] != '\0') {
        return http_ready(op, address, "/readyz");
    }
    const char *host = NULL, *port = NULL;
    CLEANUP(fd_closep) int fd = -1;
    TRY(port_split(op, appliance->config->http_listen, &host, &port));
    return port_connect(op, http_own_host(host), port, &fd);
}

const struct unit_row *unit_signer(void)
{
    static const struct unit_row row = { .name = "signer",
                                         .start = start_signer,
                                         .probe = probe_signer,
                                         .presence = tell_door,
                                         .stop_signal = SIGTERM,
                                         .force_signal = SIGKILL,
                                         .stop_ms = 10000 };
    return &row;
}

/* It ends by itself within its own limits; only one that hangs is forced. */
const struct unit_row *unit_api(const struct config *config)
{
    static struct unit_row row = {
        .name = "api", .start = start_api, .probe = probe_api, .stop_signal = SIGTERM, .force_signal = SIGKILL
    };
    row.stop_ms = (int)((config->http_drain_delay + config->http_drain) / NS_PER_MS) + API_REST_MS;
    return &row;
}
