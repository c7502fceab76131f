#include "signer-pkcs11/client/dial.h"
#include "signer-pkcs11/protocol/tcp.h"
#include "unit/protocol/tls_pair.h"

#include <netinet/in.h>

/* A client's end whose signer is a listener of the test's own. */
struct desk {
    struct world world;
    struct config config;
    char address[64];
    int listener;
    struct dial *dial;
    struct op *op;
};

static int listener_new(unsigned *ret_port)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(fd, 8), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    *ret_port = ntohs(address.sin_port);
    return fd;
}

static void desk_new(struct desk *desk, const char *host)
{
    unsigned port = 0;
    *desk = (struct desk){ .listener = -1 };
    world_new(&desk->world);
    desk->listener = listener_new(&port);
    (void)snprintf(desk->address, sizeof(desk->address), "%s:%u", host, port);
    desk->config = (struct config){ .signer_socket = "/nonexistent",
                                    .signer_address = desk->address,
                                    .signer_tls_certificate = desk->world.paths[3],
                                    .signer_tls_key = desk->world.paths[4],
                                    .signer_tls_ca = desk->world.paths[5],
                                    .signer_peer_names = desk->world.client_list };
    assert_fault(dial_new(&desk->config, &desk->dial), NONE);
    assert_fault(op_new("test", (struct tenant_id){ "acme" }, 60000, &desk->op), NONE);
}

static void desk_free(struct desk *desk)
{
    dial_free(TAKE(desk->dial));
    op_free(TAKE(desk->op));
    fd_closep(&desk->listener);
    world_free(&desk->world);
}

static void assert_no_way(struct desk *desk, mono_ns deadline, const char *words)
{
    int fd = -1;
    struct tls_stream *tls = NULL;
    desk->op->note = (struct fault_note){ 0 };
    assert_fault(dial_connect(desk->op, desk->dial, deadline, &fd, &tls), SIGNER_UNAVAILABLE);
    assert_int_equal(fd, -1);
    assert_null(tls);
    if (strstr(desk->op->note.log_detail, words) == NULL) {
        fail_msg("'%s' does not say '%s'", desk->op->note.log_detail, words);
    }
}

static void an_address_that_is_none_is_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = { "x", ":1", "x:", "x:123456", "x:1a", "[::1:9", "[]:1", "x: 1" };
    struct tcp_address address;
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        assert_fault(tcp_address_parse(wrong[i], &address), BAD_ARGUMENT);
    }
    assert_fault(tcp_address_parse("[::1]:9443", &address), NONE);
    assert_string_equal(address.host, "::1");
    assert_string_equal(address.port, "9443");
}

static void a_host_that_does_not_listen_is_told(void **state)
{
    (void)state;
    CLEANUP(desk_free) struct desk desk;
    desk_new(&desk, "127.0.0.1");
    fd_closep(&desk.listener);
    assert_no_way(&desk, FAR, "Connection refused");
}

static void a_host_that_does_not_shake_hands_costs_no_more_than_the_deadline(void **state)
{
    (void)state;
    CLEANUP(desk_free) struct desk desk;
    desk_new(&desk, "127.0.0.1");
    assert_no_way(&desk, SOON, "handshake_timeout"); /* it waits in the listener's queue */
}

static void a_name_that_nobody_knows_costs_no_more_than_the_deadline(void **state)
{
    (void)state;
    CLEANUP(desk_free) struct desk desk;
    desk_new(&desk, "no-such-host.invalid");
    assert_no_way(&desk, SOON, "no-such-host.invalid");
    assert_no_way(&desk, SOON, "no-such-host.invalid"); /* perhaps while the first question still stands */
}

static void files_that_are_not_usable_are_told_and_looked_at_again(void **state)
{
    (void)state;
    CLEANUP(desk_free) struct desk desk;
    desk_new(&desk, "127.0.0.1");
    assert_int_equal(chmod(desk.world.paths[4], 0644), 0);
    assert_no_way(&desk, FAR, "signer.tls_key_file");
    assert_int_equal(chmod(desk.world.paths[4], 0600), 0);
    assert_no_way(&desk, SOON, "handshake_timeout"); /* further than before */
}

struct host {
    struct tls_end *end;
    int listener;
    struct fault fault;
};

/* Takes one connection, and says "hello" on it. */
static void *host_main(void *arg)
{
    struct host *host = arg;
    struct tls_report report;
    struct tls_stream *tls = NULL;
    size_t sent = 0;
    int fd = accept4(host->listener, NULL, NULL, SOCK_CLOEXEC);
    host->fault = tls_stream_open(host->end, fd, FAR, &report, &tls);
    if (!FAULTED(host->fault)) {
        host->fault = tls_stream_send(tls, span_text("hello"), FAR, &sent);
    }
    tls_stream_free(tls);
    fd_close(fd);
    return NULL;
}

static void the_right_host_is_connected_by_name_and_by_number(void **state)
{
    (void)state;
    static const char *const hosts[] = { "127.0.0.1", "localhost" };
    for (size_t i = 0; i < COUNT_OF(hosts); i++) {
        CLEANUP(desk_free) struct desk desk;
        struct tls_stream *tls = NULL;
        pthread_t thread;
        uint8_t bytes[8];
        size_t got = 0;
        int fd = -1;
        desk_new(&desk, hosts[i]);
        struct host host = { .end = end_of(&desk.world.at_server), .listener = desk.listener };
        assert_int_equal(pthread_create(&thread, NULL, host_main, &host), 0);
        assert_fault(dial_connect(desk.op, desk.dial, FAR, &fd, &tls), NONE);
        assert_fault(tls_stream_recv(tls, bytes, sizeof(bytes), FAR, &got), NONE);
        assert_span_text(span_of(bytes, got), "hello");
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_fault(host.fault, NONE);
        tls_stream_free(tls);
        fd_close(fd);
        tls_end_free(host.end);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_that_is_none_is_refused),
        cmocka_unit_test(a_host_that_does_not_listen_is_told),
        cmocka_unit_test(a_host_that_does_not_shake_hands_costs_no_more_than_the_deadline),
        cmocka_unit_test(a_name_that_nobody_knows_costs_no_more_than_the_deadline),
        cmocka_unit_test(files_that_are_not_usable_are_told_and_looked_at_again),
        cmocka_unit_test(the_right_host_is_connected_by_name_and_by_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
