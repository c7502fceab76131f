#include "appliance/base/clock.h"
#include "appliance/base/utf8.h"
#include "appliance/base/yaml_tree.h"
#include "appliance/machine/provision_rows.h"

#include <stdio.h>

/* What the machine decides itself, from the rest of the provisioning or because of where it is. */
static const struct {
    const char *key, *instead;
} owned[] = {
    { "data_dir", "the state partition" },
    { "run_dir", "the machine" },
    { "bin_dir", "the image" },
    { "policy_dir", "the image" },
    { "fips.module", "the image" },
    { "http.tls_certificate_file", "tls.mode" },
    { "http.tls_key_file", "tls.mode" },
    { "http.tls_names", "tls.names" },
    { "token.module", "hsm.module" },
    { "token.label", "hsm.label" },
    { "token.slot", "hsm.slot" },
    { "token.login", "hsm.login" },
    { "token.pin_file", "hsm.pin_file" },
    { "token.tokens_file", "hsm" },
    { "protocols.tsa.enabled", "tsa.enabled" },
    { "protocols.tsa.tenant_id", "tenant" },
    { "protocols.tsa.policy_oid", "tsa.policy" },
    { "protocols.tsa.policies", "tsa.policies" },
    { "protocols.tsa.key_algorithm", "tsa.algorithm" },
    { "protocols.tsa.clock.trust_host", "time.trust_host" },
    { "bootstrap.tenant", "tenant" },
    { "bootstrap.tokens", "admin" },
    { "bootstrap.client_env", "the machine" },
    { "bootstrap.client_dir", "the machine" },
};

const struct config_row *provision_setting_row(const char *key)
{
    size_t count = 0;
    const struct config_row *rows = config_rows(&count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].key, key) == 0) {
            return &rows[i];
        }
    }
    return NULL;
}

static const char *owner_of(const char *key)
{
    for (size_t i = 0; i < COUNT_OF(owned); i++) {
        if (strcmp(owned[i].key, key) == 0) {
            return owned[i].instead;
        }
    }
    return NULL;
}

/* Printed in single quotes on one line, so it has to be one. */
static bool one_line(const char *text)
{
    for (const char *at = text; *at != '\0'; at++) {
        if ((uint8_t)*at < 0x20 || *at == 0x7f) {
            return false;
        }
    }
    return strlen(text) <= PROVISION_TEXT_MAX && !FAULTED(utf8_check(span_text(text)));
}

/* The kind alone; ranges are judged with the whole configuration. */
static const char *misfit(const struct config_row *row, const struct yaml_node *node)
{
    int64_t number = 0;
    if (node->kind != YAML_KIND_SCALAR) {
        return "must be one value";
    }
    if (!node->quoted && (node->text[0] == '\0' || strcmp(node->text, "~") == 0 || strcmp(node->text, "null") == 0)) {
        return "has no value; give one or remove the key";
    }
    if (!one_line(node->text)) {
        return "must be one line of at most 255 bytes of text, without control characters";
    }
    if (row->kind == CONFIG_KIND_INT && (node->quoted || !config_parse_int(node->text, &number))) {
        return "must be a whole number without quotes";
    }
    if (row->kind == CONFIG_KIND_BOOL &&
        (node->quoted || (strcmp(node->text, "true") != 0 && strcmp(node->text, "false") != 0))) {
        return "must be true or false, without quotes";
    }
    if (row->kind == CONFIG_KIND_TIME && FAULTED(duration_parse(span_text(node->text), &number))) {
        return "must be a duration such as 500ms, 10s or 1h30m";
    }
    return NULL;
}

static struct fault take_leaf(struct provision_load *load, const struct config_row *row, const struct yaml_node *node,
                              struct provision *provision)
{
    bool list = row->kind == CONFIG_KIND_LIST;
    struct provision_texts values = { 0 };
    if (provision->settings.count == PROVISION_SETTINGS_MAX) {
        provision_refuse(load, node->line, "settings", "more than %d keys", PROVISION_SETTINGS_MAX);
        return OK;
    }
    if (list && (node->kind != YAML_KIND_LIST || node->count == 0)) {
        provision_refuse(load, node->line, row->key, "must be a list of values");
        return OK;
    }
    TRY(arena_take(load->op->arena, list ? node->count : 1, sizeof(*values.at), &values.at));
    for (const struct yaml_node *item = list ? node->first : node; item != NULL; item = list ? item->next : NULL) {
        const char *wrong = misfit(row, item);
        if (wrong != NULL) {
            provision_refuse(load, item->line, row->key, "%s", wrong);
            return OK;
        }
        values.at[values.count++] = item->text;
    }
    provision->settings.at[provision->settings.count++] = (struct provision_setting){ row->key, values };
    return OK;
}

static struct fault walk(struct provision_load *load, const struct yaml_node *map, const char *prefix, unsigned depth,
                         struct provision *provision)
{
    for (const struct yaml_node *node = map->first; node != NULL; node = node->next) {
        char key[PROVISION_KEY_MAX];
        (void)snprintf(key, sizeof(key), "%s%s%s", prefix, prefix[0] != '\0' ? "." : "", node->key);
        const struct config_row *row = strchr(node->key, '.') == NULL ? provision_setting_row(key) : NULL;
        const char *owner = owner_of(key);
        if (owner != NULL) {
            provision_refuse(load, node->line, key, "is decided by %s; remove it from settings", owner);
        } else if (row != NULL) {
            TRY(take_leaf(load, row, node, provision));
        } else if (node->kind == YAML_KIND_MAP && depth < PROVISION_DEPTH_MAX && strchr(node->key, '.') == NULL) {
            TRY(walk(load, node, key, depth + 1, provision));
        } else {
            provision_refuse(load, node->line, key,
                             "no such setting (docs/configuration.md lists them; each part of a key stands in a line "
                             "of its own)");
        }
    }
    return OK;
}

struct fault provision_take_settings(struct provision_load *load, const struct yaml_node *node,
                                     struct provision *provision)
{
    if (node->kind != YAML_KIND_MAP) {
        provision_refuse(load, node->line, "settings", "must hold keys of docs/configuration.md");
        return OK;
    }
    TRY(arena_take(load->op->arena, PROVISION_SETTINGS_MAX, sizeof(*provision->settings.at), &provision->settings.at));
    return walk(load, node, "", 1, provision);
}

void provision_emit_settings(const struct provision *provision, struct emit *emit)
{
    for (size_t i = 0; i < provision->settings.count; i++) {
        const struct provision_setting *setting = &provision->settings.at[i];
        const struct config_row *row = provision_setting_row(setting->key);
        if (row->kind == CONFIG_KIND_LIST) {
            emit_list(emit, setting->key, setting->values);
        } else if (row->kind == CONFIG_KIND_INT || row->kind == CONFIG_KIND_BOOL) {
            emit_plain(emit, setting->key, setting->values.at[0]);
        } else {
            emit_text(emit, setting->key, setting->values.at[0]);
        }
    }
}
