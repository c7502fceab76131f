#include "api/progress.h"

#include "appliance/base/clock.h"

#include <stdio.h>
#include <string.h>

#define EVERY_NS (2 * NS_PER_S)

void progress_tell(const char *what, uint64_t done, uint64_t last)
{
    static const char *present; /* what the times are of */
    static mono_ns begun, told;
    mono_ns now = clock_mono();
    if (present == NULL || strcmp(present, what) != 0) {
        present = what;
        begun = told = now;
    }
    bool end = done == last && told != begun;
    if (now - told < EVERY_NS && !end) {
        return;
    }
    told = now;
    double seconds = (double)(now - begun) / NS_PER_S;
    (void)fprintf(stderr, "svc-api: %s: %llu of %llu (%llu%%), %.0f a second\n", what, (unsigned long long)done,
                  (unsigned long long)last, (unsigned long long)(last > 0 ? done * 100 / last : 100),
                  seconds > 0 ? (double)done / seconds : 0);
}
