#include "appliance/base/json.h"
#include "testlib.h"

#include <sys/wait.h>
#include <unistd.h>

static void text_that_is_not_utf8_is_refused_and_stays_refused(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf out = BUF_INIT(1000);
    struct jout jout;
    jout_init(&jout, &out);
    jout_array(&jout);
    jout_text(&jout, "\xff");
    jout_text(&jout, "fine");
    jout_array_end(&jout);
    assert_fault(jout_end(&jout), JSON_SYNTAX);
}

static void what_does_not_fit_is_told_at_the_end(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf out = BUF_INIT(10);
    struct jout jout;
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key_text(&jout, "key", "a long text");
    jout_key_int(&jout, "k", 1);
    jout_object_end(&jout);
    assert_fault(jout_end(&jout), TOO_LARGE);
}

static void everything_is_written_compact(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf out = BUF_INIT(1000);
    struct jout jout;
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key_text(&jout, "t", "\"\\/\b\f\n\r\t\x01\x1f \x7f\xc3\xa9");
    jout_key_text(&jout, "none", NULL);
    jout_key_int(&jout, "min", INT64_MIN);
    jout_key_bool(&jout, "yes", true);
    jout_key_base64(&jout, "b", span_text("f"));
    jout_key_hex(&jout, "h", span_text("f"));
    jout_key_time(&jout, "at", 0);
    jout_key_raw(&jout, "raw", span_text("[1]"));
    jout_key(&jout, "list");
    jout_array(&jout);
    jout_object(&jout);
    jout_object_end(&jout);
    jout_array(&jout);
    jout_array_end(&jout);
    jout_int(&jout, 1);
    jout_span_text(&jout, (struct span){ 0 });
    jout_null(&jout);
    jout_bool(&jout, false);
    jout_array_end(&jout);
    jout_key_int(&jout, "last", 0);
    jout_object_end(&jout);
    assert_fault(jout_end(&jout), NONE);
    assert_span_text(buf_span(&out), "{\"t\":\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0001\\u001f \x7f\xc3\xa9\",\"none\":null,"
                                     "\"min\":-9223372036854775808,\"yes\":true,\"b\":\"Zg==\",\"h\":\"66\","
                                     "\"at\":\"1970-01-01T00:00:00.000000Z\",\"raw\":[1],"
                                     "\"list\":[{},[],1,\"\",null,false],\"last\":0}");
}

static void value_without_key(struct jout *jout)
{
    jout_object(jout);
    jout_int(jout, 1);
}

static void key_in_an_array(struct jout *jout)
{
    jout_array(jout);
    jout_key(jout, "k");
}

static void key_after_key(struct jout *jout)
{
    jout_object(jout);
    jout_key(jout, "k");
    jout_key(jout, "k");
}

static void wrong_bracket(struct jout *jout)
{
    jout_object(jout);
    jout_array_end(jout);
}

static void left_open(struct jout *jout)
{
    jout_object(jout);
    IGNORE(jout_end(jout));
}

static void two_roots(struct jout *jout)
{
    jout_int(jout, 1);
    jout_int(jout, 2);
}

static void misuse_ends_the_process(void **state)
{
    (void)state;
    void (*const misuses[])(struct jout *jout) = { value_without_key, key_in_an_array, key_after_key,
                                                   wrong_bracket,     left_open,       two_roots };
    for (size_t i = 0; i < COUNT_OF(misuses); i++) {
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            (void)close(STDERR_FILENO);
            struct buf out = BUF_INIT(100);
            struct jout jout;
            jout_init(&jout, &out);
            misuses[i](&jout);
            _exit(0);
        }
        int status = 0;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_that_is_not_utf8_is_refused_and_stays_refused),
        cmocka_unit_test(what_does_not_fit_is_told_at_the_end),
        cmocka_unit_test(misuse_ends_the_process),
        cmocka_unit_test(everything_is_written_compact),
    };
    return cmocka_run_group_tests_name("json_out", tests, NULL, NULL);
}
