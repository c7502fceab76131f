/* One request to a log, and what its status means for the publication. */
#include "api/transparency/internal.h"

#include <stdio.h>

#define ANSWER_MAX   ((size_t)1 << 20)
#define LIMIT_NS     (25 * NS_PER_S) /* Rekor v2 answers when a checkpoint covers the entry: 20 s are to be allowed */
#define LEAVE_NS     (5 * NS_PER_S)  /* for the record */
#define LEAST_NS     (2 * NS_PER_S)
#define RETRY_MOST_S 3600

static int64_t read_seconds(const char *text)
{
    int64_t seconds = 0;
    for (const char *at = text; *at >= '0' && *at <= '9' && seconds < RETRY_MOST_S; at++) {
        seconds = seconds * 10 + (*at - '0');
    }
    return seconds;
}

/* Never: the log has understood and does not want it, or takes no entries any more. Anything else may be the work of
 * what stands between here and the log, and passes. */
static bool is_refusal(long status)
{
    return status == 400 || status == 405 || status == 413 || status == 415 || status == 422;
}

static struct fault judge(struct op *op, struct submit *submit, const char *method, const struct http_answer *answer)
{
    bool get = method[0] == 'G';
    if (answer->status == 200 || answer->status == 201 || answer->status == (get ? 404 : 409)) {
        return OK;
    }
    struct fault fault =
        is_refusal(answer->status)
            ? op_fail(op, FAULT(TLOG_REFUSED), "the log %s refused the entry (%ld)", submit->log->name, answer->status)
            : op_fail(op, FAULT(TLOG_UNAVAILABLE), "the log %s answered %ld; it is asked again", submit->log->name,
                      answer->status);
    int shown = answer->body.len < 300 ? (int)answer->body.len : 300;
    op_note_log(op, "%s answered %ld: %.*s", submit->log->url, answer->status, shown, (const char *)answer->body.at);
    submit->retry_after_s = read_seconds(answer->retry_after);
    return fault;
}

static struct fault exchange(struct op *op, struct submit *submit, const struct http_request *request,
                             struct http_answer *answer)
{
    char why[512] = "";
    if (request->timeout_ns < LEAST_NS) {
        return op_fail(op, FAULT(TLOG_UNAVAILABLE), "no time was left to ask the log %s; it is asked again",
                       submit->log->name);
    }
    struct fault fault = http_send(request, why, sizeof(why), answer);
    if (FAULTED(fault)) {
        fault =
            op_fail(op, FAULT(TLOG_UNAVAILABLE), "the log %s cannot be reached; it is asked again", submit->log->name);
        op_note_log(op, "%s", why);
        return fault;
    }
    return judge(op, submit, request->method, answer);
}

static struct fault make_request(struct op *op, const struct submit *submit, const char *method, const char *path,
                                 struct http_request *ret_request)
{
    const struct tlog *log = submit->log;
    mono_ns left = op->deadline - clock_mono() - LEAVE_NS;
    *ret_request = (struct http_request){ .method = method,
                                          .ca_file = log->ca_file,
                                          .plain_too = log->plain,
                                          .keep = true,
                                          .timeout_ns = left < LIMIT_NS ? left : LIMIT_NS,
                                          .stopping = submit->stopping,
                                          .answer_max = ANSWER_MAX };
    return arena_printf(op->arena, &ret_request->url, "%s%s", log->url, path);
}

struct fault tlog_post(struct op *op, struct submit *submit, const char *path, struct span body,
                       struct http_answer *answer)
{
    struct http_request request;
    TRY(make_request(op, submit, "POST", path, &request));
    request.content_type = "application/json";
    request.accept = "application/json";
    request.body = body;
    request.want = "x-log-index:";
    return exchange(op, submit, &request, answer);
}

struct fault tlog_get(struct op *op, struct submit *submit, const char *path, struct http_answer *answer)
{
    struct http_request request;
    TRY(make_request(op, submit, "GET", path, &request));
    request.accept = strncmp(path, "/api/v1/", 8) == 0 ? "application/json" : NULL;
    return exchange(op, submit, &request, answer);
}
