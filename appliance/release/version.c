#include "appliance/release/version.h"

#include <stdio.h>

#define NUMBER_MAX 99999u

/* One decimal number without leading zeros; *at moves behind it. */
static bool take_number(struct span text, size_t *at, unsigned *ret_number)
{
    size_t start = *at;
    unsigned number = 0;
    while (*at < text.len && text.at[*at] >= '0' && text.at[*at] <= '9') {
        number = 10 * number + (unsigned)(text.at[*at] - '0');
        (*at)++;
        if (number > NUMBER_MAX) {
            return false;
        }
    }
    *ret_number = number;
    return *at > start && (*at == start + 1 || text.at[start] != '0');
}

static bool take_dot(struct span text, size_t *at)
{
    return *at < text.len && text.at[(*at)++] == '.';
}

struct fault version_parse(struct span text, struct version *ret_version)
{
    struct version version = { 0 };
    size_t at = 0;
    REQUIRE(take_number(text, &at, &version.major) && take_dot(text, &at) && take_number(text, &at, &version.minor) &&
                take_dot(text, &at) && take_number(text, &at, &version.patch) && at == text.len,
            BAD_ARGUMENT);
    *ret_version = version;
    return OK;
}

void version_print(struct version version, char out[VERSION_TEXT_MAX])
{
    (void)snprintf(out, VERSION_TEXT_MAX, "%u.%u.%u", version.major, version.minor, version.patch);
}

static int compare(unsigned a, unsigned b)
{
    return (a > b) - (a < b);
}

int version_compare(struct version a, struct version b)
{
    int major = compare(a.major, b.major), minor = compare(a.minor, b.minor);
    return major != 0 ? major : minor != 0 ? minor : compare(a.patch, b.patch);
}
