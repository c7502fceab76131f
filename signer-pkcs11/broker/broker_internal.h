/*
 * The broker's threads, and who owns a connection.
 *
 *   workers (signer.sessions): wait for input of any connection, read the request, do it with a session of the token of
 *       their own, answer, and wait again: under load a worker goes from one request to the next without sleeping.
 *   the journal's thread: writes to a slow disk, and answers what is on it (a swift one the workers write themselves).
 *   the serving thread: takes new connections; and while every worker has been busy for a tick, reads what arrives,
 *       answers what needs no token (Health, refusals), and puts the rest in line for the workers.
 *
 * A connection is ARMED (epoll watches it, once) or owned by exactly one: a thread, the line, or the journal. Its owner
 * answers, and arms it again or closes it. So nothing of a connection is shared but its state.
 */
#ifndef SIGNER_BROKER_BROKER_INTERNAL_H
#define SIGNER_BROKER_BROKER_INTERNAL_H

#include "appliance/base/log.h"
#include "signer-pkcs11/broker/broker.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---- line.c: requests that wait for a worker, first in, first out ---- */

struct connection;
struct line {
    pthread_mutex_t lock; /* guards all below */
    struct connection *first, **end;
    unsigned count, limit;
};
void line_init(struct line *line, unsigned limit);
void line_clear(struct line *line);                                       /* must be empty */
struct fault line_push(struct line *line, struct connection *connection); /* SATURATED */
struct connection *line_pop(struct line *line);                           /* NULL: nobody waits */
struct connection *line_pop_expired(struct line *line);                   /* one whose deadline has passed, or NULL */
unsigned line_count(struct line *line);

/* ---- noise.c ---- */

/* Lets a few records through each second and counts the rest: no peer can fill the disk. */
struct noise {
    pthread_mutex_t lock;
    mono_ns second;
    unsigned written;
    uint64_t left_out;
};
/* True: write it, and that *ret_left_out were not. */
bool noise_allows(struct noise *noise, uint64_t *ret_left_out);

/* ---- connection.c ---- */

enum connection_state { CONNECTION_FREE, CONNECTION_ARMED, CONNECTION_OWNED };
struct connection {
    struct broker *broker; /* never changes */
    pthread_mutex_t lock;  /* guards state, and that it says what epoll does */
    enum connection_state state;
    bool used;               /* under broker->lock */
    struct connection *next; /* of the line, under its lock */
    /* the owner's */
    unsigned askers;
    mono_ns half_since; /* since when a frame is begun and not whole; 0 = none is */
    struct frame_stream stream;
    struct arena *arena; /* of the request */
    struct op *op;
    struct wire_request request;
    enum key_algorithm algorithm; /* of the answer */
    struct buf result;
    struct journal_write write;
    struct journal_parked parked;
};

/* Takes over `fd`, and arms it. SATURATED: no room (the fd is closed). */
struct fault connection_open(struct broker *broker, int fd, unsigned askers);
/* After an event: false when somebody else has it, or it is gone. */
bool connection_own(struct connection *connection);
/* By the owner, who has it no longer then. */
void connection_arm(struct connection *connection);
void connection_close(struct connection *connection);

/* ---- answer.c: by the owner, who has it no longer then; `frame` is the calling thread's own ---- */
void connection_answer(struct connection *connection, struct fault fault, struct buf *frame);
void connection_answer_health(struct connection *connection, struct buf *frame);
void connection_answer_late(struct connection *connection, struct buf *frame); /* its deadline passed in line */

/* ---- input.c ---- */
/* Reads what has arrived; answers what needs no token, arms or closes. True: a request is there, and the connection is
 * still the caller's. */
bool connection_request(struct connection *connection, struct buf *frame);

/* ---- ops.c ---- */
/* The request in the token. *ret_later: it is answered elsewhere, and the connection is not the caller's any more. */
struct fault connection_run(struct connection *connection, struct token_session *session, bool *ret_later);

/* ---- worker.c ---- */
struct worker {
    struct broker *broker;
    struct token_session *session;
    pthread_t thread;
    bool runs;
    struct buf frame; /* its answers */
};
struct fault workers_start(struct broker *broker);
void workers_stop(struct broker *broker);
/* Puts it in line, and sees to it that a worker looks. SATURATED: still the caller's. */
struct fault workers_ask(struct broker *broker, struct connection *connection);

struct broker {
    struct broker_parts parts;
    struct line line;
    struct noise noise;
    struct worker *workers;
    unsigned worker_count;
    int epoll, bell;       /* bell: an eventfd that wakes workers */
    atomic_uint listening; /* workers that wait for input */
    atomic_bool stopping;  /* connections are closed instead of armed */
    atomic_bool ended;     /* workers return when the bell rings */
    _Atomic uint64_t operations, refused_frames;
    struct buf journal_frame; /* answers of whoever writes the journal */
    /* the serving thread's */
    struct buf frame;
    uint64_t refused_peers;
    enum token_state reported; /* what the log last said, with the number of recoveries */
    uint64_t reported_recoveries;
    mono_ns next_look;

    pthread_mutex_t lock; /* guards all below; connection.lock may be taken inside, never the other way */
    pthread_cond_t emptied;
    struct connection connections[BROKER_CONNECTIONS_MAX];
    unsigned count, api_count;
};

#endif
