#include "api/server/wire.h"

#include "api/server/trace.h"

#include <stdio.h>
#include <time.h>

/* A thread prints it once a second. */
static struct fault put_date(struct buf *out)
{
    static thread_local char date[64];
    static thread_local time_t printed;
    struct tm parts;
    time_t now = (time_t)(clock_utc() / US_PER_S);
    if (printed != now) {
        printed = 0;
        REQUIRE(gmtime_r(&now, &parts) != NULL &&
                    strftime(date, sizeof(date), "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &parts) != 0,
                INTERNAL);
        printed = now;
    }
    return buf_text(out, date);
}

static struct fault put_field(struct buf *out, const char *name, const char *value)
{
    TRY(buf_text(out, name));
    TRY(buf_text(out, ": "));
    TRY(buf_text(out, value));
    return buf_text(out, "\r\n");
}

/* What nobody said may be kept is not. */
static bool says_what_may_be_kept(const struct response *response)
{
    for (size_t i = 0; i < response->header_count; i++) {
        if (strcmp(response->headers[i].name, "Cache-Control") == 0) {
            return true;
        }
    }
    return false;
}

static struct fault put_fixed(const struct op *op, const struct wire_answer *answer, struct buf *out)
{
    const struct response *response = answer->response;
    char traceparent[TRACEPARENT_LEN + 1];
    traceparent_print(op, traceparent);
    TRY(buf_printf(out, "HTTP/1.1 %d %s\r\n", response->status, answer->reason));
    TRY(put_date(out));
    if (response->content_type != NULL && (answer->chunked || response->body.len > 0)) {
        TRY(put_field(out, "Content-Type", response->content_type));
    }
    if (response->status != 304) { /* which would be asked about the length that a 200 has (RFC 9110 8.6) */
        TRY(answer->chunked ? buf_text(out, "Transfer-Encoding: chunked\r\n")
                            : buf_printf(out, "Content-Length: %zu\r\n", response->body.len));
    }
    TRY(buf_text(out, answer->keep_alive ? "Connection: keep-alive\r\n" : "Connection: close\r\n"));
    TRY(put_field(out, "traceparent", traceparent));
    if (op->tracestate != NULL) {
        TRY(put_field(out, "tracestate", op->tracestate));
    }
    TRY(buf_text(out, says_what_may_be_kept(response) ? "" : "Cache-Control: no-store\r\n"));
    TRY(buf_text(out, "X-Content-Type-Options: nosniff\r\n"));
    return answer->tls ? buf_text(out, "Strict-Transport-Security: max-age=31536000\r\n") : OK;
}

struct fault wire_print(const struct op *op, const struct wire_answer *answer, struct buf *out, struct span *ret_rest)
{
    const struct response *response = answer->response;
    TRY(put_fixed(op, answer, out));
    for (size_t i = 0; i < response->header_count; i++) {
        TRY(put_field(out, response->headers[i].name, response->headers[i].value));
    }
    TRY(buf_text(out, "\r\n"));
    *ret_rest = answer->head_only || answer->chunked ? (struct span){ 0 } : response->body;
    if (ret_rest->len > 0 && ret_rest->len <= WIRE_JOIN_MAX) {
        TRY(buf_put(out, *ret_rest));
        *ret_rest = (struct span){ 0 };
    }
    return OK;
}
