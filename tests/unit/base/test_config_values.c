#include "tests/unit/base/config_file.h"

static const char *const keys[] = {
#define ROW(key)                                               key,
#define CONFIG_TEXT(member, key, env, fallback, doc)           ROW(key)
#define CONFIG_INT(member, key, env, fallback, min, max, doc)  ROW(key)
#define CONFIG_BOOL(member, key, env, fallback, doc)           ROW(key)
#define CONFIG_TIME(member, key, env, fallback, min, max, doc) ROW(key)
#define CONFIG_LIST(member, key, env, fallback, doc)           ROW(key)
#include "appliance/base/config.def"
#undef ROW
#undef CONFIG_TEXT
#undef CONFIG_INT
#undef CONFIG_BOOL
#undef CONFIG_TIME
#undef CONFIG_LIST
};
/* ---- the environment ---- */

static void a_variable_is_checked_like_the_file(void **state)
{
    (void)state;
    static const char *const values[][3] = {
        { "SVC_HTTP_THREADS", "7", "SVC_HTTP_THREADS: http.threads: 7 is below 8" },
        { "SVC_HTTP_THREADS", "", "SVC_HTTP_THREADS: http.threads: '' is not a whole number" },
        { "SVC_FIPS", "yes", "SVC_FIPS: fips.required: 'yes' is neither true nor false" },
        { "SVC_FIPS", "", "SVC_FIPS: fips.required: '' is neither true nor false" },
        { "SVC_HTTP_REQUEST_TIMEOUT", "1",
          "SVC_HTTP_REQUEST_TIMEOUT: http.request_timeout: '1' is not a duration such as "
          "500ms, 10s or 1h30m" },
        { "SVC_LOG_LEVEL", "loud", "SVC_LOG_LEVEL: log.level: 'loud' must be debug, info, warn or error" },
        { "SVC_DATA_DIR", "", "SVC_DATA_DIR: data_dir: '' must be an absolute path" },
    };
    for (size_t i = 0; i < COUNT_OF(values); i++) {
        assert_int_equal(setenv(values[i][0], values[i][1], 1), 0);
        assert_refused("http:\n  threads: 200\nlog:\n  level: warn\n", values[i][2]);
        assert_int_equal(unsetenv(values[i][0]), 0);
    }
}

static void a_variable_wins_over_the_file(void **state)
{
    (void)state;
    CLEANUP(config_freep) struct config *config = NULL;
    assert_int_equal(setenv("SVC_HTTP_THREADS", "300", 1), 0);
    assert_int_equal(setenv("SVC_DATA_DIR", "/from/variable", 1), 0);
    assert_int_equal(setenv("SVC_TSA_HASH_ALGORITHMS", "sha384,,sha512,", 1), 0);
    assert_int_equal(setenv("SVC_HTTP_REQUEST_TIMEOUT", "1m30s", 1), 0);
    struct fault fault = load("data_dir: /from/file\nrun_dir: /run/file\nhttp:\n  threads: 200\n  request_timeout: 1s\n"
                              "protocols:\n  tsa:\n    hash_algorithms: [sha256]\n",
                              NULL, &config);
    assert_int_equal(unsetenv("SVC_HTTP_THREADS") + unsetenv("SVC_DATA_DIR") + unsetenv("SVC_TSA_HASH_ALGORITHMS") +
                         unsetenv("SVC_HTTP_REQUEST_TIMEOUT"),
                     0);
    assert_fault(fault, NONE);
    assert_int_equal(config->http_threads, 300);
    assert_string_equal(config->data_dir, "/from/variable");
    assert_string_equal(config->run_dir, "/run/file");
    assert_int_equal(config->http_deadline, 90000000000);
    assert_int_equal(config->tsa_hashes.count, 2);
    assert_string_equal(config->tsa_hashes.at[0], "sha384");
    assert_string_equal(config->tsa_hashes.at[1], "sha512");
}

/* 1 and 0 in a variable only; and the last word is the variable's, also against the file. */
static void the_fips_switch_takes_1_and_0(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        bool want;
    } cases[] = { { "0", false }, { "1", true }, { "false", false }, { "true", true } };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        CLEANUP(config_freep) struct config *config = NULL;
        assert_int_equal(setenv("SVC_FIPS", cases[i].value, 1), 0);
        struct fault fault =
            load(cases[i].want ? "fips: {required: false}\n" : "fips: {required: true}\n", NULL, &config);
        assert_int_equal(unsetenv("SVC_FIPS"), 0);
        assert_fault(fault, NONE);
        assert_int_equal(config->fips_required, cases[i].want);
    }
}

/* ---- what is accepted ---- */

static void assert_defaults(const struct config *config)
{
    assert_string_equal(config->data_dir, "/var/lib/svc");
    assert_true(config->fips_required);
    assert_false(config->tsa_trust_host);
    assert_false(config->nats_allow_unsynced);
    assert_string_equal(config->http_listen, "127.0.0.1:8443");
    assert_int_equal(config->http_threads, 160);
    assert_int_equal(config->http_deadline, 20000000000);
    assert_int_equal(config->tsa_policies.count, 0);
    assert_int_equal(config->tsa_hashes.count, 3);
    assert_string_equal(config->tsa_hashes.at[2], "sha512");
    assert_string_equal(config->postgres_url, "");
}

static void nothing_given_means_the_defaults(void **state)
{
    (void)state;
    static const char *const texts[] = { "", "\n", "# only words\n", "{}\n" };
    CLEANUP(config_freep) struct config *bare = NULL;
    assert_fault(config_load(NULL, NULL, &bare), NONE);
    assert_defaults(bare);
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        CLEANUP(config_freep) struct config *config = NULL;
        assert_fault(load(texts[i], NULL, &config), NONE);
        assert_defaults(config);
    }
}

static void empty_paths_follow_their_folders(void **state)
{
    (void)state;
    CLEANUP(config_freep) struct config *config = NULL;
    assert_fault(load("data_dir: /d\nrun_dir: /r\nhttp: {listen: 'sign.example:9'}\n", NULL, &config), NONE);
    assert_string_equal(config->signer_socket, "/r/signer/signer.sock");
    assert_string_equal(config->signer_journal, "/d/signer");
    assert_string_equal(config->client_env, "/d/client.env");
    assert_string_equal(config->token_pin_file, "/d/signer/pin");
    assert_string_equal(config->nats_credentials, "/d/nats-client/credentials");
    assert_string_equal(config->http_base_url, "https://sign.example:9");
}

static void given_paths_stay(void **state)
{
    (void)state;
    CLEANUP(config_freep) struct config *config = NULL;
    assert_fault(load("data_dir: /d\nrun_dir: /r\nsigner: {socket: /s, journal: /j}\nbootstrap: {client_env: /e}\n"
                      "token: {module: /m.so, pin_file: /p}\nnats: {url: 'nats://log.example:4222'}\n"
                      "http: {base_url: 'https://sign.example'}\n",
                      NULL, &config),
                 NONE);
    assert_string_equal(config->signer_socket, "/s");
    assert_string_equal(config->signer_journal, "/j");
    assert_string_equal(config->client_env, "/e");
    assert_string_equal(config->token_pin_file, "/p");
    assert_string_equal(config->nats_credentials, ""); /* not the embedded server's, which is another's */
    assert_string_equal(config->http_base_url, "https://sign.example");
}

static void every_kind_is_read_from_the_file(void **state)
{
    (void)state;
    CLEANUP(config_freep) struct config *config = NULL;
    assert_fault(load("http:\n  threads: 150\n  request_timeout: 1m\nfips:\n  required: false\ntoken:\n  label: '007'\n"
                      "protocols:\n  tsa:\n    policies: []\n    hash_algorithms: [sha512, \"a,b\"]\n",
                      NULL, &config),
                 NONE);
    assert_int_equal(config->http_threads, 150);
    assert_int_equal(config->http_deadline, 60000000000);
    assert_false(config->fips_required);
    assert_string_equal(config->token_label, "007");
    assert_int_equal(config->tsa_policies.count, 0);
    assert_int_equal(config->tsa_hashes.count, 2);
    assert_string_equal(config->tsa_hashes.at[1], "a,b"); /* an element of a list is one */
}

/* ---- printed ---- */

static void the_printed_configuration_names_each_source(void **state)
{
    (void)state;
    CLEANUP(config_freep) struct config *config = NULL;
    CLEANUP(buf_free) struct buf text = BUF_INIT(65536);
    CLEANUP(buf_free) struct buf json = BUF_INIT(65536);
    CLEANUP(buf_free) struct buf canonical = BUF_INIT(65536);
    assert_int_equal(setenv("SVC_FIPS", "0", 1), 0);
    struct fault fault = load("log: {level: warn}\nhttp:\n  request_timeout: 1500ms\n", NULL, &config);
    assert_int_equal(unsetenv("SVC_FIPS"), 0);
    assert_fault(fault, NONE);
    assert_fault(config_print(config, &text), NONE);
    assert_holds(buf_span(&text), "fips.required = false   # SVC_FIPS\n");
    assert_holds(buf_span(&text), "\nlog.level = warn   # svc.yaml:1\n");
    assert_holds(buf_span(&text), "\nhttp.request_timeout = 1500ms   # svc.yaml:3\n");
    assert_holds(buf_span(&text), "\nhttp.threads = 160   # default\n");
    assert_holds(buf_span(&text), "\nprotocols.tsa.hash_algorithms = sha256,sha384,sha512   # default\n");
    assert_fault(config_print_json(config, &json), NONE);
    assert_holds(buf_span(&json), "\"fips.required\":{\"value\":false,\"source\":\"SVC_FIPS\"}");
    assert_holds(buf_span(&json), "\"http.threads\":{\"value\":160,\"source\":\"default\"}");
    assert_holds(buf_span(&json), "\"log.level\":{\"value\":\"warn\",\"source\":\"svc.yaml:1\"}");
    assert_fault(json_canonical(buf_span(&json), &canonical), NONE);
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        char line[128];
        (void)snprintf(line, sizeof(line), "%s%s = ", i > 0 ? "\n" : "", keys[i]);
        assert_holds(buf_span(&text), line);
        (void)snprintf(line, sizeof(line), "\"%s\":{", keys[i]);
        assert_holds(buf_span(&json), line);
    }
}

static void the_manual_has_a_row_for_each_key(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf text = BUF_INIT(65536);
    assert_fault(config_print_docs(&text), NONE);
    size_t lines = 0;
    for (size_t i = 0; i + 3 < text.len; i++) {
        lines += memcmp(text.at + i, "\n| `", 4) == 0;
    }
    assert_int_equal(lines, COUNT_OF(keys));
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        char row[160];
        (void)snprintf(row, sizeof(row), "\n| `%s` | `%s` | ", keys[i], config_variables[i]);
        assert_holds(buf_span(&text), row);
        for (size_t j = 0; j < i; j++) {
            assert_string_not_equal(keys[i], keys[j]);
            assert_string_not_equal(config_variables[i], config_variables[j]);
        }
    }
    assert_holds(buf_span(&text), "| duration | 20s | 100ms to 300s | How long one request may take. |\n");
    assert_holds(buf_span(&text), "| list | sha256,sha384,sha512 |  | ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_variable_is_checked_like_the_file),
        cmocka_unit_test(a_variable_wins_over_the_file),
        cmocka_unit_test(the_fips_switch_takes_1_and_0),
        cmocka_unit_test(nothing_given_means_the_defaults),
        cmocka_unit_test(empty_paths_follow_their_folders),
        cmocka_unit_test(given_paths_stay),
        cmocka_unit_test(every_kind_is_read_from_the_file),
        cmocka_unit_test(the_printed_configuration_names_each_source),
        cmocka_unit_test(the_manual_has_a_row_for_each_key),
    };
    return cmocka_run_group_tests_name("config_values", tests, config_start, config_end);
}
