/* What a return value of Cryptoki means here: a row of signer-pkcs11/token/ckr.def. */
#ifndef SIGNER_DOCTOR_EXPLAIN_H
#define SIGNER_DOCTOR_EXPLAIN_H

#include "signer-pkcs11/doctor/doctor.h"

#include <stdbool.h>

/* `code`: a name with or without CKR_, or a number (0x30, 48); NULL = all rows. DOCTOR_USAGE: it is none. */
enum doctor_verdict explain_print(const char *code, bool json);

#endif
