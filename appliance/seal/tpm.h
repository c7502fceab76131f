/*
 * Sealing to a TPM 2.0: up to 64 bytes that this TPM gives out only while PCR 7 of its SHA-256 bank has the value that
 * it had, and, if there is an authorisation value, to who knows that. The object is a child of the standard ECC storage
 * key, which is made anew from the TPM's own seed each time, so that nothing stays in the TPM; what comes back of it is
 * encrypted on its way (a session salted with that key). Guesses of the authorisation count against the TPM's lockout.
 */
#ifndef APPLIANCE_SEAL_TPM_H
#define APPLIANCE_SEAL_TPM_H

#include "appliance/base/op.h"

#define TPM_SEALED_MAX 64
#define TPM_AUTH_MAX   32
#define TPM_BLOB_MAX   1024

struct tpm;

/* tcti: "device:/dev/tpmrm0", "swtpm:path=...". UNSUPPORTED when there is none or it cannot do this. */
struct fault tpm_open(struct op *op, const char *tcti, struct tpm **ret_tpm);
void tpm_free(struct tpm *tpm);
DEFINE_FREEP(struct tpm, tpm_free)

/* The value of PCR 7 (32 bytes); UNSUPPORTED when the TPM has no SHA-256 bank. */
struct fault tpm_pcr7(struct op *op, struct tpm *tpm, uint8_t ret_value[32]);
/* `auth` may be empty. The blobs: TPM2B_PUBLIC and TPM2B_PRIVATE as the TPM marshals them, at most TPM_BLOB_MAX each.
 */
struct fault tpm_seal(struct op *op, struct tpm *tpm, struct span bytes, struct span auth, struct buf *public_blob,
                      struct buf *private_blob);
/* UNSEAL: PCR 7 has another value, wrong authorisation, locked out, or the object is another TPM's. */
struct fault tpm_unseal(struct op *op, struct tpm *tpm, struct span public_blob, struct span private_blob,
                        struct span auth, struct buf *ret_bytes);

#endif
