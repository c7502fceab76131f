#include "signer-pkcs11/token/quirk.h"

static const struct quirk_row rows[QUIRK_COUNT] = {
#define QUIRK_ROW(sym, name, kind, differs, does, tokens, found) \
    [QUIRK_##sym] = { name, QUIRK_##kind, differs, does, tokens, found },
#include "signer-pkcs11/token/quirk.def"
#undef QUIRK_ROW
};
static_assert(QUIRK_COUNT <= 32, "token_quirks.on has 32 bits");

/* What an operator may do to an attribute of the templates. That the private half never leaves the token is not his to
 * change: SENSITIVE and EXTRACTABLE may be left out where a token sets them by itself, and are checked afterwards. */
static const struct {
    const char *name;
    bool omit, yes, no;
} attributes[QUIRK_ATTRIBUTE_COUNT] = {
    [QUIRK_CKA_PRIVATE] = { "CKA_PRIVATE", true, false, true },
    [QUIRK_CKA_SENSITIVE] = { "CKA_SENSITIVE", true, false, false },
    [QUIRK_CKA_EXTRACTABLE] = { "CKA_EXTRACTABLE", true, false, false },
    [QUIRK_CKA_SIGN] = { "CKA_SIGN", true, false, false },
    [QUIRK_CKA_VERIFY] = { "CKA_VERIFY", true, false, false },
    [QUIRK_CKA_ENCRYPT] = { "CKA_ENCRYPT", true, false, false },
    [QUIRK_CKA_DECRYPT] = { "CKA_DECRYPT", true, false, false },
    [QUIRK_CKA_WRAP] = { "CKA_WRAP", true, false, false },
    [QUIRK_CKA_UNWRAP] = { "CKA_UNWRAP", true, false, false },
    [QUIRK_CKA_DERIVE] = { "CKA_DERIVE", true, false, false },
    [QUIRK_CKA_PUBLIC_EXPONENT] = { "CKA_PUBLIC_EXPONENT", true, false, false },
    [QUIRK_CKA_MODIFIABLE] = { "CKA_MODIFIABLE", false, true, true },
    [QUIRK_CKA_COPYABLE] = { "CKA_COPYABLE", false, true, true },
    [QUIRK_CKA_DESTROYABLE] = { "CKA_DESTROYABLE", false, true, false },
    [QUIRK_CKA_ALWAYS_AUTHENTICATE] = { "CKA_ALWAYS_AUTHENTICATE", false, true, true },
};

const struct quirk_row *quirk_row(enum quirk quirk)
{
    return &rows[quirk];
}

const char *quirk_attribute_text(enum quirk_attribute attribute)
{
    return attributes[attribute].name;
}

#define REFUSE(why, ...)                            \
    do {                                            \
        if ((why) != NULL) {                        \
            IGNORE(buf_printf((why), __VA_ARGS__)); \
        }                                           \
        return FAULT(BAD_ARGUMENT);                 \
    } while (0)

static struct fault find_attribute(struct span name, enum quirk_attribute *ret_attribute, struct buf *why)
{
    for (int i = 0; i < QUIRK_ATTRIBUTE_COUNT; i++) {
        if (span_equal_text(name, attributes[i].name)) {
            *ret_attribute = (enum quirk_attribute)i;
            return OK;
        }
    }
    REFUSE(why, "%.*s is no attribute of the templates", (int)(name.len < 64 ? name.len : 64), (const char *)name.at);
}

static bool begins(struct span word, const char *with, struct span *ret_rest)
{
    size_t len = strlen(with);
    if (word.len <= len || memcmp(word.at, with, len) != 0) {
        return false;
    }
    *ret_rest = span_of(word.at + len, word.len - len);
    return true;
}

static struct fault parse_omit(struct span name, struct token_quirks *quirks, struct buf *why)
{
    enum quirk_attribute attribute = QUIRK_CKA_PRIVATE;
    TRY(find_attribute(name, &attribute, why));
    if (!attributes[attribute].omit) {
        REFUSE(why, "%s is not in the templates unless it is set", attributes[attribute].name);
    }
    quirks->omit |= 1u << (unsigned)attribute;
    return OK;
}

static struct fault parse_set(struct span text, struct token_quirks *quirks, struct buf *why)
{
    enum quirk_attribute attribute = QUIRK_CKA_PRIVATE;
    const uint8_t *equals = memchr(text.at, '=', text.len);
    if (equals == NULL) {
        REFUSE(why, "set: needs =yes or =no behind the attribute");
    }
    struct span name = span_of(text.at, (size_t)(equals - text.at));
    struct span value = span_of(equals + 1, text.len - name.len - 1);
    bool yes = span_equal_text(value, "yes");
    if (!yes && !span_equal_text(value, "no")) {
        REFUSE(why, "an attribute is set to yes or no");
    }
    TRY(find_attribute(name, &attribute, why));
    if (yes ? !attributes[attribute].yes : !attributes[attribute].no) {
        REFUSE(why, "%s is the signer's to choose: it cannot be set to %s", attributes[attribute].name,
               yes ? "yes" : "no");
    }
    uint32_t bit = 1u << (unsigned)attribute;
    if (((yes ? quirks->set_no : quirks->set_yes) & bit) != 0) {
        REFUSE(why, "%s is set to yes and to no", attributes[attribute].name);
    }
    *(yes ? &quirks->set_yes : &quirks->set_no) |= bit;
    return OK;
}

static struct fault parse_name(struct span word, struct token_quirks *quirks, struct buf *why)
{
    for (int i = 0; i < QUIRK_COUNT; i++) {
        if (!span_equal_text(word, rows[i].name)) {
            continue;
        }
        if (rows[i].kind != QUIRK_SET) {
            REFUSE(why, "%s %s: leave it out", rows[i].name,
                   rows[i].kind == QUIRK_AUTO ? "is noticed by itself" : "is set by a key of its own");
        }
        quirk_switch(quirks, (enum quirk)i, true);
        if (quirk_on(quirks, QUIRK_ID_TEXT) && quirk_on(quirks, QUIRK_ID_NONE)) {
            REFUSE(why, "id-text and id-none exclude each other");
        }
        if (quirk_on(quirks, QUIRK_GCM_TOKEN_IV) && quirk_on(quirks, QUIRK_GCM_HOST_IV)) {
            REFUSE(why, "gcm-token-iv and gcm-host-iv exclude each other");
        }
        return OK;
    }
    REFUSE(why, "%.*s is no quirk: docs/operating-hsm.md lists them", (int)(word.len < 64 ? word.len : 64),
           (const char *)word.at);
}

struct fault quirk_parse(struct span word, struct token_quirks *quirks, struct buf *why)
{
    struct token_quirks parsed = *quirks;
    struct span rest = { 0 };
    TRY(begins(word, "omit:", &rest)  ? parse_omit(rest, &parsed, why)
        : begins(word, "set:", &rest) ? parse_set(rest, &parsed, why)
                                      : parse_name(word, &parsed, why));
    *quirks = parsed;
    return OK;
}

static struct fault put_word(struct buf *out, bool *first, const char *before, const char *word, const char *behind)
{
    TRY(buf_printf(out, "%s%s%s%s", *first ? "" : ", ", before, word, behind));
    *first = false;
    return OK;
}

struct fault quirks_print(const struct token_quirks *quirks, struct buf *out)
{
    bool first = true;
    for (int i = 0; i < QUIRK_COUNT; i++) {
        if (quirk_on(quirks, (enum quirk)i)) {
            TRY(put_word(out, &first, "", rows[i].name, ""));
        }
    }
    for (int i = 0; i < QUIRK_ATTRIBUTE_COUNT; i++) {
        uint32_t bit = 1u << (unsigned)i;
        if ((quirks->omit & bit) != 0) {
            TRY(put_word(out, &first, "omit:", attributes[i].name, ""));
        }
        if (((quirks->set_yes | quirks->set_no) & bit) != 0) {
            TRY(put_word(out, &first, "set:", attributes[i].name, (quirks->set_yes & bit) != 0 ? "=yes" : "=no"));
        }
    }
    return OK;
}

struct fault quirks_print_docs(struct buf *out)
{
    static const char *const kinds[] = { [QUIRK_SET] = "set", [QUIRK_AUTO] = "noticed", [QUIRK_KEY] = "own key" };
    TRY(buf_text(out,
                 "| Quirk | Set or noticed | What such a token does | What the signer does | Which tokens | How we "
                 "know |\n|---|---|---|---|---|---|\n"));
    for (int i = 0; i < QUIRK_COUNT; i++) {
        const struct quirk_row *row = &rows[i];
        TRY(buf_printf(out, "| `%s` | %s | %s | %s | %s | %s |\n", row->name, kinds[row->kind], row->differs, row->does,
                       row->tokens, row->found));
    }
    return OK;
}
