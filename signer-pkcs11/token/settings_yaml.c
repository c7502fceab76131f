/* token.tokens_file (settings.h has its form). What is not as it must be stops the start, with the line. */
#include "signer-pkcs11/token/settings.h"

#include "appliance/base/yaml_tree.h"

#include <stdio.h>

#define SESSIONS_MAX  64
#define INIT_ARGS_MAX 1024

struct reading {
    struct tokens_settings *settings;
    const char *file, *default_module;
    struct buf *why;
};

static struct fault refuse(const struct reading *reading, unsigned line, const char *name, const char *what)
{
    if (reading->why != NULL) {
        IGNORE(buf_printf(reading->why, "%s:%u: %s: %s", reading->file, line, name, what));
    }
    return FAULT(CONFIG);
}

typedef struct fault (*member_fn)(const struct reading *reading, const struct yaml_node *node,
                                  struct token_settings *token);

static struct fault text_of(const struct reading *reading, const struct yaml_node *node, const char **ret_text)
{
    if (node->kind != YAML_KIND_SCALAR || node->text[0] == '\0') {
        return refuse(reading, node->line, node->key != NULL ? node->key : "item", "must be a text that is not empty");
    }
    return arena_text(reading->settings->arena, span_text(node->text), ret_text);
}

static struct fault path_of(const struct reading *reading, const struct yaml_node *node, const char **ret_path)
{
    const char *path = NULL;
    TRY(text_of(reading, node, &path));
    if (path[0] != '/') {
        return refuse(reading, node->line, node->key != NULL ? node->key : path, "must be an absolute path");
    }
    *ret_path = path;
    return OK;
}

static struct fault number_of(const struct reading *reading, const struct yaml_node *node, uint64_t min, uint64_t max,
                              uint64_t *ret_number)
{
    char text[96];
    uint64_t number = 0;
    bool good = node->kind == YAML_KIND_SCALAR && node->text[0] != '\0' && !node->quoted;
    for (const char *at = good ? node->text : ""; good && *at != '\0'; at++) {
        good = *at >= '0' && *at <= '9' && !__builtin_mul_overflow(number, 10u, &number) &&
               !__builtin_add_overflow(number, (uint64_t)(*at - '0'), &number);
    }
    if (!good || number < min || number > max) {
        (void)snprintf(text, sizeof(text), "must be a number from %llu to %llu", (unsigned long long)min,
                       (unsigned long long)max);
        return refuse(reading, node->line, node->key, text);
    }
    *ret_number = number;
    return OK;
}

static struct fault member_name(const struct reading *reading, const struct yaml_node *node,
                                struct token_settings *token)
{
    if (node->kind != YAML_KIND_SCALAR || FAULTED(token_name_parse(span_text(node->text), &token->name))) {
        return refuse(reading, node->line, "name", "must be 1 to 24 of a-z, 0-9 and -");
    }
    return OK;
}

static struct fault member_module(const struct reading *reading, const struct yaml_node *node,
                                  struct token_settings *token)
{
    return path_of(reading, node, &token->module);
}

static struct fault member_label(const struct reading *reading, const struct yaml_node *node,
                                 struct token_settings *token)
{
    TRY(text_of(reading, node, &token->label));
    return strlen(token->label) <= 32 ? OK : refuse(reading, node->line, "label", "a token's label has 32 bytes");
}

static struct fault member_serial(const struct reading *reading, const struct yaml_node *node,
                                  struct token_settings *token)
{
    TRY(text_of(reading, node, &token->serial));
    return strlen(token->serial) <= 16 ? OK : refuse(reading, node->line, "serial", "a token's serial has 16 bytes");
}

static struct fault member_slot(const struct reading *reading, const struct yaml_node *node,
                                struct token_settings *token)
{
    token->slot_set = true;
    return number_of(reading, node, 0, UINT32_MAX, &token->slot);
}

static struct fault member_pin_file(const struct reading *reading, const struct yaml_node *node,
                                    struct token_settings *token)
{
    return path_of(reading, node, &token->pin_file);
}

static struct fault member_login(const struct reading *reading, const struct yaml_node *node,
                                 struct token_settings *token)
{
    if (node->kind != YAML_KIND_SCALAR || FAULTED(token_login_parse(span_text(node->text), &token->login))) {
        return refuse(reading, node->line, "login", "must be user, none or protected");
    }
    return OK;
}

static struct fault member_sessions(const struct reading *reading, const struct yaml_node *node,
                                    struct token_settings *token)
{
    uint64_t sessions = 0;
    TRY(number_of(reading, node, 1, SESSIONS_MAX, &sessions));
    token->sessions = (unsigned)sessions;
    return OK;
}

static struct fault member_init_args(const struct reading *reading, const struct yaml_node *node,
                                     struct token_settings *token)
{
    TRY(text_of(reading, node, &token->init_args));
    return strlen(token->init_args) <= INIT_ARGS_MAX ? OK : refuse(reading, node->line, "init_args", "is too long");
}

static struct fault member_public_keys(const struct reading *reading, const struct yaml_node *node,
                                       struct token_settings *token)
{
    return path_of(reading, node, &token->public_keys_dir);
}

static struct fault member_folders(const struct reading *reading, const struct yaml_node *node,
                                   struct token_settings *token)
{
    size_t count = 0;
    if (node->kind != YAML_KIND_LIST || node->count > TOKEN_FOLDERS_MAX) {
        return refuse(reading, node->line, "folders", "must be a list of at most 8 folders");
    }
    for (const struct yaml_node *item = node->first; item != NULL; item = item->next) {
        TRY(path_of(reading, item, &token->folders[count]));
        count++;
    }
    return OK;
}

static struct fault member_quirks(const struct reading *reading, const struct yaml_node *node,
                                  struct token_settings *token)
{
    if (node->kind != YAML_KIND_LIST) {
        return refuse(reading, node->line, "quirks", "must be a list");
    }
    for (const struct yaml_node *item = node->first; item != NULL; item = item->next) {
        CLEANUP(buf_free) struct buf what = BUF_INIT(256);
        const char *text = "must be a list of words";
        if (item->kind != YAML_KIND_SCALAR || FAULTED(quirk_parse(span_text(item->text), &token->quirks, &what))) {
            if (what.len > 0) {
                IGNORE(buf_cstr(&what, &text));
            }
            return refuse(reading, item->line, "quirks", text);
        }
    }
    return OK;
}

static const struct {
    const char *name;
    member_fn read;
} members[] = {
    { "name", member_name },           { "module", member_module },
    { "label", member_label },         { "serial", member_serial },
    { "slot", member_slot },           { "pin_file", member_pin_file },
    { "login", member_login },         { "sessions", member_sessions },
    { "init_args", member_init_args }, { "public_keys_dir", member_public_keys },
    { "folders", member_folders },     { "quirks", member_quirks },
};

static struct fault read_member(const struct reading *reading, const struct yaml_node *node,
                                struct token_settings *token)
{
    for (size_t i = 0; i < COUNT_OF(members); i++) {
        if (strcmp(members[i].name, node->key) == 0) {
            return members[i].read(reading, node, token);
        }
    }
    return refuse(reading, node->line, node->key, "no such member");
}

static struct fault read_token(const struct reading *reading, const struct yaml_node *map, struct token_settings *token)
{
    const struct config *config = reading->settings->config;
    if (map->kind != YAML_KIND_MAP) {
        return refuse(reading, map->line, "tokens", "each token must be a mapping");
    }
    *token = (struct token_settings){ .module = reading->default_module,
                                      .label = "",
                                      .serial = "",
                                      .sessions = (unsigned)config->signer_sessions,
                                      .queue = (unsigned)config->signer_queue };
    for (const struct yaml_node *node = map->first; node != NULL; node = node->next) {
        TRY(read_member(reading, node, token));
    }
    if (token->name.text[0] == '\0') {
        return refuse(reading, map->line, "name", "is required: keys are addressed by it");
    }
    if (token->pin_file == NULL && yaml_tree_get(map, "module") == NULL) {
        token->pin_file = config->token_pin_file; /* the embedded token's */
    }
    return OK;
}

struct fault tokens_settings_parse(struct tokens_settings *settings, struct span text, const char *file,
                                   const char *default_module, struct buf *why)
{
    const struct reading reading = { settings, file, default_module, why };
    struct yaml_node *root = NULL;
    TRY(yaml_tree_parse(settings->arena, text, file, why, &root));
    const struct yaml_node *list = yaml_tree_get(root, "tokens");
    if (list == NULL || root->count != 1 || list->kind != YAML_KIND_LIST || list->count == 0 ||
        list->count > TOKENS_MAX) {
        return refuse(&reading, root->line, "tokens", "the file is one list, tokens, of 1 to 8 tokens");
    }
    for (const struct yaml_node *node = list->first; node != NULL; node = node->next) {
        TRY(read_token(&reading, node, &settings->at[settings->count]));
        settings->count++;
    }
    return OK;
}
