#include "api/compliance/internal.h"
#include "api/compliance/verify.h"

/* The event is in the log before the first byte leaves; what it is about is whole before. */
struct fault route_evidence_pack(struct request *request)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(EVIDENCE_PACK_MAX);
    struct op *op = request->op;
    const char *name = request_path(request, "framework"), *value = NULL;
    const struct framework *framework = NULL;
    struct sha256 digest;
    TRY(pack_framework(op, name, &framework));
    if (!response_stream_wanted(request)) {
        return response_stream_begin(request, 0, "application/json"); /* the head alone: nothing is made */
    }
    TRY(pack_make(op, request->services, framework->id, &json, &digest));
    TRY(pack_record_read(op, request->services, "evidence-pack", framework->id, &digest));
    TRY(arena_printf(op->arena, &value, "attachment; filename=\"evidence-pack-%s.json\"", framework->id));
    TRY(response_header(request, "Content-Disposition", value));
    TRY(response_stream_begin(request, 0, "application/json"));
    return response_stream_write(request, buf_span(&json));
}
