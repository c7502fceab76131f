/* Paths and queries (RFC 3986), strictly: what two readers could read differently is refused, never repaired. */
#ifndef API_SERVER_URI_H
#define API_SERVER_URI_H

#include "appliance/base/op.h"

#define PATH_MAX_LEN      2048
#define PATH_SEGMENTS_MAX 16
#define QUERY_MAX_LEN     4096
#define QUERY_PARAMS_MAX  32

/* Undecoded segments, borrowed from the text. "/" has none; the last one of "/folder/" is empty, which no {name} of a
 * template matches: only a template that ends with '/' itself. */
struct path {
    struct span segments[PATH_SEGMENTS_MAX];
    size_t count;
};
/* BAD_ARGUMENT: other characters than RFC 3986 has, a broken or unsafe escape, "." or "..". ROUTE: an empty segment
 * before the end, too many or too long: no route looks like that. */
struct fault path_split(struct op *op, const char *text, struct path *ret_path);

/* The decoded text in op's arena. BAD_ARGUMENT: broken escapes, control characters, invalid UTF-8. */
struct fault percent_decode(struct op *op, struct span text, bool plus_is_blank, const char **ret_text);

struct query {
    struct {
        const char *name, *value; /* decoded */
    } at[QUERY_PARAMS_MAX];
    size_t count;
};
/* `text` may be NULL. Parameters that `accepted` (NULL-terminated; NULL = none) does not name, doubled or malformed
 * ones are QUERY, with the name as pointer. */
struct fault query_parse(struct op *op, const char *text, const char *const *accepted, struct query *ret_query);
const char *query_get(const struct query *query, const char *name); /* NULL when absent */

#endif
