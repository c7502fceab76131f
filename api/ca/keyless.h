/*
 * Certificates for ephemeral keys of keyless signing, in Fulcio's form: SAN from the verified identity (critical, since
 * the subject is empty), key usage digitalSignature, EKU codeSigning, Fulcio's claims as extensions
 * 1.3.6.1.4.1.57264.1.*, valid for minutes. Issued by the appliance's own keyless CA, whose key (purpose "ca", one for
 * each tenant) is in the token; or by a configured Fulcio (POST /api/v2/signingCert), whose answer must chain to the
 * pinned root, hold exactly the ephemeral key, and state the verified SAN and issuer.
 */
#ifndef API_CA_KEYLESS_H
#define API_CA_KEYLESS_H

#include "appliance/base/config.h"
#include "appliance/base/op.h"
#include "signer-pkcs11/client/client.h"

#define KEYLESS_ARC "1.3.6.1.4.1.57264.1"

enum keyless_san { KEYLESS_SAN_URI, KEYLESS_SAN_EMAIL, KEYLESS_SAN_DNS };
struct keyless_claim {
    unsigned arc; /* below KEYLESS_ARC; 1..7 are raw bytes, 8 and above DER UTF8String */
    const char *value;
};
struct keyless_subject {
    struct uuid
        operation_id;   /* serial number and the CA's journal id derive from it: the same again is the same bytes */
    struct key_ref key; /* the ephemeral key: proves possession to Fulcio */
    struct span spki;
    const char *san;
    enum keyless_san san_kind;
    const char *issuer;  /* of the identity */
    const char *subject; /* claim sub */
    const struct keyless_claim *claims;
    size_t claim_count;
    struct span proof; /* the identity token, for Fulcio; never kept */
    utc_us not_before;
};
struct keyless_authority {
    struct key_ref key;
    struct span spki;
    struct span certificate; /* DER, self-signed */
};

/* The self-signed certificate of a keyless CA key (CA:TRUE, pathlen 0, keyCertSign, EKU codeSigning). */
struct fault keyless_root_issue(struct op *op, struct signer_client *signer, const struct key_ref *key,
                                struct span spki, utc_us not_before, struct span *ret_der);

/* The chain for the ephemeral key, leaf first and root last, DER, in op's arena: by `authority`, or by Fulcio when
 * config says so (authority may then be NULL). PROOF_CLAIM         the SAN is no absolute URI, e-mail address or host
 * name of at most 1024 printable ASCII bytes; or a claim is longer, not printable UTF-8, doubled, or names another
 * issuer. Empty claims are left out; arcs 1 and 8, the issuer, are always there KEY_STATE           the authority's
 * certificate is not valid at not_before SIGNER_OP_MISMATCH  the operation has another certificate already: of one
 * operation there is one, by our authority FULCIO_UNAVAILABLE  worth repeating; op's note may have its Retry-After
 *   FULCIO_REFUSED      Fulcio said no, or what it issued is not acceptable. Its chain is verified at the leaf's own
 *                       notBefore, and the leaf has to be valid now (a minute of difference between the clocks is let
 *                       through). Each call is a new certificate: Fulcio knows no operation ids
 * and the signer's faults. BUG_IF(tx_open). */
struct fault keyless_issue(struct op *op, const struct config *config, struct signer_client *signer,
                           const struct keyless_authority *authority, const struct keyless_subject *subject,
                           struct span **ret_chain, size_t *ret_count);

#endif
