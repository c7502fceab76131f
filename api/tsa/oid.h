/* Object identifiers and hash algorithms of time stamps; shared by the authority and the offline verifier. */
#ifndef API_TSA_OID_H
#define API_TSA_OID_H

#include "appliance/base/bytes.h"

enum tst_hash_id { TST_SHA256, TST_SHA384, TST_SHA512, TST_HASH_COUNT };

struct tst_hash {
    enum tst_hash_id id;
    const char *name;   /* of the configuration and of answers: "sha256" */
    const char *digest; /* as OpenSSL fetches it: "SHA256" */
    size_t size;
    struct span oid; /* body */
};

extern const struct tst_hash tst_hashes[TST_HASH_COUNT];
const struct tst_hash *tst_hash_by_name(const char *name); /* NULL when unknown */
const struct tst_hash *tst_hash_by_oid(struct span oid);

/* Bodies. */
extern const struct span oid_signed_data;            /* 1.2.840.113549.1.7.2 */
extern const struct span oid_tst_info;               /* 1.2.840.113549.1.9.16.1.4 */
extern const struct span oid_content_type;           /* 1.2.840.113549.1.9.3 */
extern const struct span oid_message_digest;         /* 1.2.840.113549.1.9.4 */
extern const struct span oid_signing_certificate_v2; /* 1.2.840.113549.1.9.16.2.47 */
extern const struct span oid_rsa_encryption;         /* 1.2.840.113549.1.1.1 */
extern const struct span oid_ecdsa_sha256;           /* 1.2.840.10045.4.3.2 */
extern const struct span oid_ecdsa_sha384;           /* 1.2.840.10045.4.3.3 */

#endif
