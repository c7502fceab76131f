/*
 * The offline verifier of evidence packs and generated reports: pure, part of libsvc-verify.a. It believes nothing but
 * the pinned key: the JWS verifies under it, its payload is the manifest copy byte for byte in canonical form, the
 * convenience copies equal what the manifest holds, the answer has exactly its seven members, verdicts agree with the
 * prerequisites that they list. (Filled by its owner.)
 */
#ifndef API_COMPLIANCE_VERIFY_H
#define API_COMPLIANCE_VERIFY_H

#include "appliance/base/op.h"

#endif
