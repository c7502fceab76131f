/*
 * The offline verifier of evidence packs and generated reports: pure, part of libsvc-verify.a; no clock, no network,
 * no store. It believes nothing but the pinned key: the JWS verifies under it, its payload is canonical and is the
 * manifest copy, the convenience copies equal what the manifest holds, the answer has exactly its seven members, and
 * the manifest agrees with itself: verdicts with their prerequisites, counts with what they sum up, references with
 * the window. The first thing that does not hold is named by a closed code (verify_reason.def) and the member.
 *
 *     CLEANUP(op_freep) struct op *op = NULL;
 *     TRY(evidence_verify_op(bytes.len, &op));
 *     struct evidence_pins pins = { .keys = &keys, .tsa_roots = root };
 *     struct evidence_verdict verdict;
 *     struct fault fault = evidence_verify(op, bytes, &pins, &verdict);
 *
 * What it cannot tell: whether the references exist in the audit trail (an export of the trail, verified, does), and
 * whether an auditor finds them sufficient.
 */
#ifndef API_COMPLIANCE_VERIFY_H
#define API_COMPLIANCE_VERIFY_H

#include "appliance/base/op.h"
#include "fips/jws.h"

#define EVIDENCE_PACK_FORMAT     "svc.compliance.evidence-pack.v5"
#define EVIDENCE_MANIFEST_FORMAT "svc.compliance.manifest.v5"
#define EVIDENCE_REPORT_FORMAT   "svc.compliance.report.v1"
#define EVIDENCE_TYP             "svc-evidence+jws"
#define EVIDENCE_REPORT_TYP      "svc-report+jws"
#define EVIDENCE_JWS_ALG         "ES256"

#define EVIDENCE_MANIFEST_MAX ((size_t)24 << 20)
#define EVIDENCE_JWS_MAX      ((size_t)33 << 20) /* base64url of it, header and signature */
#define EVIDENCE_PACK_MAX     ((size_t)80 << 20) /* manifest, JWS and the convenience copies */

enum evidence_reason {
#define REASON_ROW(symbol, text, what) PACK_##symbol,
#include "api/compliance/verify_reason.def"
#undef REASON_ROW
    PACK_REASON_COUNT
};
const char *evidence_reason_text(enum evidence_reason reason);  /* "manifest_copy_differs" */
const char *evidence_reason_title(enum evidence_reason reason); /* one sentence */

/* What a pack is judged by. */
struct evidence_pins {
    const struct jwk_set *keys; /* of purpose evidence-pack, pinned earlier */
    struct span tsa_roots;      /* PEM; empty = none: a time stamp is then not judged. With it, one must be there */
};

enum evidence_kind { EVIDENCE_KIND_PACK, EVIDENCE_KIND_REPORT };

struct evidence_verdict {
    enum evidence_kind kind;
    enum evidence_reason reason; /* PACK_HOLDS when all is well */
    char member[128];            /* JSON pointer of what does not hold; "" = the file as a whole */
    char why[320];               /* in words */
    const char *kid;             /* of the pinned key that verified; NULL = none did. In op's arena, as what follows */
    struct span payload;         /* what is signed, canonical: set when the signature held */
    struct sha256 digest;        /* of it */
    const char *tenant, *framework, *generated_at, *report_type; /* NULL = not known */
    int64_t controls, evidenced, gaps, gaps_open;                /* of a pack; gaps: left to operator and auditor */
    bool timestamp_there, timestamp_good;
    utc_us timestamp_at;
    const char *timestamp_signer;
};

/* An operation whose arena has room for a file of `size` bytes. */
struct fault evidence_verify_op(size_t size, struct op **ret_op);
/* A pack, or a generated report. OK only when everything holds; else EVIDENCE_REFUSED, and *ret_verdict, which is
 * filled in any case as far as it came, says what. NO_MEMORY and TOO_LARGE (of the arena) are no judgement. */
struct fault evidence_verify(struct op *op, struct span bytes, const struct evidence_pins *pins,
                             struct evidence_verdict *ret_verdict);

/* A public key, PEM or DER (SubjectPublicKeyInfo), as a set of one without a window. JWS_FORMAT with a note. */
struct fault evidence_key(struct op *op, struct span bytes, struct jwk_set *ret_set);

#endif
