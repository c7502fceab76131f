#include "api/commands.h"

#include "api/docs.h"
#include "api/feature.h"
#include "api/identity/cli.h"
#include "api/server/openapi.h"
#include "api/start.h"
#include "appliance/base/log.h"
#include "fips/fips.h"

#include <stdio.h>
#include <unistd.h>

/* One clear line on stderr; 1 = failed while running. */
static int failed(const struct buf *why, struct fault fault)
{
    (void)fprintf(stderr, "svc-api: %s: %.*s\n", fault_row(fault.code)->text,
                  why->len > 0 ? (int)why->len : (int)span_text(fault_row(fault.code)->title).len,
                  why->len > 0 ? (const char *)why->at : fault_row(fault.code)->title);
    return 1;
}

int command_migrate(const struct config *config, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    CLEANUP(buf_free) struct buf why = BUF_INIT(65536);
    struct fault fault = store_migrate(config, &why);
    return FAULTED(fault) ? failed(&why, fault) : 0;
}

int command_empty(const struct config *config, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    CLEANUP(buf_free) struct buf why = BUF_INIT(65536);
    struct fault fault = store_empty_projections(config, &why);
    return FAULTED(fault) ? failed(&why, fault) : 0;
}

int command_rebuild(const struct config *config, int argc, char **argv)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(65536);
    uint64_t messages = 0;
    bool json = argc == 2 && strcmp(argv[1], "--json") == 0;
    if (argc != 1 && !json) {
        (void)fprintf(stderr, "usage: rebuild [--json]\n");
        return 2;
    }
    mono_ns begun = clock_mono();
    struct fault fault = services_rebuild(config, &why, &messages);
    if (FAULTED(fault)) {
        return failed(&why, fault);
    }
    (void)printf(json ? "{\"messages\":%llu,\"milliseconds\":%lld}\n" : "rebuilt: %llu messages in %lld ms\n",
                 (unsigned long long)messages, (long long)((clock_mono() - begun) / NS_PER_MS));
    return 0;
}

static int with_services(const struct config *config, int argc, char **argv,
                         int (*run)(int argc, char **argv, struct services *services))
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(65536);
    struct services *services = NULL;
    struct fault fault = services_start(config, START_STORES, &why, &services);
    if (FAULTED(fault)) {
        return failed(&why, fault);
    }
    int code = run(argc, argv, services);
    services_stop(services);
    return code;
}

int command_token(const struct config *config, int argc, char **argv)
{
    return with_services(config, argc, argv, identity_command_token);
}

int command_tenant(const struct config *config, int argc, char **argv)
{
    return with_services(config, argc, argv, identity_command_tenant);
}

static int print_table(struct fault (*print)(struct buf *out))
{
    CLEANUP(buf_free) struct buf out = BUF_INIT((size_t)4 << 20);
    struct fault fault = print(&out);
    if (FAULTED(fault)) {
        return failed(&(struct buf){ 0 }, fault);
    }
    return fwrite(out.at, 1, out.len, stdout) == out.len && fflush(stdout) == 0 ? 0 : 1;
}

static struct fault print_openapi(struct buf *out)
{
    size_t count = 0;
    const struct feature *const *features = features_all(&count);
    return openapi_print(features, count, out);
}

int command_openapi(const struct config *config, int argc, char **argv)
{
    (void)config;
    (void)argc;
    (void)argv;
    return print_table(print_openapi);
}

int command_docs(const struct config *config, int argc, char **argv)
{
    (void)config;
    (void)argc;
    (void)argv;
    return print_table(docs_print);
}

int command_metrics(const struct config *config, int argc, char **argv)
{
    (void)config;
    (void)argc;
    (void)argv;
    return print_table(docs_print_metrics);
}
