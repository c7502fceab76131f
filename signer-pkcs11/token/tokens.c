#include "signer-pkcs11/token/tokens.h"

#include "appliance/base/alloc.h"

struct tokens {
    size_t count;
    struct {
        struct token *token;
        struct token_name name;
    } at[COUNT_OF(((struct tokens_settings *)0)->at)];
};

struct fault tokens_open(const struct tokens_settings *settings, struct buf *why, struct tokens **ret_tokens)
{
    CLEANUP(tokens_closep) struct tokens *tokens = NULL;
    TRY(mem_new(1, sizeof(*tokens), &tokens));
    for (size_t i = 0; i < settings->count; i++) {
        if (why != NULL && settings->at[i].name.text[0] != '\0') {
            buf_clear(why);
            IGNORE(buf_printf(why, "token %s: ", settings->at[i].name.text));
        }
        TRY(token_open(&settings->at[i], why, &tokens->at[i].token));
        tokens->at[i].name = settings->at[i].name;
        tokens->count++;
    }
    if (why != NULL) {
        buf_clear(why);
    }
    *ret_tokens = TAKE(tokens);
    return OK;
}

void tokens_close(struct tokens *tokens)
{
    if (tokens == NULL) {
        return;
    }
    for (size_t i = tokens->count; i > 0; i--) {
        token_close(tokens->at[i - 1].token);
    }
    mem_free(tokens);
}

size_t tokens_count(const struct tokens *tokens)
{
    return tokens->count;
}

struct token *tokens_at(const struct tokens *tokens, size_t i, struct token_name *ret_name)
{
    *ret_name = tokens->at[i].name;
    return tokens->at[i].token;
}

struct token *tokens_find(const struct tokens *tokens, const struct token_name *name)
{
    for (size_t i = 0; i < tokens->count; i++) {
        if (name->text[0] == 0 || strcmp(tokens->at[i].name.text, name->text) == 0) {
            return tokens->at[i].token;
        }
    }
    return NULL;
}
