/* Versions of releases and extensions: MAJOR.MINOR.PATCH, decimal, no leading zeros, each at most 99999. */
#ifndef APPLIANCE_RELEASE_VERSION_H
#define APPLIANCE_RELEASE_VERSION_H

#include "appliance/base/bytes.h"

#define VERSION_TEXT_MAX 18 /* with its NUL */

struct version {
    unsigned major, minor, patch;
};

struct fault version_parse(struct span text, struct version *ret_version); /* BAD_ARGUMENT */
void version_print(struct version version, char out[VERSION_TEXT_MAX]);
/* < 0, 0, > 0 */
int version_compare(struct version a, struct version b);

#endif
