/*
 * What the tenant has: certificates and who keeps their keys, owners of credentials, access reviews, observations of
 * AD CS by authenticated collectors, operator attestations, the cryptographic bill of materials and the
 * crypto-readiness dataset. Facts come in as events (lane "inventory") or from what the product itself does (keys,
 * tokens, units of time stamping); what was not recorded is absent, never guessed.
 */
#ifndef API_INVENTORY_INVENTORY_H
#define API_INVENTORY_INVENTORY_H

#include "api/feature.h"
#include "api/inventory/fact.h"
#include "api/services.h"

extern const struct feature inventory_feature;        /* certificates, custody, owners, access reviews */
extern const struct feature inventory_adcs_feature;   /* AD CS observations and drift */
extern const struct feature inventory_crypto_feature; /* readiness, bill of materials, attestations, editions */

enum inventory_fact_state { INVENTORY_ABSENT, INVENTORY_HOLDS, INVENTORY_FAILS, INVENTORY_MALFORMED };
struct inventory_statement {
    enum inventory_fact_state state;
    const char *object; /* "custody-summary:default" */
    const char *why;    /* one sentence with numbers */
    int64_t total, matched;
};
/* All of them, indexed by enum inventory_fact, of op's tenant as of `tx` (a read-only snapshot) and `now`: texts in
 * op's arena. Those of process posture (FIPS, clock, log) come from `services`. facts.c asks the three families below.
 */
struct fault inventory_facts(struct op *op, struct services *services, struct tx *tx, utc_us now,
                             struct inventory_statement ret_statements[INVENTORY_FACT_COUNT]);
/* Their parts: each sets its own facts and leaves the others. */
struct fault inventory_credential_facts(struct op *op, struct services *services, struct tx *tx, utc_us now,
                                        struct inventory_statement *statements);
struct fault inventory_adcs_facts(struct op *op, struct services *services, struct tx *tx, utc_us now,
                                  struct inventory_statement *statements);
struct fault inventory_crypto_facts(struct op *op, struct services *services, struct tx *tx, utc_us now,
                                    struct inventory_statement *statements);

/* The datasets of an evidence pack, each one JSON object (canonical order of members: print them in alphabetical
 * order), written as a value into `out`. Same facts, same bytes. */
/* Custody, counts of the bill of materials, and the crypto-readiness dataset: of one walk over all there is. */
struct fault inventory_assets_print(struct op *op, struct services *services, struct tx *tx, struct jout *custody,
                                    struct jout *cbom, struct jout *readiness);
struct fault inventory_adcs_print(struct op *op, struct services *services, struct tx *tx, utc_us from, utc_us to,
                                  struct jout *out);

/* The newest attestation of each statement, not withdrawn; texts in op's arena. */
struct inventory_attestation {
    const char *statement, *attestation_id, *event_id, *event_type;
    int64_t sequence; /* audit sequence of its event */
    utc_us made, expires;
    struct sha256 chain;
    const char *evidence_sha256;
};
struct fault inventory_attestations(struct op *op, struct tx *tx, const struct inventory_attestation **ret_attestations,
                                    size_t *ret_count);
/* Counts for the inventory report, as members of the object that is open in `out`. */
struct fault inventory_counts_print(struct op *op, struct services *services, struct tx *tx, struct jout *out);

#endif
