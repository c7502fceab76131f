/*
 * Sigstore bundles of signatures over files (v0.3 written; v0.1 to v0.3 read): a signature with all that it takes to
 * check it without asking anybody. What is read is believed only after bundle_verify. Everything lives in op's arena.
 *
 *     struct bundle bundle;
 *     TRY(bundle_parse(op, bytes, &bundle));
 *     struct bundle_verdict verdict;
 *     TRY(bundle_verify(op, &bundle, &expect, &verdict));
 */
#ifndef API_CLI_BUNDLE_H
#define API_CLI_BUNDLE_H

#include "api/cli/trusted_root.h"
#include "api/cli/view.h"
#include "api/codesign/verify.h"
#include "api/transparency/verify.h"

#define BUNDLE_MAX         ((size_t)4 << 20)
#define BUNDLE_ENTRIES_MAX 8
#define BUNDLE_STAMPS_MAX  8
#define BUNDLE_TYPE        "application/vnd.dev.sigstore.bundle.v0.3+json"

struct bundle {
    struct chain chain; /* of the signer; empty = a plain public key */
    const char *hint;   /* of that key; NULL = none */
    struct tlog_entry entries[BUNDLE_ENTRIES_MAX];
    size_t entry_count;
    struct span stamps[BUNDLE_STAMPS_MAX]; /* RFC 3161 responses over the signature */
    size_t stamp_count;
    const char *hash; /* "sha256", "sha384" or "sha512" */
    struct span digest, signature;
};

/* BUNDLE_INVALID with what is wrong; unknown members are passed over. */
struct fault bundle_parse(struct op *op, struct span json, struct bundle *ret_bundle);
/* Is the verifier that an entry names a certificate? (Else it is a public key.) */
bool bundle_entry_has_certificate(struct op *op, const struct tlog_entry *entry);
/* v0.3. BAD_ARGUMENT for a hash that has no name there. */
struct fault bundle_print(const struct bundle *bundle, struct buf *out);
/* "SHA2_256" for "sha256"; NULL for what has no name there. */
const char *bundle_hash_name(const char *hash);
/* What a verifier below said, with the place in the bundle in front of it, as a refusal of the bundle. */
struct fault bundle_refuse_at(struct op *op, const char *place, size_t number, struct fault fault);
/* The hint for a public key (PKIX DER): base64 of its SHA-256. */
struct fault bundle_hint(struct op *op, struct span spki, const char **ret_hint);

struct bundle_expect {
    struct span digest;              /* of the file, by the bundle's hash */
    const struct trusted_root *root; /* NULL = none is pinned */
    struct span key;                 /* pinned public key (PKIX DER); empty = the certificate's */
    const char *identity, *issuer;   /* required without a pinned key */
    bool no_transparency;            /* do without entries of a log */
};
struct bundle_verdict {
    const char *scheme;
    char key_text[64];
    struct identity identity; /* zero with a pinned key */
    utc_us times[BUNDLE_ENTRIES_MAX + BUNDLE_STAMPS_MAX];
    size_t time_count; /* when it was signed at the latest, by proven testimony */
    size_t entries_verified, stamps_verified;
};
/*
 * All of it, offline: the digest is the file's; the signature verifies under the pinned key or the certificate's; every
 * entry and every time stamp of the bundle verifies under the trusted root, which must have an entry when the root
 * names logs (unless no_transparency); the certificate names identity and issuer, and leads to an authority of the root
 * at every proven time, of which there must be one. With a pinned key and no root, entries and time stamps are left
 * unchecked (the verdict's counts say so). BUNDLE_INVALID, SIGNATURE_INVALID, TIMESTAMP_VALIDITY.
 */
struct fault bundle_verify(struct op *op, const struct bundle *bundle, const struct bundle_expect *expect,
                           struct bundle_verdict *ret_verdict);

#endif
