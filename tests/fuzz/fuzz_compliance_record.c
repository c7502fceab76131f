/* rooms: compliance inventory server base */
/* A record of any bytes. What is called canonical without being parsed is its own canonical form, and can be looked
 * into: what is found there is what parsing finds. */
#include "api/compliance/load.h"
#include "appliance/base/json_view.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const paths[] = { "type", "tenant_id", "actor.subject", "data.ok", "data.a.b", "a" };
    CLEANUP(op_freep) struct op *op = NULL;
    struct span record = span_of(data, size);
    struct view parsed;
    if (!load_is_canonical(record) || FAULTED(op_new("fuzz", (struct tenant_id){ "" }, 1000, &op))) {
        return 0;
    }
    BUG_IF(FAULTED(view_of(op, record, &parsed)) || !span_equal(parsed.json, record));
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        struct view found = view_get((struct view){ record }, paths[i]), wanted = view_get(parsed, paths[i]);
        BUG_IF(!span_equal(found.json, wanted.json));
        const char *text = view_text(op, found);
        BUG_IF((text == NULL) != (view_text(op, wanted) == NULL));
    }
    return 0;
}
