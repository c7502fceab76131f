/*
 * Offline verification of RFC 3161 time stamps, for svc-cli: needs base and OpenSSL only, no network and no clock. The
 * certificates are judged at the time that the token states. Not thread-bound; everything lives in op's arena.
 *
 *     struct tst_expect expect = { .hash = "sha256", .digest = digest, .roots_pem = root };
 *     struct tst_info info;
 *     TRY(tst_verify(op, response, &expect, &info));      -- info.time is now worth something
 */
#ifndef API_TSA_VERIFY_H
#define API_TSA_VERIFY_H

#include "appliance/base/op.h"

struct tst_info {
    utc_us time;
    int64_t accuracy_us;     /* 0: not stated */
    const char *serial;      /* hex, as `openssl ts` prints it: "0x01AB" */
    const char *policy;      /* dotted */
    const char *hash;        /* "sha256" */
    struct span imprint;     /* the digest that was stamped */
    struct span nonce;       /* INTEGER body; empty = none */
    const char *signer;      /* subject of the certificate that signed; NULL when the token does not carry it */
    struct span certificate; /* DER; empty likewise */
};

struct tst_expect {
    const char *hash;      /* "sha256", "sha384" or "sha512" */
    struct span digest;    /* what must have been stamped */
    struct span nonce;     /* INTEGER body that was sent; empty = do not compare */
    struct span roots_pem; /* pinned roots: one or more CERTIFICATE blocks; nothing else is trusted */
    struct span extra_pem; /* further certificates for a token without its own (certReq was not set); may be empty */
};

/* What a TimeStampResp or a bare TimeStampToken says, believed or not: structure only. TST_INVALID. */
struct fault tst_inspect(struct op *op, struct span der, struct tst_info *ret_info);

/* All of it: granted; exactly one signer; signature and message digest; bound to its certificate by exactly one
 * ESSCertIDv2; that certificate for time stamping only (critical) and valid, with its chain to a pinned root, at the
 * stated time; imprint (and nonce) as expected. TST_INVALID and a detail that says which of these failed. */
struct fault tst_verify(struct op *op, struct span der, const struct tst_expect *expect, struct tst_info *ret_info);

/* The request that asks for such a stamp, DER: with certReq, and the nonce where `nonce` (INTEGER body) is not empty.
 */
struct fault tst_request(struct op *op, const char *hash, struct span digest, struct span nonce, struct span *ret_der);

#endif
