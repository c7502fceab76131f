/* What attributes need of a public key and of a certificate: members by their place in the DER, nothing more. They
 * borrow. BAD_ARGUMENT: not of that form; such a key or certificate is not shown. */
#ifndef API_PKCS11_DER_FIELDS_H
#define API_PKCS11_DER_FIELDS_H

#include "appliance/base/bytes.h"

/* RFC 5280 4.1: SubjectPublicKeyInfo of an EC key over a named curve, or of an RSA key. */
struct public_fields {
    bool rsa;
    unsigned bits;                 /* of the modulus, or of the curve's order */
    struct span curve;             /* EC: the OBJECT IDENTIFIER with its header */
    struct span point;             /* EC: uncompressed, 0x04 || x || y */
    struct span modulus, exponent; /* RSA: unsigned, no leading zero */
};
struct fault public_fields_read(struct span spki, struct public_fields *ret_fields);

/* RFC 5280 4.1: each with its header, as PKCS#11 wants them. */
struct certificate_fields {
    struct span serial, issuer, subject, spki;
    struct span common_name; /* of the subject, without header; empty when there is none */
};
struct fault certificate_fields_read(struct span certificate, struct certificate_fields *ret_fields);

#endif
