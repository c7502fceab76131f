/*
 * What a token is told by the configuration: which module and slot, how to log in, how many sessions, and what its
 * maker does differently. One struct for each token; the first one is what keys without a token's name use. A struct
 * that is all zero but for module, label, serial, pin, sessions and queue means a token without peculiarities.
 *
 * The token.* keys describe one token. token.tokens_file names a YAML file that describes several:
 *
 *     tokens:
 *       - name: production              # 1 to 24 of a-z 0-9 -; keys are addressed by it
 *         module: /opt/hsm/lib/p11.so   # left out: SoftHSM
 *         label: svc                    # at least one of label, serial and slot
 *         serial: "0042"
 *         slot: 3
 *         pin_file: /etc/svc/pin        # mode 0600
 *         login: user                   # or none, or protected (a PIN pad)
 *         sessions: 8                   # left out: signer.sessions
 *         init_args: "..."              # what the module wants at C_Initialize
 *         public_keys_dir: /etc/svc/hsm # <key id>.pem or .der, for tokens that show no public key
 *         folders: [/var/lib/hsm]       # that the module writes
 *         quirks: [id-text, omit:CKA_DERIVE]
 */
#ifndef SIGNER_TOKEN_SETTINGS_H
#define SIGNER_TOKEN_SETTINGS_H

#include "appliance/base/arena.h"
#include "appliance/base/config.h"
#include "appliance/base/secret.h"
#include "signer-pkcs11/protocol/key.h"
#include "signer-pkcs11/token/quirk.h"

enum token_login {
    TOKEN_LOGIN_USER,      /* with the PIN of the file */
    TOKEN_LOGIN_NONE,      /* no C_Login at all */
    TOKEN_LOGIN_PROTECTED, /* the token asks by itself: a PIN pad (CKF_PROTECTED_AUTHENTICATION_PATH) */
};
const char *token_login_text(enum token_login login);
struct fault token_login_parse(struct span text, enum token_login *ret_login); /* BAD_ARGUMENT */

#define TOKEN_FOLDERS_MAX 8

struct token_settings {
    struct token_name name;     /* "" only for the single token of the flat settings */
    const char *module;         /* path of the PKCS#11 module */
    const char *label, *serial; /* "" = any */
    bool slot_set;              /* only this slot */
    uint64_t slot;
    enum token_login login;
    const char *pin_file;        /* where `pin` came from, for messages; NULL = not from a file */
    struct secret *pin;          /* owned; NULL = none is shown */
    const char *notes_folder;    /* of the signer's own, for the note of a refused PIN; NULL = it is not noted */
    unsigned sessions;           /* at most open for operations; fewer when the token has fewer */
    unsigned queue;              /* callers that may wait for one */
    const char *init_args;       /* NULL or "" = none */
    const char *public_keys_dir; /* NULL or "" = none */
    const char *folders[TOKEN_FOLDERS_MAX + 1]; /* that the module may write; ends with NULL */
    struct token_quirks quirks;
};

#define TOKENS_MAX 8
struct tokens_settings {
    const struct config *config; /* borrowed */
    struct arena *arena;         /* of the texts that are not the configuration's */
    size_t count;
    struct token_settings at[TOKENS_MAX];
};
/* From token.* of the configuration, or from token.tokens_file; reads the PIN files. CONFIG, and `why` gets a line. */
struct fault tokens_settings_load(const struct config *config, const char *default_module, struct buf *why,
                                  struct tokens_settings **ret_settings);
/* The same without the PINs, for who may not need them; then one token's. */
struct fault tokens_settings_read(const struct config *config, const char *default_module, struct buf *why,
                                  struct tokens_settings **ret_settings);
struct fault token_settings_read_pin(struct token_settings *token, struct buf *why);
void tokens_settings_free(struct tokens_settings *settings); /* wipes the PINs */
DEFINE_FREEP(struct tokens_settings, tokens_settings_free)

/* token.environment: CONFIG when a word is no NAME=value, or would reach beyond the module. */
struct fault tokens_environment_check(const struct config *config, struct buf *why);
/* Puts it into ours, where the module finds it: before any thread exists. */
struct fault tokens_environment_set(const struct config *config);

/* The YAML text of token.tokens_file, without reading any PIN: for tokens_settings_load and its fuzzer. */
struct fault tokens_settings_parse(struct tokens_settings *settings, struct span text, const char *file,
                                   const char *default_module, struct buf *why);
/* Does each token have a name of its own, a place to look for, and what its login needs? */
struct fault tokens_settings_check(const struct tokens_settings *settings, struct buf *why);

#endif
