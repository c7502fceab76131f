#include "appliance/machine/boot.h"

#include "appliance/base/file.h"
#include "appliance/base/log.h"
#include "appliance/machine/boot_facts.h"
#include "appliance/machine/clock.h"
#include "appliance/machine/extension.h"
#include "appliance/machine/machine.h"
#include "appliance/machine/modules.h"
#include "appliance/machine/mounts.h"
#include "appliance/machine/network.h"
#include "appliance/machine/service.h"
#include "appliance/machine/sysctl.h"
#include "appliance/machine/update.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define OP_LIMIT_MS      60000
#define LINK_LIMIT_MS    20000
#define CLOCK_WAIT_MS    15000
#define EXTENSIONS_MS    300000
#define KEEP_MS          900000 /* copying a database */
#define CHECK_MS         60000
#define STOP_MS          150000
#define PAUSE_REBOOT_MS  30000 /* so that a person can read the line */
#define FACT_MAX         16384
#define TRIAL_DEFAULT_S  600
#define TRIAL_LEAST_S    10
#define TRIAL_MOST_S     7200
#define SECURE_BOOT_FILE "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"

/* No device asks for these, and something of ours does. Built in, or not in this kernel, is fine. */
static const char *const MODULES[] = {
    "dm_mod",        "dm_verity", "dm_crypt", "loop",  "squashfs", "ext4",    "vfat", "nls_cp437",   "nls_ascii",
    "nls_iso8859-1", "isofs",     "button",   "evdev", "efivarfs", "ptp_kvm", "xts",  "aesni_intel", "fs-iso9660"
};

/* ---- the ground ---- */

/* stdout and stderr of everything that we start go to the log, and ours too; lines for people have their own way. */
static void open_log(struct machine *machine)
{
    machine->console = open("/dev/console", O_WRONLY | O_CLOEXEC | O_NOCTTY);
    CLEANUP(fd_closep) int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
    CLEANUP(fd_closep) int log = open(MACHINE_LOG_FILE, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (nothing >= 0) {
        (void)dup2(nothing, STDIN_FILENO);
    }
    if (log >= 0) {
        (void)dup2(log, STDOUT_FILENO);
        (void)dup2(log, STDERR_FILENO);
    }
    log_setup("svc-machine", LOG_LEVEL_INFO, LOG_FORMAT_JSON);
}

static struct fault open_signals(struct op *op, struct machine *machine)
{
    sigset_t set;
    sigemptyset(&set);
    static const int taken[] = { SIGCHLD, SIGTERM, SIGINT, SIGPWR, SIGHUP, SIGUSR1, SIGUSR2 };
    for (size_t i = 0; i < COUNT_OF(taken); i++) {
        sigaddset(&set, taken[i]);
    }
    (void)sigprocmask(SIG_BLOCK, &set, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    machine->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (machine->signals < 0) {
        return op_fail(op, FAULT(IO), "no signals can be taken: %s", strerrordesc_np(errno));
    }
    return OK;
}

static struct fault read_facts(struct machine *machine)
{
    struct op *op = machine_op(machine, OP_LIMIT_MS);
    CLEANUP(buf_free) struct buf release = BUF_INIT(FACT_MAX);
    CLEANUP(buf_free) struct buf variable = BUF_INIT(FACT_MAX);
    CLEANUP(buf_free) struct buf line = BUF_INIT(FACT_MAX);
    IGNORE(file_read("/usr/lib/os-release", &release));
    TRY(facts_version(op, buf_span(&release), &machine->status.version));
    machine->status.secure_boot =
        !FAULTED(file_read(SECURE_BOOT_FILE, &variable)) && facts_secure_boot(buf_span(&variable));
    IGNORE(file_read("/proc/cmdline", &line));
    int64_t trial_s = facts_number(buf_span(&line), "svc.trial", TRIAL_LEAST_S, TRIAL_MOST_S, TRIAL_DEFAULT_S);
    machine->trial_ns = trial_s * NS_PER_S;
    return OK;
}

/* Is this version on trial? Profile and slot, too. Without an answer it is not: nothing can be kept or given up. */
static void read_update(struct machine *machine)
{
    struct op *op = machine_op(machine, OP_LIMIT_MS);
    struct update_state state = { 0 };
    struct fault told = update_read_state(op, &state);
    if (FAULTED(told)) {
        log_fault(LOG_LEVEL_WARN, "update_state", op, told);
        return;
    }
    IGNORE(arena_text(op->arena, span_text(state.profile), &machine->status.profile));
    machine->status.slot = state.slot == 'a' ? "a" : state.slot == 'b' ? "b" : "";
    machine->trial = state.trial;
    machine->status.updated = state.trial ? "trying" : state.has_failed ? "failed" : "";
}

static struct fault lay_ground(struct machine *machine)
{
    struct op *op = machine->op;
    TRY(mounts_early(op));
    open_log(machine);
    TRY(file_make_dirs(MACHINE_RUN_DIR, 0755));
    TRY(open_signals(op, machine));
    sysctl_harden();
    power_setup();
    TRY(control_listen(op, CONTROL_SOCKET, &machine->listener));
    TRY(modules_listen(op, &machine->uevents));
    machine_publish(machine);
    TRY(read_facts(machine));
    machine_say(machine, "svc %s starts", machine->status.version);
    for (size_t i = 0; i < COUNT_OF(MODULES); i++) {
        IGNORE(module_load(machine_op(machine, OP_LIMIT_MS), MODULES[i]));
    }
    TRY(modules_settle(machine_op(machine, OP_LIMIT_MS)));
    power_buttons_open(&machine->buttons);
    TRY(network_loopback(machine_op(machine, OP_LIMIT_MS)));
    read_update(machine);
    keeper_want(machine, KEEPER_CONSOLE);
    return OK;
}

/* ---- what the product needs ---- */

static void start_network(struct machine *machine)
{
    const struct provision *provision = &machine->provision;
    machine->status.hostname = provision->hostname;
    struct fault named = network_names(machine_op(machine, OP_LIMIT_MS), provision);
    if (FAULTED(named)) {
        machine_complain(machine, "names", named);
    }
    struct fault started = network_start(machine_op(machine, LINK_LIMIT_MS), provision, &machine->status.interface);
    if (FAULTED(started)) { /* the console and what listens on the loopback go on */
        machine_complain(machine, "network", started);
        return;
    }
    IGNORE(facts_addresses(machine->op, machine->status.interface, machine->status.addresses, STATUS_ADDRESSES_MAX,
                           &machine->status.address_count));
    for (size_t i = 0; i < machine->status.address_count; i++) {
        machine_say(machine, "%s has %s", machine->status.interface, machine->status.addresses[i]);
    }
}

/* The product's certificates and time stamps begin with a right clock, if there is one to be had soon. */
static void start_clock(struct machine *machine)
{
    struct fault ready =
        clock_prepare(machine_op(machine, OP_LIMIT_MS), &machine->provision, &machine->status.time_source);
    if (FAULTED(ready)) {
        machine->status.time_source = "none";
        machine_complain(machine, "clock", ready);
        return;
    }
    if (!clock_wants_chrony(machine->status.time_source, &machine->provision)) {
        return;
    }
    keeper_want(machine, KEEPER_CHRONY);
    mono_ns deadline = clock_mono() + CLOCK_WAIT_MS * NS_PER_MS;
    while (!clock_synchronised() && clock_mono() < deadline && machine->wanted == POWER_NONE) {
        machine_step(machine, 200);
    }
}

static void mount_extensions(struct machine *machine)
{
    struct extension rows[EXTENSIONS_MAX];
    struct extension_trust trust = { .keys = machine->provision.extension_keys.at,
                                     .count = machine->provision.extension_keys.count };
    size_t count = 0;
    struct fault mounted = extensions_mount_all(machine_op(machine, EXTENSIONS_MS), &trust, rows, &count);
    if (FAULTED(mounted)) {
        machine_complain(machine, "extensions", mounted);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        machine_say(machine, "extension %s: %s", rows[i].name, rows[i].mounted ? "mounted" : rows[i].refusal);
    }
}

static struct fault prepare(struct machine *machine)
{
    TRY(machine_state(machine));
    TRY(update_admit(machine_op(machine, OP_LIMIT_MS)));
    start_network(machine);
    start_clock(machine);
    mount_extensions(machine);
    mono_ns began = clock_mono();
    struct fault kept = update_before_service(machine_op(machine, KEEP_MS));
    machine->trial_end += clock_mono() - began; /* a large database takes its time */
    if (FAULTED(kept) && machine->trial) {      /* without a way back for the database it does not begin */
        return kept;
    }
    if (FAULTED(kept)) {
        machine_complain(machine, "the copy of the database", kept);
    }
    machine->prepared = true;
    struct fault written = provision_write_svc_yaml(machine_op(machine, CHECK_MS), &machine->provision, PRODUCT_CONFIG);
    if (FAULTED(written)) {
        (void)snprintf(machine->refusal, sizeof(machine->refusal), "%s",
                       machine->op->note.detail[0] != '\0' ? machine->op->note.detail : "configuration refused");
    }
    return written;
}

/* ---- failing ---- */

/* A version on trial that fails is given up by starting again; any other waits for a person. */
static void fail(struct machine *machine, struct fault fault, bool ground)
{
    if (fault.code == FAULT_CANCELLED || machine->wanted != POWER_NONE) {
        return;
    }
    machine_complain(machine, "this machine cannot start", fault);
    machine_phase(machine, PHASE_MAINTENANCE);
    sync();
    if (ground || machine->trial) {
        machine_say(machine, "restarting in %d seconds", PAUSE_REBOOT_MS / 1000);
        machine_pause(machine, PAUSE_REBOOT_MS);
        machine->wanted = machine->wanted == POWER_NONE ? POWER_REBOOT : machine->wanted;
        return;
    }
    machine_say(machine, "maintenance: help at the console lists what can be done");
}

static void watch_trial(struct machine *machine)
{
    bool refused = machine->status.phase == PHASE_MAINTENANCE;
    if (machine->trial && (refused || clock_mono() >= machine->trial_end) && machine->wanted == POWER_NONE) {
        machine_say(machine, "version %s did not become ready and is given up", machine->status.version);
        machine->wanted = POWER_REBOOT;
    }
}

static void run(struct machine *machine)
{
    struct fault laid = lay_ground(machine);
    if (FAULTED(laid)) {
        fail(machine, laid, true);
    } else {
        struct fault prepared = prepare(machine);
        if (FAULTED(prepared)) {
            fail(machine, prepared, false);
        } else if (machine->wanted == POWER_NONE) {
            machine_phase(machine, PHASE_RUNNING);
            machine->trial_end = clock_mono() + machine->trial_ns; /* the wait for a PIN does not count */
            keeper_want(machine, KEEPER_SERVICE);
        }
    }
    while (machine->wanted == POWER_NONE) {
        machine_step(machine, 1000);
        watch_trial(machine);
    }
}

[[noreturn]] static void end(struct machine *machine)
{
    machine_say(machine, "%s", power_action_text(machine->wanted));
    machine_phase(machine, PHASE_STOPPING);
    keepers_stop(machine, STOP_MS);
    extensions_unmount_all();
    power_end(machine->wanted);
}

int machine_boot(void)
{
    static struct machine machine = { .console = -1, .signals = -1, .listener = -1, .uevents = -1 };
    if (getpid() != 1) {
        (void)fprintf(stderr, "svc-machine: boot is for PID 1 of the appliance image\n");
        return 2;
    }
    (void)umask(022);
    machine.status.since = clock_utc();
    keepers_setup(&machine);
    if (FAULTED(op_new("machine", (struct tenant_id){ 0 }, OP_LIMIT_MS, &machine.op))) {
        power_end(POWER_REBOOT);
    }
    run(&machine);
    end(&machine);
}
