#include "signer-pkcs11/token/internal.h"

bool algorithm_is_ec(enum key_algorithm algorithm)
{
    return algorithm == KEY_ALGORITHM_EC_P256 || algorithm == KEY_ALGORITHM_EC_P384;
}

bool algorithm_is_rsa(enum key_algorithm algorithm)
{
    return algorithm == KEY_ALGORITHM_RSA_3072 || algorithm == KEY_ALGORITHM_RSA_4096;
}

unsigned algorithm_bits(enum key_algorithm algorithm)
{
    static const unsigned bits[KEY_ALGORITHM_COUNT] = {
        [KEY_ALGORITHM_EC_P256] = 256,   [KEY_ALGORITHM_EC_P384] = 384, [KEY_ALGORITHM_RSA_3072] = 3072,
        [KEY_ALGORITHM_RSA_4096] = 4096, [KEY_ALGORITHM_AES_256] = 256,
    };
    return algorithm > KEY_ALGORITHM_NONE && algorithm < KEY_ALGORITHM_COUNT ? bits[algorithm] : 0;
}

struct fault sign_check(struct op *op, enum sign_scheme scheme, enum hash_algorithm hash, struct span digest)
{
    if (scheme <= SIGN_SCHEME_NONE || scheme >= SIGN_SCHEME_COUNT) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "the signature scheme is not known: use ecdsa, rsa-pkcs1 or rsa-pss");
    }
    if (scheme == SIGN_SCHEME_ML_DSA) { /* signer-pkcs11/sealed does these */
        return op_fail(op, FAULT(BAD_ARGUMENT), "the token signs with ecdsa, rsa-pkcs1 or rsa-pss");
    }
    if (hash <= HASH_NONE || hash >= HASH_COUNT) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "the hash algorithm is not known: use sha256, sha384 or sha512");
    }
    if (digest.len != hash_size(hash)) {
        return op_fail(op, FAULT(DIGEST_LENGTH), "a %s digest has %zu bytes, this one has %zu",
                       hash_algorithm_text(hash), hash_size(hash), digest.len);
    }
    return OK;
}

struct fault sign_check_key(struct op *op, enum key_algorithm algorithm, enum sign_scheme scheme)
{
    bool fits = scheme == SIGN_SCHEME_ECDSA ? algorithm_is_ec(algorithm)
                                            : algorithm_is_rsa(algorithm) && scheme != SIGN_SCHEME_ML_DSA;
    if (!fits) {
        return op_fail(op, FAULT(BAD_ARGUMENT), "this scheme does not go with a key of algorithm %s",
                       key_algorithm_text(algorithm));
    }
    return OK;
}

/* Only where the site sets the attribute on its keys. What the token refuses is never shown again by this process. */
struct fault key_login_again(struct token_session *session)
{
    struct token *token = session->token;
    const struct token_settings *settings = token->settings;
    if ((settings->quirks.set_yes & 1u << QUIRK_CKA_ALWAYS_AUTHENTICATE) == 0 || settings->login == TOKEN_LOGIN_NONE) {
        return OK;
    }
    if (atomic_load(&token->pin_refused)) {
        return call_refused(&session->call, "C_Login", CKR_PIN_INCORRECT);
    }
    bool typed_there = settings->login == TOKEN_LOGIN_PROTECTED;
    struct fault fault = gate_login_again(&session->call, session->handle,
                                          typed_there ? (struct span){ 0 } : secret_span(settings->pin));
    if (FAULTED(fault) && session->call.refusal->class == CKR_CLASS_PIN) {
        atomic_store(&token->pin_refused, true);
    }
    return fault;
}
