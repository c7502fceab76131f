#ifndef SIGNER_BROKER_BROKER_INTERNAL_H
#define SIGNER_BROKER_BROKER_INTERNAL_H

#include "appliance/base/bulkhead.h"
#include "appliance/base/log.h"
#include "signer-pkcs11/broker/broker.h"

#include <pthread.h>
#include <stdatomic.h>

/* Lets a few records of one kind through each second and counts the rest: a peer cannot fill the disk. */
struct noise {
    pthread_mutex_t lock;
    mono_ns second;
    unsigned written;
    uint64_t left_out;
};
/* True: write it, and say that *ret_left_out were not. */
bool noise_allows(struct noise *noise, uint64_t *ret_left_out);

struct connection {
    struct broker *broker;
    int fd; /* what broker_drain may shut down; -1 = nothing any more */
    unsigned askers;
    bool used;
};

struct broker {
    struct broker_parts parts;
    struct bulkhead *sessions;
    _Atomic uint64_t operations, refused_frames, refused_peers;
    struct noise noise;
    enum token_state reported; /* of the serving thread: what the log last said */

    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t closed;
    bool stopping;
    struct connection connections[BROKER_CONNECTIONS_MAX];
    unsigned count, api_count;
};

/* ---- serve.c ---- */
/* Takes over `fd`. SATURATED when there is no room; the fd is closed then. */
struct fault connection_start(struct broker *broker, int fd, unsigned askers);

/* ---- ops.c ---- */
/* The answer to a request that the codec let through, refusals included: result bytes into `result`. */
struct fault op_dispatch(struct op *op, struct broker *broker, unsigned askers, const struct wire_request *request,
                         struct wire_response *response, struct buf *result);

#endif
