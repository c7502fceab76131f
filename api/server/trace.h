/*
 * W3C Trace Context: the caller's trace is continued when its traceparent is well-formed, otherwise a new one begins;
 * neither is ever an error. Whether it is recorded is the sampler's word (appliance/base/tracing.h), and the caller's
 * where there is one, from when on it is known who calls: recording costs. The caller's tracestate is passed on, and
 * returned, as far as it is one.
 */
#ifndef API_SERVER_TRACE_H
#define API_SERVER_TRACE_H

#include "api/server/message.h"
#include "appliance/base/op.h"

#define TRACEPARENT_LEN        55
#define TRACESTATE_MAX         512 /* characters that are passed on (Trace Context 3.3.1.5) */
#define TRACESTATE_MEMBERS_MAX 32

struct traceparent {
    char trace_id[33];
    char parent_id[17];
    bool sampled;
};
/* A version 00 (or longer, later) traceparent. False leaves *ret_parent untouched. */
bool traceparent_parse(const char *text, struct traceparent *ret_parent);
/* Adds the members of one tracestate header to `out`, whose max bounds them. False: it is no tracestate, or there are
 * too many members, or one key is there twice; then all of it is to be dropped. `members` counts over several headers.
 */
bool tracestate_add(const char *text, struct buf *out, size_t *members);
/* Cuts it to TRACESTATE_MAX: first members of more than 128 characters go, then the last ones. */
void tracestate_cut(struct buf *state);

/* Sets op's trace_id, a fresh span_id, and what the message says of the caller's. A sampled flag that is set asks for
 * no more than the ratio gives, of an id that the caller has no hand in. NULL: there is no message. CRYPTO. */
struct fault trace_begin(struct op *op, const struct message *message);
/* The caller is authenticated: its sampled flag counts from here on, if it gave one. */
void trace_caller_known(struct op *op, const struct message *message);
/* "00-<trace>-<span>-01" of the operation, or -00 when it is not sampled. */
void traceparent_print(const struct op *op, char out[TRACEPARENT_LEN + 1]);

#endif
