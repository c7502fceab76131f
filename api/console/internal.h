/* The embedded files, and the choice among what is kept of each. */
#ifndef API_CONSOLE_INTERNAL_H
#define API_CONSOLE_INTERNAL_H

#include "api/console/console.h"

struct console_asset {
    const char *name; /* "index.html": letters, digits and '-' in lower case, one dot */
    const char *type;
    const char *sha256; /* hex, of the bytes */
    struct span plain, gzip;
};
/* Made by cmake/EmbedConsole.cmake from api/console/assets/. */
extern const struct console_asset console_assets[];
extern const size_t console_asset_count;

const struct console_asset *console_asset_find(const char *name); /* exact; NULL = none */
/* Does this Accept-Encoding take gzip (RFC 9110 12.5.3)? NULL, refusals by q=0 and what is malformed do not. */
bool console_takes_gzip(const char *accept_encoding);
/* Does this If-None-Match name the tag (RFC 9110 13.1.2)? `tag` with its quotes. */
bool console_tag_matches(const char *if_none_match, const char *tag);

#endif
