/*
 * The time-stamping authority (RFC 3161, RFC 5816) of one tenant: POST /tsa and its certificate chain. The key is in
 * the token; every token that leaves has its event in the log first. verify.h is its offline half.
 */
#ifndef API_TSA_TSA_H
#define API_TSA_TSA_H

#include "api/feature.h"

extern const struct feature tsa_feature;

struct services;

/* The certificates of the time-stamping unit that stamps now: leaf and root, DER, valid as long as the service. False
 * when there is no authority here. */
bool tsa_certificates(const struct services *services, struct span *ret_leaf, struct span *ret_root);

#endif
