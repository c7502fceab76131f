/* The kinds of collectors. Another one is one row more, in a file of its own, and its name here. */
#include "api/feeds/internal.h"

static const struct feed_kind *const kinds[] = { &feed_hec, &feed_azure, &feed_syslog };

const struct feed_kind *feed_kind_find(const char *name)
{
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        if (strcmp(kinds[i]->name, name) == 0) {
            return kinds[i];
        }
    }
    return NULL;
}

const char *feed_kind_names(void)
{
    return "hec, azure-monitor or syslog";
}
