/*
 * Who is alive, as the database sees it: every serving instance holds a session-level advisory lock whose key follows
 * from its id, for as long as it lives. A lock that nobody holds says that the instance is gone, at once and without
 * anybody's clock; so what it had claimed is free (idempotency.h).
 *
 * The other way round it may be wrong for a moment: an instance whose lock's connection broke takes the lock again
 * within a second or so. Whoever relies on "gone" must bear that.
 */
#ifndef API_SERVER_PRESENCE_H
#define API_SERVER_PRESENCE_H

#include "api/store/store.h"

/* SQL: whether the instance whose id (text) stands in `column` is gone. */
#define PRESENCE_KEY(column) "('x' || substr(replace(" column ", '-', ''), 1, 16))::bit(64)::int8"
#define PRESENCE_GONE(column)                                                                              \
    "NOT EXISTS (SELECT 1 FROM pg_locks l WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 " \
    "AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database()) "             \
    "AND l.classid = ((" PRESENCE_KEY(column) " >> 32) & 4294967295)::oid "                                \
                                              "AND l.objid = (" PRESENCE_KEY(column) " & 4294967295)::oid)"

/* The key in C: the first 64 bits of the id. */
int64_t presence_key(struct uuid instance);

struct presence;
/* Takes the lock, on a connection of the LOCK pool. CONFLICT when somebody has it: two instances with one id. */
struct fault presence_new(struct op *op, struct store *store, struct uuid instance, struct presence **ret_presence);
/* Takes it again where it was lost. Every second or so, by one thread. */
struct fault presence_keep(struct op *op, struct presence *presence);
void presence_free(struct presence *presence);
DEFINE_FREEP(struct presence, presence_free)

#endif
