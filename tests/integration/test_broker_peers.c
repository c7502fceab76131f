/* svc-signer among peers that do not keep to the protocol, at its socket and at its TLS door: each loses its own
 * connection and nothing else. The signer runs as its own user here, so that root is the supervisor, svc-api is
 * svc-api, and others are strangers. */
#include "signer.h"

#include "signer-pkcs11/protocol/message.h"
#include "signer-pkcs11/protocol/tls_end.h"
#include "signer-pkcs11/protocol/tls_stream.h"

#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#define UID_SIGNER   642
#define UID_API      643
#define UID_STRANGER 65534
#define CROWD        200 /* more than the signer takes */
#define API_MOST     120
#define RESERVED     8

static struct rig rig;
static struct tls_end *tls; /* svc-api of another host */

static int give_away(const char *path, const struct stat *status, int kind, struct FTW *where)
{
    (void)status;
    (void)kind;
    (void)where;
    return chown(path, UID_SIGNER, UID_SIGNER);
}

static int start(void **state)
{
    (void)state;
    assert_int_equal(setenv("SVC_TEST_SIGNER", "tls", 1), 0); /* both doors */
    rig_new(&rig, "signer: {operation_timeout: 60s}\n");
    assert_int_equal(geteuid(), 0); /* peers of several users are made here */
    assert_fault(file_make_dirs(rig_path(&rig, "run/signer"), 0700), NONE);
    assert_int_equal(nftw(rig.folder, give_away, 16, FTW_DEPTH | FTW_PHYS), 0);
    assert_int_equal(chown(rig_path(&rig, "tls/api.key"), 0, 0), 0);
    struct rlimit most = { RLIM_INFINITY, RLIM_INFINITY };
    (void)setrlimit(RLIMIT_CORE, &most); /* it forbids its own core, nobody else does */
    char *argv[] = { (char *)"setpriv", (char *)"--reuid=642", (char *)"--regid=642", (char *)"--clear-groups",
                     rig.program,       (char *)"--config",    rig.config_path,       NULL };
    (void)rig_run(&rig, argv, &rig.pid);
    mono_ns limit = clock_mono() + RIG_LIMIT;
    struct signer_health health;
    for (;;) {
        CLEANUP(op_freep) struct op *op = op_within(5000);
        if (!FAULTED(signer_health(op, rig.client, &health))) {
            break;
        }
        if (clock_mono() > limit || waitpid(rig.pid, NULL, WNOHANG) != 0) {
            rig_print_log(&rig);
            fail_msg("svc-signer did not start");
        }
        (void)poll(NULL, 0, 5); /* there is nothing to wait on before its socket exists */
    }
    signer_client_free(TAKE(rig.client)); /* its connection would be one among those that are counted here */
    const struct tls_settings settings = { .side = TLS_CLIENT,
                                           .certificate_file = rig.config->signer_tls_certificate,
                                           .key_file = rig.config->signer_tls_key,
                                           .ca_file = rig.config->signer_tls_ca,
                                           .names = &rig.config->signer_peer_names };
    assert_fault(tls_end_new(&settings, NULL, &tls), NONE);
    /* So that nothing but the check of the peer's user is left. */
    assert_int_equal(chmod(rig.config->signer_socket, 0666), 0);
    assert_int_equal(chmod(rig_path(&rig, "run"), 0755), 0);
    assert_int_equal(chmod(rig_path(&rig, "run/signer"), 0755), 0);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    tls_end_free(tls);
    rig_free(&rig);
    return 0;
}

/* ---- a peer ---- */

struct peer {
    struct frame_stream stream;
    uint64_t id; /* of its last request */
};

static void peer_new(struct peer *peer, uid_t uid)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    memcpy(address.sun_path, rig.config->signer_socket, strlen(rig.config->signer_socket) + 1);
    *peer = (struct peer){ .stream = FRAME_STREAM_NONE };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(seteuid(uid), 0); /* the kernel notes who connects */
    int rc = connect(fd, (const struct sockaddr *)&address, sizeof(address));
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(rc, 0);
    assert_fault(frame_stream_init(&peer->stream, fd, NULL), NONE);
}

static void peer_over_tls(struct peer *peer)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                   .sin_port = htons((uint16_t)rig.port) };
    struct tls_stream *stream = NULL;
    struct tls_report report;
    *peer = (struct peer){ .stream = FRAME_STREAM_NONE };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_fault(tls_stream_open(tls, fd, clock_mono() + RIG_LIMIT, &report, &stream), NONE);
    assert_fault(frame_stream_init(&peer->stream, fd, stream), NONE);
}

/* As svc-api, by one door or the other. */
enum door { DOOR_SOCKET, DOOR_TLS, DOORS };
static void api_new(struct peer *peer, enum door door)
{
    if (door == DOOR_TLS) {
        peer_over_tls(peer);
    } else {
        peer_new(peer, UID_API);
    }
}

static void peer_free(struct peer *peer)
{
    frame_stream_clear(&peer->stream);
}

/* False: the connection is closed. */
static bool say(struct peer *peer, struct span bytes)
{
    size_t sent = 0;
    return !FAULTED(frame_send(&peer->stream, clock_mono() + RIG_LIMIT, bytes, &sent));
}

static void put_request(struct peer *peer, struct buf *bytes, struct wire_request request)
{
    static uint64_t ids = 100;
    request.id = peer->id = ++ids;
    request.deadline_ms = 30000;
    assert_fault(request_pack(NULL, &request, bytes), NONE);
}

/* True: its one answer came, and no more than that. False: closed, with not a byte. */
static bool hears_answer(struct peer *peer, struct wire_response *ret_response)
{
    CLEANUP(arena_freep) struct arena *arena = NULL;
    struct span message;
    struct wire_response response = { 0 };
    const struct frame_patience patience = { .first = clock_mono() + RIG_LIMIT, .rest = RIG_LIMIT };
    struct fault fault = frame_read(&peer->stream, &patience, &message);
    if (fault.code == FAULT_SIGNER_UNAVAILABLE) {
        assert_int_equal(peer->stream.filled, 0);
        return false;
    }
    assert_fault(fault, NONE);
    assert_fault(arena_new(WIRE_ARENA_MAX, &arena), NONE);
    assert_fault(response_unpack(arena, message, &response), NONE);
    assert_int_equal(response.id, peer->id);
    assert_false(frame_more(&peer->stream));
    response.result.at = NULL;
    response.health = NULL;
    *ret_response = response;
    return true;
}

static const struct wire_request health = { .op = WIRE_HEALTH };

static bool is_heard(struct peer *peer)
{
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(FRAME_MAX);
    struct wire_response response = { 0 };
    put_request(peer, &bytes, health);
    bool answered = say(peer, buf_span(&bytes)) && hears_answer(peer, &response);
    assert_true(!answered || !FAULTED(response.fault));
    return answered;
}

static void assert_closed(struct peer *peer)
{
    struct wire_response response = { 0 };
    assert_false(hears_answer(peer, &response));
}

/* ---- */

static void strangers_get_no_word_out_of_it(void **state)
{
    (void)state;
    static const uid_t strangers[] = { UID_STRANGER, 640, 641, UID_SIGNER };
    for (size_t i = 0; i < COUNT_OF(strangers); i++) {
        CLEANUP(peer_free) struct peer peer;
        peer_new(&peer, strangers[i]);
        assert_false(is_heard(&peer));
    }
    assert_true(rig_log_has(&rig, "peer_refused"));
    CLEANUP(peer_free) struct peer api;
    peer_new(&api, UID_API);
    assert_true(is_heard(&api));
}

static void each_of_these_costs_its_sender_the_connection_and_nobody_else(void **state)
{
    (void)state;
    static const uint8_t none[] = { 0, 0, 0, 0 };
    static const uint8_t beyond[] = { 0, 1, 0, 1, 'x' }; /* 64 KiB and a byte */
    static const uint8_t huge[] = { 0xff, 0xff, 0xff, 0xff };
    static const uint8_t http[] = "GET / HTTP/1.1\r\n\r\n";
    static const uint8_t rubbish[] = { 0, 0, 0, 4, 0xff, 0xfe, 0xfd, 0xfc };
    static const uint8_t no_operation[] = { 0, 0, 0, 4, 0x08, 7, 0x10, 9 };
    static const uint8_t unknown_operation[] = { 0, 0, 0, 7, 0x08, 7, 0x10, 9, 0xba, 0x06, 0 };      /* field 103 */
    static const uint8_t unknown_field[] = { 0, 0, 0, 9, 0x08, 7, 0x10, 9, 0x52, 0, 0xc0, 0x3e, 1 }; /* field 1000 */
    static const uint8_t no_id[] = { 0, 0, 0, 4, 0x10, 9, 0x52, 0 };
    const struct span frames[] = { SPAN_ARRAY(none),
                                   SPAN_ARRAY(beyond),
                                   SPAN_ARRAY(huge),
                                   SPAN_ARRAY(http),
                                   SPAN_ARRAY(rubbish),
                                   SPAN_ARRAY(no_operation),
                                   SPAN_ARRAY(unknown_operation),
                                   SPAN_ARRAY(unknown_field),
                                   SPAN_ARRAY(no_id) };
    CLEANUP(peer_free) struct peer innocent;
    peer_new(&innocent, UID_API);
    for (size_t i = 0; i < DOORS * COUNT_OF(frames); i++) {
        CLEANUP(peer_free) struct peer peer;
        api_new(&peer, (enum door)(i % DOORS));
        assert_true(is_heard(&peer));
        assert_true(say(&peer, frames[i / DOORS]));
        assert_closed(&peer);
        assert_true(is_heard(&innocent));
    }
    assert_true(rig_log_has(&rig, "\"code\":\"signer_protocol\""));
}

static void a_second_request_before_the_answer_closes_that_peer(void **state)
{
    (void)state;
    struct wire_request sign = { .op = WIRE_SIGN,
                                 .key = key_new(KEY_PURPOSE_CODESIGN),
                                 .scheme = SIGN_SCHEME_ECDSA,
                                 .hash = HASH_SHA256,
                                 .digest = span_of(rig_digest, 32) };
    const struct wire_request firsts[] = { health, sign };
    CLEANUP(peer_free) struct peer innocent;
    peer_new(&innocent, UID_API);
    for (size_t i = 0; i < DOORS * COUNT_OF(firsts); i++) {
        CLEANUP(peer_free) struct peer peer;
        CLEANUP(buf_free) struct buf bytes = BUF_INIT(FRAME_MAX);
        api_new(&peer, (enum door)(i % DOORS));
        put_request(&peer, &bytes, firsts[i / DOORS]);
        put_request(&peer, &bytes, health);
        assert_true(say(&peer, buf_span(&bytes)));
        assert_closed(&peer);
        assert_true(is_heard(&innocent));
    }
}

/* In a send of its own, while the first one is in the token: a key takes a while to be made. */
static void a_second_request_during_the_first_closes_that_peer_too(void **state)
{
    (void)state;
    for (size_t i = 0; i < DOORS; i++) {
        CLEANUP(peer_free) struct peer peer;
        CLEANUP(buf_free) struct buf bytes = BUF_INIT(FRAME_MAX);
        struct wire_request generate = { .op = WIRE_GENERATE_KEY,
                                         .key = key_new(KEY_PURPOSE_CODESIGN),
                                         .algorithm = KEY_ALGORITHM_RSA_4096 };
        api_new(&peer, (enum door)i);
        put_request(&peer, &bytes, generate);
        assert_true(say(&peer, buf_span(&bytes)));
        buf_clear(&bytes);
        put_request(&peer, &bytes, health);
        assert_true(say(&peer, buf_span(&bytes)));
        assert_closed(&peer);
    }
}

/* Whoever signs one thing after the other is awaited without sleeping for a moment; that changes nothing for him who
 * takes longer than that moment. */
static void a_request_that_comes_in_pieces_right_after_a_signature_is_served(void **state)
{
    (void)state;
    for (size_t i = 0; i < DOORS; i++) {
        CLEANUP(peer_free) struct peer peer;
        CLEANUP(buf_free) struct buf bytes = BUF_INIT(FRAME_MAX);
        struct wire_request request = { .op = WIRE_GENERATE_KEY,
                                        .key = key_new(KEY_PURPOSE_CODESIGN),
                                        .algorithm = KEY_ALGORITHM_EC_P256 };
        struct wire_response response = { 0 };
        api_new(&peer, (enum door)i);
        put_request(&peer, &bytes, request);
        assert_true(say(&peer, buf_span(&bytes)) && hears_answer(&peer, &response));
        assert_fault(response.fault, NONE);
        request = (struct wire_request){ .op = WIRE_SIGN,
                                         .key = request.key,
                                         .scheme = SIGN_SCHEME_ECDSA,
                                         .hash = HASH_SHA256,
                                         .digest = span_of(rig_digest, 32) };
        for (int round = 0; round < 200; round++) {
            buf_clear(&bytes);
            put_request(&peer, &bytes, request);
            size_t part = 1 + (size_t)round % (bytes.len - 1);
            mono_ns later = clock_mono() + 200 * 1000;
            assert_true(say(&peer, span_of(bytes.at, part)));
            while (clock_mono() < later) { /* longer than anybody stays awake */
            }
            assert_true(say(&peer, span_of(bytes.at + part, bytes.len - part)) && hears_answer(&peer, &response));
            assert_fault(response.fault, NONE);
        }
    }
}

static void a_request_that_the_rules_refuse_is_answered_and_the_peer_stays(void **state)
{
    (void)state;
    struct wire_request request = { .op = WIRE_PUBLIC_KEY, .key = { .purpose = KEY_PURPOSE_POST } };
    request.key.id = key_new(KEY_PURPOSE_CODESIGN).id;
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(FRAME_MAX);
    CLEANUP(peer_free) struct peer api;
    struct wire_response response = { 0 };
    peer_new(&api, UID_API);
    put_request(&api, &bytes, request);
    assert_true(say(&api, buf_span(&bytes)));
    assert_true(hears_answer(&api, &response));
    assert_fault(response.fault, SIGNER_REFUSED);
    assert_true(is_heard(&api));
    /* the supervisor in turn has no business with the tenants' keys */
    CLEANUP(peer_free) struct peer root;
    peer_new(&root, 0);
    request.key = key_new(KEY_PURPOSE_CODESIGN);
    buf_clear(&bytes);
    put_request(&root, &bytes, request);
    assert_true(say(&root, buf_span(&bytes)));
    assert_true(hears_answer(&root, &response));
    assert_fault(response.fault, SIGNER_REFUSED);
}

/* At every place inside a frame; the signer's patience is a few seconds for all of them together. */
static void who_falls_silent_in_the_middle_of_a_frame_is_let_go(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(FRAME_MAX);
    CLEANUP(peer_free) struct peer innocent;
    struct peer silent[12];
    peer_new(&innocent, UID_API);
    for (size_t i = 0; i < COUNT_OF(silent); i++) {
        buf_clear(&bytes);
        peer_new(&silent[i], UID_API);
        put_request(&silent[i], &bytes, health);
        size_t part = i + 1 < bytes.len ? i + 1 : bytes.len - 1;
        assert_true(say(&silent[i], span_of(bytes.at, part)));
    }
    for (size_t i = 0; i < COUNT_OF(silent); i++) {
        assert_true(is_heard(&innocent));
        assert_closed(&silent[i]);
        peer_free(&silent[i]);
    }
    assert_true(is_heard(&innocent)); /* who is silent between two frames may be so */
}

static void a_crowd_is_bounded_and_the_supervisor_still_gets_in(void **state)
{
    (void)state;
    struct peer crowd[CROWD], supervisors[RESERVED];
    unsigned heard = 0, closed = 0;
    for (size_t i = 0; i < CROWD; i++) {
        peer_new(&crowd[i], UID_API);
    }
    for (size_t i = 0; i < CROWD; i++) {
        if (is_heard(&crowd[i])) {
            heard++;
        } else {
            closed++;
        }
    }
    /* the last of the tests before may not have gone yet */
    assert_true(heard <= API_MOST && heard >= API_MOST - RESERVED);
    assert_int_equal(closed, CROWD - heard);
    for (size_t i = 0; i < RESERVED; i++) {
        peer_new(&supervisors[i], 0);
        assert_true(is_heard(&supervisors[i]));
    }
    CLEANUP(peer_free) struct peer one_more;
    peer_new(&one_more, 0);
    assert_false(is_heard(&one_more));
    for (size_t i = 0; i < RESERVED; i++) {
        peer_free(&supervisors[i]);
    }
    for (size_t i = 0; i < CROWD; i++) {
        peer_free(&crowd[i]);
    }
    /* and when they have gone, there is room again */
    mono_ns limit = clock_mono() + RIG_LIMIT;
    for (bool again = false; !again;) {
        CLEANUP(peer_free) struct peer peer;
        peer_new(&peer, UID_API);
        again = is_heard(&peer);
        assert_true(clock_mono() < limit);
    }
}

/* Waits until an answer lies there, unread: the next request is in its turn then. */
static bool answer_has_come(const struct peer *peer, int before)
{
    mono_ns limit = clock_mono() + RIG_LIMIT;
    for (;;) {
        int waiting = 0;
        struct pollfd ready = { .fd = peer->stream.fd, .events = POLLRDHUP };
        assert_int_equal(ioctl(peer->stream.fd, FIONREAD, &waiting), 0);
        if (waiting > before) {
            return true;
        }
        if (poll(&ready, 1, 1) > 0 || clock_mono() > limit) {
            return false;
        }
    }
}

static void who_never_reads_its_answers_holds_up_nobody(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(FRAME_HEADER + FRAME_MAX);
    CLEANUP(peer_free) struct peer deaf = { .stream = FRAME_STREAM_NONE }, innocent = deaf, root = deaf;
    static uint8_t plain[60000];
    struct wire_request request = { .op = WIRE_GENERATE_KEY,
                                    .key = key_new(KEY_PURPOSE_SEAL),
                                    .algorithm = KEY_ALGORITHM_AES_256 };
    struct wire_response response = { 0 };
    peer_new(&deaf, UID_API);
    peer_new(&innocent, UID_API);
    put_request(&deaf, &bytes, request);
    assert_true(say(&deaf, buf_span(&bytes)) && hears_answer(&deaf, &response));
    assert_fault(response.fault, NONE);
    request = (struct wire_request){ .op = WIRE_SEAL, .key = request.key, .data = SPAN_ARRAY(plain) };
    unsigned answers = 0;
    for (bool more = true; more && answers < 1000;) {
        int before = 0;
        assert_int_equal(ioctl(deaf.stream.fd, FIONREAD, &before), 0);
        buf_clear(&bytes);
        put_request(&deaf, &bytes, request);
        more = say(&deaf, buf_span(&bytes)) && answer_has_come(&deaf, before);
        answers += more;
        assert_true(is_heard(&innocent));
    }
    assert_true(answers >= 1 && answers < 1000);
    peer_new(&root, 0);
    assert_true(is_heard(&root));
    /* it was closed: after what it has not read comes the end */
    struct pollfd ended = { .fd = deaf.stream.fd, .events = POLLRDHUP };
    assert_int_equal(poll(&ended, 1, (int)(RIG_LIMIT / NS_PER_MS)), 1);
}

static void whatever_ends_the_signer_leaves_no_core(void **state)
{
    (void)state;
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        (void)signal(SIGABRT, SIG_DFL);
        (void)prctl(PR_SET_DUMPABLE, 1); /* the changes of user above had taken it */
        _exit(chdir(rig.folder) == 0 && raise(SIGABRT) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WCOREDUMP(status)) {
        print_message("this machine makes no cores: none is missed here\n");
    }
    assert_int_equal(kill(rig.pid, SIGABRT), 0);
    assert_int_equal(waitpid(rig.pid, &status, 0), rig.pid);
    rig.pid = 0;
    assert_true(WIFSIGNALED(status));
    assert_false(WCOREDUMP(status));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strangers_get_no_word_out_of_it),
        cmocka_unit_test(each_of_these_costs_its_sender_the_connection_and_nobody_else),
        cmocka_unit_test(a_second_request_before_the_answer_closes_that_peer),
        cmocka_unit_test(a_second_request_during_the_first_closes_that_peer_too),
        cmocka_unit_test(a_request_that_comes_in_pieces_right_after_a_signature_is_served),
        cmocka_unit_test(a_request_that_the_rules_refuse_is_answered_and_the_peer_stays),
        cmocka_unit_test(who_falls_silent_in_the_middle_of_a_frame_is_let_go),
        cmocka_unit_test(a_crowd_is_bounded_and_the_supervisor_still_gets_in),
        cmocka_unit_test(who_never_reads_its_answers_holds_up_nobody),
        cmocka_unit_test(whatever_ends_the_signer_leaves_no_core),
    };
    return cmocka_run_group_tests_name("broker_peers", tests, start, stop);
}
