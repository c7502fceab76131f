#include "api/tsa/tenants.h"

#include "appliance/base/alloc.h"
#include "appliance/base/file.h"
#include "appliance/base/yaml_tree.h"

#include <stdarg.h>
#include <stdio.h>

#define FILE_MAX_BYTES ((size_t)1 << 20)
#define ARENA_MAX      ((size_t)16 << 20)
#define IN_FLIGHT      16
#define LIST_MAX       64

struct tsa_tenants {
    struct arena *arena;
    struct tsa_settings at[1 + TSA_TENANTS_MAX];
    size_t count, items; /* items: of the file, disabled ones included */
    struct tenant_id seen[TSA_TENANTS_MAX];
};

struct reading {
    struct tsa_tenants *tenants;
    const struct config *config;
    const char *file; /* its last name */
    struct buf *why;
};
/* An item while it is read. */
struct item {
    struct config *config;
    struct tsa_settings settings;
    bool enabled;
};

#define refuse_at(reading, line, ...) (refuse_note((reading), (line), __VA_ARGS__), FAULT(CONFIG))
static void refuse_note(const struct reading *reading, unsigned line, const char *format, ...) PRINTF(3, 4);
static void refuse_note(const struct reading *reading, unsigned line, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    IGNORE(buf_printf(reading->why, "%s:%u: %s", reading->file, line, text));
}

/* ---- values ---- */

static struct fault take_text(struct reading *reading, const struct yaml_node *node, const char **into)
{
    if (node->kind != YAML_KIND_SCALAR || node->text[0] == '\0' || strlen(node->text) > 255) {
        return refuse_at(reading, node->line, "%s: must be a text of 1 to 255 bytes", node->key);
    }
    return arena_text(reading->tenants->arena, span_text(node->text), into);
}

static struct fault take_list(struct reading *reading, const struct yaml_node *node, struct config_list *into)
{
    const char **texts = NULL;
    size_t count = 0;
    if (node->kind != YAML_KIND_LIST || node->count > LIST_MAX) {
        return refuse_at(reading, node->line, "%s: must be a list of at most %d", node->key, LIST_MAX);
    }
    TRY(arena_take(reading->tenants->arena, node->count + 1, sizeof(*texts), &texts));
    for (const struct yaml_node *each = node->first; each != NULL; each = each->next) {
        if (each->kind != YAML_KIND_SCALAR) {
            return refuse_at(reading, each->line, "%s: must be a list of texts", node->key);
        }
        TRY(arena_text(reading->tenants->arena, span_text(each->text), &texts[count++]));
    }
    *into = (struct config_list){ .at = texts, .count = count };
    return OK;
}

static struct fault take_number(struct reading *reading, const struct yaml_node *node, int64_t least, int64_t most,
                                int64_t *into)
{
    int64_t value = 0;
    size_t len = node->kind == YAML_KIND_SCALAR ? strlen(node->text) : 0;
    bool good = len >= 1 && len <= 9 && strspn(node->text, "0123456789") == len;
    for (size_t i = 0; good && i < len; i++) {
        value = value * 10 + (node->text[i] - '0');
    }
    if (!good || value < least || value > most) {
        return refuse_at(reading, node->line, "%s: must be a number from %lld to %lld", node->key, (long long)least,
                         (long long)most);
    }
    *into = value;
    return OK;
}

static struct fault take_flag(struct reading *reading, const struct yaml_node *node, bool *into)
{
    bool yes = node->kind == YAML_KIND_SCALAR && strcmp(node->text, "true") == 0;
    if (!yes && (node->kind != YAML_KIND_SCALAR || strcmp(node->text, "false") != 0)) {
        return refuse_at(reading, node->line, "%s: must be true or false", node->key);
    }
    *into = yes;
    return OK;
}

/* ---- what both ways of configuring share ---- */

static struct fault set_algorithm(const char *text, struct tsa_settings *settings)
{
    enum key_algorithm wanted = KEY_ALGORITHM_NONE;
    REQUIRE(!FAULTED(key_algorithm_parse(span_text(text), &wanted)), CONFIG);
    REQUIRE(wanted == KEY_ALGORITHM_EC_P256 || wanted == KEY_ALGORITHM_EC_P384 || wanted == KEY_ALGORITHM_RSA_3072,
            CONFIG);
    settings->algorithm = wanted;
    return OK;
}

static struct fault set_issuance(const char *text, struct tsa_settings *settings)
{
    settings->external = strcmp(text, "external") == 0;
    REQUIRE(settings->external || strcmp(text, "own") == 0, CONFIG);
    return OK;
}

/* ---- one item of the file ---- */

static struct fault take_tenant(struct reading *reading, const struct yaml_node *node, struct item *item)
{
    struct tsa_tenants *tenants = reading->tenants;
    const char *text = NULL;
    TRY(take_text(reading, node, &text));
    if (FAULTED(tenant_id_parse(span_text(text), &item->settings.tenant))) {
        return refuse_at(reading, node->line, "tenant: '%.64s' is no tenant id", text);
    }
    if (tenant_id_equal(item->settings.tenant, tenants->at[0].tenant)) {
        return refuse_at(reading, node->line,
                         "tenant: '%.64s' is the tenant of protocols.tsa.tenant_id, whose settings are protocols.tsa.*",
                         text);
    }
    for (size_t i = 0; i < tenants->items; i++) {
        if (tenant_id_equal(item->settings.tenant, tenants->seen[i])) {
            return refuse_at(reading, node->line, "tenant: '%.64s' is there already", text);
        }
    }
    return OK;
}

static struct fault take_algorithm(struct reading *reading, const struct yaml_node *node, struct item *item)
{
    TRY(take_text(reading, node, &item->config->tsa_algorithm));
    return FAULTED(set_algorithm(item->config->tsa_algorithm, &item->settings))
               ? refuse_at(reading, node->line, "key_algorithm: must be ec-p256, ec-p384 or rsa-3072")
               : OK;
}

static struct fault take_issuance(struct reading *reading, const struct yaml_node *node, struct item *item)
{
    TRY(take_text(reading, node, &item->config->tsa_unit_issuance));
    return FAULTED(set_issuance(item->config->tsa_unit_issuance, &item->settings))
               ? refuse_at(reading, node->line, "issuance: must be own or external")
               : OK;
}

/* Less than the clock is held to would be a lie. */
static struct fault take_accuracy(struct reading *reading, const struct yaml_node *node, struct item *item)
{
    return take_number(reading, node, reading->config->tsa_accuracy_ms, 3600000, &item->config->tsa_accuracy_ms);
}

static struct fault take_enabled(struct reading *reading, const struct yaml_node *node, struct item *item)
{
    return take_flag(reading, node, &item->enabled);
}

static struct fault take_public(struct reading *reading, const struct yaml_node *node, struct item *item)
{
    return take_flag(reading, node, &item->settings.open);
}

static struct fault take_policy(struct reading *reading, const struct yaml_node *node, struct item *item)
{
    return take_text(reading, node, &item->config->tsa_policy);
}

static struct fault take_policies(struct reading *reading, const struct yaml_node *node, struct item *item)
{
    return take_list(reading, node, &item->config->tsa_policies);
}

static struct fault take_hashes(struct reading *reading, const struct yaml_node *node, struct item *item)
{
    return take_list(reading, node, &item->config->tsa_hashes);
}

static struct fault take_rate(struct reading *reading, const struct yaml_node *node, struct item *item)
{
    return take_number(reading, node, 0, 1000000, &item->settings.rate);
}

static struct fault take_burst(struct reading *reading, const struct yaml_node *node, struct item *item)
{
    return take_number(reading, node, 0, 1000000, &item->settings.burst);
}

static struct fault take_in_flight(struct reading *reading, const struct yaml_node *node, struct item *item)
{
    return take_number(reading, node, 0, 1024, &item->settings.in_flight);
}

static const struct {
    const char *key;
    struct fault (*take)(struct reading *reading, const struct yaml_node *node, struct item *item);
} members[] = {
    { "tenant", take_tenant },        { "enabled", take_enabled },
    { "public", take_public },        { "policy_oid", take_policy },
    { "policies", take_policies },    { "hash_algorithms", take_hashes },
    { "accuracy_ms", take_accuracy }, { "key_algorithm", take_algorithm },
    { "issuance", take_issuance },    { "requests_per_second", take_rate },
    { "burst", take_burst },          { "in_flight", take_in_flight },
};

static struct fault take_member(struct reading *reading, const struct yaml_node *node, struct item *item)
{
    for (size_t i = 0; i < COUNT_OF(members); i++) {
        if (strcmp(members[i].key, node->key) == 0) {
            return members[i].take(reading, node, item);
        }
    }
    return refuse_at(reading, node->line, "unknown key '%.64s'", node->key);
}

static struct fault add_item(struct reading *reading, const struct yaml_node *node)
{
    struct tsa_tenants *tenants = reading->tenants;
    struct item item = { .settings = tenants->at[0], .enabled = true };
    if (node->kind != YAML_KIND_MAP) {
        return refuse_at(reading, node->line, "tenants: each item is a mapping");
    }
    TRY(arena_take(tenants->arena, 1, sizeof(*item.config), &item.config));
    *item.config = *reading->config;
    item.settings.tenant = (struct tenant_id){ 0 };
    item.settings.first = false;
    item.settings.in_flight = IN_FLIGHT;
    for (const struct yaml_node *member = node->first; member != NULL; member = member->next) {
        TRY(take_member(reading, member, &item));
    }
    if (item.settings.tenant.text[0] == '\0') {
        return refuse_at(reading, node->line, "tenant: is missing");
    }
    if (item.settings.burst > 0 && item.settings.rate == 0) {
        return refuse_at(reading, node->line, "burst: goes with requests_per_second");
    }
    item.settings.config = item.config;
    tenants->seen[tenants->items++] = item.settings.tenant;
    if (item.enabled) {
        tenants->at[tenants->count++] = item.settings;
    }
    return OK;
}

static struct fault read_items(struct reading *reading, struct span yaml)
{
    struct yaml_node *root = NULL;
    CLEANUP(arena_freep) struct arena *arena = NULL;
    TRY(arena_new(ARENA_MAX, &arena));
    TRY(yaml_tree_parse(arena, yaml, reading->file, reading->why, &root));
    const struct yaml_node *list = yaml_tree_get(root, "tenants");
    if (list == NULL || root->count != 1 || list->kind != YAML_KIND_LIST || list->count == 0 ||
        list->count > TSA_TENANTS_MAX) {
        return refuse_at(reading, root->line, "one key is due, tenants: a list of 1 to %d", TSA_TENANTS_MAX);
    }
    for (const struct yaml_node *node = list->first; node != NULL; node = node->next) {
        TRY(add_item(reading, node));
    }
    return OK;
}

static struct fault refuse_key(struct buf *why, const char *key, const char *what)
{
    IGNORE(buf_printf(why, "%s: %s", key, what));
    return FAULT(CONFIG);
}

static struct fault read_first(const struct config *config, struct buf *why, struct tsa_settings *first)
{
    *first = (struct tsa_settings){ .config = config, .open = true, .first = true };
    if (FAULTED(tenant_id_parse(span_text(config->tsa_tenant), &first->tenant))) {
        return refuse_key(why, "protocols.tsa.tenant_id", "is no tenant id");
    }
    if (FAULTED(set_algorithm(config->tsa_algorithm, first))) {
        return refuse_key(why, "protocols.tsa.key_algorithm", "must be ec-p256, ec-p384 or rsa-3072");
    }
    if (FAULTED(set_issuance(config->tsa_unit_issuance, first))) {
        return refuse_key(why, "protocols.tsa.unit.issuance", "must be own or external");
    }
    if (config->tsa_unit_usage > config->tsa_unit_validity) {
        return refuse_key(why, "protocols.tsa.unit.key_usage_period",
                          "must not be longer than protocols.tsa.unit.certificate_validity");
    }
    if (config->tsa_unit_activate > config->tsa_unit_prepare) {
        return refuse_key(why, "protocols.tsa.unit.activate_ahead",
                          "must not be longer than protocols.tsa.unit.prepare_ahead");
    }
    if (config->tsa_unit_prepare >= config->tsa_unit_usage) {
        return refuse_key(why, "protocols.tsa.unit.prepare_ahead",
                          "must be shorter than protocols.tsa.unit.key_usage_period");
    }
    return OK;
}

struct fault tsa_tenants_parse(const struct config *config, struct span yaml, const char *file, struct buf *why,
                               struct tsa_tenants **ret_tenants)
{
    CLEANUP(tsa_tenants_freep) struct tsa_tenants *made = NULL;
    TRY(mem_new(1, sizeof(*made), &made));
    TRY(arena_new(ARENA_MAX, &made->arena));
    TRY(read_first(config, why, &made->at[0]));
    made->count = 1;
    struct reading reading = { made, config, file, why };
    if (yaml.len > 0) {
        TRY(read_items(&reading, yaml));
    }
    *ret_tenants = TAKE(made);
    return OK;
}

struct fault tsa_tenants_load(const struct config *config, struct buf *why, struct tsa_tenants **ret_tenants)
{
    CLEANUP(buf_free) struct buf yaml = BUF_INIT(FILE_MAX_BYTES);
    const char *path = config->tsa_tenants_file;
    if (path[0] == '\0') {
        return tsa_tenants_parse(config, (struct span){ 0 }, "", why, ret_tenants);
    }
    const char *slash = strrchr(path, '/');
    struct fault fault = file_read(path, &yaml);
    REQUIRE(fault.code != FAULT_NO_MEMORY, NO_MEMORY);
    if (FAULTED(fault)) {
        IGNORE(buf_printf(why, "%s: cannot be read (%s)", path, fault_row(fault.code)->text));
        return FAULT(CONFIG);
    }
    const struct span text = yaml.len > 0 ? buf_span(&yaml) : span_text("\n");
    return tsa_tenants_parse(config, text, slash != NULL ? slash + 1 : path, why, ret_tenants);
}

void tsa_tenants_free(struct tsa_tenants *tenants)
{
    if (tenants != NULL) {
        arena_free(tenants->arena);
        mem_free(tenants);
    }
}

size_t tsa_tenants_count(const struct tsa_tenants *tenants)
{
    return tenants->count;
}

const struct tsa_settings *tsa_tenants_at(const struct tsa_tenants *tenants, size_t index)
{
    return &tenants->at[index];
}
