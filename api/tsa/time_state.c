/* What others may know of the clock gate. */
#include "api/tsa/internal.h"
#include "api/tsa/tsa.h"

void tsa_time_state(const struct services *services, struct tsa_time_state *ret_state)
{
    struct tsa_time_state made = { .on = services->tsa != NULL && services->tsa->clock != NULL,
                                   .says = "No time-stamping authority is on." };
    if (made.on) {
        struct clock_state clock;
        clock_watch_state(services->tsa->clock, &clock);
        made.trusted = clock.reason == CLOCK_TRUSTED;
        made.says = clock_reason_says(clock.reason);
    }
    *ret_state = made;
}
