/*
 * The state partition: always LUKS2 (AES-256-XTS), and who can open it. Its volume key opens by
 *   keyslot 0   the machine: 64 random bytes that the TPM gives out (mode tpm2: while PCR 7, who may boot, is as it
 * was; tpm2+pin: and with the PIN), or the PIN alone (pin, argon2id), or 64 random bytes that lie in the header beside
 * it (none: encrypted, but whoever has the disk has the key; seal_text says so) keyslot 1   the recovery key: 160
 * random bits, shown once when the state is made, in every mode What belongs to keyslot 0 is a token in the LUKS2
 * header. A second token says that the state was made to its end; until then it holds nothing, and is made anew.
 *
 * `name` NULL opens nothing and only proves the key, without device-mapper. Not thread-safe.
 */
#ifndef APPLIANCE_SEAL_SEAL_H
#define APPLIANCE_SEAL_SEAL_H

#include "appliance/base/op.h"
#include "appliance/base/secret.h"

#define SEAL_TPM_DEVICE    "device:/dev/tpmrm0" /* tcti of a machine; tests have others */
#define SEAL_PIN_MIN       6
#define SEAL_PIN_MAX       128
/* "ABCD-EFGH-..." with its NUL. */
#define SEAL_RECOVERY_TEXT 40

enum seal_mode { SEAL_TPM2, SEAL_TPM2_PIN, SEAL_PIN, SEAL_NONE };
const char *seal_mode_text(enum seal_mode mode); /* "tpm2", "tpm2+pin", "pin", "none" */
/* What it means, in one plain sentence. */
const char *seal_mode_meaning(enum seal_mode mode);
/* Does it take a person with a PIN to open it? */
bool seal_mode_has_pin(enum seal_mode mode);

enum seal_content {
    SEAL_EMPTY,      /* nothing: its first and last MiB are zeros */
    SEAL_UNFINISHED, /* ours, but never made to its end */
    SEAL_COMPLETE,
    SEAL_FOREIGN, /* something else: never overwritten */
};
struct seal_look {
    enum seal_content content;
    enum seal_mode mode; /* of a COMPLETE one */
};
struct fault seal_look(struct op *op, const char *device, struct seal_look *ret_look);

/* Is there a TPM that seals to PCR 7? *ret_measured: the firmware measured something into it. */
bool seal_tpm_usable(struct op *op, const char *tcti, bool *ret_measured);

struct seal_request {
    const char *device;
    enum seal_mode mode;
    const char *tcti;         /* for the modes with a TPM */
    const struct secret *pin; /* for the modes with a PIN */
};
/* Makes the state's header anew: whatever was there is lost. The caller opens it, fills it, shows the recovery key, and
 * calls seal_finish. */
struct fault seal_create(struct op *op, const struct seal_request *request, struct secret **ret_recovery);
struct fault seal_finish(struct op *op, const char *device);

struct seal_key {
    const char *tcti;
    struct span typed; /* PIN or recovery key, as typed; empty = none */
};
/* Opens it as /dev/mapper/NAME. *ret_recovered: the recovery key did it. UNSEAL with what to do: no or a wrong PIN, the
 * TPM refuses (its PCR 7 has another value), TPM locked out, wrong recovery key. */
struct fault seal_open(struct op *op, const char *device, const char *name, const struct seal_key *key,
                       bool *ret_recovered);
/* After seal_open by the recovery key, in the modes with a TPM: keyslot 0 anew, sealed to what the machine is now.
 * `pin` for SEAL_TPM2_PIN. */
struct fault seal_renew(struct op *op, const char *device, const struct seal_key *recovery, const struct secret *pin);

/* The recovery key as people read it. `typed` with any blanks and dashes, in either case: BAD_ARGUMENT when it is no
 * recovery key. The secret is the canonical form (32 characters). */
struct fault seal_recovery_new(struct secret **ret_recovery);
struct fault seal_recovery_parse(struct span typed, struct secret **ret_recovery);
void seal_recovery_print(const struct secret *recovery, char ret_text[SEAL_RECOVERY_TEXT]);

#endif
