#include "api/tsa/oid.h"

/* clang-format off */
static const uint8_t sha256[] = { 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01 }; /* 2.16.840.1.101.3.4.2.1 */
static const uint8_t sha384[] = { 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02 }; /* 2.16.840.1.101.3.4.2.2 */
static const uint8_t sha512[] = { 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x03 }; /* 2.16.840.1.101.3.4.2.3 */
static const uint8_t signed_data[] = { 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x02 }; /* 1.2.840.113549.1.7.2 */
static const uint8_t tst_info[] = { 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x10, 0x01, 0x04 }; /* 1.2.840.113549.1.9.16.1.4 */
static const uint8_t content_type[] = { 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x03 }; /* 1.2.840.113549.1.9.3 */
static const uint8_t message_digest[] = { 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x04 }; /* 1.2.840.113549.1.9.4 */
static const uint8_t signing_certificate_v2[] = { 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x10, 0x02, 0x2f }; /* 1.2.840.113549.1.9.16.2.47 */
static const uint8_t rsa_encryption[] = { 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x01 }; /* 1.2.840.113549.1.1.1 */
static const uint8_t ecdsa_sha256[] = { 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02 }; /* 1.2.840.10045.4.3.2 */
static const uint8_t ecdsa_sha384[] = { 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03 }; /* 1.2.840.10045.4.3.3 */
/* clang-format on */

#define BYTES(a) { (a), sizeof(a) }

const struct tst_hash tst_hashes[TST_HASH_COUNT] = {
    { TST_SHA256, "sha256", "SHA256", 32, BYTES(sha256) },
    { TST_SHA384, "sha384", "SHA384", 48, BYTES(sha384) },
    { TST_SHA512, "sha512", "SHA512", 64, BYTES(sha512) },
};

const struct span oid_signed_data = BYTES(signed_data);
const struct span oid_tst_info = BYTES(tst_info);
const struct span oid_content_type = BYTES(content_type);
const struct span oid_message_digest = BYTES(message_digest);
const struct span oid_signing_certificate_v2 = BYTES(signing_certificate_v2);
const struct span oid_rsa_encryption = BYTES(rsa_encryption);
const struct span oid_ecdsa_sha256 = BYTES(ecdsa_sha256);
const struct span oid_ecdsa_sha384 = BYTES(ecdsa_sha384);

const struct tst_hash *tst_hash_by_name(const char *name)
{
    for (size_t i = 0; i < TST_HASH_COUNT; i++) {
        if (strcmp(tst_hashes[i].name, name) == 0) {
            return &tst_hashes[i];
        }
    }
    return NULL;
}

const struct tst_hash *tst_hash_by_oid(struct span oid)
{
    for (size_t i = 0; i < TST_HASH_COUNT; i++) {
        if (span_equal(tst_hashes[i].oid, oid)) {
            return &tst_hashes[i];
        }
    }
    return NULL;
}
