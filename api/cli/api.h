/*
 * Calls of the appliance's API, as one of the routes of the running command's row. What the server refuses is said on
 * stderr at once: "svc-cli: <code>: <title>: <detail> (trace <id>)", or its problem body with --json.
 */
#ifndef API_CLI_API_H
#define API_CLI_API_H

#include "api/cli/cli.h"
#include "api/cli/view.h"
#include "appliance/http/http.h"

/* The addresses of code signing, for the commands' rows and for those who use several. */
#define PATH_SIGN            "/api/v1/code-signing/sign"
#define PATH_PREVIEW         "/api/v1/code-signing/preview"
#define PATH_BATCH           "/api/v1/code-signing/batch"
#define PATH_BATCH_PREVIEW   "/api/v1/code-signing/batch/preview"
#define PATH_KEYLESS         "/api/v1/code-signing/keyless"
#define PATH_KEYLESS_PREVIEW "/api/v1/code-signing/keyless/preview"
#define PATH_OPERATIONS      "/api/v1/code-signing/operations"
#define PATH_OPERATION       "/api/v1/code-signing/operations/{id}"
#define PATH_REQUESTS        "/api/v1/approval-requests"
#define PATH_TSA             "/tsa"

#define PATH_VERIFY           "/api/v1/code-signing/verify"
#define PATH_KEYLESS_VERIFY   "/api/v1/code-signing/keyless/verify"
#define PATH_VERIFY_LONG_TERM "/api/v1/code-signing/verify-long-term"

#define PATH_APPROVE          "/api/v1/approval-requests/{id}/approvals"
#define PATH_APPROVE_RESOURCE "/api/v1/identities/{resource}/approvals"

struct api_call {
    size_t route;      /* index into the command's routes */
    const char *id;    /* for {id} of the path; NULL = none */
    const char *kind;  /* for {kind} of a path that has one before its {id} */
    const char *query; /* "?a=b", encoded; NULL or "" = none */
    struct span body;  /* JSON; empty with a POST of no body */
    bool without_token;
    size_t answer_max;            /* 0 = 64 MiB */
    const struct http_sink *sink; /* for a body of any size: it may take as long as bytes keep coming */
};

/* The index of the route with that path; a bug when the command has none. */
size_t api_route(const struct cli *cli, const char *path);

/* Sends; the answer's status is not judged and nothing is said. IO with `why` when there was no answer. */
struct fault api_exchange(struct cli *cli, const struct api_call *call, char *why, size_t why_size,
                          struct http_answer *ret_answer);
/* The same, and again as the server asks (api_wait_to_repeat): the same body, the same Idempotency-Key. */
struct fault api_ask(struct cli *cli, const struct api_call *call, char *why, size_t why_size,
                     struct http_answer *ret_answer);
/* True, once its Retry-After is over, when the answer says that the request may succeed later: 429, 503, and 409 while
 * an earlier try is in progress. In all a command waits no longer than the patience it was given (--no-wait: none). */
bool api_wait_to_repeat(struct cli *cli, const struct http_answer *answer);
/* What an answer other than 2xx says, said; any such is a fault. */
struct fault api_judge(struct cli *cli, const struct api_call *call, const struct http_answer *answer);
/* Asks; mutations carry an Idempotency-Key, made here unless one was given, and told in case it is needed again. Any
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
