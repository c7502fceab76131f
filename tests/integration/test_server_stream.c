/* Answers that are sent while they are made: chunks, cuts, slow and vanishing clients, on both listeners. */
#include "integration/server_testlib.h"

#include <stdatomic.h>

#define PIECE ((size_t)10000)

/* What the handler did last; read when the connection's end was seen, or polled. */
static atomic_int outcome = -1;
static atomic_size_t written;

/* ?pieces=N pieces of PIECE bytes, then ?then=fault a failure. */
static struct fault stream(struct request *request)
{
    static uint8_t piece[PIECE];
    const char *pieces = request_query(request, "pieces"), *then = request_query(request, "then");
    const char *limit = request_query(request, "limit_ms");
    if (limit != NULL) {
        request->op->deadline = clock_mono() + atoll(limit) * NS_PER_MS;
    }
    TRY(response_header(request, "X-Kind", "stream"));
    TRY(response_stream_begin(request, 0, "text/plain"));
    for (long long i = 0; i < atoll(pieces); i++) {
        memset(piece, 'a' + (int)(i % 26), sizeof(piece));
        TRY(response_stream_write(request, SPAN_ARRAY(piece)));
        atomic_fetch_add(&written, sizeof(piece));
    }
    return then != NULL ? op_fail(request->op, FAULT(TOKEN_UNAVAILABLE), "the token is away") : OK;
}

static struct fault handle(struct request *request)
{
    atomic_store(&outcome, -1);
    atomic_store(&written, 0);
    struct fault fault = stream(request);
    atomic_store(&outcome, (int)fault.code);
    return fault;
}

static struct fault handle_post(struct request *request)
{
    TRY(response_stream_begin(request, 0, "text/plain"));
    return response_stream_write(request, request->raw_body);
}

static const char *const query[] = { "pieces", "then", "limit_ms", NULL };
static const struct route routes[] = {
    { .name = "stream",
      .path = "/stream",
      .permission = PERMISSION_PUBLIC,
      .flags = ROUTE_PLAIN_TOO,
      .query = query,
      .success_status = 200,
      .handler = handle },
    { .name = "post",
      .path = "/post",
      .method = ROUTE_POST,
      .permission = PERMISSION_PUBLIC,
      .flags = ROUTE_RAW_BODY,
      .content_type = "text/plain",
      .success_status = 200,
      .handler = handle_post },
};
static const struct feature feature = { .name = "test", .routes = routes, .route_count = COUNT_OF(routes) };
static const struct feature *const features[] = { &server_feature, &feature };

static int set_up(void **state)
{
    (void)state;
    server_begin(features, COUNT_OF(features));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    server_end();
    return 0;
}

/* One chunked body. False when it ends before its last chunk. */
static bool read_chunks(struct client *client, size_t *ret_len, size_t *ret_chunks)
{
    *ret_len = *ret_chunks = 0;
    for (;;) {
        char *end = NULL;
        while ((end = client->len > 0 ? strstr(client->text, "\r\n") : NULL) == NULL) {
            if (!client_receive(client)) {
                return false;
            }
        }
        size_t size = strtoul(client->text, NULL, 16), line = (size_t)(end - client->text) + 2;
        while (client->len < line + size + 2) {
            if (!client_receive(client)) {
                return false;
            }
        }
        for (size_t i = 0; i < size; i++) {
            assert_int_equal(client->text[line + i], 'a' + (int)((*ret_len + i) / PIECE % 26));
        }
        client_take(client, line + size + 2);
        if (size == 0) {
            return true;
        }
        *ret_len += size;
        ++*ret_chunks;
    }
}

static int await_outcome(void)
{
    for (mono_ns end = clock_mono() + 60 * NS_PER_S; atomic_load(&outcome) < 0;) {
        assert_true(clock_mono() < end);
        (void)poll(NULL, 0, 5);
    }
    return atomic_load(&outcome);
}

static void check_fault_before_anything_left(struct client *client)
{
    struct reply reply = client_ask(client, "GET /stream?pieces=5&then=fault HTTP/1.1\r\n" HOST "\r\n");
    assert_int_equal(reply.status, 503);
    assert_non_null(strstr(reply.body, "token_unavailable"));
    assert_null(reply_header(&reply, "X-Kind"));
    assert_null(reply_header(&reply, "Transfer-Encoding"));
}

static void check_cut(struct client *client)
{
    size_t len = 0, chunks = 0;
    assert_int_equal(client_ask(client, "GET /stream?pieces=50&then=fault HTTP/1.1\r\n" HOST "\r\n").status, 200);
    assert_false(read_chunks(client, &len, &chunks));
    assert_true(len >= RESPONSE_CHUNK && len < 50 * PIECE);
    client->len = 0;
    assert_true(client_sees_end(client));
}

static void check_whole(struct client *client)
{
    for (size_t pieces = 0; pieces <= 1000; pieces = pieces * 10 + 1) {
        char text[128];
        size_t len = 0, chunks = 0;
        (void)snprintf(text, sizeof(text), "GET /stream?pieces=%zu HTTP/1.1\r\n" HOST "\r\n", pieces);
        struct reply reply = client_ask(client, text);
        assert_int_equal(reply.status, 200);
        assert_string_equal(reply_header(&reply, "X-Kind"), "stream");
        assert_string_equal(reply_header(&reply, "Transfer-Encoding"), "chunked");
        assert_string_equal(reply_header(&reply, "Content-Type"), "text/plain");
        assert_string_equal(reply_header(&reply, "Connection"), "keep-alive");
        assert_null(reply_header(&reply, "Content-Length"));
        assert_true(read_chunks(client, &len, &chunks));
        assert_int_equal(len, pieces * PIECE);
        assert_int_equal(chunks, (len + RESPONSE_CHUNK - 1) / RESPONSE_CHUNK);
    }
}

static void an_answer_fails_as_a_problem_before_it_left_and_is_cut_afterwards(void **state)
{
    (void)state;
    for (int plain = 0; plain < 2; plain++) {
        struct client *client = plain ? dial_plain(LISTENER_PLAIN) : dial();
        check_fault_before_anything_left(client);
        check_whole(client);
        check_cut(client);
        hang_up(client);
    }
    struct client *probe = dial_plain(LISTENER_PROBE);
    struct reply metrics = client_ask(probe, "GET /metrics HTTP/1.1\r\n" HOST "\r\n");
    assert_non_null(strstr(metrics.body, "svc_http_requests_total{method=\"GET\",route=\"/stream\",code=\"503\"} 2\n"));
    hang_up(probe);
}

static void http_1_0_is_refused_and_head_has_no_body(void **state)
{
    (void)state;
    struct client *client = dial();
    struct reply reply = client_ask(client, "GET /stream?pieces=1 HTTP/1.0\r\n" HOST "\r\n");
    assert_int_equal(reply.status, 400);
    assert_non_null(strstr(reply.body, "HTTP/1.1"));
    hang_up(client);
    client = dial();
    assert_true(client_say(client, "HEAD /stream?pieces=3 HTTP/1.1\r\n" HOST "\r\n"));
    reply = client_read(client, true);
    assert_int_equal(reply.status, 200);
    assert_string_equal(reply_header(&reply, "Transfer-Encoding"), "chunked");
    assert_int_equal(client_ask(client, "GET /healthz HTTP/1.1\r\n" HOST "\r\n").status, 200);
    size_t len = 0, chunks = 0;
    reply =
        client_ask(client, "POST /post HTTP/1.1\r\n" HOST "Content-Type: text/plain\r\nContent-Length: 4\r\n\r\naaaa");
    assert_int_equal(reply.status, 200);
    assert_true(read_chunks(client, &len, &chunks));
    assert_int_equal(len, 4);
    hang_up(client);
}

static void a_client_that_goes_away_ends_the_handler(void **state)
{
    (void)state;
    for (int plain = 0; plain < 2; plain++) {
        struct client *client = plain ? dial_plain(LISTENER_PLAIN) : dial();
        atomic_store(&outcome, -1);
        assert_int_equal(client_ask(client, "GET /stream?pieces=1000000 HTTP/1.1\r\n" HOST "\r\n").status, 200);
        hang_up(client);
        assert_int_equal(await_outcome(), FAULT_IO);
    }
    expect("GET /healthz HTTP/1.1\r\n" HOST "\r\n", 200, "ok");
}

/* Whoever reads too slowly meets the deadline, and the answer is cut. (One who reads nothing at all is cut by the time
 * limit of a single write, which takes too long to be waited for here.) */
static void a_deadline_that_passes_cuts_the_answer(void **state)
{
    (void)state;
    struct client *client = dial();
    size_t len = 0, chunks = 0;
    assert_int_equal(client_ask(client, "GET /stream?pieces=100000000&limit_ms=300 HTTP/1.1\r\n" HOST "\r\n").status,
                     200);
    assert_false(read_chunks(client, &len, &chunks));
    assert_int_equal(await_outcome(), FAULT_DEADLINE);
    hang_up(client);
}

int main(void)
{
#define WITH(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        WITH(an_answer_fails_as_a_problem_before_it_left_and_is_cut_afterwards),
        WITH(http_1_0_is_refused_and_head_has_no_body),
        WITH(a_client_that_goes_away_ends_the_handler),
        WITH(a_deadline_that_passes_cuts_the_answer),
    };
    return cmocka_run_group_tests_name("server_stream", tests, set_up_once, NULL);
}
