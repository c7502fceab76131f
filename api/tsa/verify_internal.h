/* Shared by verify*.c. */
#ifndef API_TSA_VERIFY_INTERNAL_H
#define API_TSA_VERIFY_INTERNAL_H

#include "api/tsa/oid.h"
#include "api/tsa/verify.h"

/* The one refusal of this room: TST_INVALID with its reason. */
#define tst_refuse(op, ...) op_fail((op), FAULT(TST_INVALID), __VA_ARGS__)

/* From response or token to the token (ContentInfo, whole). A response that was not granted is refused with its
 * failure and text. */
struct fault tst_token_of(struct op *op, struct span der, struct span *ret_token);
/* tst_verify without the certificate's path, for who knows the certificate: no root is asked for. Its caller compares
 * info.certificate. */
struct fault tst_verify_but_path(struct op *op, struct span der, const struct tst_expect *expect,
                                 struct tst_info *ret_info);
/* A response whose status is neither granted nor granted with modifications. */
bool tst_refused(struct span der);
/* TSTInfo (RFC 3161 2.4.2), whole, strict DER. */
struct fault tst_info_parse(struct op *op, struct span der, struct tst_info *ret_info);
/* SigningCertificateV2 (RFC 5035 3), whole: exactly one ESSCertIDv2, and it names `certificate` (DER). */
struct fault tst_check_binding(struct op *op, struct span attribute, struct span certificate);

#endif
