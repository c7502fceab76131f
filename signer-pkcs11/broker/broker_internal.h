/*
 * What the broker's files share. A connection is a slot with a thread of its own. Its phase says who may touch it:
 *
 *   FREE       nobody; the thread sleeps until the serving thread hands it a descriptor
 *   OPEN       the thread: it reads, or answers
 *   RUNNING    the thread is in an operation; the serving thread may take the answer from it (ABANDONED)
 *   ABANDONED  answered by the serving thread; the slot's thread closes it when its operation returns
 *
 * Changes of phase happen under the connection's lock; nothing else of a connection is shared.
 */
#ifndef SIGNER_BROKER_BROKER_INTERNAL_H
#define SIGNER_BROKER_BROKER_INTERNAL_H

#include "appliance/base/log.h"
#include "signer-pkcs11/broker/broker.h"

#include <pthread.h>
#include <stdatomic.h>

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

enum phase { PHASE_FREE, PHASE_OPEN, PHASE_RUNNING, PHASE_ABANDONED };
struct connection {
    struct broker *broker; /* never changes, nor does `thread` */
    pthread_t thread;
    bool runs;
    pthread_mutex_t lock; /* guards the next four */
    pthread_cond_t handed;
    enum phase phase;
    mono_ns deadline;              /* of the operation, while RUNNING */
    struct token_session *session; /* that the operation has, while RUNNING */
    int fd;                        /* -1 = none was handed */
    enum listener_kind kind;       /* by which door it came; as askers */
    unsigned askers;               /* 0 = the slot is free; under broker->lock, and set before the thread is woken */
    /* the thread's */
    struct frame_stream stream;
    struct arena *arena; /* of the request */
    struct op *op;
    struct wire_request request;
    enum key_algorithm algorithm; /* of the answer */
    struct buf result, frame;
    unsigned in_vain; /* how often in a row it stayed awake for a request that did not come */
};

struct fault connections_start(struct broker *broker);
void connections_stop(struct broker *broker); /* all are FREE */
/* Hands `fd` to a thread. SATURATED: no slot is free (the fd is closed). */
struct fault connection_open(struct broker *broker, int fd, enum listener_kind kind, unsigned askers);
/* The thread's own life with one connection: until the peer leaves, breaks the protocol, or the broker stops. */
void connection_serve(struct connection *connection);

/* Around an operation. False: the answer was given by the serving thread, the connection is at its end. */
void connection_run_begin(struct connection *connection);
bool connection_run_end(struct connection *connection);
void connection_holds(struct connection *connection, struct token_session *session); /* NULL: no more */

/* ---- answer.c ---- */
/* False: the peer does not take it, or is gone. */
bool connection_answer(struct connection *connection, struct fault fault);
bool connection_answer_health(struct connection *connection);
/* By the serving thread, for an operation whose deadline has passed: takes the answer over if it is still to be given.
 */
void connection_abandon(struct connection *connection, mono_ns now, struct buf *frame);

/* ---- ops.c ---- */
/* The request in its token. */
struct fault connection_run(struct connection *connection);

struct broker {
    struct broker_parts parts;
    struct noise noise;
    unsigned processors;
    atomic_bool stopping; /* connections end after their answer */
    atomic_uint running;  /* operations */
    atomic_bool awake;    /* a thread stays awake for its next request */
    _Atomic uint64_t operations, refused_frames;
    _Atomic uint64_t counts[WIRE_OP_COUNT][KEY_PURPOSE_COUNT][OP_OUTCOME_COUNT];
    /* the serving thread's */
    struct buf frame;
    uint64_t refused_peers;
    enum token_state reported[HEALTH_TOKENS_MAX]; /* what the log last said, with the number of recoveries */
    uint64_t reported_recoveries[HEALTH_TOKENS_MAX];
    mono_ns next_look;

    pthread_mutex_t lock; /* guards all below; a connection's lock may be taken inside, never the other way */
    pthread_cond_t emptied;
    struct connection connections[BROKER_CONNECTIONS_MAX];
    unsigned count, api_count;
};

static inline void broker_lock(pthread_mutex_t *mutex)
{
    BUG_IF(pthread_mutex_lock(mutex) != 0);
}
static inline void broker_unlock(pthread_mutex_t *mutex)
{
    BUG_IF(pthread_mutex_unlock(mutex) != 0);
}

#endif
