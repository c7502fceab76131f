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
    utc_us at;             /* the certificates must be valid at this time, too; 0 = at the stated one only */
};

/* Why a stamp is not believed: the first thing that did not hold. */
enum tst_reason {
    TST_HOLDS,
    TST_MALFORMED,   /* neither response nor token, or not DER */
    TST_NOT_GRANTED, /* the authority refused */
    TST_NO_ROOT,     /* nothing was pinned, or no certificate was in it */
    TST_SIGNER,      /* not one signer, or its certificate is not at hand */
    TST_ALGORITHM,   /* digest or signature algorithm */
    TST_BINDING,     /* not exactly one ESSCertIDv2, or of another certificate */
    TST_SIGNATURE,   /* of the token */
    TST_CERTIFICATE, /* not for time stamping alone, or no path to a pinned root that was valid at the time */
    TST_DIGEST,      /* something else was stamped */
    TST_NONCE,       /* another request was answered */
    TST_REASON_COUNT
};
const char *tst_reason_text(enum tst_reason reason); /* "malformed", "not_granted" ... */

/* What a TimeStampResp or a bare TimeStampToken says, believed or not: structure only. TST_INVALID. */
struct fault tst_inspect(struct op *op, struct span der, struct tst_info *ret_info);

/* All of it: granted; exactly one signer; signature and message digest; bound to its certificate by exactly one
 * ESSCertIDv2; that certificate for time stamping only (critical) and valid, with its chain to a pinned root, at the
 * stated time; imprint (and nonce) as expected. TST_INVALID and a detail that says which of these failed. */
struct fault tst_verify(struct op *op, struct span der, const struct tst_expect *expect, struct tst_info *ret_info);
/* The same; *reason says what it failed at, also after a fault (TST_HOLDS with any but TST_INVALID). */
struct fault tst_judge(struct op *op, struct span der, const struct tst_expect *expect, struct tst_info *ret_info,
                       enum tst_reason *reason);

/* ---- verify_status.c: what else there is to look at ---- */

enum tst_kind { TST_KIND_NONE, TST_KIND_QUERY, TST_KIND_REPLY, TST_KIND_TOKEN };
enum tst_kind tst_kind_of(struct span der); /* by its first members only */

/* PKIStatusInfo of a response. */
struct tst_status {
    uint64_t status;     /* 0 granted, 1 granted with modifications, 2 rejection ... */
    const char *text;    /* the authority's words, unchecked; NULL = none */
    const char *failure; /* "badAlg" ...; "unknown" for a bit without a name; NULL = none */
};
struct fault tst_status_of(struct op *op, struct span der, struct tst_status *ret_status); /* TST_INVALID */

/* What a TimeStampReq asks. */
struct tst_query {
    const char *hash; /* "sha256", or the dotted object identifier of another one */
    struct span imprint, nonce;
    const char *policy; /* dotted; NULL = none named */
    bool certificate_wanted, extensions;
};
/* TSA_BAD_FORMAT and TSA_BAD_REQUEST, as the authority would answer. */
struct fault tst_query_of(struct op *op, struct span der, struct tst_query *ret_query);

/* The request that asks for such a stamp, DER: with certReq, and the nonce where `nonce` (INTEGER body) is not empty.
 */
struct fault tst_request(struct op *op, const char *hash, struct span digest, struct span nonce, struct span *ret_der);

#endif
