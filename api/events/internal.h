/* What the files of api/events/ share, and the only header of the tree that knows nats.c. */
#ifndef API_EVENTS_INTERNAL_H
#define API_EVENTS_INTERNAL_H

#include "api/events/events.h"

#include <nats/nats.h>

#include <pthread.h>
#include <stdatomic.h>

#define DUPLICATE_WINDOW_NS (20 * 60 * NS_PER_S)
#define STREAM_MESSAGE_MAX  (1 << 20) /* headers and body */

/* Which messages are replaced; history.h. */
struct history_entry {
    struct event_replacement replacement;
    struct tenant_id tenant;
};
struct history {
    struct history_entry *entries; /* by sequence */
    size_t count;
    uint64_t activated;
};

struct event_log {
    const struct config *config;          /* borrowed */
    struct link *link;                    /* the connection, and older ones behind it; link.c */
    _Atomic(natsConnection *) connection; /* the link's, as is js: both live for minutes after they were replaced */
    _Atomic(jsCtx *) js;
    uint64_t stamp; /* of the files that it was made with; this and the two below: the reloader's */
    mono_ns look_due, closed_due;
    unsigned connects_before;         /* made before `connection`'s first; both are read and written under `lock` */
    atomic_uint connects;             /* made connections, as far as event_log_count_connects has seen; set under it */
    atomic_uint accepted_connect;     /* the one for which stream and servers were last found safe */
    _Atomic mono_ns accepted_at;      /* when that was */
    _Atomic uint64_t seen;            /* newest sequence known to be stored */
    _Atomic uint64_t distrusted_from; /* 0 = appends are taken */
    pthread_mutex_t lock;             /* guards the rest; never held over I/O */
    pthread_cond_t changed;           /* connects, checking, refreshing */
    bool checking, refreshing;
    uint64_t keepers; /* which servers keep the stream, and which of them are there: changes when either does */
    struct event_log_state state;
    mono_ns state_at; /* 0 = never */
    struct history history;
    void (*on_append)(void *arg, mono_ns took, struct fault end); /* NULL = nobody measures */
    void *on_append_arg;
    uint64_t good_holes, good_first; /* so many messages are missing, and all of them are replaced; 0 = not looked */
};

/* The fault of a natsStatus and JetStream's error number (0 = none), with a log note. op may be NULL. */
struct fault nats_fault(struct op *op, natsStatus status, jsErrCode js_code, const char *doing);
/* Waits for `changed` until `deadline` at most. The caller holds log->lock. */
void event_log_wait(struct event_log *log, mono_ns deadline);
void event_log_lock(struct event_log *log);
void event_log_unlock(struct event_log *log);
bool event_log_connected(struct event_log *log);
void event_log_count_connects(struct event_log *log);
/* Stream and servers are as they must be, as of that connection. */
void event_log_accepted(struct event_log *log, unsigned connect);
void event_log_saw(struct event_log *log, uint64_t stream_seq);
struct fault event_log_check_trust(struct op *op, struct event_log *log);
/* A wait for the library: what is left of `deadline`, at least 1 ms, at most `most_ms`. */
int64_t wait_ms(mono_ns deadline, int64_t most_ms);
/* The body of an answer as text of its own, bounded. */
struct span message_span(const natsMsg *message);

/* Makes a connection with what the files hold now, and puts it in the place of the one that is there; that one stays
 * when it fails. *ret_refused: the servers do not accept the login, or TLS was not to be had as configured. */
struct fault link_renew(struct event_log *log, struct buf *why, bool *ret_refused);
bool link_closed_locked(const struct event_log *log); /* with log->lock */
void links_free(struct event_log *log);

/* The replacement of a sequence that is known to have one. */
struct fault history_read(struct op *op, struct event_log *log, uint64_t stream_seq, struct event_message *ret_message);
/* Under a subject of the second stream, which is made when there is none: also what a backup gives back. */
struct fault history_store(struct op *op, struct event_log *log, const char *subject, struct span body);
void history_free(struct history *history);

/* Makes the stream when there is none and `may_create`, or compares it with what it must be; then asks its servers
 * about syncing. `why` gets one line. */
struct fault stream_accept(struct event_log *log, bool may_create, mono_ns deadline, struct buf *why);
/* Raises the replicas of the streams to what is configured. LOG_UNSAFE with a line when the servers cannot have so
 * many. */
struct fault stream_grow(struct event_log *log, mono_ns deadline, struct buf *why);
/* The stream as its server describes it; the caller destroys *ret_info. */
natsStatus stream_get(struct event_log *log, mono_ns deadline, jsStreamInfo **ret_info, jsErrCode *ret_code);
/* LOG_UNSAFE with a line when a stream of this configuration could lose or drop a message. */
struct fault stream_config_check(const jsStreamConfig *stream, const struct config *config, struct buf *why);
/* Whether the servers that keep the stream sync every write: LOG_UNSAFE with a line when not, or when they cannot say;
 * LOG_UNAVAILABLE when they do not answer. */
struct fault servers_check(struct event_log *log, const jsStreamInfo *info, mono_ns deadline, struct buf *why);
/* Whether one answer to EVENTS_SERVER_CHECK says that the server syncs every write. */
bool server_answer_synced(struct span answer);
/* Value of the first text member of that name, "" when absent. Names of servers and ids: no escapes in them. */
struct span server_answer_text(struct span answer, const char *quoted_name);

#endif
