/*
 * Publication without the rest of code signing: real PostgreSQL and nats-server (with-stores), projector and outbound
 * outbox, a small feature whose event "test.completed" queues a publication as codesign.completed does, and logs: a
 * real Rekor v1 (rekor-server over tlogmem, in $SVC_TEST_PEERS or /opt/peers) and tests/transparency/tiles_log.py for
 * v2. Include it once, in the file with main().
 */
#ifndef TESTS_INTEGRATION_TRANSPARENCY_TESTLIB_H
#define TESTS_INTEGRATION_TRANSPARENCY_TESTLIB_H

#include "api/identity/internal.h"
#include "api/server/exchange.h"
#include "api/transparency/internal.h"
#include "appliance/base/alloc.h"
#include "appliance/base/codec.h"
#include "appliance/base/file.h"

#include "integration/store_testlib.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <openssl/x509.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static char folder[] = "/tmp/svc-transparency-XXXXXX";

[[maybe_unused]] static const char *path_of(const char *name)
{
    static char paths[8][128];
    static unsigned turn;
    char *out = paths[turn++ % 8];
    (void)snprintf(out, sizeof(paths[0]), "%s/%s", folder, name);
    return out;
}

/* ---- programs ---- */

/* Runs in the test's folder, its output in `name`.log; with ret_out and ret_in, its standard output and input are pipes
 * of ours. It ends with us. */
static pid_t spawn_piped(const char *name, const char *const *argv, int *ret_in, int *ret_out)
{
    char log[160];
    int in[2] = { -1, -1 }, out[2] = { -1, -1 };
    (void)snprintf(log, sizeof(log), "%s/%s.log", folder, name);
    if (ret_out != NULL) {
        assert_int_equal(pipe2(in, O_CLOEXEC), 0);
        assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    }
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
        (void)dup2(fd, 2);
        (void)dup2(ret_out != NULL ? out[1] : fd, 1);
        if (ret_out != NULL) {
            (void)dup2(in[0], 0);
        }
        (void)setenv("HOME", folder, 1);
        (void)execvp(argv[0], (char *const *)(uintptr_t)argv);
        _exit(127);
    }
    if (ret_out != NULL) {
        fd_close(in[0]);
        fd_close(out[1]);
        *ret_in = in[1];
        *ret_out = out[0];
    }
    return pid;
}

static void end_process(pid_t *pid)
{
    if (*pid > 0) {
        (void)kill(*pid, SIGKILL);
        (void)waitpid(*pid, NULL, 0);
        *pid = 0;
    }
}

[[maybe_unused]] static int run_program(const char *name, const char *const *argv)
{
    int status = 0;
    pid_t pid = spawn_piped(name, argv, NULL, NULL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int free_port(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, len), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &len), 0);
    fd_close(fd);
    return ntohs(address.sin_port);
}

/* One request to a log, by the product's own client. Gives the status, 0 when there was none. */
static long ask_log(const char *method, int port, const char *path, const char *body, struct buf *out)
{
    char url[256], why[512];
    struct http_answer answer = { 0 };
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%d%s", port, path);
    struct http_request request = { .method = method,
                                    .url = url,
                                    .content_type = body != NULL ? "application/json" : NULL,
                                    .body = span_text(body),
                                    .accept = "*/*",
                                    .plain_too = true,
                                    .timeout_ns = 60 * NS_PER_S,
                                    .answer_max = (size_t)4 << 20 };
    long status = FAULTED(http_send(&request, why, sizeof(why), &answer)) ? 0 : answer.status;
    if (out != NULL) {
        assert_ok(buf_put(out, buf_span(&answer.body)));
    }
    http_answer_clear(&answer);
    return status;
}

static void pause_a_little(void)
{
    struct timespec tick = { .tv_nsec = 50000000 };
    (void)nanosleep(&tick, NULL);
}

/* ---- a Rekor v1 ---- */

struct rekor {
    pid_t server, tree;
    int port, tree_port;
};

[[maybe_unused]] static const char *peer(const char *name)
{
    static char paths[2][256];
    static unsigned turn;
    const char *base = getenv("SVC_TEST_PEERS") != NULL ? getenv("SVC_TEST_PEERS") : "/opt/peers";
    char *out = paths[turn++ % 2];
    (void)snprintf(out, sizeof(paths[0]), "%s/%s", base, name);
    if (access(out, X_OK) != 0) {
        fail_msg("%s is missing: scripts/lib/peers-make builds it", out);
    }
    return out;
}

[[maybe_unused]] static void rekor_server_start(struct rekor *rekor, const char *key)
{
    char port[16], tree_port[16];
    (void)snprintf(port, sizeof(port), "%d", rekor->port);
    (void)snprintf(tree_port, sizeof(tree_port), "%d", rekor->tree_port);
    const char *argv[] = { peer("rekor-server"),
                           "serve",
                           "--port",
                           port,
                           "--rekor_server.address",
                           "127.0.0.1",
                           "--rekor_server.hostname",
                           "rekor.local",
                           "--log_type",
                           "prod",
                           "--trillian_log_server.address",
                           "127.0.0.1",
                           "--trillian_log_server.port",
                           tree_port,
                           "--rekor_server.signer",
                           key,
                           NULL };
    rekor->server = spawn_piped("rekor", argv, NULL, NULL);
    for (int i = 0; ask_log("GET", rekor->port, "/api/v1/log/publicKey", NULL, NULL) != 200; i++) {
        assert_true(i < 1200 && waitpid(rekor->server, NULL, WNOHANG) == 0);
        pause_a_little();
    }
}

[[maybe_unused]] static void rekor_start(struct rekor *rekor, const char *key)
{
    char listen_on[32];
    rekor->port = free_port();
    rekor->tree_port = free_port();
    (void)snprintf(listen_on, sizeof(listen_on), "127.0.0.1:%d", rekor->tree_port);
    const char *argv[] = { peer("tlogmem"), "-listen", listen_on, NULL };
    rekor->tree = spawn_piped("tlogmem", argv, NULL, NULL);
    rekor_server_start(rekor, key);
}

[[maybe_unused]] static void rekor_stop(struct rekor *rekor)
{
    end_process(&rekor->server);
    end_process(&rekor->tree);
}

[[maybe_unused]] static int64_t rekor_size(const struct rekor *rekor)
{
    CLEANUP(op_freep) struct op *op = test_op("", 10000);
    CLEANUP(buf_free) struct buf body = BUF_INIT(65536);
    struct view view;
    int64_t size = -1;
    assert_int_equal(ask_log("GET", rekor->port, "/api/v1/log", NULL, &body), 200);
    assert_ok(view_of(op, buf_span(&body), &view));
    assert_ok(view_int(view_get(view, "treeSize"), &size));
    return size;
}

/* ---- a log of Rekor v2's protocol ---- */

struct tiles_log {
    pid_t pid;
    int in, port;
};

[[maybe_unused]] static void tiles_start(struct tiles_log *log, const char *key, const char *origin)
{
    const char *argv[] = { "python3", "tests/transparency/tiles_log.py", key, origin, NULL };
    char line[16] = "";
    int out = -1;
    log->pid = spawn_piped("tiles", argv, &log->in, &out);
    for (size_t len = 0; len < sizeof(line) - 1 && memchr(line, '\n', len) == NULL;) {
        ssize_t got = read(out, line + len, sizeof(line) - 1 - len);
        assert_true(got > 0);
        len += (size_t)got;
    }
    fd_close(out);
    log->port = (int)strtol(line, NULL, 10);
    assert_true(log->port > 0);
}

[[maybe_unused]] static void tiles_stop(struct tiles_log *log)
{
    end_process(&log->pid);
    fd_close(log->in);
}

[[maybe_unused]] static void tiles_mode(const struct tiles_log *log, const char *mode)
{
    assert_int_equal(ask_log("POST", log->port, "/test/mode", mode, NULL), 200);
}

[[maybe_unused]] static void tiles_fill(const struct tiles_log *log, int count)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/test/fill?%d", count);
    assert_int_equal(ask_log("POST", log->port, path, "", NULL), 200);
}

[[maybe_unused]] static int64_t tiles_number(const struct tiles_log *log, const char *path)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT(256);
    const char *text = NULL;
    assert_int_equal(ask_log("GET", log->port, path, NULL, &body), 200);
    assert_ok(buf_cstr(&body, &text));
    return strtoll(text, NULL, 10);
}

/* ---- keys and signings ---- */

static void write_keys(const char *name, EVP_PKEY *key)
{
    char path[160];
    (void)snprintf(path, sizeof(path), "%s/%s.key", folder, name);
    FILE *file = fopen(path, "we");
    assert_int_equal(PEM_write_PrivateKey(file, key, NULL, NULL, 0, NULL, NULL), 1);
    assert_int_equal(fclose(file), 0);
    (void)snprintf(path, sizeof(path), "%s/%s.pub", folder, name);
    file = fopen(path, "we");
    assert_int_equal(PEM_write_PUBKEY(file, key), 1);
    assert_int_equal(fclose(file), 0);
    EVP_PKEY_free(key);
}

struct signed_thing {
    struct uuid id;
    unsigned char digest[64], signature[SIGNATURE_MAX], spki[SPKI_MAX], certificate[4096];
    size_t digest_len, signature_len, spki_len, certificate_len;
    const char *hash; /* "sha256" */
};

static void sign_thing(struct signed_thing *thing, EVP_PKEY *key, const char *hash)
{
    unsigned char *at = thing->spki;
    *thing = (struct signed_thing){ .hash = hash };
    assert_ok(uuid_new(&thing->id));
    unsigned digest_len = 0;
    assert_int_equal(EVP_Digest(thing->id.text, 36, thing->digest, &digest_len, EVP_get_digestbyname(hash), NULL), 1);
    thing->digest_len = digest_len;
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(key, NULL);
    thing->signature_len = sizeof(thing->signature);
    assert_int_equal(EVP_PKEY_sign_init(ctx), 1);
    assert_int_equal(EVP_PKEY_CTX_set_signature_md(ctx, EVP_get_digestbyname(hash)), 1);
    assert_int_equal(EVP_PKEY_sign(ctx, thing->signature, &thing->signature_len, thing->digest, thing->digest_len), 1);
    EVP_PKEY_CTX_free(ctx);
    int len = i2d_PUBKEY(key, &at);
    assert_true(len > 0);
    thing->spki_len = (size_t)len;
}

[[maybe_unused]] static void certify_thing(struct signed_thing *thing, EVP_PKEY *key)
{
    unsigned char *at = thing->certificate;
    X509 *certificate = X509_new();
    assert_int_equal(X509_set_version(certificate, X509_VERSION_3), 1);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(certificate), 7), 1);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(certificate), -60));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(certificate), 600));
    X509_NAME *name = X509_get_subject_name(certificate);
    assert_int_equal(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"me", 2, -1, 0), 1);
    assert_int_equal(X509_set_issuer_name(certificate, name), 1);
    assert_int_equal(X509_set_pubkey(certificate, key), 1);
    assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
    int len = i2d_X509(certificate, &at);
    assert_true(len > 0);
    thing->certificate_len = (size_t)len;
    X509_free(certificate);
}

/* ---- the small feature ---- */

struct completed_data {
    const char *operation_id, *destination, *hash;
    struct span digest, signature, spki, certificate;
};
static const struct jin_field completed_fields[] = {
    JIN_BASE64(struct completed_data, certificate, JIN_OPTIONAL, 1, 32768),
    JIN_TEXT(struct completed_data, destination, JIN_REQUIRED, 1, 600),
    JIN_BASE64(struct completed_data, digest, JIN_REQUIRED, 1, 64),
    JIN_TEXT(struct completed_data, hash, JIN_REQUIRED, 1, 16),
    JIN_TEXT(struct completed_data, operation_id, JIN_REQUIRED, 36, 36),
    JIN_BASE64(struct completed_data, signature, JIN_REQUIRED, 1, SIGNATURE_MAX),
    JIN_BASE64(struct completed_data, spki, JIN_REQUIRED, 1, SPKI_MAX),
};

static struct fault project_completed(struct projection *projection, const struct event_view *event)
{
    struct completed_data data = { 0 };
    TRY(jin_decode(projection_op(projection), event->data, completed_fields, COUNT_OF(completed_fields), &data));
    const struct transparency_item item = { .operation_id = data.operation_id,
                                            .destination = data.destination,
                                            .digest_algorithm = data.hash,
                                            .signature_scheme = "ecdsa",
                                            .digest = data.digest,
                                            .signature = data.signature,
                                            .spki = data.spki,
                                            .certificate = data.certificate };
    return transparency_queue(projection, &item);
}

static const struct event_row completed_events[] = { { "test.completed", 1, project_completed, "" } };
static const struct feature test_feature = { .name = "test",
                                             .events = completed_events,
                                             .event_count = COUNT_OF(completed_events) };

/* ---- the services ---- */

static const struct feature *features[] = { &identity_feature, &test_feature, &transparency_feature };
static const struct event_row *event_tables[COUNT_OF(features)];
static const struct outbox_row *outbox_tables[COUNT_OF(features)];
static size_t event_counts[COUNT_OF(features)], outbox_counts[COUNT_OF(features)];
static struct services services;
static _Atomic(struct outbox *) to_wake;

static void wake_outbound(void *arg)
{
    (void)arg;
    struct outbox *outbox = atomic_load(&to_wake);
    if (outbox != NULL) {
        outbox_wake(outbox);
    }
}

static struct projector_config projector_config_here(void)
{
    return (struct projector_config){ .store = services.store,
                                      .log = services.log,
                                      .tables = event_tables,
                                      .counts = event_counts,
                                      .table_count = COUNT_OF(features),
                                      .on_outbox = wake_outbound };
}

static void outbound_start(unsigned threads)
{
    const struct outbox_config config = { .store = services.store,
                                          .services = &services,
                                          .tables = outbox_tables,
                                          .counts = outbox_counts,
                                          .table_count = COUNT_OF(features),
                                          .threads = threads,
                                          .outbound = true };
    assert_ok(outbox_start(&config, &services.outbound));
    atomic_store(&to_wake, services.outbound);
    outbox_wake(services.outbound);
}

static void outbound_stop(void)
{
    atomic_store(&to_wake, NULL);
    outbox_free(TAKE(services.outbound));
}

/* `logs` is the text of the logs file. */
static void services_open(const char *logs)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(8192);
    CLEANUP(op_freep) struct op *op = NULL;
    use_config();
    op = test_op("default", 60000);
    test_config->nats_url = getenv("SVC_NATS_URL");
    test_config->nats_credentials = getenv("SVC_NATS_CREDENTIALS_FILE");
    test_config->tlogs_file = path_of("logs.yaml");
    test_config->postgres_bookkeeping_conns = 8;
    test_config->policy_dir = "policies";
    assert_ok(file_write(test_config->tlogs_file, span_text(logs), 0600));
    migrate();
    services.config = test_config;
    assert_ok(store_open(test_config, &why, &services.store));
    assert_ok(event_log_open(test_config, &why, &services.log));
    assert_ok(identity_open(test_config, &why, &services.identity));
    assert_ok(secret_random(32, &services.fingerprint_key));
    assert_ok(uuid_new(&services.instance));
    assert_ok(metrics_new(&services.metrics));
    for (size_t i = 0; i < COUNT_OF(features); i++) {
        event_tables[i] = features[i]->events;
        event_counts[i] = features[i]->event_count;
        outbox_tables[i] = features[i]->outbox;
        outbox_counts[i] = features[i]->outbox_count;
        assert_ok(metrics_register(services.metrics, features[i]->metrics, features[i]->metric_count));
    }
    struct projector_config config = projector_config_here();
    assert_ok(projector_start(&config, &services.projector));
    struct fault fault = transparency_feature.start(op, &services);
    if (FAULTED(fault)) {
        fail_msg("not started: %s", op->note.detail);
    }
}

static void services_close(void)
{
    outbound_stop();
    projector_stop(TAKE(services.projector));
    transparency_feature.stop(&services);
    event_log_close(services.log);
    store_close(services.store);
    identity_close(services.identity);
    secret_free(services.fingerprint_key);
    metrics_free(services.metrics);
}

/* ---- publications ---- */

/* As codesign does when a signing of this tenant is completed; *ret_seq may be NULL. */
static void complete_at(const char *tenant_text, const struct signed_thing *thing, const char *destination)
{
    CLEANUP(op_freep) struct op *op = test_op(tenant_text, 30000);
    CLEANUP(buf_free) struct buf data = BUF_INIT(65536);
    struct jout jout;
    uint64_t seq = 0;
    jout_init(&jout, &data);
    jout_object(&jout);
    jout_key_text(&jout, "operation_id", thing->id.text);
    jout_key_text(&jout, "destination", destination);
    jout_key_text(&jout, "hash", thing->hash);
    jout_key_base64(&jout, "digest", span_of(thing->digest, thing->digest_len));
    jout_key_base64(&jout, "signature", span_of(thing->signature, thing->signature_len));
    jout_key_base64(&jout, "spki", span_of(thing->spki, thing->spki_len));
    if (thing->certificate_len > 0) {
        jout_key_base64(&jout, "certificate", span_of(thing->certificate, thing->certificate_len));
    }
    jout_object_end(&jout);
    assert_ok(jout_end(&jout));
    const struct event event = { "test.completed", 1, buf_span(&data) };
    const struct event_append append = { .lane = "test", .message_id = thing->id, .events = &event, .count = 1 };
    assert_ok(events_append(op, services.log, &append, &seq));
}

[[maybe_unused]] static void complete(const char *tenant_text, const struct signed_thing *thing)
{
    CLEANUP(op_freep) struct op *op = test_op(tenant_text, 10000);
    const char *destination = NULL;
    enum hash_algorithm hash = HASH_NONE;
    assert_ok(hash_algorithm_parse(span_text(thing->hash), &hash));
    enum key_algorithm algorithm = hash == HASH_SHA384 ? KEY_ALGORITHM_EC_P384 : KEY_ALGORITHM_EC_P256;
    assert_ok(transparency_plan(op, &services, algorithm, SIGN_SCHEME_ECDSA, hash, clock_utc(), &destination));
    complete_at(tenant_text, thing, destination);
}

/* The state of its publication; "" while the projection has not come to it. Results live in op's arena. */
static const char *state_of(struct op *op, const struct signed_thing *thing, struct evidence *ret_evidence)
{
    struct fault fault = evidence_get(op, &services, thing->id, ret_evidence);
    if (fault.code == FAULT_NOT_FOUND) {
        return "";
    }
    assert_ok(fault);
    return ret_evidence->state;
}

static void wait_state(const char *tenant_text, const struct signed_thing *thing, const char *state)
{
    CLEANUP(op_freep) struct op *op = test_op(tenant_text, 120000);
    struct evidence evidence = { 0 };
    uint64_t seen = 0;
    while (strcmp(state_of(op, thing, &evidence), state) != 0) {
        if (FAULTED(projector_changed(op, services.projector, &seen, op->deadline))) {
            fail_msg("%s is %s, not %s", thing->id.text, evidence.state, state);
        }
        arena_clear(op->arena);
    }
}

/* By the file that svc-cli has too, with nothing but what was recorded. */
[[maybe_unused]] static void assert_evidence_verifies(const char *tenant_text, const struct signed_thing *thing,
                                                      bool timed)
{
    CLEANUP(op_freep) struct op *op = test_op(tenant_text, 10000);
    struct evidence evidence = { 0 };
    assert_string_equal(state_of(op, thing, &evidence), "published");
    struct tlog *log = tlogs_find(services.transparency, op->tenant, evidence.log);
    assert_non_null(log);
    const struct tlog_trust trust = { .keys = log->keys, .key_count = log->key_count, .origin = log->origin };
    const struct tlog_expect expect = { .hash = thing->hash,
                                        .digest = span_of(thing->digest, thing->digest_len),
                                        .signature = span_of(thing->signature, thing->signature_len),
                                        .spki = span_of(thing->spki, thing->spki_len),
                                        .certificate = span_of(thing->certificate, thing->certificate_len),
                                        .at = clock_utc() };
    struct fault fault = tlog_entry_verify(op, &evidence.entry, &trust, &expect);
    if (FAULTED(fault)) {
        fail_msg("the evidence does not verify: %s", op->note.detail);
    }
    assert_int_equal(evidence.entry.set.len > 0, timed);
    assert_int_equal(evidence.entry.integrated_time > 0, timed);
    assert_non_null(evidence.entry.checkpoint);
    assert_true(evidence.ended >= evidence.queued);
}

[[maybe_unused]] static int64_t log_index_of(const char *tenant_text, const struct signed_thing *thing)
{
    CLEANUP(op_freep) struct op *op = test_op(tenant_text, 10000);
    struct evidence evidence = { 0 };
    assert_string_equal(state_of(op, thing, &evidence), "published");
    return evidence.entry.log_index;
}

[[maybe_unused]] static void assert_failed_with(const char *tenant_text, const struct signed_thing *thing,
                                                const char *code)
{
    CLEANUP(op_freep) struct op *op = test_op(tenant_text, 10000);
    struct evidence evidence = { 0 };
    wait_state(tenant_text, thing, "failed");
    assert_string_equal(state_of(op, thing, &evidence), "failed");
    assert_string_equal(evidence.failure_code, code);
    assert_null(evidence.entry_id);
}

/* A number that a query of the superuser's gives. */
static int64_t query_int(const char *query)
{
    CLEANUP(op_freep) struct op *op = test_op("", 30000);
    CLEANUP(endpoint_freep) struct endpoint *endpoint = NULL;
    CLEANUP(connection_closep) struct connection *connection = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const struct sql sql = { "test_query", query, 0 };
    assert_ok(endpoint_new(test_config, "postgres", NULL, &endpoint));
    assert_ok(connection_open(op, endpoint, op->deadline, &connection));
    assert_ok(connection_run(op, connection, &sql, NULL, 0, op->deadline, &rows));
    return rows_int(rows, 0, 0);
}

/* How many events of this type there are about it. */
[[maybe_unused]] static int64_t events_about(const struct signed_thing *thing, const char *type)
{
    char query[256];
    (void)snprintf(query, sizeof(query),
                   "SELECT count(*) FROM svc.audit_records WHERE type = '%s' AND position('%.36s' in"
                   " convert_from(record, 'UTF8')) > 0",
                   type, thing->id.text);
    return query_int(query);
}

[[maybe_unused]] static int64_t outbox_number(const struct signed_thing *thing, const char *column)
{
    char query[256];
    (void)snprintf(query, sizeof(query), "SELECT (%s)::bigint FROM svc.outbox WHERE key = '%.36s'", column,
                   thing->id.text);
    return query_int(query);
}

#endif
