/* What operators and the reconciliation at start need to know of the effects that keys queue (outbox.h). */
#include "api/keys/internal.h"

static const struct sql SQL_ERASE_OWED = {
    "keys_erase_owed",
    "SELECT 1::bigint FROM svc.managed_keys WHERE tenant_id = $1 AND key_id = $2 AND state = 'destroyed'"
    " AND erased_us IS NULL",
    2,
};
/* Whatever event ended the key, it is of that moment. */
static const struct sql SQL_ERASE_MISSING = {
    "keys_erase_missing",
    "SELECT k.key_id, a.stream_seq, 0::bigint FROM svc.managed_keys k JOIN svc.audit_records a"
    " ON a.tenant_id = k.tenant_id AND a.time_us = k.destroyed_us WHERE k.tenant_id = $1 AND $2::bigint = 0"
    " AND k.state = 'destroyed' AND k.erased_us IS NULL AND NOT EXISTS (SELECT FROM svc.outbox o"
    " WHERE o.tenant_id = $1 AND o.destination = '" KEYS_DESTINATION_ERASE "' AND o.key = k.key_id) LIMIT 1000",
    2,
};
static const struct sql SQL_RETIRE_OWED = {
    "keys_retire_owed",
    "SELECT 1::bigint FROM svc.managed_keys WHERE tenant_id = $1 AND key_id = $2 AND state = 'retiring'",
    2,
};
/* When its overlap began is not in the row: the events of that kind since the key was made. */
static const struct sql SQL_RETIRE_MISSING = {
    "keys_retire_missing",
    "SELECT k.key_id, a.stream_seq, 0::bigint FROM svc.managed_keys k JOIN svc.audit_records a"
    " ON a.tenant_id = k.tenant_id AND a.type IN ('key.retiring', 'key.activated') AND a.time_us >= k.created_us"
    " WHERE k.tenant_id = $1 AND $2::bigint = 0 AND k.state = 'retiring' AND NOT EXISTS (SELECT FROM svc.outbox o"
    " WHERE o.tenant_id = $1 AND o.destination = '" KEYS_DESTINATION_RETIRE "' AND o.key = k.key_id)"
    " ORDER BY k.key_id, a.sequence DESC LIMIT 1000",
    2,
};

const struct outbox_upkeep keys_erase_upkeep = {
    .owed = &SQL_ERASE_OWED,
    .missing = &SQL_ERASE_MISSING,
    .closed = "the token has confirmed that the key is gone",
};
const struct outbox_upkeep keys_retire_upkeep = {
    .owed = &SQL_RETIRE_OWED,
    .missing = &SQL_RETIRE_MISSING,
    .closed = "the key's overlap has ended",
};
