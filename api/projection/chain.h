/* The hash chain over audit records: one definition, used by the projector, the exporter and the offline verifier. */
#ifndef API_PROJECTION_CHAIN_H
#define API_PROJECTION_CHAIN_H

#include "api/events/events.h"

/* The audit record of an event, as hashed: canonical JSON with exactly the fields
 *   actor {roles[], subject}, data, event_id, lane, schema_version, sequence, tenant_id, time, trace_id, type
 * chain(n) = SHA-256("svc.audit.chain.v1" 0x00, chain(n-1), record bytes); chain(0) = 32 zero bytes.
 * The offline verifier uses the same two functions. */
struct fault audit_record_bytes(const struct event_view *event, int64_t sequence, struct buf *out);
struct fault audit_chain_next(const struct sha256 *previous, struct span record, struct sha256 *ret_next);

#endif
