#include "api/cli/pace.h"

#include <poll.h>

#define STEP_FIRST_NS (100 * NS_PER_MS)
#define STEP_LAST_NS  (5 * NS_PER_S)

struct pace pace_of(int64_t limit_ns)
{
    return (struct pace){ .deadline = clock_mono() + limit_ns, .step_ns = STEP_FIRST_NS };
}

bool pace_wait(struct pace *pace)
{
    mono_ns now = clock_mono();
    if (now >= pace->deadline) {
        return false;
    }
    int64_t step = pace->deadline - now < pace->step_ns ? pace->deadline - now : pace->step_ns;
    (void)poll(NULL, 0, (int)((step + NS_PER_MS - 1) / NS_PER_MS));
    pace->step_ns = pace->step_ns * 2 < STEP_LAST_NS ? pace->step_ns * 2 : STEP_LAST_NS;
    return true;
}
