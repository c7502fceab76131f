#include "appliance/base/config.h"

#include "appliance/base/alloc.h"
#include "appliance/base/clock.h"
#include "appliance/base/config_rows.h"
#include "appliance/base/file.h"
#include "appliance/base/yaml_tree.h"

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

static void PRINTF(2, 0) add_line(struct load *load, const char *format, va_list args)
{
    load->refused = true;
    if (load->why == NULL) {
        return;
    }
    char line[512];
    (void)vsnprintf(line, sizeof(line), format, args);
    IGNORE(buf_printf(load->why, "%s%s", load->why->len > 0 ? "\n" : "", line));
}

void config_refuse(struct load *load, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add_line(load, format, args);
    va_end(args);
}

void config_refuse_key(struct load *load, const char *key, const char *format, ...)
{
    char what[400];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    bool prefix;
    const struct config_row *row = row_of(key, &prefix);
    const char *source = row != NULL ? load->loaded->source[row - rows] : NULL;
    bool given = source != NULL && strcmp(source, "default") != 0;
    config_refuse(load, "%s%s%s: %s", given ? source : "", given ? ": " : "", key, what);
}

static uint8_t *member_of(struct load *load, const struct config_row *row)
{
    return (uint8_t *)&load->loaded->config + row->offset;
}

bool config_parse_int(const char *text, int64_t *ret_number)
{
    bool minus = text[0] == '-';
    size_t len = strlen(text + minus);
    if (len == 0 || len > 18) {
        return false;
    }
    int64_t number = 0;
    for (const char *at = text + minus; *at != 0; at++) {
        if (*at < '0' || *at > '9') {
            return false;
        }
        number = number * 10 + (*at - '0');
    }
    *ret_number = minus ? -number : number;
    return true;
}

/* 1 and 0 are for variables; in the file they are whole numbers. */
static bool parse_bool(const char *text, bool digits, int64_t *ret_number)
{
    bool yes = strcmp(text, "true") == 0 || (digits && strcmp(text, "1") == 0);
    *ret_number = yes;
    return yes || strcmp(text, "false") == 0 || (digits && strcmp(text, "0") == 0);
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

enum scalar_from { FROM_FILE, FROM_VARIABLE };

/* One scalar; its source is noted already. */
/* A line feed in a value would stand as a line of its own in --check-config and in logs. */
static bool has_control(const char *text)
{
    for (; *text != 0; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f) {
            return true;
        }
    }
    return false;
}

static struct fault set_scalar(struct load *load, const struct config_row *row, const char *text, enum scalar_from from)
{
    int64_t number = 0;
    if (has_control(text)) {
        config_refuse_key(load, row->key, "the value holds a control character");
        return OK;
    }
    switch (row->kind) {
    case CONFIG_KIND_TEXT:
        set_text(load, row, text);
        return OK;
    case CONFIG_KIND_LIST:
        return set_list(load, row, text);
    case CONFIG_KIND_INT:
        if (!config_parse_int(text, &number)) {
            config_refuse_key(load, row->key, "'%.60s' is not a whole number", text);
            return OK;
        }
        break;
    case CONFIG_KIND_BOOL:
        if (!parse_bool(text, from == FROM_VARIABLE, &number)) {
            config_refuse_key(load, row->key, "'%.60s' is neither true nor false", text);
            return OK;
        }
        break;
    case CONFIG_KIND_TIME:
        if (FAULTED(duration_parse(span_text(text), &number))) {
            config_refuse_key(load, row->key, "'%.60s' is not a duration such as 500ms, 10s or 1h30m", text);
            return OK;
        }
        break;
    }
    if (number < row->min || number > row->max) {
        char low[40], high[40];
        config_number_text(row, row->min, low);
        config_number_text(row, row->max, high);
        config_refuse_key(load, row->key, "%.60s is %s %s", text, number < row->min ? "below" : "above",
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

static struct fault set_sequence(struct load *load, const struct config_row *row, const struct yaml_node *node)
{
    struct config_list list = { 0 };
    TRY(arena_take(load->loaded->arena, node->count, sizeof(*list.at), &list.at));
    for (const struct yaml_node *item = node->first; item != NULL; item = item->next) {
        if (item->kind != YAML_KIND_SCALAR) {
            config_refuse(load, "%s:%u: %s: must be a list of plain values", load->file, item->line, row->key);
            return OK;
        }
        TRY(arena_text(load->loaded->arena, span_text(item->text), &list.at[list.count++]));
    }
    memcpy(member_of(load, row), &list, sizeof(list));
    return OK;
}

static struct fault walk(struct load *load, const struct yaml_node *node, const char *prefix);

/* `key:` with nothing behind it. */
static bool is_null(const struct yaml_node *node)
{
    return node->kind == YAML_KIND_SCALAR && !node->quoted &&
           (node->text[0] == 0 || strcmp(node->text, "~") == 0 || strcmp(node->text, "null") == 0);
}

static struct fault take_leaf(struct load *load, const struct config_row *row, const struct yaml_node *node)
{
    if (row->kind == CONFIG_KIND_LIST && node->kind == YAML_KIND_LIST) {
        return set_sequence(load, row, node);
    }
    if (node->kind != YAML_KIND_SCALAR || row->kind == CONFIG_KIND_LIST) {
        config_refuse_key(load, row->key, "must be %s", row->kind == CONFIG_KIND_LIST ? "a list" : "one value");
        return OK;
    }
    if (is_null(node)) {
        config_refuse_key(load, row->key, "has no value; give one or remove the key");
        return OK;
    }
    if (node->quoted && (row->kind == CONFIG_KIND_INT || row->kind == CONFIG_KIND_BOOL)) {
        config_refuse_key(load, row->key, "must be a plain value without quotes");
        return OK;
    }
    return set_scalar(load, row, node->text, FROM_FILE);
}

static struct fault take_node(struct load *load, const struct yaml_node *node, const char *key)
{
    bool prefix = false;
    const struct config_row *row = row_of(key, &prefix);
    if (row == NULL && prefix && (node->kind == YAML_KIND_MAP || is_null(node))) {
        return walk(load, node, key);
    }
    if (row == NULL) {
        config_refuse(load, "%s:%u: %.200s: %s", load->file, node->line, key,
                      prefix ? "must hold further keys" : "no such key (docs/configuration.md lists them)");
        return OK;
    }
    TRY(arena_printf(load->loaded->arena, &load->loaded->source[row - rows], "%s:%u", load->file, node->line));
    return take_leaf(load, row, node);
}

static struct fault walk(struct load *load, const struct yaml_node *node, const char *prefix)
{
    for (const struct yaml_node *child = node->first; child != NULL; child = child->next) {
        const char *key = NULL;
        TRY(arena_printf(load->loaded->arena, &key, "%s%s%s", prefix, prefix[0] != 0 ? "." : "", child->key));
        if (strchr(child->key, '.') != NULL) { /* a second way to write a key would hide that it stands there twice */
            config_refuse(load,
                          "%s:%u: %.200s: write the part before each dot as a key of its own, with the rest below it",
                          load->file, child->line, key);
            continue;
        }
        TRY(take_node(load, child, key));
    }
    return OK;
}

static struct fault read_file(struct load *load, const char *path)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(CONFIG_FILE_MAX);
    struct fault fault = file_read(path, &text);
    if (FAULTED(fault)) {
        config_refuse(load, "%s: cannot be read (%s)", path, fault_row(fault.code)->text);
        return OK;
    }
    const char *slash = strrchr(path, '/');
    load->file = slash != NULL ? slash + 1 : path;
    struct yaml_node *root = NULL;
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    if (FAULTED(yaml_tree_parse(load->loaded->arena, buf_span(&text), load->file, &why, &root))) {
        config_refuse(load, "%.*s", (int)why.len - (why.len > 0 && why.at[why.len - 1] == '\n'), (const char *)why.at);
        return OK;
    }
    if (root->kind != YAML_KIND_MAP) {
        config_refuse(load, "%s:%u: must be a mapping of keys", load->file, root->line);
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
        TRY(set_scalar(load, &rows[i], copy, FROM_VARIABLE));
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

static struct fault read_all(struct load *load, const char *path)
{
    TRY(set_defaults(load));
    if (path != NULL) {
        TRY(read_file(load, path));
    }
    TRY(read_environment(load));
    config_check(load);
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
