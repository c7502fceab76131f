#include "tests/testlib.h"

#include "api/tsa/clock_sntp.h"

#define NEAR_NS  (INT64_C(1795257000) * NS_PER_S)
#define ERA_1970 INT64_C(2208988800)

static struct sntp_exchange exchange;

/* What an honest server says that got the request at `received` and answered 1 ms later. */
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
static void honest(uint8_t packet[SNTP_SIZE], int64_t received_ns)
{
    memset(packet, 0, SNTP_SIZE);
    packet[0] = 4 << 3 | 4;
    packet[1] = 2;
    put32(packet + 4, 0x0000028f); /* root delay 10 ms */
    put32(packet + 8, 0x00000147); /* root dispersion 5 ms */
    put_time(packet + 16, received_ns - 30 * NS_PER_S);
    memcpy(packet + 24, exchange.cookie, 8);
    put_time(packet + 32, received_ns);
    put_time(packet + 40, received_ns + NS_PER_MS);
}

static void expect(const uint8_t *packet, size_t len, enum sntp_verdict verdict)
{
    struct sntp_claim claim = { .low_ns = 7 };
    assert_int_equal(sntp_answer(span_of(packet, len), &exchange, &claim), verdict);
    assert_int_equal(claim.low_ns == 7, verdict != SNTP_GOOD);
}

static void what_was_not_asked_for_is_not_heard(void **state)
{
    (void)state;
    uint8_t packet[SNTP_SIZE];
    honest(packet, NEAR_NS);
    expect(packet, SNTP_SIZE - 1, SNTP_NOT_OURS);
    expect(packet, 0, SNTP_NOT_OURS);
    packet[31] ^= 1; /* another cookie */
    expect(packet, SNTP_SIZE, SNTP_NOT_OURS);
    honest(packet, NEAR_NS);
    packet[0] = 4 << 3 | 3; /* our own request, come back */
    expect(packet, SNTP_SIZE, SNTP_NOT_OURS);
    packet[0] = 4 << 3 | 5; /* broadcast */
    expect(packet, SNTP_SIZE, SNTP_NOT_OURS);
}

static void a_server_without_time_is_useless(void **state)
{
    (void)state;
    uint8_t packet[SNTP_SIZE];
    honest(packet, NEAR_NS);
    packet[0] |= 0xc0; /* alarm */
    expect(packet, SNTP_SIZE, SNTP_USELESS);
    honest(packet, NEAR_NS);
    packet[1] = 16;
    expect(packet, SNTP_SIZE, SNTP_USELESS);
    honest(packet, NEAR_NS);
    packet[0] = 2 << 3 | 4;
    expect(packet, SNTP_SIZE, SNTP_USELESS);
    static const size_t stamps[] = { 16, 32, 40 }; /* reference, received, sent: none may be missing */
    for (size_t i = 0; i < COUNT_OF(stamps); i++) {
        honest(packet, NEAR_NS);
        memset(packet + stamps[i], 0, 8);
        expect(packet, SNTP_SIZE, SNTP_USELESS);
    }
}

static void a_server_that_contradicts_itself_is_useless(void **state)
{
    (void)state;
    uint8_t packet[SNTP_SIZE];
    honest(packet, NEAR_NS);
    put_time(packet + 40, NEAR_NS - 1000); /* sent before it was received */
    expect(packet, SNTP_SIZE, SNTP_USELESS);
    honest(packet, NEAR_NS);
    put_time(packet + 40, NEAR_NS + 30 * NS_PER_MS); /* held for longer than we waited */
    expect(packet, SNTP_SIZE, SNTP_USELESS);
    honest(packet, NEAR_NS);
    put_time(packet + 16, NEAR_NS + NS_PER_S); /* set in the future */
    expect(packet, SNTP_SIZE, SNTP_USELESS);
    honest(packet, NEAR_NS);
    put32(packet + 8, 0x00018000); /* 1.5 s from its source */
    expect(packet, SNTP_SIZE, SNTP_USELESS);
}

static void a_kiss_of_death_is_heeded(void **state)
{
    (void)state;
    uint8_t packet[SNTP_SIZE];
    honest(packet, NEAR_NS);
    packet[1] = 0;
    memcpy(packet + 12, "RATE", 4);
    expect(packet, SNTP_SIZE, SNTP_GO_AWAY);
}

static void the_truth_lies_within_the_claim_wherever_the_delay_was(void **state)
{
    (void)state;
    uint8_t packet[SNTP_SIZE];
    int64_t apart_ns = NEAR_NS - exchange.sent_boot_ns; /* the truth minus CLOCK_BOOTTIME */
    for (int64_t there = 0; there <= 19; there++) {     /* of 20 ms: 1 was held, the rest was spent on the way */
        struct sntp_claim claim = { 0 };
        honest(packet, exchange.sent_boot_ns + apart_ns + there * NS_PER_MS);
        assert_int_equal(sntp_answer(SPAN_ARRAY(packet), &exchange, &claim), SNTP_GOOD);
        assert_true(claim.low_ns <= apart_ns && apart_ns <= claim.high_ns);
        assert_in_range(claim.high_ns - claim.low_ns, 2 * 19 * NS_PER_MS,
                        2 * 21 * NS_PER_MS); /* 9.5 + 10 of its root */
        assert_false(claim.leap_ahead);
    }
}

static void eras_are_taken_from_our_own_year(void **state)
{
    (void)state;
    uint8_t packet[SNTP_SIZE];
    struct sntp_claim claim = { 0 };
    exchange.near_wall_ns = INT64_C(2085978490) * NS_PER_S; /* 2036-02-07, six seconds before the new era */
    int64_t theirs_ns = INT64_C(2085978500) * NS_PER_S;     /* and ours is slow */
    honest(packet, theirs_ns);
    packet[0] |= 0x40;
    assert_int_equal(sntp_answer(SPAN_ARRAY(packet), &exchange, &claim), SNTP_GOOD);
    int64_t middle_ns = claim.low_ns + (claim.high_ns - claim.low_ns) / 2 + exchange.sent_boot_ns + 10 * NS_PER_MS;
    assert_in_range(middle_ns - theirs_ns, 0, NS_PER_MS);
    assert_true(claim.leap_ahead);
}

static void a_request_tells_nothing_of_us(void **state)
{
    (void)state;
    uint8_t packet[SNTP_SIZE];
    static const uint8_t zeros[39];
    sntp_request(exchange.cookie, packet);
    assert_int_equal(packet[0], 0x23);
    assert_memory_equal(packet + 1, zeros, 39);
    assert_memory_equal(packet + 40, exchange.cookie, 8);
}

/* ---- agreement ---- */

static void too_few_claims_are_no_agreement(void **state)
{
    (void)state;
    int64_t low = 7, high = 7;
    unsigned agreed = 7;
    struct sntp_claim apart[] = { { .low_ns = 0, .high_ns = 10 },
                                  { .low_ns = 20, .high_ns = 30 },
                                  { .low_ns = 40, .high_ns = 50 } };
    assert_false(sntp_agree(apart, 0, 2, &low, &high, &agreed));
    assert_false(sntp_agree(apart, 3, 2, &low, &high, &agreed));
    assert_false(sntp_agree(apart, 1, 2, &low, &high, &agreed));
    assert_int_equal(low + high + (int)agreed, 21);
}

static void a_single_liar_neither_moves_nor_stops_three(void **state)
{
    (void)state;
    int64_t low = 0, high = 0;
    unsigned agreed = 0;
    struct sntp_claim claims[] = { { .low_ns = -10, .high_ns = 10 },
                                   { .low_ns = -12, .high_ns = 8 },
                                   { .low_ns = 3600000, .high_ns = 3600001 } };
    assert_true(sntp_agree(claims, 3, 2, &low, &high, &agreed));
    assert_int_equal(low, -10);
    assert_int_equal(high, 8);
    assert_int_equal(agreed, 2);
    claims[2] =
        (struct sntp_claim){ .low_ns = 7, .high_ns = 9 }; /* a clever one: the truth stays inside all the same */
    assert_true(sntp_agree(claims, 3, 2, &low, &high, &agreed));
    assert_int_equal(low, -10);
    assert_int_equal(high, 9);
}

/* A small generator of our own: the same cases at every run. */
static uint32_t state_of_numbers = 1;
static int64_t number(int64_t below)
{
    state_of_numbers = state_of_numbers * 1664525u + 1013904223u;
    return (int64_t)(state_of_numbers >> 8) % below;
}

static void no_minority_of_liars_moves_or_stops_an_agreement(void **state)
{
    (void)state;
    for (int i = 0; i < 200000; i++) {
        struct sntp_claim claims[CLOCK_SERVERS_MAX];
        size_t count = 1 + (size_t)number(CLOCK_SERVERS_MAX);
        unsigned quorum = (unsigned)count / 2 + 1;
        size_t liars = (size_t)number((int64_t)(count - quorum) + 1);
        size_t first = (size_t)number((int64_t)count);           /* liars stand anywhere */
        int64_t honest_low = INT64_MAX, honest_high = INT64_MIN; /* the truth is 0 */
        for (size_t j = 0; j < count; j++) {
            bool lies = (j + first) % count < liars;
            int64_t low = lies ? number(400) - 200 : -number(100);
            claims[j] = (struct sntp_claim){ .low_ns = low, .high_ns = lies ? low + number(300) : number(100) };
            if (!lies) {
                honest_low = claims[j].low_ns < honest_low ? claims[j].low_ns : honest_low;
                honest_high = claims[j].high_ns > honest_high ? claims[j].high_ns : honest_high;
            }
        }
        int64_t low = 0, high = 0;
        unsigned agreed = 0;
        assert_true(sntp_agree(claims, count, quorum, &low, &high, &agreed));
        assert_true(low <= 0 && high >= 0);
        assert_true(low >= honest_low && high <= honest_high);
        assert_true(agreed >= quorum);
    }
}

static int setup(void **state)
{
    (void)state;
    exchange = (struct sntp_exchange){ .cookie = { 1, 2, 3, 4, 5, 6, 7, 8 },
                                       .sent_boot_ns = 500 * NS_PER_S,
                                       .came_boot_ns = 500 * NS_PER_S + 20 * NS_PER_MS,
                                       .near_wall_ns = NEAR_NS };
    return 0;
}
#define TEST(name) cmocka_unit_test_setup(name, setup)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_was_not_asked_for_is_not_heard),
        TEST(a_server_without_time_is_useless),
        TEST(a_server_that_contradicts_itself_is_useless),
        TEST(a_kiss_of_death_is_heeded),
        TEST(the_truth_lies_within_the_claim_wherever_the_delay_was),
        TEST(eras_are_taken_from_our_own_year),
        TEST(a_request_tells_nothing_of_us),
        TEST(too_few_claims_are_no_agreement),
        TEST(a_single_liar_neither_moves_nor_stops_three),
        TEST(no_minority_of_liars_moves_or_stops_an_agreement),
    };
    return cmocka_run_group_tests_name("SNTP client", tests, NULL, NULL);
}
