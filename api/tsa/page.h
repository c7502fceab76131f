/* The page's text, without HTTP, for page.c and its test. */
#ifndef API_TSA_PAGE_H
#define API_TSA_PAGE_H

#include "api/tsa/internal.h"

struct page_facts {
    const char *url;       /* public address of the authority, https */
    const char *plain_url; /* by http; NULL = there is none */
    const struct tsa_rules *rules;
    const struct tsa_unit *unit; /* NULL = nothing stamps */
    enum clock_reason clock;
    bool trusts_host; /* nothing but the host vouches for the clock */
};
/* Whatever stands in the facts is escaped. TOO_LARGE, NO_MEMORY. */
struct fault page_print(const struct page_facts *facts, struct buf *out);
/* The Content-Security-Policy that lets the page's own style through, and nothing else. */
struct fault page_policy(struct buf *out);

/* Where the plain listener ("0.0.0.0:8080") is seen by those who know `base` ("https://tsa.example:8443"). */
struct fault page_plain_url(struct op *op, const char *base, const char *plain_listen, const char *path,
                            const char **ret_url);

#endif
