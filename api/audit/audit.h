/* The audit trail as a feature: pages of records, the signed export, the keys that verify it. Records and chain are
 * written by the projector (api/projection); here they are only read. */
#ifndef API_AUDIT_AUDIT_H
#define API_AUDIT_AUDIT_H

#include "api/feature.h"

extern const struct feature audit_feature;
extern const struct feature audit_archive_feature; /* archive.h */
extern const struct feature audit_proof_feature;   /* proof.h */

/* Signs a statement about the tenant's trail with the key that signs its exports: a compact JWS of this typ, appended.
 */
struct fault audit_sign(struct op *op, struct services *services, const char *typ, struct span payload,
                        struct buf *compact);

#endif
