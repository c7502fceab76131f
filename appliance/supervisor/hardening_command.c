#include "appliance/base/file.h"
#include "appliance/stores/folder.h"
#include "appliance/supervisor/hardening.h"
#include "appliance/supervisor/hardening_facts.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIMIT_MS      120000
#define OUT_MAX       ((size_t)4 << 20)
#define PROCESSES_MAX 4096
#define IMAGE_FILE    "/usr/share/svc/image.json" /* where it is, all of the machine is ours */

/* ---- who ---- */

static struct fault supervisor_find(struct op *op, struct report *report)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(64);
    struct process_facts facts = { 0 };
    const char *path = NULL, *number = "";
    TRY(folder_path(op, report->config->run_dir, "appliance.pid", &path));
    struct fault read = file_read(path, &text);
    if (!FAULTED(read)) {
        TRY(buf_cstr(&text, &number));
        report->supervisor = (pid_t)strtol(number, NULL, 10);
        read = report->supervisor > 1 ? process_facts_read(op, report->supervisor, report->supervisor, &facts)
                                      : FAULT(NOT_FOUND);
    }
    if (FAULTED(read) || strcmp(facts.name, "svc-appliance") != 0) {
        return op_fail(op, FAULT(NOT_FOUND), "no appliance runs on %s", report->config->run_dir);
    }
    return OK;
}

struct table {
    pid_t at[PROCESSES_MAX], parents[PROCESSES_MAX];
    size_t count;
};

static pid_t parent_of(pid_t pid)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(4096);
    char path[64];
    const char *stat = NULL;
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    if (FAULTED(file_read(path, &text)) || FAULTED(buf_cstr(&text, &stat))) {
        return 0;
    }
    const char *name_end = strrchr(stat, ')'); /* ") S 1 ..." */
    return name_end != NULL && strlen(name_end) > 4 ? (pid_t)strtol(name_end + 4, NULL, 10) : 0;
}

static struct fault table_read(struct table *table)
{
    DIR *proc = opendir("/proc");
    REQUIRE(proc != NULL, IO);
    const struct dirent *entry;
    while ((entry = readdir(proc)) != NULL && table->count < PROCESSES_MAX) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 0) {
            table->parents[table->count] = parent_of(pid);
            table->at[table->count++] = pid;
        }
    }
    (void)closedir(proc);
    return OK;
}

static bool is_below(const struct table *table, pid_t pid, pid_t top)
{
    for (size_t steps = 0; pid > 0 && steps < PROCESSES_MAX; steps++) {
        pid_t parent = 0;
        if (pid == top) {
            return true;
        }
        for (size_t i = 0; i < table->count; i++) {
            parent = table->at[i] == pid ? table->parents[i] : parent;
        }
        pid = parent;
    }
    return false;
}

/* A thread of the kernel has no program. */
static bool has_program(pid_t pid)
{
    char path[64], link[8];
    (void)snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
    return readlink(path, link, sizeof(link)) > 0;
}

static struct fault kind_add(struct op *op, struct report *report, pid_t pid)
{
    struct process_facts facts;
    struct fault read = process_facts_read(op, pid, 1, &facts);
    read = FAULTED(read) ? read : process_facts_listens(op, &facts);
    read = FAULTED(read) ? read : process_facts_folders(op, &report->folders, &facts);
    if (read.code == FAULT_NOT_FOUND) {
        return OK; /* it ended meanwhile */
    }
    TRY(read);
    for (size_t i = 0; i < report->kind_count; i++) {
        if (process_facts_equal(&report->kinds[i].facts, &facts)) {
            report->kinds[i].count++;
            return OK;
        }
    }
    REQUIRE(report->kind_count < KINDS_MAX, TOO_LARGE);
    report->kinds[report->kind_count++] = (struct kind){ .facts = facts, .count = 1 };
    return OK;
}

static struct fault processes_read(struct op *op, struct report *report)
{
    struct table *table = NULL;
    pid_t self = getpid();
    TRY(arena_take(op->arena, 1, sizeof(*table), (void *)&table));
    TRY(table_read(table));
    for (size_t i = 0; i < table->count; i++) {
        pid_t pid = table->at[i];
        bool ours = report->whole_machine ? has_program(pid) : is_below(table, pid, report->supervisor);
        if (ours && !is_below(table, pid, self)) {
            TRY(kind_add(op, report, pid));
        }
    }
    return OK;
}

/* ---- where ---- */

/* What is worth writing into: the machine's folders, and the appliance's. */
static struct fault folders_fill(struct op *op, struct report *report)
{
    static const char *const machine[] = {
        "/", "/dev/shm", "/etc", "/home", "/run", "/tmp", "/usr", "/var", "/var/tmp"
    };
    static const char *const data[] = { "", "api", "nats", "nats-client", "postgres", "signer", "softhsm" };
    static const char *const run[] = { "", "postgres", "signer" };
    const struct config *config = report->config;
    const char *const more[] = { config->bin_dir, config->policy_dir, config->snapshots_dir,
                                 config->audit_archive_dir };
    const char *path = NULL;
    for (size_t i = 0; i < COUNT_OF(machine); i++) {
        TRY(texts_add(op, &report->folders, machine[i]));
    }
    for (size_t i = 0; i < COUNT_OF(more); i++) {
        TRY(more[i][0] != '\0' ? texts_add(op, &report->folders, more[i]) : OK);
    }
    for (size_t i = 0; i < COUNT_OF(data); i++) {
        TRY(data[i][0] != '\0' ? folder_path(op, config->data_dir, data[i], &path)
                               : arena_text(op->arena, span_text(config->data_dir), &path));
        TRY(texts_add(op, &report->folders, path));
    }
    for (size_t i = 0; i < COUNT_OF(run); i++) {
        TRY(run[i][0] != '\0' ? folder_path(op, config->run_dir, run[i], &path)
                              : arena_text(op->arena, span_text(config->run_dir), &path));
        TRY(texts_add(op, &report->folders, path));
    }
    return OK;
}

static struct fault files_read(struct op *op, struct report *report)
{
    const char *const roots[] = { "/", report->config->bin_dir, report->config->data_dir, report->config->run_dir };
    for (size_t i = 0; i < COUNT_OF(roots); i++) {
        if (access(roots[i], F_OK) == 0) {
            TRY(privileged_files(op, roots[i], &report->files));
        }
    }
    return OK;
}

static struct fault report_fill(struct op *op, struct report *report)
{
    const char *path = NULL;
    report->whole_machine = path_exists(IMAGE_FILE);
    TRY(supervisor_find(op, report));
    TRY(folder_path(op, report->config->run_dir, "hardening.json", &path));
    struct fault read = file_read(path, &report->established);
    if (FAULTED(read)) {
        return op_fail(op, read, "cannot read %s", path);
    }
    TRY(folders_fill(op, report));
    TRY(processes_read(op, report));
    return files_read(op, report);
}

enum exit_code appliance_hardening(const struct appliance *appliance, int count, char *const *args)
{
    bool json = count == 2 && strcmp(args[1], "--json") == 0;
    CLEANUP(op_freep) struct op *op = NULL;
    CLEANUP(buf_free) struct buf out = BUF_INIT(OUT_MAX);
    static struct report report; /* one for the whole program, which does nothing else */
    if (count > 1 && !json) {
        (void)fprintf(stderr, "svc-appliance: hardening [--json]\n");
        return EXIT_REFUSED;
    }
    report = (struct report){ .config = appliance->config, .established = BUF_INIT(4096) };
    struct fault done = op_new("svc-appliance", (struct tenant_id){ 0 }, LIMIT_MS, &op);
    done = FAULTED(done) ? done : report_fill(op, &report);
    if (!FAULTED(done)) {
        done = json ? report_print_json(op, &report, &out) : report_print_text(op, &report, &out);
    }
    buf_free(&report.established);
    if (FAULTED(done)) {
        appliance_complain("hardening", op, done);
        return EXIT_FAILED;
    }
    return fwrite(out.at, 1, out.len, stdout) == out.len && fflush(stdout) == 0 ? EXIT_FINE : EXIT_FAILED;
}
