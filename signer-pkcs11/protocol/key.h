/* What a key is, in the words that both ends of the signer's socket share. */
#ifndef SIGNER_PROTOCOL_KEY_H
#define SIGNER_PROTOCOL_KEY_H

#include "appliance/base/fault.h"
#include "appliance/base/id.h"

/* Values cross the wire and stand in token labels: append only, start at 1. */
enum key_purpose {
    KEY_PURPOSE_NONE,
#define PURPOSE_ROW(sym, text, who, kinds) KEY_PURPOSE_##sym,
#include "signer-pkcs11/protocol/purpose.def"
#undef PURPOSE_ROW
    KEY_PURPOSE_COUNT
};

enum key_algorithm {
    KEY_ALGORITHM_NONE,
    KEY_ALGORITHM_EC_P256,   /* "ec-p256" */
    KEY_ALGORITHM_EC_P384,   /* "ec-p384" */
    KEY_ALGORITHM_RSA_3072,  /* "rsa-3072" */
    KEY_ALGORITHM_RSA_4096,  /* "rsa-4096" */
    KEY_ALGORITHM_AES_256,   /* "aes-256": purpose seal only */
    KEY_ALGORITHM_ML_DSA_65, /* "ml-dsa-65" (FIPS 204): purpose codesign only, outside approved mode */
    KEY_ALGORITHM_COUNT
};

/* How to sign a digest. ECDSA goes with EC keys, ML_DSA with ML-DSA keys, the others with RSA. PSS: MGF1 with the same
 * hash, salt = hash size. ML_DSA: the pure algorithm over the digest's bytes as message, with an empty context. */
enum sign_scheme {
    SIGN_SCHEME_NONE,
    SIGN_SCHEME_ECDSA,
    SIGN_SCHEME_RSA_PKCS1,
    SIGN_SCHEME_RSA_PSS,
    SIGN_SCHEME_ML_DSA,
    SIGN_SCHEME_COUNT
};
enum hash_algorithm { HASH_NONE, HASH_SHA256, HASH_SHA384, HASH_SHA512, HASH_COUNT };

#define SIGNATURE_MAX 3328 /* ML-DSA-65: 3309 */
#define SPKI_MAX      2048 /* ML-DSA-65: 1974 */

/* A token's name in the configuration: 1 to 24 of a-z 0-9 -; "" = the first one. */
#define TOKEN_NAME_SIZE 25
struct token_name {
    char text[TOKEN_NAME_SIZE];
};
struct fault token_name_parse(struct span text, struct token_name *ret_name); /* BAD_ARGUMENT, also for "" */

/* A key by its place: in the named token it has the label "svc/1/<tenant>/<purpose>/<algorithm>/<id>", so the token is
 * the registry. */
struct key_ref {
    struct tenant_id tenant;
    enum key_purpose purpose;
    struct uuid id;
    struct token_name token;
};

const char *key_purpose_text(enum key_purpose purpose);                          /* "" for NONE */
struct fault key_purpose_parse(struct span text, enum key_purpose *ret_purpose); /* BAD_ARGUMENT */
const char *key_algorithm_text(enum key_algorithm algorithm);
struct fault key_algorithm_parse(struct span text, enum key_algorithm *ret_algorithm);
const char *hash_algorithm_text(enum hash_algorithm hash); /* "sha256" ... */
struct fault hash_algorithm_parse(struct span text, enum hash_algorithm *ret_hash);
size_t hash_size(enum hash_algorithm hash); /* bytes; 0 for NONE */
/* The default scheme of an algorithm: ECDSA for EC, RSA_PKCS1 for RSA; NONE for AES. */
enum sign_scheme key_default_scheme(enum key_algorithm algorithm);

#endif
