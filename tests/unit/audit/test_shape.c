/* What an export's lines and statements look like, to the byte: a verifier renders them again, so they may never
 * change.
 */
#include "testlib.h"

#include "api/audit/shape_record.h"
#include "api/audit/statement.h"
#include "appliance/base/codec.h"

/* Everything that any of the shapes escapes. */
#define SUBJECT_JSON "=b\\u0001\\\"\xc3\xb6,|\\\\\\n="
#define BEFORE       "{\"actor\":{\"roles\":[\"ci\",\"op\"],\"subject\":\"" SUBJECT_JSON "\"},\"data\":{\"k\":\"a=b|c\"},"
#define BEHIND                                                                                          \
    "\"event_id\":\"e1\",\"lane\":\"keys\",\"schema_version\":2,\"sequence\":7,\"tenant_id\":\"acme\"," \
    "\"time\":\"2026-11-21T03:50:36.123456Z\",\"trace_id\":\"t1\",\"type\":\"key.csr_failed\"}"
#define RECORD BEFORE BEHIND
#define CHAIN  "0101010101010101010101010101010101010101010101010101010101010101"

static struct op *op;
static struct sha256 chain;

static int begin(void **state)
{
    (void)state;
    memset(chain.at, 1, sizeof(chain.at));
    return FAULTED(op_new("test", (struct tenant_id){ "acme" }, 60000, &op)) ? 1 : 0;
}

static int end(void **state)
{
    (void)state;
    op_free(op);
    return 0;
}

static void check_line(enum audit_shape shape, const char *record, const char *wanted)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(AUDIT_LINE_MAX);
    const char *text = NULL;
    assert_fault(audit_shape_record(op, shape, span_text(record), &chain, &out), NONE);
    assert_fault(buf_cstr(&out, &text), NONE);
    assert_string_equal(text, wanted);
}

static void what_is_no_record_makes_no_line(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "{}",
        "[]",
        RECORD " ",
        " " RECORD,
        BEFORE " " BEHIND,
        "{\"actor\":{\"roles\":[],\"subject\":\"a\"},\"data\":[]," BEHIND,
        "{\"actor\":{\"roles\":[],\"subject\":\"a\"},\"data\":{\"a\":\"}," BEHIND,
        "{\"actor\":{\"roles\":[],\"subject\":\"a\"},\"data\":{\"a\":[}," BEHIND,
        "{\"actor\":{\"roles\":[],\"subject\":\"\\u0041\"},\"data\":{}," BEHIND,
        "{\"actor\":{\"roles\":[],\"subject\":\"\\u001F\"},\"data\":{}," BEHIND,
        "{\"actor\":{\"roles\":[],\"subject\":\"\\/\"},\"data\":{}," BEHIND,
        "{\"actor\":{\"roles\":[],\"subject\":\"a\nb\"},\"data\":{}," BEHIND,
        "{\"actor\":{\"roles\":[],\"subject\":\"a\\\"},\"data\":{}," BEHIND,
        "{\"actor\":{\"roles\":[\"1\",\"2\",\"3\",\"4\",\"5\",\"6\",\"7\",\"8\",\"9\"],\"subject\":\"a\"},\"data\":{}," BEHIND,
        "{\"actor\":{\"subject\":\"a\",\"roles\":[]},\"data\":{}," BEHIND,
        BEFORE "\"event_id\":\"e1\",\"lane\":\"keys\",\"schema_version\":2,\"sequence\":07,\"tenant_id\":\"acme\","
               "\"time\":\"2026-11-21T03:50:36.123456Z\",\"trace_id\":\"t1\",\"type\":\"x\"}",
        BEFORE "\"event_id\":\"e1\",\"lane\":\"keys\",\"schema_version\":2,\"sequence\":7,\"tenant_id\":\"acme\","
               "\"time\":\"2026-11-21T03:50:36.12Z\",\"trace_id\":\"t1\",\"type\":\"x\"}",
        BEFORE "\"event_id\":\"e1\",\"lane\":\"keys\",\"schema_version\":2,\"sequence\":-7,\"tenant_id\":\"acme\","
               "\"time\":\"2026-11-21T03:50:36.123456Z\",\"trace_id\":\"t1\",\"type\":\"x\"}",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        CLEANUP(buf_free) struct buf out = BUF_INIT(AUDIT_LINE_MAX);
        struct audit_record record;
        const char *wrong = NULL;
        if (audit_record_read(op->arena, span_text(bad[i]), &record, &wrong).code != FAULT_BAD_ARGUMENT) {
            fail_msg("taken: %s", bad[i]);
        }
        assert_non_null(wrong);
        assert_fault(audit_shape_record(op, AUDIT_CSV, span_text(bad[i]), &chain, &out), INTERNAL);
        assert_int_equal(out.len, 0);
    }
}

/* Every beginning of a record, exactly sized, so that a read beyond it is seen. */
static void a_record_that_is_cut_anywhere_is_none(void **state)
{
    (void)state;
    for (size_t len = 0; len < sizeof(RECORD) - 1; len++) {
        struct audit_record record;
        char *cut = test_malloc(len + 1);
        memcpy(cut, RECORD, len);
        assert_fault(audit_record_read(op->arena, span_of(cut, len), &record, NULL), BAD_ARGUMENT);
        test_free(cut);
    }
}

static void lines_are_these_bytes(void **state)
{
    (void)state;
    check_line(AUDIT_NDJSON, RECORD, "{\"chain\":\"" CHAIN "\",\"record\":" RECORD "}\n");
    check_line(
        AUDIT_CSV, RECORD,
        "7,2026-11-21T03:50:36.123456Z,key.csr_failed,\"'=b?\"\"\xc3\xb6,|\\?=\",ci op,e1,keys,t1,"
        "\"{\"\"actor\"\":{\"\"roles\"\":[\"\"ci\"\",\"\"op\"\"],\"\"subject\"\":\"\"=b\\u0001\\\"\"\xc3\xb6,|\\\\\\n=\"\"},"
        "\"\"data\"\":{\"\"k\"\":\"\"a=b|c\"\"},\"\"event_id\"\":\"\"e1\"\",\"\"lane\"\":\"\"keys\"\",\"\"schema_version\"\":2,"
        "\"\"sequence\"\":7,\"\"tenant_id\"\":\"\"acme\"\",\"\"time\"\":\"\"2026-11-21T03:50:36.123456Z\"\","
        "\"\"trace_id\"\":\"\"t1\"\",\"\"type\"\":\"\"key.csr_failed\"\"}\"," CHAIN "\r\n");
    check_line(
        AUDIT_CEF, RECORD,
        "CEF:0|svc|svc|1|key.csr_failed|Key csr failed|5|rt=1795233036123 externalId=e1 suser=\\=b?\"\xc3\xb6,|\\\\?\\= "
        "outcome=failure cn1Label=sequence cn1=7 cs2Label=chain cs2=" CHAIN " cs3Label=roles cs3=ci op cs4Label=lane "
        "cs4=keys cs5Label=trace_id cs5=t1 cs6Label=tenant_id cs6=acme cs1Label=record "
        "cs1={\"actor\":{\"roles\":[\"ci\",\"op\"],\"subject\":\"\\=b\\\\u0001\\\\\"\xc3\xb6,|\\\\\\\\\\\\n\\=\"},"
        "\"data\":{\"k\":\"a\\=b|c\"}," BEHIND "\n");
    check_line(
        AUDIT_OCSF, RECORD,
        "{\"activity_id\":99,\"activity_name\":\"Other\",\"actor\":{\"user\":{\"groups\":[{\"name\":\"ci\"},{\"name\":\"op\"}],"
        "\"name\":\"" SUBJECT_JSON "\"}},\"api\":{\"operation\":\"key.csr_failed\",\"service\":{\"name\":\"svc\"},"
        "\"version\":\"2\"},\"category_name\":\"Application Activity\",\"category_uid\":6,\"class_name\":\"API Activity\","
        "\"class_uid\":6003,\"message\":\"Key csr failed\",\"metadata\":{\"correlation_uid\":\"t1\",\"log_name\":\"keys\","
        "\"product\":{\"name\":\"svc\",\"vendor_name\":\"svc\"},\"sequence\":7,\"tenant_uid\":\"acme\",\"uid\":\"e1\","
        "\"version\":\"1.3.0\"},\"raw_data\":\"{\\\"actor\\\":{\\\"roles\\\":[\\\"ci\\\",\\\"op\\\"],\\\"subject\\\":\\\"=b\\\\u0001"
        "\\\\\\\"\xc3\xb6,|\\\\\\\\\\\\n=\\\"},\\\"data\\\":{\\\"k\\\":\\\"a=b|c\\\"},\\\"event_id\\\":\\\"e1\\\",\\\"lane\\\":\\\"keys\\\","
        "\\\"schema_version\\\":2,\\\"sequence\\\":7,\\\"tenant_id\\\":\\\"acme\\\",\\\"time\\\":\\\"2026-11-21T03:50:36.123456Z\\\","
        "\\\"trace_id\\\":\\\"t1\\\",\\\"type\\\":\\\"key.csr_failed\\\"}\",\"severity\":\"Medium\",\"severity_id\":3,"
        "\"src_endpoint\":{\"name\":\"unknown\"},\"status\":\"Failure\",\"status_id\":2,\"time\":1795233036123,"
        "\"type_name\":\"API Activity: Other\",\"type_uid\":600399,\"unmapped\":{\"chain\":\"" CHAIN "\"}}\n");
}

/* No roles and no trace: pairs and members without a value are left out, columns stay. */
static void what_is_empty_is_left_out(void **state)
{
    (void)state;
#define LEAN                                                                                                          \
    "{\"actor\":{\"roles\":[],\"subject\":\"a\"},\"data\":{},\"event_id\":\"e\",\"lane\":\"l\",\"schema_version\":1," \
    "\"sequence\":1,\"tenant_id\":\"t\",\"time\":\"2026-11-21T03:50:36.123456Z\",\"trace_id\":\"\",\"type\":\"tenant.created\"}"
    CLEANUP(buf_free) struct buf out = BUF_INIT(AUDIT_LINE_MAX);
    check_line(AUDIT_CEF, LEAN,
               "CEF:0|svc|svc|1|tenant.created|Tenant created|2|rt=1795233036123 externalId=e suser=a outcome=success "
               "cn1Label=sequence cn1=1 cs2Label=chain cs2=" CHAIN " cs4Label=lane cs4=l cs6Label=tenant_id cs6=t "
               "cs1Label=record cs1=" LEAN "\n");
    assert_fault(audit_shape_record(op, AUDIT_CSV, span_text(LEAN), &chain, &out), NONE);
    assert_non_null(memmem(out.at, out.len, ",a,,e,l,,\"{", 11));
    buf_clear(&out);
    assert_fault(audit_shape_record(op, AUDIT_OCSF, span_text(LEAN), &chain, &out), NONE);
    assert_null(memmem(out.at, out.len, "groups", 6));
    assert_null(memmem(out.at, out.len, "correlation_uid", 15));
    assert_non_null(memmem(out.at, out.len, "\"type_uid\":600301,", 18));
}

static void check_trailer(enum audit_shape shape, const char *jws, const char *wanted)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(AUDIT_LINE_MAX);
    const char *text = NULL;
    assert_fault(audit_shape_trailer(shape, span_text(jws), &out), NONE);
    assert_fault(buf_cstr(&out, &text), NONE);
    assert_string_equal(text, wanted);
}

static void trailers_and_beginnings_are_these_bytes(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf out = BUF_INIT(4096);
    check_trailer(AUDIT_NDJSON, "a.b.c", "{\"trailer\":\"a.b.c\"}\n");
    check_trailer(AUDIT_CSV, "a.b.c", "trailer,,,,,,,,a.b.c,\r\n");
    check_trailer(AUDIT_CEF, "a.b.c", "CEF:0|svc|svc|1|svc.audit.trailer|Audit trailer|2|cs1Label=trailer cs1=a.b.c\n");
    /* {"exported_at":"2026-11-21T03:50:36.123456Z"} */
    check_trailer(
        AUDIT_OCSF, "a.eyJleHBvcnRlZF9hdCI6IjIwMjYtMTEtMjFUMDM6NTA6MzYuMTIzNDU2WiJ9.c",
        "{\"activity_id\":2,\"activity_name\":\"Read\",\"actor\":{\"user\":{\"name\":\"svc\"}},"
        "\"api\":{\"operation\":\"svc.audit.trailer\",\"service\":{\"name\":\"svc\"}},"
        "\"category_name\":\"Application Activity\",\"category_uid\":6,\"class_name\":\"API Activity\","
        "\"class_uid\":6003,\"message\":\"Audit trailer\",\"metadata\":{\"product\":{\"name\":\"svc\","
        "\"vendor_name\":\"svc\"},\"version\":\"1.3.0\"},\"severity\":\"Informational\",\"severity_id\":1,"
        "\"src_endpoint\":{\"name\":\"unknown\"},\"status\":\"Success\",\"status_id\":1,\"time\":1795233036123,"
        "\"type_name\":\"API Activity: Read\",\"type_uid\":600302,\"unmapped\":{\"trailer\":"
        "\"a.eyJleHBvcnRlZF9hdCI6IjIwMjYtMTEtMjFUMDM6NTA6MzYuMTIzNDU2WiJ9.c\"}}\n");
    static const char *const bad[] = { "", "a", "a.b", "a.!.c", "a.e30.c", "a..c" };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_true(FAULTED(audit_shape_trailer(AUDIT_OCSF, span_text(bad[i]), &out)));
    }
    buf_clear(&out);
    for (int shape = 0; shape < AUDIT_SHAPES; shape++) {
        enum audit_shape found = AUDIT_SHAPES;
        assert_true(audit_shape_named(audit_shape_name((enum audit_shape)shape), &found));
        assert_int_equal(found, shape);
        assert_fault(audit_shape_begin((enum audit_shape)shape, &out), NONE);
    }
    assert_true(
        span_equal_text(buf_span(&out), "sequence,time,type,actor,roles,event_id,lane,trace_id,record,chain\r\n"));
}

static void check_statement(const struct audit_statement *statement, const char *between, const char *wanted)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(4096);
    const char *text = NULL;
    assert_fault(audit_statement_begin(statement, &out), NONE);
    assert_fault(buf_text(&out, between), NONE);
    assert_fault(audit_statement_end(statement, &out), NONE);
    assert_fault(buf_cstr(&out, &text), NONE);
    assert_string_equal(text, wanted);
}

static void statements_are_these_bytes(void **state)
{
    (void)state;
#define ZEROS "0000000000000000000000000000000000000000000000000000000000000000"
    struct audit_statement statement = { .shape = AUDIT_JWS,
                                         .tenant = { "acme" },
                                         .generation = 2,
                                         .first_sequence = 3,
                                         .last_sequence = 4,
                                         .count = 2,
                                         .head = chain,
                                         .exported_at = "2026-11-21T03:50:36.123456Z",
                                         .tree_size = 4,
                                         .tree_root = chain };
#define FIRST_HALF                                                    \
    "{\"chain_head\":\"" CHAIN "\",\"chain_seed\":\"" ZEROS           \
    "\",\"count\":2,\"exported_at\":\"2026-11-21T03:50:36.123456Z\"," \
    "\"first_sequence\":3,\"format\":"
#define TREE "\"tree_root\":\"" CHAIN "\",\"tree_size\":4}"
    check_statement(&statement, "{}",
                    FIRST_HALF "\"svc.audit.export.v2\",\"generation\":2,\"last_sequence\":4,\"records\":[{}],"
                               "\"tenant_id\":\"acme\"," TREE);
    statement.timestamp = span_of("\x30\x01\xff", 3);
    check_statement(&statement, "",
                    FIRST_HALF "\"svc.audit.export.v2\",\"generation\":2,\"last_sequence\":4,\"records\":[],"
                               "\"tenant_id\":\"acme\",\"timestamp\":\"MAH/\"," TREE);
    statement.shape = AUDIT_OCSF;
    check_statement(&statement, "",
                    FIRST_HALF "\"svc.audit.stream.v1\",\"generation\":2,\"last_sequence\":4,\"shape\":\"ocsf\","
                               "\"stream_sha256\":\"" ZEROS "\",\"tenant_id\":\"acme\",\"timestamp\":\"MAH/\"," TREE);
    statement.shape = AUDIT_JWS;
    statement.first_format = true;
    check_statement(&statement, "",
                    FIRST_HALF "\"svc.audit.export.v1\",\"last_sequence\":4,\"records\":[],\"tenant_id\":\"acme\"}");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_record_makes_no_line),
        cmocka_unit_test(a_record_that_is_cut_anywhere_is_none),
        cmocka_unit_test(lines_are_these_bytes),
        cmocka_unit_test(what_is_empty_is_left_out),
        cmocka_unit_test(trailers_and_beginnings_are_these_bytes),
        cmocka_unit_test(statements_are_these_bytes),
    };
    return cmocka_run_group_tests_name("audit_shape", tests, begin, end);
}
