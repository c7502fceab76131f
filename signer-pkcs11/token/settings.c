#include "signer-pkcs11/token/settings.h"

#include "appliance/base/alloc.h"
#include "appliance/base/file.h"

#define ARENA_MAX ((size_t)1 << 20)
#define FILE_MAX  ((size_t)256 << 10)

static const char *const login_texts[] = {
    [TOKEN_LOGIN_USER] = "user",
    [TOKEN_LOGIN_NONE] = "none",
    [TOKEN_LOGIN_PROTECTED] = "protected",
};

const char *token_login_text(enum token_login login)
{
    return login_texts[login];
}

struct fault token_login_parse(struct span text, enum token_login *ret_login)
{
    for (size_t i = 0; i < COUNT_OF(login_texts); i++) {
        if (span_equal_text(text, login_texts[i])) {
            *ret_login = (enum token_login)i;
            return OK;
        }
    }
    return FAULT(BAD_ARGUMENT);
}

/* "token.label: ", or the token's name where there are several. */
static struct fault refuse(struct buf *why, const struct token_settings *token, const char *key, const char *what)
{
    if (why != NULL) {
        bool named = token->name.text[0] != '\0';
        IGNORE(buf_printf(why, "%s%s.%s: %s", named ? "token " : "", named ? token->name.text : "token", key, what));
    }
    return FAULT(CONFIG);
}

static struct fault read_words(const struct config *config, struct token_settings *token, struct buf *why)
{
    if (config->token_folders.count > TOKEN_FOLDERS_MAX) {
        return refuse(why, token, "folders", "at most 8 folders");
    }
    for (size_t i = 0; i < config->token_folders.count; i++) {
        token->folders[i] = config->token_folders.at[i];
    }
    for (size_t i = 0; i < config->token_quirks.count; i++) {
        CLEANUP(buf_free) struct buf what = BUF_INIT(256);
        const char *text = "";
        if (FAULTED(quirk_parse(span_text(config->token_quirks.at[i]), &token->quirks, &what))) {
            IGNORE(buf_cstr(&what, &text));
            return refuse(why, token, "quirks", text);
        }
    }
    return OK;
}

/* One token from the keys of the configuration itself. */
static struct fault read_flat(const struct config *config, const char *default_module, struct token_settings *token,
                              struct buf *why)
{
    *token = (struct token_settings){ .module = config->token_module[0] != 0 ? config->token_module : default_module,
                                      .label = config->token_label,
                                      .serial = config->token_serial,
                                      .slot_set = config->token_slot >= 0,
                                      .slot = config->token_slot >= 0 ? (uint64_t)config->token_slot : 0,
                                      .pin_file = config->token_pin_file,
                                      .sessions = (unsigned)config->signer_sessions,
                                      .queue = (unsigned)config->signer_queue,
                                      .init_args = config->token_init_args,
                                      .public_keys_dir = config->token_public_keys };
    if (FAULTED(token_login_parse(span_text(config->token_login), &token->login))) {
        return refuse(why, token, "login", "must be user, none or protected");
    }
    return read_words(config, token, why);
}

static struct fault check_one(const struct token_settings *token, struct buf *why)
{
    if (token->module == NULL || token->module[0] == '\0') {
        return refuse(why, token, "module", "is needed");
    }
    if (token->label[0] == '\0' && token->serial[0] == '\0' && !token->slot_set) {
        return refuse(why, token, "label", "label, serial or slot must say which token it is");
    }
    if (token->login == TOKEN_LOGIN_USER && (token->pin_file == NULL || token->pin_file[0] == '\0')) {
        return refuse(why, token, "pin_file", "is needed with login user");
    }
    if ((token->quirks.set_no & 1u << QUIRK_CKA_PRIVATE) != 0 && token->login != TOKEN_LOGIN_NONE) {
        return refuse(why, token, "quirks", "set:CKA_PRIVATE=no is for tokens without login only");
    }
    if (quirk_on(&token->quirks, QUIRK_READ_ONLY) && quirk_on(&token->quirks, QUIRK_PUBLIC_IN_SESSION)) {
        return refuse(why, token, "quirks", "read-only makes no keys: leave public-in-session out");
    }
    return OK;
}

/* Do both mean the same place? The same token under two names would make two registries of one. */
static bool same_place(const struct token_settings *a, const struct token_settings *b)
{
    return strcmp(a->module, b->module) == 0 && strcmp(a->label, b->label) == 0 && strcmp(a->serial, b->serial) == 0 &&
           a->slot_set == b->slot_set && a->slot == b->slot;
}

struct fault tokens_settings_check(const struct tokens_settings *settings, struct buf *why)
{
    for (size_t i = 0; i < settings->count; i++) {
        TRY(check_one(&settings->at[i], why));
        for (size_t k = 0; k < i; k++) {
            if (strcmp(settings->at[i].name.text, settings->at[k].name.text) == 0) {
                return refuse(why, &settings->at[i], "name", "two tokens have this name");
            }
            if (same_place(&settings->at[i], &settings->at[k])) {
                return refuse(why, &settings->at[i], "label", "another name means this token already");
            }
            if (strcmp(settings->at[i].module, settings->at[k].module) == 0 &&
                strcmp(settings->at[i].init_args != NULL ? settings->at[i].init_args : "",
                       settings->at[k].init_args != NULL ? settings->at[k].init_args : "") != 0) {
                return refuse(why, &settings->at[i], "init_args", "tokens of one module share its C_Initialize");
            }
        }
    }
    return OK;
}

struct fault token_settings_read_pin(struct token_settings *token, struct buf *why)
{
    if (token->login != TOKEN_LOGIN_USER) {
        return OK;
    }
    if (FAULTED(secret_from_file(token->pin_file, &token->pin))) {
        bool named = token->name.text[0] != '\0';
        if (why != NULL) {
            IGNORE(buf_printf(why, "%s%s.pin_file %s must be a regular file with the PIN, mode 0600, of this user",
                              named ? "token " : "", named ? token->name.text : "token", token->pin_file));
        }
        return FAULT(CONFIG);
    }
    return OK;
}

static struct fault read_file(struct tokens_settings *settings, const char *path, const char *default_module,
                              struct buf *why)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(FILE_MAX);
    if (FAULTED(file_read(path, &text))) {
        if (why != NULL) {
            IGNORE(buf_printf(why, "token.tokens_file: %s cannot be read", path));
        }
        return FAULT(CONFIG);
    }
    return tokens_settings_parse(settings, buf_span(&text), path, default_module, why);
}

struct fault tokens_settings_read(const struct config *config, const char *default_module, struct buf *why,
                                  struct tokens_settings **ret_settings)
{
    CLEANUP(tokens_settings_freep) struct tokens_settings *settings = NULL;
    TRY(mem_new(1, sizeof(*settings), (void *)&settings));
    settings->config = config;
    TRY(arena_new(ARENA_MAX, &settings->arena));
    if (config->tokens_file != NULL && config->tokens_file[0] != '\0') {
        TRY(read_file(settings, config->tokens_file, default_module, why));
    } else {
        TRY(read_flat(config, default_module, &settings->at[0], why));
        settings->count = 1;
    }
    TRY(tokens_settings_check(settings, why));
    TRY(tokens_environment_check(config, why));
    for (size_t i = 0; i < settings->count; i++) {
        settings->at[i].notes_folder = config->signer_journal;
    }
    *ret_settings = TAKE(settings);
    return OK;
}

struct fault tokens_settings_load(const struct config *config, const char *default_module, struct buf *why,
                                  struct tokens_settings **ret_settings)
{
    CLEANUP(tokens_settings_freep) struct tokens_settings *settings = NULL;
    TRY(tokens_settings_read(config, default_module, why, &settings));
    for (size_t i = 0; i < settings->count; i++) {
        TRY(token_settings_read_pin(&settings->at[i], why));
    }
    *ret_settings = TAKE(settings);
    return OK;
}

void tokens_settings_free(struct tokens_settings *settings)
{
    if (settings == NULL) {
        return;
    }
    for (size_t i = 0; i < settings->count; i++) {
        secret_free(settings->at[i].pin);
    }
    arena_free(settings->arena);
    mem_free(settings);
}
