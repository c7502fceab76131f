/* The tokens of this signer, by name. All are opened at start, or none: a signer that lacks one of its tokens would
 * answer KEY_NOT_FOUND for keys that exist. Thread-safe once open. */
#ifndef SIGNER_TOKEN_TOKENS_H
#define SIGNER_TOKEN_TOKENS_H

#include "signer-pkcs11/token/token.h"

struct tokens;
/* `settings` is borrowed. TOKEN_UNAVAILABLE, TOKEN_PIN, and `why` gets a line that names the token. */
struct fault tokens_open(const struct tokens_settings *settings, struct buf *why, struct tokens **ret_tokens);
void tokens_close(struct tokens *tokens);
DEFINE_FREEP(struct tokens, tokens_close)

size_t tokens_count(const struct tokens *tokens);
struct token *tokens_at(const struct tokens *tokens, size_t i, struct token_name *ret_name);
/* "" is the first. NULL: no token has that name. */
struct token *tokens_find(const struct tokens *tokens, const struct token_name *name);

#endif
