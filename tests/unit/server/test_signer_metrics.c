#include "unit/server/testing.h"

#include "api/server/signer_metrics.h"

#include <stdio.h>

static struct metrics *metrics;
static char text[1 << 16];

static const char *print(void)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(sizeof(text));
    const char *all = NULL;
    assert_fault(metrics_print(metrics, &out), NONE);
    assert_fault(buf_cstr(&out, &all), NONE);
    (void)snprintf(text, sizeof(text), "%s", all);
    return text;
}

static void expect(const char *line)
{
    char whole[256];
    (void)snprintf(whole, sizeof(whole), "%s\n", line);
    if (strstr(print(), whole) == NULL) {
        print_error("%s\nlacks %s\n", text, line);
        fail();
    }
}

#define SIGNED(line)  "svc_signer_operations_total{purpose=\"codesign\",operation=\"sign\",outcome=\"ok\"} " line
#define REFUSED(line) "svc_signer_operations_total{purpose=\"tsa\",operation=\"sign\",outcome=\"late\"} " line

static void take(uint64_t signed_, uint64_t late, uint64_t refusals, uint64_t recoveries)
{
    struct signer_health health = { .journal_usable = true, .journal_bytes = 4096, .queue = 3, .token_count = 2 };
    if (signed_ > 0) {
        health.counts[health.count_count++] = (struct operation_count){
            .op = WIRE_SIGN, .purpose = KEY_PURPOSE_CODESIGN, .outcome = OP_OUTCOME_OK, .count = signed_
        };
    }
    if (late > 0) {
        health.counts[health.count_count++] = (struct operation_count){
            .op = WIRE_SIGN, .purpose = KEY_PURPOSE_TSA, .outcome = OP_OUTCOME_LATE, .count = late
        };
    }
    health.refusals[2] = refusals;
    health.tokens[1] = (struct token_health){
        .name = { "backup" },
        .state = SIGNER_DEGRADED,
        .sessions = 4,
        .in_use = 2,
        .set_aside = 1,
        .recoveries = recoveries,
    };
    signer_metrics_take(metrics, &health);
}

static void what_is_out_of_range_is_left_out(void **state)
{
    (void)state;
    struct signer_health health = { .count_count = 1, .journal_usable = true };
    health.counts[0] = (struct operation_count){ .op = WIRE_OP_COUNT, .purpose = KEY_PURPOSE_COUNT, .count = 9 };
    signer_metrics_take(metrics, &health);
    assert_null(strstr(print(), "svc_signer_operations_total{"));
}

static void sums_go_on_when_the_signer_begins_anew(void **state)
{
    (void)state;
    take(10, 2, 5, 1);
    expect(SIGNED("10"));
    take(12, 2, 5, 1);
    expect(SIGNED("12"));
    expect(REFUSED("2"));
    expect("svc_signer_module_refusals_total{class=\"session\"} 5");
    expect("svc_signer_recoveries_total{token=\"backup\"} 1");
    take(3, 2, 5, 1); /* one is smaller: another process, which has done all of this */
    expect(SIGNED("15"));
    expect(REFUSED("4"));
    expect("svc_signer_module_refusals_total{class=\"session\"} 10");
    expect("svc_signer_recoveries_total{token=\"backup\"} 2");
    take(3, 2, 5, 1);
    expect(SIGNED("15"));
    take(4, 0, 5, 1); /* one is not there yet: another process again, though nothing is smaller */
    expect(SIGNED("19"));
    expect(REFUSED("4"));
    take(4, 1, 5, 1);
    expect(REFUSED("5"));
}

static void gauges_show_the_last_sample_and_nothing_while_the_signer_is_gone(void **state)
{
    (void)state;
    take(20, 20, 20, 20);
    expect("svc_signer_sessions_open{token=\"default\"} 0");
    expect("svc_signer_sessions_open{token=\"backup\"} 4");
    expect("svc_signer_sessions_in_use{token=\"backup\"} 2");
    expect("svc_signer_sessions_set_aside{token=\"backup\"} 1");
    expect("svc_signer_token_state{token=\"backup\",state=\"ok\"} 0");
    expect("svc_signer_token_state{token=\"backup\",state=\"degraded\"} 1");
    expect("svc_signer_queue_requests 3");
    expect("svc_signer_journal_bytes 4096");
    expect("svc_signer_journal_usable 1");
    signer_metrics_take(metrics, NULL);
    expect("svc_signer_sessions_open{token=\"backup\"} NaN");
    expect("svc_signer_token_state{token=\"backup\",state=\"degraded\"} NaN");
    expect("svc_signer_journal_usable NaN");
}

static void words_name_what_ails_the_signer(void **state)
{
    (void)state;
    struct signer_health health = { .journal_usable = true };
    assert_string_equal(signer_word(&health), "ok");
    health.state = SIGNER_DEGRADED;
    assert_string_equal(signer_word(&health), "degraded");
    health.journal_usable = false;
    assert_string_equal(signer_word(&health), "journal_unusable");
    health.state = SIGNER_DOWN;
    assert_string_equal(signer_word(&health), "down");
    health.token_count = 2;
    health.tokens[1].state = SIGNER_DOWN;
    health.journal_usable = true;
    assert_string_equal(signer_word(&health), "degraded");
}

static int set_up(void **state)
{
    (void)state;
    return FAULTED(metrics_new(&metrics)) ? -1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    metrics_free(metrics);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_out_of_range_is_left_out),
        cmocka_unit_test(sums_go_on_when_the_signer_begins_anew),
        cmocka_unit_test(gauges_show_the_last_sample_and_nothing_while_the_signer_is_gone),
        cmocka_unit_test(words_name_what_ails_the_signer),
    };
    return cmocka_run_group_tests_name("signer_metrics", tests, set_up, tear_down);
}
