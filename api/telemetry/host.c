#include "api/telemetry/host.h"

#include "appliance/base/clock.h"
#include "appliance/base/file.h"

#include <dirent.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#define STAT_MAX    4096
#define DISKS_MAX   4096
#define START_FIELD 22 /* of proc(5) stat: when the process began, in ticks since boot */
#define NAME_FIELD  2

enum {
    RESIDENT,
    CPU,
    OPEN_FDS,
    MAX_FDS,
    START,
    BUILD,
    CLOCK_SYNCHRONISED,
    CLOCK_OFFSET,
    CLOCK_ERROR,
    DISK_FREE,
    DISK_TOTAL
};
const struct metric host_metrics[] = {
    [RESIDENT] = { "process_resident_memory_bytes", METRIC_GAUGE, "Memory of svc-api that is in RAM.", { 0 } },
    [CPU] = { "process_cpu_seconds_total", METRIC_COUNTER, "Processor time that svc-api has used.", { 0 } },
    [OPEN_FDS] = { "process_open_fds", METRIC_GAUGE, "File descriptors that svc-api has open.", { 0 } },
    [MAX_FDS] = { "process_max_fds", METRIC_GAUGE, "File descriptors that svc-api may have open.", { 0 } },
    [START] = { "process_start_time_seconds", METRIC_GAUGE, "When svc-api was started.", { 0 } },
    [BUILD] = { "svc_build_info", METRIC_GAUGE, "Always 1; the version is its label.", { "version" } },
    [CLOCK_SYNCHRONISED] = { "svc_clock_synchronised",
                             METRIC_GAUGE,
                             "1 while the kernel says that the host's clock is synchronised, else 0.",
                             { 0 } },
    [CLOCK_OFFSET] = { "svc_clock_offset_seconds",
                       METRIC_GAUGE,
                       "What the kernel still has to correct of the host's clock.",
                       { 0 } },
    [CLOCK_ERROR] = { "svc_clock_max_error_seconds",
                      METRIC_GAUGE,
                      "How far off the host's clock can be, by the kernel's own account.",
                      { 0 } },
    [DISK_FREE] = { "svc_disk_free_bytes",
                    METRIC_GAUGE,
                    "Space that is left where an area's folder lies: data, journal, postgres, nats, archive.",
                    { "area" } },
    [DISK_TOTAL] = { "svc_disk_total_bytes",
                     METRIC_GAUGE,
                     "Size of the file system in which an area's folder lies.",
                     { "area" } },
};
const size_t host_metric_count = COUNT_OF(host_metrics);

static void set(struct metrics *metrics, int row, double value)
{
    metrics_set(metrics, &host_metrics[row], value, NULL);
}

/* ---- the process ---- */

/* A number of /proc/self/stat; the second field is a name in brackets that may hold anything. NaN: not there. */
static double stat_field(const char *text, int field)
{
    const char *at = strrchr(text, ')');
    for (int i = NAME_FIELD; at != NULL && i < field; i++) {
        at = strchr(at + 1, ' ');
    }
    return at != NULL ? strtod(at, NULL) : NAN;
}

static double read_start(void)
{
    CLEANUP(buf_free) struct buf stat = BUF_INIT(STAT_MAX);
    const char *text = NULL;
    struct timespec boot;
    if (FAULTED(file_read("/proc/self/stat", &stat)) || FAULTED(buf_cstr(&stat, &text)) ||
        clock_gettime(CLOCK_BOOTTIME, &boot) != 0) {
        return NAN;
    }
    double since_boot = (double)boot.tv_sec + (double)boot.tv_nsec / (double)NS_PER_S;
    double began = stat_field(text, START_FIELD) / (double)sysconf(_SC_CLK_TCK);
    return (double)clock_utc() / (double)US_PER_S - (since_boot - began);
}

/* Once: a step of the wall clock is no new start. Two threads at once read the same. */
static double start_time(void)
{
    static _Atomic(double) start;
    if (!(atomic_load(&start) > 0)) {
        atomic_store(&start, read_start());
    }
    return atomic_load(&start);
}

static double resident_bytes(void)
{
    CLEANUP(buf_free) struct buf statm = BUF_INIT(STAT_MAX);
    const char *text = NULL;
    if (FAULTED(file_read("/proc/self/statm", &statm)) || FAULTED(buf_cstr(&statm, &text))) {
        return NAN;
    }
    const char *second = strchr(text, ' ');
    return second != NULL ? strtod(second, NULL) * (double)sysconf(_SC_PAGESIZE) : NAN;
}

static double open_files(void)
{
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL) {
        return NAN;
    }
    double count = -1; /* the folder itself */
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        count += entry->d_name[0] != '.';
    }
    (void)closedir(folder);
    return count;
}

static void sample_clock(struct metrics *metrics)
{
    struct timex state = { 0 }; /* without a mode adjtimex only reads, and needs no privilege */
    int result = adjtimex(&state);
    double unit = (state.status & STA_NANO) != 0 ? (double)NS_PER_S : (double)US_PER_S;
    set(metrics, CLOCK_SYNCHRONISED, result >= 0 && result != TIME_ERROR && (state.status & STA_UNSYNC) == 0);
    set(metrics, CLOCK_OFFSET, result >= 0 ? (double)state.offset / unit : NAN);
    set(metrics, CLOCK_ERROR, result >= 0 ? (double)state.maxerror / (double)US_PER_S : NAN);
}

void host_sample_process(struct metrics *metrics)
{
    struct timespec cpu = { 0 };
    struct rlimit files = { 0 };
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
    set(metrics, RESIDENT, resident_bytes());
    set(metrics, CPU, (double)cpu.tv_sec + (double)cpu.tv_nsec / (double)NS_PER_S);
    set(metrics, OPEN_FDS, open_files());
    set(metrics, MAX_FDS, getrlimit(RLIMIT_NOFILE, &files) == 0 ? (double)files.rlim_cur : NAN);
    set(metrics, START, start_time());
    metrics_set(metrics, &host_metrics[BUILD], 1, (const char *const[]){ SVC_VERSION });
    sample_clock(metrics);
}

/* ---- disks ---- */

static void put_disk(struct metrics *metrics, const char *area, double free, double total)
{
    const char *const labels[] = { area };
    metrics_set(metrics, &host_metrics[DISK_FREE], free, labels);
    metrics_set(metrics, &host_metrics[DISK_TOTAL], total, labels);
}

static void sample_disk(struct metrics *metrics, const char *area, const char *path)
{
    struct statvfs space;
    bool known = statvfs(path, &space) == 0;
    double block = known ? (double)space.f_frsize : NAN;
    put_disk(metrics, area, known ? (double)space.f_bavail * block : NAN, known ? (double)space.f_blocks * block : NAN);
}

/* A member of disks.json, which is flat and the supervisor's; NaN without it. */
static double told(const char *text, const char *area, const char *what)
{
    char member[32];
    (void)snprintf(member, sizeof(member), "\"%s_%s\":", area, what);
    const char *at = strstr(text, member);
    return at != NULL ? strtod(at + strlen(member), NULL) : NAN;
}

void host_sample_disks(struct metrics *metrics, const struct config *config)
{
    char journal[512], postgres[512], nats[512], disks[512];
    CLEANUP(buf_free) struct buf said = BUF_INIT(DISKS_MAX);
    const char *text = "";
    (void)snprintf(disks, sizeof(disks), "%s/disks.json", config->run_dir);
    if (FAULTED(file_read(disks, &said)) || FAULTED(buf_cstr(&said, &text))) {
        text = ""; /* no supervisor: then nobody hides the folders from us */
    }
    (void)snprintf(journal, sizeof(journal), "%s/signer", config->data_dir);
    (void)snprintf(postgres, sizeof(postgres), "%s/postgres", config->data_dir);
    (void)snprintf(nats, sizeof(nats), "%s/nats", config->data_dir);
    const struct {
        const char *area, *path;
        bool here; /* not on another host, and in use */
    } areas[] = {
        { "data", config->data_dir, true },
        { "journal", config->signer_journal[0] != '\0' ? config->signer_journal : journal,
          config->signer_address[0] == '\0' },
        { "postgres", postgres, config->postgres_url[0] == '\0' },
        { "nats", nats, config->nats_url[0] == '\0' },
        { "archive", config->audit_archive_dir, config->audit_archive_dir[0] != '\0' },
    };
    for (size_t i = 0; i < COUNT_OF(areas); i++) {
        double total = told(text, areas[i].area, "total");
        if (areas[i].here && !isnan(total)) {
            put_disk(metrics, areas[i].area, told(text, areas[i].area, "free"), total);
        } else if (areas[i].here) {
            sample_disk(metrics, areas[i].area, areas[i].path);
        }
    }
}
