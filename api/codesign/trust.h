/* Whom signatures are judged by, and the same as a document for other verifiers (trust.c). */
#ifndef API_CODESIGN_TRUST_H
#define API_CODESIGN_TRUST_H

#include "api/codesign/verify.h"
#include "api/server/request.h"

#define AUTHORITIES_MAX 16

struct authority {
    struct chain chain; /* what leads to the root, last: the root */
    utc_us from, until; /* in which all of the chain is valid; `until` itself lies outside */
    const char *uri;    /* where it is asked; NULL = it has no address of its own */
};
struct authorities {
    struct authority at[AUTHORITIES_MAX]; /* newest first */
    size_t count;
};
static inline bool authority_at(const struct authority *authority, utc_us time)
{
    return time >= authority->from && time < authority->until;
}

/* The authorities that certificates in `pool` make: every intermediate with its path, and roots alone. What leads to no
 * self-signed certificate is left out. Appends; what is too many is left out. */
struct fault authorities_add(struct op *op, const struct chain *pool, struct authorities *authorities);

/* Who issued keyless certificates to this tenant, ever: its own authorities, and Fulcio's pinned roots. */
struct fault trust_signers(struct request *request, struct authorities *ret_authorities);
/* The units that stamped here, ever, each under its root. */
struct fault trust_stampers(struct request *request, struct authorities *ret_authorities);

#endif
