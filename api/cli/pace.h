/*
 * Looking again and again at what changes at the server, with growing steps up to a limit: nothing there tells us.
 *
 *     struct pace pace = pace_of(limit_ns);
 *     do { look; } while (!done && pace_wait(&pace));
 */
#ifndef API_CLI_PACE_H
#define API_CLI_PACE_H

#include "appliance/base/clock.h"

struct pace {
    mono_ns deadline;
    int64_t step_ns;
};
struct pace pace_of(int64_t limit_ns);
/* False, at once, when the time is over. */
bool pace_wait(struct pace *pace);

#endif
