#include "appliance/release/footer.h"

#include <stdio.h>
#include <stdlib.h>

void release_footer_print(const struct release_footer *footer, uint8_t out[RELEASE_FOOTER])
{
    char version[VERSION_TEXT_MAX];
    version_print(footer->version, version);
    memset(out, 0, RELEASE_FOOTER);
    (void)snprintf((char *)out, RELEASE_FOOTER, "SVCROOT1\nversion=%s\nroothash=%s\nblocks=%llu\nsalt=%s\n", version,
                   footer->tree.roothash, (unsigned long long)footer->tree.blocks, footer->tree.salt);
}

/* The value of the line that starts with `key`, at *at; *at moves behind the line. */
static struct span take_line(const char **at, const char *key)
{
    size_t len = strlen(key);
    const char *end = strchr(*at, '\n');
    if (end == NULL || strncmp(*at, key, len) != 0) {
        return (struct span){ 0 };
    }
    struct span value = span_of(*at + len, (size_t)(end - *at) - len);
    *at = end + 1;
    return value;
}

static bool take_hex(const char **at, const char *key, char out[RELEASE_HEX_MAX + 1])
{
    struct span value = take_line(at, key);
    if (value.len != RELEASE_HEX_MAX) {
        return false;
    }
    memcpy(out, value.at, value.len);
    out[value.len] = '\0';
    return release_hex_valid(out);
}

static uint64_t number_of(struct span digits)
{
    uint64_t number = 0;
    for (size_t i = 0; i < digits.len && number <= RELEASE_PART_MAX; i++) {
        if (digits.at[i] < '0' || digits.at[i] > '9') {
            return 0;
        }
        number = 10 * number + (uint64_t)(digits.at[i] - '0');
    }
    return number;
}

struct fault release_footer_parse(const uint8_t bytes[RELEASE_FOOTER], struct release_footer *ret_footer)
{
    char text[RELEASE_FOOTER + 1];
    uint8_t again[RELEASE_FOOTER];
    struct release_footer footer = { 0 };
    const char *at = text;
    memcpy(text, bytes, RELEASE_FOOTER);
    text[RELEASE_FOOTER] = '\0';
    REQUIRE(take_line(&at, "SVCROOT1").at != NULL, NOT_FOUND);
    REQUIRE(!FAULTED(version_parse(take_line(&at, "version="), &footer.version)), NOT_FOUND);
    REQUIRE(take_hex(&at, "roothash=", footer.tree.roothash), NOT_FOUND);
    footer.tree.blocks = number_of(take_line(&at, "blocks="));
    REQUIRE(footer.tree.blocks > 0 && take_hex(&at, "salt=", footer.tree.salt), NOT_FOUND);
    release_footer_print(&footer, again);
    REQUIRE(memcmp(again, bytes, RELEASE_FOOTER) == 0, NOT_FOUND);
    *ret_footer = footer;
    return OK;
}
