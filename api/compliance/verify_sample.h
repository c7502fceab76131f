/*
 * Samples that anybody can draw again. The population is in a fixed order (time, then sequence), so that a record has a
 * rank from 1 to `total`, and the ranks are drawn from the seed alone:
 *
 *     for counter = 0, 1, 2, ... until n different ranks are drawn:
 *         x = the first 8 bytes, big-endian, of SHA-256("svc.population.sample.v1:" seed ":" counter in decimal)
 *         when x < 2^64 - (2^64 mod total):  rank = x mod total + 1, drawn unless it was drawn before
 *
 * The refusal of the last few x makes every rank equally likely; a rank that was drawn is not drawn again.
 */
#ifndef API_COMPLIANCE_VERIFY_SAMPLE_H
#define API_COMPLIANCE_VERIFY_SAMPLE_H

#include "appliance/base/op.h"

#define SAMPLE_ALGORITHM "svc.population.sample.v1"
#define SAMPLE_MAX       500
#define SAMPLE_SEED_MAX  64

/* `n` ranks of 1..total in the order of their drawing; the caller sees to 0 <= n <= total, n <= SAMPLE_MAX. */
struct fault sample_draw(const char *seed, int64_t total, size_t n, int64_t *ret_ranks);

#endif
