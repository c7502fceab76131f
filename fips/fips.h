/*
 * The one way into approved cryptography. fips_start loads the FIPS and base providers from a module configuration that
 * it makes and checks itself, into an OSSL_LIB_CTX of its own, sets `fips=yes` as the default property where required,
 * runs the module's self-tests and our known-answer tests, and keeps the posture. Required but inactive: FIPS_INACTIVE
 * or FIPS_SELF_TEST, and the program must end. The error state is sticky: there is no second try in a process.
 */
#ifndef FIPS_FIPS_H
#define FIPS_FIPS_H

#include "appliance/base/config.h"
#include "appliance/base/fault.h"
#include "appliance/base/op.h"

#include <openssl/types.h>

struct fips_posture {
    bool required, module_active, self_test_passed;
    char module[64];   /* "OpenSSL FIPS Provider" */
    char version[32];  /* of the module */
    char standard[16]; /* "FIPS 140-3" */
};

/* Call once, before threads. Also calls crypto_context_set(). `detail` gets one clear line on failure; also on success
 * when the module is not required and not active (why). After a failure no algorithm can be fetched any more. */
struct fault fips_start(const struct config *config, struct buf *detail);
OSSL_LIB_CTX *fips_libctx(void);
void fips_posture(struct fips_posture *ret_posture);
/* May this process claim approved mode for what its approved algorithms do? Only where FIPS is required, since
 * otherwise another implementation may have served; with the module active and its self-tests passed. */
bool fips_approved_mode(void);

/* SHA-256 of the module file that this build trusts and no other, in hex. */
const char *fips_module_pin(void);

/* Known-answer sign, verify and reject over: ECDSA P-256 and P-384, RSA-3072 PKCS#1 v1.5 and PSS, SHA-2, HMAC-SHA-256,
 * AES-256-GCM. fips_start runs it; also callable again (periodic test). */
struct fault fips_known_answer_tests(struct buf *detail);

/* The approved-algorithm table (policies data, printed by /api/v1/editions): names, NULL-terminated. */
const char *const *fips_approved_algorithms(void);
const char *const *fips_fences(void);

#endif
