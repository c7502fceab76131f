/* What operators and the reconciliation at start need to know of the effects that signings queue (outbox.h). */
#include "api/codesign/internal.h"

/* A piece is so many operations. The command of one that is cut in two is looked at all the same: it has one row. */
#define PIECE                                                                                                       \
    "WITH piece AS MATERIALIZED (SELECT made_seq, command_id, operation_id, mode, state, ended_us,"                 \
    " ephemeral_destroyed_us FROM svc.codesign_operations WHERE tenant_id = $1 AND made_seq > $2 ORDER BY made_seq" \
    " LIMIT 20000) SELECT '', 0::bigint, max(made_seq) FROM piece HAVING count(*) > 0 UNION ALL "

static const struct sql SQL_COMMAND_OWED = {
    "codesign_command_owed",
    "SELECT 1::bigint FROM svc.codesign_operations WHERE tenant_id = $1 AND command_id = $2 AND state = 'commanded'"
    " LIMIT 1",
    2,
};
static const struct sql SQL_COMMAND_MISSING = {
    "codesign_command_missing",
    PIECE "SELECT DISTINCT p.command_id, p.made_seq, 0::bigint FROM piece p WHERE p.state = 'commanded' AND NOT EXISTS"
          " (SELECT FROM svc.outbox o WHERE o.tenant_id = $1 AND o.destination = '" CODESIGN_COMMAND
          "' AND o.key = p.command_id)",
    2,
};
static const struct sql SQL_CLEANUP_OWED = {
    "codesign_cleanup_owed",
    "SELECT 1::bigint FROM svc.codesign_operations WHERE tenant_id = $1 AND operation_id = $2 AND mode = 'keyless'"
    " AND state IN ('completed', 'failed') AND ephemeral_destroyed_us IS NULL",
    2,
};
/* Its end is the event of that moment. */
static const struct sql SQL_CLEANUP_MISSING = {
    "codesign_cleanup_missing",
    PIECE "SELECT p.operation_id, a.stream_seq, 0::bigint FROM piece p JOIN svc.audit_records a ON a.tenant_id = $1"
          " AND a.time_us = p.ended_us AND a.type IN ('codesign.completed', 'codesign.failed')"
          " WHERE p.mode = 'keyless' AND p.state IN ('completed', 'failed') AND p.ephemeral_destroyed_us IS NULL"
          " AND NOT EXISTS (SELECT FROM svc.outbox o WHERE o.tenant_id = $1 AND o.destination = '" CODESIGN_CLEANUP
          "' AND o.key = p.operation_id)",
    2,
};

const struct outbox_upkeep codesign_command_upkeep = {
    .owed = &SQL_COMMAND_OWED,
    .missing = &SQL_COMMAND_MISSING,
    .closed = "the signing has ended, and its end was told to the caller: ask for it anew, with a new Idempotency-Key",
};
const struct outbox_upkeep codesign_cleanup_upkeep = {
    .owed = &SQL_CLEANUP_OWED,
    .missing = &SQL_CLEANUP_MISSING,
    .closed = "the ephemeral key is gone from the token",
};
