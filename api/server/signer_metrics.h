/*
 * What svc-signer says of itself (signer-pkcs11/protocol/health.h) as metrics of this process, and as a word for
 * /readyz. The signer's counters begin anew with each of its processes: a sample in which one of them is smaller than
 * before is of another process, and all of it is added; so the sums here never go back. Thread-safe.
 */
#ifndef API_SERVER_SIGNER_METRICS_H
#define API_SERVER_SIGNER_METRICS_H

#include "api/services.h"
#include "appliance/base/json.h"

extern const struct metric signer_metrics[];
extern const size_t signer_metric_count;

/* One sample; NULL: the signer does not answer, and what it holds is not known. */
void signer_metrics_take(struct metrics *metrics, const struct signer_health *health);
/* A new sample: a worker row, so that a signer that dies between two scrapes takes little with it. */
struct fault signer_metrics_sample(struct op *op, struct services *services);

/* How the signer counts: "ok", "degraded" (it signs, a part of it does not), "journal_unusable" (what must be
 * journalled is not signed) or "down" (the first token, which everything needs, or all of them). Pure. */
const char *signer_word(const struct signer_health *health);
/* The member "signer" of /readyz when something is wrong with it: state, journal and tokens with their causes. */
void signer_print_state(struct jout *jout, const struct signer_health *health);

#endif
