/*
 * The client half of NTP that a check of the time needs (RFC 5905 14, the client subset): one request, one answer, and
 * how far the truth can lie from CLOCK_BOOTTIME after it. The request carries random bits instead of our time: they
 * come back as the origin timestamp, so an answer that was not asked for is known, and nothing of this host is told.
 */
#ifndef API_TSA_CLOCK_SNTP_H
#define API_TSA_CLOCK_SNTP_H

#include "api/tsa/clock.h"

#define SNTP_SIZE            48
#define SNTP_DISTANCE_MAX_NS (3 * NS_PER_S / 2) /* a server that is further from its source is of no use */

/* When a request left and its answer came, on CLOCK_BOOTTIME, and about which year it is: NTP's era. */
struct sntp_exchange {
    uint8_t cookie[8];
    int64_t sent_boot_ns, came_boot_ns;
    int64_t near_wall_ns;
};

enum sntp_verdict {
    SNTP_GOOD,
    SNTP_NOT_OURS, /* no answer to this request: wait on */
    SNTP_USELESS,  /* the server is not synchronised, or contradicts itself */
    SNTP_GO_AWAY   /* a kiss of death (RFC 5905 7.4): ask less often */
};

/* The truth minus CLOCK_BOOTTIME lies between low and high, if the server is honest and its claims about itself are. */
struct sntp_claim {
    int64_t low_ns, high_ns;
    bool leap_ahead;
    uint8_t stratum;
};

void sntp_request(const uint8_t cookie[8], uint8_t out[SNTP_SIZE]);
/* Outside bytes: fuzzed. */
enum sntp_verdict sntp_answer(struct span packet, const struct sntp_exchange *exchange, struct sntp_claim *ret_claim);

/* The agreement of `quorum` claims (RFC 5905 11.2.1 with the number of truechimers given): from the lowest to the
 * highest point that lies in at least so many. As long as `quorum` servers are honest the truth is inside, and as long
 * as fewer than `quorum` lie, so is an honest claim at either end: liars can neither move the range beyond what honest
 * servers leave open nor prevent it. False when there is no such point. `*ret_agreed`: claims that meet the range's
 * middle. */
bool sntp_agree(const struct sntp_claim *claims, size_t count, unsigned quorum, int64_t *ret_low_ns,
                int64_t *ret_high_ns, unsigned *ret_agreed);

#endif
