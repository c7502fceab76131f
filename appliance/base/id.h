/* Identifiers are small distinct structs passed by value, so that a tenant cannot be handed in for a key. */
#ifndef APPLIANCE_BASE_ID_H
#define APPLIANCE_BASE_ID_H

#include "appliance/base/bytes.h"

/* [a-z0-9] then [a-z0-9-], 1..63 bytes: also a NATS subject token and a label part. "" = no tenant. */
struct tenant_id {
    char text[64];
};
/* UUID in its 36-character lower-case form. */
struct uuid {
    char text[37];
};

struct fault tenant_id_parse(struct span text, struct tenant_id *ret_id); /* BAD_ARGUMENT */
bool tenant_id_equal(struct tenant_id a, struct tenant_id b);

struct fault uuid_parse(struct span text, struct uuid *ret_id); /* BAD_ARGUMENT; lower case only */
struct fault uuid_new(struct uuid *ret_id); /* version 7: time-ordered, 74 random bits from the CSPRNG */
/* Version 8: SHA-256(domain, 0x00, each part behind its 8-byte length) cut to 128 bits, six of them
 * the version's and variant's: the same parts give the same id. At most 16 parts. */
struct fault uuid_derive(const char *domain, const struct span *parts, size_t count, struct uuid *ret_id);
bool uuid_equal(struct uuid a, struct uuid b);

/* `len` bytes from OpenSSL's CSPRNG. CRYPTO on failure: nothing may go on with what was there before. */
struct fault random_bytes(uint8_t *at, size_t len);

#define SHA256_LEN 32
struct sha256 {
    uint8_t at[SHA256_LEN];
};
struct fault sha256_of(struct span bytes, struct sha256 *ret_digest);
/* Digest over several spans, as if they were one. */
struct fault sha256_of_parts(const struct span *parts, size_t count, struct sha256 *ret_digest);
/* HMAC-SHA-256. */
struct fault hmac_sha256(struct span key, const struct span *parts, size_t count, struct sha256 *ret_mac);
/* The libctx that id.c and every other user of OpenSSL in this process fetches from. fips/ sets it once at start,
 * before threads; NULL (the start value) is OpenSSL's default context. */
struct ossl_lib_ctx_st;
void crypto_context_set(struct ossl_lib_ctx_st *libctx);
struct ossl_lib_ctx_st *crypto_context(void);

#endif
