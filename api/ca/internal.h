/* What the files of api/ca/ share: the steps of one issuance (issuing.c), each told by its own name in a failure. */
#ifndef API_CA_INTERNAL_H
#define API_CA_INTERNAL_H

#include "api/ca/keyless.h"
#include "appliance/base/crypto.h"

#include <openssl/x509v3.h>

#define CA_SERIAL_LEN      20 /* RFC 5280 4.1.2.2: at most 20 octets, positive */
#define CA_CERTIFICATE_MAX 65536
#define CA_CHAIN_MAX       8
#define SECONDS_PER_DAY    86400

DEFINE_FREEP(ASN1_INTEGER, ASN1_INTEGER_free)
DEFINE_FREEP(ASN1_OBJECT, ASN1_OBJECT_free)
DEFINE_FREEP(ASN1_OCTET_STRING, ASN1_OCTET_STRING_free)
DEFINE_FREEP(ASN1_TIME, ASN1_TIME_free)
DEFINE_FREEP(ASN1_UTF8STRING, ASN1_UTF8STRING_free)
DEFINE_FREEP(AUTHORITY_KEYID, AUTHORITY_KEYID_free)
DEFINE_FREEP(GENERAL_NAMES, GENERAL_NAMES_free)
DEFINE_FREEP(X509_EXTENSION, X509_EXTENSION_free)

/* A certificate in the making. `issuer` is NULL for a self-signed one. */
struct issuance {
    struct op *op;
    X509 *issuer;
    X509 *made;
};
void issuance_clear(struct issuance *in);
/* `issuer`: DER of the issuer's certificate, empty for a self-signed one. issuance_clear frees what it holds. */
struct fault issuance_init(struct issuance *in, struct op *op, struct span issuer, struct span subject_spki);
/* 159 bits of the given bytes: RFC 5280 allows no negative number. */
struct fault issuance_serial(const struct issuance *in, const uint8_t bytes[CA_SERIAL_LEN]);
/* NULL = none of it. Both NULL: the empty name. */
struct fault issuance_names(const struct issuance *in, const char *organization, const char *common_name);
/* Cut to the issuer's end: what it signs after that would not verify anyway. */
struct fault issuance_validity(const struct issuance *in, int64_t from_s, int64_t until_s);
struct fault issuance_extension(const struct issuance *in, int nid, const char *value);
/* By dotted OID, not critical; `value` is what the OCTET STRING holds. */
struct fault issuance_extension_bytes(const struct issuance *in, const char *oid, struct span value);
struct fault issuance_key_ids(const struct issuance *in);
/* The issuer's private key signs in the token, under `journal_id` (empty = not journalled); its public half then has to
 * agree. */
struct fault issuance_sign(const struct issuance *in, const struct key_ref *key, struct span spki,
                           struct uuid journal_id);
struct fault issuance_der(const struct issuance *in, struct span *ret_der);

/* The caller frees these. CRYPTO when the bytes are not exactly one. */
struct fault ca_certificate(struct op *op, struct span der, X509 **ret_certificate);
struct fault ca_public_key(struct op *op, struct span spki, EVP_PKEY **ret_key);
/* RFC 7468 text, appended. */
struct fault ca_pem(const char *label, struct span der, struct buf *out);

/* fulcio.c */
struct fault fulcio_issue(struct op *op, const struct config *config, struct signer_client *signer,
                          const struct keyless_subject *subject, struct span **ret_chain, size_t *ret_count);
/* fulcio_answer.c: the chain that an answer holds, DER in op's arena, as it was sent. FULCIO_REFUSED. */
struct fault fulcio_answer_chain(struct op *op, struct span body, struct span *ret_chain, size_t *ret_count);
/* fulcio_verify.c: is this a certificate for `subject` under one of `roots` (PEM)? The verified chain, leaf first and
 * root last, in op's arena. FULCIO_REFUSED. */
struct fault fulcio_verify(struct op *op, struct span roots, const struct keyless_subject *subject,
                           const struct span *sent, size_t sent_count, utc_us now, struct span **ret_chain,
                           size_t *ret_count);

#endif
