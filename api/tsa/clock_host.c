#include "api/tsa/clock.h"

#include <sys/timex.h>
#include <time.h>

#define READ_TRIES   8
#define READ_GOOD_NS 20000 /* both clocks within this: good enough for milliseconds, and what a quiet machine gives */

static int64_t clock_of(clockid_t id)
{
    struct timespec now;
    BUG_IF(clock_gettime(id, &now) != 0);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

static int64_t host_boot(void *arg)
{
    (void)arg;
    return clock_of(CLOCK_BOOTTIME);
}

/* The wall clock between two reads of the other; the closest pair of some, as a thread may be put aside in between. */
static struct clock_reading host_read(void *arg)
{
    (void)arg;
    struct clock_reading best = { 0 };
    int64_t best_gap = INT64_MAX;
    for (int i = 0; i < READ_TRIES && best_gap > READ_GOOD_NS; i++) {
        int64_t before = clock_of(CLOCK_BOOTTIME);
        int64_t wall = clock_of(CLOCK_REALTIME);
        int64_t gap = clock_of(CLOCK_BOOTTIME) - before;
        if (gap < best_gap) {
            best_gap = gap;
            best = (struct clock_reading){ .boot_ns = before + gap / 2, .wall_ns = wall };
        }
    }
    return best;
}

/* adjtimex without a mode only reads, and needs no privilege. In TIME_WAIT the flag is that of a leap second gone by.
 */
static struct clock_kernel host_kernel(void *arg)
{
    (void)arg;
    struct timex state = { 0 };
    int result = adjtimex(&state);
    bool answered = result >= 0;
    return (struct clock_kernel){
        .synchronised = answered && result != TIME_ERROR && (state.status & STA_UNSYNC) == 0,
        .leap_ahead = answered && (state.status & (STA_INS | STA_DEL)) != 0 && result != TIME_WAIT,
        .leap_now = result == TIME_OOP,
        .max_error_us = answered ? state.maxerror : INT64_MAX / 2,
        .estimated_error_us = answered ? state.esterror : INT64_MAX / 2,
    };
}

const struct clock_source clock_source_host = { .boot = host_boot, .read = host_read, .kernel = host_kernel };
