/* Bringing the services up in order and down in reverse: what `serve`, `token`, `tenant` and `rebuild` share. */
#ifndef API_START_H
#define API_START_H

#include "api/services.h"

/* How much of the product a command needs. */
enum start_scope {
    START_STORES,  /* store, log, identity, projector caught up: local commands */
    START_SERVING, /* all of it, the features' start included */
};

/* Opens what the scope needs; on failure everything opened so far is closed again and `why` holds one clear line. */
struct fault services_start(const struct config *config, enum start_scope scope, struct buf *why,
                            struct services **ret_services);
/* Replays the whole log into an emptied read model, without serving. */
struct fault services_rebuild(const struct config *config, struct buf *why, uint64_t *ret_messages);
/* Drain: outbox leases end, handlers finish, projector, then log and store in order. */
void services_stop(struct services *services);

#endif
