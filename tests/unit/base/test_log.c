#include "appliance/base/json.h"
#include "appliance/base/log.h"
#include "testlib.h"

#include <fcntl.h>
#include <unistd.h>

/* What one call wrote to stderr. */
static const char *captured(void (*call)(void))
{
    static char text[70000];
    int ends[2], kept = dup(STDERR_FILENO);
    assert_true(kept >= 0);
    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    assert_true(fcntl(ends[1], F_SETPIPE_SZ, 1 << 17) > 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    call();
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    ssize_t got = read(ends[0], text, sizeof(text) - 1);
    (void)close(ends[0]);
    (void)close(ends[1]);
    (void)close(kept);
    text[got > 0 ? got : 0] = 0;
    return text;
}

static void say_debug(void)
{
    log_write(DEBUG, "quiet");
}

static void say_forged(void)
{
    log_write(INFO, "listening", LOG_TEXT("address", "a\n{\"level\":\"fatal\"}\xff\xc3\xa9"), LOG_INT("port", 8443),
              LOG_TEXT("nothing", NULL));
}

static char long_value[5000];

static void say_long(void)
{
    struct log_pair pairs[40];
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        pairs[i] = LOG_TEXT("k", long_value);
    }
    log_write_pairs(LOG_LEVEL_ERROR, "long", pairs, COUNT_OF(pairs));
}

static void say_fault(void)
{
    struct op *op = NULL;
    assert_fault(op_new("worker", (struct tenant_id){ "acme" }, 1000, &op), NONE);
    struct fault fault = op_fail_field(op, FAULT(KEY_STATE), "/key_id", "the key is gone");
    op_note_log(op, "CKR 0x%x", 0x82);
    log_fault(LOG_LEVEL_WARN, "sign_failed", op, fault);
    op_free(op);
}

static void what_is_below_the_level_is_left_out(void **state)
{
    (void)state;
    log_setup("test", LOG_LEVEL_INFO, LOG_FORMAT_JSON);
    assert_string_equal(captured(say_debug), "");
    log_setup("test", LOG_LEVEL_DEBUG, LOG_FORMAT_JSON);
    assert_non_null(strstr(captured(say_debug), "\"quiet\""));
}

static void a_value_cannot_forge_a_record(void **state)
{
    (void)state;
    static const enum log_format formats[] = { LOG_FORMAT_JSON, LOG_FORMAT_TEXT };
    for (size_t i = 0; i < COUNT_OF(formats); i++) {
        log_setup("test", LOG_LEVEL_INFO, formats[i]);
        const char *text = captured(say_forged);
        assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
        assert_non_null(strstr(text, "?\xc3\xa9"));
        assert_null(strstr(text, "nothing"));
        assert_non_null(strstr(text, "8443"));
    }
}

static void a_json_record_is_one_object(void **state)
{
    (void)state;
    log_setup("test", LOG_LEVEL_INFO, LOG_FORMAT_JSON);
    CLEANUP(buf_free) struct buf canonical = BUF_INIT(100000);
    assert_fault(json_canonical(span_text(captured(say_forged)), &canonical), NONE);
    const char *text = NULL;
    assert_fault(buf_cstr(&canonical, &text), NONE);
    assert_non_null(strstr(text, "\"event\":\"listening\",\"level\":\"info\",\"port\":8443,\"program\":\"test\""));
}

static void long_values_are_cut_and_a_record_is_never_lost(void **state)
{
    (void)state;
    memset(long_value, 'y', sizeof(long_value) - 1);
    log_setup("test", LOG_LEVEL_INFO, LOG_FORMAT_JSON);
    assert_non_null(strstr(captured(say_long), "\"long\""));
    memset(long_value, 1, sizeof(long_value) - 1); /* six characters each when escaped */
    assert_non_null(strstr(captured(say_long), "log_record_too_large"));
}

static void a_fault_is_logged_with_its_note(void **state)
{
    (void)state;
    log_setup("test", LOG_LEVEL_INFO, LOG_FORMAT_JSON);
    const char *text = captured(say_fault);
    assert_non_null(strstr(text, "\"code\":\"key_not_active\""));
    assert_non_null(strstr(text, "\"pointer\":\"/key_id\""));
    assert_non_null(strstr(text, "\"detail\":\"the key is gone\""));
    assert_non_null(strstr(text, "\"log_detail\":\"CKR 0x82\""));
    assert_non_null(strstr(text, "\"tenant\":\"acme\""));
    assert_non_null(strstr(text, "\"trace_id\":"));
}

static void words_outside_the_lists_are_refused(void **state)
{
    (void)state;
    enum log_level level = LOG_LEVEL_WARN;
    enum log_format format = LOG_FORMAT_TEXT;
    assert_fault(log_level_parse("INFO", &level), BAD_ARGUMENT);
    assert_fault(log_level_parse("", &level), BAD_ARGUMENT);
    assert_fault(log_format_parse("xml", &format), BAD_ARGUMENT);
    assert_int_equal(level, LOG_LEVEL_WARN);
    assert_int_equal(format, LOG_FORMAT_TEXT);
    assert_fault(log_level_parse("error", &level), NONE);
    assert_fault(log_format_parse("json", &format), NONE);
    assert_int_equal(level, LOG_LEVEL_ERROR);
    assert_int_equal(format, LOG_FORMAT_JSON);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_outside_the_lists_are_refused),
        cmocka_unit_test(what_is_below_the_level_is_left_out),
        cmocka_unit_test(a_value_cannot_forge_a_record),
        cmocka_unit_test(a_json_record_is_one_object),
        cmocka_unit_test(long_values_are_cut_and_a_record_is_never_lost),
        cmocka_unit_test(a_fault_is_logged_with_its_note),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
