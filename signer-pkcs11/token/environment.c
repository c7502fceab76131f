/* token.environment: what makers of modules want to find there, and nothing that would change whose code runs. */
#include "signer-pkcs11/token/settings.h"

#include <stdlib.h>

#define NAME_MAX_LEN 64

/* Of the loader, of the C library, of OpenSSL, and ours. */
static const char *const not_theirs[] = { "LD_", "GLIBC_", "MALLOC_", "OPENSSL_", "SSL_", "SVC_", "GCONV_", "LISTEN_" };
static const char *const not_these[] = { "PATH", "HOME", "TZ", "LANG", "IFS", "TMPDIR", "NOTIFY_SOCKET" };

/* The name's length; 0 = it is none, or not the module's to have. */
static size_t name_of(const char *word)
{
    size_t len = strspn(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");
    if (len == 0 || len > NAME_MAX_LEN || word[len] != '=' || (word[0] >= '0' && word[0] <= '9')) {
        return 0;
    }
    for (size_t i = 0; i < COUNT_OF(not_theirs); i++) {
        if (strncmp(word, not_theirs[i], strlen(not_theirs[i])) == 0) {
            return 0;
        }
    }
    for (size_t i = 0; i < COUNT_OF(not_these); i++) {
        if (strlen(not_these[i]) == len && strncmp(word, not_these[i], len) == 0) {
            return 0;
        }
    }
    return len;
}

struct fault tokens_environment_check(const struct config *config, struct buf *why)
{
    for (size_t i = 0; i < config->token_environment.count; i++) {
        if (name_of(config->token_environment.at[i]) == 0) {
            if (why != NULL) {
                IGNORE(buf_printf(why, "token.environment: '%.64s' is no NAME=value of a module's own",
                                  config->token_environment.at[i]));
            }
            return FAULT(CONFIG);
        }
    }
    return OK;
}

struct fault tokens_environment_set(const struct config *config)
{
    for (size_t i = 0; i < config->token_environment.count; i++) {
        const char *word = config->token_environment.at[i];
        char name[NAME_MAX_LEN + 1];
        size_t len = name_of(word);
        REQUIRE(len > 0, CONFIG);
        memcpy(name, word, len);
        name[len] = '\0';
        REQUIRE(setenv(name, word + len + 1, 1) == 0, NO_MEMORY);
    }
    return OK;
}
