/* How svc-api gets to a nats-server: TLS, and a login that changes while it runs. */
#include "nats_testlib.h"
#include "unit/protocol/tls_certs.h"

struct fixture {
    struct nats nats;
    struct certs_folder folder;
    struct issued authority;
    struct config config;
    char url[64];
};

static void issue(struct fixture *fixture, const char *side, const char *names, const char *usage)
{
    char name[32];
    struct issued made = certs_issue(
        &(struct certs_wanted){ .name = side, .names = names, .usage = usage, .issuer = &fixture->authority });
    (void)snprintf(name, sizeof(name), "%s.pem", side);
    certs_put_certificate(certs_path(&fixture->folder, name), &made);
    (void)snprintf(name, sizeof(name), "%s.key", side);
    certs_put_key(certs_path(&fixture->folder, name), &made, NULL);
    issued_clear(&made);
}

/* `users` as the server's configuration has them; TLS with the client's certificate verified when `tls`. */
static void configure(const struct fixture *fixture, const char *users, bool tls)
{
    char text[4096], path[128], block[1024] = "";
    const char *at = fixture->folder.path;
    if (tls) {
        (void)snprintf(block, sizeof(block),
                       "tls { cert_file: \"%s/server.pem\", key_file: \"%s/server.key\", ca_file: \"%s/ca.pem\","
                       " verify: true }\n",
                       at, at, at);
    }
    (void)snprintf(text, sizeof(text),
                   "server_name: t\nlisten: \"127.0.0.1:%d\"\n%s"
                   "jetstream { store_dir: \"%s/js\", max_memory_store: 64MB, max_file_store: 1GB,"
                   " sync_interval: always }\n"
                   "system_account: SYS\naccounts {\n"
                   "  SYS: { exports: [ { service: \"%s\", response_type: stream } ] }\n"
                   "  SVC: { jetstream: enabled, users: [ %s ],"
                   " imports: [ { service: { account: SYS, subject: \"%s\" } } ] }\n}\n",
                   fixture->nats.port, block, fixture->nats.folder, EVENTS_SERVER_CHECK, users, EVENTS_SERVER_CHECK);
    (void)snprintf(path, sizeof(path), "%s/nats.conf", fixture->nats.folder);
    write_text(path, text);
}

static int set_up(void **state)
{
    static struct fixture fixture;
    fixture = (struct fixture){ .config = default_config() };
    fixture.nats = nats_new(NATS_SYNCS);
    certs_folder_new(&fixture.folder);
    fixture.authority = certs_issue(&(struct certs_wanted){ .name = "authority", .authority = true });
    certs_put_certificate(certs_path(&fixture.folder, "ca.pem"), &fixture.authority);
    nats_use(&fixture.nats, 0, &fixture.config);
    (void)snprintf(fixture.url, sizeof(fixture.url), "nats://127.0.0.1:%d", fixture.nats.port);
    fixture.config.nats_url = fixture.url;
    *state = &fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    nats_remove(&fixture->nats);
    issued_clear(&fixture->authority);
    certs_folder_free(&fixture->folder);
    return 0;
}

static void refuse(struct fixture *fixture, enum fault_code code)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    struct event_log *log = NULL;
    struct fault fault = event_log_open(&fixture->config, &why, &log);
    assert_int_equal(fault.code, code);
    assert_true(why.len > 0);
}

static void append_one(struct event_log *log, int number, uint64_t want)
{
    CLEANUP(op_freep) struct op *op = op_of("acme", 20000);
    uint64_t seq = 0;
    assert_fault(append_number(op, log, "a", number, NULL, &seq), NONE);
    assert_int_equal(seq, want);
}

static void tls_is_had_as_configured_or_nothing_is_sent(void **state)
{
    struct fixture *fixture = *state;
    struct config *config = &fixture->config;
    static const char user[] = "{ user: \"svc\", password: \"pw\" }";
    issue(fixture, "server", "IP:127.0.0.1", "serverAuth");
    issue(fixture, "api", "URI:svc-api", "clientAuth");
    configure(fixture, user, false);
    nats_start(&fixture->nats);
    config->nats_tls_ca = certs_path(&fixture->folder, "ca.pem");
    refuse(fixture, FAULT_LOG_UNAVAILABLE); /* a server without TLS */
    nats_kill(&fixture->nats);
    configure(fixture, user, true);
    nats_start(&fixture->nats);
    config->nats_tls_certificate = certs_path(&fixture->folder, "api.pem");
    refuse(fixture, FAULT_CONFIG); /* a certificate without its key */
    config->nats_tls_key = certs_path(&fixture->folder, "api.key");
    struct event_log *log = log_for_test(config);
    append_one(log, 1, 1);
    event_log_close(log);

    config->nats_tls_ca = certs_path(&fixture->folder, "api.pem");
    refuse(fixture, FAULT_LOG_UNAVAILABLE); /* another authority */
    config->nats_tls_ca = certs_path(&fixture->folder, "ca.pem");
    nats_kill(&fixture->nats);
    issue(fixture, "server", "DNS:elsewhere", "serverAuth");
    nats_start(&fixture->nats);
    refuse(fixture, FAULT_LOG_UNAVAILABLE); /* another server */
}

static void write_login(const struct fixture *fixture, const char *login)
{
    assert_fault(file_write(fixture->config.nats_credentials, span_text(login), 0600), NONE);
}

static void reload_until(struct event_log *log, unsigned connects)
{
    for (int i = 0; i < 3000 && atomic_load(&log->connects) < connects; i++) {
        event_log_reload(log);
        (void)poll(NULL, 0, 20);
    }
    assert_int_equal(atomic_load(&log->connects), connects);
}

static void read_one(struct event_reader *reader, uint64_t want)
{
    CLEANUP(op_freep) struct op *op = op_of("", 30000);
    struct event_message message;
    assert_fault(event_reader_next(op, reader, op->deadline, &message), NONE);
    assert_int_equal(message.stream_seq, want);
}

static void a_login_that_changed_is_used_without_a_restart(void **state)
{
    struct fixture *fixture = *state;
    configure(fixture, "{ user: \"svc\", password: \"pw\" }, { user: \"new\", password: \"pw2\" }", false);
    nats_start(&fixture->nats);
    struct event_log *log = log_for_test(&fixture->config);
    CLEANUP(event_reader_freep) struct event_reader *reader = NULL;
    assert_fault(event_reader_new(log, 1, &reader), NONE);
    append_one(log, 1, 1);
    read_one(reader, 1);

    write_login(fixture, "svc:wrong\n");
    log->look_due = 0;
    event_log_reload(log); /* refused: what is connected stays */
    assert_int_equal(atomic_load(&log->connects), 1);
    append_one(log, 2, 2);
    write_login(fixture, "new:pw2\n");
    reload_until(log, 2);
    append_one(log, 3, 3);
    read_one(reader, 2);
    read_one(reader, 3);

    configure(fixture, "{ user: \"newer\", password: \"pw3\" }", false); /* the server is first this time */
    assert_int_equal(kill(fixture->nats.pid, SIGHUP), 0);
    CLEANUP(op_freep) struct op *op = op_of("", 60000);
    struct event_log_state now = { 0 };
    while (!now.closed && !op_expired(op)) {
        (void)event_log_state(op, log, &now).code;
        (void)poll(NULL, 0, 20);
    }
    assert_true(now.closed);
    write_login(fixture, "newer:pw3\n");
    for (int i = 0; i < 3000 && !event_log_connected(log); i++) {
        event_log_reload(log);
        (void)poll(NULL, 0, 20);
    }
    append_one(log, 4, 4);
    read_one(reader, 4);
    event_reader_free(TAKE(reader));
    event_log_close(log);
}

/* An address may carry a login, and a password what ends an address: neither is for the log. */
static void what_is_told_of_an_address_is_host_and_port(void **state)
{
    struct fixture *fixture = *state;
    static const struct {
        const char *url, *told;
    } cases[] = {
        { "nats://svc:s3cret@127.0.0.1:1", "no connection to 127.0.0.1:1: " },
        { "nats://s3cret@127.0.0.1:1, tls://a:s3cret@[::1]:1", "no connection to 127.0.0.1:1, [::1]:1: " },
        { "nats://svc:s3cret@127.0.0.1", "no connection to 127.0.0.1: " },
        { "nats://svc:s3cret@x,s3cret@127.0.0.1:x", "(an address that cannot be read)" },
        { "nats://svc:s3cret,s3cret@127.0.0.1:1", "(an address that cannot be read)" },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
        const char *text = NULL;
        struct event_log *log = NULL;
        bool refused = false;
        fixture->config.nats_url = cases[i].url;
        assert_fault(mem_new(1, sizeof(*log), &log), NONE);
        log->config = &fixture->config;
        assert_int_equal(pthread_mutex_init(&log->lock, NULL), 0);
        assert_int_equal(pthread_cond_init(&log->changed, NULL), 0);
        struct fault fault = link_renew(log, &why, &refused);
        assert_true(FAULTED(fault));
        assert_fault(buf_cstr(&why, &text), NONE);
        if (strstr(text, cases[i].told) == NULL || strstr(text, "s3cret") != NULL) {
            fail_msg("%s: %s", cases[i].url, text);
        }
        event_log_close(log);
    }
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(what_is_told_of_an_address_is_host_and_port),
        WITH_FOLDER(tls_is_had_as_configured_or_nothing_is_sent),
        WITH_FOLDER(a_login_that_changed_is_used_without_a_restart),
    };
    return cmocka_run_group_tests_name("events/login", tests, NULL, NULL);
}
