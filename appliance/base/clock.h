/* Time. Monotonic nanoseconds for deadlines, UTC microseconds since 1970 for what is recorded. */
#ifndef APPLIANCE_BASE_CLOCK_H
#define APPLIANCE_BASE_CLOCK_H

#include "appliance/base/bytes.h"

typedef int64_t
    mono_ns;            /* CLOCK_MONOTONIC nanoseconds; plain numbers are clearer than a struct here (style R4 noted) */
typedef int64_t utc_us; /* UTC microseconds since 1970-01-01 */

#define NS_PER_MS 1000000LL
#define NS_PER_S  1000000000LL
#define US_PER_S  1000000LL

mono_ns clock_mono(void);
utc_us clock_utc(void);
/* Milliseconds left until `deadline`, 0 when past, capped at INT_MAX; rounds up. */
int clock_ms_left(mono_ns deadline);

#define RFC3339_MAX 32
/* "2026-11-21T03:50:36.123456Z": always six digits and Z, so that text order is time order. */
void rfc3339_print(utc_us time, char out[RFC3339_MAX]);
/* RFC 3339 with Z or a numeric offset, 0..9 fraction digits (cut to microseconds). BAD_ARGUMENT. Leap seconds refused.
 */
struct fault rfc3339_parse(struct span text, utc_us *ret_time);
/* Go-style duration: "300ms", "1.5h", "2h45m", "8760h", "90s", "1m". Negative refused. */
struct fault duration_parse(struct span text, int64_t *ret_ns);

#endif
