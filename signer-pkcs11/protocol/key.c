#include "signer-pkcs11/protocol/key.h"

static const char *const purpose_texts[KEY_PURPOSE_COUNT] = {
    [KEY_PURPOSE_NONE] = "",
#define PURPOSE_ROW(sym, text, who, kinds) [KEY_PURPOSE_##sym] = (text),
#include "signer-pkcs11/protocol/purpose.def"
#undef PURPOSE_ROW
};

static const char *const algorithm_texts[KEY_ALGORITHM_COUNT] = {
    [KEY_ALGORITHM_NONE] = "",
    [KEY_ALGORITHM_EC_P256] = "ec-p256",
    [KEY_ALGORITHM_EC_P384] = "ec-p384",
    [KEY_ALGORITHM_RSA_3072] = "rsa-3072",
    [KEY_ALGORITHM_RSA_4096] = "rsa-4096",
    [KEY_ALGORITHM_AES_256] = "aes-256",
    [KEY_ALGORITHM_ML_DSA_65] = "ml-dsa-65",
};

static const struct {
    const char *text;
    size_t size;
} hashes[HASH_COUNT] = {
    [HASH_NONE] = { "", 0 },
    [HASH_SHA256] = { "sha256", 32 },
    [HASH_SHA384] = { "sha384", 48 },
    [HASH_SHA512] = { "sha512", 64 },
};

const char *key_purpose_text(enum key_purpose purpose)
{
    return (size_t)purpose < COUNT_OF(purpose_texts) ? purpose_texts[purpose] : "";
}

struct fault key_purpose_parse(struct span text, enum key_purpose *ret_purpose)
{
    for (size_t i = 1; i < COUNT_OF(purpose_texts); i++) {
        if (span_equal_text(text, purpose_texts[i])) {
            *ret_purpose = (enum key_purpose)i;
            return OK;
        }
    }
    return FAULT(BAD_ARGUMENT);
}

const char *key_algorithm_text(enum key_algorithm algorithm)
{
    return (size_t)algorithm < COUNT_OF(algorithm_texts) ? algorithm_texts[algorithm] : "";
}

struct fault key_algorithm_parse(struct span text, enum key_algorithm *ret_algorithm)
{
    for (size_t i = 1; i < COUNT_OF(algorithm_texts); i++) {
        if (span_equal_text(text, algorithm_texts[i])) {
            *ret_algorithm = (enum key_algorithm)i;
            return OK;
        }
    }
    return FAULT(BAD_ARGUMENT);
}

const char *hash_algorithm_text(enum hash_algorithm hash)
{
    return (size_t)hash < COUNT_OF(hashes) ? hashes[hash].text : "";
}

struct fault hash_algorithm_parse(struct span text, enum hash_algorithm *ret_hash)
{
    for (size_t i = 1; i < COUNT_OF(hashes); i++) {
        if (span_equal_text(text, hashes[i].text)) {
            *ret_hash = (enum hash_algorithm)i;
            return OK;
        }
    }
    return FAULT(BAD_ARGUMENT);
}

size_t hash_size(enum hash_algorithm hash)
{
    return (size_t)hash < COUNT_OF(hashes) ? hashes[hash].size : 0;
}

enum sign_scheme key_default_scheme(enum key_algorithm algorithm)
{
    switch (algorithm) {
    case KEY_ALGORITHM_EC_P256:
    case KEY_ALGORITHM_EC_P384:
        return SIGN_SCHEME_ECDSA;
    case KEY_ALGORITHM_RSA_3072:
    case KEY_ALGORITHM_RSA_4096:
        return SIGN_SCHEME_RSA_PKCS1;
    case KEY_ALGORITHM_ML_DSA_65:
        return SIGN_SCHEME_ML_DSA;
    case KEY_ALGORITHM_NONE:
    case KEY_ALGORITHM_AES_256:
    case KEY_ALGORITHM_COUNT:
        break;
    }
    return SIGN_SCHEME_NONE;
}

struct fault token_name_parse(struct span text, struct token_name *ret_name)
{
    struct token_name name = { 0 };
    REQUIRE(text.len >= 1 && text.len < sizeof(name.text), BAD_ARGUMENT);
    for (size_t i = 0; i < text.len; i++) {
        char c = (char)text.at[i];
        REQUIRE((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-', BAD_ARGUMENT);
        name.text[i] = c;
    }
    *ret_name = name;
    return OK;
}
