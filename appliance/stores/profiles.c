#include "appliance/stores/profiles.h"

#include "appliance/stores/folder.h"
#include "appliance/stores/softhsm.h"

#include <stdlib.h>
#include <string.h>

#define PATHS_MAX 12

/* Who goes when memory ends: what is started again without a loss first. */
#define OOM_STORE  50
#define OOM_API    200
#define OOM_SIGNER 20

static const char *const system_folders[] = { "/usr", "/etc", "/lib", "/lib64", "/proc", "/sys", "/dev" };

struct paths {
    const char **at;
    size_t count, room;
};

static struct fault paths_new(struct op *op, size_t more, struct paths *ret_paths)
{
    *ret_paths = (struct paths){ .room = PATHS_MAX + more };
    return arena_take(op->arena, ret_paths->room + 1, sizeof(char *), (void *)&ret_paths->at);
}

/* Each once; a path that is not configured is none. */
static void add(struct paths *paths, const char *path)
{
    bool known = path[0] == '\0';
    for (size_t i = 0; i < paths->count; i++) {
        known = known || strcmp(paths->at[i], path) == 0;
    }
    if (!known) {
        BUG_IF(paths->count == paths->room);
        paths->at[paths->count++] = path;
    }
}

static struct fault add_below(struct op *op, struct paths *paths, const char *parent, const char *name)
{
    const char *path = NULL;
    TRY(folder_path(op, parent, name, &path));
    add(paths, path);
    return OK;
}

/* Where a test may tell a program to end (appliance/base/failpoint.h). */
static void add_failpoints(struct paths *paths)
{
#ifdef SVC_FAILPOINTS
    const char *file = getenv("SVC_FAILPOINT_FILE");
    add(paths, file != NULL ? file : "");
#else
    (void)paths;
#endif
}

/* The folders of data_dir that are others': all but those named. */
static struct fault others(struct op *op, const struct config *config, const char *own, const char *own_too,
                           const char *const **ret_hide)
{
    static const char *const names[] = { "api", "nats", "nats-client", "postgres", "signer", "softhsm" };
    struct paths hide;
    TRY(paths_new(op, 0, &hide));
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        if (strcmp(names[i], own) != 0 && (own_too == NULL || strcmp(names[i], own_too) != 0)) {
            TRY(add_below(op, &hide, config->data_dir, names[i]));
        }
    }
    *ret_hide = hide.at;
    return OK;
}

/* An address without a number in it is refused elsewhere; here it only means that the port is not known. */
static void add_port(struct confine *confine, const char *address)
{
    const char *colon = strrchr(address, ':');
    long port = colon != NULL ? strtol(colon + 1, NULL, 10) : 0;
    if (port > 0 && port <= UINT16_MAX && confine->port_count < CONFINE_PORTS_MAX) {
        confine->ports[confine->port_count++] = (uint16_t)port;
    }
}

/* Of the machine a store sees its programs and nothing of the data folder but its own. */
static struct fault store(struct op *op, const struct config *config, const char *folder, const char *program,
                          struct paths *write, struct confine *ret_confine)
{
    struct paths read, run;
    TRY(paths_new(op, 0, &read));
    TRY(paths_new(op, 0, &run));
    TRY(paths_new(op, 0, write));
    for (size_t i = 0; i < COUNT_OF(system_folders); i++) {
        add(&read, system_folders[i]);
    }
    add(&run, program);
    add(&run, "/lib64/ld-linux-x86-64.so.2");
    TRY(add_below(op, write, config->data_dir, folder));
    *ret_confine = (struct confine){
        .write = write->at, .read = read.at, .run = run.at, .flags = CONFINE_NO_NEW_CODE, .oom_score_adj = OOM_STORE
    };
    return others(op, config, folder, NULL, &ret_confine->hide);
}

/* System V memory is the machine's: by it a new server sees that an old one's children still run. */
struct fault profile_postgres(struct op *op, const struct config *config, struct confine *ret_confine)
{
    struct paths write;
    struct confine made;
    TRY(store(op, config, "postgres", "/usr/lib/postgresql/17/bin/postgres", &write, &made));
    TRY(add_below(op, &write, config->run_dir, "postgres"));
    made.flags |= CONFINE_NO_NETWORK | CONFINE_OWN_SHM;
    *ret_confine = made;
    return OK;
}

struct fault profile_nats(struct op *op, const struct config *config, struct confine *ret_confine)
{
    struct paths write;
    struct confine made;
    TRY(store(op, config, "nats", "/usr/sbin/nats-server", &write, &made));
    made.flags |= CONFINE_NO_CONNECT | CONFINE_OWN_IPC;
    made.ports[made.port_count++] = (uint16_t)config->nats_embedded_port;
    *ret_confine = made;
    return OK;
}

bool profile_fits_signer(const struct config *config)
{
    return softhsm_embedded(config) && config->tokens_file[0] == '\0';
}

/* svc-signer makes the folder itself, where it may. */
static struct fault add_journal(struct op *op, const char *journal, struct paths *write)
{
    const char *slash = strrchr(journal, '/'), *parent = NULL;
    if (path_exists(journal) || slash == NULL || slash == journal) {
        add(write, journal);
        return OK;
    }
    TRY(arena_text(op->arena, span_of(journal, (size_t)(slash - journal)), &parent));
    add(write, parent);
    return OK;
}

struct fault profile_signer(struct op *op, const struct config *config, struct confine *ret_confine)
{
    struct paths write;
    struct confine made = { .oom_score_adj = OOM_SIGNER };
    TRY(paths_new(op, config->token_folders.count, &write));
    TRY(add_below(op, &write, config->data_dir, "signer"));
    TRY(add_below(op, &write, config->data_dir, "softhsm"));
    TRY(add_journal(op, config->signer_journal, &write));
    for (size_t i = 0; i < config->token_folders.count; i++) {
        add(&write, config->token_folders.at[i]);
    }
    add_failpoints(&write);
    made.write = write.at;
    made.flags = CONFINE_NO_NEW_CODE | CONFINE_OWN_IPC;
    made.flags |= config->signer_listen[0] == '\0' ? CONFINE_NO_NETWORK : CONFINE_NO_CONNECT;
    add_port(&made, config->signer_listen);
    TRY(others(op, config, "signer", "softhsm", &made.hide));
    *ret_confine = made;
    return OK;
}

struct fault profile_api(struct op *op, const struct config *config, struct confine *ret_confine)
{
    struct paths write;
    struct confine made = { .flags = CONFINE_NO_NEW_CODE | CONFINE_OWN_IPC, .oom_score_adj = OOM_API };
    TRY(paths_new(op, 0, &write));
    TRY(add_below(op, &write, config->data_dir, "api"));
    add(&write, config->snapshots_dir);
    add(&write, config->audit_archive_dir);
    add_failpoints(&write);
    made.write = write.at;
    add_port(&made, config->http_listen);
    add_port(&made, config->http_plain_listen);
    add_port(&made, config->http_probe_listen);
    TRY(others(op, config, "api", "nats-client", &made.hide));
    *ret_confine = made;
    return OK;
}
