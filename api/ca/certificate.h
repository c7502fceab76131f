/*
 * X.509 certificates whose issuer key is in the token (through the provider): self-signed roots and end-entity
 * certificates by a constant profile. Serial numbers: 159 random bits (CA/Browser Forum BR 7.1 asks for 64 at least).
 */
#ifndef API_CA_CERTIFICATE_H
#define API_CA_CERTIFICATE_H

#include "appliance/base/op.h"
#include "signer-pkcs11/client/client.h"

struct certificate_profile {
    const char *common_name;
    const char *organization;   /* NULL = none */
    bool authority;             /* basicConstraints CA, keyCertSign + cRLSign */
    const char *extended_usage; /* e.g. "critical,timeStamping"; NULL = none */
    int64_t valid_days;         /* unless not_after says when */
    utc_us not_before;
    utc_us not_after;   /* 0 = by valid_days */
    utc_us usage_until; /* privateKeyUsagePeriod from not_before to here (RFC 3280 4.2.1.4); 0 = none */
};

struct certificate_issuer {
    struct key_ref key;
    struct span spki;
    struct span certificate; /* DER; empty = self-signed: the subject key is the issuer key */
};

/* DER of the certificate for `subject_spki`, in op's arena. The signature is made by the issuer's key in the token. */
struct fault certificate_issue(struct op *op, struct signer_client *signer, const struct certificate_issuer *issuer,
                               struct span subject_spki, const struct certificate_profile *profile,
                               struct span *ret_der);
/* PEM of a DER certificate, appended. */
struct fault certificate_pem(struct span der, struct buf *out);

#endif
