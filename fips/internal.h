/* Shared by the files of fips/ and by its tests; nobody else includes this. */
#ifndef FIPS_INTERNAL_H
#define FIPS_INTERNAL_H

#include "fips/fips.h"

#include <openssl/types.h>

/* One module file, judged: its bytes have the pinned SHA-256, and `mac` is what its own integrity test must find. */
struct fips_module {
    char folder[512];
    char name[128]; /* provider name: the file's name without ".so" */
    char mac[65];   /* HMAC-SHA-256 in hex: the "module-mac" that `openssl fipsinstall` writes */
};

/* FIPS_INACTIVE when the file cannot be read, FIPS_SELF_TEST when it is not the pinned one; `detail` gets the line.
 * pin: 64 lower-case hex digits. */
struct fault fips_module_check(const char *path, const char *pin, struct fips_module *ret_module, struct buf *detail);
/* Activates the module in `libctx` with every approved-only switch on. No install status is ever given to it, so that
 * all of its self-tests run now. Fills the posture's module, version and standard. */
struct fault fips_module_load(const struct fips_module *module, OSSL_LIB_CTX *libctx, struct fips_posture *ret_posture,
                              struct buf *detail);

/* Vectors of the known-answer tests, as one value, so that a test can hand in a spoilt copy. */
struct kat_digest {
    const char *name;
    struct span message, expected;
};
struct kat_gcm {
    struct span key, iv, aad, plain, cipher, tag;
};
struct kat_ecdsa {
    const char *group, *digest;
    struct span point, scalar;      /* 0x04 || X || Y, and the private key, big-endian */
    struct span message, signature; /* DER */
};
struct kat_rsa {
    const char *digest;
    struct span key; /* RSAPrivateKey, DER */
    struct span message, pkcs1, pss;
};
struct kat_vectors {
    struct kat_digest digests[3];
    struct kat_digest hmac;
    struct span hmac_key;
    struct kat_gcm gcm;
    struct kat_ecdsa ecdsa[2];
    struct kat_rsa rsa;
};
extern const struct kat_vectors kat_vectors;

/* FIPS_SELF_TEST and the name of the first test that fails in `detail`. */
struct fault kat_run(OSSL_LIB_CTX *libctx, const struct kat_vectors *vectors, struct buf *detail);

/* The parts, for kat_run: selftest_symmetric.c and selftest_signature.c. Each writes its name on failure. */
struct fault kat_digest_run(OSSL_LIB_CTX *libctx, const struct kat_digest *vector);
struct fault kat_hmac_run(OSSL_LIB_CTX *libctx, const struct kat_digest *vector, struct span key);
struct fault kat_gcm_run(OSSL_LIB_CTX *libctx, const struct kat_gcm *vector);
struct fault kat_ecdsa_run(OSSL_LIB_CTX *libctx, const struct kat_ecdsa *vector);
struct fault kat_rsa_run(OSSL_LIB_CTX *libctx, const struct kat_rsa *vector);

/* ---- fence.c ---- */

/* ML-DSA-65: what the seed's public key and its deterministic signature must be. */
struct kat_ml_dsa {
    struct span seed, message;
    uint8_t spki_sha256[32], signature_sha256[32];
};
extern const struct kat_ml_dsa kat_ml_dsa;
/* FIPS_SELF_TEST or CRYPTO. */
struct fault kat_ml_dsa_run(OSSL_LIB_CTX *libctx, const struct kat_ml_dsa *vector);

#endif
