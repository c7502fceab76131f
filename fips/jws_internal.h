/* Shared by jws.c and jwk.c. */
#ifndef FIPS_JWS_INTERNAL_H
#define FIPS_JWS_INTERNAL_H

#include "fips/jws.h"

struct jws_algorithm {
    const char *name;
    const char *curve; /* NULL: RSA */
    const char *digest;
    size_t coordinate; /* bytes of r and of s; 0 for RSA */
    bool pss;
};

/* NULL when there is no such algorithm here: `none` and HMAC among them. */
const struct jws_algorithm *jws_algorithm_find(const char *name);
bool jws_algorithm_fits(const struct jws_algorithm *algorithm, EVP_PKEY *key);

#endif
