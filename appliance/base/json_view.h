/*
 * A look into JSON that somebody else wrote (an answer of a server, another service's document): members are picked by
 * name and everything else is passed over, so that a server that tells more than this client knows still works with it.
 * (What is decoded by tables, json.h, refuses the unknown.) Views borrow from the operation's arena and stay valid as
 * long as it.
 *
 *     struct view answer;
 *     TRY(view_of(op, body, &answer));
 *     const char *id = view_member(op, answer, "key.id");    -- NULL when it is missing
 */
#ifndef APPLIANCE_BASE_JSON_VIEW_H
#define APPLIANCE_BASE_JSON_VIEW_H

#include "appliance/base/op.h"

struct view {
    struct span json; /* one value in canonical form (RFC 8785); empty = there is none */
};

/* JSON_SYNTAX when the bytes are no JSON. */
struct fault view_of(struct op *op, struct span bytes, struct view *ret_view);
/* A member by name, or by "name.name"; an empty view when there is none. */
struct view view_get(struct view object, const char *path);
/* Elements of an array, one after another: `rest` starts as the array itself. False at the end. */
bool view_next(struct view *rest, struct view *ret_item);
static inline bool view_is_there(struct view view)
{
    return view.json.len > 0 && !span_equal_text(view.json, "null");
}
/* A string unescaped, any other value as its JSON text; NULL for an empty view or null. */
const char *view_text(struct op *op, struct view view);
/* A member as text; NULL when it is missing. */
const char *view_member(struct op *op, struct view object, const char *path);
/* A whole number; JSON_FIELD otherwise. */
struct fault view_int(struct view view, int64_t *ret_number);
/* Base64 text as bytes in the arena; JSON_FIELD otherwise. */
struct fault view_base64(struct op *op, struct view view, struct span *ret_bytes);

#endif
