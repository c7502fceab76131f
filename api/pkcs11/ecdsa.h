/* The two forms of an ECDSA signature: ECDSA-Sig-Value in DER (RFC 3279 2.2.3), which the appliance gives, and r || s,
 * each as long as the curve's order, which PKCS#11 wants. */
#ifndef API_PKCS11_ECDSA_H
#define API_PKCS11_ECDSA_H

#include "appliance/base/bytes.h"

#define ECDSA_RAW_MAX 132 /* P-521 */
#define ECDSA_DER_MAX 144

/* `raw` has 2 * half bytes. BAD_ARGUMENT: not such a signature, or too large for the curve. */
struct fault ecdsa_to_raw(struct span der, size_t half, uint8_t *raw);
/* BAD_ARGUMENT: an odd length, or longer than ECDSA_RAW_MAX. Borrows `bytes`. */
struct fault ecdsa_to_der(struct span raw, uint8_t bytes[ECDSA_DER_MAX], struct span *ret_der);

#endif
