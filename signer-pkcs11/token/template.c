/* Templates of new keys: what the signer wants, less what the token does not bear, plus what the site sets. */
#include "signer-pkcs11/token/internal.h"

static const CK_BBOOL values[2] = { CK_FALSE, CK_TRUE };

/* The attributes that a site may set, and their Cryptoki names. */
static const struct {
    enum quirk_attribute attribute;
    CK_ATTRIBUTE_TYPE type;
} settable[] = {
    { QUIRK_CKA_MODIFIABLE, CKA_MODIFIABLE },
    { QUIRK_CKA_COPYABLE, CKA_COPYABLE },
    { QUIRK_CKA_DESTROYABLE, CKA_DESTROYABLE },
    { QUIRK_CKA_ALWAYS_AUTHENTICATE, CKA_ALWAYS_AUTHENTICATE },
};

void template_put(struct template_list *list, CK_ATTRIBUTE_TYPE type, const void *at, size_t len)
{
    BUG_IF(list->count == TEMPLATE_MAX);
    list->at[list->count++] = (CK_ATTRIBUTE){ type, (void *)(uintptr_t)at, len };
}

void template_flag(struct template_list *list, CK_ATTRIBUTE_TYPE type, enum quirk_attribute attribute, bool value)
{
    const struct token_quirks *quirks = list->quirks;
    uint32_t bit = 1u << (unsigned)attribute;
    if ((quirks->omit & bit) != 0) {
        return;
    }
    value = (value || (quirks->set_yes & bit) != 0) && (quirks->set_no & bit) == 0;
    template_put(list, type, &values[value], sizeof(values[value]));
}

void template_put_set(struct template_list *list)
{
    for (size_t i = 0; i < COUNT_OF(settable); i++) {
        uint32_t bit = 1u << (unsigned)settable[i].attribute;
        if (((list->quirks->set_yes | list->quirks->set_no) & bit) != 0) {
            bool yes = (list->quirks->set_yes & bit) != 0;
            template_put(list, settable[i].type, &values[yes], sizeof(values[yes]));
        }
    }
}
