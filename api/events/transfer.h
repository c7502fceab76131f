/*
 * The event log as a whole, out of and into a server: for backup, restore and the check of checkpoints. Reading gives
 * messages as readers get them (a replaced one as its replacement), so what was erased never comes into a backup.
 */
#ifndef API_EVENTS_TRANSFER_H
#define API_EVENTS_TRANSFER_H

#include "api/events/backup_file.h"
#include "api/events/events.h"

typedef struct fault (*event_message_fn)(struct op *op, void *arg, const struct event_message *message);
typedef struct fault (*event_stored_fn)(struct op *op, void *arg, struct span subject, struct span body);

/* Messages first..last in order; LOG_UNTRUSTED when one is missing. op's arena is emptied before each. */
struct fault event_log_each(struct op *op, struct event_log *log, uint64_t first, uint64_t last, event_message_fn take,
                            void *arg);
/* The messages of one lane of every tenant, in order, as they are stored: without those that were erased. */
struct fault event_lane_each(struct op *op, struct event_log *log, const char *lane, event_message_fn take, void *arg);
/* What is stored of rewritten history (events.h), in order; nothing where there is none. */
struct fault event_history_each(struct op *op, struct event_log *log, event_stored_fn take, void *arg);

/* Stores a message as it was, as number message->stream_seq of a log that ends right before it: LOG_CONFLICT else. */
struct fault event_log_restore(struct op *op, struct event_log *log, const struct event_message *message);
/* Stores what event_history_each gave. */
struct fault event_history_restore(struct op *op, struct event_log *log, const char *subject, struct span body);

#endif
