/*
 * What tokens do differently, as one table (quirk.def), and the small language in which the configuration speaks of it.
 * A word of `quirks` is
 *
 *     id-text                     a row of quirk.def
 *     omit:CKA_DERIVE             an attribute that is left out of the templates of new keys
 *     set:CKA_MODIFIABLE=no       an attribute that the templates of new private and secret keys get
 *
 * Rows marked AUTO are noticed by themselves, and rows marked KEY are set by a key of their own: they are in the table
 * so that an operator can read what the signer copes with.
 */
#ifndef SIGNER_TOKEN_QUIRK_H
#define SIGNER_TOKEN_QUIRK_H

#include "appliance/base/bytes.h"

enum quirk {
#define QUIRK_ROW(sym, name, kind, differs, does, tokens, found) QUIRK_##sym,
#include "signer-pkcs11/token/quirk.def"
#undef QUIRK_ROW
    QUIRK_COUNT
};
enum quirk_kind { QUIRK_SET, QUIRK_AUTO, QUIRK_KEY };

struct quirk_row {
    const char *name;
    enum quirk_kind kind;
    const char *differs; /* what such a token does */
    const char *does;    /* what the signer does about it */
    const char *tokens;  /* which ones need it */
    const char *found;   /* how we know */
};
const struct quirk_row *quirk_row(enum quirk quirk);

/* Attributes of the templates; bit n of a mask is row n of quirk_attributes. */
enum quirk_attribute {
    QUIRK_CKA_PRIVATE,
    QUIRK_CKA_SENSITIVE,
    QUIRK_CKA_EXTRACTABLE,
    QUIRK_CKA_SIGN,
    QUIRK_CKA_VERIFY,
    QUIRK_CKA_ENCRYPT,
    QUIRK_CKA_DECRYPT,
    QUIRK_CKA_WRAP,
    QUIRK_CKA_UNWRAP,
    QUIRK_CKA_DERIVE,
    QUIRK_CKA_PUBLIC_EXPONENT,
    QUIRK_CKA_MODIFIABLE,
    QUIRK_CKA_COPYABLE,
    QUIRK_CKA_DESTROYABLE,
    QUIRK_CKA_ALWAYS_AUTHENTICATE,
    QUIRK_ATTRIBUTE_COUNT
};
const char *quirk_attribute_text(enum quirk_attribute attribute); /* "CKA_PRIVATE" */

/* All zero: a token without peculiarities. */
struct token_quirks {
    uint32_t on;                    /* bit per enum quirk */
    uint32_t omit, set_yes, set_no; /* bit per enum quirk_attribute */
};
static inline bool quirk_on(const struct token_quirks *quirks, enum quirk quirk)
{
    return (quirks->on >> (unsigned)quirk & 1u) != 0;
}
static inline void quirk_switch(struct token_quirks *quirks, enum quirk quirk, bool on)
{
    quirks->on = (quirks->on & ~(1u << (unsigned)quirk)) | (on ? 1u << (unsigned)quirk : 0);
}

/* Adds one word. BAD_ARGUMENT, and `why` (if not NULL) says what is wrong with it: unknown, noticed by itself, not to
 * be left out, weaker than the signer allows, or at odds with another. */
struct fault quirk_parse(struct span word, struct token_quirks *quirks, struct buf *why);
/* The words again, each after ", " but the first; "" for none. */
struct fault quirks_print(const struct token_quirks *quirks, struct buf *out);
/* The table as Markdown, for docs/operating-hsm.md. */
struct fault quirks_print_docs(struct buf *out);

#endif
