#include "appliance/base/config.h"

#include "appliance/base/alloc.h"
#include "appliance/base/clock.h"
#include "appliance/base/config_rows.h"
#include "appliance/base/file.h"
#include "appliance/base/log.h"
#include "appliance/base/yaml_tree.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#define CONFIG_FILE_MAX ((size_t)256 << 10)

static const struct config_row rows[] = {
#define ROW(member, key, env, KIND, fallback_text, fallback_number, min, max, doc) \
    { key, env, CONFIG_KIND_##KIND, offsetof(struct config, member), fallback_text, fallback_number, min, max, doc },
#define CONFIG_TEXT(member, key, env, fallback, doc)          ROW(member, key, env, TEXT, fallback, 0, 0, 0, doc)
#define CONFIG_INT(member, key, env, fallback, min, max, doc) ROW(member, key, env, INT, NULL, fallback, min, max, doc)
#define CONFIG_BOOL(member, key, env, fallback, doc)          ROW(member, key, env, BOOL, NULL, fallback, 0, 1, doc)
#define CONFIG_TIME(member, key, env, fallback, min, max, doc) \
    ROW(member, key, env, TIME, NULL, fallback, min, max, doc)
#define CONFIG_LIST(member, key, env, fallback, doc) ROW(member, key, env, LIST, fallback, 0, 0, 0, doc)
#include "appliance/base/config.def"
#undef CONFIG_TEXT
#undef CONFIG_INT
#undef CONFIG_BOOL
#undef CONFIG_TIME
#undef CONFIG_LIST
#undef ROW
};
static_assert(COUNT_OF(rows) <= CONFIG_ROWS_MAX);

const struct config_row *config_rows(size_t *ret_count)
{
    *ret_count = COUNT_OF(rows);
    return rows;
}

/* What reading goes on with: every refusal is noted, so that one run shows all of them. */
struct load {
    struct loaded *loaded;
    const char *file;
    struct buf *why;
    bool refused;
};

static void PRINTF(2, 3) refuse(struct load *load, const char *format, ...)
{
    load->refused = true;
    if (load->why == NULL) {
        return;
    }
    char line[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    IGNORE(buf_printf(load->why, "%s%s", load->why->len > 0 ? "\n" : "", line));
}

static uint8_t *member_of(struct load *load, const struct config_row *row)
{
    return (uint8_t *)&load->loaded->config + row->offset;
}

static bool parse_int(const char *text, int64_t *ret_number)
{
    char *end = NULL;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != 0 || text[0] == ' ' || text[0] == '+') {
        return false;
    }
    *ret_number = number;
    return true;
}

static bool parse_bool(const char *text, int64_t *ret_number)
{
    if (strcmp(text, "true") == 0 || strcmp(text, "1") == 0) {
        *ret_number = 1;
        return true;
    }
    *ret_number = 0;
    return strcmp(text, "false") == 0 || strcmp(text, "0") == 0;
}

static void set_number(struct load *load, const struct config_row *row, int64_t number)
{
    if (row->kind == CONFIG_KIND_BOOL) {
        bool flag = number != 0;
        memcpy(member_of(load, row), &flag, sizeof(flag));
        return;
    }
    memcpy(member_of(load, row), &number, sizeof(number));
}

static void set_text(struct load *load, const struct config_row *row, const char *text)
{
    memcpy(member_of(load, row), &text, sizeof(text));
}

/* "a,b" as a list of two; "" as none. */
static struct fault set_list(struct load *load, const struct config_row *row, const char *text)
{
    struct config_list list = { 0 };
    size_t commas = 0;
    for (const char *at = text; *at != 0; at++) {
        commas += *at == ',';
    }
    TRY(arena_take(load->loaded->arena, commas + 1, sizeof(*list.at), &list.at));
    while (*text != 0) {
        size_t len = strcspn(text, ",");
        if (len > 0) {
            TRY(arena_text(load->loaded->arena, span_of(text, len), &list.at[list.count++]));
        }
        text += len + (text[len] == ',');
    }
    memcpy(member_of(load, row), &list, sizeof(list));
    return OK;
}

/* One scalar from `where` ("svc.yaml:12" or a variable's name). */
static struct fault set_scalar(struct load *load, const struct config_row *row, const char *where, const char *text)
{
    int64_t number = 0;
    switch (row->kind) {
    case CONFIG_KIND_TEXT:
        set_text(load, row, text);
        return OK;
    case CONFIG_KIND_LIST:
        return set_list(load, row, text);
    case CONFIG_KIND_INT:
        if (!parse_int(text, &number)) {
            refuse(load, "%s: %s: '%.60s' is not a whole number", where, row->key, text);
            return OK;
        }
        break;
    case CONFIG_KIND_BOOL:
        if (!parse_bool(text, &number)) {
            refuse(load, "%s: %s: '%.60s' is neither true nor false", where, row->key, text);
            return OK;
        }
        break;
    case CONFIG_KIND_TIME:
        if (FAULTED(duration_parse(span_text(text), &number))) {
            refuse(load, "%s: %s: '%.60s' is not a duration such as 500ms, 10s or 1h30m", where, row->key, text);
            return OK;
        }
        break;
    }
    if (number < row->min || number > row->max) {
        char low[40], high[40];
        config_number_text(row, row->min, low);
        config_number_text(row, row->max, high);
        refuse(load, "%s: %s: %.60s is %s %s", where, row->key, text, number < row->min ? "below" : "above",
               number < row->min ? low : high);
        return OK;
    }
    set_number(load, row, number);
    return OK;
}

static struct fault set_defaults(struct load *load)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (rows[i].kind == CONFIG_KIND_TEXT) {
            set_text(load, &rows[i], rows[i].fallback_text);
        } else if (rows[i].kind == CONFIG_KIND_LIST) {
            TRY(set_list(load, &rows[i], rows[i].fallback_text));
        } else {
            set_number(load, &rows[i], rows[i].fallback_number);
        }
        load->loaded->source[i] = "default";
    }
    return OK;
}

/* The row of a dotted key; *ret_prefix when the key is a proper prefix of some row's. */
static const struct config_row *row_of(const char *key, bool *ret_prefix)
{
    *ret_prefix = false;
    size_t len = strlen(key);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (strcmp(rows[i].key, key) == 0) {
            return &rows[i];
        }
        *ret_prefix |= strncmp(rows[i].key, key, len) == 0 && rows[i].key[len] == '.';
    }
    return NULL;
}

static struct fault set_sequence(struct load *load, const struct config_row *row, const struct yaml_node *node)
{
    struct config_list list = { 0 };
    TRY(arena_take(load->loaded->arena, node->count, sizeof(*list.at), &list.at));
    for (const struct yaml_node *item = node->first; item != NULL; item = item->next) {
        if (item->kind != YAML_KIND_SCALAR) {
            refuse(load, "%s:%u: %s: must be a list of plain values", load->file, item->line, row->key);
            return OK;
        }
        TRY(arena_text(load->loaded->arena, span_text(item->text), &list.at[list.count++]));
    }
    memcpy(member_of(load, row), &list, sizeof(list));
    return OK;
}

static struct fault walk(struct load *load, const struct yaml_node *node, const char *prefix);

static struct fault take_node(struct load *load, const struct yaml_node *node, const char *key)
{
    bool prefix = false;
    const struct config_row *row = row_of(key, &prefix);
    if (row == NULL && prefix && node->kind == YAML_KIND_MAP) {
        return walk(load, node, key);
    }
    if (row == NULL) {
        refuse(load, "%s:%u: %s: %s", load->file, node->line, key,
               prefix ? "must hold further keys" : "no such key (docs/configuration.md lists them)");
        return OK;
    }
    const char *where = NULL;
    TRY(arena_printf(load->loaded->arena, &where, "%s:%u", load->file, node->line));
    load->loaded->source[row - rows] = where;
    if (node->kind == YAML_KIND_SCALAR) {
        return set_scalar(load, row, where, node->text);
    }
    if (row->kind == CONFIG_KIND_LIST && node->kind == YAML_KIND_LIST) {
        return set_sequence(load, row, node);
    }
    refuse(load, "%s: %s: must be one value", where, row->key);
    return OK;
}

static struct fault walk(struct load *load, const struct yaml_node *node, const char *prefix)
{
    for (const struct yaml_node *child = node->first; child != NULL; child = child->next) {
        const char *key = NULL;
        TRY(arena_printf(load->loaded->arena, &key, "%s%s%s", prefix, prefix[0] != 0 ? "." : "", child->key));
        TRY(take_node(load, child, key));
    }
    return OK;
}

static struct fault read_file(struct load *load, const char *path)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(CONFIG_FILE_MAX);
    struct fault fault = file_read(path, &text);
    if (FAULTED(fault)) {
        refuse(load, "%s: cannot be read (%s)", path, fault_row(fault.code)->text);
        return OK;
    }
    const char *slash = strrchr(path, '/');
    load->file = slash != NULL ? slash + 1 : path;
    struct yaml_node *root = NULL;
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    if (FAULTED(yaml_tree_parse(load->loaded->arena, buf_span(&text), load->file, &why, &root))) {
        refuse(load, "%.*s", (int)why.len - (why.len > 0 && why.at[why.len - 1] == '\n'), (const char *)why.at);
        return OK;
    }
    if (root == NULL) { /* an empty file is the defaults */
        return OK;
    }
    if (root->kind != YAML_KIND_MAP) {
        refuse(load, "%s:%u: must be a mapping of keys", load->file, root->line);
        return OK;
    }
    return walk(load, root, "");
}

static struct fault read_environment(struct load *load)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *text = getenv(rows[i].env);
        if (text == NULL) {
            continue;
        }
        const char *copy = NULL;
        TRY(arena_text(load->loaded->arena, span_text(text), &copy));
        load->loaded->source[i] = rows[i].env;
        TRY(set_scalar(load, &rows[i], rows[i].env, copy));
    }
    return OK;
}

static struct fault fill(struct load *load, const char **path, const char *folder, const char *rest)
{
    return (*path)[0] != 0 ? OK : arena_printf(load->loaded->arena, path, "%s%s", folder, rest);
}

static struct fault fill_paths(struct load *load)
{
    struct config *config = &load->loaded->config;
    TRY(fill(load, &config->signer_socket, config->run_dir, "/signer/signer.sock"));
    TRY(fill(load, &config->signer_journal, config->data_dir, "/signer"));
    TRY(fill(load, &config->client_env, config->data_dir, "/client.env"));
    TRY(fill(load, &config->http_base_url, "https://", config->http_listen));
    if (config->token_module[0] == 0) {
        TRY(fill(load, &config->token_pin_file, config->data_dir, "/signer/pin"));
    }
    if (config->nats_url[0] == 0) {
        TRY(fill(load, &config->nats_credentials, config->data_dir, "/nats-client/credentials"));
    }
    return OK;
}

static void check_listen(struct load *load, const char *key, const char *text, bool may_be_empty)
{
    if (text[0] == 0 && may_be_empty) {
        return;
    }
    const char *colon = strrchr(text, ':');
    int64_t port = 0;
    if (colon == NULL || colon == text || !parse_int(colon + 1, &port) || port < 1 || port > 65535) {
        refuse(load, "%s: '%.80s' must be ADDRESS:PORT, for example 127.0.0.1:8443", key, text);
    }
}

/* Rules between keys, and values whose words are closed. */
static void check_rules(struct load *load)
{
    const struct config *config = &load->loaded->config;
    check_listen(load, "http.listen", config->http_listen, false);
    check_listen(load, "http.plain_listen", config->http_plain_listen, true);
    check_listen(load, "http.probe_listen", config->http_probe_listen, true);
    enum log_level level;
    enum log_format format;
    if (FAULTED(log_level_parse(config->log_level, &level))) {
        refuse(load, "log.level: '%.40s' must be debug, info, warn or error", config->log_level);
    }
    if (FAULTED(log_format_parse(config->log_format, &format))) {
        refuse(load, "log.format: '%.40s' must be json or text", config->log_format);
    }
    if ((config->http_tls_certificate[0] == 0) != (config->http_tls_key[0] == 0)) {
        refuse(load, "http.tls_certificate_file and http.tls_key_file: give both or none");
    }
    if (config->nats_allow_unsynced && config->nats_replicas < 3) {
        refuse(load, "nats.allow_unsynced: needs nats.replicas of 3 or more, so that another server has what one lost");
    }
    if (config->data_dir[0] != '/' || config->run_dir[0] != '/') {
        refuse(load, "data_dir and run_dir: must be absolute paths");
    }
    if (config->token_module[0] != 0 && config->token_pin_file[0] == 0) {
        refuse(load, "token.pin_file: is needed with token.module");
    }
    if (FAULTED(tenant_id_parse(span_text(config->first_tenant), &(struct tenant_id){ 0 })) ||
        FAULTED(tenant_id_parse(span_text(config->tsa_tenant), &(struct tenant_id){ 0 }))) {
        refuse(load,
               "bootstrap.tenant and protocols.tsa.tenant_id: 1 to 63 of a-z, 0-9 and '-', not starting with '-'");
    }
}

static struct fault read_all(struct load *load, const char *path)
{
    TRY(set_defaults(load));
    if (path != NULL) {
        TRY(read_file(load, path));
    }
    TRY(read_environment(load));
    if (!load->refused) {
        check_rules(load);
    }
    REQUIRE(!load->refused, CONFIG);
    return fill_paths(load);
}

struct fault config_load(const char *path, struct buf *why, struct config **ret_config)
{
    struct loaded *loaded = NULL;
    TRY(mem_new(1, sizeof(*loaded), &loaded));
    struct load load = { .loaded = loaded, .file = "", .why = why };
    struct fault fault = arena_new((size_t)4 << 20, &loaded->arena);
    if (!FAULTED(fault)) {
        fault = read_all(&load, path);
    }
    if (FAULTED(fault)) {
        config_free(&loaded->config);
        return fault;
    }
    *ret_config = &loaded->config;
    return OK;
}

void config_free(struct config *config)
{
    if (config == NULL) {
        return;
    }
    struct loaded *loaded = (struct loaded *)config; /* config is its first member */
    arena_free(loaded->arena);
    mem_free(loaded);
}
