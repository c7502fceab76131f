/* The file of figures: what is not what scripts/perf writes is refused with its place. */
#include "api/scale/internal.h"
#include "appliance/base/file.h"
#include "testlib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ROW                                                                                            \
    "{\"name\":\"sign\",\"slo\":\"PERF-SLO-007\",\"phase\":\"peak\",\"passed\":true,\"requests\":100," \
    "\"errors\":0,\"per_second\":50,\"p50_us\":1,\"p95_us\":2,\"p99_us\":3,\"max_us\":4,\"lag_events\":1}"
#define RUN(gate, profile, at)                                                                               \
    "{\"gate\":\"" gate "\",\"profile\":\"" profile "\",\"measured_at\":\"" at "\",\"machine\":\"2 cores\"," \
    "\"command\":\"scripts/perf\",\"version\":\"1\",\"passed\":true,\"rows\":[" ROW "]}"
#define FILE_OF(runs) "{\"format\":\"svc.scale.measured.v1\",\"runs\":[" runs "]}"

static struct op *op_of_test(void)
{
    struct op *op = NULL;
    assert_fault(op_new("test", (struct tenant_id){ "t" }, 60000, &op), NONE);
    return op;
}

static void refused(const char *text, const char *pointer)
{
    CLEANUP(op_freep) struct op *op = op_of_test();
    CLEANUP(scale_freep) struct scale *scale = NULL;
    assert_true(FAULTED(scale_parse(op, span_text(text), &scale)));
    assert_null(scale);
    assert_string_equal(op->note.pointer, pointer);
}

static void what_is_not_the_format_is_refused(void **state)
{
    (void)state;
    refused("", "");
    refused("[]", "");
    refused("{\"runs\":[]}", "/format");
    refused("{\"format\":\"svc.scale.measured.v2\",\"runs\":[]}", "");
    refused("{\"format\":\"svc.scale.measured.v1\",\"runs\":{}}", "");
    refused("{\"format\":\"svc.scale.measured.v1\",\"runs\":[],\"more\":1}", "/more");
    refused(FILE_OF("{\"gate\":\"live\"}"), "/measured_at");
    refused(FILE_OF(RUN("rest", "", "2026-11-21T00:00:00Z")), "");
    refused(FILE_OF(RUN("live", "", "yesterday")), "/measured_at");
}

static void a_row_without_its_latencies_is_refused(void **state)
{
    (void)state;
    refused(FILE_OF("{\"gate\":\"live\",\"measured_at\":\"2026-11-21T00:00:00Z\",\"machine\":\"m\",\"command\":\"c\","
                    "\"version\":\"1\",\"passed\":true,\"rows\":[{\"name\":\"sign\",\"phase\":\"peak\","
                    "\"passed\":true,\"requests\":1,\"errors\":0,\"per_second\":1,\"p50_us\":-1}]}"),
            "/p50_us");
}

static void a_file_that_cannot_be_used_stops_the_start_and_says_what_to_do(void **state)
{
    (void)state;
    char folder[] = "/tmp/scale-XXXXXX", path[128];
    CLEANUP(op_freep) struct op *op = op_of_test();
    CLEANUP(scale_freep) struct scale *scale = NULL;
    assert_non_null(mkdtemp(folder));
    assert_fault(scale_load(op, folder, &scale), NONE); /* no file: nothing was measured */
    assert_int_equal(scale->count, 0);
    (void)snprintf(path, sizeof(path), "%s/scale", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    (void)snprintf(path, sizeof(path), "%s/scale/measured.json", folder);
    assert_fault(file_write(path, span_text(FILE_OF("{\"gate\":\"live\"}")), 0600), NONE);
    struct scale *none = NULL;
    assert_fault(scale_load(op, folder, &none), CONFIG);
    assert_null(none);
    assert_non_null(strstr(op->note.detail, "/measured_at"));
    assert_non_null(strstr(op->note.detail, "scripts/perf"));
    assert_int_equal(unlink(path), 0);
}

static void the_newest_run_of_a_gate_and_profile_is_what_counts(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = op_of_test();
    CLEANUP(scale_freep) struct scale *scale = NULL;
    CLEANUP(buf_free) struct buf out = BUF_INIT(65536);
    struct jout jout;
    const char *text = NULL;
    assert_fault(scale_parse(op,
                             span_text(FILE_OF(RUN("burst", "cap-small", "2026-11-20T00:00:00Z") "," RUN(
                                 "burst", "cap-large", "2026-11-21T00:00:00Z") "," RUN("burst", "cap-small",
                                                                                       "2026-11-22T00:00:00Z"))),
                             &scale),
                 NONE);
    assert_int_equal(scale->count, 3);
    assert_null(scale_latest(scale, GATE_LIVE, NULL));
    assert_null(scale_latest(scale, GATE_BURST, "cap-medium"));
    assert_string_equal(scale_latest(scale, GATE_BURST, "cap-large")->profile, "cap-large");
    jout_init(&jout, &out);
    jout_object(&jout);
    scale_print_latest(&jout, "last", scale, GATE_BURST, "cap-small");
    scale_print_latest(&jout, "none", scale, GATE_SOAK, "");
    jout_object_end(&jout);
    assert_fault(jout_end(&jout), NONE);
    assert_fault(buf_cstr(&out, &text), NONE);
    assert_non_null(strstr(text, "2026-11-22"));
    assert_null(strstr(text, "2026-11-20"));
    assert_non_null(strstr(text, "\"none\":null"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_the_format_is_refused),
        cmocka_unit_test(a_row_without_its_latencies_is_refused),
        cmocka_unit_test(a_file_that_cannot_be_used_stops_the_start_and_says_what_to_do),
        cmocka_unit_test(the_newest_run_of_a_gate_and_profile_is_what_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
