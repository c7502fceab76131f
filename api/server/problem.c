#include "api/server/problem.h"

#include "appliance/base/json.h"
#include "appliance/base/utf8.h"

#include <stdio.h>

#define PROBLEM_MAX           4096
#define RETRY_AFTER_DEFAULT_S 2
/* Faults below this number are the plumbing's: with status 500 or 502 their details are about our inside. */
#define FIRST_FEATURE_FAULT   140

static const char last_resort[] = "{\"type\":\"urn:svc:problem:out_of_memory\",\"title\":\"Out of memory\","
                                  "\"status\":503,\"code\":\"out_of_memory\",\"retryable\":true}";

/* Whether the note is about this fault, and its words are the caller's business. */
static bool tells_note(const struct op *op, const struct fault_row *row)
{
    bool inner = (row->http == 500 || row->http == 502) && row->code < FIRST_FEATURE_FAULT;
    return op->note.set && op->note.code == row->code && !inner;
}

/* Notes may hold what the caller sent: only what is UTF-8 can be said back. */
static void key_text(struct jout *jout, const char *key, const char *text)
{
    if (text[0] != 0 && !FAULTED(utf8_check(span_text(text)))) {
        jout_key_text(jout, key, text);
    }
}

static void put_extensions(struct jout *jout, const struct op *op, const struct fault_row *row)
{
    if (row->retry == FAULT_RETRY_LATER) {
        jout_key_bool(jout, "retryable", true);
    }
    if (!tells_note(op, row)) {
        return;
    }
    key_text(jout, "pointer", op->note.pointer);
    key_text(jout, "resource", op->note.resource);
    if (row->retry == FAULT_RETRY_LATER) {
        key_text(jout, "sqlstate", op->note.sqlstate);
    }
}

static struct fault print_body(const struct op *op, const struct fault_row *row, struct buf *out)
{
    char type[96];
    char instance[64];
    (void)snprintf(type, sizeof(type), "urn:svc:problem:%s", row->text);
    (void)snprintf(instance, sizeof(instance), "urn:svc:trace:%s", op->trace_id);
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    jout_key_text(&jout, "type", type);
    jout_key_text(&jout, "title", row->title);
    jout_key_int(&jout, "status", row->http);
    jout_key_text(&jout, "code", row->text);
    if (tells_note(op, row)) {
        key_text(&jout, "detail", op->note.detail);
    }
    jout_key_text(&jout, "instance", instance);
    jout_key_text(&jout, "trace_id", op->trace_id);
    put_extensions(&jout, op, row);
    jout_object_end(&jout);
    return jout_end(&jout);
}

static struct fault add_headers(struct op *op, const struct fault_row *row, struct response *response)
{
    if (row->http == 401) {
        const char *challenge = row->code == FAULT_UNAUTHENTICATED ? "Bearer" : "Bearer error=\"invalid_token\"";
        TRY(response_add(op, response, "WWW-Authenticate", challenge));
    }
    if (row->retry == FAULT_RETRY_LATER) {
        char seconds[16];
        bool told = op->note.set && op->note.code == row->code && op->note.retry_after_s > 0;
        (void)snprintf(seconds, sizeof(seconds), "%d", told ? op->note.retry_after_s : RETRY_AFTER_DEFAULT_S);
        TRY(response_add(op, response, "Retry-After", seconds));
    }
    return OK;
}

static struct fault fill(struct op *op, const struct fault_row *row, struct response *response)
{
    CLEANUP(buf_free) struct buf body = BUF_INIT(PROBLEM_MAX);
    TRY(print_body(op, row, &body));
    TRY(arena_copy(op->arena, buf_span(&body), &response->body));
    return add_headers(op, row, response);
}

void problem_fill(struct op *op, struct fault fault, struct response *response)
{
    const struct fault_row *row = fault_row(fault.code);
    bool close = response->close;
    response_clear(response);
    response->close = close;
    response->status = row->http;
    response->content_type = PROBLEM_CONTENT_TYPE;
    response->fault = row->code;
    if (FAULTED(fill(op, row, response))) {
        response->header_count = 0;
        response->status = 503;
        response->body = span_text(last_resort);
        response->fault = FAULT_NO_MEMORY;
    }
}
