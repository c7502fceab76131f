/*
 * The event log: JetStream, the source of truth. One message holds one or more events of one tenant and one lane, and
 * is appended whole or not at all. Subject: svc.events.<tenant>.<lane>. The body is canonical JSON (RFC 8785):
 *
 *     {"actor":{"roles":[...],"subject":"..."},"events":[{"data":{...},"schema_version":1,"type":"..."}],"lane":"...",
 *      "message_id":"...","tenant":"...","time":"...","trace_id":"...","v":1}
 *
 * What the server must be: 2.10 or newer, JetStream with `sync_interval: always` (an acknowledgement then means that
 * the message is on disk), and an account in which the server can be asked whether that is so. The server answers it on
 * the subject EVENTS_SERVER_CHECK of its system account, which the account of the log has to import:
 *
 *     jetstream { store_dir: "...", sync_interval: always }
 *     system_account: SYS
 *     accounts {
 *       SYS: { exports: [ {service: "$SYS.REQ.SERVER.PING.VARZ", response_type: stream, accounts: [SVC]} ] }
 *       SVC: { jetstream: enabled, users: [ {user: svc, password: "..."} ],
 *              imports: [ {service: {account: SYS, subject: "$SYS.REQ.SERVER.PING.VARZ"}} ] }
 *     }
 *
 * A server that says otherwise, or does not say, is refused (LOG_UNSAFE), unless nats.allow_unsynced is set and the
 * stream has three or more replicas. In a cluster a majority of the stream's servers has to say so and none may say
 * otherwise; one that is away is not waited for. The same is looked at again, before the next append, after every
 * reconnect; in a cluster also whenever a server comes to the stream or leaves it, and once a minute.
 *
 * TLS when nats.tls_ca_file or nats.tls_certificate_file is set or an address is tls://: then nothing goes over a
 * connection without it, and the server's certificate has to be of these authorities and of the address's name.
 *
 * A stream with fewer replicas than nats.replicas gets them when the log is opened.
 *
 * Thread-safe, except event_log_close and event_log_reload; a reader belongs to one thread.
 */
#ifndef API_EVENTS_EVENTS_H
#define API_EVENTS_EVENTS_H

#include "appliance/base/config.h"
#include "appliance/base/op.h"

struct event_log;

#define EVENTS_PER_MESSAGE_MAX 256
#define EVENT_MESSAGE_MAX      (((size_t)1 << 20) - 4096) /* with its headers it fits max_payload's usual 1 MiB */
#define EVENT_TYPE_MAX         63
#define LANE_MAX               31
#define EVENTS_SUBJECTS        "svc.events.>"
#define EVENTS_SERVER_CHECK    "$SYS.REQ.SERVER.PING.VARZ"

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

/* Connects (for up to 15 s), makes or checks the stream: file storage, replicas, duplicate window, nothing ever dropped
 * or deleted; and the servers' sync settings. LOG_UNAVAILABLE, LOG_UNSAFE or CONFIG, and `why` (if not NULL) gets a
 * line. `config` is borrowed for the life of the log. */
struct fault event_log_open(const struct config *config, struct buf *why, struct event_log **ret_log);
void event_log_close(struct event_log *log);
DEFINE_FREEP(struct event_log, event_log_close)

/* Appends for op's tenant, actor and trace, with the time of now; durable when it returns OK. After a time-out it is
 * retried with the same id within the deadline; a duplicate is success, and what was stored first is what counts.
 * *ret_seq is the message's stream sequence; op keeps it too (op_record). BUG_IF(tx_open).
 *   LOG_CONFLICT      the lane moved on; nothing was stored
 *   LOG_UNAVAILABLE   no connection, or the server refuses to store; nothing was stored
 *   DEADLINE          sent and never acknowledged: it may be stored. The same message id settles it
 *   LOG_UNSAFE        the server or the stream is no longer what event_log_open accepted
 *   LOG_UNTRUSTED     event_log_distrust was called; nothing was stored, or it was sent and never acknowledged
 *   TOO_LARGE         over EVENT_MESSAGE_MAX;  BAD_ARGUMENT  lane, type or data are not as they must be */
struct fault events_append(struct op *op, struct event_log *log, const struct event_append *append, uint64_t *ret_seq);

/* For measurements: called at the end of every append, in its thread, with how long it took and how it ended. Set once,
 * before anything is appended. */
void event_log_on_append(struct event_log *log, void (*on_append)(void *arg, mono_ns took, struct fault end),
                         void *arg);

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
    struct span data; /* canonical JSON object */
    uint64_t stream_seq;
    unsigned position; /* within its message */
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

/* A body that is kept elsewhere than under its message's subject: a copy, a replacement. */
struct fault event_body_decode(struct op *op, uint64_t stream_seq, struct span body, struct event_message *ret_message);

/* The body of a message, as it is stored: for the log itself, and for tests that plant messages. `out` is cleared
 * first; its max bounds the size (TOO_LARGE). */
struct event_body {
    const struct principal *actor;
    struct tenant_id tenant;
    const char *lane;
    const char *trace_id;
    struct uuid message_id;
    utc_us time;
    const struct event *events;
    size_t count;
};
struct fault event_message_encode(const struct event_body *body, struct buf *out);

/* An ordered reader from `first_seq` on. next: copies the message into op's arena; DEADLINE when none came in time;
 * LOG_UNTRUSTED when a sequence is missing between two messages (a gap), LOG_DECODE when one is not ours; it then
 * stays where it is, at event_reader_seq(). It resumes by itself after a lost connection. */
struct event_reader;
/* The sequence that event_reader_next gives next. */
uint64_t event_reader_seq(const struct event_reader *reader);
/* How often it has joined the stream: when this grew, another stream may stand where the first one stood. */
unsigned event_reader_joins(const struct event_reader *reader);
struct fault event_reader_new(struct event_log *log, uint64_t first_seq, struct event_reader **ret_reader);
void event_reader_free(struct event_reader *reader);
DEFINE_FREEP(struct event_reader, event_reader_free)
struct fault event_reader_next(struct op *op, struct event_reader *reader, mono_ns deadline,
                               struct event_message *ret_message);

/* One stored message by sequence: for the running check against the read model's copies. NOT_FOUND when gone. */
struct fault event_log_get(struct op *op, struct event_log *log, uint64_t stream_seq,
                           struct event_message *ret_message);

/* ---- rewritten history (api/privacy) ----
 * A message that an activated generation of a tenant's history replaces reads as its replacement: for readers,
 * event_log_get and event_log_state it makes no difference whether the superseded message is still there. Replacements
 * lie in a second stream "<stream>_history", made with the first of them, on subjects
 * svc.history.<tenant>.<generation>.<stream sequence>; what belongs to a generation is on
 * svc.history.<tenant>.<generation>.list.<part>, and the event EVENTS_ACTIVATED on lane EVENTS_PRIVACY_LANE states a
 * digest over that list: {..., "count", "digest", "generation", ...}. The newest generation that names a sequence
 * counts. A replacement that is not the one of the list is LOG_UNTRUSTED, as is any other message that is missing. A
 * generation without a list replaces nothing: a log restored from a backup has the replacements in their places. */
#define EVENTS_PRIVACY_LANE "privacy"
#define EVENTS_ACTIVATED    "privacy.generation.activated"
#define EVENTS_REPLACED_MAX 100000u /* of one log: a server names all erased messages in one answer */

struct event_replacement {
    uint64_t stream_seq;
    struct sha256 digest;  /* of the replacement's body */
    int64_t generation;    /* of its tenant */
    uint64_t active_since; /* stream sequence of the activation */
};
/* What this process knows; thread-safe and without a round trip. */
bool event_log_replaced(struct event_log *log, uint64_t stream_seq, struct event_replacement *ret_replacement);
/* Stream sequence of the newest activation that this process knows, 0 = none. */
uint64_t event_log_activated(struct event_log *log);
/* Reads the activations again. LOG_UNTRUSTED when a list is not the one that its activation states. */
struct fault event_log_history_load(struct op *op, struct event_log *log);
/* The known replacements of a tenant's messages below `below`, in order, in op's arena. */
struct fault event_log_replacements(struct op *op, struct event_log *log, struct tenant_id tenant, uint64_t below,
                                    struct event_replacement **ret_entries, size_t *ret_count);
/* Lays down a replacement for op's tenant (the same again is OK, another one LOG_CONFLICT), and the list when all lie
 * there. Neither changes what anybody reads. */
struct fault event_history_put(struct op *op, struct event_log *log, int64_t generation, uint64_t stream_seq,
                               struct span body);
struct fault event_history_put_list(struct op *op, struct event_log *log, int64_t generation,
                                    const struct event_replacement *entries, size_t count, struct sha256 *ret_digest);
/* One replacement of op's tenant, compared with `digest`; not only an activated one. */
struct fault event_history_get(struct op *op, struct event_log *log, int64_t generation, uint64_t stream_seq,
                               const struct sha256 *digest, struct event_message *ret_message);
/* Overwrites a superseded message of op's tenant on the server's disk: the log's own, and its replacements of older
 * generations. Again is OK. BAD_ARGUMENT for a message that is not replaced; LOG_UNSAFE when the stream denies it. */
struct fault event_log_erase(struct op *op, struct event_log *log, const struct event_replacement *entry);
/* LOG_UNSAFE when the stream was made to deny deletes, which nothing can change. */
struct fault event_log_can_erase(struct op *op, struct event_log *log);

/* Nothing is appended while `from` is not 0: the log is another than the one that was applied, from that sequence on,
 * and what is left of it stays as it is. Thread-safe. */
void event_log_distrust(struct event_log *log, uint64_t from);

/* Repair (projection_repair_log): a message that the log lost, as the verified copy has it, at exactly the sequence
 * that it had. LOG_REPAIR when the copy is no message of this log or came to lie elsewhere; LOG_CONFLICT when the log's
 * end is not the sequence before. `repeated`: the copies have its message id at a lower sequence, too. */
struct event_copy {
    uint64_t stream_seq;
    struct tenant_id tenant;
    const char *lane;
    struct uuid message_id;
    bool repeated;
    struct span body;
};
struct fault event_log_append_again(struct op *op, struct event_log *log, const struct event_copy *copy);

/* Connects anew when the file of the login or of TLS has changed, or when the servers refused the login: to be called
 * now and then, by one thread. What was connected before stays in use until the new one stands; calls under way are
 * repeated on that. Never fails: it is told in the log, and tried again. */
void event_log_reload(struct event_log *log);

/* The newest sequence that this process knows to be stored: from its own appends and from what the server said. */
uint64_t event_log_seen(const struct event_log *log);

struct event_log_state {
    uint64_t first_seq, last_seq, messages;     /* all 0 when the stream is gone */
    uint64_t first_missing;                     /* the first sequence up to last_seq that is not there; 0 = none */
    unsigned replicas_desired, replicas_actual; /* actual: the leader and the followers that are online and current */
    bool connected;
    bool closed;       /* the servers refused the login twice: until event_log_reload has one that they accept */
    unsigned connects; /* how often a connection was made: 1 = the first still stands */
};
/* At most a second old, without a round trip as a rule: for probes and metrics. */
struct fault event_log_state(struct op *op, struct event_log *log, struct event_log_state *ret_state);
/* The same, asked of the server now. LOG_UNAVAILABLE when it does not answer. */
struct fault event_log_state_now(struct op *op, struct event_log *log, struct event_log_state *ret_state);

#endif
