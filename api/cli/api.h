/*
 * Calls of the appliance's API, as one of the routes of the running command's row. What the server refuses is said on
 * stderr at once: "svc-cli: <code>: <title>: <detail> (trace <id>)", or its problem body with --json.
 */
#ifndef API_CLI_API_H
#define API_CLI_API_H

#include "api/cli/cli.h"
#include "appliance/http/http.h"
#include "api/cli/view.h"

struct api_call {
    size_t route;      /* index into the command's routes */
    const char *id;    /* for {id} of the path; NULL = none */
    const char *query; /* "?a=b", encoded; NULL or "" = none */
    struct span body;  /* JSON; empty with a POST of no body */
    bool without_token;
    size_t answer_max; /* 0 = 64 MiB */
};

/* Sends; mutations carry an Idempotency-Key, made here unless one was given, and told in case it is needed again. Any
 * status but 2xx is a fault. */
struct fault api_send(struct cli *cli, const struct api_call *call, struct http_answer *ret_answer);
/* The same, with the answer read as JSON. */
struct fault api_json(struct cli *cli, const struct api_call *call, struct http_answer *answer, struct view *ret_view);
/* The failure of an exchange or of a server, said. Gives a fault that says nothing more. */
struct fault api_complain(struct cli *cli, const char *url, const struct http_answer *answer);
struct fault api_unreachable(struct cli *cli, const char *why);

/* "?name=value" or "&name=value" percent-encoded onto `query`; nothing when value is NULL. */
struct fault query_add(struct buf *query, const char *name, const char *value);

#endif
