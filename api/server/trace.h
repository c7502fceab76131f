/* W3C Trace Context: the caller's trace is continued when its traceparent is well-formed, otherwise a new one begins.
 */
#ifndef API_SERVER_TRACE_H
#define API_SERVER_TRACE_H

#include "appliance/base/op.h"

#define TRACEPARENT_LEN 55

/* The trace id of a version 00 (or longer, later) traceparent. False leaves ret_trace_id untouched. */
bool traceparent_parse(const char *text, char ret_trace_id[33]);
/* Sets op's trace_id (continued from `header`, which may be NULL) and a fresh span_id. CRYPTO. */
struct fault trace_begin(struct op *op, const char *header);
/* "00-<trace>-<span>-01" of the operation. */
void traceparent_print(const struct op *op, char out[TRACEPARENT_LEN + 1]);

#endif
