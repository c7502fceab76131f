/*
 * The last 4096 bytes of a root slot: which release stands in it. Written last, when everything before it was read back
 * and found right; a slot without it holds nothing. A hint only (svc-initrd looks for the slot that names the root hash
 * of its command line); what is in the slot is proven by dm-verity.
 *
 *   "SVCROOT1\nversion=0.2.0\nroothash=HEX\nblocks=N\nsalt=HEX\n", then NUL up to the end
 */
#ifndef APPLIANCE_RELEASE_FOOTER_H
#define APPLIANCE_RELEASE_FOOTER_H

#include "appliance/release/manifest.h"

#define RELEASE_FOOTER 4096

struct release_footer {
    struct version version;
    struct release_tree tree;
};

void release_footer_print(const struct release_footer *footer, uint8_t out[RELEASE_FOOTER]);
/* NOT_FOUND: no footer. One form only: what release_footer_print would not have written is none. */
struct fault release_footer_parse(const uint8_t bytes[RELEASE_FOOTER], struct release_footer *ret_footer);

#endif
