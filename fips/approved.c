#include "fips/fips.h"

/* What is claimed as approved: each row is served by the module and exercised by the power-on test. */
static const char *const approved[] = {
    "ECDSA P-256 with SHA-256",
    "ECDSA P-384 with SHA-384",
    "RSA-3072 and RSA-4096 PKCS#1 v1.5 with SHA-256, SHA-384 or SHA-512",
    "RSA-3072 and RSA-4096 PSS with SHA-256, SHA-384 or SHA-512",
    "AES-256-GCM",
    "HMAC-SHA-256",
    "SHA-256",
    "SHA-384",
    "SHA-512",
    NULL,
};

/* Never part of an approved-mode claim, wherever they may be usable. */
static const char *const fences[] = {
    "ML-DSA", "ML-KEM", "SLH-DSA", "Ed25519", "hybrid TLS key exchange and hybrid keys", NULL,
};

const char *const *fips_approved_algorithms(void)
{
    return approved;
}

const char *const *fips_fences(void)
{
    return fences;
}
