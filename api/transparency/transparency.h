/*
 * Publication of signatures in transparency logs. The logs stand in a YAML file
 * (code_signing.transparency.logs_file), read at start; without a pinned key the start fails.
 *
 *     logs:
 *       - name: rekor
 *         kind: rekor-v1                  # or rekor-v2
 *         tenants: [default]              # optional; else every tenant
 *         url: https://rekor.example.com
 *         ca_file: /path                  # optional: who may have issued the URL's HTTPS certificate
 *         keys:                           # the log's keys, each with the time in which it signs
 *           - file: /path/rekor.pub       # PEM
 *             valid_from: 2026-01-01T00:00:00Z
 *             valid_until: 2027-01-01T00:00:00Z        # optional
 *         origin: "rekor.example.com - 123"            # optional: what a checkpoint must name
 *         from: 2026-01-01T00:00:00Z      # optional window in which new entries go to this log
 *         until: 2027-01-01T00:00:00Z
 *
 * https:// addresses, or http:// of this machine. Keys: EC P-256, EC P-384, Ed25519. A Rekor v2's origin is its address
 * without the scheme, if nothing else is said. A tenant's logs have different addresses.
 *
 * A signing is published in the one log of its tenant whose window is open; with several, the last one in the file.
 * codesign.completed queues the row of destination transparency.tlog; the worker submits, verifies what came back
 * (entry binds digest, signature and key; signed-entry timestamp or checkpoint under a pinned key; inclusion proof) and
 * records it as evidence: transparency.published. verify.h is the offline half.
 *
 *     pending -> published   the entry was verified and recorded
 *     pending -> failed      the log refused it (400 and the like), or its answer does not verify: for good
 *
 * A log that cannot be reached or is busy is asked again for a week, at most a minute apart; one that is down is asked
 * by one for all who wait. What the log has already (409) is fetched, verified and recorded like a new entry, so a
 * crash anywhere leaves one entry and one event.
 */
#ifndef API_TRANSPARENCY_TRANSPARENCY_H
#define API_TRANSPARENCY_TRANSPARENCY_H

#include "api/feature.h"
#include "api/services.h"
#include "signer-pkcs11/protocol/key.h"

extern const struct feature transparency_feature;

#define TRANSPARENCY_DESTINATION "transparency.tlog"
#define TRANSPARENCY_NONE        "none" /* no log is configured for the tenant */

/* Where a signing of op's tenant accepted at `now` would be published: "rekor-v1:https://rekor.example.com", or
 * TRANSPARENCY_NONE. TLOG_UNSUPPORTED when that log does not take this kind of signature (told at preview, not at
 * publication). No network. The text lives as long as the service. */
struct fault transparency_plan(struct op *op, struct services *services, enum key_algorithm algorithm,
                               enum sign_scheme scheme, enum hash_algorithm hash, utc_us now,
                               const char **ret_destination);

/* What is published. */
struct transparency_item {
    const char *operation_id;
    const char *destination;      /* as planned */
    const char *digest_algorithm; /* "sha256" */
    const char *signature_scheme; /* "ecdsa" ... */
    struct span digest, signature;
    struct span spki;        /* PKIX DER; of the certificate's key when there is one */
    struct span certificate; /* DER leaf of a keyless signing; empty otherwise */
};
/* Called by the projection of codesign.completed: queues the outbox row; nothing for TRANSPARENCY_NONE. */
struct fault transparency_queue(struct projection *projection, const struct transparency_item *item);

/* The evidence of an operation, as JSON for an answer: {"state": "pending" | "published" | "failed", "log",
 * "queued_at", "ended_at"?, "failure_code"?}, and once published "log_id" (hex), "log_index", "integrated_at"? (not
 * where the log signs no time), "entry_id" and "entry": a Sigstore TransparencyLogEntry, as bundles have it. Empty span
 * when nothing is to be published. In op's arena. No transaction may be open. */
struct fault transparency_evidence(struct op *op, struct services *services, struct uuid operation_id,
                                   struct span *ret_json);

/* "tlogs" of a Sigstore trusted root: a JSON array of TransparencyLogInstance for op's tenant. */
struct fault transparency_trust(struct op *op, struct services *services, struct jout *jout);
/* 64 hex digits over the tenant's logs as configured: part of a preview's configuration. */
struct fault transparency_digest(struct op *op, struct services *services, char ret_text[65]);

#endif
