#include "appliance/base/utf8.h"
#include "appliance/base/yaml_tree.h"
#include "appliance/machine/provision_rows.h"

#include <stdarg.h>
#include <stdio.h>

#define FALLBACK_SUBJECT "admin"
#define FALLBACK_TTL     "720h"

static const char *const tls_words[] = { "self", "csr", NULL };
static const char *const hsm_words[] = { "embedded", "module", NULL };
static const char *const seal_words[] = { "auto", "tpm2", "pin", "none", NULL };

#define ROW(key_, KIND, member, ...) \
    { .key = key_, .kind = PROVISION_KIND_##KIND, .offset = offsetof(struct provision, member), ##__VA_ARGS__ }
#define KEPT .kept = true
/* Each section's rows stand together, in the order in which they are printed. */
static const struct provision_row rows[] = {
    ROW("hostname", TEXT, hostname, KEPT),
    ROW("tenant", TEXT, tenant, KEPT),
    ROW("network.interface", TEXT, network.interface, .fallback = "auto", KEPT),
    ROW("network.address", TEXTS, network.addresses, KEPT),
    ROW("network.gateway", TEXTS, network.gateways, KEPT),
    ROW("network.dns", TEXTS, network.dns, KEPT),
    ROW("time.servers", TEXTS, time.servers, KEPT),
    ROW("time.trust_host", BOOL, time.trust_host, KEPT),
    ROW("admin.subject", TEXT, admin.subject, .fallback = FALLBACK_SUBJECT, KEPT),
    ROW("admin.ttl", TEXT, admin.ttl, .fallback = FALLBACK_TTL, KEPT),
    ROW("tls.mode", WORD, tls.mode, .words = tls_words, KEPT),
    ROW("tls.names", TEXTS, tls.names, KEPT),
    ROW("hsm.kind", WORD, hsm.kind, .words = hsm_words, KEPT),
    ROW("hsm.module", TEXT, hsm.module, KEPT),
    ROW("hsm.label", TEXT, hsm.label, KEPT),
    ROW("hsm.slot", TEXT, hsm.slot, KEPT),
    ROW("hsm.login", TEXT, hsm.login, .fallback = "user", KEPT),
    ROW("hsm.pin_file", TEXT, hsm.pin_file),
    ROW("tsa.enabled", BOOL, tsa.enabled, .fallback = "true", KEPT),
    ROW("tsa.policy", TEXT, tsa.policy, KEPT),
    ROW("tsa.policies", TEXTS, tsa.policies, KEPT),
    ROW("tsa.algorithm", TEXT, tsa.algorithm, KEPT),
    ROW("state.seal", WORD, state.seal, .words = seal_words, KEPT),
    ROW("state.pin_file", TEXT, state.pin_file),
    ROW("extensions.keys", PEM, extension_keys, KEPT),
};
#undef ROW
static_assert(COUNT_OF(rows) <= PROVISION_ROWS_MAX);
static_assert(sizeof(enum provision_tls) == sizeof(int) && sizeof(enum provision_hsm) == sizeof(int) &&
              sizeof(enum provision_seal) == sizeof(int)); /* a row of words is an int */

const struct provision_row *provision_rows(size_t *ret_count)
{
    *ret_count = COUNT_OF(rows);
    return rows;
}

const char *provision_seal_text(enum provision_seal seal)
{
    return seal_words[seal];
}

static size_t index_of(const char *key)
{
    size_t i = 0;
    while (i < COUNT_OF(rows) && strcmp(rows[i].key, key) != 0) {
        i++;
    }
    return i;
}

/* ---- refusing ---- */

static void PRINTF(4, 0)
    refuse(struct provision_load *load, unsigned line, const char *key, const char *format, va_list args)
{
    char what[400], shown[PROVISION_KEY_MAX + 1], at[16] = "";
    (void)vsnprintf(what, sizeof(what), format, args);
    (void)snprintf(shown, sizeof(shown), "%s", key);
    utf8_repair(shown);
    utf8_repair(what);
    if (line > 0) {
        (void)snprintf(at, sizeof(at), ":%u", line);
    }
    if (load->refusals++ == 0) {
        IGNORE(op_fail(load->op, FAULT(CONFIG), "%s%s: %s: %s", load->file, at, shown, what));
    }
    if (load->why != NULL) {
        IGNORE(buf_printf(load->why, "%s%s: %s: %s\n", load->file, at, shown, what));
    }
}

void provision_refuse(struct provision_load *load, unsigned line, const char *key, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    refuse(load, line, key, format, args);
    va_end(args);
}

void provision_refuse_key(struct provision_load *load, const char *key, const char *format, ...)
{
    size_t row = index_of(key);
    va_list args;
    va_start(args, format);
    refuse(load, row < COUNT_OF(rows) ? load->lines[row] : 0, key, format, args);
    va_end(args);
}

/* ---- values ---- */

static void *member_of(struct provision *provision, const struct provision_row *row)
{
    return (uint8_t *)provision + row->offset;
}

static bool is_null(const struct yaml_node *node)
{
    return node->kind == YAML_KIND_SCALAR && !node->quoted &&
           (node->text[0] == '\0' || strcmp(node->text, "~") == 0 || strcmp(node->text, "null") == 0);
}

/* What goes on, to terminals and into files of lines: one line, nothing that steers a terminal, no blanks around. */
static bool text_fits(const char *text, size_t most)
{
    size_t len = strlen(text);
    if (len == 0 || len > most || text[0] == ' ' || text[len - 1] == ' ' || FAULTED(utf8_check(span_text(text)))) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        uint8_t c = (uint8_t)text[i];
        if (c < 0x20 || c == 0x7f || (c == 0xc2 && (uint8_t)text[i + 1] < 0xa0)) { /* C1, too */
            return false;
        }
    }
    return true;
}

static bool take_scalar(struct provision_load *load, const struct provision_row *row, const struct yaml_node *node,
                        const char **ret_text)
{
    bool lines = row->kind == PROVISION_KIND_PEM;
    if (node->kind != YAML_KIND_SCALAR || is_null(node)) {
        provision_refuse(load, node->line, row->key,
                         is_null(node) ? "has no value; give one or remove the key" : "must be one value");
        return false;
    }
    if (lines ? strlen(node->text) > PROVISION_PEM_MAX : !text_fits(node->text, PROVISION_TEXT_MAX)) {
        provision_refuse(load, node->line, row->key,
                         "must be one line of 1 to %d bytes of text, without control characters and outer blanks",
                         PROVISION_TEXT_MAX);
        return false;
    }
    *ret_text = node->text;
    return true;
}

static struct fault take_list(struct provision_load *load, const struct provision_row *row,
                              const struct yaml_node *node, struct provision_texts *ret_texts)
{
    bool list = node->kind == YAML_KIND_LIST;
    size_t count = list ? node->count : 1;
    struct provision_texts texts = { 0 };
    if (count > PROVISION_LIST_MAX) {
        provision_refuse(load, node->line, row->key, "at most %d values", PROVISION_LIST_MAX);
        return OK;
    }
    TRY(arena_take(load->op->arena, count, sizeof(*texts.at), &texts.at));
    for (const struct yaml_node *item = list ? node->first : node; item != NULL; item = list ? item->next : NULL) {
        if (take_scalar(load, row, item, &texts.at[texts.count])) {
            texts.count++;
        }
    }
    *ret_texts = texts;
    return OK;
}

static void take_word(struct provision_load *load, const struct provision_row *row, const char *text, int *ret_word)
{
    char list[128] = "";
    for (int i = 0; row->words[i] != NULL; i++) {
        if (strcmp(row->words[i], text) == 0) {
            *ret_word = i;
            return;
        }
        size_t len = strlen(list);
        (void)snprintf(list + len, sizeof(list) - len, "%s%s", i > 0 ? ", " : "", row->words[i]);
    }
    provision_refuse_key(load, row->key, "'%.40s' must be one of %s", text, list);
}

static void take_bool(struct provision_load *load, const struct provision_row *row, const struct yaml_node *node,
                      bool *ret_flag)
{
    bool yes = strcmp(node->text, "true") == 0;
    if (node->quoted || (!yes && strcmp(node->text, "false") != 0)) {
        provision_refuse_key(load, row->key, "'%.40s' must be true or false, without quotes", node->text);
        return;
    }
    *ret_flag = yes;
}

static struct fault take_value(struct provision_load *load, size_t index, const struct yaml_node *node,
                               struct provision *provision)
{
    const struct provision_row *row = &rows[index];
    const char *text = NULL;
    load->lines[index] = node->line;
    if (row->kind == PROVISION_KIND_TEXTS || row->kind == PROVISION_KIND_PEM) {
        return take_list(load, row, node, member_of(provision, row));
    }
    if (!take_scalar(load, row, node, &text)) {
        return OK;
    }
    if (row->kind == PROVISION_KIND_TEXT) {
        memcpy(member_of(provision, row), &text, sizeof(text));
    } else if (row->kind == PROVISION_KIND_WORD) {
        take_word(load, row, text, member_of(provision, row));
    } else {
        take_bool(load, row, node, member_of(provision, row));
    }
    return OK;
}

/* ---- the tree ---- */

static bool is_section(const char *key)
{
    size_t len = strlen(key);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (strncmp(rows[i].key, key, len) == 0 && rows[i].key[len] == '.') {
            return true;
        }
    }
    return false;
}

static struct fault take_section(struct provision_load *load, const struct yaml_node *section,
                                 struct provision *provision)
{
    if (section->kind != YAML_KIND_MAP) {
        provision_refuse(load, section->line, section->key, "must hold further keys");
        return OK;
    }
    for (const struct yaml_node *node = section->first; node != NULL; node = node->next) {
        char key[PROVISION_KEY_MAX];
        (void)snprintf(key, sizeof(key), "%s.%s", section->key, node->key);
        size_t row = index_of(key);
        if (row == COUNT_OF(rows)) {
            provision_refuse(load, node->line, key, "no such key (docs/first-boot.md lists them)");
        } else {
            TRY(take_value(load, row, node, provision));
        }
    }
    return OK;
}

static struct fault take_root(struct provision_load *load, const struct yaml_node *root, struct provision *provision)
{
    if (root->kind != YAML_KIND_MAP) {
        provision_refuse(load, root->line, "file", "must be a mapping of keys");
        return OK;
    }
    for (const struct yaml_node *node = root->first; node != NULL; node = node->next) {
        size_t row = index_of(node->key);
        if (strcmp(node->key, "settings") == 0) {
            load->settings_line = node->line;
            TRY(provision_take_settings(load, node, provision));
        } else if (row < COUNT_OF(rows) && strchr(node->key, '.') == NULL) {
            TRY(take_value(load, row, node, provision));
        } else if (is_section(node->key)) {
            TRY(take_section(load, node, provision));
        } else {
            provision_refuse(load, node->line, node->key, "no such key (docs/first-boot.md lists them)");
        }
    }
    return OK;
}

static void set_fallbacks(struct provision *provision)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *text = rows[i].fallback != NULL ? rows[i].fallback : "";
        if (rows[i].kind == PROVISION_KIND_TEXT) {
            memcpy(member_of(provision, &rows[i]), &text, sizeof(text));
        } else if (rows[i].kind == PROVISION_KIND_BOOL) {
            bool flag = strcmp(text, "true") == 0;
            memcpy(member_of(provision, &rows[i]), &flag, sizeof(flag));
        }
    }
}

struct fault provision_parse(struct op *op, struct span text, const char *file, struct buf *why,
                             struct provision *ret_provision)
{
    struct provision_load load = { .op = op, .file = file, .why = why };
    struct provision provision = { 0 };
    struct yaml_node *root = NULL;
    CLEANUP(buf_free) struct buf wrong = BUF_INIT(4096);
    struct fault parsed = yaml_tree_parse(op->arena, text, file, &wrong, &root);
    if (parsed.code == FAULT_CONFIG) {
        IGNORE(why != NULL ? buf_put(why, buf_span(&wrong)) : OK);
        return op_fail(op, parsed, "%.*s", (int)wrong.len, (const char *)wrong.at);
    }
    TRY(parsed);
    set_fallbacks(&provision);
    TRY(take_root(&load, root, &provision));
    if (load.refusals == 0) {
        provision_check(&load, &provision);
    }
    REQUIRE(load.refusals == 0, CONFIG);
    *ret_provision = provision;
    return OK;
}

struct fault provision_print(const struct provision *provision, struct buf *out)
{
    static const char *const flags[] = { "false", "true" };
    struct emit emit = { .count = 0 }, settings = { .count = 0 };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const uint8_t *member = (const uint8_t *)provision + rows[i].offset;
        const char *text = NULL;
        struct provision_texts texts = { 0 };
        int word = 0;
        bool flag = false;
        switch (rows[i].kept ? (int)rows[i].kind : -1) {
        case PROVISION_KIND_TEXT:
            memcpy(&text, member, sizeof(text));
            if (text[0] != '\0') {
                emit_text(&emit, rows[i].key, text);
            }
            break;
        case PROVISION_KIND_TEXTS:
        case PROVISION_KIND_PEM:
            memcpy(&texts, member, sizeof(texts));
            (rows[i].kind == PROVISION_KIND_PEM ? emit_blocks : emit_list)(&emit, rows[i].key, texts);
            break;
        case PROVISION_KIND_WORD:
            memcpy(&word, member, sizeof(word));
            emit_plain(&emit, rows[i].key, rows[i].words[word]);
            break;
        case PROVISION_KIND_BOOL:
            memcpy(&flag, member, sizeof(flag));
            emit_plain(&emit, rows[i].key, flags[flag]);
            break;
        default:
            break;
        }
    }
    TRY(emit_print(&emit, 0, out));
    REQUIRE(provision->settings.count <= PROVISION_SETTINGS_MAX, TOO_LARGE);
    provision_emit_settings(provision, &settings);
    TRY(settings.count > 0 ? buf_text(out, "settings:\n") : OK);
    return emit_print(&settings, 2, out);
}
