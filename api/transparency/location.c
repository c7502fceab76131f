/* Where a 409 says that the entry is: believed only within the log's own address. */
#include "api/transparency/internal.h"

#define ENTRIES      "/api/v1/log/entries/"
#define ID_SHORT     64u /* hex of the leaf's hash */
#define ID_LONG      80u /* tree id in front */
#define LOCATION_MAX 1000u

/* "https://host:port/path" in its parts; port "" = the scheme's own. */
struct origin {
    struct span scheme, host, port, path;
};

static bool split_url(const char *url, struct origin *ret_origin)
{
    const char *mark = strstr(url, "://");
    if (mark == NULL || mark == url) {
        return false;
    }
    const char *host = mark + 3;
    size_t len = strcspn(host, "/?#");
    size_t host_len = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":/?#");
    if (memchr(host, '@', len) != NULL || host_len == 0 || host_len > len) {
        return false;
    }
    const char *port = host + host_len;
    size_t port_len = len - host_len;
    if (port_len > 0 && (port[0] != ':' || strspn(port + 1, "0123456789") != port_len - 1)) {
        return false;
    }
    *ret_origin = (struct origin){ .scheme = span_of(url, (size_t)(mark - url)),
                                   .host = span_of(host, host_len),
                                   .port = port_len > 1 ? span_of(port + 1, port_len - 1) : (struct span){ 0 },
                                   .path = span_text(host + len) };
    return true;
}

static bool same_caseless(struct span a, struct span b)
{
    return a.len == b.len && strncasecmp((const char *)a.at, (const char *)b.at, a.len) == 0;
}

static struct span port_of(const struct origin *origin)
{
    if (origin->port.len > 0) {
        return origin->port;
    }
    return span_text(same_caseless(origin->scheme, span_text("https")) ? "443" : "80");
}

static bool same_origin(const struct origin *a, const struct origin *b)
{
    return same_caseless(a->scheme, b->scheme) && same_caseless(a->host, b->host) && span_equal(port_of(a), port_of(b));
}

static bool is_entry_id(const char *id)
{
    size_t len = strlen(id);
    return (len == ID_SHORT || len == ID_LONG) && strspn(id, "0123456789abcdef") == len;
}

struct fault tlog_location(struct op *op, const char *url, const char *location, const char **ret_path)
{
    struct origin log, there;
    BUG_IF(!split_url(url, &log)); /* as configured */
    size_t len = strlen(location);
    if (len == 0 || len > LOCATION_MAX) {
        return tlog_refuse(op, "the log has the entry already, but does not say where");
    }
    const char *path = location;
    if (location[0] != '/') {
        if (!split_url(location, &there) || !same_origin(&log, &there)) {
            return tlog_refuse(op, "the log says that its entry is at another origin");
        }
        path = (const char *)there.path.at;
    } else if (location[1] == '/') {
        return tlog_refuse(op, "the log says that its entry is at another origin");
    }
    /* Behind a proxy a log may not know the path that its address has in front. */
    size_t prefix = log.path.len;
    if (prefix > 0 && strncmp(path, (const char *)log.path.at, prefix) == 0) {
        path += prefix;
    }
    if (strncmp(path, ENTRIES, strlen(ENTRIES)) != 0 || !is_entry_id(path + strlen(ENTRIES))) {
        return tlog_refuse(op, "the log says that its entry is at a path that is no entry's");
    }
    return arena_text(op->arena, span_text(path), ret_path);
}
