/* What a configuration is refused for, with file, line and key. What is accepted: test_config_values.c. */
#include "tests/unit/base/config_file.h"

/* ---- refusals: file, line, key ---- */

static void a_control_character_in_a_value_is_refused(void **state)
{
    (void)state;
    assert_refused("http:\n  base_url: \"https://x\\nforged = line\"\n",
                   "svc.yaml:2: http.base_url: the value holds a control character");
}

static void keys_that_are_not_there_are_refused(void **state)
{
    (void)state;
    assert_refused("nonsense: 1\n", "svc.yaml:1: nonsense: no such key (docs/configuration.md lists them)");
    assert_refused("http:\n  listen: 127.0.0.1:1\n  lisen: 127.0.0.1:2\n",
                   "svc.yaml:3: http.lisen: no such key (docs/configuration.md lists them)");
    assert_refused("protocols:\n  tsa:\n    clock:\n      trust: true\n",
                   "svc.yaml:4: protocols.tsa.clock.trust: no such key (docs/configuration.md lists them)");
    assert_refused("Data_dir: /x\n", "svc.yaml:1: Data_dir: no such key (docs/configuration.md lists them)");
    assert_refused("htp:\n  listen: 127.0.0.1:1\n", "svc.yaml:1: htp: no such key (docs/configuration.md lists them)");
    assert_refused("data: /x\n", "svc.yaml:1: data: no such key (docs/configuration.md lists them)");
    assert_refused("\"\": x\n", "svc.yaml:1: : no such key (docs/configuration.md lists them)");
}

static void a_value_of_the_wrong_kind_is_refused(void **state)
{
    (void)state;
    assert_refused("http: 1\n", "svc.yaml:1: http: must hold further keys");
    assert_refused("http: [1]\n", "svc.yaml:1: http: must hold further keys");
    assert_refused("data_dir: {}\n", "svc.yaml:1: data_dir: must be one value");
    assert_refused("data_dir:\n  deeper: x\n", "svc.yaml:1: data_dir: must be one value");
    assert_refused("http:\n  threads: [96]\n", "svc.yaml:2: http.threads: must be one value");
    assert_refused("fips:\n  required: {a: b}\n", "svc.yaml:2: fips.required: must be one value");
    assert_refused("protocols:\n  tsa:\n    hash_algorithms: sha256\n",
                   "svc.yaml:3: protocols.tsa.hash_algorithms: must be a list");
    assert_refused("protocols:\n  tsa:\n    hash_algorithms: {sha256: yes}\n",
                   "svc.yaml:3: protocols.tsa.hash_algorithms: must be a list");
    assert_refused("protocols:\n  tsa:\n    hash_algorithms:\n      - sha256\n      - [x]\n",
                   "svc.yaml:5: protocols.tsa.hash_algorithms: must be a list of plain values");
    assert_refused("- data_dir\n", "svc.yaml:1: must be a mapping of keys");
    assert_refused("words\n", "svc.yaml:1: must be a mapping of keys");
}

static void a_key_without_a_value_is_refused(void **state)
{
    (void)state;
    static const char *const nothing[] = { "", " ~", " null" };
    for (size_t i = 0; i < COUNT_OF(nothing); i++) {
        char text[64];
        (void)snprintf(text, sizeof(text), "data_dir:%s\n", nothing[i]);
        assert_refused(text, "svc.yaml:1: data_dir: has no value; give one or remove the key");
    }
    assert_accepted("http:\nlog: ~\n"); /* sections with nothing in them say nothing */
    assert_accepted("postgres:\n  url: ''\n");
}

static void numbers_out_of_range_are_refused(void **state)
{
    (void)state;
    assert_refused("http:\n  threads: 7\n", "svc.yaml:2: http.threads: 7 is below 8");
    assert_refused("http:\n  threads: 1025\n", "svc.yaml:2: http.threads: 1025 is above 1024");
    assert_refused("protocols:\n  tsa:\n    accuracy_ms: 0\n", "svc.yaml:3: protocols.tsa.accuracy_ms: 0 is below 1");
    assert_refused("nats:\n  replicas: -1\n", "svc.yaml:2: nats.replicas: -1 is below 1");
    assert_refused("signer:\n  sessions: 999999999999999999\n",
                   "svc.yaml:2: signer.sessions: 999999999999999999 is above 64");
    assert_accepted("http:\n  threads: 1024\nnats:\n  replicas: 5\nprotocols:\n  tsa:\n    accuracy_ms: 1\n");
}

static void what_is_no_number_is_refused(void **state)
{
    (void)state;
    static const char *const values[] = {
        "x", "1x", "0x10", "1.0", "1e3", "+1", "1 2", "--1", "1_00", "yes", "9999999999999999999"
    };
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        char text[64], want[128];
        (void)snprintf(text, sizeof(text), "http:\n  threads: %s\n", values[i]);
        (void)snprintf(want, sizeof(want), "svc.yaml:2: http.threads: '%s' is not a whole number", values[i]);
        assert_refused(text, want);
    }
    assert_refused("http:\n  threads: '96'\n", "svc.yaml:2: http.threads: must be a plain value without quotes");
}

static void what_is_neither_true_nor_false_is_refused(void **state)
{
    (void)state;
    static const char *const values[] = { "yes", "no", "on", "True", "TRUE", "1", "0", "truee" };
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        char text[64], want[128];
        (void)snprintf(text, sizeof(text), "fips:\n  required: %s\n", values[i]);
        (void)snprintf(want, sizeof(want), "svc.yaml:2: fips.required: '%s' is neither true nor false", values[i]);
        assert_refused(text, want);
    }
    assert_refused("fips:\n  required: \"false\"\n", "svc.yaml:2: fips.required: must be a plain value without quotes");
}

static void what_is_no_duration_is_refused(void **state)
{
    (void)state;
    static const char *const values[] = {
        "20", "0", "10 s", "1d", "-1s", "s", "1s2", "1h-1m", "99999999999999999999h"
    };
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        CLEANUP(buf_free) struct buf why = BUF_INIT(1024);
        struct config *config = NULL;
        char text[80];
        (void)snprintf(text, sizeof(text), "http:\n  request_timeout: %s\n", values[i]);
        assert_fault(load(text, &why, &config), CONFIG);
        assert_holds(buf_span(&why), "svc.yaml:2: http.request_timeout: ");
    }
    assert_refused("http:\n  request_timeout: soon\n",
                   "svc.yaml:2: http.request_timeout: 'soon' is not a duration such as 500ms, 10s or 1h30m");
    assert_refused("http:\n  request_timeout: 99ms\n", "svc.yaml:2: http.request_timeout: 99ms is below 100ms");
    assert_refused("http:\n  request_timeout: 5m1ms\n", "svc.yaml:2: http.request_timeout: 5m1ms is above 300s");
}

static void a_key_that_stands_twice_is_refused(void **state)
{
    (void)state;
    assert_refused("data_dir: /a\ndata_dir: /b\n", "svc.yaml:2: the key stands here a second time");
    assert_refused("http:\n  threads: 96\nhttp:\n  threads: 97\n", "svc.yaml:3: the key stands here a second time");
}

/* Keys nest at their dots, so that each has one way to stand there. */
static void a_key_written_with_its_dots_is_refused(void **state)
{
    (void)state;
    assert_refused("http.threads: 97\n",
                   "svc.yaml:1: http.threads: write the part before each dot as a key of its own, "
                   "with the rest below it");
    assert_refused(
        "http:\n  threads: 160\nhttp.threads: 97\n",
        "svc.yaml:3: http.threads: write the part before each dot as a key of its own, with the rest below it");
    assert_refused("protocols:\n  tsa.clock:\n    trust_host: true\n",
                   "svc.yaml:2: protocols.tsa.clock: write the part before each dot as a key of its own, with the rest "
                   "below it");
}

static void what_a_reader_would_not_see_is_refused(void **state)
{
    (void)state;
    assert_refused("data_dir: &a /x\nrun_dir: *a\n", "svc.yaml:1: anchors and tags are not accepted");
    assert_refused("data_dir: /x\nrun_dir: *a\n",
                   "svc.yaml:2: a value, a list or a mapping is due; anchors, aliases and tags are not accepted");
    assert_refused("http: !!map {}\n",
                   "svc.yaml:1: a value, a list or a mapping is due; anchors, aliases and tags are not accepted");
    assert_refused("data_dir: /x\n---\nrun_dir: /y\n", "svc.yaml:2: exactly one document is due");
    assert_refused("http: {threads: 96\n", "svc.yaml:2: did not find expected ',' or '}'");
}

static void a_file_that_cannot_be_read_is_refused(void **state)
{
    (void)state;
    struct config *config = NULL;
    CLEANUP(buf_free) struct buf why = BUF_INIT(1024);
    assert_fault(config_load("/tmp/svc-nowhere/svc.yaml", &why, &config), CONFIG);
    assert_span_text(buf_span(&why), "/tmp/svc-nowhere/svc.yaml: cannot be read (not_found)");
    buf_clear(&why);
    assert_fault(config_load(config_folder, &why, &config), CONFIG);
    assert_holds(buf_span(&why), "cannot be read");
    CLEANUP(buf_free) struct buf large = BUF_INIT(400000);
    while (large.len < 300000) {
        assert_fault(buf_text(&large, "# words that say nothing, again and again\n"), NONE);
    }
    assert_fault(file_write(config_path, buf_span(&large), 0600), NONE);
    buf_clear(&why);
    assert_fault(config_load(config_path, &why, &config), CONFIG);
    assert_holds(buf_span(&why), "cannot be read");
    assert_null(config);
}

static void all_refusals_are_told_at_once(void **state)
{
    (void)state;
    assert_fault(setenv("SVC_SIGNER_QUEUE", "many", 1) == 0 ? OK : FAULT(IO), NONE);
    assert_refused("data_dir: var\n"
                   "nonsense: 1\n"
                   "http:\n"
                   "  threads: 1\n"
                   "  listen: nowhere\n"
                   "  request_timeout: soon\n"
                   "fips:\n"
                   "  required: perhaps\n"
                   "nats: 4222\n",
                   "svc.yaml:2: nonsense: no such key (docs/configuration.md lists them)\n"
                   "svc.yaml:4: http.threads: 1 is below 8\n"
                   "svc.yaml:6: http.request_timeout: 'soon' is not a duration such as 500ms, 10s or 1h30m\n"
                   "svc.yaml:8: fips.required: 'perhaps' is neither true nor false\n"
                   "svc.yaml:9: nats: must hold further keys\n"
                   "SVC_SIGNER_QUEUE: signer.queue: 'many' is not a whole number\n"
                   "svc.yaml:1: data_dir: 'var' must be an absolute path\n"
                   "svc.yaml:5: http.listen: 'nowhere' must be ADDRESS:PORT, for example 127.0.0.1:8443");
    assert_int_equal(unsetenv("SVC_SIGNER_QUEUE"), 0);
    struct config *config = NULL;
    assert_fault(load("nonsense: 1\n", NULL, &config), CONFIG); /* nobody asks why */
    assert_null(config);
}

/* ---- rules between keys ---- */

static void certificate_and_key_come_together(void **state)
{
    (void)state;
    assert_refused("http:\n  tls_certificate_file: /c.pem\n",
                   "svc.yaml:2: http.tls_certificate_file: is given without http.tls_key_file; give both or none");
    assert_refused("http:\n  tls_key_file: /k.pem\n",
                   "svc.yaml:2: http.tls_key_file: is given without http.tls_certificate_file; give both or none");
    assert_accepted("http:\n  tls_key_file: /k.pem\n  tls_certificate_file: /c.pem\n");
}

static void a_log_that_is_not_synced_needs_replicas(void **state)
{
    (void)state;
    assert_refused("nats:\n  allow_unsynced: true\n  replicas: 2\n",
                   "svc.yaml:2: nats.allow_unsynced: needs nats.replicas of 3 or more, so that another server has what "
                   "one lost");
    assert_accepted("nats:\n  allow_unsynced: true\n  replicas: 3\n");
}

static void there_are_more_threads_than_bulkhead_places(void **state)
{
    (void)state;
    assert_refused("http:\n  threads: 118\n",
                   "svc.yaml:2: http.threads: 118 must be more than the sum of the bulkheads' limits, 118");
    assert_refused("bulkheads:\n  api:\n    limit: 90\n",
                   "http.threads: 160 must be more than the sum of the bulkheads' limits, 160");
    assert_accepted("http:\n  threads: 119\n");
}

static void a_listener_has_an_address_and_a_port(void **state)
{
    (void)state;
    static const char *const values[] = { "8443",
                                          ":8443",
                                          "127.0.0.1",
                                          "127.0.0.1:",
                                          "127.0.0.1:0",
                                          "a:65536",
                                          "a:-1",
                                          "a:8443x",
                                          "a b:1",
                                          "http://a:1",
                                          "[::1:8443",
                                          "::1:8443",
                                          "[fe80::x]:1",
                                          "[]:1",
                                          "a:8443/",
                                          "a\u00e9:1",
                                          "a:99999999999999999999" };
    static const char *const listeners[] = { "listen", "plain_listen", "probe_listen" };
    for (size_t i = 0; i < COUNT_OF(values) * COUNT_OF(listeners); i++) {
        char text[96], want[96];
        const char *key = listeners[i % COUNT_OF(listeners)];
        (void)snprintf(text, sizeof(text), "http:\n  %s: \"%s\"\n", key, values[i / COUNT_OF(listeners)]);
        (void)snprintf(want, sizeof(want), "svc.yaml:2: http.%s: '", key);
        CLEANUP(buf_free) struct buf why = BUF_INIT(1024);
        struct config *config = NULL;
        assert_fault(load(text, &why, &config), CONFIG);
        assert_holds(buf_span(&why), want);
        assert_holds(buf_span(&why), "must be ADDRESS:PORT");
    }
    assert_refused("http:\n  listen: \"\"\n",
                   "svc.yaml:2: http.listen: '' must be ADDRESS:PORT, for example 127.0.0.1:8443");
    assert_accepted("http:\n  listen: \"[::1]:65535\"\n  plain_listen: ''\n  probe_listen: sign.example:1\n");
}

static void words_that_are_closed_are_checked(void **state)
{
    (void)state;
    assert_refused("log:\n  level: loud\n", "svc.yaml:2: log.level: 'loud' must be debug, info, warn or error");
    assert_refused("log:\n  format: xml\n", "svc.yaml:2: log.format: 'xml' must be json or text");
    assert_refused("bootstrap:\n  tenant: Acme\n",
                   "svc.yaml:2: bootstrap.tenant: 'Acme' must be 1 to 63 of a-z, 0-9 and '-', not starting with '-'");
    assert_refused(
        "protocols:\n  tsa:\n    tenant_id: ''\n",
        "svc.yaml:3: protocols.tsa.tenant_id: '' must be 1 to 63 of a-z, 0-9 and '-', not starting with '-'");
    static const char *const levels[] = { "debug", "info", "warn", "error" };
    for (size_t i = 0; i < COUNT_OF(levels); i++) {
        char text[64];
        (void)snprintf(text, sizeof(text), "log: {level: %s, format: text}\n", levels[i]);
        assert_accepted(text);
    }
}

static void paths_are_absolute_and_leave_room_for_sockets(void **state)
{
    (void)state;
    char text[256], longest[128];
    assert_refused("run_dir: run\n", "svc.yaml:1: run_dir: 'run' must be an absolute path");
    assert_refused("data_dir: ''\n", "svc.yaml:1: data_dir: '' must be an absolute path");
    memset(longest, 'x', sizeof(longest));
    longest[0] = '/';
    longest[88] = 0; /* with "/signer/signer.sock" and its NUL 108 bytes */
    (void)snprintf(text, sizeof(text), "run_dir: %s\n", longest);
    assert_accepted(text);
    longest[88] = 'x';
    longest[89] = 0;
    (void)snprintf(text, sizeof(text), "run_dir: %s\n", longest);
    assert_refused(text, "svc.yaml:1: run_dir: must be shorter than 89 bytes, to leave room for socket names");
    longest[89] = 'x';
    longest[108] = 0;
    (void)snprintf(text, sizeof(text), "signer:\n  socket: %s\n", longest);
    assert_refused(text, "svc.yaml:2: signer.socket: must be shorter than 108 bytes");
    assert_refused("token:\n  module: /m.so\n",
                   "token.pin_file: is needed with token.module, unless token.login is not user");
    assert_accepted("token:\n  module: /m.so\n  pin_file: /pin\n");
}

static void keyless_signing_needs_its_attestors(void **state)
{
    (void)state;
    assert_refused("code_signing:\n  keyless:\n    enabled: true\n",
                   "code_signing.keyless.attestors_file: is needed with code_signing.keyless.enabled");
    assert_accepted("code_signing:\n  keyless:\n    enabled: true\n    attestors_file: /etc/svc/attestors.yaml\n");
    assert_accepted("code_signing:\n  keyless:\n    attestors_file: /etc/svc/attestors.yaml\n");
}

static void a_signer_between_hosts_needs_both_ends_certificates_and_names(void **state)
{
    (void)state;
    static const char files[] = "  tls_certificate_file: /c.pem\n  tls_key_file: /k.pem\n  tls_ca_file: /a.pem\n";
    char text[512];
    assert_refused("signer:\n  address: 192.0.2.1:9443\n",
                   "signer.tls_certificate_file: is needed with signer.address\n"
                   "signer.tls_key_file: is needed with signer.address\n"
                   "signer.tls_ca_file: is needed with signer.address\n"
                   "signer.peer_names: needs 1 to 32 names with signer.address");
    (void)snprintf(text, sizeof(text), "signer:\n  listen: 192.0.2.1\n  peer_names: [x]\n%s", files);
    assert_refused(text, "svc.yaml:2: signer.listen: '192.0.2.1' must be ADDRESS:PORT, for example 127.0.0.1:8443");
    (void)snprintf(text, sizeof(text), "signer:\n  listen: '[::]:9443'\n%s", files);
    assert_refused(text, "signer.peer_names: needs 1 to 32 names with signer.listen");
    (void)snprintf(text, sizeof(text), "signer:\n  listen: '[::]:9443'\n  peer_names: ['*.example']\n%s", files);
    assert_refused(text, "svc.yaml:3: signer.peer_names: '*.example' must be a whole name without '*'");
    (void)snprintf(text, sizeof(text), "signer:\n  listen: a:1\n  address: b:1\n  peer_names: [x]\n%s", files);
    assert_refused(text,
                   "svc.yaml:3: signer.address: is given with signer.listen; a host has a signer or uses another's");
    assert_refused("signer:\n  address: b:1\n  peer_names: [x]\n  tls_ca_file: a.pem\n"
                   "  tls_certificate_file: /c\n  tls_key_file: /k\n",
                   "svc.yaml:4: signer.tls_ca_file: 'a.pem' must be an absolute path");
    (void)snprintf(text, sizeof(text), "signer:\n  address: b:1\n  peer_names: [x]\n%s", files);
    assert_accepted(text);
}

static void fulcio_needs_its_roots_and_no_wire_that_others_read(void **state)
{
    (void)state;
    assert_refused("code_signing:\n  keyless:\n    fulcio_url: https://fulcio.example\n",
                   "code_signing.keyless.fulcio_root_file: is needed with code_signing.keyless.fulcio_url");
    static const char *const bad[] = { "http://fulcio.example",         "https://",        "fulcio.example",
                                       "http://localhost.evil.example", "ftp://127.0.0.1", "http://127.0.0.11:1" };
    static const char *const good[] = { "https://fulcio.example", "http://127.0.0.1:5555", "http://localhost",
                                        "http://[::1]:80/x" };
    char text[256], want[256];
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        (void)snprintf(text, sizeof(text),
                       "code_signing:\n  keyless:\n    fulcio_root_file: /f.pem\n    fulcio_url: %s\n", bad[i]);
        (void)snprintf(
            want, sizeof(want),
            "svc.yaml:4: code_signing.keyless.fulcio_url: '%s' must start with https://; http:// does for this "
            "machine only",
            bad[i]);
        assert_refused(text, want);
    }
    for (size_t i = 0; i < COUNT_OF(good); i++) {
        (void)snprintf(text, sizeof(text),
                       "code_signing:\n  keyless:\n    fulcio_root_file: /f.pem\n    fulcio_url: \"%s\"\n", good[i]);
        assert_accepted(text);
    }
}

static void files_of_code_signing_are_named_from_the_root(void **state)
{
    (void)state;
    assert_refused("code_signing:\n"
                   "  keyless:\n"
                   "    attestors_file: attestors.yaml\n"
                   "    fulcio_ca_file: ca.pem\n"
                   "    fulcio_root_file: root.pem\n"
                   "  transparency:\n"
                   "    logs_file: ./logs.yaml\n",
                   "svc.yaml:3: code_signing.keyless.attestors_file: 'attestors.yaml' must be an absolute path\n"
                   "svc.yaml:4: code_signing.keyless.fulcio_ca_file: 'ca.pem' must be an absolute path\n"
                   "svc.yaml:5: code_signing.keyless.fulcio_root_file: 'root.pem' must be an absolute path\n"
                   "svc.yaml:7: code_signing.transparency.logs_file: './logs.yaml' must be an absolute path");
    assert_refused("policy_dir: policies\nca:\n  policy:\n    enabled: true\n",
                   "svc.yaml:1: policy_dir: 'policies' must be an absolute path");
    assert_accepted("policy_dir: /etc/svc/policies\nca:\n  policy:\n    enabled: true\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_control_character_in_a_value_is_refused),
        cmocka_unit_test(keys_that_are_not_there_are_refused),
        cmocka_unit_test(a_value_of_the_wrong_kind_is_refused),
        cmocka_unit_test(a_key_without_a_value_is_refused),
        cmocka_unit_test(numbers_out_of_range_are_refused),
        cmocka_unit_test(what_is_no_number_is_refused),
        cmocka_unit_test(what_is_neither_true_nor_false_is_refused),
        cmocka_unit_test(what_is_no_duration_is_refused),
        cmocka_unit_test(a_key_that_stands_twice_is_refused),
        cmocka_unit_test(a_key_written_with_its_dots_is_refused),
        cmocka_unit_test(what_a_reader_would_not_see_is_refused),
        cmocka_unit_test(a_file_that_cannot_be_read_is_refused),
        cmocka_unit_test(all_refusals_are_told_at_once),
        cmocka_unit_test(certificate_and_key_come_together),
        cmocka_unit_test(a_log_that_is_not_synced_needs_replicas),
        cmocka_unit_test(there_are_more_threads_than_bulkhead_places),
        cmocka_unit_test(keyless_signing_needs_its_attestors),
        cmocka_unit_test(a_signer_between_hosts_needs_both_ends_certificates_and_names),
        cmocka_unit_test(fulcio_needs_its_roots_and_no_wire_that_others_read),
        cmocka_unit_test(files_of_code_signing_are_named_from_the_root),
        cmocka_unit_test(a_listener_has_an_address_and_a_port),
        cmocka_unit_test(words_that_are_closed_are_checked),
        cmocka_unit_test(paths_are_absolute_and_leave_room_for_sockets),
    };
    return cmocka_run_group_tests_name("config", tests, config_start, config_end);
}
