/* One stamp on its way, and those that are made together with it. */
#ifndef API_TSA_STAMP_H
#define API_TSA_STAMP_H

#include "api/tsa/internal.h"

/* Lives with its caller, who waits until it is made. */
struct tsa_stamp {
    struct op *op;             /* the caller's: its arena takes the token, its note what went wrong */
    const struct tsq *request; /* judged */
    const struct tst_hash *hash;
    struct span policy;
    struct tsa_statement statement;
    struct tsa_draft draft;
    struct span token; /* set, and not to leave before it is recorded */
    struct fault fault;
    uint64_t sequence; /* of the message that records it */
};

/* The stamps that one caller makes for itself and for others of the same actor. */
struct stamping {
    struct op *op; /* of the caller that makes them */
    const struct services *services;
    struct tsa *tsa;
    struct tsa_snapshot *held; /* the unit in place now; for all of them and until all are done, never another one */
    mono_ns begun;             /* of tsa_record_expect */
    struct tsa_stamp *stamps[TSA_BATCH_MAX];
    size_t count; /* at least 1 */
    struct buf signature_bytes;
    struct span signatures[TSA_BATCH_MAX];
    uint64_t sequence;
};
/* All or none of them. First the time, the serial number and the signature of each ... */
struct fault stamping_sign(struct stamping *stamping);
/* ... then the tokens, checked and recorded: nothing leaves before its event is durable. */
struct fault stamping_finish(struct stamping *stamping);

/* press.c: makes the stamp of op's caller, perhaps together with those of others. OK: stamp->token is recorded. */
struct fault tsa_press(struct op *op, const struct services *services, struct tsa *tsa, struct tsa_stamp *stamp);

#endif
