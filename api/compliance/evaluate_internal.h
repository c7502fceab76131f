/* Inside the evaluator only: one prerequisite of each kind (evaluate_prerequisite.c), all of them (evaluate.c). */
#ifndef API_COMPLIANCE_EVALUATE_INTERNAL_H
#define API_COMPLIANCE_EVALUATE_INTERNAL_H

#include "api/compliance/evaluate.h"

struct fault evaluate_event(struct op *op, const struct evidence_facts *facts, const struct gathering *gathering,
                            struct prerequisite_verdict *verdict);
struct fault evaluate_fact(struct op *op, const struct evidence_facts *facts, struct prerequisite_verdict *verdict);
struct fault evaluate_attestation(struct op *op, const struct evidence_facts *facts,
                                  struct prerequisite_verdict *verdict);

/* The newest attestation of a statement: the tenant's own before anybody else's; NULL = none. */
const struct evidence_attestation *attestation_find(const struct evidence_facts *facts, const char *statement);
/* Whether it counts at all: of the tenant, readable, not of the future, not at its end. MET is not yet a verdict on its
 * age. */
enum prerequisite_state attestation_state(const struct evidence_facts *facts,
                                          const struct evidence_attestation *attestation);

#endif
