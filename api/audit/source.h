/*
 * The source of what was archived: every checkpoint (archive.h) claims that the event log holds, up to a message, so
 * many records of its tenant with this chain head. Backup, restore and rebuild look whether that is so before anything
 * is written: the records are counted and chained again from the messages themselves.
 *
 *     CLEANUP(source_free) struct source source = { 0 };
 *     ... source_claim for every message that may be a checkpoint, or source_claims for a whole log
 *     ... source_take for every message, in order, at least up to source_last
 *     TRY(source_end(op, &source));
 *
 * Memory: 32 bytes for each message up to the last boundary, since a message id counts once for ever.
 */
#ifndef API_AUDIT_SOURCE_H
#define API_AUDIT_SOURCE_H

#include "api/events/events.h"
#include "api/store/store.h"

struct source_claim {
    struct tenant_id tenant;
    int64_t records, number;
    uint64_t stream_seq, event_seq;
    struct sha256 head;
    bool rewritten; /* by a later generation of the history: the head is the one of the archive, and no longer the log's
                     */
    bool met;
};
struct source_tenant {
    struct tenant_id tenant;
    int64_t records;
    struct sha256 chain;
};
struct source {
    struct source_claim *claims; /* by stream_seq, once sealed */
    size_t claim_count, claim_room;
    struct source_tenant *tenants;
    size_t tenant_count;
    struct uuid_set *ids;
    struct buf record;
    size_t next; /* the first claim whose message has not come */
    bool sealed;
};
void source_free(struct source *source); /* idempotent */

/* Notes the message if it is a checkpoint or makes earlier ones superseded. Before the first source_take. */
struct fault source_claim(struct op *op, struct source *source, const struct event_message *message);
/* All claims of a log: from its checkpoints, and compared with those of the read model (store NULL: without).
 * AUDIT_SOURCE_GAP when the read model knows one that the log does not have. */
struct fault source_claims(struct op *op, struct source *source, struct event_log *log, struct store *store);
/* The last message that a claim is about; 0 = there is none. */
uint64_t source_last(const struct source *source);
struct fault source_take(struct op *op, struct source *source, const struct event_message *message);
/* AUDIT_SOURCE_GAP when a claim's message never came. */
struct fault source_end(struct op *op, const struct source *source);

/* The whole check over a log. *ret_checkpoints: how many there are. Changes nothing. */
struct fault source_check(struct op *op, struct event_log *log, struct store *store, size_t *ret_checkpoints);

#endif
