/*
 * Audit feeds without the rest: real PostgreSQL and nats-server (with-stores), projector and outbound outbox, a small
 * feature whose event "test.happened" makes records, and a strict collector in a process of its own
 * (tests/feeds/collectors.py). Include it once, in the file with main().
 */
#ifndef TESTS_INTEGRATION_FEEDS_TESTLIB_H
#define TESTS_INTEGRATION_FEEDS_TESTLIB_H

#include "api/feeds/internal.h"
#include "api/identity/internal.h"
#include "appliance/base/file.h"
#include "appliance/base/json_view.h"

#include "integration/store_testlib.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* identity's lists want it, and nothing here does: the linker is to take it from the server's room. */
[[gnu::used]] static struct fault (*const linked_cursor)(struct request *, const char *, const char **) = cursor_make;

static void pause_a_little(void)
{
    struct timespec tick = { .tv_nsec = 50000000 };
    (void)nanosleep(&tick, NULL);
}

/* ---- the collector ---- */

static pid_t hec_pid;
static int hec_in = -1, hec_port;

static void hec_start(const char *token)
{
    char line[16] = "";
    int in[2] = { -1, -1 }, out[2] = { -1, -1 };
    assert_int_equal(pipe2(in, O_CLOEXEC), 0);
    assert_int_equal(pipe2(out, O_CLOEXEC), 0);
    hec_pid = fork();
    assert_true(hec_pid >= 0);
    if (hec_pid == 0) {
        (void)dup2(in[0], 0);
        (void)dup2(out[1], 1);
        (void)execlp("python3", "python3", "tests/feeds/collectors.py", token, NULL);
        _exit(127);
    }
    fd_close(in[0]);
    fd_close(out[1]);
    hec_in = in[1];
    for (size_t len = 0; len < sizeof(line) - 1 && memchr(line, '\n', len) == NULL;) {
        ssize_t got = read(out[0], line + len, sizeof(line) - 1 - len);
        assert_true(got > 0);
        len += (size_t)got;
    }
    fd_close(out[0]);
    hec_port = (int)strtol(line, NULL, 10);
    assert_true(hec_port > 0);
}

static void hec_stop(void)
{
    fd_close(hec_in); /* it ends with its input */
    (void)waitpid(hec_pid, NULL, 0);
}

static void hec_ask(const char *method, const char *path, struct buf *out)
{
    char url[128], why[512];
    CLEANUP(http_answer_clear) struct http_answer answer = { 0 };
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%d%s", hec_port, path);
    const struct http_request request = { .method = method,
                                          .url = url,
                                          .content_type = method[0] == 'P' ? "text/plain" : NULL,
                                          .plain_too = true,
                                          .timeout_ns = 30 * NS_PER_S,
                                          .answer_max = 65536 };
    assert_ok(http_send(&request, why, sizeof(why), &answer));
    assert_int_equal(answer.status, 200);
    if (out != NULL) {
        assert_ok(buf_put(out, buf_span(&answer.body)));
    }
}

static void hec_mode(const char *mode)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/test/mode?%s", mode);
    hec_ask("POST", path, NULL);
}

static int64_t hec_number(const char *path, const char *member)
{
    CLEANUP(op_freep) struct op *op = test_op("", 10000);
    CLEANUP(buf_free) struct buf body = BUF_INIT(65536);
    struct view view;
    int64_t number = -1;
    hec_ask("GET", path, &body);
    assert_ok(view_of(op, buf_span(&body), &view));
    assert_ok(view_int(view_get(view, member), &number));
    return number;
}

/* ---- the services ---- */

static const struct event_row happened_events[] = { { "test.happened", 1, NULL, "" } };
static const struct feature test_feature = { .name = "test", .events = happened_events, .event_count = 1 };
static const struct feature *features[] = { &identity_feature, &test_feature, &feeds_feature };
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

static void services_open(void)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(8192);
    CLEANUP(op_freep) struct op *op = test_op("default", 60000);
    test_config->nats_url = getenv("SVC_NATS_URL");
    test_config->nats_credentials = getenv("SVC_NATS_CREDENTIALS_FILE");
    test_config->postgres_bookkeeping_conns = 8;
    test_config->policy_dir = "policies";
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
    struct fault fault = feeds_feature.start(op, &services);
    if (FAULTED(fault)) {
        fail_msg("not started: %s", op->note.detail);
    }
}

static void services_close(void)
{
    outbound_stop();
    projector_stop(TAKE(services.projector));
    feeds_feature.stop(&services);
    event_log_close(services.log);
    store_close(services.store);
    identity_close(services.identity);
    secret_free(services.fingerprint_key);
    metrics_free(services.metrics);
}

#endif
