#include "appliance/initrd/release.h"

#include "appliance/initrd/files.h"

#include <string.h>

#define BLOCKS_MAX                                                                                    \
    ((uint64_t)1 << 32) /* 16 TiB: far more than any slot, and no product with a block size overflows \
                         */

static bool is_hash(const char *text)
{
    return strlen(text) == 64 && strspn(text, "0123456789abcdef") == 64;
}

static bool parse_blocks(const char *text, uint64_t *ret_blocks)
{
    uint64_t blocks = 0;
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9') {
            return false;
        }
        blocks = 10 * blocks + (uint64_t)(*text - '0');
        if (blocks > BLOCKS_MAX) {
            return false;
        }
    }
    *ret_blocks = blocks;
    return blocks > 0;
}

bool release_parse(const char *text, struct release *ret_release, const char **ret_what)
{
    struct release release = { 0 };
    char blocks[24];
    const char *what = NULL;
    if (!text_value(text, " \n", "svc.version", release.version, sizeof(release.version))) {
        what = "svc.version";
    } else if (!text_value(text, " \n", "svc.roothash", release.roothash, sizeof(release.roothash)) ||
               !is_hash(release.roothash)) {
        what = "svc.roothash";
    } else if (!text_value(text, " \n", "svc.salt", release.salt, sizeof(release.salt)) || !is_hash(release.salt)) {
        what = "svc.salt";
    } else if (!text_value(text, " \n", "svc.blocks", blocks, sizeof(blocks)) ||
               !parse_blocks(blocks, &release.blocks)) {
        what = "svc.blocks";
    }
    if (what != NULL) {
        *ret_what = what;
        return false;
    }
    *ret_release = release;
    return true;
}
