/* CRC-32C (Castagnoli, RFC 3720 B.4): finds torn and rotten records of the journal. Not a MAC. */
#ifndef SIGNER_BROKER_CRC32C_H
#define SIGNER_BROKER_CRC32C_H

#include "appliance/base/bytes.h"

/* Continues `crc` (0 at the start) over `bytes`: crc32c(crc32c(0, a), b) is the CRC of a and b together. */
uint32_t crc32c(uint32_t crc, struct span bytes);

#endif
