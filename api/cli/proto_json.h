/*
 * Protobuf's JSON form, as Sigstore's documents have it: int64 as text (or a number), bytes as base64, an absent member
 * is its default. Unknown members are passed over; a known one of the wrong kind is BUNDLE_INVALID with its name.
 */
#ifndef API_CLI_PROTO_JSON_H
#define API_CLI_PROTO_JSON_H

#include "api/cli/view.h"

/* Text without NUL; NULL when absent. */
struct fault proto_text(struct op *op, struct view object, const char *path, const char **ret_text);
/* Empty when absent. */
struct fault proto_bytes(struct op *op, struct view object, const char *path, struct span *ret_bytes);
/* Not negative; 0 when absent. */
struct fault proto_int64(struct op *op, struct view object, const char *path, int64_t *ret_number);
/* Timestamp; 0 when absent. */
struct fault proto_time(struct op *op, struct view object, const char *path, utc_us *ret_time);
/* An array; an empty view when absent. */
struct fault proto_list(struct op *op, struct view object, const char *path, struct view *ret_list);
/* An object; an empty view when absent. */
struct fault proto_object(struct op *op, struct view object, const char *path, struct view *ret_object);

#endif
