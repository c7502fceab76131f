/* The three listeners with real sockets and TLS under the FIPS provider: framing, limits, pressure and drain. */
#include "integration/server_testlib.h"

/* A handler that stays until the gate opens. */
static pthread_mutex_t gate_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t gate_changed = PTHREAD_COND_INITIALIZER;
static bool gate_open;
static int gate_inside;

static struct fault handle_gate(struct request *request)
{
    (void)pthread_mutex_lock(&gate_lock);
    gate_inside++;
    (void)pthread_cond_broadcast(&gate_changed);
    while (!gate_open) {
        (void)pthread_cond_wait(&gate_changed, &gate_lock);
    }
    gate_inside--;
    (void)pthread_mutex_unlock(&gate_lock);
    return response_bytes(request, 0, "text/plain", span_text("through"));
}

static void gate_await(int inside)
{
    (void)pthread_mutex_lock(&gate_lock);
    while (gate_inside < inside) {
        (void)pthread_cond_wait(&gate_changed, &gate_lock);
    }
    (void)pthread_mutex_unlock(&gate_lock);
}

static void gate_set(bool open)
{
    (void)pthread_mutex_lock(&gate_lock);
    gate_open = open;
    (void)pthread_cond_broadcast(&gate_changed);
    (void)pthread_mutex_unlock(&gate_lock);
}

static struct fault handle_echo(struct request *request)
{
    return response_bytes(request, 0, "application/octet-stream", request->raw_body);
}

static struct fault handle_large(struct request *request)
{
    static uint8_t large[50000];
    memset(large, 'x', sizeof(large));
    return response_bytes(request, 0, "text/plain", SPAN_ARRAY(large));
}

#define PUBLIC(n, p, h) .name = (n), .path = (p), .permission = PERMISSION_PUBLIC, .success_status = 200, .handler = (h)
#define RAW             .method = ROUTE_POST, .flags = ROUTE_RAW_BODY | ROUTE_PLAIN_TOO, .content_type = "application/octet-stream"

static const struct route routes[] = {
    { PUBLIC("echo", "/echo", handle_echo), RAW },
    { PUBLIC("gate", "/gate", handle_gate) },
    { PUBLIC("large", "/large", handle_large) },
    { .name = "private", .path = "/private/{id}", .success_status = 200, .handler = handle_gate },
};
static const struct feature feature = { .name = "test", .routes = routes, .route_count = COUNT_OF(routes) };
static const struct feature *const features[] = { &server_feature, &feature };

static void start(void)
{
    gate_open = false;
    server_begin(features, COUNT_OF(features));
}

static int set_up(void **state)
{
    (void)state;
    start();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    gate_set(true);
    server_end();
    return 0;
}

/* TLS */

static bool tls_1_1(SSL_CTX *context)
{
    SSL_CTX_set_security_level(context, 0);
    return SSL_CTX_set_min_proto_version(context, TLS1_VERSION) == 1 &&
           SSL_CTX_set_max_proto_version(context, TLS1_1_VERSION) == 1;
}
static bool x25519_only(SSL_CTX *context)
{
    return SSL_CTX_set1_groups_list(context, "X25519:X25519MLKEM768") == 1;
}
static bool chacha_only(SSL_CTX *context)
{
    return SSL_CTX_set_ciphersuites(context, "TLS_CHACHA20_POLY1305_SHA256") == 1 &&
           SSL_CTX_set_cipher_list(context, "ECDHE-ECDSA-CHACHA20-POLY1305") == 1;
}
static bool cbc_only(SSL_CTX *context)
{
    return SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION) == 1 &&
           SSL_CTX_set_cipher_list(context, "ECDHE-ECDSA-AES128-SHA256") == 1;
}
static bool h2_only(SSL_CTX *context)
{
    return SSL_CTX_set_alpn_protos(context, (const uint8_t *)"\x02h2", 3) == 0;
}
static bool h2_or_http_1_1(SSL_CTX *context)
{
    return SSL_CTX_set_alpn_protos(context, (const uint8_t *)"\x02h2\x08http/1.1", 12) == 0;
}
static bool tls_1_2(SSL_CTX *context)
{
    return SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION) == 1;
}
static bool p384(SSL_CTX *context)
{
    return SSL_CTX_set1_groups_list(context, "P-384") == 1;
}

static void what_is_not_approved_gets_no_handshake(void **state)
{
    (void)state;
    static bool (*const shapes[])(SSL_CTX *) = { tls_1_1, x25519_only, chacha_only, cbc_only, h2_only };
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        struct client *client = test_malloc(sizeof(*client));
        bool shaken = client_open_tls(client, tls_port(), shapes[i]);
        /* TLS 1.3: a client that is refused may learn it only when it reads. */
        assert_false(shaken && client_ask(client, "GET /healthz HTTP/1.1\r\n" HOST "\r\n").status != 0);
        hang_up(client);
    }
}

static void approved_handshakes_work(void **state)
{
    (void)state;
    static bool (*const shapes[])(SSL_CTX *) = { NULL, tls_1_2, p384, h2_or_http_1_1 };
    for (size_t i = 0; i < COUNT_OF(shapes); i++) {
        struct client *client = test_malloc(sizeof(*client));
        assert_true(client_open_tls(client, tls_port(), shapes[i]));
        assert_int_equal(client_ask(client, "GET /healthz HTTP/1.1\r\n" HOST "\r\n").status, 200);
        hang_up(client);
    }
}

static void plain_text_on_the_tls_port_and_rubbish_do_not_stop_it(void **state)
{
    (void)state;
    struct client *client = dial_plain(LISTENER_TLS);
    (void)client_say(client, "GET /healthz HTTP/1.1\r\n" HOST "\r\n");
    assert_int_equal(client_read(client, false).status, 0);
    hang_up(client);
    expect("GET /healthz HTTP/1.1\r\n" HOST "\r\n", 200, "ok");
}

/* Framing */

static void requests_that_two_readers_could_read_differently_are_refused_and_the_connection_closed(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcde",
        "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 5\r\nContent-Length: 5\r\n\r\nabcde",
        "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
        "POST /echo HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 5abc\r\n\r\nabcde",
        "POST /echo HTTP/1.1\r\n" HOST "Content-Length: -5\r\n\r\n",
        "POST /echo HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999\r\n\r\n",
        "POST /echo HTTP/1.1\r\n" HOST ": x\r\nContent-Length: 5\r\n\r\nabcde",
        "POST /echo HTTP/1.1\r\n" HOST " folded\r\nContent-Length: 5\r\n\r\nabcde",
        "GET /healthz HTTP/1.1\r\n" HOST "Host: other\r\n\r\n",
        "GET /healthz HTTP/1.1\r\nX: y\r\n\r\n",
        "GET /healthz HTTP/1.1\r\n\r\n",
        "GET /healthz HTTP/1.1\r\n" HOST "Bad Name: x\r\n\r\n",
        "GET /healthz HTTP/2.0\r\n" HOST "\r\n",
        "GET  HTTP/1.1\r\n" HOST "\r\n",
        "BREW /pot HTTP/1.1\r\n" HOST "\r\n",
        "\x16\x03\x01 rubbish\r\n\r\n",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct client *client = dial();
        struct reply reply = client_ask(client, bad[i]);
        if (reply.status < 400 || reply.status >= 500 || !client_sees_end(client)) {
            print_error("%s\n-> %d\n", bad[i], reply.status);
            fail();
        }
        assert_string_equal(reply_header(&reply, "Connection"), "close");
        assert_string_equal(reply_header(&reply, "Content-Type"), "application/problem+json");
        assert_non_null(strstr(reply.body, "\"trace_id\":\""));
        hang_up(client);
    }
}

static void too_many_or_too_large_headers_are_refused(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf many = BUF_INIT(65536);
    CLEANUP(buf_free) struct buf large = BUF_INIT(65536);
    const char *text = NULL;
    assert_fault(buf_text(&many, "POST /echo HTTP/1.1\r\n" HOST), NONE);
    for (int i = 0; i < 70; i++) {
        assert_fault(buf_printf(&many, "X-%d: y\r\n", i), NONE);
    }
    assert_fault(buf_text(&many, "Content-Length: 5\r\n\r\nabcde"), NONE);
    assert_fault(buf_cstr(&many, &text), NONE);
    expect(text, 400, "bad_argument");
    assert_fault(buf_text(&large, "GET /healthz HTTP/1.1\r\n" HOST "X: "), NONE);
    for (int i = 0; i < 1700; i++) {
        assert_fault(buf_text(&large, "0123456789"), NONE);
    }
    assert_fault(buf_text(&large, "\r\n\r\n"), NONE);
    assert_fault(buf_cstr(&large, &text), NONE);
    expect(text, 400, "larger than 16384 bytes");
}

static void paths_and_queries_are_taken_literally(void **state)
{
    (void)state;
    expect("GET /x/../healthz HTTP/1.1\r\n" HOST "\r\n", 400, "bad_argument");
    expect("GET /x/%2e%2e/healthz HTTP/1.1\r\n" HOST "\r\n", 400, "bad_argument");
    expect("GET /private%2Fx HTTP/1.1\r\n" HOST "\r\n", 400, "bad_argument");
    expect("GET //healthz HTTP/1.1\r\n" HOST "\r\n", 404, "route_not_found");
    expect("GET /healthz/ HTTP/1.1\r\n" HOST "\r\n", 404, "route_not_found");
    expect("GET /%68ealthz HTTP/1.1\r\n" HOST "\r\n", 404, "route_not_found");
    expect("GET /healthz?a=1 HTTP/1.1\r\n" HOST "\r\n", 400, "query_parameter");
    expect("GET /private/x HTTP/1.1\r\n" HOST "\r\n", 401, "unauthenticated");
    expect("DELETE /healthz HTTP/1.1\r\n" HOST "\r\n", 405, "method_not_allowed");
    expect("OPTIONS /healthz HTTP/1.1\r\n" HOST "Origin: x\r\nAccess-Control-Request-Method: GET\r\n\r\n", 405,
           "GET, HEAD");
}

static void a_body_that_is_too_large_is_answered_although_it_is_still_coming(void **state)
{
    (void)state;
    static char body[2 << 20];
    struct client *client = dial();
    memset(body, 'x', sizeof(body));
    assert_true(client_say(client, "POST /echo HTTP/1.1\r\n" HOST
                                   "Content-Type: application/octet-stream\r\nContent-Length: 2097152\r\n\r\n"));
    assert_true(client_send(client, body, sizeof(body)));
    struct reply reply = client_read(client, false);
    assert_int_equal(reply.status, 413);
    assert_non_null(strstr(reply.body, "at most 65536"));
    assert_true(client_sees_end(client));
    hang_up(client);
}

static void a_small_refused_body_does_not_cost_the_connection(void **state)
{
    (void)state;
    struct client *client = dial();
    struct reply reply = client_ask(client, "POST /nothing HTTP/1.1\r\n" HOST "Content-Length: 5\r\n\r\nabcde");
    assert_int_equal(reply.status, 404);
    assert_string_equal(reply_header(&reply, "Connection"), "keep-alive");
    assert_int_equal(client_ask(client, "GET /healthz HTTP/1.1\r\n" HOST "\r\n").status, 200);
    hang_up(client);
}

static void requests_follow_each_other_on_one_connection(void **state)
{
    (void)state;
    struct client *client = dial();
    static const char echo[] = "POST /echo HTTP/1.1\r\n" HOST "Content-Type: application/octet-stream\r\n"
                               "Content-Length: 5\r\n\r\nabcde";
    for (int i = 0; i < 3; i++) {
        struct reply reply = client_ask(client, echo);
        assert_int_equal(reply.status, 200);
        assert_memory_equal(reply.body, "abcde", 5);
    }
    assert_true(client_say(client, "GET /healthz HTTP/1.1\r\n" HOST "\r\nGET /large HTTP/1.1\r\n" HOST "\r\n"));
    assert_int_equal(client_read(client, false).status, 200);
    struct reply large = client_read(client, false);
    assert_int_equal(large.body_len, 50000);
    assert_int_equal(large.body[49999], 'x');
    struct reply last = client_ask(client, "GET /healthz HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
    assert_int_equal(last.status, 200);
    assert_string_equal(reply_header(&last, "Connection"), "close");
    assert_true(client_sees_end(client));
    hang_up(client);
}

static void a_body_arrives_in_pieces_and_after_the_permission_to_send_it(void **state)
{
    (void)state;
    struct client *client = dial();
    assert_true(client_say(client, "POST /echo HTTP/1.1\r\n" HOST "Expect: 100-continue\r\n"
                                   "Content-Type: application/octet-stream\r\nContent-Length: 10\r\n\r\n"));
    assert_int_equal(client_read(client, true).status, 100);
    for (int i = 0; i < 10; i++) {
        assert_true(client_say(client, "p"));
    }
    struct reply reply = client_read(client, false);
    assert_int_equal(reply.status, 200);
    assert_int_equal(reply.body_len, 10);
    assert_true(
        client_say(client, "POST /nothing HTTP/1.1\r\n" HOST "Expect: 100-continue\r\nContent-Length: 10\r\n\r\n"));
    assert_int_equal(client_read(client, false).status, 404); /* without ever asking for the body */
    hang_up(client);
}

static void head_answers_without_a_body(void **state)
{
    (void)state;
    struct client *client = dial();
    assert_true(client_say(client, "HEAD /large HTTP/1.1\r\n" HOST "\r\n"));
    struct reply reply = client_read(client, true);
    assert_int_equal(reply.status, 200);
    assert_string_equal(reply_header(&reply, "Content-Length"), "50000");
    assert_int_equal(client_ask(client, "GET /healthz HTTP/1.1\r\n" HOST "\r\n").status, 200);
    hang_up(client);
}

static void every_answer_carries_its_trace(void **state)
{
    (void)state;
    struct client *client = dial();
    struct reply reply =
        client_ask(client, "GET /healthz HTTP/1.1\r\n" HOST
                           "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\r\n");
    assert_memory_equal(reply_header(&reply, "traceparent"), "00-0af7651916cd43dd8448eb211c80319c-", 36);
    reply = client_ask(client, "GET /healthz HTTP/1.1\r\n" HOST
                               "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n"
                               "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\r\n");
    assert_int_equal(reply.status, 200);
    assert_null(strstr(reply_header(&reply, "traceparent"), "0af7651916cd43dd8448eb211c80319c"));
    hang_up(client);
}

/* Listeners */

static void each_port_has_its_own_routes(void **state)
{
    (void)state;
    static const char echo[] = "POST /echo HTTP/1.1\r\n" HOST "Content-Type: application/octet-stream\r\n"
                               "Content-Length: 2\r\n\r\nhi";
    struct client *plain = dial_plain(LISTENER_PLAIN);
    assert_int_equal(client_ask(plain, echo).status, 200);
    assert_int_equal(client_ask(plain, "GET /healthz HTTP/1.1\r\n" HOST "\r\n").status, 404);
    assert_int_equal(client_ask(plain, "GET /large HTTP/1.1\r\n" HOST "\r\n").status, 404);
    hang_up(plain);
    struct client *probe = dial_plain(LISTENER_PROBE);
    assert_int_equal(client_ask(probe, "GET /healthz HTTP/1.1\r\n" HOST "\r\n").status, 200);
    assert_int_equal(client_ask(probe, "GET /readyz HTTP/1.1\r\n" HOST "\r\n").status, 200);
    assert_int_equal(client_ask(probe, echo).status, 404);
    assert_int_equal(client_ask(probe, "GET /api/v1/openapi.json HTTP/1.1\r\n" HOST "\r\n").status, 404);
    /* As haproxy's option httpchk asks, and nowhere else and nothing else. */
    static const struct {
        enum listener_kind where;
        const char *what;
        int status;
    } bare[] = {
        { LISTENER_PROBE, "GET /readyz HTTP/1.0\r\n\r\n", 200 },
        { LISTENER_PROBE, "GET /readyz HTTP/1.1\r\n\r\n", 400 },
        { LISTENER_PROBE, "POST /readyz HTTP/1.0\r\n\r\n", 400 },
        { LISTENER_PROBE, "GET /readyz HTTP/1.0\r\nX: y\r\nBad Name: x\r\n\r\n", 400 },
        { LISTENER_PLAIN, "GET /healthz HTTP/1.0\r\n\r\n", 400 },
    };
    for (size_t i = 0; i < COUNT_OF(bare); i++) {
        struct client *balancer = dial_plain(bare[i].where);
        assert_int_equal(client_ask(balancer, bare[i].what).status, bare[i].status);
        assert_true(client_sees_end(balancer));
        hang_up(balancer);
    }
    struct reply metrics = client_ask(probe, "GET /metrics HTTP/1.1\r\n" HOST "\r\n");
    assert_string_equal(reply_header(&metrics, "Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
    assert_non_null(strstr(metrics.body, "svc_http_requests_total{method=\"POST\",route=\"/echo\",code=\"200\"} 1\n"));
    assert_non_null(
        strstr(metrics.body, "svc_http_requests_total{method=\"GET\",route=\"unmatched\",code=\"404\"} 3\n"));
    assert_non_null(
        strstr(metrics.body, "svc_http_request_duration_seconds_count{method=\"POST\",route=\"/echo\"} 1\n"));
    hang_up(probe);
    expect("GET /api/v1/openapi.json HTTP/1.1\r\n" HOST "\r\n", 200, "\"/private/{id}\"");
}

/* Pressure: 8 threads, 2 of them spare, so 6 requests at once */

static void many_idle_connections_do_not_starve_a_newcomer(void **state)
{
    (void)state;
    struct client *idle[30];
    for (size_t i = 0; i < COUNT_OF(idle); i++) {
        idle[i] = dial();
        assert_int_equal(client_ask(idle[i], "GET /healthz HTTP/1.1\r\n" HOST "\r\n").status, 200);
    }
    expect("GET /healthz HTTP/1.1\r\n" HOST "\r\n", 200, "ok");
    for (size_t i = 0; i < COUNT_OF(idle); i++) {
        hang_up(idle[i]);
    }
}

static void many_connections_that_say_nothing_do_not_starve_a_newcomer(void **state)
{
    (void)state;
    struct client *silent[20]; /* they do not even shake hands */
    for (size_t i = 0; i < COUNT_OF(silent); i++) {
        silent[i] = dial_plain(LISTENER_TLS);
    }
    expect("GET /healthz HTTP/1.1\r\n" HOST "\r\n", 200, "ok");
    for (size_t i = 0; i < COUNT_OF(silent); i++) {
        hang_up(silent[i]);
    }
}

static void probes_are_answered_while_every_worker_is_busy(void **state)
{
    (void)state;
    struct client *busy[6];
    for (size_t i = 0; i < COUNT_OF(busy); i++) {
        busy[i] = dial();
        assert_true(client_say(busy[i], "GET /gate HTTP/1.1\r\n" HOST "\r\n"));
    }
    gate_await(COUNT_OF(busy));
    expect("GET /large HTTP/1.1\r\n" HOST "\r\n", 503, "bulkhead_saturated");
    for (int i = 0; i < 3; i++) {
        expect("GET /healthz HTTP/1.1\r\n" HOST "\r\n", 200, "ok");
        expect("GET /readyz HTTP/1.1\r\n" HOST "\r\n", 200, "\"status\":\"ready\"");
    }
    struct client *seventh = dial(); /* a spare thread: it is not to be kept */
    struct reply reply = client_ask(seventh, "GET /healthz HTTP/1.1\r\n" HOST "\r\n");
    assert_string_equal(reply_header(&reply, "Connection"), "close");
    hang_up(seventh);
    struct client *probe = dial_plain(LISTENER_PROBE);
    assert_int_equal(client_ask(probe, "GET /readyz HTTP/1.1\r\n" HOST "\r\n").status, 200);
    hang_up(probe);
    gate_set(true);
    for (size_t i = 0; i < COUNT_OF(busy); i++) {
        assert_int_equal(client_read(busy[i], false).status, 200);
        hang_up(busy[i]);
    }
    expect("GET /large HTTP/1.1\r\n" HOST "\r\n", 200, "xxx");
}

/* Drain */

static void a_drain_finishes_what_runs_and_takes_nothing_new(void **state)
{
    (void)state;
    struct client *running = dial();
    struct client *idle = dial();
    struct client *probe = dial_plain(LISTENER_PROBE);
    int port = tls_port();
    assert_int_equal(client_ask(idle, "GET /healthz HTTP/1.1\r\n" HOST "\r\n").status, 200);
    assert_true(client_say(running, "GET /gate HTTP/1.1\r\n" HOST "\r\n"));
    gate_await(1);
    server_stop_accepting(server);
    assert_true(client_sees_end(idle));
    int late = client_connect(port);
    char byte;
    assert_true(late < 0 || recv(late, &byte, 1, 0) <= 0);
    if (late >= 0) {
        (void)close(late);
    }
    struct reply ready = client_ask(probe, "GET /readyz HTTP/1.1\r\n" HOST "\r\n");
    while (ready.status == 200) { /* the outcome of a moment ago is still kept */
        ready = client_ask(probe, "GET /readyz HTTP/1.1\r\n" HOST "\r\n");
    }
    assert_int_equal(ready.status, 503);
    assert_non_null(strstr(ready.body, "stopping"));
    gate_set(true);
    struct reply reply = client_read(running, false);
    assert_int_equal(reply.status, 200);
    assert_memory_equal(reply.body, "through", 7);
    assert_string_equal(reply_header(&reply, "Connection"), "close");
    hang_up(running);
    hang_up(idle);
    hang_up(probe);
}

/* Start */

static void a_server_that_cannot_start_says_why(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    const char *text = NULL;
    struct server *none = NULL;
    struct server_config wanted = { .services = &services, .features = features, .feature_count = COUNT_OF(features) };
    char address[64];
    start();
    (void)snprintf(address, sizeof(address), "127.0.0.1:%d", tls_port());
    config.http_listen = address; /* taken by the one that runs */
    assert_fault(server_start(&wanted, &why, &none), IO);
    assert_fault(buf_cstr(&why, &text), NONE);
    assert_non_null(strstr(text, address));
    config.http_listen = "127.0.0.1:0";
    buf_clear(&why);
    config.http_tls_certificate = "/nonexistent.pem";
    config.http_tls_key = "/nonexistent.key";
    assert_fault(server_start(&wanted, &why, &none), CONFIG);
    assert_fault(buf_cstr(&why, &text), NONE);
    assert_non_null(strstr(text, "/nonexistent.pem"));
    config.http_tls_certificate = config.http_tls_key = NULL;
    assert_null(none);
    (void)tear_down(NULL);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH(what_is_not_approved_gets_no_handshake),
        WITH(approved_handshakes_work),
        WITH(plain_text_on_the_tls_port_and_rubbish_do_not_stop_it),
        WITH(requests_that_two_readers_could_read_differently_are_refused_and_the_connection_closed),
        WITH(too_many_or_too_large_headers_are_refused),
        WITH(paths_and_queries_are_taken_literally),
        WITH(a_body_that_is_too_large_is_answered_although_it_is_still_coming),
        WITH(a_small_refused_body_does_not_cost_the_connection),
        WITH(requests_follow_each_other_on_one_connection),
        WITH(a_body_arrives_in_pieces_and_after_the_permission_to_send_it),
        WITH(head_answers_without_a_body),
        WITH(every_answer_carries_its_trace),
        WITH(each_port_has_its_own_routes),
        WITH(many_idle_connections_do_not_starve_a_newcomer),
        WITH(many_connections_that_say_nothing_do_not_starve_a_newcomer),
        WITH(probes_are_answered_while_every_worker_is_busy),
        WITH(a_drain_finishes_what_runs_and_takes_nothing_new),
        cmocka_unit_test(a_server_that_cannot_start_says_why),
    };
    return cmocka_run_group_tests_name("server_http", tests, set_up_once, NULL);
}
