/* Bringing the services up in order and down in reverse: what `serve`, `token`, `tenant` and `rebuild` share. */
#ifndef API_START_H
#define API_START_H

#include "api/services.h"

/* How much of the product a command needs. */
enum start_scope {
    START_STORES,  /* store, log, identity, projector caught up: local commands */
    START_SERVING, /* all of it, the features' start included */
    START_LOOKING, /* as START_STORES, without catching up: the projector looks at a log that cannot be trusted */
};

/* Opens what the scope needs; on failure everything opened so far is closed again and `why` holds one clear line. */
struct fault services_start(const struct config *config, enum start_scope scope, struct buf *why,
                            struct services **ret_services);
/* For a local command beside a serving process: with few database connections. One caller a process. */
const struct config *services_local_config(const struct config *config);
/* The MAC key of previews, cursors and snapshots, from data_dir. CONFIG. */
struct fault services_fingerprint_key(const struct config *config, struct buf *why, struct secret **ret_key);
/* RESTORE_UNFINISHED when a restore of the event log was begun here and did not come to its end: nothing may be served
 * from such a log, nor written to it. */
#define RESTORE_MARK "api/restore.unfinished" /* below data_dir */
struct fault services_restored(const struct config *config, struct buf *why);
/* Replays the whole log into an emptied read model, without serving. */
struct fault services_rebuild(const struct config *config, struct buf *why, uint64_t *ret_messages);
/* Appends a lost tail of the log again, without serving, and records that (event "audit.log.repaired" of the first
 * tenant). *ret_repair is written on a fault, too: how far it came. */
struct fault services_repair_log(const struct config *config, const struct log_repair_request *request, struct buf *why,
                                 struct log_repair *ret_repair);
/* The steps of a drain (api/drain.h), each once and in this order; services_stop does what was left out. */
void services_stop_dispatch(struct services *services);
void services_stop_outboxes(struct services *services);
void services_sweep(struct services *services);
/* Drain: outbox leases end, handlers finish, projector, then log and store in order. */
void services_stop(struct services *services);

#endif
