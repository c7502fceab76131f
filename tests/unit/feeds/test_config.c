/* What a feed may be told: refusals first. And what collectors answer. */
#include "feed_sample.h"

static struct op *op;
static struct feeds *feeds;

static struct fault allow(const char *const *entries, size_t count, struct feeds **ret_feeds)
{
    struct config config = { .feeds_allow = { (const char **)(uintptr_t)entries, count } };
    op->note = (struct fault_note){ 0 };
    return feeds_new(op, &config, ret_feeds);
}

static int set_up(void **state)
{
    (void)state;
    static const char *const entries[] = {
        "hec.example:8088=HEC_TOKEN", "acme/only.example=HEC_TOKEN",        "logs.example",
        "login.example=AZ_ID+AZ_KEY", "dce.example=AZ_KEY+AZ_ID+HEC_TOKEN", "127.0.0.1:80=HEC_TOKEN",
    };
    struct tenant_id tenant = { "acme" };
    return FAULTED(op_new("test", tenant, 600000, &op)) || FAULTED(allow(entries, COUNT_OF(entries), &feeds)) ? 1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    feeds_free(TAKE(feeds));
    op_free(TAKE(op));
    return 0;
}

static struct fault check(const char *json)
{
    struct feed_body body = { 0 };
    const struct feed_kind *kind = NULL;
    struct feed_needs needs;
    op->note = (struct fault_note){ 0 };
    TRY(jin_decode(op, span_text(json), feed_body_fields, FEED_BODY_FIELDS, &body));
    return feed_config_check(op, feeds, &body.config, &kind, &needs);
}

#define HEC "\"kind\":\"hec\",\"url\":\"https://hec.example:8088\",\"credential\":\"env:HEC_TOKEN\""
#define AZURE                                                                                   \
    "\"kind\":\"azure-monitor\",\"url\":\"https://dce.example\",\"credential\":\"env:AZ_KEY\"," \
    "\"client_id\":\"env:AZ_ID\",\"stream\":\"Custom-A_CL\",\"rule_id\":\"dcr-1\","

static void a_list_entry_that_is_not_clear_stops_the_start(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",        "=NAME", "host=",        "host=name",    "host=A++B", "host=A+", "host:0", "host:70000", "host:",
        "host:8x", "a b",   "Tenant_/host", "https://host", "[::1",      "host=1A", "/host",  "host=A=B",   "[::1]x",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct feeds *made = NULL;
        if (allow(&bad[i], 1, &made).code != FAULT_CONFIG) {
            fail_msg("'%s' was taken", bad[i]);
        }
    }
    static const char *const good[] = { "host", "HOST:1=A", "[::1]:6514=A_1+B", "t-1/h.example=X" };
    struct feeds *made = NULL;
    assert_ok(allow(good, COUNT_OF(good), &made));
    feeds_free(made);
}

static void configurations_that_are_not_as_they_must_be_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *json, *code;
    } rows[] = {
        { "{}", "json_field" },
        { "{\"kind\":\"kafka\",\"url\":\"https://hec.example:8088\"}", "audit_feed_config" },
        { "{\"kind\":\"hec\",\"url\":\"https://hec.example:8088\"}", "json_field" },
        { "{" HEC ",\"token\":\"secret\"}", "json_field" },
        { "{" HEC ",\"stream\":\"x\"}", "json_field" },
        { "{" HEC ",\"acknowledgement\":\"maybe\"}", "audit_feed_config" },
        { "{" HEC ",\"ca_pem\":\"nonsense\"}", "audit_feed_config" },
        { "{\"kind\":\"hec\",\"url\":\"http://hec.example:8088\",\"credential\":\"env:HEC_TOKEN\"}",
          "audit_feed_config" },
        { "{\"kind\":\"hec\",\"url\":\"https://u@hec.example:8088\",\"credential\":\"env:HEC_TOKEN\"}",
          "audit_feed_config" },
        { "{\"kind\":\"hec\",\"url\":\"https://hec.example:8088/?x=1\",\"credential\":\"env:HEC_TOKEN\"}",
          "audit_feed_config" },
        { "{\"kind\":\"hec\",\"url\":\"tls://hec.example:8088\",\"credential\":\"env:HEC_TOKEN\"}",
          "audit_feed_config" },
        { "{\"kind\":\"hec\",\"url\":\"https://hec.example:8088\",\"credential\":\"HEC_TOKEN\"}", "audit_feed_config" },
        { "{\"kind\":\"hec\",\"url\":\"https://hec.example:8088\",\"credential\":\"env:hec\"}", "audit_feed_config" },
        { "{\"kind\":\"hec\",\"url\":\"https://hec.example:8088\",\"credential\":\"env:AZ_KEY\"}",
          "audit_feed_destination" },
        { "{\"kind\":\"hec\",\"url\":\"https://hec.example\",\"credential\":\"env:HEC_TOKEN\"}",
          "audit_feed_destination" },
        { "{\"kind\":\"hec\",\"url\":\"https://hec.example.evil:8088\",\"credential\":\"env:HEC_TOKEN\"}",
          "audit_feed_destination" },
        { "{\"kind\":\"hec\",\"url\":\"https://logs.example\",\"credential\":\"env:HEC_TOKEN\"}",
          "audit_feed_destination" },
        { "{" AZURE "\"token_url\":\"https://elsewhere.example/t\"}", "audit_feed_destination" },
        { "{" AZURE "\"token_url\":\"http://login.example/t\"}", "audit_feed_config" },
        { "{\"kind\":\"azure-monitor\",\"url\":\"https://dce.example\",\"credential\":\"env:AZ_KEY\",\"client_id\":"
          "\"env:AZ_ID\",\"stream\":\"a/b\",\"rule_id\":\"dcr-1\",\"token_url\":\"https://login.example/t\"}",
          "audit_feed_config" },
        { "{\"kind\":\"syslog\",\"url\":\"https://logs.example\"}", "audit_feed_config" },
        { "{\"kind\":\"syslog\",\"url\":\"tls://logs.example/x\"}", "audit_feed_config" },
        { "{\"kind\":\"syslog\",\"url\":\"tls://logs.example:514\"}", "audit_feed_destination" },
        { "{\"kind\":\"syslog\",\"url\":\"tls://logs.example\",\"source_host\":\"a b\"}", "audit_feed_config" },
        { "{\"kind\":\"syslog\",\"url\":\"tls://logs.example\",\"message_max\":100}", "json_field" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct fault fault = check(rows[i].json);
        if (strcmp(fault_row(fault.code)->text, rows[i].code) != 0 || op->note.detail[0] == '\0') {
            fail_msg("%s: wanted %s, got %s (%s)", rows[i].json, rows[i].code, fault_row(fault.code)->text,
                     op->note.detail);
        }
    }
}

static void good_configurations_are_taken_and_come_back_as_they_were(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf text = BUF_INIT(65536);
    CLEANUP(buf_free) struct buf canonical = BUF_INIT(65536);
    struct feed_body body = { 0 };
    struct feed_config config;
    struct jout jout;
    assert_ok(check("{" HEC "}"));
    assert_ok(check("{\"kind\":\"hec\",\"url\":\"https://ONLY.example/x\",\"credential\":\"env:HEC_TOKEN\"}"));
    assert_ok(check("{\"kind\":\"hec\",\"url\":\"http://127.0.0.1\",\"credential\":\"env:HEC_TOKEN\"}"));
    assert_ok(check("{" AZURE "\"token_url\":\"https://login.example/t\"}"));
    assert_ok(check("{\"kind\":\"syslog\",\"url\":\"tls://logs.example\",\"client_certificate\":true}"));
    const char *json =
        "{\"client_certificate\":true,\"enterprise_number\":57264,\"kind\":\"syslog\",\"message_max\":4096,"
        "\"url\":\"tls://logs.example\"}";
    assert_ok(jin_decode(op, span_text(json), feed_body_fields, FEED_BODY_FIELDS, &body));
    jout_init(&jout, &text);
    feed_config_print(&body.config, &jout);
    assert_ok(jout_end(&jout));
    assert_span_text(buf_span(&text), json);
    assert_ok(json_canonical(buf_span(&text), &canonical));
    assert_true(span_equal(buf_span(&text), buf_span(&canonical)));
    assert_ok(feed_config_read(op, buf_span(&text), &config));
    assert_int_equal(config.enterprise_number, 57264);
}

static void a_destination_of_one_tenant_is_none_of_another(void **state)
{
    (void)state;
    struct tenant_id before = op->tenant;
    op->tenant = (struct tenant_id){ "umbrella" };
    assert_fault(check("{\"kind\":\"hec\",\"url\":\"https://only.example\",\"credential\":\"env:HEC_TOKEN\"}"),
                 FEED_DESTINATION);
    assert_ok(check("{" HEC "}"));
    op->tenant = before;
}

/* ---- answers ---- */

static void answers_of_no_collector_are_refused(void **state)
{
    (void)state;
    struct hec_answer hec;
    struct azure_token_answer token;
    bool indexed = false;
    static const char *const bad[] = { "",
                                       "[]",
                                       "<html>",
                                       "{\"code\":\"0\"}",
                                       "{\"code\":-1}",
                                       "{\"code\":1e30}",
                                       "{\"code\":0,\"code\":0}",
                                       "{\"code\":0.5}" };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_int_not_equal(hec_answer_read(op, span_text(bad[i]), &hec).code, FAULT_NONE);
    }
    static const char *const bad_acks[] = { "{}",
                                            "{\"acks\":[true]}",
                                            "{\"acks\":{}}",
                                            "{\"acks\":{\"4\":true}}",
                                            "{\"acks\":{\"3\":1}}",
                                            "{\"acks\":{\"3\":\"true\"}}" };
    for (size_t i = 0; i < COUNT_OF(bad_acks); i++) {
        assert_int_not_equal(hec_ack_read(op, span_text(bad_acks[i]), "3", &indexed).code, FAULT_NONE);
        assert_false(indexed);
    }
    static const char *const bad_tokens[] = {
        "{}",
        "{\"access_token\":\"x\"}",
        "{\"access_token\":\"\",\"token_type\":\"Bearer\"}",
        "{\"access_token\":\"a b\",\"token_type\":\"Bearer\"}",
        "{\"access_token\":\"x\",\"token_type\":\"mac\"}",
        "{\"access_token\":\"x\",\"token_type\":\"Bearer\",\"expires_in\":-5}",
        "{\"access_token\":\"x\\r\\ny\",\"token_type\":\"Bearer\"}",
        "{\"access_token\":7,\"token_type\":\"Bearer\"}",
    };
    for (size_t i = 0; i < COUNT_OF(bad_tokens); i++) {
        assert_int_not_equal(azure_token_read(op, span_text(bad_tokens[i]), &token).code, FAULT_NONE);
    }
}

static void answers_of_collectors_are_read(void **state)
{
    (void)state;
    struct hec_answer hec;
    struct azure_token_answer token;
    bool indexed = false;
    assert_ok(hec_answer_read(op, span_text("{\"text\":\"Success\",\"code\":0,\"ackId\":12}"), &hec));
    assert_int_equal(hec.code, 0);
    assert_int_equal(hec.ack_id, 12);
    assert_ok(hec_answer_read(op, span_text("{\"text\":\"No data\",\"code\":5}"), &hec));
    assert_int_equal(hec.ack_id, -1);
    assert_ok(hec_ack_read(op, span_text("{\"acks\":{\"11\":false,\"12\":true}}"), "12", &indexed));
    assert_true(indexed);
    assert_ok(hec_ack_read(op, span_text("{\"acks\":{\"11\":false,\"12\":true}}"), "11", &indexed));
    assert_false(indexed);
    const char *body =
        "{\"token_type\":\"Bearer\",\"expires_in\":3599,\"ext_expires_in\":3599,\"access_token\":\"ey.J\"}";
    assert_ok(azure_token_read(op, span_text(body), &token));
    assert_int_equal(token.expires_s, 3599);
    assert_span_text(token.token, "ey.J");
}

static void a_request_id_is_taken_only_when_it_is_harmless(void **state)
{
    (void)state;
    struct feed_result result = { .error = FEED_FINE };
    feed_request_id_take(&result, "a b");
    feed_request_id_take(&result, "x\x1b[31m");
    feed_request_id_take(&result, "0123456789012345678901234567890123456789012345678901234567890123456");
    assert_string_equal(result.request_id, "");
    feed_request_id_take(&result, "6f1c-22:a/b.c_D");
    assert_string_equal(result.request_id, "6f1c-22:a/b.c_D");
}

static void what_a_status_means_is_retry_or_end(void **state)
{
    (void)state;
    static const struct {
        long status;
        enum feed_error error;
        bool final;
    } rows[] = {
        { 400, FEED_REJECTED, true }, { 404, FEED_REJECTED, true }, { 413, FEED_REJECTED, true },
        { 429, FEED_BUSY, false },    { 503, FEED_BUSY, false },    { 500, FEED_FAULTY, false },
        { 302, FEED_ANSWER, false },  { 408, FEED_FAULTY, false },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_int_equal(feed_status_error(rows[i].status), rows[i].error);
        assert_int_equal(feed_error_row(rows[i].error)->final, rows[i].final);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_list_entry_that_is_not_clear_stops_the_start),
        cmocka_unit_test(configurations_that_are_not_as_they_must_be_are_refused),
        cmocka_unit_test(good_configurations_are_taken_and_come_back_as_they_were),
        cmocka_unit_test(a_destination_of_one_tenant_is_none_of_another),
        cmocka_unit_test(answers_of_no_collector_are_refused),
        cmocka_unit_test(answers_of_collectors_are_read),
        cmocka_unit_test(a_request_id_is_taken_only_when_it_is_harmless),
        cmocka_unit_test(what_a_status_means_is_retry_or_end),
    };
    return cmocka_run_group_tests_name("feeds: configuration and answers", tests, set_up, tear_down);
}
