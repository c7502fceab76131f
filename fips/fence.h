/*
 * Post-quantum signatures behind a fence: ML-DSA-65 (FIPS 204, pure, empty context) of OpenSSL's default provider, in
 * an OSSL_LIB_CTX of its own. Nothing approved is ever fetched from that context, and nothing of it is part of an
 * approved-mode claim. The fence opens only where the configuration says features.pqc and FIPS is not required; where
 * FIPS is required not even a verdict comes through, since a process that claims approved mode would be believed for
 * it.
 *
 * fence_start makes the context and runs the known-answer test; call it once, after fips_start and before threads. All
 * else answers ALGORITHM_FENCED (FIPS is required) or PQC_DISABLED (the feature is off, or nobody opened the fence),
 * and is thread-safe.
 */
#ifndef FIPS_FENCE_H
#define FIPS_FENCE_H

#include "appliance/base/config.h"
#include "appliance/base/op.h"

#define ML_DSA_65_SEED_LEN      32
#define ML_DSA_65_SPKI_LEN      1974
#define ML_DSA_65_SIGNATURE_LEN 3309

enum fence { FENCE_OFF, FENCE_FIPS, FENCE_OPEN }; /* FIPS: closed, because FIPS is required */
enum fence fence_of(const struct config *config);

/* CRYPTO or FIPS_SELF_TEST, and `detail` gets one line: the program must end. */
struct fault fence_start(enum fence fence, struct buf *detail);
/* May ML-DSA be used in this process? With op's note (op may be NULL). */
struct fault fence_check(struct op *op);
/* What everybody is told about such a key or signature. */
#define FENCE_NOTE                                                                                             \
    "ML-DSA-65 runs outside the FIPS module and its private key outside the token's own mechanisms: keys and " \
    "signatures of it are no part of an approved-mode claim."

/* The public key (PKIX DER) of a private key, which is given as its seed. */
struct fault ml_dsa_65_public(struct op *op, struct span seed, struct buf *spki);
/* Hedged: the same message gives another signature each time. CRYPTO also when `spki` is not the seed's public key. The
 * expanded key is in OpenSSL's memory during the call only, and wiped by it. */
struct fault ml_dsa_65_sign(struct op *op, struct span seed, struct span spki, struct span message,
                            struct buf *signature);
/* SIGNATURE_INVALID; BAD_ARGUMENT when the public key is none of ML-DSA-65. */
struct fault ml_dsa_65_verify(struct op *op, struct span spki, struct span message, struct span signature);
/* Has it the form of an ML-DSA-65 public key? Asks no cryptography, so it answers behind a closed fence too. */
bool ml_dsa_65_is_spki(struct span spki);

#endif
