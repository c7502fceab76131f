#include "signer-pkcs11/token/places.h"

#include "appliance/base/file.h"

#include <stdlib.h>

#define SOFTHSM_FILE "/libsofthsm2.so"
#define SOFTHSM_CONF "/etc/softhsm/softhsm2.conf"
#define CONF_MAX     ((size_t)64 << 10)

static bool ends_with(const char *text, const char *end)
{
    size_t len = strlen(text), end_len = strlen(end);
    return len >= end_len && strcmp(text + len - end_len, end) == 0;
}

static struct fault add(const char *places[PLACES_MAX + 1], size_t *count, const char *path)
{
    for (size_t i = 0; i < *count; i++) {
        if (strcmp(places[i], path) == 0) {
            return OK;
        }
    }
    REQUIRE(*count < PLACES_MAX, TOO_LARGE);
    places[(*count)++] = path;
    return OK;
}

static struct fault folder_of(struct arena *arena, const char *path, const char **ret_folder)
{
    const char *slash = strrchr(path, '/');
    size_t len = slash == NULL ? 0 : slash == path ? 1 : (size_t)(slash - path);
    return len == 0 ? arena_text(arena, span_text("."), ret_folder) : arena_text(arena, span_of(path, len), ret_folder);
}

/* ---- SoftHSM ---- */

/* The value of `directories.tokendir`; NULL when there is none. */
static struct fault read_tokendir(struct arena *arena, const char *conf, const char **ret_folder)
{
    static const char key[] = "directories.tokendir";
    CLEANUP(buf_free) struct buf text = BUF_INIT(CONF_MAX);
    const char *line = NULL;
    *ret_folder = NULL;
    if (FAULTED(file_read(conf, &text)) || FAULTED(buf_cstr(&text, &line))) {
        return OK;
    }
    for (; line != NULL && *line != '\0'; line = strchr(line, '\n')) {
        line += strspn(line, " \t\n");
        if (strncmp(line, key, sizeof(key) - 1) != 0) {
            continue;
        }
        const char *value = line + sizeof(key) - 1;
        value += strspn(value, " \t=");
        TRY(arena_text(arena, span_of(value, strcspn(value, " \t\r\n#")), ret_folder));
    }
    return OK;
}

static struct fault add_softhsm(const struct tokens_settings *settings, struct token_places *places)
{
    const char *conf = getenv("SOFTHSM2_CONF"), *folder = NULL;
    if (conf == NULL && settings->config->token_module[0] == 0) {
        TRY(arena_printf(settings->arena, &conf, "%s/softhsm/softhsm2.conf", settings->config->data_dir));
        REQUIRE(setenv("SOFTHSM2_CONF", conf, 1) == 0, NO_MEMORY);
    }
    /* The environment's text may move when it is set again. */
    TRY(arena_text(settings->arena, span_text(conf != NULL ? conf : SOFTHSM_CONF), &conf));
    TRY(add(places->read, &places->read_count, conf));
    TRY(read_tokendir(settings->arena, conf, &folder));
    return folder != NULL && folder[0] != '\0' ? add(places->write, &places->write_count, folder) : OK;
}

/* ---- NSS ---- */

/* configDir='sql:/folder' of the module's start text. */
static struct fault add_config_dir(const struct tokens_settings *settings, const char *init_args,
                                   struct token_places *places)
{
    static const char key[] = "configDir=";
    const char *at = init_args != NULL ? strstr(init_args, key) : NULL, *folder = NULL;
    if (at == NULL) {
        return OK;
    }
    at += sizeof(key) - 1;
    bool quoted = *at == '\'' || *at == '"';
    const char end[2] = { quoted ? *at : ' ', '\0' };
    at += quoted;
    size_t len = strcspn(at, end);
    const char *colon = memchr(at, ':', len);
    if (colon != NULL) { /* sql: or dbm: */
        len -= (size_t)(colon + 1 - at);
        at = colon + 1;
    }
    if (len == 0 || at[0] != '/') {
        return OK;
    }
    TRY(arena_text(settings->arena, span_of(at, len), &folder));
    return add(places->write, &places->write_count, folder);
}

/* ---- all ---- */

static struct fault add_token(const struct tokens_settings *settings, const struct token_settings *token,
                              struct token_places *places)
{
    const char *folder = NULL;
    TRY(folder_of(settings->arena, token->module, &folder));
    TRY(add(places->read, &places->read_count, folder));
    if (ends_with(token->module, SOFTHSM_FILE)) {
        TRY(add_softhsm(settings, places));
    } else {
        places->softhsm_only = false;
    }
    TRY(add_config_dir(settings, token->init_args, places));
    for (size_t i = 0; i < TOKEN_FOLDERS_MAX && token->folders[i] != NULL; i++) {
        TRY(add(places->write, &places->write_count, token->folders[i]));
    }
    if (token->public_keys_dir != NULL && token->public_keys_dir[0] != '\0') {
        bool writes = quirk_on(&token->quirks, QUIRK_PUBLIC_IN_SESSION);
        TRY(writes ? add(places->write, &places->write_count, token->public_keys_dir)
                   : add(places->read, &places->read_count, token->public_keys_dir));
    }
    return OK;
}

struct fault token_places_find(const struct tokens_settings *settings, struct token_places *ret_places)
{
    struct token_places places = { .softhsm_only = true };
    TRY(tokens_environment_set(settings->config));
    for (size_t i = 0; i < settings->count; i++) {
        TRY(add_token(settings, &settings->at[i], &places));
    }
    *ret_places = places;
    return OK;
}
