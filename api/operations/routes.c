#include "api/operations/internal.h"

#include "api/page.h"

#include <errno.h>

#define ANSWER_MAX ((size_t)2 << 20)

static void put_time_or_null(struct jout *jout, const char *key, utc_us time)
{
    if (time > 0) {
        jout_key_time(jout, key, time);
    } else {
        jout_key(jout, key);
        jout_null(jout);
    }
}

static void print_seen(struct jout *jout, const struct outbox_seen *seen)
{
    char id[24];
    (void)snprintf(id, sizeof(id), "%lld", (long long)seen->id);
    jout_object(jout);
    jout_key_text(jout, "outbox_id", id);
    jout_key_text(jout, "destination", seen->destination);
    jout_key_text(jout, "key", seen->key);
    jout_key_text(jout, "state", seen->state);
    jout_key_int(jout, "attempts", seen->attempts);
    jout_key_text(jout, "last_code", seen->code);
    put_time_or_null(jout, "first_failed_at", seen->failed_first);
    put_time_or_null(jout, "last_failed_at", seen->failed_last);
    jout_key_time(jout, "created_at", seen->created);
    put_time_or_null(jout, "due_at", seen->due);
    put_time_or_null(jout, "lease_until", seen->lease_until);
    jout_key_text(jout, "trace_id", seen->trace_id);
    jout_object_end(jout);
}

/* Ids are texts of digits. */
static struct fault read_id(struct request *request, int64_t *ret_id)
{
    const char *text = request_path(request, "id");
    int64_t id = 0;
    bool good = text[0] != '\0';
    for (const char *c = text; good && *c != '\0'; c++) {
        good = *c >= '0' && *c <= '9' && !__builtin_mul_overflow(id, 10, &id) &&
               !__builtin_add_overflow(id, *c - '0', &id);
    }
    if (!good) {
        return op_fail(request->op, FAULT(NOT_FOUND), "no such effect: list them with GET /api/v1/outbox");
    }
    *ret_id = id;
    return OK;
}

static struct fault answer_seen(struct request *request, int64_t id)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    struct outbox_seen seen;
    struct jout jout;
    TRY(tx_begin(request->op, request->services->store, STORE_REQUEST, &tx));
    TRY(outbox_get(request->op, tx, id, &seen));
    tx_rollback(TAKE(tx));
    jout_init(&jout, &out);
    print_seen(&jout, &seen);
    TRY(jout_end(&jout));
    return response_json(request, 0, &out);
}

static struct fault read_wanted(struct request *request, struct page *page, struct outbox_wanted *wanted)
{
    static const char *const states[] = { "pending", "processing", "dead-lettered" };
    bool known = false;
    TRY(page_read(request, page));
    wanted->state = request_query(request, "state");
    wanted->destination = request_query(request, "destination");
    wanted->before = page->number;
    wanted->limit = page->limit + 1;
    for (size_t i = 0; i < COUNT_OF(states); i++) {
        known = known || (wanted->state != NULL && strcmp(states[i], wanted->state) == 0);
    }
    if (wanted->state != NULL && !known) {
        return op_fail_field(request->op, FAULT(QUERY), "state",
                             "state must be pending, processing or dead-lettered: what was delivered is not listed");
    }
    if (wanted->destination != NULL && destination_find(wanted->destination) == NULL) {
        return op_fail_field(request->op, FAULT(QUERY), "destination", "no such destination");
    }
    return OK;
}

struct fault route_outbox_list(struct request *request)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    struct outbox_wanted wanted = { 0 };
    struct outbox_seen *list = NULL;
    struct page page;
    struct jout jout;
    size_t count = 0;
    TRY(read_wanted(request, &page, &wanted));
    TRY(outbox_list(request->op, request->services, &wanted, &list, &count));
    bool more = count > (size_t)page.limit;
    size_t shown = more ? (size_t)page.limit : count;
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key(&jout, "items");
    jout_array(&jout);
    for (size_t i = 0; i < shown; i++) {
        print_seen(&jout, &list[i]);
    }
    TRY(page_end(request, &jout, more, more ? list[shown - 1].id : 0, ""));
    return response_json(request, 0, &out);
}

struct fault route_outbox_get(struct request *request)
{
    int64_t id = 0;
    TRY(read_id(request, &id));
    return answer_seen(request, id);
}

struct fault route_outbox_requeue(struct request *request)
{
    const struct requeue_body *body = request->body;
    int64_t id = 0;
    TRY(read_id(request, &id));
    TRY(requeue_one(request->op, request->services, id, body->reason));
    return answer_seen(request, id);
}

struct fault route_outbox_requeue_many(struct request *request)
{
    const struct requeue_many_body *body = request->body;
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    struct requeued told = { 0 };
    struct jout jout;
    int64_t limit = body->limit > 0 ? body->limit : REQUEUE_MOST;
    TRY(requeue_many(request->op, request->services, body->destination, limit, body->reason, &told));
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key_text(&jout, "destination", body->destination);
    jout_key_int(&jout, "requeued", told.requeued);
    jout_key_int(&jout, "refused", told.refused);
    jout_key_text(&jout, "refused_why", told.refused_why);
    jout_key_bool(&jout, "more", told.more);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return response_json(request, 0, &out);
}
