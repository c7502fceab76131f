#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/telemetry/host.h"
#include "appliance/base/clock.h"
#include "appliance/base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define assert_fault(expr, sym) assert_int_equal((expr).code, FAULT_##sym)

static struct metrics *made(void)
{
    struct metrics *metrics = NULL;
    assert_fault(metrics_new(&metrics), NONE);
    assert_fault(metrics_register(metrics, host_metrics, host_metric_count), NONE);
    return metrics;
}

static bool value_of(struct metrics *metrics, const char *series, double *ret_value)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(65536);
    char line[160];
    const char *text = NULL;
    assert_fault(metrics_print(metrics, &out), NONE);
    assert_fault(buf_cstr(&out, &text), NONE);
    (void)snprintf(line, sizeof(line), "\n%s ", series);
    const char *at = strstr(text, line);
    if (at == NULL) {
        return false;
    }
    *ret_value = strtod(at + strlen(line), NULL);
    return true;
}

static double value(struct metrics *metrics, const char *series)
{
    double found = 0;
    assert_true(value_of(metrics, series, &found));
    return found;
}

static struct config here(void)
{
    return (struct config){ .data_dir = "/tmp",
                            .run_dir = "/nowhere",
                            .signer_journal = "",
                            .signer_address = "",
                            .postgres_url = "",
                            .nats_url = "",
                            .audit_archive_dir = "" };
}

static void a_folder_that_is_not_there_is_not_a_number_and_no_fault(void **state)
{
    (void)state;
    CLEANUP(metrics_freep) struct metrics *metrics = made();
    struct config config = here();
    config.data_dir = "/nowhere/at/all";
    config.audit_archive_dir = "/tmp";
    host_sample_disks(metrics, &config);
    double free_bytes = value(metrics, "svc_disk_free_bytes{area=\"data\"}");
    assert_true(free_bytes != free_bytes);
    assert_true(value(metrics, "svc_disk_total_bytes{area=\"archive\"}") > 0);
}

static void what_the_supervisor_says_of_a_folder_comes_before_what_is_seen_of_it(void **state)
{
    (void)state;
    CLEANUP(metrics_freep) struct metrics *metrics = made();
    char dir[] = "/tmp/host-XXXXXX", path[64];
    struct config config = here();
    config.run_dir = mkdtemp(dir);
    (void)snprintf(path, sizeof(path), "%s/disks.json", dir);
    assert_fault(file_write(path, span_text("{\"nats_free\":7,\"nats_total\":9007199254740990}"), 0644), NONE);
    host_sample_disks(metrics, &config);
    (void)unlink(path);
    (void)rmdir(dir);
    assert_true(value(metrics, "svc_disk_free_bytes{area=\"nats\"}") == 7);
    assert_true(value(metrics, "svc_disk_total_bytes{area=\"nats\"}") == 9007199254740990);
    double unseen = value(metrics, "svc_disk_free_bytes{area=\"postgres\"}");
    assert_true(unseen != unseen);
}

static void areas_of_other_hosts_are_left_out(void **state)
{
    (void)state;
    CLEANUP(metrics_freep) struct metrics *metrics = made();
    struct config config = here();
    double found = 0;
    config.signer_address = "hsm.example:7000";
    config.postgres_url = "host=db.example";
    config.nats_url = "nats://log.example:4222";
    host_sample_disks(metrics, &config);
    assert_true(value(metrics, "svc_disk_total_bytes{area=\"data\"}") >=
                value(metrics, "svc_disk_free_bytes{area=\"data\"}"));
    assert_false(value_of(metrics, "svc_disk_free_bytes{area=\"journal\"}", &found));
    assert_false(value_of(metrics, "svc_disk_free_bytes{area=\"postgres\"}", &found));
    assert_false(value_of(metrics, "svc_disk_free_bytes{area=\"nats\"}", &found));
    assert_false(value_of(metrics, "svc_disk_free_bytes{area=\"archive\"}", &found));
}

static void the_process_is_measured_as_the_kernel_knows_it(void **state)
{
    (void)state;
    CLEANUP(metrics_freep) struct metrics *metrics = made();
    host_sample_process(metrics);
    double now = (double)clock_utc() / (double)US_PER_S, start = value(metrics, "process_start_time_seconds");
    double files = value(metrics, "process_open_fds");
    assert_true(start > now - 3600 && start <= now + 1); /* a tick is a hundredth of a second */
    assert_true(value(metrics, "process_resident_memory_bytes") > 100 << 10);
    assert_true(value(metrics, "process_resident_memory_bytes") < (double)(1LL << 40));
    assert_true(files >= 1 && files <= value(metrics, "process_max_fds"));
    assert_true(value(metrics, "svc_build_info{version=\"" SVC_VERSION "\"}") == 1);
    FILE *more = fopen("/dev/null", "r");
    assert_non_null(more);
    host_sample_process(metrics);
    assert_true(value(metrics, "process_open_fds") == files + 1);
    assert_true(value(metrics, "process_start_time_seconds") == start);
    (void)fclose(more);
    double synchronised = value(metrics, "svc_clock_synchronised");
    assert_true(synchronised == 0 || synchronised == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_folder_that_is_not_there_is_not_a_number_and_no_fault),
        cmocka_unit_test(what_the_supervisor_says_of_a_folder_comes_before_what_is_seen_of_it),
        cmocka_unit_test(areas_of_other_hosts_are_left_out),
        cmocka_unit_test(the_process_is_measured_as_the_kernel_knows_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
