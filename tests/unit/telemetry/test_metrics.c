#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "api/telemetry/internal.h"
#include "appliance/base/alloc.h"

#include <math.h>
#include <stdio.h>

#define assert_fault(expr, sym) assert_int_equal((expr).code, FAULT_##sym)

static const struct metric plain = { "svc_things_total", METRIC_COUNTER, "Things.", { 0 } };
static const struct metric labelled = {
    "svc_calls_total", METRIC_COUNTER, "Calls by \"kind\"\nand \\ result.", { "kind", "result" }
};
static const struct metric gauge = { "svc_level", METRIC_GAUGE, "Level.", { "tank" } };
static const struct metric timing = { "svc_wait_seconds", METRIC_HISTOGRAM, "Waits.", { "route" } };

static const char *printed(struct metrics *metrics, struct buf *out)
{
    buf_clear(out);
    const char *text = NULL;
    assert_fault(metrics_print(metrics, out), NONE);
    assert_fault(buf_cstr(out, &text), NONE);
    return text;
}

static void names_that_prometheus_refuses_are_refused(void **state)
{
    (void)state;
    CLEANUP(metrics_freep) struct metrics *metrics = NULL;
    assert_fault(metrics_new(&metrics), NONE);
    static const struct metric rows[] = {
        { "", METRIC_GAUGE, "x", { 0 } },
        { "1st", METRIC_GAUGE, "x", { 0 } },
        { "a-b", METRIC_GAUGE, "x", { 0 } },
        { "ok", METRIC_GAUGE, "x", { "l:e" } },
        { "ok", METRIC_GAUGE, "x", { "good", "" } },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_fault(metrics_register(metrics, &rows[i], 1), BAD_ARGUMENT);
    }
    CLEANUP(buf_free) struct buf out = BUF_INIT(65536);
    assert_string_equal(printed(metrics, &out), "");
}

static void one_name_with_another_shape_is_refused_and_with_the_same_shape_shared(void **state)
{
    (void)state;
    CLEANUP(metrics_freep) struct metrics *metrics = NULL;
    assert_fault(metrics_new(&metrics), NONE);
    static const struct metric other_kind = { "svc_things_total", METRIC_GAUGE, "Things.", { 0 } };
    static const struct metric other_labels = { "svc_things_total", METRIC_COUNTER, "Things.", { "kind" } };
    static const struct metric twin = { "svc_things_total", METRIC_COUNTER, "Things.", { 0 } };
    assert_fault(metrics_register(metrics, &plain, 1), NONE);
    assert_fault(metrics_register(metrics, &other_kind, 1), BAD_ARGUMENT);
    assert_fault(metrics_register(metrics, &other_labels, 1), BAD_ARGUMENT);
    metrics_add(metrics, &other_kind, 100, NULL);
    metrics_add(metrics, &plain, 1, NULL);
    metrics_add(metrics, &twin, 2, NULL);
    CLEANUP(buf_free) struct buf out = BUF_INIT(65536);
    assert_string_equal(printed(metrics, &out),
                        "# HELP svc_things_total Things.\n# TYPE svc_things_total counter\nsvc_things_total 3\n");
}

static void a_full_output_is_too_large(void **state)
{
    (void)state;
    CLEANUP(metrics_freep) struct metrics *metrics = NULL;
    assert_fault(metrics_new(&metrics), NONE);
    assert_fault(metrics_register(metrics, &plain, 1), NONE);
    CLEANUP(buf_free) struct buf out = BUF_INIT(20);
    assert_fault(metrics_print(metrics, &out), TOO_LARGE);
}

static void without_memory_a_sample_is_lost_and_nothing_else(void **state)
{
    (void)state;
    CLEANUP(metrics_freep) struct metrics *metrics = NULL;
    assert_fault(metrics_new(&metrics), NONE);
    for (long successes = 0; successes < 3; successes++) {
        mem_fail_after(successes);
        metrics_add(metrics, &labelled, 1, (const char *const[]){ "a", "b" });
        mem_fail_after(-1);
    }
    metrics_add(metrics, &labelled, 1, (const char *const[]){ "a", "b" });
    CLEANUP(buf_free) struct buf out = BUF_INIT(65536);
    assert_non_null(strstr(printed(metrics, &out), "svc_calls_total{kind=\"a\",result=\"b\"} "));
}

static void registered_metrics_show_before_their_first_use(void **state)
{
    (void)state;
    CLEANUP(metrics_freep) struct metrics *metrics = NULL;
    assert_fault(metrics_new(&metrics), NONE);
    const struct metric rows[] = { plain, gauge };
    assert_fault(metrics_register(metrics, rows, 2), NONE);
    CLEANUP(buf_free) struct buf out = BUF_INIT(65536);
    assert_string_equal(printed(metrics, &out),
                        "# HELP svc_things_total Things.\n# TYPE svc_things_total counter\nsvc_things_total 0\n"
                        "# HELP svc_level Level.\n# TYPE svc_level gauge\n");
}

static void help_and_labels_are_escaped(void **state)
{
    (void)state;
    CLEANUP(metrics_freep) struct metrics *metrics = NULL;
    assert_fault(metrics_new(&metrics), NONE);
    metrics_add(metrics, &labelled, 1.5, (const char *const[]){ "a\"b\\c\nd", NULL });
    CLEANUP(buf_free) struct buf out = BUF_INIT(65536);
    assert_string_equal(printed(metrics, &out),
                        "# HELP svc_calls_total Calls by \"kind\"\\nand \\\\ result.\n# TYPE svc_calls_total counter\n"
                        "svc_calls_total{kind=\"a\\\"b\\\\c\\nd\",result=\"\"} 1.5\n");
}

static void a_histogram_is_cumulative_with_sum_and_count(void **state)
{
    (void)state;
    CLEANUP(metrics_freep) struct metrics *metrics = NULL;
    assert_fault(metrics_new(&metrics), NONE);
    const char *const route[] = { "/x" };
    metrics_observe(metrics, &timing, 0.001, route); /* a bound belongs to its own bucket */
    metrics_observe(metrics, &timing, 0.75, route);
    metrics_observe(metrics, &timing, 60, route);
    metrics_observe(metrics, &timing, NAN, route);
    CLEANUP(buf_free) struct buf out = BUF_INIT(65536);
    const char *text = printed(metrics, &out);
    assert_non_null(strstr(text, "# TYPE svc_wait_seconds histogram\n"));
    assert_non_null(strstr(text, "svc_wait_seconds_bucket{route=\"/x\",le=\"0.001\"} 1\n"));
    assert_non_null(strstr(text, "svc_wait_seconds_bucket{route=\"/x\",le=\"0.0025\"} 1\n"));
    assert_non_null(strstr(text, "svc_wait_seconds_bucket{route=\"/x\",le=\"0.5\"} 1\n"));
    assert_non_null(strstr(text, "svc_wait_seconds_bucket{route=\"/x\",le=\"0.75\"} 2\n"));
    assert_non_null(strstr(text, "svc_wait_seconds_bucket{route=\"/x\",le=\"1\"} 2\n"));
    assert_non_null(strstr(text, "svc_wait_seconds_bucket{route=\"/x\",le=\"30\"} 2\n"));
    assert_non_null(strstr(text, "svc_wait_seconds_bucket{route=\"/x\",le=\"+Inf\"} 4\n"));
    assert_non_null(strstr(text, "svc_wait_seconds_sum{route=\"/x\"} 60.75"));
    assert_non_null(strstr(text, "svc_wait_seconds_count{route=\"/x\"} 4\n"));
}

static int rows_before(const char *text, const char *first, const char *second)
{
    const char *a = strstr(text, first), *b = strstr(text, second);
    return a != NULL && b != NULL && a < b;
}

static void a_page_of_the_manual_lists_what_is_registered_by_name(void **state)
{
    (void)state;
    CLEANUP(metrics_freep) struct metrics *metrics = NULL;
    assert_fault(metrics_new(&metrics), NONE);
    assert_fault(metrics_register(metrics, &plain, 1), NONE);
    assert_fault(metrics_register(metrics, &timing, 1), NONE);
    assert_fault(metrics_register(metrics, &gauge, 1), NONE);
    CLEANUP(buf_free) struct buf small = BUF_INIT(40), out = BUF_INIT(65536);
    const char *text = NULL;
    assert_fault(metrics_describe(metrics, &small), TOO_LARGE);
    assert_fault(metrics_describe(metrics, &out), NONE);
    assert_fault(buf_cstr(&out, &text), NONE);
    assert_true(rows_before(text, "| name | type |", "| `svc_level` | gauge | `tank` | Level. |\n"));
    assert_true(rows_before(text, "| `svc_level`", "| `svc_things_total` | counter |  | Things. |\n"));
    assert_true(rows_before(text, "| `svc_things_total`", "| `svc_wait_seconds` | histogram | `route` | Waits. |\n"));
}

static void special_numbers_have_their_names(void **state)
{
    (void)state;
    CLEANUP(metrics_freep) struct metrics *metrics = NULL;
    assert_fault(metrics_new(&metrics), NONE);
    metrics_set(metrics, &gauge, INFINITY, (const char *const[]){ "a" });
    metrics_set(metrics, &gauge, -INFINITY, (const char *const[]){ "b" });
    metrics_set(metrics, &gauge, NAN, (const char *const[]){ "c" });
    metrics_set(metrics, &gauge, 1763698236.0, (const char *const[]){ "d" });
    CLEANUP(buf_free) struct buf out = BUF_INIT(65536);
    const char *text = printed(metrics, &out);
    assert_non_null(strstr(text, "svc_level{tank=\"a\"} +Inf\n"));
    assert_non_null(strstr(text, "svc_level{tank=\"b\"} -Inf\n"));
    assert_non_null(strstr(text, "svc_level{tank=\"c\"} NaN\n"));
    assert_non_null(strstr(text, "svc_level{tank=\"d\"} 1763698236\n"));
}

static void all_series_of_a_gauge_are_set_at_once_and_none_is_made(void **state)
{
    static const struct metric beside = { "svc_beside", METRIC_GAUGE, "Beside.", { 0 } };
    (void)state;
    CLEANUP(metrics_freep) struct metrics *metrics = NULL;
    assert_fault(metrics_new(&metrics), NONE);
    metrics_set_all(metrics, &gauge, NAN); /* not known yet */
    metrics_set(metrics, &gauge, 1, (const char *const[]){ "a" });
    metrics_set(metrics, &gauge, 2, (const char *const[]){ "b" });
    metrics_set(metrics, &beside, 3, NULL);
    metrics_set_all(metrics, &gauge, NAN);
    CLEANUP(buf_free) struct buf out = BUF_INIT(65536);
    const char *text = printed(metrics, &out);
    assert_non_null(strstr(text, "svc_level{tank=\"a\"} NaN\nsvc_level{tank=\"b\"} NaN\n"));
    assert_non_null(strstr(text, "svc_beside 3\n"));
}

static void series_beyond_the_cap_are_counted_together(void **state)
{
    (void)state;
    CLEANUP(metrics_freep) struct metrics *metrics = NULL;
    assert_fault(metrics_new(&metrics), NONE);
    for (int i = 0; i < METRICS_SERIES_MAX + 50; i++) {
        char tank[16];
        (void)snprintf(tank, sizeof(tank), "t%d", i);
        metrics_add(metrics, &gauge, 1, (const char *const[]){ tank });
    }
    CLEANUP(buf_free) struct buf out = BUF_INIT(1 << 20);
    const char *text = printed(metrics, &out);
    assert_non_null(strstr(text, "svc_level{tank=\"other\"} 50\n"));
    metrics_set(metrics, &gauge, 7, (const char *const[]){ "t0" });
    metrics_set(metrics, &gauge, 7, (const char *const[]){ "new" });
    buf_clear(&out);
    text = printed(metrics, &out);
    assert_non_null(strstr(text, "{tank=\"other\"} 50\n")); /* one that is set does not stand for others */
    assert_non_null(strstr(text, "{tank=\"t0\"} 7\n"));
    assert_null(strstr(text, "{tank=\"new\"}"));
    char last[64];
    (void)snprintf(last, sizeof(last), "{tank=\"t%d\"} 1\n", METRICS_SERIES_MAX - 1);
    assert_non_null(strstr(text, last));
    (void)snprintf(last, sizeof(last), "{tank=\"t%d\"}", METRICS_SERIES_MAX);
    assert_null(strstr(text, last));
}

static void long_label_values_are_cut(void **state)
{
    (void)state;
    CLEANUP(metrics_freep) struct metrics *metrics = NULL;
    assert_fault(metrics_new(&metrics), NONE);
    char value[300];
    memset(value, 'v', sizeof(value));
    value[sizeof(value) - 1] = 0;
    metrics_add(metrics, &gauge, 1, (const char *const[]){ value });
    value[200] = 0; /* the same first 127 bytes: the same series */
    metrics_add(metrics, &gauge, 1, (const char *const[]){ value });
    CLEANUP(buf_free) struct buf out = BUF_INIT(65536);
    assert_non_null(strstr(printed(metrics, &out), "v\"} 2\n"));
}

#define ROUNDS 100000

static void *count_up(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        metrics_add(arg, &gauge, 1, (const char *const[]){ "shared" });
        metrics_observe(arg, &timing, 0.5, (const char *const[]){ "/y" });
        if (i % 1000 == 0) {
            char tank[16];
            (void)snprintf(tank, sizeof(tank), "t%d", i / 1000);
            metrics_add(arg, &gauge, 1, (const char *const[]){ tank });
        }
    }
    return NULL;
}

static void threads_lose_no_sample(void **state)
{
    (void)state;
    CLEANUP(metrics_freep) struct metrics *metrics = NULL;
    assert_fault(metrics_new(&metrics), NONE);
    pthread_t threads[4];
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_create(&threads[i], NULL, count_up, metrics), 0);
    }
    CLEANUP(buf_free) struct buf out = BUF_INIT(1 << 20);
    (void)printed(metrics, &out);
    for (size_t i = 0; i < COUNT_OF(threads); i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    }
    const char *text = printed(metrics, &out);
    assert_non_null(strstr(text, "svc_level{tank=\"shared\"} 400000\n"));
    assert_non_null(strstr(text, "svc_level{tank=\"t7\"} 4\n"));
    assert_non_null(strstr(text, "svc_wait_seconds_sum{route=\"/y\"} 200000\n"));
    assert_non_null(strstr(text, "svc_wait_seconds_count{route=\"/y\"} 400000\n"));
    assert_non_null(strstr(text, "svc_wait_seconds_bucket{route=\"/y\",le=\"0.5\"} 400000\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_that_prometheus_refuses_are_refused),
        cmocka_unit_test(one_name_with_another_shape_is_refused_and_with_the_same_shape_shared),
        cmocka_unit_test(a_full_output_is_too_large),
        cmocka_unit_test(without_memory_a_sample_is_lost_and_nothing_else),
        cmocka_unit_test(registered_metrics_show_before_their_first_use),
        cmocka_unit_test(help_and_labels_are_escaped),
        cmocka_unit_test(a_histogram_is_cumulative_with_sum_and_count),
        cmocka_unit_test(a_page_of_the_manual_lists_what_is_registered_by_name),
        cmocka_unit_test(special_numbers_have_their_names),
        cmocka_unit_test(all_series_of_a_gauge_are_set_at_once_and_none_is_made),
        cmocka_unit_test(series_beyond_the_cap_are_counted_together),
        cmocka_unit_test(long_label_values_are_cut),
        cmocka_unit_test(threads_lose_no_sample),
    };
    return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
