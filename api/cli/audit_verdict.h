/* Showing what the verifier of audit exports found: JSON for programs, lines for people. */
#ifndef API_CLI_AUDIT_VERDICT_H
#define API_CLI_AUDIT_VERDICT_H

#include "api/audit/verify.h"
#include "appliance/base/json.h"

/* One object. */
void verdict_put(struct jout *jout, const char *file, const struct audit_verdict *verdict, struct fault fault);
void verdict_show(const char *file, const struct audit_verdict *verdict);
/* On stderr. */
void verdict_refuse(const char *file, const struct audit_verdict *verdict, struct fault fault);

/* On stdout, whole. `refused`: which of the two the fault is about, or -1. */
struct fault comparison_put(const char *const files[2], const struct audit_comparison *comparison, struct fault fault,
                            int refused);
void comparison_show(const char *const files[2], const struct audit_comparison *comparison);

#endif
