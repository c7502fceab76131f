#include "api/inventory/credentials.h"

#include "api/page.h"
#include "appliance/base/codec.h"

#define ANSWER_MAX ((size_t)1 << 20)

const struct jin_field review_open_fields[] = {
    JIN_TEXT(struct review_open_body, title, JIN_REQUIRED, 1, 256),
    JIN_TEXTS(struct review_open_body, kinds, JIN_OPTIONAL, 1, 3),
    JIN_TEXT(struct review_open_body, owner_id, JIN_OPTIONAL, 1, 128),
};
const size_t review_open_count = COUNT_OF(review_open_fields);
const struct jin_field review_decide_fields[] = {
    JIN_RAW(struct review_decide_body, decisions, JIN_REQUIRED, 2, (int64_t)512 << 10),
};
const size_t review_decide_count = COUNT_OF(review_decide_fields);

static void print_kinds(struct jout *jout, const char *kinds)
{
    jout_key(jout, "kinds");
    jout_array(jout);
    for (const char *at = kinds; *at != '\0';) {
        size_t len = strcspn(at, " ");
        jout_span_text(jout, span_of(at, len));
        at += len + (at[len] == ' ' ? 1 : 0);
    }
    jout_array_end(jout);
}

/* Members of the open object. counts: how far it is, which lists do not ask. */
static void print_review(struct jout *jout, const struct review *review, bool counts)
{
    jout_key_text(jout, "review_id", review->id.text);
    jout_key_text(jout, "state", review->state);
    jout_key_text(jout, "title", review->title);
    print_kinds(jout, review->kinds);
    if (review->owner_id[0] != '\0') {
        jout_key_text(jout, "owner_id", review->owner_id);
    }
    jout_key_hex(jout, "inventory_digest", SPAN_ARRAY(review->digest.at));
    jout_key_int(jout, "total", review->total);
    jout_key_text(jout, "opened_by", review->opened_by);
    jout_key_time(jout, "opened_at", review->opened);
    bool completed = review->completed_by != NULL;
    if (counts || completed) {
        jout_key_int(jout, "kept", review->kept);
        jout_key_int(jout, "revoked", review->revoked);
    }
    if (counts) {
        jout_key_int(jout, "undecided", review->undecided);
        jout_key_int(jout, "revoked_live", review->revoked_live);
    }
    if (completed) {
        jout_key_text(jout, "completed_by", review->completed_by);
        jout_key_time(jout, "completed_at", review->completed);
    }
}

static struct fault load(struct request *request, const char *id, struct review *ret_review)
{
    struct fault fault = review_get(request->op, request->services, id, clock_utc(), ret_review);
    return fault.code == FAULT_NOT_FOUND
               ? op_fail(request->op, fault, "no such access review: list them with GET /api/v1/access-reviews")
               : fault;
}

static struct fault answer(struct request *request, const char *id)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    struct review review;
    struct jout jout;
    TRY(load(request, id, &review));
    jout_init(&jout, &out);
    jout_object(&jout);
    print_review(&jout, &review, true);
    jout_object_end(&jout);
    TRY(jout_end(&jout));
    return response_json(request, 0, &out);
}

struct fault route_review_open(struct request *request)
{
    struct uuid id;
    TRY(review_open(request->op, request->services, request->body, &id));
    return answer(request, id.text);
}

struct fault route_review_decide(struct request *request)
{
    const struct review_decide_body *body = request->body;
    const char *id = request_path(request, "id");
    TRY(review_decide(request->op, request->services, id, body->decisions));
    return answer(request, id);
}

struct fault route_review_complete(struct request *request)
{
    const char *id = request_path(request, "id");
    TRY(review_complete(request->op, request->services, id));
    return answer(request, id);
}

struct fault route_review_list(struct request *request)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    struct page page;
    struct review *list = NULL;
    size_t count = 0;
    struct jout jout;
    TRY(page_read(request, &page));
    TRY(review_list(request->op, request->services, page.number, page.limit + 1, &list, &count));
    bool more = count > (size_t)page.limit;
    size_t shown = more ? (size_t)page.limit : count;
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key(&jout, "items");
    jout_array(&jout);
    for (size_t i = 0; i < shown; i++) {
        jout_object(&jout);
        print_review(&jout, &list[i], false);
        jout_object_end(&jout);
    }
    TRY(page_end(request, &jout, more, more ? list[shown - 1].sequence : 0, ""));
    return response_json(request, 0, &out);
}

static void print_item(struct jout *jout, const struct review_item *item)
{
    jout_object(jout);
    jout_key_text(jout, "kind", item->kind);
    jout_key_text(jout, "credential_id", item->id);
    if (item->decision != NULL) {
        jout_key_text(jout, "decision", item->decision);
        jout_key_text(jout, "reason", item->reason);
        jout_key_text(jout, "decided_by", item->decided_by);
        jout_key_time(jout, "decided_at", item->decided);
    }
    jout_object_end(jout);
}

static struct fault read_undecided(struct request *request, bool *ret_undecided)
{
    const char *text = request_query(request, "undecided");
    if (text != NULL && strcmp(text, "true") != 0 && strcmp(text, "false") != 0) {
        return op_fail_field(request->op, FAULT(QUERY), "undecided", "undecided must be true or false");
    }
    *ret_undecided = text != NULL && strcmp(text, "true") == 0;
    return OK;
}

struct fault route_review_get(struct request *request)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(ANSWER_MAX);
    const char *id = request_path(request, "id");
    struct page page;
    struct review review;
    struct review_item *items = NULL;
    size_t count = 0;
    bool undecided = false;
    struct jout jout;
    TRY(page_read(request, &page));
    TRY(read_undecided(request, &undecided));
    TRY(load(request, id, &review));
    int64_t after = page.number == INT64_MAX ? 0 : page.number;
    TRY(review_items(request->op, request->services, id, after, page.limit + 1, undecided, &items, &count));
    bool more = count > (size_t)page.limit;
    size_t shown = more ? (size_t)page.limit : count;
    jout_init(&jout, &out);
    jout_object(&jout);
    print_review(&jout, &review, true);
    jout_key(&jout, "items");
    jout_array(&jout);
    for (size_t i = 0; i < shown; i++) {
        print_item(&jout, &items[i]);
    }
    TRY(page_end(request, &jout, more, more ? items[shown - 1].position : 0, ""));
    return response_json(request, 0, &out);
}
