/*
 * The power-on test through the token: for each algorithm a key of purpose post (made at first start, kept, its id
 * derived from the algorithm) signs; the token and the FIPS module both accept the signature, and both refuse it for
 * another digest. What a token has no mechanism for is left out; a token that has none of them fails.
 */
#ifndef SIGNER_BROKER_POST_H
#define SIGNER_BROKER_POST_H

#include "signer-pkcs11/token/token.h"

/* FIPS_SELF_TEST, TOKEN_..., and `why` gets one line. `tested` gets the names of what passed, separated by blanks. */
struct fault post_run(struct token *token, struct buf *why, struct buf *tested);

#endif
