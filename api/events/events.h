/*
 * The event log: JetStream, the source of truth. One message holds one or more events of one tenant and one lane, and
 * is appended whole or not at all. Subject: svc.events.<tenant>.<lane>. The body is canonical JSON (RFC 8785).
 */
#ifndef API_EVENTS_EVENTS_H
#define API_EVENTS_EVENTS_H

#include "appliance/base/config.h"
#include "appliance/base/op.h"

struct event_log;

#define EVENTS_PER_MESSAGE_MAX 256
#define EVENT_MESSAGE_MAX      ((size_t)1 << 20)
#define LANE_MAX               31

/* One event to append. `data` is a JSON object (any form; it is made canonical here). */
struct event {
    const char *type; /* "codesign.signed" */
    int64_t schema_version;
    struct span data;
};

struct event_append {
    const char *lane; /* [a-z0-9-], e.g. "codesign", "keys" */
    /* Deterministic: the same id is stored once (duplicate-safe retry). "" = a fresh random one. */
    struct uuid message_id;
    const struct event *events;
    size_t count;
    /* When set, appended only if the lane's last stream sequence is still `expected`: LOG_CONFLICT otherwise. */
    bool expect;
    uint64_t expected;
};

/* Connects, makes or checks the stream (replicas, file storage, sync settings: LOG_UNSAFE), duplicate window. */
struct fault event_log_open(const struct config *config, struct buf *why, struct event_log **ret_log);
void event_log_close(struct event_log *log);
DEFINE_FREEP(struct event_log, event_log_close)

/* Appends for op's tenant, actor, trace and time; durable when it returns OK. After a time-out it is retried with the
 * same id within the deadline; a duplicate is success. *ret_seq is the message's stream sequence. BUG_IF(tx_open). */
struct fault events_append(struct op *op, struct event_log *log, const struct event_append *append, uint64_t *ret_seq);

/* One event as read back. All texts borrow from the message. */
struct event_view {
    struct uuid id; /* derived from message id and position */
    struct tenant_id tenant;
    const char *lane;
    const char *type;
    int64_t schema_version;
    utc_us time;
    const char *actor_subject;
    const char *const *actor_roles;
    size_t actor_role_count;
    const char *trace_id;
    struct span data;   /* canonical JSON object */
    uint64_t stream_seq;
    unsigned position;  /* within its message */
};
struct event_message {
    uint64_t stream_seq;
    struct uuid message_id;
    struct tenant_id tenant;
    struct span body; /* exactly as stored */
    struct event_view *events;
    size_t count;
};

/* Decodes a stored message into op's arena. LOG_DECODE when it is not one of ours. Outside bytes: fuzzed. */
struct fault event_message_decode(struct op *op, uint64_t stream_seq, struct span subject, struct span body,
                                  struct event_message *ret_message);

/* An ordered reader from `first_seq` on. next: copies the message into op's arena; DEADLINE when none came in time;
 * LOG_UNTRUSTED when a sequence is missing between two messages (a gap). */
struct event_reader;
struct fault event_reader_new(struct event_log *log, uint64_t first_seq, struct event_reader **ret_reader);
void event_reader_free(struct event_reader *reader);
DEFINE_FREEP(struct event_reader, event_reader_free)
struct fault event_reader_next(struct op *op, struct event_reader *reader, mono_ns deadline, struct event_message *ret_message);

/* One stored message by sequence: for the running check against the read model's copies. NOT_FOUND when gone. */
struct fault event_log_get(struct op *op, struct event_log *log, uint64_t stream_seq, struct event_message *ret_message);

struct event_log_state {
    uint64_t first_seq, last_seq, messages;
    unsigned replicas_desired, replicas_actual;
    bool connected;
};
struct fault event_log_state(struct op *op, struct event_log *log, struct event_log_state *ret_state);

#endif
