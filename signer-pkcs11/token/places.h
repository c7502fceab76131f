/*
 * Where the modules of the configured tokens live and what they write, for the sandbox: computed before it is entered,
 * because it knows only folders that are there. SoftHSM's folder comes from its own configuration file, NSS's from its
 * configDir; what other modules write is told by `folders` of the token's settings.
 */
#ifndef SIGNER_TOKEN_PLACES_H
#define SIGNER_TOKEN_PLACES_H

#include "signer-pkcs11/token/settings.h"

#define PLACES_MAX 32
struct token_places {
    bool softhsm_only; /* every module is SoftHSM, so the narrow sandbox will do */
    size_t read_count, write_count;
    const char *read[PLACES_MAX + 1];  /* folders, or one file: SoftHSM's configuration; ends with NULL */
    const char *write[PLACES_MAX + 1]; /* read and write below; ends with NULL */
};
/* Texts live in the settings' arena. Sets token.environment, and SOFTHSM2_CONF for the embedded token when it is not
 * set: call it before any thread exists. TOO_LARGE, NO_MEMORY. */
struct fault token_places_find(const struct tokens_settings *settings, struct token_places *ret_places);

#endif
