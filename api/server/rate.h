/*
 * How many requests a tenant may make: a token bucket of rate_limit.requests tokens that fills up again within
 * rate_limit.window, in one row of the database for all instances, by the database's clock.
 *
 * A row that every request of a busy tenant changes would make its requests queue up for that row. So an instance takes
 * a few tokens at a time and spends them by itself: 8 at first, twice as many when they were used up soon, at most a
 * sixteenth of the budget, and few of those that are left when few are left. What is not spent within a second is given
 * back with the next question. Tokens are taken from the bucket before they are spent, so all instances together never
 * spend more than it has; what a dying instance had leased is lost to its tenant. What a refused tenant is told
 * (seconds until one token) also holds for its next requests, so a flood of them does not reach the database.
 *
 * Every authenticated and authorized request costs one token: a replayed answer and a refused body as well. It is given
 * back for a request that was refused with 503 before it had an effect. Probes and public endpoints have no tenant and
 * cost nothing.
 *
 * Thread-safe.
 */
#ifndef API_SERVER_RATE_H
#define API_SERVER_RATE_H

#include "api/store/store.h"
#include "api/telemetry/metrics.h"

extern const struct metric rate_metrics[];
extern const size_t rate_metric_count;

struct rate;
struct fault rate_new(const struct config *config, struct store *store, struct metrics *metrics,
                      struct rate **ret_rate);
void rate_free(struct rate *rate);
DEFINE_FREEP(struct rate, rate_free)

/* One request of op's tenant. RATE_LIMITED with Retry-After; STORE_BUSY and the like when the bucket cannot be asked.
 */
struct fault rate_take(struct op *op, struct rate *rate);
/* Gives back what rate_take took for op. */
void rate_refund(const struct op *op, struct rate *rate);

/* Seconds until `tokens` millionths have become a whole one: at least 1. Pure. */
int rate_retry_after_s(int64_t tokens, int64_t requests, int64_t window_us);

#endif
