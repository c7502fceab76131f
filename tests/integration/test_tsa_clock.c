/*
 * Rounds of time servers over real UDP, against responders of this test on 127.0.0.1 that answer honestly, lie, or do
 * not answer. Needs no stores.
 */
#include "testlib.h"

#include "api/tsa/clock_servers.h"

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define SERVERS  5
#define ERA_1970 INT64_C(2208988800)

enum manner { HONEST, AHEAD, SILENT, ALARM, KISS, STRANGER, SECOND_TRY, LEAP };

static struct server {
    int fd;
    char name[32];
    pthread_t thread;
    _Atomic enum manner manner;
    _Atomic int64_t off_ns;
    atomic_uint asked;
} servers[SERVERS];
static atomic_bool ending;
static struct op *op;

static void put32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++) {
        at[i] = (uint8_t)(value >> (24 - 8 * i));
    }
}

static void put_time(uint8_t *at, int64_t wall_ns)
{
    put32(at, (uint32_t)(wall_ns / NS_PER_S + ERA_1970));
    put32(at + 4, (uint32_t)(((uint64_t)(wall_ns % NS_PER_S) << 32) / (uint64_t)NS_PER_S));
}

static void answer(struct server *server, const uint8_t *request, const struct sockaddr_in *from)
{
    enum manner manner = server->manner;
    unsigned asked = ++server->asked;
    if (manner == SILENT || (manner == SECOND_TRY && asked % 2 == 1)) {
        return;
    }
    uint8_t packet[48] = { 4 << 3 | 4, 1 };
    int64_t now_ns = clock_source_host.read(NULL).wall_ns + (manner == AHEAD ? server->off_ns : 0);
    packet[0] |= manner == ALARM ? 0xc0 : manner == LEAP ? 0x40 : 0;
    packet[1] = manner == KISS ? 0 : 1;
    put_time(packet + 16, now_ns - NS_PER_S);
    memcpy(packet + 24, request + 40, 8);
    packet[24] ^= manner == STRANGER;
    put_time(packet + 32, now_ns);
    put_time(packet + 40, now_ns);
    (void)sendto(server->fd, packet, sizeof(packet), 0, (const struct sockaddr *)from, sizeof(*from));
}

static void *serve(void *arg)
{
    struct server *server = arg;
    while (!atomic_load(&ending)) {
        struct pollfd wait = { .fd = server->fd, .events = POLLIN };
        uint8_t request[128];
        struct sockaddr_in from;
        socklen_t len = sizeof(from);
        if (poll(&wait, 1, 20) == 1 &&
            recvfrom(server->fd, request, sizeof(request), 0, (struct sockaddr *)&from, &len) == 48) {
            answer(server, request, &from);
        }
    }
    return NULL;
}

static void make(size_t count, unsigned quorum, struct clock_servers **ret_servers)
{
    static const char *names[SERVERS];
    for (size_t i = 0; i < count; i++) {
        names[i] = servers[i].name;
    }
    struct config_list list = { names, count };
    assert_fault(clock_servers_new(op, &list, quorum, &clock_source_host, ret_servers), NONE);
}

static bool ask(struct clock_servers *asking, struct clock_agreement *ret_agreement)
{
    static const atomic_bool going = false;
    return clock_servers_ask(asking, &going, ret_agreement);
}

/* This host's own clock lies within what was agreed: the honest ones serve it. */
static void expect_honest(const struct clock_agreement *agreement)
{
    struct clock_reading now = clock_source_host.read(NULL);
    int64_t ours_ns = now.wall_ns - now.boot_ns;
    assert_true(agreement->low_ns <= ours_ns && ours_ns <= agreement->high_ns);
    assert_in_range(agreement->high_ns - agreement->low_ns, 1, 2 * NS_PER_S);
}

static void names_that_are_no_servers_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = { "",      ":123", "a:",     "a:0",    "a:65536",
                                       "a:12x", "[::1", "[::1]x", "[]:123", "a b:123" };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        CLEANUP(clock_servers_freep) struct clock_servers *made = NULL;
        const char *names[] = { bad[i] };
        op->note = (struct fault_note){ 0 };
        assert_fault(clock_servers_new(op, &(struct config_list){ names, 1 }, 1, &clock_source_host, &made), CONFIG);
        assert_string_equal(op->note.pointer, "protocols.tsa.clock.servers");
    }
    CLEANUP(clock_servers_freep) struct clock_servers *twice = NULL;
    const char *same[] = { "time.example", "time.example:123" };
    assert_fault(clock_servers_new(op, &(struct config_list){ same, 2 }, 2, &clock_source_host, &twice), CONFIG);
    CLEANUP(clock_servers_freep) struct clock_servers *fine = NULL;
    const char *good[] = { "time.example", "time.example:1234", "[2001:db8::1]:123", "2001:db8::2", "192.0.2.1" };
    assert_fault(clock_servers_new(op, &(struct config_list){ good, 5 }, 3, &clock_source_host, &fine), NONE);
}

static void without_a_quorum_there_is_no_agreement(void **state)
{
    (void)state;
    static const enum manner useless[] = { SILENT, ALARM, KISS, STRANGER };
    for (size_t i = 0; i < COUNT_OF(useless); i++) {
        CLEANUP(clock_servers_freep) struct clock_servers *asking = NULL;
        struct clock_agreement agreement = { .answered = 9 };
        servers[0].manner = servers[1].manner = useless[i];
        make(3, 2, &asking);
        assert_false(ask(asking, &agreement));
        assert_int_equal(agreement.answered, 1);
    }
}

static void honest_servers_agree_on_the_time(void **state)
{
    (void)state;
    CLEANUP(clock_servers_freep) struct clock_servers *asking = NULL;
    struct clock_agreement agreement = { 0 };
    make(SERVERS, 3, &asking);
    assert_true(ask(asking, &agreement));
    assert_int_equal(agreement.answered, SERVERS);
    assert_int_equal(agreement.agreed, SERVERS);
    assert_false(agreement.leap_ahead);
    expect_honest(&agreement);
}

static void a_minority_of_liars_changes_nothing(void **state)
{
    (void)state;
    static const int64_t lies[] = { 3600 * NS_PER_S, -3600 * NS_PER_S, 20 * NS_PER_MS, NS_PER_MS / 10 };
    for (size_t i = 0; i < COUNT_OF(lies); i++) {
        CLEANUP(clock_servers_freep) struct clock_servers *asking = NULL;
        struct clock_agreement agreement = { 0 };
        servers[0].manner = servers[3].manner = AHEAD;
        servers[0].off_ns = servers[3].off_ns = lies[i];
        make(SERVERS, 3, &asking);
        assert_true(ask(asking, &agreement));
        assert_true(agreement.agreed >= 3);
        expect_honest(&agreement);
    }
}

static void a_majority_that_is_elsewhere_is_believed_and_shows_the_offset(void **state)
{
    (void)state;
    CLEANUP(clock_servers_freep) struct clock_servers *asking = NULL;
    struct clock_agreement agreement = { 0 };
    for (size_t i = 0; i < 3; i++) {
        servers[i].manner = AHEAD;
        servers[i].off_ns = 3600 * NS_PER_S;
    }
    make(SERVERS, 3, &asking);
    assert_true(ask(asking, &agreement));
    struct clock_reading now = clock_source_host.read(NULL);
    assert_in_range(agreement.low_ns - (now.wall_ns - now.boot_ns), 3598 * NS_PER_S, 3602 * NS_PER_S);
}

static void a_lost_packet_is_asked_for_again(void **state)
{
    (void)state;
    CLEANUP(clock_servers_freep) struct clock_servers *asking = NULL;
    struct clock_agreement agreement = { 0 };
    for (size_t i = 0; i < 3; i++) {
        servers[i].manner = SECOND_TRY;
    }
    make(3, 3, &asking);
    assert_true(ask(asking, &agreement));
    expect_honest(&agreement);
}

static void who_sends_us_away_is_left_alone_for_a_while(void **state)
{
    (void)state;
    CLEANUP(clock_servers_freep) struct clock_servers *asking = NULL;
    struct clock_agreement agreement = { 0 };
    servers[2].manner = KISS;
    make(3, 2, &asking);
    for (int i = 0; i < 5; i++) {
        assert_true(ask(asking, &agreement));
    }
    assert_int_equal(servers[2].asked, 2); /* in rounds 1 and 3: one was left out, then three are */
}

static void leap_seconds_are_announced_by_a_quorum(void **state)
{
    (void)state;
    CLEANUP(clock_servers_freep) struct clock_servers *asking = NULL;
    struct clock_agreement agreement = { 0 };
    make(3, 2, &asking);
    servers[0].manner = LEAP;
    assert_true(ask(asking, &agreement));
    assert_false(agreement.leap_ahead);
    servers[1].manner = LEAP;
    assert_true(ask(asking, &agreement));
    assert_true(agreement.leap_ahead);
}

static void stopping_ends_a_round(void **state)
{
    (void)state;
    CLEANUP(clock_servers_freep) struct clock_servers *asking = NULL;
    static const atomic_bool stopping = true;
    struct clock_agreement agreement = { 0 };
    make(3, 2, &asking);
    assert_false(clock_servers_ask(asking, &stopping, &agreement));
    assert_int_equal(servers[0].asked, 0);
}

static int setup(void **state)
{
    (void)state;
    for (size_t i = 0; i < SERVERS; i++) {
        servers[i].manner = HONEST;
        servers[i].asked = 0;
    }
    return FAULTED(op_new("test", (struct tenant_id){ "default" }, 60000, &op)) ? -1 : 0;
}
static int teardown(void **state)
{
    (void)state;
    op_free(TAKE(op));
    return 0;
}

static int start(void **state)
{
    (void)state;
    for (size_t i = 0; i < SERVERS; i++) {
        struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t len = sizeof(address);
        servers[i].fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (servers[i].fd < 0 || bind(servers[i].fd, (struct sockaddr *)&address, len) != 0 ||
            getsockname(servers[i].fd, (struct sockaddr *)&address, &len) != 0) {
            return -1;
        }
        (void)snprintf(servers[i].name, sizeof(servers[i].name), "127.0.0.1:%u", ntohs(address.sin_port));
        if (pthread_create(&servers[i].thread, NULL, serve, &servers[i]) != 0) {
            return -1;
        }
    }
    return 0;
}
static int stop(void **state)
{
    (void)state;
    atomic_store(&ending, true);
    for (size_t i = 0; i < SERVERS; i++) {
        (void)pthread_join(servers[i].thread, NULL);
        (void)close(servers[i].fd);
    }
    return 0;
}
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(names_that_are_no_servers_are_refused),
        TEST(without_a_quorum_there_is_no_agreement),
        TEST(honest_servers_agree_on_the_time),
        TEST(a_minority_of_liars_changes_nothing),
        TEST(a_majority_that_is_elsewhere_is_believed_and_shows_the_offset),
        TEST(a_lost_packet_is_asked_for_again),
        TEST(who_sends_us_away_is_left_alone_for_a_while),
        TEST(leap_seconds_are_announced_by_a_quorum),
        TEST(stopping_ends_a_round),
    };
    return cmocka_run_group_tests_name("time servers", tests, start, stop);
}
