/*
 * Who is alive, as the database sees it. Every serving instance holds a session-level advisory lock whose key follows
 * from its id, and writes every second into svc.instances that it is there; a thread of its own does both, so that no
 * other work can hold it up. What a gone instance had claimed is free (idempotency.h).
 *
 * "Gone" is said by another instance, and only when it has three grounds, because a lock alone is lost by the living,
 * too (a connection that broke, a database that was restarted, a standby that took over):
 *   - nobody holds the lock,
 *   - the instance was not seen for PRESENCE_LAPSE_US,
 *   - the one who asks was itself seen by this very server for that long without a gap: so the others could have been.
 */
#ifndef API_SERVER_PRESENCE_H
#define API_SERVER_PRESENCE_H

#include "api/store/store.h"

#define PRESENCE_LAPSE_US "5000000"

/* SQL: whether the instance whose id (text) stands in `column` (with its table) is gone, as the instance `here` may
 * say. */
#define PRESENCE_NOW_US      "(extract(epoch FROM clock_timestamp()) * 1000000)::int8"
#define PRESENCE_SERVER_US   "(extract(epoch FROM pg_postmaster_start_time()) * 1000000)::int8"
#define PRESENCE_KEY(column) "('x' || substr(replace(" column ", '-', ''), 1, 16))::bit(64)::int8"
#define PRESENCE_GONE(column, here)                                                                            \
    "(EXISTS (SELECT 1 FROM svc.instances w WHERE w.instance = " here " AND w.server_us = " PRESENCE_SERVER_US \
    " AND w.seen_us > " PRESENCE_NOW_US " - " PRESENCE_LAPSE_US " AND w.since_us <= " PRESENCE_NOW_US          \
    " - " PRESENCE_LAPSE_US ") AND NOT EXISTS (SELECT 1 FROM svc.instances s WHERE s.instance = " column       \
    " AND s.seen_us > " PRESENCE_NOW_US " - " PRESENCE_LAPSE_US ") "                                           \
    "AND NOT EXISTS (SELECT 1 FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 " \
    "AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()) "                 \
    "AND l.classid = ((" PRESENCE_KEY(column) " >> 32) & 4294967295)::oid "                                    \
                                              "AND l.objid = (" PRESENCE_KEY(column) " & 4294967295)::oid))"

/* The key in C: the first 64 bits of the id. */
int64_t presence_key(struct uuid instance);

struct presence;
/* Takes the lock, on a connection of the LOCK pool, and is there until presence_free. CONFLICT when somebody has it:
 * two instances with one id. */
struct fault presence_new(struct op *op, struct store *store, struct uuid instance, struct presence **ret_presence);
void presence_free(struct presence *presence);
DEFINE_FREEP(struct presence, presence_free)

#endif
