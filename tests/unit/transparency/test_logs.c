#include "api/transparency/internal.h"
#include "testlib.h"

#include "appliance/base/file.h"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <unistd.h>

static char folder[] = "/tmp/svc-tlogs-XXXXXX", key_file[64], rsa_file[64];
static struct op *op;

static void write_key(const char *path, EVP_PKEY *key)
{
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_int_equal(PEM_write_PUBKEY(file, key), 1);
    assert_int_equal(fclose(file), 0);
    EVP_PKEY_free(key);
}

static int set_up(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(key_file, sizeof(key_file), "%s/log.pub", folder);
    (void)snprintf(rsa_file, sizeof(rsa_file), "%s/rsa.pub", folder);
    write_key(key_file, EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256"));
    write_key(rsa_file, EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)2048));
    struct tenant_id tenant = { "acme" };
    return FAULTED(op_new("test", tenant, 60000, &op)) ? 1 : 0;
}

static int tear_down(void **state)
{
    (void)state;
    (void)unlink(key_file);
    (void)unlink(rsa_file);
    op_free(TAKE(op));
    return rmdir(folder);
}

/* @k stands for the key's file, @r for an RSA key's. */
static struct fault read_logs(const char *yaml, struct buf *why, struct transparency **ret_logs)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(65536);
    for (const char *at = yaml; *at != '\0'; at++) {
        if (at[0] == '@' && (at[1] == 'k' || at[1] == 'r')) {
            assert_fault(buf_text(&text, at[1] == 'k' ? key_file : rsa_file), NONE);
            at++;
        } else {
            assert_fault(buf_u8(&text, (uint8_t)*at), NONE);
        }
    }
    return tlogs_read(buf_span(&text), "logs.yaml", why, ret_logs);
}

#define LOG_AT(name, url) "  - name: " name "\n    kind: rekor-v1\n    url: " url "\n"
#define KEYS              "    keys:\n      - file: @k\n"

static void refused(const char *yaml, const char *says)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    CLEANUP(tlogs_freep) struct transparency *logs = NULL;
    const char *text = "";
    assert_fault(read_logs(yaml, &why, &logs), CONFIG);
    assert_fault(buf_cstr(&why, &text), NONE);
    if (strstr(text, says) == NULL || strncmp(text, "logs.yaml:", 10) != 0) {
        fail_msg("said \"%s\", not \"%s\"", text, says);
    }
}

static struct transparency *accepted(const char *yaml)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    struct transparency *logs = NULL;
    struct fault fault = read_logs(yaml, &why, &logs);
    if (FAULTED(fault)) {
        fail_msg("refused: %.*s", (int)why.len, (const char *)why.at);
    }
    return logs;
}

static void a_file_that_is_not_of_its_form_is_refused_with_its_line(void **state)
{
    (void)state;
    refused("", "a list of 1 to 64 logs is due");
    refused("logs: []\n", "a list of 1 to 64 logs is due");
    refused("logs: x\n", "a list of 1 to 64 logs is due");
    refused("log: []\n", "no such member: log");
    refused("logs:\n  - x\n", "must be a mapping");
    refused("logs:\n" LOG_AT("rekor", "https://a") "    key: x\n" KEYS, "no such member: key");
    refused("logs:\n  - name: rekor\n    url: https://a\n" KEYS, "is required: kind");
    refused("logs:\n  - name: rekor\n    kind: rekor-v3\n    url: https://a\n" KEYS, "must be rekor-v1 or rekor-v2");
    refused("logs:\n" LOG_AT("Rekor", "https://a") KEYS, "a log is named by");
}

static void a_log_without_a_pinned_key_is_refused(void **state)
{
    (void)state;
    refused("logs:\n" LOG_AT("rekor", "https://a"), "needs the list of its pinned keys");
    refused("logs:\n" LOG_AT("rekor", "https://a") "    keys: []\n", "needs the list of its pinned keys");
    refused("logs:\n" LOG_AT("rekor", "https://a") "    keys:\n      - file: /nowhere\n", "cannot be read: /nowhere");
    refused("logs:\n" LOG_AT("rekor", "https://a") "    keys:\n      - file: @r\n", "must be the PEM of a public key");
    refused("logs:\n" LOG_AT("rekor", "https://a") "    keys:\n      - file: /etc/hostname\n",
            "must be the PEM of a public key");
    refused("logs:\n" LOG_AT("rekor", "https://a") "    keys:\n      - valid_from: 2026-01-01T00:00:00Z\n",
            "is required: file");
}

static void addresses_that_lead_astray_are_refused(void **state)
{
    (void)state;
    static const char *const urls[] = {
        "http://rekor.example.com", "ftp://a", "https://", "\"https://a b\"", "https://me@a", "https://a/?x",
        "\"https://a/#x\"",         "a"
    };
    for (size_t i = 0; i < COUNT_OF(urls); i++) {
        char yaml[512];
        (void)snprintf(yaml, sizeof(yaml), "logs:\n  - name: rekor\n    kind: rekor-v1\n    url: %s\n" KEYS, urls[i]);
        refused(yaml, "must be an https:// address");
    }
}

static void windows_that_end_before_they_begin_are_refused(void **state)
{
    (void)state;
    refused("logs:\n" LOG_AT("rekor", "https://a") "    from: yesterday\n" KEYS, "must be a time such as");
    refused(
        "logs:\n" LOG_AT("rekor", "https://a") "    from: 2027-01-01T00:00:00Z\n    until: 2026-01-01T00:00:00Z\n" KEYS,
        "must be after its beginning");
    refused("logs:\n" LOG_AT("rekor", "https://a") KEYS
            "        valid_from: 2027-01-01T00:00:00Z\n        valid_until: 2027-01-01T00:00:00Z\n",
            "must be after its beginning");
}

static void a_destination_that_leads_to_two_logs_is_refused(void **state)
{
    (void)state;
    refused("logs:\n" LOG_AT("a", "https://x") KEYS LOG_AT("a", "https://y") KEYS, "two logs of one name");
    refused("logs:\n" LOG_AT("a", "https://x") KEYS LOG_AT("b", "https://x/") KEYS, "have different addresses");
    refused("logs:\n" LOG_AT("a", "https://x") "    tenants: [acme]\n" KEYS LOG_AT("b", "https://x") KEYS,
            "have different addresses");
    tlogs_free(accepted("logs:\n" LOG_AT("a", "https://x") "    tenants: [acme]\n" KEYS LOG_AT(
        "b", "https://x") "    tenants: [umbrella]\n" KEYS));
    refused("logs:\n" LOG_AT("a", "https://x") "    tenants: []\n" KEYS, "must be a list of tenants");
    refused("logs:\n" LOG_AT("a", "https://x") "    tenants: [Acme]\n" KEYS, "no tenant's id");
}

static void plain_http_is_for_this_machine_only(void **state)
{
    (void)state;
    static const char *const urls[] = { "http://127.0.0.1:3000", "http://localhost", "\"http://[::1]:80/log\"" };
    for (size_t i = 0; i < COUNT_OF(urls); i++) {
        char yaml[512];
        (void)snprintf(yaml, sizeof(yaml), "logs:\n  - name: rekor\n    kind: rekor-v1\n    url: %s\n" KEYS, urls[i]);
        CLEANUP(tlogs_freep) struct transparency *logs = accepted(yaml);
        assert_true(logs->logs[0].plain);
    }
    refused("logs:\n" LOG_AT("rekor", "http://127.0.0.1.example.com") KEYS, "must be an https:// address");
    refused("logs:\n" LOG_AT("rekor", "http://localhost.example.com") KEYS, "must be an https:// address");
}

/* ---- which log ---- */

static const char windows[] =
    "logs:\n"
    "  - name: old\n    kind: rekor-v1\n    url: https://old/\n    until: 2026-01-01T00:00:00Z\n    keys:\n"
    "      - file: @k\n        valid_until: 2026-02-01T00:00:00Z\n"
    "  - name: new\n    kind: rekor-v2\n    url: https://new/v2\n    from: 2026-01-01T00:00:00Z\n" KEYS
    "  - name: other\n    kind: rekor-v1\n    url: https://other\n    tenants: [umbrella]\n" KEYS;

static utc_us at(const char *text)
{
    utc_us time = 0;
    assert_fault(rfc3339_parse(span_text(text), &time), NONE);
    return time;
}

static void the_accept_time_decides_to_which_log_an_operation_goes(void **state)
{
    (void)state;
    CLEANUP(tlogs_freep) struct transparency *logs = accepted(windows);
    struct services services = { .transparency = logs };
    const char *destination = NULL;
    assert_fault(transparency_plan(op, &services, KEY_ALGORITHM_EC_P256, SIGN_SCHEME_ECDSA, HASH_SHA256,
                                   at("2025-12-31T23:59:59Z"), &destination),
                 NONE);
    assert_string_equal(destination, "rekor-v1:https://old");
    assert_fault(transparency_plan(op, &services, KEY_ALGORITHM_EC_P256, SIGN_SCHEME_ECDSA, HASH_SHA256,
                                   at("2026-01-01T00:00:00Z"), &destination),
                 NONE);
    assert_string_equal(destination, "rekor-v2:https://new/v2");
    op->tenant = (struct tenant_id){ "umbrella" }; /* the last open one in the file */
    assert_fault(transparency_plan(op, &services, KEY_ALGORITHM_EC_P256, SIGN_SCHEME_ECDSA, HASH_SHA256,
                                   at("2026-01-01T00:00:00Z"), &destination),
                 NONE);
    assert_string_equal(destination, "rekor-v1:https://other");
    op->tenant = (struct tenant_id){ "acme" };
}

static void a_planned_destination_is_found_after_its_window_and_only_for_its_tenant(void **state)
{
    (void)state;
    CLEANUP(tlogs_freep) struct transparency *logs = accepted(windows);
    struct tenant_id acme = { "acme" }, umbrella = { "umbrella" };
    assert_string_equal(tlogs_find(logs, acme, "rekor-v1:https://old")->name, "old");
    assert_null(tlogs_find(logs, acme, "rekor-v1:https://other"));
    assert_string_equal(tlogs_find(logs, umbrella, "rekor-v1:https://other")->name, "other");
    assert_null(tlogs_find(logs, acme, "rekor-v2:https://old"));
    assert_null(tlogs_find(NULL, acme, "rekor-v1:https://old"));
}

static void without_a_log_the_plan_says_none(void **state)
{
    (void)state;
    struct services services = { 0 };
    const char *destination = NULL;
    assert_fault(
        transparency_plan(op, &services, KEY_ALGORITHM_RSA_3072, SIGN_SCHEME_RSA_PSS, HASH_SHA512, 1, &destination),
        NONE);
    assert_string_equal(destination, TRANSPARENCY_NONE);
}

static void what_a_log_does_not_take_is_told_by_the_plan(void **state)
{
    (void)state;
    CLEANUP(tlogs_freep) struct transparency *logs = accepted(windows);
    struct services services = { .transparency = logs };
    static const struct {
        enum key_algorithm algorithm;
        enum sign_scheme scheme;
        enum hash_algorithm hash;
        bool v1, v2;
    } rows[] = {
        { KEY_ALGORITHM_EC_P256, SIGN_SCHEME_ECDSA, HASH_SHA256, true, true },
        { KEY_ALGORITHM_EC_P256, SIGN_SCHEME_ECDSA, HASH_SHA384, true, false },
        { KEY_ALGORITHM_EC_P384, SIGN_SCHEME_ECDSA, HASH_SHA256, true, false },
        { KEY_ALGORITHM_EC_P384, SIGN_SCHEME_ECDSA, HASH_SHA384, true, true },
        { KEY_ALGORITHM_RSA_3072, SIGN_SCHEME_RSA_PKCS1, HASH_SHA256, true, true },
        { KEY_ALGORITHM_RSA_4096, SIGN_SCHEME_RSA_PKCS1, HASH_SHA512, true, false },
        { KEY_ALGORITHM_RSA_3072, SIGN_SCHEME_RSA_PSS, HASH_SHA256, false, false },
        { KEY_ALGORITHM_ML_DSA_65, SIGN_SCHEME_ML_DSA, HASH_SHA256, false, false },
        { KEY_ALGORITHM_ML_DSA_65, SIGN_SCHEME_ML_DSA, HASH_SHA512, false, false },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        for (int v2 = 0; v2 < 2; v2++) {
            const char *destination = NULL;
            op->note = (struct fault_note){ 0 };
            struct fault fault =
                transparency_plan(op, &services, rows[i].algorithm, rows[i].scheme, rows[i].hash,
                                  at(v2 != 0 ? "2026-06-01T00:00:00Z" : "2025-06-01T00:00:00Z"), &destination);
            assert_int_equal(fault.code, (v2 != 0 ? rows[i].v2 : rows[i].v1) ? FAULT_NONE : FAULT_TLOG_UNSUPPORTED);
        }
    }
}

static void the_digest_changes_with_what_is_configured_for_the_tenant(void **state)
{
    (void)state;
    CLEANUP(tlogs_freep) struct transparency *logs = accepted(windows);
    struct services services = { .transparency = logs }, none = { 0 };
    char first[65], second[65], other[65], empty[65];
    assert_fault(transparency_digest(op, &services, first), NONE);
    logs->logs[0].keys[0].valid_until++;
    assert_fault(transparency_digest(op, &services, second), NONE);
    assert_string_not_equal(first, second);
    logs->logs[0].keys[0].valid_until--;
    logs->logs[2].until = 1; /* of another tenant */
    assert_fault(transparency_digest(op, &services, second), NONE);
    assert_string_equal(first, second);
    op->tenant = (struct tenant_id){ "umbrella" };
    assert_fault(transparency_digest(op, &services, other), NONE);
    op->tenant = (struct tenant_id){ "acme" };
    assert_string_not_equal(first, other);
    assert_fault(transparency_digest(op, &none, empty), NONE);
    assert_string_not_equal(first, empty);
    assert_int_equal(strlen(empty), 64);
}

static void the_trusted_root_names_each_key_with_its_window(void **state)
{
    (void)state;
    CLEANUP(tlogs_freep) struct transparency *logs = accepted(windows);
    CLEANUP(buf_free) struct buf json = BUF_INIT(65536);
    struct services services = { .transparency = logs };
    struct jout jout;
    const char *text = NULL;
    jout_init(&jout, &json);
    assert_fault(transparency_trust(op, &services, &jout), NONE);
    assert_fault(jout_end(&jout), NONE);
    assert_fault(buf_cstr(&json, &text), NONE);
    assert_non_null(strstr(text, "[{\"baseUrl\":\"https://old\",\"hashAlgorithm\":\"SHA2_256\",\"publicKey\":{"));
    assert_non_null(strstr(text, "\"keyDetails\":\"PKIX_ECDSA_P256_SHA_256\",\"validFor\":{\"start\":\"1970-01-01T00:"
                                 "00:00.000000Z\",\"end\":\"2026-02-01T00:00:00.000000Z\"}},\"logId\":{\"keyId\":"));
    assert_non_null(strstr(text, "\"baseUrl\":\"https://new/v2\""));
    assert_null(strstr(text, "https://other"));
    assert_string_equal(logs->logs[1].origin, "new/v2");
    assert_null(logs->logs[0].origin);
}

/* ---- where a 409 leads ---- */

#define ID64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define ID80 "108e9186e8c5677a" ID64
#define PATH "/api/v1/log/entries/"

static void a_location_elsewhere_is_refused(void **state)
{
    (void)state;
    static const char *const locations[] = {
        "",
        "//evil.example" PATH ID64,
        "https://evil.example" PATH ID64,
        "http://rekor.example.com" PATH ID64,
        "https://rekor.example.com:444" PATH ID64,
        "https://rekor.example.com.evil.example" PATH ID64,
        "https://me@rekor.example.com" PATH ID64,
        "https://rekor.example.com@evil.example" PATH ID64,
        "https://rekor.example.com",
        "https://rekor.example.com:x" PATH ID64,
        "api/v1/log/entries/" ID64,
        "/api/v1/log/entries",
        PATH "../" ID64,
        PATH ID64 "/",
        PATH ID64 "?x=1",
        PATH "0123",
        PATH ID64 "00",
        "/api/v1/log/publicKey",
        PATH "0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef",
        "javascript:alert(1)",
        "https:/rekor.example.com" PATH ID64,
    };
    for (size_t i = 0; i < COUNT_OF(locations); i++) {
        const char *path = NULL;
        op->note = (struct fault_note){ 0 };
        struct fault fault = tlog_location(op, "https://rekor.example.com", locations[i], &path);
        if (fault.code != FAULT_TLOG_UNVERIFIED) {
            fail_msg("%s was followed", locations[i]);
        }
    }
}

static void a_location_within_the_log_is_followed(void **state)
{
    (void)state;
    static const struct {
        const char *url, *location, *path;
    } rows[] = {
        { "https://rekor.example.com", PATH ID64, PATH ID64 },
        { "https://rekor.example.com", PATH ID80, PATH ID80 },
        { "https://rekor.example.com", "https://rekor.example.com" PATH ID80, PATH ID80 },
        { "https://rekor.example.com", "HTTPS://Rekor.Example.com:443" PATH ID64, PATH ID64 },
        { "http://127.0.0.1:3000", "http://127.0.0.1:3000" PATH ID64, PATH ID64 },
        { "http://[::1]:3000", "http://[::1]:3000" PATH ID64, PATH ID64 },
        { "https://a/log", "/log" PATH ID64, PATH ID64 },
        { "https://a/log", PATH ID64, PATH ID64 },
        { "https://a/log", "https://a/log" PATH ID64, PATH ID64 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *path = NULL;
        assert_fault(tlog_location(op, rows[i].url, rows[i].location, &path), NONE);
        assert_string_equal(path, rows[i].path);
    }
}

/* ---- whether to ask ---- */

static void a_log_that_does_not_answer_is_asked_by_one_and_less_and_less_often(void **state)
{
    (void)state;
    CLEANUP(tlogs_freep) struct transparency *logs = accepted(windows);
    struct tlog *log = &logs->logs[0];
    mono_ns now = 1000 * NS_PER_S;
    for (int i = 0; i < 64; i++) {
        assert_true(tlog_gate_enter(log, now)); /* all are on their way when it goes down */
    }
    for (int i = 0; i < 64; i++) {
        tlog_gate_tell(log, false, 0, now);
    }
    assert_false(tlog_gate_enter(log, now + NS_PER_S / 2));
    mono_ns closed = NS_PER_S;
    for (int i = 0; i < 8; i++) {
        now += closed;
        assert_false(tlog_gate_shut(log, now));
        assert_true(tlog_gate_enter(log, now));
        assert_true(tlog_gate_shut(log, now + 30 * NS_PER_S));
        assert_false(tlog_gate_enter(log, now + 30 * NS_PER_S)); /* one asks for all, however long it takes */
        now += 25 * NS_PER_S;
        tlog_gate_tell(log, false, 0, now);
        closed = closed * 2 < 15 * NS_PER_S ? closed * 2 : 15 * NS_PER_S;
        assert_false(tlog_gate_enter(log, now + closed - 1));
    }
    now += closed;
    assert_true(tlog_gate_enter(log, now));
    tlog_gate_tell(log, true, 0, now);
    assert_true(tlog_gate_enter(log, now));
    assert_true(tlog_gate_enter(log, now));
}

static void a_log_that_asks_for_patience_gets_it(void **state)
{
    (void)state;
    CLEANUP(tlogs_freep) struct transparency *logs = accepted(windows);
    struct tlog *log = &logs->logs[0];
    mono_ns now = 1000 * NS_PER_S;
    assert_true(tlog_gate_enter(log, now));
    tlog_gate_tell(log, false, 7, now);
    assert_false(tlog_gate_enter(log, now + 7 * NS_PER_S - 1));
    assert_true(tlog_gate_enter(log, now + 7 * NS_PER_S));
    tlog_gate_tell(log, false, 86400, now + 7 * NS_PER_S); /* up to a minute */
    assert_true(tlog_gate_enter(log, now + 67 * NS_PER_S));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_is_not_of_its_form_is_refused_with_its_line),
        cmocka_unit_test(a_log_without_a_pinned_key_is_refused),
        cmocka_unit_test(addresses_that_lead_astray_are_refused),
        cmocka_unit_test(windows_that_end_before_they_begin_are_refused),
        cmocka_unit_test(a_destination_that_leads_to_two_logs_is_refused),
        cmocka_unit_test(plain_http_is_for_this_machine_only),
        cmocka_unit_test(the_accept_time_decides_to_which_log_an_operation_goes),
        cmocka_unit_test(a_planned_destination_is_found_after_its_window_and_only_for_its_tenant),
        cmocka_unit_test(without_a_log_the_plan_says_none),
        cmocka_unit_test(what_a_log_does_not_take_is_told_by_the_plan),
        cmocka_unit_test(the_digest_changes_with_what_is_configured_for_the_tenant),
        cmocka_unit_test(the_trusted_root_names_each_key_with_its_window),
        cmocka_unit_test(a_location_elsewhere_is_refused),
        cmocka_unit_test(a_location_within_the_log_is_followed),
        cmocka_unit_test(a_log_that_does_not_answer_is_asked_by_one_and_less_and_less_often),
        cmocka_unit_test(a_log_that_asks_for_patience_gets_it),
    };
    return cmocka_run_group_tests_name("transparency/logs", tests, set_up, tear_down);
}
