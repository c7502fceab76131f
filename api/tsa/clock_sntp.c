#include "api/tsa/clock_sntp.h"

#define ERA_1970  INT64_C(2208988800) /* seconds from 1900 to 1970 */
#define DRIFT_PPM 15                  /* RFC 5905 7.2: PHI, of either clock during the exchange */

enum { MODE_CLIENT = 3, MODE_SERVER = 4, VERSION = 4, LEAP_UNKNOWN = 3 };

void sntp_request(const uint8_t cookie[8], uint8_t out[SNTP_SIZE])
{
    memset(out, 0, SNTP_SIZE);
    out[0] = VERSION << 3 | MODE_CLIENT;
    memcpy(out + 40, cookie, 8);
}

/* 32 bits of seconds, 32 of their fraction. */
static uint64_t read64(struct span packet, size_t at)
{
    uint64_t value = 0;
    for (size_t i = 0; i < 8; i++) {
        value = value << 8 | packet.at[at + i];
    }
    return value;
}

/* NTP short format: 16 bits of seconds, 16 of their fraction; at most 65536 s. */
static int64_t read_short_ns(struct span packet, size_t at)
{
    uint64_t value = read64(packet, at) >> 32;
    return (int64_t)((value * (uint64_t)NS_PER_S) >> 16);
}

static int64_t fraction_ns(uint64_t timestamp)
{
    return (int64_t)(((timestamp & UINT32_MAX) * (uint64_t)NS_PER_S) >> 32);
}

/* In the era that puts it within 68 years of `near`: 2036 is a day like others. */
static int64_t wall_ns(uint64_t timestamp, int64_t near_wall_ns)
{
    uint32_t near = (uint32_t)(near_wall_ns / NS_PER_S + ERA_1970);
    int32_t apart = (int32_t)((uint32_t)(timestamp >> 32) - near);
    return (near_wall_ns / NS_PER_S + apart) * NS_PER_S + fraction_ns(timestamp);
}

/* From `from` to `to`, NTP timestamps of one clock that are no 68 years apart. */
static int64_t apart_ns(uint64_t from, uint64_t to)
{
    int32_t seconds = (int32_t)((uint32_t)(to >> 32) - (uint32_t)(from >> 32));
    return seconds * NS_PER_S + fraction_ns(to) - fraction_ns(from);
}

static enum sntp_verdict check_head(struct span packet, const struct sntp_exchange *exchange)
{
    if (packet.len < SNTP_SIZE || (packet.at[0] & 7) != MODE_SERVER ||
        memcmp(packet.at + 24, exchange->cookie, 8) != 0) {
        return SNTP_NOT_OURS;
    }
    unsigned version = packet.at[0] >> 3 & 7;
    unsigned stratum = packet.at[1];
    if (stratum == 0) {
        return SNTP_GO_AWAY;
    }
    bool alarm = packet.at[0] >> 6 == LEAP_UNKNOWN;
    return version < 3 || version > VERSION || stratum > 15 || alarm ? SNTP_USELESS : SNTP_GOOD;
}

enum sntp_verdict sntp_answer(struct span packet, const struct sntp_exchange *exchange, struct sntp_claim *ret_claim)
{
    enum sntp_verdict verdict = check_head(packet, exchange);
    if (verdict != SNTP_GOOD) {
        return verdict;
    }
    uint64_t reference = read64(packet, 16), received = read64(packet, 32), sent = read64(packet, 40);
    int64_t root_ns = read_short_ns(packet, 4) / 2 + read_short_ns(packet, 8);
    int64_t held_ns = apart_ns(received, sent);
    int64_t away_ns = exchange->came_boot_ns - exchange->sent_boot_ns;
    if (received == 0 || sent == 0 || reference == 0 || apart_ns(reference, sent) < 0 || held_ns < 0 ||
        held_ns > away_ns) {
        return SNTP_USELESS;
    }
    /* The request took between nothing and all of what was spent on the way: wherever the paths differ, the truth is
     * within half of it. */
    int64_t distance_ns = (away_ns - held_ns) / 2 + root_ns + away_ns * DRIFT_PPM / 1000000 + NS_PER_MS / 1000;
    if (distance_ns > SNTP_DISTANCE_MAX_NS) {
        return SNTP_USELESS;
    }
    int64_t theirs_ns = wall_ns(received, exchange->near_wall_ns) + held_ns / 2;
    int64_t ours_ns = exchange->sent_boot_ns + away_ns / 2;
    *ret_claim = (struct sntp_claim){
        .low_ns = theirs_ns - ours_ns - distance_ns,
        .high_ns = theirs_ns - ours_ns + distance_ns,
        .leap_ahead = packet.at[0] >> 6 != 0,
        .stratum = packet.at[1],
    };
    return SNTP_GOOD;
}

static unsigned covering(const struct sntp_claim *claims, size_t count, int64_t point_ns)
{
    unsigned covered = 0;
    for (size_t i = 0; i < count; i++) {
        covered += claims[i].low_ns <= point_ns && point_ns <= claims[i].high_ns;
    }
    return covered;
}

/* Coverage rises at lower ends and falls behind upper ones, so the extremes lie on ends. Quadratic, of 16 at most. */
bool sntp_agree(const struct sntp_claim *claims, size_t count, unsigned quorum, int64_t *ret_low_ns,
                int64_t *ret_high_ns, unsigned *ret_agreed)
{
    int64_t low_ns = INT64_MAX, high_ns = INT64_MIN;
    for (size_t i = 0; i < count && quorum > 0; i++) {
        if (claims[i].low_ns < low_ns && covering(claims, count, claims[i].low_ns) >= quorum) {
            low_ns = claims[i].low_ns;
        }
        if (claims[i].high_ns > high_ns && covering(claims, count, claims[i].high_ns) >= quorum) {
            high_ns = claims[i].high_ns;
        }
    }
    if (low_ns > high_ns) {
        return false;
    }
    *ret_low_ns = low_ns;
    *ret_high_ns = high_ns;
    *ret_agreed = 0;
    for (size_t i = 0; i < count; i++) {
        *ret_agreed += claims[i].low_ns <= high_ns && claims[i].high_ns >= low_ns;
    }
    return true;
}
