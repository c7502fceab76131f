/* RFC 3161 time stamps from the appliance's authority, or another: fetched, and checked before anybody relies on them.
 */
#ifndef API_CLI_STAMP_H
#define API_CLI_STAMP_H

#include "api/cli/cli.h"
#include "api/cli/files.h"
#include "api/tsa/verify.h"
#include "appliance/http/http.h"

struct stamp_source {
    const char *url;  /* of the authority; NULL = /tsa of the appliance */
    const char *root; /* PEM file to verify stamps against; NULL = none is pinned */
};
/* From these two flags of the command, then SVC_TSA_URL and SVC_TSA_ROOT. */
struct stamp_source stamp_source_of(const struct cli *cli, const char *url_flag, const char *root_flag);

/* One exchange with the authority at `path` ("/tsa" or below it). */
struct fault stamp_exchange(struct cli *cli, const struct stamp_source *source, const char *path,
                            struct http_request *request, struct http_answer *answer);
/* A stamp over the digest, DER in answer->body: verified against the pinned root, or without one checked to speak of
 * this digest and request. */
struct fault stamp_fetch(struct cli *cli, const struct stamp_source *source, const char *hash, struct span digest,
                         struct http_answer *answer, struct tst_info *ret_info);

#endif
