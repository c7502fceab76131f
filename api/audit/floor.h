/* Where the served view of a tenant's audit trail begins (archive.h): behind the last checkpoint. Every query of
 * records that goes to a caller asks here; what is archived is still in the read model, for chains, trees and rebuilds.
 */
#ifndef API_AUDIT_FLOOR_H
#define API_AUDIT_FLOOR_H

#include "api/store/store.h"

/* The last sequence that is archived; 0 = none. */
struct fault audit_floor(struct op *op, struct tx *tx, int64_t *ret_floor);
/* AUDIT_ARCHIVED, naming the archive's file, when the record of that sequence is no longer served. field: the parameter
 * that asked for it; "" = none. */
struct fault audit_check_served(struct op *op, struct tx *tx, int64_t sequence, const char *field);

#endif
