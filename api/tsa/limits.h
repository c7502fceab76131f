/*
 * What one tenant's authority takes at once and in a second, in this process. No lock: the rate is kept as the time at
 * which the next request would be due if all came evenly (the generic cell rate algorithm).
 */
#ifndef API_TSA_LIMITS_H
#define API_TSA_LIMITS_H

#include "appliance/base/op.h"

#include <stdatomic.h>

struct tsa_limits {
    int64_t interval_ns;  /* between two requests that come evenly; 0 = no limit */
    int64_t tolerance_ns; /* how far ahead of that they may be: the burst */
    unsigned in_flight;   /* 0 = no limit */
    _Atomic int64_t due;
    atomic_uint now;
};
/* rate: requests a second, 0 = no limit; burst: 0 = as many as the rate. */
void tsa_limits_init(struct tsa_limits *limits, int64_t rate, int64_t burst, unsigned in_flight);
/* RATE_LIMITED or SATURATED, with when to come again; after OK tsa_limits_leave is due. */
struct fault tsa_limits_enter(struct op *op, struct tsa_limits *limits, mono_ns now);
void tsa_limits_leave(struct tsa_limits *limits);

#endif
