/*
 * The time-stamping authorities (RFC 3161, RFC 5816): POST /tsa of one tenant, POST /tsa/{tenant} of further ones, and
 * their certificate chains. Keys are in the token; every time stamp that leaves has its event in the log first.
 * verify.h is the offline half.
 */
#ifndef API_TSA_TSA_H
#define API_TSA_TSA_H

#include "api/feature.h"
#include "appliance/base/op.h"

extern const struct feature tsa_feature;

struct services;

/* The certificates of every unit that stamped here, the newest first, DER, in op's arena: of the operation's own
 * tenant, then of the tenant of /tsa, whose time stamps are for everybody. None where there never was an authority. */
struct tsa_chain {
    struct span leaf, root;
    const struct span *chain; /* whole: leaf first, root last */
    size_t chain_count;
};
struct fault tsa_history(struct op *op, struct services *services, struct tsa_chain **ret_chains, size_t *ret_count);

/* Is the authority on (protocols.tsa.enabled)? Then what leaves with an anchor must have one. */
bool tsa_is_on(const struct services *services);
/* Is the clock trusted that time stamps take their time from? `says`: one sentence, constant. */
struct tsa_time_state {
    bool on; /* there is an authority at all */
    bool trusted;
    const char *says;
};
void tsa_time_state(const struct services *services, struct tsa_time_state *ret_state);
/* A TimeStampToken of the authority of /tsa over a SHA-256 value, with certificates and without nonce; DER in op's
 * arena. Recorded like every other before it is handed out. The faults of the authority: TSA_TIME when the clock is not
 * trusted, TSA_NO_UNIT, the signer's and the log's. BUG_IF(tx_open). */
struct fault tsa_anchor(struct op *op, struct services *services, const struct sha256 *imprint, struct span *ret_token);

#endif
