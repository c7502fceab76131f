/*
 * The time-stamping authority (RFC 3161, RFC 5816) of one tenant: POST /tsa and its certificate chain. The key is in
 * the token; every token that leaves has its event in the log first. verify.h is its offline half.
 */
#ifndef API_TSA_TSA_H
#define API_TSA_TSA_H

#include "api/feature.h"
#include "appliance/base/op.h"

extern const struct feature tsa_feature;

struct services;

/* The certificates of every unit that stamped here, the newest first, DER, in op's arena; none where there never was an
 * authority. Whoever's operation it is: time stamps are for everybody. A root without leaf stands for units' former
 * certificates, which are in the log alone. */
struct tsa_chain {
    struct span leaf, root;
};
struct fault tsa_history(struct op *op, struct services *services, struct tsa_chain **ret_chains, size_t *ret_count);

#endif
