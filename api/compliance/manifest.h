/*
 * The manifest of an evidence pack: facts and verdicts as canonical JSON (RFC 8785), which is what is signed. Pure: the
 * same facts and verdicts give the same bytes; the only times in it that are not facts are those of the window and
 * generated_at. docs/compliance.md describes every member; verify.h reads it back, strictly.
 */
#ifndef API_COMPLIANCE_MANIFEST_H
#define API_COMPLIANCE_MANIFEST_H

#include "api/compliance/internal.h"
#include "api/compliance/verify.h"

/* Appended to `out`, which has room for EVIDENCE_MANIFEST_MAX. COMPLIANCE_SIZE when that is too little. */
struct fault manifest_print(struct op *op, const struct evidence *evidence, const struct framework_verdict *verdict,
                            utc_us generated_at, struct buf *out);

#endif
