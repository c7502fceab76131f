/* rooms: cli */
/*
 * An answer of the server as the client looks into it. Oracles: a look stays inside the bytes (sanitizers); an array's
 * elements and an object's members are JSON again, and no longer than what they came from; text is NUL-terminated.
 */
#include "api/cli/view.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static const char *const paths[] = { "a", "id", "items", "next_cursor", "a.b", "record.actor.roles", "" };

static void look(struct op *op, struct view view, unsigned depth)
{
    struct view rest = view, item, again;
    int64_t number = 0;
    struct span decoded;
    const char *text = view_text(op, view);
    BUG_IF(text != NULL && strlen(text) > view.json.len);
    IGNORE(view_int(view, &number));
    IGNORE(view_base64(op, view, &decoded));
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        struct view member = view_get(view, paths[i]);
        BUG_IF(member.json.len > view.json.len);
        BUG_IF(member.json.len > 0 && FAULTED(view_of(op, member.json, &again)));
    }
    for (unsigned i = 0; i < 64 && view_next(&rest, &item); i++) {
        BUG_IF(item.json.len >= view.json.len || FAULTED(view_of(op, item.json, &again)));
        if (depth < 4) {
            look(op, item, depth + 1);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    CLEANUP(op_freep) struct op *op = NULL;
    struct view view;
    BUG_IF(FAULTED(op_new("fuzz", (struct tenant_id){ 0 }, 1 << 30, &op)));
    if (len <= 4096 && !FAULTED(view_of(op, span_of(bytes, len), &view))) {
        look(op, view, 0);
    }
    return 0;
}
