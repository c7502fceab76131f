#include "api/transparency/internal.h"

#include "api/page.h"

#define ANSWER_MAX ((size_t)64 << 20)

static struct fault read_filter(struct request *request, struct evidence_filter *filter)
{
    static const char *const states[] = { "pending", "published", "failed" };
    filter->state = request_query(request, "state");
    filter->log = request_query(request, "log");
    bool known = filter->state == NULL;
    for (size_t i = 0; i < COUNT_OF(states) && !known; i++) {
        known = strcmp(filter->state, states[i]) == 0;
    }
    if (!known) {
        return op_fail_field(request->op, FAULT(QUERY), "state", "state must be pending, published or failed");
    }
    /* By its name in the logs file, too. */
    struct transparency *logs = request->services->transparency;
    for (size_t i = 0; filter->log != NULL && logs != NULL && i < logs->count; i++) {
        const struct tlog *log = &logs->logs[i];
        if (strcmp(log->name, filter->log) == 0 && tlog_serves(log, request->op->tenant)) {
            filter->log = log->destination;
            break;
        }
    }
    return OK;
}

struct fault route_transparency_list(struct request *request)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(ANSWER_MAX);
    struct evidence_filter filter = { 0 };
    struct evidence *list = NULL;
    struct page page;
    size_t count = 0;
    TRY(page_read(request, &page));
    TRY(read_filter(request, &filter));
    filter.before_sequence = page.number;
    filter.before_id = page.id;
    filter.limit = page.limit + 1;
    TRY(evidence_list(request->op, request->services, &filter, &list, &count));
    size_t shown = count > (size_t)page.limit ? (size_t)page.limit : count;
    struct jout jout;
    jout_init(&jout, &json);
    jout_object(&jout);
    jout_key(&jout, "items");
    jout_array(&jout);
    for (size_t i = 0; i < shown; i++) {
        jout_object(&jout);
        jout_key_text(&jout, "operation_id", list[i].operation_id);
        evidence_print(&jout, &list[i]);
        jout_object_end(&jout);
    }
    const struct evidence *last = shown > 0 ? &list[shown - 1] : NULL;
    TRY(page_end(request, &jout, shown < count, last != NULL ? last->sequence : 0,
                 last != NULL ? last->operation_id : ""));
    return response_json(request, 0, &json);
}
