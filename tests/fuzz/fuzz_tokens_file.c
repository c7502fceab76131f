/* rooms: signer_token base */
/* token.tokens_file: whatever is read is either refused with a reason, or can be checked and printed as it was meant.
 */
#include "signer-pkcs11/token/places.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_words(const struct token_quirks *quirks)
{
    CLEANUP(buf_free) struct buf words = BUF_INIT(4096);
    struct token_quirks again = { 0 };
    BUG_IF(FAULTED(quirks_print(quirks, &words)));
    for (size_t from = 0, i = 0; i <= words.len && words.len > 0; i++) {
        if (i == words.len || words.at[i] == ',') {
            BUG_IF(FAULTED(quirk_parse(span_of(words.at + from, i - from), &again, NULL)));
            from = i + 2;
        }
    }
    BUG_IF(again.on != quirks->on || again.omit != quirks->omit || again.set_yes != quirks->set_yes ||
           again.set_no != quirks->set_no);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct config config = {
        .signer_sessions = 2, .signer_queue = 8, .token_pin_file = "/pin", .token_module = "/m.so", .data_dir = "/data"
    };
    struct tokens_settings settings = { .config = &config };
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    struct token_places places;
    if (FAULTED(arena_new((size_t)4 << 20, &settings.arena))) {
        return 0;
    }
    struct fault fault = tokens_settings_parse(&settings, span_of(data, size), "tokens.yaml", "/default.so", &why);
    BUG_IF(FAULTED(fault) && why.len == 0 && fault.code == FAULT_CONFIG);
    if (!FAULTED(fault)) {
        BUG_IF(settings.count == 0 || settings.count > TOKENS_MAX);
        IGNORE(tokens_settings_check(&settings, &why));
        for (size_t i = 0; i < settings.count; i++) {
            const struct token_settings *token = &settings.at[i];
            BUG_IF(token->name.text[0] == '\0' || token->module[0] != '/' || token->sessions < 1 ||
                   token->sessions > 64);
            check_words(&token->quirks);
        }
        IGNORE(token_places_find(&settings, &places));
    }
    arena_free(settings.arena);
    return 0;
}
