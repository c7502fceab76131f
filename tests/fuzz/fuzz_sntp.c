/* rooms: tsa */
/*
 * An answer of a time server, on bytes of anybody. The cookie is taken from the packet itself, so that the checks
 * behind it are reached. Oracles: no claim is wider than the limit or upside down; what is accepted is refused with
 * one bit of the cookie changed, and comes out shifted for another moment of ours, by as much.
 */
#include "api/tsa/clock_sntp.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct sntp_exchange exchange = { .sent_boot_ns = 100 * NS_PER_S,
                                      .came_boot_ns = 100 * NS_PER_S + 40 * NS_PER_MS,
                                      .near_wall_ns = INT64_C(1795257000) * NS_PER_S };
    struct sntp_claim claim = { .low_ns = 1, .high_ns = -1 }, other;
    if (len >= SNTP_SIZE) {
        memcpy(exchange.cookie, bytes + 24, 8);
    }
    enum sntp_verdict verdict = sntp_answer(span_of(bytes, len), &exchange, &claim);
    BUG_IF(len < SNTP_SIZE && verdict != SNTP_NOT_OURS);
    if (verdict != SNTP_GOOD) {
        BUG_IF(claim.low_ns != 1 || claim.high_ns != -1);
        return 0;
    }
    BUG_IF(claim.low_ns >= claim.high_ns || claim.high_ns - claim.low_ns > 2 * SNTP_DISTANCE_MAX_NS);
    BUG_IF(claim.stratum < 1 || claim.stratum > 15);
    exchange.cookie[len % 8] ^= 1;
    BUG_IF(sntp_answer(span_of(bytes, len), &exchange, &other) != SNTP_NOT_OURS);
    exchange.cookie[len % 8] ^= 1;
    exchange.sent_boot_ns += NS_PER_S;
    exchange.came_boot_ns += NS_PER_S;
    BUG_IF(sntp_answer(span_of(bytes, len), &exchange, &other) != SNTP_GOOD);
    BUG_IF(claim.low_ns - other.low_ns != NS_PER_S || claim.high_ns - other.high_ns != NS_PER_S);
    return 0;
}
