#include "appliance/base/file.h"
#include "appliance/machine/console_run.h"
#include "appliance/machine/console_session.h"
#include "appliance/machine/control.h"
#include "appliance/machine/provision_store.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define SHORT_MS  30000
#define LONG_MS   (30 * 60 * 1000) /* an update on a slow disk */
#define ANSWER_MS (5 * 60 * 1000)  /* for an operator */
#define LOG_BYTES 8192
#define LOG_MORE  16 /* `log all`: times LOG_BYTES */

/* ---- what commands share ---- */

void console_complain(struct terminal *terminal, const char *what, const struct op *op, struct fault fault)
{
    bool told = op != NULL && op->note.set && op->note.detail[0] != '\0';
    if (fault.code != FAULT_CANCELLED && fault.code != FAULT_DEADLINE) {
        terminal_say(terminal, "%s: %s", what, told ? op->note.detail : fault_row(fault.code)->title);
    } else {
        terminal_say(terminal, "%s: stopped", what);
    }
}

static struct op *op_for(struct terminal *terminal, int ms)
{
    struct op *op = NULL;
    if (FAULTED(op_new("console", (struct tenant_id){ 0 }, ms, &op))) {
        terminal_say(terminal, "out of memory; try again");
    }
    return op;
}

static void run(struct terminal *terminal, const char *const *argv, int ms)
{
    CLEANUP(op_freep) struct op *op = op_for(terminal, ms);
    int code = 0;
    if (op == NULL) {
        return;
    }
    struct fault done = console_run(op, argv, terminal, 1, &code);
    if (FAULTED(done)) {
        console_complain(terminal, argv[1], op, done);
    } else if (code != 0) {
        terminal_say(terminal, "(ended with code %d)", code);
    }
}

static void ask_machine(struct terminal *terminal, enum control_verb verb)
{
    CLEANUP(op_freep) struct op *op = op_for(terminal, SHORT_MS);
    struct fault done = op != NULL ? control_ask(op, CONTROL_SOCKET, verb, (struct span){ 0 }, NULL) : OK;
    if (FAULTED(done)) {
        console_complain(terminal, control_verb_text(verb), op, done);
    }
}

static void ask_machine_if(struct terminal *terminal, enum control_verb verb, const char *question)
{
    CLEANUP(op_freep) struct op *op = op_for(terminal, ANSWER_MS);
    bool yes = false;
    if (op != NULL && !FAULTED(terminal_confirm(op, terminal, question, &yes)) && yes) {
        ask_machine(terminal, verb);
    }
}

/* ---- the commands ---- */

static void do_status(struct console *console, struct terminal *terminal, const char *const *args)
{
    (void)args;
    console_show_status(console, terminal);
}

static void do_doctor(struct console *console, struct terminal *terminal, const char *const *args)
{
    (void)console;
    (void)args;
    const char *const argv[] = { APPLIANCE_PROGRAM, "hsm", "doctor", "--config", PRODUCT_CONFIG, NULL };
    run(terminal, argv, LONG_MS);
}

static void do_update_apply(struct console *console, struct terminal *terminal, const char *const *args)
{
    (void)console;
    (void)args;
    const char *const argv[] = { MACHINE_PROGRAM, "update", "apply", NULL };
    run(terminal, argv, LONG_MS);
}

static void do_update_status(struct console *console, struct terminal *terminal, const char *const *args)
{
    (void)console;
    (void)args;
    const char *const argv[] = { MACHINE_PROGRAM, "update", "status", NULL };
    run(terminal, argv, SHORT_MS);
}

static void do_extension(struct console *console, struct terminal *terminal, const char *const *args)
{
    (void)console;
    const char *const argv[] = { MACHINE_PROGRAM, "extension", args[1], args[2], NULL };
    if (args[2] != NULL && args[2][0] == '-') {
        terminal_say(terminal, "'%.40s' is no name", args[2]);
        return;
    }
    run(terminal, argv, LONG_MS);
}

static void do_extension_remove(struct console *console, struct terminal *terminal, const char *const *args)
{
    CLEANUP(op_freep) struct op *op = op_for(terminal, ANSWER_MS);
    bool yes = false;
    if (op != NULL && !FAULTED(terminal_confirm(op, terminal, "The extension is gone after the next start.", &yes)) &&
        yes) {
        do_extension(console, terminal, args);
    }
}

static void do_provision(struct console *console, struct terminal *terminal, const char *const *args)
{
    (void)args;
    console_provision(console, terminal);
}

static void do_provision_apply(struct console *console, struct terminal *terminal, const char *const *args)
{
    (void)args;
    console_provision_apply(console, terminal);
}

static void do_token(struct console *console, struct terminal *terminal, const char *const *args)
{
    (void)args;
    console_token_issue(console, terminal);
}

static void do_certificate_csr(struct console *console, struct terminal *terminal, const char *const *args)
{
    (void)console;
    (void)args;
    const char *const argv[] = { MACHINE_PROGRAM, "certificate", "csr", NULL };
    run(terminal, argv, ANSWER_MS);
}

static void do_certificate_show(struct console *console, struct terminal *terminal, const char *const *args)
{
    (void)console;
    (void)args;
    const char *const argv[] = { MACHINE_PROGRAM, "certificate", "show", NULL };
    run(terminal, argv, SHORT_MS);
}

static void do_certificate_import(struct console *console, struct terminal *terminal, const char *const *args)
{
    console_import(console, terminal, args[2]);
}

static void do_written(struct console *console, struct terminal *terminal, const char *const *args)
{
    (void)args;
    if (!console->recovery_waits) {
        terminal_say(terminal, "there is nothing to write down");
        return;
    }
    ask_machine(terminal, CONTROL_RECOVERY_SHOWN);
    console->recovery_waits = false;
}

static void do_restart(struct console *console, struct terminal *terminal, const char *const *args)
{
    (void)console;
    (void)args;
    ask_machine_if(terminal, CONTROL_RESTART, "The appliance is stopped in order and started again.");
}

static void do_reboot(struct console *console, struct terminal *terminal, const char *const *args)
{
    (void)console;
    (void)args;
    ask_machine_if(terminal, CONTROL_REBOOT, "The machine is stopped in order and started again.");
}

static void do_poweroff(struct console *console, struct terminal *terminal, const char *const *args)
{
    (void)console;
    (void)args;
    ask_machine_if(terminal, CONTROL_POWEROFF, "The machine is stopped in order and switched off.");
}

static void do_network(struct console *console, struct terminal *terminal, const char *const *args)
{
    (void)args;
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0) {
        terminal_say(terminal, "the kernel does not tell");
        return;
    }
    for (const struct ifaddrs *one = all; one != NULL; one = one->ifa_next) {
        char text[INET6_ADDRSTRLEN] = "no address";
        int family = one->ifa_addr != NULL ? one->ifa_addr->sa_family : 0;
        const void *at = family == AF_INET    ? (const void *)&((const struct sockaddr_in *)one->ifa_addr)->sin_addr
                         : family == AF_INET6 ? (const void *)&((const struct sockaddr_in6 *)one->ifa_addr)->sin6_addr
                                              : NULL;
        if (at != NULL && inet_ntop(family, at, text, sizeof(text)) != NULL) {
            terminal_say(terminal, "  %-10s %-40s %s", one->ifa_name, text,
                         (one->ifa_flags & IFF_RUNNING) != 0 ? "link" : "no link");
        }
    }
    freeifaddrs(all);
    const struct provision_texts *lists[] = { &console->provision.network.gateways, &console->provision.network.dns,
                                              &console->provision.time.servers };
    static const char *const names[] = { "gateway", "dns", "time" };
    for (size_t i = 0; console->has_provision && i < COUNT_OF(lists); i++) {
        for (size_t k = 0; k < lists[i]->count; k++) {
            terminal_say(terminal, "  %-10s %s", names[i], lists[i]->at[k]);
        }
    }
}

static void do_log(struct console *console, struct terminal *terminal, const char *const *args)
{
    (void)console;
    off_t most = (off_t)LOG_BYTES * (args[1] != NULL ? LOG_MORE : 1);
    CLEANUP(fd_closep) int fd = open(MACHINE_LOG_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat about;
    if (fd < 0 || fstat(fd, &about) != 0) {
        terminal_say(terminal, "there is no log yet");
        return;
    }
    off_t from = about.st_size > most ? about.st_size - most : 0;
    bool inside = from > 0; /* of a line, whose rest is left out */
    uint8_t chunk[4096];
    for (ssize_t got = 0; (got = pread(fd, chunk, sizeof(chunk), from)) > 0 && from < about.st_size; from += got) {
        struct span shown = span_of(chunk, (size_t)got);
        if (inside) {
            const uint8_t *end = memchr(chunk, '\n', (size_t)got);
            shown = end != NULL ? span_of(end + 1, (size_t)(chunk + got - end - 1)) : (struct span){ 0 };
            inside = end == NULL;
        }
        terminal_put(terminal, shown);
    }
}

/* ---- the list ---- */

enum {
    IN_PROVISIONING = 1,
    IN_LOCKED = 2,
    IN_RUNNING = 4,
    IN_MAINTENANCE = 8,
    ANYWHEN = 15,
    IN_OPEN_MAINTENANCE = 16, /* the state is open, and what does not start can be mended */
    WHEN_OPEN = IN_RUNNING | IN_OPEN_MAINTENANCE,
};
struct command {
    const char *words; /* separated by blanks; a word in capitals takes any */
    const char *doc;
    unsigned when;
    void (*work)(struct console *console, struct terminal *terminal, const char *const *args);
};
static void do_help(struct console *console, struct terminal *terminal, const char *const *args);
static const struct command commands[] = {
    { "help", "this list", ANYWHEN, do_help },
    { "status", "the status screen", ANYWHEN, do_status },
    { "provision", "answer the questions of first boot here", IN_PROVISIONING, do_provision },
    { "provision apply", "take a changed " PROVISION_NAME " from the medium labelled " PROVISION_LABEL, WHEN_OPEN,
      do_provision_apply },
    { "written", "the recovery key is written down: it is not shown again", IN_RUNNING | IN_MAINTENANCE, do_written },
    { "hsm doctor", "examine the token that holds the keys", WHEN_OPEN, do_doctor },
    { "token issue", "a new admin token, shown once", IN_RUNNING, do_token },
    { "certificate show", "ca.pem, tsa-root.pem and the listener's fingerprint", WHEN_OPEN, do_certificate_show },
    { "certificate csr", "a certificate request for the HTTPS listener", WHEN_OPEN, do_certificate_csr },
    { "certificate import", "paste the certificate chain", WHEN_OPEN, do_certificate_import },
    { "certificate import medium", "tls.crt of the medium labelled " PROVISION_LABEL, WHEN_OPEN,
      do_certificate_import },
    { "update apply", "the update on the medium labelled SVC-UPDATE", IN_RUNNING | IN_MAINTENANCE, do_update_apply },
    { "update status", "which versions there are", IN_RUNNING | IN_MAINTENANCE, do_update_status },
    { "extension list", "extension images", WHEN_OPEN, do_extension },
    { "extension add", "the extension on the medium labelled SVC-UPDATE", WHEN_OPEN, do_extension },
    { "extension remove NAME", "remove it", WHEN_OPEN, do_extension_remove },
    { "network show", "interfaces and addresses", ANYWHEN, do_network },
    { "log", "the last lines of the log", ANYWHEN, do_log },
    { "log all", "more of them", ANYWHEN, do_log },
    { "restart", "stop the appliance and start it again", WHEN_OPEN, do_restart },
    { "reboot", "start the machine again", ANYWHEN, do_reboot },
    { "poweroff", "switch the machine off", ANYWHEN, do_poweroff },
};

static unsigned now(const struct console *console)
{
    switch (console->phase) {
    case PHASE_PROVISIONING:
        return IN_PROVISIONING;
    case PHASE_LOCKED:
        return IN_LOCKED;
    case PHASE_OPENING:
    case PHASE_RUNNING:
    case PHASE_READY:
        return IN_RUNNING;
    case PHASE_MAINTENANCE:
        return IN_MAINTENANCE | (console->has_provision ? IN_OPEN_MAINTENANCE : 0);
    case PHASE_STARTING:
    case PHASE_STOPPING:
        break;
    }
    return 0;
}

static void do_help(struct console *console, struct terminal *terminal, const char *const *args)
{
    (void)args;
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        if (commands[i].when == ANYWHEN || (commands[i].when & now(console)) != 0) {
            terminal_say(terminal, "  %-28s %s", commands[i].words, commands[i].doc);
        }
    }
}

/* Splits in place. More words than any command has: 0. */
static size_t split(char *line, const char *words[CONSOLE_WORDS_MAX])
{
    size_t count = 0;
    for (char *at = line + strspn(line, " \t"); *at != '\0'; at += strspn(at, " \t")) {
        if (count == CONSOLE_WORDS_MAX - 1) {
            return 0;
        }
        words[count++] = at;
        at += strcspn(at, " \t");
        if (*at != '\0') {
            *at++ = '\0';
        }
    }
    return count;
}

static bool fits(const struct command *command, const char *const *words, size_t count)
{
    const char *pattern = command->words;
    for (size_t i = 0; i < count; i++) {
        size_t len = strcspn(pattern, " ");
        bool any = pattern[0] >= 'A' && pattern[0] <= 'Z';
        if (len == 0 || (!any && (strlen(words[i]) != len || memcmp(pattern, words[i], len) != 0))) {
            return false;
        }
        pattern += len + (pattern[len] == ' ');
    }
    return *pattern == '\0';
}

static const struct command *find(const char *const *words, size_t count)
{
    for (size_t i = 0; i < COUNT_OF(commands); i++) {
        if (fits(&commands[i], words, count)) {
            return &commands[i];
        }
    }
    return NULL;
}

bool console_is_command(const char *line)
{
    char copy[TERMINAL_LINE_MAX + 1];
    const char *words[CONSOLE_WORDS_MAX] = { 0 };
    (void)snprintf(copy, sizeof(copy), "%s", line);
    size_t count = split(copy, words);
    bool known = count > 0 && find(words, count) != NULL;
    secret_wipe(copy, sizeof(copy));
    return known;
}

void console_take_line(struct console *console, struct terminal *terminal, const char *line)
{
    char copy[TERMINAL_LINE_MAX + 1];
    const char *words[CONSOLE_WORDS_MAX] = { 0 };
    (void)snprintf(copy, sizeof(copy), "%s", line);
    size_t count = split(copy, words);
    const struct command *command = count > 0 ? find(words, count) : NULL;
    if (command == NULL && console->phase == PHASE_LOCKED) {
        console_unlock(console, terminal, line);
    } else if (line[0] == '\0') {
        /* Enter alone: just the prompt again. */
    } else if (command == NULL) {
        terminal_say(terminal, "not understood; help lists the commands");
    } else if (command->when != ANYWHEN && (command->when & now(console)) == 0) {
        terminal_say(terminal, command->work == do_provision
                                   ? "this machine is provisioned; docs/first-boot.md tells how to begin anew"
                                   : "not now: the machine is not in a state for that; status tells");
    } else {
        command->work(console, terminal, words);
    }
    secret_wipe(copy, sizeof(copy));
}
