/* code_signing.transparency.logs_file (transparency.h has its form). What is not as it must be stops the start, with
 * the line. */
#include "api/transparency/internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/codec.h"
#include "appliance/base/crypto.h"
#include "appliance/base/file.h"
#include "appliance/base/yaml_tree.h"

#include <openssl/err.h>
#include <openssl/pem.h>

#define ARENA_MAX    ((size_t)4 << 20)
#define LOGS_MAX     64u
#define KEYS_MAX     16u
#define TENANTS_MAX  256u
#define KEY_MAX      ((size_t)16 << 10)
#define URL_MAX      512u
#define NAME_LEN_MAX 63u

struct reading {
    struct arena *arena;
    const char *file;
    struct buf *why;
};

static struct fault refuse(const struct reading *reading, unsigned line, const char *what, const char *name)
{
    if (reading->why != NULL) {
        IGNORE(buf_printf(reading->why, "%s:%u: %s: %s", reading->file, line, what, name));
    }
    return FAULT(CONFIG);
}

static struct fault check_members(const struct reading *reading, const struct yaml_node *map, const char *const *names)
{
    if (map->kind != YAML_KIND_MAP) {
        return refuse(reading, map->line, "must be a mapping", map->key != NULL ? map->key : "an item");
    }
    for (const struct yaml_node *node = map->first; node != NULL; node = node->next) {
        size_t i = 0;
        while (names[i] != NULL && strcmp(names[i], node->key) != 0) {
            i++;
        }
        if (names[i] == NULL) {
            return refuse(reading, node->line, "no such member", node->key);
        }
    }
    return OK;
}

/* A scalar that lives as long as the logs. What is not there leaves *ret_text as it is. */
static struct fault read_text(const struct reading *reading, const struct yaml_node *map, const char *name,
                              bool required, const char **ret_text)
{
    const struct yaml_node *node = yaml_tree_get(map, name);
    if (node == NULL) {
        return required ? refuse(reading, map->line, "is required", name) : OK;
    }
    if (node->kind != YAML_KIND_SCALAR || node->text[0] == '\0') {
        return refuse(reading, node->line, "must be a text that is not empty", name);
    }
    return arena_text(reading->arena, span_text(node->text), ret_text);
}

static struct fault read_time(const struct reading *reading, const struct yaml_node *map, const char *name,
                              utc_us *ret_time)
{
    const char *text = NULL;
    *ret_time = 0;
    TRY(read_text(reading, map, name, false, &text));
    if (text != NULL && FAULTED(rfc3339_parse(span_text(text), ret_time))) {
        return refuse(reading, yaml_tree_get(map, name)->line, "must be a time such as 2026-01-01T00:00:00Z", name);
    }
    return OK;
}

static struct fault read_window(const struct reading *reading, const struct yaml_node *map, const char *const names[2],
                                utc_us *ret_from, utc_us *ret_until)
{
    TRY(read_time(reading, map, names[0], ret_from));
    TRY(read_time(reading, map, names[1], ret_until));
    if (*ret_until != 0 && *ret_until <= *ret_from) {
        return refuse(reading, map->line, "must be after its beginning", names[1]);
    }
    return OK;
}

/* ---- keys ---- */

static struct fault spki_of(struct span pem, struct arena *arena, struct span *ret_spki)
{
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new_mem_buf(pem.at, (int)pem.len);
    CLEANUP(EVP_PKEY_freep)
    EVP_PKEY *key = bio != NULL ? PEM_read_bio_PUBKEY_ex(bio, NULL, NULL, NULL, crypto_context(), NULL) : NULL;
    unsigned char *der = NULL;
    int len = key != NULL ? i2d_PUBKEY(key, &der) : 0;
    ERR_clear_error();
    REQUIRE(len > 0, BAD_ARGUMENT);
    struct fault fault = arena_copy(arena, span_of(der, (size_t)len), ret_spki);
    OPENSSL_free(der);
    return fault;
}

static struct fault read_key(const struct reading *reading, const struct yaml_node *map, struct tlog_key *ret_key)
{
    static const char *const names[] = { "file", "valid_from", "valid_until", NULL };
    static const char *const window[2] = { "valid_from", "valid_until" };
    CLEANUP(buf_free) struct buf pem = BUF_INIT(KEY_MAX);
    const char *path = "", *details = NULL;
    TRY(check_members(reading, map, names));
    TRY(read_text(reading, map, "file", true, &path));
    TRY(read_window(reading, map, window, &ret_key->valid_from, &ret_key->valid_until));
    if (FAULTED(file_read(path, &pem))) {
        return refuse(reading, map->line, "cannot be read", path);
    }
    if (FAULTED(spki_of(buf_span(&pem), reading->arena, &ret_key->spki)) ||
        FAULTED(tlog_key_check(ret_key->spki, &details))) {
        return refuse(reading, map->line, "must be the PEM of a public key: EC P-256, EC P-384 or Ed25519", path);
    }
    return OK;
}

static struct fault read_keys(const struct reading *reading, const struct yaml_node *map, struct tlog *log)
{
    const struct yaml_node *list = yaml_tree_get(map, "keys");
    if (list == NULL || list->kind != YAML_KIND_LIST || list->count == 0 || list->count > KEYS_MAX) {
        return refuse(reading, map->line, "a log needs the list of its pinned keys, 1 to 16", "keys");
    }
    TRY(arena_take(reading->arena, list->count, sizeof(*log->keys), &log->keys));
    for (const struct yaml_node *node = list->first; node != NULL; node = node->next) {
        TRY(read_key(reading, node, &log->keys[log->key_count]));
        log->key_count++;
    }
    return OK;
}

/* ---- logs ---- */

static struct fault read_tenants(const struct reading *reading, const struct yaml_node *map, struct tlog *log)
{
    const struct yaml_node *list = yaml_tree_get(map, "tenants");
    if (list == NULL) {
        return OK;
    }
    if (list->kind != YAML_KIND_LIST || list->count == 0 || list->count > TENANTS_MAX) {
        return refuse(reading, list->line, "must be a list of tenants, or left out for every tenant", "tenants");
    }
    TRY(arena_take(reading->arena, list->count, sizeof(*log->tenants), &log->tenants));
    for (const struct yaml_node *node = list->first; node != NULL; node = node->next) {
        if (node->kind != YAML_KIND_SCALAR ||
            FAULTED(tenant_id_parse(span_text(node->text), &log->tenants[log->tenant_count]))) {
            return refuse(reading, node->line, "no tenant's id", node->kind == YAML_KIND_SCALAR ? node->text : "");
        }
        log->tenant_count++;
    }
    return OK;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

/* Of this machine: there is nobody on the way. */
static bool is_loopback(const char *host)
{
    static const char *const hosts[] = { "127.0.0.1", "[::1]", "localhost" };
    for (size_t i = 0; i < COUNT_OF(hosts); i++) {
        size_t len = strlen(hosts[i]);
        if (strncmp(host, hosts[i], len) == 0 && (host[len] == '\0' || host[len] == ':' || host[len] == '/')) {
            return true;
        }
    }
    return false;
}

/* Printable, without blanks, query or fragment; a slash at its end is dropped. */
static struct fault read_url(const struct reading *reading, const struct yaml_node *map, struct tlog *log)
{
    const char *url = "";
    TRY(read_text(reading, map, "url", true, &url));
    size_t len = strlen(url);
    while (len > 0 && url[len - 1] == '/') {
        len--;
    }
    bool tls = begins(url, "https://");
    bool good = len <= URL_MAX && (tls ? len > 8 : begins(url, "http://") && is_loopback(url + 7));
    for (size_t i = 0; good && i < len; i++) {
        good = url[i] > ' ' && url[i] < 0x7f && strchr("?#@\\\"", url[i]) == NULL;
    }
    if (!good) {
        return refuse(reading, map->line, "must be an https:// address (http:// of this machine only)", "url");
    }
    log->plain = !tls;
    return arena_text(reading->arena, span_of(url, len), &log->url);
}

static struct fault read_kind(const struct reading *reading, const struct yaml_node *map, struct tlog *log)
{
    const char *kind = "";
    TRY(read_text(reading, map, "kind", true, &kind));
    if (strcmp(kind, "rekor-v1") != 0 && strcmp(kind, "rekor-v2") != 0) {
        return refuse(reading, map->line, "must be rekor-v1 or rekor-v2", "kind");
    }
    log->kind = strcmp(kind, "rekor-v1") == 0 ? TLOG_REKOR_V1 : TLOG_REKOR_V2;
    return arena_printf(reading->arena, &log->destination, "%s:%s", kind, log->url);
}

/* A Rekor v2 calls itself by its address without the scheme. */
static struct fault read_origin(const struct reading *reading, const struct yaml_node *map, struct tlog *log)
{
    TRY(read_text(reading, map, "origin", false, &log->origin));
    if (log->origin == NULL && log->kind == TLOG_REKOR_V2) {
        log->origin = strstr(log->url, "://") + 3;
    }
    return OK;
}

static struct fault read_log(const struct reading *reading, const struct yaml_node *map, struct tlog *log)
{
    static const char *const names[] = { "name",   "kind", "tenants", "url",   "ca_file",
                                         "origin", "keys", "from",    "until", NULL };
    static const char *const window[2] = { "from", "until" };
    TRY(check_members(reading, map, names));
    const char *name = "";
    TRY(read_text(reading, map, "name", true, &name));
    if (strlen(name) > NAME_LEN_MAX || strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(name)) {
        return refuse(reading, map->line, "a log is named by 1 to 63 of a-z, 0-9 and -", name);
    }
    log->name = name;
    TRY(read_url(reading, map, log));
    TRY(read_kind(reading, map, log));
    TRY(read_origin(reading, map, log));
    TRY(read_text(reading, map, "ca_file", false, &log->ca_file));
    TRY(read_tenants(reading, map, log));
    TRY(read_window(reading, map, window, &log->from, &log->until));
    return read_keys(reading, map, log);
}

static bool share_tenant(const struct tlog *a, const struct tlog *b)
{
    if (a->tenant_count == 0 || b->tenant_count == 0) {
        return true;
    }
    for (size_t i = 0; i < a->tenant_count; i++) {
        if (tlog_serves(b, a->tenants[i])) {
            return true;
        }
    }
    return false;
}

/* A destination must lead to one log. */
static struct fault check_unique(const struct reading *reading, unsigned line, const struct transparency *logs)
{
    const struct tlog *last = &logs->logs[logs->count - 1];
    for (size_t i = 0; i + 1 < logs->count; i++) {
        const struct tlog *log = &logs->logs[i];
        if (strcmp(log->name, last->name) == 0) {
            return refuse(reading, line, "two logs of one name", last->name);
        }
        if (strcmp(log->destination, last->destination) == 0 && share_tenant(log, last)) {
            return refuse(reading, line, "a tenant's logs have different addresses; give one log all its keys",
                          last->url);
        }
    }
    return OK;
}

static struct fault read_logs(const struct reading *reading, const struct yaml_node *root, struct transparency *logs)
{
    static const char *const names[] = { "logs", NULL };
    const struct yaml_node *list = yaml_tree_get(root, "logs");
    TRY(check_members(reading, root, names));
    if (list == NULL || list->kind != YAML_KIND_LIST || list->count == 0 || list->count > LOGS_MAX) {
        return refuse(reading, root->line, "a list of 1 to 64 logs is due", "logs");
    }
    TRY(arena_take(reading->arena, list->count, sizeof(*logs->logs), &logs->logs));
    for (const struct yaml_node *node = list->first; node != NULL; node = node->next) {
        struct tlog *log = &logs->logs[logs->count];
        BUG_IF(pthread_mutex_init(&log->lock, NULL) != 0);
        logs->count++;
        TRY(read_log(reading, node, log));
        TRY(check_unique(reading, node->line, logs));
    }
    return OK;
}

struct fault tlogs_read(struct span yaml, const char *file, struct buf *why, struct transparency **ret_transparency)
{
    CLEANUP(arena_freep) struct arena *scratch = NULL;
    CLEANUP(tlogs_freep) struct transparency *made = NULL;
    struct yaml_node *root = NULL;
    TRY(arena_new(ARENA_MAX, &scratch));
    TRY(mem_new(1, sizeof(*made), &made));
    TRY(arena_new(ARENA_MAX, &made->arena));
    TRY(yaml_tree_parse(scratch, yaml, file, why, &root));
    const struct reading reading = { .arena = made->arena, .file = file, .why = why };
    TRY(read_logs(&reading, root, made));
    *ret_transparency = TAKE(made);
    return OK;
}
