/* Keys by HTTPS from a real server with a CA of its own: rotation, outage, a server that hangs, and what is no answer.
 * The clock of the cache is moved by hand; the network is real. */
#include "unit/attest/issuer.h"

#include "appliance/http/http.h"
#include "fips/fips.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/wait.h>

extern char **environ;

#define NOW (INT64_C(1800000000) * US_PER_S)

/* argv: certificate, key, folder, port. Serves jwks.json of the folder as the file "mode" there says, and prints its
 * port once it listens. */
static const char server_py[] =
    "import http.server, ssl, sys, threading\n"
    "cert, key, folder, port = sys.argv[1:5]\n"
    "class Handler(http.server.BaseHTTPRequestHandler):\n"
    "    protocol_version = 'HTTP/1.1'\n"
    "    def log_message(self, *args): pass\n"
    "    def do_GET(self):\n"
    "        mode = open(folder + '/mode').read()\n"
    "        with open(folder + '/count', 'a') as count: count.write('x')\n"
    "        if mode == 'hang': threading.Event().wait()\n"
    "        body = open(folder + '/jwks.json', 'rb').read()\n"
    "        if mode == 'big': body = body.rstrip()[:-1] + b',\"x\":\"' + b'a' * 300000 + b'\"}'\n"
    "        if mode == 'html': body = b'<html></html>'\n"
    "        status = {'redirect': 302, 'error': 500}.get(mode, 200)\n"
    "        if mode == 'cut': body += b' ' * 9\n"
    "        self.send_response(status)\n"
    "        if status == 302: self.send_header('Location', '/other')\n"
    "        self.send_header('Content-Type', 'application/json')\n"
    "        self.send_header('Content-Length', str(len(body)))\n"
    "        self.end_headers()\n"
    "        self.wfile.write(body[:-9] if mode == 'cut' else body)\n"
    "        if mode == 'cut': self.close_connection = True\n"
    "class Server(http.server.ThreadingHTTPServer):\n"
    "    daemon_threads = True\n"
    "    def handle_error(self, *args): pass\n"
    "server = Server(('127.0.0.1', int(port)), Handler)\n"
    "context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)\n"
    "context.load_cert_chain(cert, key)\n"
    "server.socket = context.wrap_socket(server.socket, server_side=True)\n"
    "sys.stdout.write('%d\\n' % server.server_port)\n"
    "sys.stdout.flush()\n"
    "server.serve_forever()\n";

static struct op *op;
static EVP_PKEY *first, *second;
static char folder[] = "/tmp/svc-attest-XXXXXX";
static struct attest *attest;
static struct issuer_keys *keys;
static pid_t server;
static int port;
static _Atomic mono_ns now = 1000 * NS_PER_S;

static const char *in_folder(const char *name)
{
    const char *path = NULL;
    assert_fault(arena_printf(op->arena, &path, "%s/%s", folder, name), NONE);
    return path;
}

static pid_t spawn(const char *const *argv, int out)
{
    posix_spawn_file_actions_t actions;
    pid_t pid = 0;
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    assert_int_equal(out >= 0 ? posix_spawn_file_actions_adddup2(&actions, out, 1)
                              : posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0),
                     0);
    assert_int_equal(posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, environ), 0);
    (void)posix_spawn_file_actions_destroy(&actions);
    return pid;
}

static void run(const char *const *argv)
{
    int status = -1;
    pid_t pid = spawn(argv, -1);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}
#define RUN(...) run((const char *const[]){ __VA_ARGS__, NULL })

static void set_mode(const char *mode)
{
    (void)issuer_file(op, folder, "mode", mode);
}

static size_t asked(void)
{
    CLEANUP(buf_free) struct buf count = BUF_INIT(4096);
    struct fault fault = file_read(in_folder("count"), &count);
    return FAULTED(fault) ? 0 : count.len;
}

static void server_start(void)
{
    char text[16] = "", line[16] = "";
    int ends[2];
    struct pollfd ready = { .events = POLLIN };
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    (void)snprintf(text, sizeof(text), "%d", port);
    const char *const argv[] = { "python3", "-c", server_py, in_folder("cert.pem"), in_folder("key.pem"),
                                 folder,    text, NULL };
    server = spawn(argv, ends[1]);
    (void)close(ends[1]);
    ready.fd = ends[0];
    for (size_t len = 0; strchr(line, '\n') == NULL;) {
        assert_int_equal(poll(&ready, 1, 30000), 1);
        ssize_t got = read(ends[0], line + len, sizeof(line) - 1 - len);
        assert_true(got > 0);
        len += (size_t)got;
    }
    (void)close(ends[0]);
    port = (int)strtol(line, NULL, 10);
    assert_true(port > 0);
}

static void server_stop(void)
{
    if (server > 0) {
        assert_int_equal(kill(server, SIGKILL), 0);
        assert_int_equal(waitpid(server, NULL, 0), server);
        server = 0;
    }
}

static void publish(EVP_PKEY *a, const char *kid_a, EVP_PKEY *b, const char *kid_b)
{
    const char *text = NULL;
    assert_fault(arena_printf(op->arena, &text, "{\"keys\":[%s%s%s]}\n", issuer_jwk(op, a, kid_a, ",\"use\":\"sig\""),
                              b != NULL ? "," : "", b != NULL ? issuer_jwk(op, b, kid_b, "") : ""),
                 NONE);
    (void)issuer_file(op, folder, "jwks.json", text);
}

static mono_ns clock_of_test(void)
{
    return atomic_load(&now);
}
static void pass(int64_t ns)
{
    atomic_fetch_add(&now, ns);
}

/* One method whose keys come from the server, by a cache with the test's clock. */
static int fresh(void **state)
{
    (void)state;
    const char *yaml = NULL;
    CLEANUP(buf_free) struct buf why = BUF_INIT(1024);
    assert_fault(op_new("test", (struct tenant_id){ "acme" }, 600000, &op), NONE);
    set_mode("serve");
    (void)unlink(in_folder("count"));
    publish(first, "first", NULL, NULL);
    server_start();
    assert_fault(arena_printf(op->arena, &yaml,
                              "attestors:\n  - {method: ci, tenant: acme, kind: generic, issuer: https://ci.example, "
                              "audience: [svc], jwks_url: 'https://127.0.0.1:%d/jwks', jwks_ca_file: %s, san: "
                              "'{sub}'}\n",
                              port, in_folder("ca.pem")),
                 NONE);
    assert_fault(attest_parse(span_text(yaml), "attestors.yaml", NULL, &why, &attest), NONE);
    const struct keys_source source = {
        .url = attest->methods[0].jwks_url,
        .ca_file = attest->methods[0].ca_file,
        .fetch = keys_fetch_https,
        .now = clock_of_test,
    };
    assert_fault(issuer_keys_new(&source, &keys), NONE);
    attest->methods[0].keys = keys;
    return 0;
}

static int done(void **state)
{
    (void)state;
    server_stop();
    port = 0;
    issuer_keys_free(TAKE(keys));
    attest_free(TAKE(attest));
    op_free(TAKE(op));
    http_forget();
    return 0;
}

static const char *token_of(EVP_PKEY *key, const char *kid)
{
    const char *header = NULL;
    assert_fault(arena_printf(op->arena, &header, "{\"alg\":\"ES256\",\"kid\":\"%s\",\"typ\":\"JWT\"}", kid), NONE);
    return issuer_token(op, key, "ES256", header,
                        "{\"iss\":\"https://ci.example\",\"aud\":\"svc\",\"sub\":\"https://ci.example/job\","
                        "\"iat\":1799999990,\"exp\":1800000290}");
}

static struct fault verify_within(EVP_PKEY *key, const char *kid, int timeout_ms)
{
    struct services services = { .attest = attest };
    struct attested attested;
    CLEANUP(op_freep) struct op *judge = NULL;
    const char *token = token_of(key, kid);
    assert_fault(op_new("judge", (struct tenant_id){ "acme" }, timeout_ms, &judge), NONE);
    struct fault fault = attest_verify(judge, &services, "ci", span_text(token), NOW, &attested);
    if (!FAULTED(fault)) {
        assert_string_equal(attested.key_id, kid);
        assert_string_equal(attested.san, "https://ci.example/job");
    }
    return fault;
}
static struct fault verify(EVP_PKEY *key, const char *kid)
{
    return verify_within(key, kid, 60000);
}

static void keys_come_from_the_url_once(void **state)
{
    (void)state;
    assert_fault(verify(first, "first"), NONE);
    assert_fault(verify(first, "first"), NONE);
    assert_fault(verify(second, "first"), PROOF_SIGNATURE);
    assert_int_equal(asked(), 1);
}

static void a_rotated_key_is_found_by_its_new_kid(void **state)
{
    (void)state;
    assert_fault(verify(first, "first"), NONE);
    publish(first, "first", second, "second");
    assert_fault(verify(second, "second"), PROOF_SIGNATURE); /* asked a moment ago */
    pass(KEYS_AGAIN_NS);
    assert_fault(verify(second, "second"), NONE);
    assert_fault(verify(first, "first"), NONE);
    assert_int_equal(asked(), 2);
    publish(second, "second", NULL, NULL); /* the first one is withdrawn */
    pass(KEYS_FRESH_NS);
    assert_fault(verify(first, "first"), PROOF_SIGNATURE);
    assert_int_equal(asked(), 3);
}

static void old_keys_outlive_a_dead_server_for_their_grace(void **state)
{
    (void)state;
    server_stop();
    assert_fault(verify(first, "first"), JWKS_UNAVAILABLE);
    server_start();
    pass(KEYS_RETRY_NS);
    assert_fault(verify(first, "first"), NONE);
    server_stop();
    pass(KEYS_FRESH_NS);
    assert_fault(verify(first, "first"), NONE);
    assert_fault(verify(second, "second"), JWKS_UNAVAILABLE);
    pass(KEYS_GRACE_NS);
    assert_fault(verify(first, "first"), JWKS_UNAVAILABLE);
    server_start();
    pass(KEYS_RETRY_NS);
    assert_fault(verify(first, "first"), NONE);
}

static void a_server_that_hangs_is_given_up(void **state)
{
    (void)state;
    set_mode("hang");
    assert_fault(verify_within(first, "first", 400), JWKS_UNAVAILABLE);
    assert_int_equal(asked(), 1);
    set_mode("serve");
    pass(KEYS_RETRY_NS);
    assert_fault(verify(first, "first"), NONE);
    set_mode("hang");
    pass(KEYS_FRESH_NS);
    assert_fault(verify_within(first, "first", 400), NONE); /* by the old keys */
    assert_int_equal(asked(), 3);
}

static void an_answer_that_is_no_key_set_is_none(void **state)
{
    (void)state;
    static const char *const modes[] = { "redirect", "error", "html", "big", "cut" };
    for (size_t i = 0; i < COUNT_OF(modes); i++) {
        set_mode(modes[i]);
        assert_fault(verify(first, "first"), JWKS_UNAVAILABLE);
        assert_true(asked() > i); /* never followed to another address: one request each */
        pass(KEYS_RETRY_NS);
    }
    set_mode("serve");
    assert_fault(verify(first, "first"), NONE);
}

static void a_server_of_another_authority_is_not_believed(void **state)
{
    (void)state;
    const struct keys_source source = {
        .url = attest->methods[0].jwks_url,
        .ca_file = in_folder("other-ca.pem"),
        .fetch = keys_fetch_https,
        .now = clock_of_test,
    };
    issuer_keys_free(TAKE(keys));
    assert_fault(issuer_keys_new(&source, &keys), NONE);
    attest->methods[0].keys = keys;
    assert_fault(verify(first, "first"), JWKS_UNAVAILABLE);
    assert_int_equal(asked(), 0);
}

/* As svc-api does it: TLS and signatures by the FIPS module. */
static void load_fips(void)
{
    static const struct config config = { .fips_required = true,
                                          .fips_module = "/usr/lib/x86_64-linux-gnu/ossl-modules/fips.so",
                                          .data_dir = folder,
                                          .run_dir = folder };
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    assert_fault(fips_start(&config, &why), NONE);
}

static int set_up(void **state)
{
    (void)state;
    (void)signal(SIGPIPE, SIG_IGN);
    assert_non_null(mkdtemp(folder));
    load_fips();
    assert_fault(op_new("test", (struct tenant_id){ "acme" }, 60000, &op), NONE);
    first = EVP_EC_gen("P-256");
    second = EVP_EC_gen("P-256");
    static const char *const cas[][3] = { { "ca.pem", "ca.key", "/CN=svc test" },
                                          { "other-ca.pem", "other-ca.key", "/CN=other" } };
    for (size_t i = 0; i < COUNT_OF(cas); i++) {
        RUN("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days",
            "3650", "-subj", cas[i][2], "-keyout", in_folder(cas[i][1]), "-out", in_folder(cas[i][0]));
    }
    RUN("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "3650",
        "-subj", "/CN=issuer", "-addext", "subjectAltName=IP:127.0.0.1", "-addext",
        "basicConstraints=critical,CA:FALSE", "-CA", in_folder("ca.pem"), "-CAkey", in_folder("ca.key"), "-keyout",
        in_folder("key.pem"), "-out", in_folder("cert.pem"));
    op_free(TAKE(op));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    static const char *const files[] = { "ca.pem",  "ca.key", "other-ca.pem", "other-ca.key", "cert.pem",
                                         "key.pem", "mode",   "count",        "jwks.json" };
    char path[128];
    for (size_t i = 0; i < COUNT_OF(files); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", folder, files[i]);
        (void)unlink(path);
    }
    EVP_PKEY_free(first);
    EVP_PKEY_free(second);
    return rmdir(folder);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fresh, done)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(keys_come_from_the_url_once),
        TEST(a_rotated_key_is_found_by_its_new_kid),
        TEST(old_keys_outlive_a_dead_server_for_their_grace),
        TEST(a_server_that_hangs_is_given_up),
        TEST(an_answer_that_is_no_key_set_is_none),
        TEST(a_server_of_another_authority_is_not_believed),
    };
    return cmocka_run_group_tests_name("jwks", tests, set_up, tear_down);
}
