/* svc-machine: PID 1 of the appliance image, its console and its commands. Exit codes: 0, 1 failed, 2 refused. */
#include "appliance/base/log.h"
#include "appliance/base/secret.h"
#include "appliance/machine/boot.h"
#include "appliance/machine/console.h"
#include "appliance/machine/control.h"
#include "appliance/machine/extension.h"
#include "appliance/machine/provision.h"
#include "appliance/machine/status.h"
#include "appliance/machine/update.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#define ASK_MS 10000

static const char usage[] = "usage: svc-machine COMMAND\n"
                            "\n"
                            "  boot                  PID 1 of the appliance image\n"
                            "  console               the operator's console, started by PID 1\n"
                            "  status [--json]       what the machine is doing\n"
                            "  update apply [FILE] | status [--json]\n"
                            "  extension add [FILE] | list [--json] | remove NAME\n"
                            "  certificate csr | import FILE | show\n"
                            "  token issue\n"
                            "  provision check FILE\n"
                            "  restart               stop the appliance and start it again\n"
                            "  reboot, poweroff\n"
                            "  --help, --version\n"
                            "\n"
                            "Exit codes: 0 fine, 1 failed, 2 refused.\n";

static int complain(const struct op *op, struct fault fault)
{
    const char *detail = op != NULL && op->note.detail[0] != '\0' ? op->note.detail : fault_row(fault.code)->title;
    (void)fprintf(stderr, "svc-machine: %s\n", detail);
    return 1;
}

static void print_status(const struct status *status)
{
    (void)printf("phase      %s\n", machine_phase_text(status->phase));
    (void)printf("version    %s%s%s\n", status->version, status->slot[0] != '\0' ? ", slot " : "", status->slot);
    (void)printf("host       %s\n", status->hostname);
    for (size_t i = 0; i < status->address_count; i++) {
        (void)printf("address    %s (%s)\n", status->addresses[i], status->interface);
    }
    (void)printf("state      %s\n", status->seal_text);
    (void)printf("boot       Secure Boot is %s\n", status->secure_boot ? "on" : "off");
    (void)printf("clock      %s, %s\n", status->time_source,
                 status->time_synchronised ? "synchronised" : "not synchronised");
    if (status->failure[0] != '\0') {
        (void)printf("failure    %s\n", status->failure);
    }
    if (status->refusal[0] != '\0') {
        (void)printf("refusal    %s\n", status->refusal);
    }
}

static int status_command(struct op *op, bool json)
{
    struct status status = { 0 };
    struct fault done = status_read(op, STATUS_FILE, &status);
    if (FAULTED(done)) {
        return complain(op, done);
    }
    if (!json) {
        print_status(&status);
        return 0;
    }
    CLEANUP(buf_free) struct buf out = BUF_INIT(STATUS_FILE_MAX);
    done = status_print(&status, &out);
    if (FAULTED(done)) {
        return complain(op, done);
    }
    (void)printf("%.*s\n", (int)out.len, (const char *)out.at);
    return 0;
}

static int ask(struct op *op, enum control_verb verb)
{
    struct fault asked = control_ask(op, CONTROL_SOCKET, verb, (struct span){ 0 }, NULL);
    return FAULTED(asked) ? complain(op, asked) : 0;
}

/* With the keys that the site's provisioning trusts; before there is one, the release keys alone. */
static int extension(struct op *op, int argc, char **argv)
{
    struct provision provision = { 0 };
    if (FAULTED(provision_load(op, PROVISION_FILE, &provision))) {
        provision = (struct provision){ 0 };
    }
    struct extension_trust trust = { .keys = provision.extension_keys.at, .count = provision.extension_keys.count };
    return extension_command(argc, argv, &trust);
}

static int dispatch(struct op *op, int argc, char **argv)
{
    const char *word = argv[0];
    bool known = false;
    if (strcmp(word, "console") == 0) {
        return console_main();
    }
    if (strcmp(word, "status") == 0) {
        return status_command(op, argc > 1 && strcmp(argv[1], "--json") == 0);
    }
    if (strcmp(word, "reboot") == 0 || strcmp(word, "poweroff") == 0 || strcmp(word, "restart") == 0) {
        return ask(op, word[0] == 'p' ? CONTROL_POWEROFF : word[2] == 'b' ? CONTROL_REBOOT : CONTROL_RESTART);
    }
    if (strcmp(word, "update") == 0) {
        return update_command(argc, argv);
    }
    if (strcmp(word, "extension") == 0) {
        return extension(op, argc, argv);
    }
    int code = console_command_line(argc, argv, &known);
    if (!known) {
        (void)fprintf(stderr, "svc-machine: '%s' is not understood; svc-machine --help lists what is\n", word);
        return 2;
    }
    return code;
}

int main(int argc, char **argv)
{
    process_undumpable();
    (void)signal(SIGPIPE, SIG_IGN);
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        (void)fputs(usage, argc < 2 ? stderr : stdout);
        return argc < 2 ? 2 : 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        (void)printf("svc-machine %s\n", SVC_VERSION);
        return 0;
    }
    if (strcmp(argv[1], "boot") == 0) {
        return machine_boot();
    }
    log_setup("svc-machine", LOG_LEVEL_INFO, LOG_FORMAT_TEXT);
    CLEANUP(op_freep) struct op *op = NULL;
    struct fault made = op_new("svc-machine", (struct tenant_id){ 0 }, ASK_MS, &op);
    return FAULTED(made) ? complain(op, made) : dispatch(op, argc - 1, argv + 1);
}
