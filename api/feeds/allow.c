/*
 * audit.feeds.allow: hosts, and the credentials that may go there. One list for both, because a credential that may be
 * sent anywhere is anybody's who may write a feed.
 */
#include "api/feeds/internal.h"

#include "appliance/base/alloc.h"

#include <stdio.h>

#define ENTRIES_MAX 256u
#define NAMES_MAX   8u
#define NAME_MAX_   63u
#define URL_MAX     1024u

struct feed_allowance {
    struct tenant_id tenant; /* "" = every tenant */
    struct feed_host host;   /* port "" = the scheme's own */
    char names[NAMES_MAX][NAME_MAX_ + 1];
    size_t name_count;
};

/* ---- hosts ---- */

static bool is_host_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_' || c == ':';
}

/* "name", "name:port", "[::1]:port". */
static bool read_host(struct span text, struct feed_host *ret_host)
{
    struct feed_host host = { .plain = false };
    size_t at = 0, len = 0;
    bool bracket = text.len > 0 && text.at[0] == '[';
    for (at = bracket ? 1 : 0; at < text.len && text.at[at] != (bracket ? ']' : ':'); at++) {
        char c = (char)(text.at[at] >= 'A' && text.at[at] <= 'Z' ? text.at[at] + 32 : text.at[at]);
        if (!is_host_character(c) || len == sizeof(host.name) - 1) {
            return false;
        }
        host.name[len++] = c;
    }
    if (bracket && (at == text.len || at++ == 0)) {
        return false;
    }
    if (at < text.len) {
        size_t digits = text.len - at - 1;
        if (text.at[at] != ':' || digits == 0 || digits > 5) {
            return false;
        }
        memcpy(host.port, text.at + at + 1, digits);
    }
    long port = host.port[0] == '\0' ? 1 : strtol(host.port, NULL, 10);
    bool good = len > 0 && strspn(host.port, "0123456789") == strlen(host.port) && host.port[0] != '0' && port >= 1 &&
                port <= 65535;
    if (good) {
        *ret_host = host;
    }
    return good;
}

static bool is_loopback(const struct feed_host *host)
{
    return strcmp(host->name, "127.0.0.1") == 0 || strcmp(host->name, "::1") == 0 ||
           strcmp(host->name, "localhost") == 0;
}

/* Printable, without blanks, user, query or fragment. */
static bool is_clean(const char *url)
{
    for (const char *at = url; *at != '\0'; at++) {
        if (*at <= ' ' || *at >= 0x7f || strchr("?#@\\\"", *at) != NULL) {
            return false;
        }
    }
    return strlen(url) <= URL_MAX;
}

bool feed_url_read(const char *url, const char *scheme, const char *port, struct feed_host *ret_host)
{
    struct feed_host host;
    size_t len = strlen(scheme);
    bool plain = strcmp(scheme, "https") == 0 && strncmp(url, "http://", 7) == 0;
    if (!is_clean(url) || (!plain && (strncmp(url, scheme, len) != 0 || strncmp(url + len, "://", 3) != 0))) {
        return false;
    }
    const char *rest = url + (plain ? 7 : len + 3);
    if (!read_host(span_of(rest, strcspn(rest, "/")), &host) || (plain && !is_loopback(&host))) {
        return false;
    }
    host.plain = plain;
    if (host.port[0] == '\0') {
        (void)snprintf(host.port, sizeof(host.port), "%s", plain ? "80" : port);
    }
    *ret_host = host;
    return true;
}

/* ---- credentials ---- */

static bool is_name(const char *name, size_t len)
{
    if (len == 0 || len > NAME_MAX_ || (name[0] >= '0' && name[0] <= '9')) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (!((name[i] >= 'A' && name[i] <= 'Z') || (name[i] >= '0' && name[i] <= '9') || name[i] == '_')) {
            return false;
        }
    }
    return true;
}

const char *feed_credential_name(const char *reference)
{
    bool good =
        reference != NULL && strncmp(reference, "env:", 4) == 0 && is_name(reference + 4, strlen(reference + 4));
    return good ? reference + 4 : NULL;
}

bool feed_secret_read(const char *reference, struct secret **ret_secret)
{
    const char *name = feed_credential_name(reference);
    const char *value = name != NULL ? getenv(name) : NULL;
    size_t len = value != NULL ? strlen(value) : 0;
    return len > 0 && len <= SECRET_MAX && !FAULTED(secret_new(span_of(value, len), ret_secret));
}

/* ---- the list ---- */

static bool read_names(const char *text, struct feed_allowance *allowance)
{
    while (true) {
        size_t len = strcspn(text, "+");
        if (!is_name(text, len) || allowance->name_count == NAMES_MAX) {
            return false;
        }
        memcpy(allowance->names[allowance->name_count++], text, len);
        if (text[len] == '\0') {
            return true;
        }
        text += len + 1;
    }
}

static bool read_entry(const char *entry, struct feed_allowance *ret_allowance)
{
    struct feed_allowance allowance = { .name_count = 0 };
    const char *slash = strchr(entry, '/');
    if (slash != NULL) {
        if (FAULTED(tenant_id_parse(span_of(entry, (size_t)(slash - entry)), &allowance.tenant))) {
            return false;
        }
        entry = slash + 1;
    }
    size_t len = strcspn(entry, "=");
    if (!read_host(span_of(entry, len), &allowance.host) ||
        (entry[len] == '=' && !read_names(entry + len + 1, &allowance))) {
        return false;
    }
    *ret_allowance = allowance;
    return true;
}

struct fault feeds_new(struct op *op, const struct config *config, struct feeds **ret_feeds)
{
    CLEANUP(feeds_freep) struct feeds *made = NULL;
    const struct config_list *list = &config->feeds_allow;
    TRY(mem_new(1, sizeof(*made), &made));
    BUG_IF(pthread_mutex_init(&made->lock, NULL) != 0);
    if (list->count > ENTRIES_MAX) {
        return op_fail(op, FAULT(CONFIG), "audit.feeds.allow: at most %u entries", ENTRIES_MAX);
    }
    TRY(mem_new(list->count + 1, sizeof(*made->allowances), &made->allowances));
    for (size_t i = 0; i < list->count; i++) {
        if (!read_entry(list->at[i], &made->allowances[i])) {
            return op_fail(
                op, FAULT(CONFIG),
                "audit.feeds.allow: '%.80s' is not [TENANT/]HOST[:PORT][=NAME+NAME...], NAME of A-Z, 0-9 and _",
                list->at[i]);
        }
        made->allowance_count++;
    }
    *ret_feeds = TAKE(made);
    return OK;
}

void feeds_free(struct feeds *feeds)
{
    if (feeds != NULL) {
        azure_tokens_free(feeds);
        BUG_IF(pthread_mutex_destroy(&feeds->lock) != 0);
        mem_free(feeds->allowances);
        mem_free(feeds);
    }
}

static bool has_name(const struct feed_allowance *allowance, const char *name)
{
    for (size_t i = 0; i < allowance->name_count; i++) {
        if (strcmp(allowance->names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

/* An entry without a port means the ports that need not be written: 443, and 6514 of syslog. */
static bool same_port(const struct feed_allowance *allowance, const struct feed_host *host)
{
    const char *port = allowance->host.port;
    return port[0] != '\0' ? strcmp(port, host->port) == 0
                           : strcmp(host->port, "443") == 0 || strcmp(host->port, "6514") == 0;
}

bool feeds_allow(const struct feeds *feeds, struct tenant_id tenant, const struct feed_host *host,
                 const char *const *names, size_t count)
{
    for (size_t i = 0; i < feeds->allowance_count; i++) {
        const struct feed_allowance *allowance = &feeds->allowances[i];
        bool fits = (allowance->tenant.text[0] == '\0' || tenant_id_equal(allowance->tenant, tenant)) &&
                    strcmp(allowance->host.name, host->name) == 0 && same_port(allowance, host);
        for (size_t j = 0; fits && j < count; j++) {
            fits = has_name(allowance, names[j]);
        }
        if (fits) {
            return true;
        }
    }
    return false;
}
