/*
 * What a line of an export repeats from its record. The record is read as it must stand: canonical JSON with exactly
 * the members of api/projection/chain.h in their order leaves no choice, so nothing is parsed that could be read in two
 * ways, and nothing is allocated but texts with escapes in them. Pure; shared by the renderer and the verifier.
 */
#ifndef API_AUDIT_SHAPE_RECORD_H
#define API_AUDIT_SHAPE_RECORD_H

#include "api/audit/shape.h"
#include "appliance/base/clock.h"

struct audit_record {
    struct span roles[OP_ROLES_MAX];
    size_t role_count;
    struct span subject, event_id, lane, tenant_id, time, trace_id, type; /* unescaped */
    struct span data;                                                     /* as it stands */
    int64_t schema_version, sequence;
    utc_us at; /* = time */
};
/* Borrows from `bytes` and, where something was escaped, from the arena. *ret_wrong, where not NULL, gets the name of
 * the first member that is not as it must be. BAD_ARGUMENT, NO_MEMORY. */
struct fault audit_record_read(struct arena *arena, struct span bytes, struct audit_record *ret_record,
                               const char **ret_wrong);

#endif
