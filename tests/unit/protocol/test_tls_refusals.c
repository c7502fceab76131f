#include "tls_pair.h"

#include <poll.h>
#include <signal.h>

/* The server says why; the client, which in TLS 1.3 is done first, learns of it with its first read. */
static void assert_server_refuses(struct world *world, enum tls_refusal wanted)
{
    CLEANUP(pair_free) struct pair pair;
    uint8_t byte;
    size_t got = 0;
    pair_meet(&pair, world);
    assert_string_equal(tls_refusal_text(pair.server.report.refusal), tls_refusal_text(wanted));
    assert_fault(pair.server.fault, SIGNER_UNAVAILABLE);
    assert_null(pair.server.stream);
    assert_int_equal(pair.server.report.peer[0], 0);
    if (pair.client.stream != NULL) {
        assert_fault(tls_stream_recv(pair.client.stream, &byte, 1, FAR, &got), SIGNER_UNAVAILABLE);
    }
}

static void assert_client_refuses(struct world *world, enum tls_refusal wanted)
{
    CLEANUP(pair_free) struct pair pair;
    pair_meet(&pair, world);
    assert_string_equal(tls_refusal_text(pair.client.report.refusal), tls_refusal_text(wanted));
    assert_fault(pair.client.fault, SIGNER_UNAVAILABLE);
    assert_null(pair.client.stream);
    assert_fault(pair.server.fault, SIGNER_UNAVAILABLE);
    assert_string_equal(tls_refusal_text(pair.server.report.refusal), "refused_by_peer");
}

/* ---- certificates, of either end ---- */

struct row {
    struct certs_wanted wanted;
    enum tls_refusal refusal;
    bool of_another;
};

static void a_certificate_that_is_not_right_in_every_point_is_refused_by_either_end(void **state)
{
    (void)state;
    static const char nul[] = "api.example\0.evil.example";
    const struct row rows[] = {
        { { .names = "DNS:%s" }, TLS_REFUSAL_UNTRUSTED, true },
        { { .names = "DNS:other.example" }, TLS_REFUSAL_NAME, false },
        { { .names = "DNS:x.%s" }, TLS_REFUSAL_NAME, false },
        { { .names = "DNS:%s.evil.example" }, TLS_REFUSAL_NAME, false },
        { { .names = "DNS:*.example" }, TLS_REFUSAL_NAME, false },
        { { .names = "email:%s" }, TLS_REFUSAL_NAME, false },
        { { .names = NULL }, TLS_REFUSAL_NAME, false },
        { { .raw_name = { (const uint8_t *)nul, sizeof(nul) - 1 } }, TLS_REFUSAL_NAME, false },
        { { .names = "DNS:%s", .from_day = -9, .to_day = -1 }, TLS_REFUSAL_EXPIRED, false },
        { { .names = "DNS:%s", .from_day = 1, .to_day = 9 }, TLS_REFUSAL_NOT_YET, false },
    };
    for (size_t i = 0; i < 2 * COUNT_OF(rows); i++) {
        bool client = i % 2 == 0;
        const struct row *row = &rows[i / 2];
        CLEANUP(world_free) struct world world;
        char names[128];
        world_new(&world);
        struct issued other = certs_issue(&(struct certs_wanted){ .name = "authority", .authority = true });
        struct certs_wanted wanted = row->wanted;
        wanted.name = client ? "api.example" : "signer.example"; /* a common name counts for nothing */
        wanted.usage = client ? "clientAuth" : "serverAuth";
        wanted.issuer = row->of_another ? &other : &world.ca;
        if (wanted.names != NULL) {
            const char *hole = strstr(wanted.names, "%s");
            (void)snprintf(names, sizeof(names), "%.*s%s%s", hole != NULL ? (int)(hole - wanted.names) : 99,
                           wanted.names, hole != NULL ? wanted.name : "", hole != NULL ? hole + 2 : "");
            wanted.names = names;
        }
        world_give(&world, client ? "client" : "server", &wanted);
        client ? assert_server_refuses(&world, row->refusal) : assert_client_refuses(&world, row->refusal);
        issued_clear(&other);
    }
}

/* Such a certificate is refused at our own start (test_tls_end), so here it comes from elsewhere. */
static SSL_CTX *stranger_new(const struct world *world, const struct issued *shown)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    assert_non_null(context);
    SSL_CTX_set_security_level(context, 0);
    assert_int_equal(SSL_CTX_load_verify_locations(context, world->paths[2], NULL), 1);
    if (shown != NULL) {
        assert_int_equal(SSL_CTX_use_certificate(context, shown->certificate), 1);
        assert_int_equal(SSL_CTX_use_PrivateKey(context, shown->key), 1);
    }
    return context;
}

static void assert_stranger_is_refused(const struct world *world, SSL_CTX *context, enum tls_refusal wanted)
{
    struct tls_end *end = end_of(&world->at_server);
    struct shaker server;
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    shaker_start(&server, end, fds[0], FAR);
    SSL_free(stranger_meets(&server, context, fds[1]));
    assert_string_equal(tls_refusal_text(server.report.refusal), tls_refusal_text(wanted));
    assert_fault(server.fault, SIGNER_UNAVAILABLE);
    assert_null(server.stream);
    SSL_CTX_free(context);
    (void)close(fds[0]);
    (void)close(fds[1]);
    tls_end_free(end);
}

static void a_client_whose_certificate_is_not_for_clients_is_refused(void **state)
{
    (void)state;
    CLEANUP(world_free) struct world world;
    world_new(&world);
    static const char *const usages[] = { NULL, "serverAuth", "codeSigning", "anyExtendedKeyUsage" };
    for (size_t i = 0; i < COUNT_OF(usages); i++) {
        struct issued shown = certs_issue(&(struct certs_wanted){
            .name = "api", .names = "DNS:api.example", .usage = usages[i], .issuer = &world.ca });
        assert_stranger_is_refused(&world, stranger_new(&world, &shown), TLS_REFUSAL_PURPOSE);
        issued_clear(&shown);
    }
}

static void a_client_without_a_certificate_is_refused(void **state)
{
    (void)state;
    CLEANUP(world_free) struct world world;
    world_new(&world);
    assert_stranger_is_refused(&world, stranger_new(&world, NULL), TLS_REFUSAL_NO_CERTIFICATE);
}

static void a_weak_key_is_refused(void **state)
{
    (void)state;
    CLEANUP(world_free) struct world world;
    world_new(&world);
    struct issued shown = certs_issue(&(struct certs_wanted){
        .name = "api", .names = "DNS:api.example", .usage = "clientAuth", .issuer = &world.ca, .rsa_bits = 1024 });
    assert_stranger_is_refused(&world, stranger_new(&world, &shown), TLS_REFUSAL_WEAK);
    issued_clear(&shown);
}

static void a_leaf_that_issues_is_no_authority(void **state)
{
    (void)state;
    CLEANUP(world_free) struct world world;
    world_new(&world);
    struct issued shown = certs_issue(&(struct certs_wanted){
        .name = "api", .names = "DNS:api.example", .usage = "clientAuth", .issuer = &world.client });
    SSL_CTX *context = stranger_new(&world, &shown);
    assert_int_equal(SSL_CTX_add1_chain_cert(context, world.client.certificate), 1);
    assert_stranger_is_refused(&world, context, TLS_REFUSAL_UNTRUSTED);
    issued_clear(&shown);
}

/* ---- the protocol ---- */

static void tls_1_2_is_refused(void **state)
{
    (void)state;
    CLEANUP(world_free) struct world world;
    world_new(&world);
    SSL_CTX *context = stranger_new(&world, &world.client);
    assert_int_equal(SSL_CTX_set_max_proto_version(context, TLS1_2_VERSION), 1);
    assert_stranger_is_refused(&world, context, TLS_REFUSAL_VERSION);
}

static void groups_and_ciphers_that_are_not_approved_are_refused(void **state)
{
    (void)state;
    CLEANUP(world_free) struct world world;
    world_new(&world);
    SSL_CTX *context = stranger_new(&world, &world.client);
    assert_int_equal(SSL_CTX_set1_groups_list(context, "X25519:X448"), 1);
    assert_stranger_is_refused(&world, context, TLS_REFUSAL_ALGORITHM);
    context = stranger_new(&world, &world.client);
    assert_int_equal(SSL_CTX_set_ciphersuites(context, "TLS_CHACHA20_POLY1305_SHA256"), 1);
    assert_stranger_is_refused(&world, context, TLS_REFUSAL_ALGORITHM);
}

static void nothing_is_resumed(void **state)
{
    (void)state;
    CLEANUP(world_free) struct world world;
    world_new(&world);
    struct tls_end *end = end_of(&world.at_server);
    SSL_CTX *context = stranger_new(&world, &world.client);
    SSL_SESSION *session = NULL;
    for (int i = 0; i < 2; i++) {
        struct shaker server;
        int fds[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
        shaker_start(&server, end, fds[0], FAR);
        SSL *ssl = SSL_new(context);
        assert_int_equal(SSL_set_fd(ssl, fds[1]), 1);
        if (session != NULL) {
            assert_int_equal(SSL_set_session(ssl, session), 1);
        }
        assert_int_equal(SSL_connect(ssl), 1);
        shaker_end(&server);
        assert_fault(server.fault, NONE);
        size_t sent = 0;
        assert_fault(tls_stream_send(server.stream, span_text("x"), FAR, &sent), NONE);
        char byte = 0;
        assert_int_equal(SSL_read(ssl, &byte, 1), 1); /* a ticket would have come before it */
        assert_int_equal(SSL_session_reused(ssl), 0);
        assert_int_equal(SSL_SESSION_is_resumable(SSL_get_session(ssl)), 0);
        assert_int_equal(SSL_SESSION_get_max_early_data(SSL_get_session(ssl)), 0);
        SSL_SESSION_free(session);
        session = SSL_get1_session(ssl);
        tls_stream_free(server.stream);
        SSL_free(ssl);
        (void)close(fds[0]);
        (void)close(fds[1]);
    }
    SSL_SESSION_free(session);
    SSL_CTX_free(context);
    tls_end_free(end);
}

/* ---- peers that do not speak TLS, or not now ---- */

static void assert_bytes_are_refused(const struct world *world, struct span bytes, bool closes, enum tls_refusal wanted)
{
    struct tls_end *end = end_of(&world->at_server);
    struct shaker server;
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    assert_int_equal(send(fds[1], bytes.at, bytes.len, 0), (ssize_t)bytes.len);
    if (closes) {
        (void)shutdown(fds[1], SHUT_WR);
    }
    shaker_start(&server, end, fds[0], closes ? FAR : SOON);
    shaker_end(&server);
    assert_string_equal(tls_refusal_text(server.report.refusal), tls_refusal_text(wanted));
    assert_true(FAULTED(server.fault));
    assert_null(server.stream);
    (void)close(fds[0]);
    (void)close(fds[1]);
    tls_end_free(end);
}

static void what_is_not_tls_is_refused(void **state)
{
    (void)state;
    CLEANUP(world_free) struct world world;
    world_new(&world);
    uint8_t garbage[4096];
    static const uint8_t record_too_long[] = { 22, 3, 1, 0xff, 0xff, 1, 0, 0, 0 };
    static const uint8_t hello_too_long[] = { 22, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff };
    memset(garbage, 0xa5, sizeof(garbage));
    assert_bytes_are_refused(&world, SPAN_ARRAY(garbage), true, TLS_REFUSAL_NOT_TLS);
    assert_bytes_are_refused(&world, span_text("GET / HTTP/1.1\r\nHost: signer\r\n\r\n"), true, TLS_REFUSAL_NOT_TLS);
    assert_bytes_are_refused(&world, span_of("\0\0\0\5\1\2\3\4\5", 9), true, TLS_REFUSAL_NOT_TLS); /* a plain frame */
    assert_bytes_are_refused(&world, SPAN_ARRAY(record_too_long), true, TLS_REFUSAL_NOT_TLS);
    assert_bytes_are_refused(&world, SPAN_ARRAY(hello_too_long), true, TLS_REFUSAL_NOT_TLS);
}

static void a_peer_that_leaves_or_is_silent_holds_nobody(void **state)
{
    (void)state;
    CLEANUP(world_free) struct world world;
    world_new(&world);
    static const uint8_t begun[] = { 22, 3, 1, 1, 0, 1, 0, 0, 0xfc, 3, 3 };
    assert_bytes_are_refused(&world, span_of("", 0), true, TLS_REFUSAL_CLOSED);
    assert_bytes_are_refused(&world, SPAN_ARRAY(begun), true, TLS_REFUSAL_CLOSED);
    assert_bytes_are_refused(&world, span_of("", 0), false, TLS_REFUSAL_TIMEOUT);
    assert_bytes_are_refused(&world, SPAN_ARRAY(begun), false, TLS_REFUSAL_TIMEOUT);
}

struct dripper {
    int fd;
};

static void *drip(void *arg)
{
    const struct dripper *dripper = arg;
    static const uint8_t begun[] = { 22, 3, 1, 0x10, 0, 1, 0, 0x0f, 0xfc, 3, 3 };
    for (size_t i = 0; i < 4000; i++) { /* not for ever, so that a server that suffers it fails its test */
        uint8_t byte = i < sizeof(begun) ? begun[i] : 0;
        if (send(dripper->fd, &byte, 1, MSG_NOSIGNAL) != 1) {
            return NULL;
        }
        (void)poll(NULL, 0, 1); /* the pace of the attack */
    }
    (void)shutdown(dripper->fd, SHUT_WR);
    return NULL;
}

static void a_peer_that_drips_its_handshake_is_cut_off_at_the_deadline(void **state)
{
    (void)state;
    CLEANUP(world_free) struct world world;
    world_new(&world);
    struct tls_end *end = end_of(&world.at_server);
    struct shaker server;
    pthread_t thread;
    int fds[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    struct dripper dripper = { fds[1] };
    assert_int_equal(pthread_create(&thread, NULL, drip, &dripper), 0);
    shaker_start(&server, end, fds[0], SOON);
    shaker_end(&server);
    assert_fault(server.fault, DEADLINE);
    assert_string_equal(tls_refusal_text(server.report.refusal), "handshake_timeout");
    (void)close(fds[0]);
    assert_int_equal(pthread_join(thread, NULL), 0);
    (void)close(fds[1]);
    tls_end_free(end);
}

static void every_reason_has_a_word_of_its_own(void **state)
{
    (void)state;
    for (unsigned i = 0; i < TLS_REFUSAL_COUNT; i++) {
        for (unsigned j = 0; j < i; j++) {
            assert_string_not_equal(tls_refusal_text(i), tls_refusal_text(j));
        }
    }
    assert_string_equal(tls_refusal_text(TLS_REFUSAL_COUNT), "internal");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_certificate_that_is_not_right_in_every_point_is_refused_by_either_end),
        cmocka_unit_test(a_client_whose_certificate_is_not_for_clients_is_refused),
        cmocka_unit_test(a_client_without_a_certificate_is_refused),
        cmocka_unit_test(a_weak_key_is_refused),
        cmocka_unit_test(a_leaf_that_issues_is_no_authority),
        cmocka_unit_test(tls_1_2_is_refused),
        cmocka_unit_test(groups_and_ciphers_that_are_not_approved_are_refused),
        cmocka_unit_test(nothing_is_resumed),
        cmocka_unit_test(what_is_not_tls_is_refused),
        cmocka_unit_test(a_peer_that_leaves_or_is_silent_holds_nobody),
        cmocka_unit_test(a_peer_that_drips_its_handshake_is_cut_off_at_the_deadline),
        cmocka_unit_test(every_reason_has_a_word_of_its_own),
    };
    (void)signal(SIGPIPE, SIG_IGN); /* for the strangers: ours raises none */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
