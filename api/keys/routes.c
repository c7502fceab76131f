#include "api/keys/internal.h"

#include "api/page.h"
#include "appliance/base/codec.h"

struct fault route_key_answer(struct request *request, const struct managed_key *key)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT((size_t)1 << 20);
    struct jout jout;
    jout_init(&jout, &out);
    TRY(key_print(&jout, key));
    TRY(jout_end(&jout));
    return response_json(request, 0, &out);
}

struct fault route_key_id(struct request *request, struct uuid *ret_id)
{
    if (FAULTED(uuid_parse(span_text(request_path(request, "id")), ret_id))) {
        return op_fail(request->op, FAULT(KEY_NOT_FOUND), "no such key: list the keys with GET /api/v1/keys");
    }
    return OK;
}

struct fault route_key_create(struct request *request)
{
    const struct key_create_body *body = request->body;
    struct key_create create = {
        .purpose = KEY_PURPOSE_CODESIGN,
        .name = body->name,
        .token = body->token,
        .prepare = body->prepare,
        .max_uses = body->max_uses,
        .not_after = body->not_after,
    };
    if (body->purpose != NULL && strcmp(body->purpose, key_purpose_text(KEY_PURPOSE_CODESIGN)) != 0) {
        return op_fail_field(
            request->op, FAULT(JSON_FIELD), "/purpose",
            "/purpose: keys of purpose codesign are made here; the appliance makes its own keys itself");
    }
    if (FAULTED(key_algorithm_parse(span_text(body->algorithm), &create.algorithm)) ||
        create.algorithm == KEY_ALGORITHM_AES_256) {
        return op_fail_field(request->op, FAULT(JSON_FIELD), "/algorithm",
                             "/algorithm: must be ec-p256, ec-p384, rsa-3072, rsa-4096 or ml-dsa-65");
    }
    TRY(keys_check_fence(request->op, create.algorithm, "/algorithm"));
    struct managed_key key;
    TRY(key_create(request->op, request->services, &create, &key));
    return route_key_answer(request, &key);
}

struct fault route_key_get(struct request *request)
{
    struct uuid id;
    struct managed_key key;
    TRY(route_key_id(request, &id));
    TRY(keys_get(request->op, request->services, id, &key));
    return route_key_answer(request, &key);
}

/* "36h", as in the configuration; -1 where the request says nothing. */
static struct fault read_overlap(struct op *op, const char *text, int64_t *ret_us)
{
    int64_t ns = -1000;
    if (text != NULL && (FAULTED(duration_parse(span_text(text), &ns)) || ns / 1000 > KEY_OVERLAP_MAX)) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/overlap",
                             "/overlap: must be a duration from 0s to 8784h, such as 36h");
    }
    *ret_us = ns / 1000;
    return OK;
}

/* A member that the move does not know would silently do nothing: refused instead. */
static struct fault check_members(struct op *op, const struct key_transition_body *body, enum key_state to)
{
    if (to != KEY_ACTIVE && (body->max_uses != 0 || body->not_after != 0)) {
        return op_fail_field(op, FAULT(JSON_FIELD), body->max_uses != 0 ? "/max_uses" : "/not_after",
                             "limits are set when a key is made or activated, and fixed from then on");
    }
    if (to == KEY_DESTROYED && body->overlap != NULL) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/overlap", "/overlap: a destruction has none");
    }
    if (body->not_after != 0 && body->not_after <= clock_utc()) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/not_after", "/not_after: lies in the past");
    }
    return OK;
}

struct fault route_key_transition(struct request *request)
{
    const struct key_transition_body *body = request->body;
    struct op *op = request->op;
    struct key_move move = {
        .reason = body->reason,
        .expected_version = body->expected_version,
        .max_uses = body->max_uses,
        .not_after = body->not_after,
    };
    struct uuid id;
    struct managed_key key;
    TRY(route_key_id(request, &id));
    if (!key_state_parse(body->to, &move.to) || move.to == KEY_PREPARED || move.to == KEY_RETIRING) {
        return op_fail_field(op, FAULT(JSON_FIELD), "/to", "/to: must be active, retired or destroyed");
    }
    TRY(read_overlap(op, body->overlap, &move.overlap_us));
    TRY(check_members(op, body, move.to));
    TRY(key_transition(op, request->services, id, &move, &key));
    return route_key_answer(request, &key);
}

/* A filter that names nothing known would silently show nothing: refused instead. */
static struct fault check_filter(struct op *op, const struct key_filter *filter)
{
    enum key_purpose purpose;
    enum key_algorithm algorithm;
    enum key_state state;
    if (filter->purpose != NULL && FAULTED(key_purpose_parse(span_text(filter->purpose), &purpose))) {
        return op_fail_field(op, FAULT(QUERY), "purpose", "purpose: no such purpose");
    }
    if (filter->state != NULL && !key_state_parse(filter->state, &state)) {
        return op_fail_field(op, FAULT(QUERY), "state",
                             "state: must be prepared, active, retiring, retired or destroyed");
    }
    if (filter->algorithm != NULL && FAULTED(key_algorithm_parse(span_text(filter->algorithm), &algorithm))) {
        return op_fail_field(op, FAULT(QUERY), "algorithm", "algorithm: no such algorithm");
    }
    return OK;
}

static struct fault read_filter(struct request *request, const struct page *page, struct key_filter *ret_filter)
{
    struct key_filter filter = { .purpose = request_query(request, "purpose"),
                                 .state = request_query(request, "state"),
                                 .algorithm = request_query(request, "algorithm"),
                                 .name = request_query(request, "name"),
                                 .before_us = page->number,
                                 .before_id = page->id,
                                 .limit = page->limit + 1 };
    const char *expires = request_query(request, "expires_before");
    if (expires != NULL && FAULTED(rfc3339_parse(span_text(expires), &filter.expires_before))) {
        return op_fail_field(request->op, FAULT(QUERY), "expires_before",
                             "expires_before: must be a time such as 2027-01-31T00:00:00Z");
    }
    TRY(check_filter(request->op, &filter));
    *ret_filter = filter;
    return OK;
}

struct fault route_key_list(struct request *request)
{
    struct page page;
    TRY(page_read(request, &page));
    struct key_filter filter;
    TRY(read_filter(request, &page, &filter));
    struct managed_key *keys = NULL;
    size_t count = 0;
    TRY(key_list(request->op, request->services, &filter, &keys, &count));
    CLEANUP(buf_free) struct buf out = BUF_INIT((size_t)8 << 20);
    struct jout jout;
    jout_init(&jout, &out);
    jout_object(&jout);
    jout_key(&jout, "items");
    jout_array(&jout);
    bool more = count > (size_t)page.limit;
    size_t shown = more ? (size_t)page.limit : count;
    for (size_t i = 0; i < shown; i++) {
        TRY(key_print(&jout, &keys[i]));
    }
    const struct managed_key *last = shown > 0 ? &keys[shown - 1] : NULL;
    TRY(page_end(request, &jout, more, last != NULL ? last->created : 0, last != NULL ? last->ref.id.text : ""));
    return response_json(request, 0, &out);
}
