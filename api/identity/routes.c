#include "api/identity/internal.h"

#include "api/page.h"
#include "appliance/base/secret.h"

#define ANSWER_MAX    ((size_t)256 << 10)
#define TTL_DEFAULT_S (30 * 86400)

struct fault route_token_create(struct request *request)
{
    const struct token_create_body *body = request->body;
    CLEANUP(buf_free) struct buf answer = BUF_INIT(ANSWER_MAX); /* wiped when freed */
    struct token_issued token = { 0 };
    const struct token_request wanted = {
        .subject = body->subject,
        .roles = body->roles.at,
        .role_count = body->roles.count,
        .ttl_s = body->ttl_seconds != 0 ? body->ttl_seconds : TTL_DEFAULT_S,
    };
    TRY(identity_may_grant(request->op, request->services->identity, &wanted));
    TRY(identity_token_issue(request->op, request->services, &wanted, &token));
    struct jout jout;
    jout_init(&jout, &answer);
    token_print_issued(&jout, request->op->tenant, &wanted, &token);
    struct fault fault = jout_end(&jout);
    secret_wipe(&token, sizeof(token));
    TRY(fault);
    TRY(response_header(request, "Cache-Control", "no-store"));
    return response_json(request, 0, &answer);
}

static struct fault read_filter(struct request *request, const struct page *page, struct token_filter *ret_filter)
{
    const char *active = request_query(request, "active");
    struct token_filter filter = {
        .subject = request_query(request, "subject"),
        .before_us = page->number,
        .before_id = page->id,
        .limit = page->limit + 1,
    };
    if (active != NULL) {
        bool yes = strcmp(active, "true") == 0;
        if (!yes && strcmp(active, "false") != 0) {
            return op_fail_field(request->op, FAULT(QUERY), "active", "active must be true or false");
        }
        filter.active = yes ? TOKEN_ACTIVE : TOKEN_INACTIVE;
    }
    *ret_filter = filter;
    return OK;
}

struct fault route_token_list(struct request *request)
{
    CLEANUP(buf_free) struct buf answer = BUF_INIT(ANSWER_MAX);
    struct page page;
    struct token_filter filter;
    struct token_row *rows = NULL;
    size_t count = 0;
    TRY(page_read(request, &page));
    TRY(read_filter(request, &page, &filter));
    TRY(token_list(request->op, request->services->store, &filter, &rows, &count));

    struct jout jout;
    utc_us now = clock_utc();
    bool more = count > (size_t)page.limit;
    size_t shown = more ? (size_t)page.limit : count;
    jout_init(&jout, &answer);
    jout_object(&jout);
    jout_key(&jout, "items");
    jout_array(&jout);
    for (size_t i = 0; i < shown; i++) {
        token_print(&jout, &rows[i], now);
    }
    TRY(page_end(request, &jout, more, more ? rows[shown - 1].created : 0, more ? rows[shown - 1].id.text : ""));
    return response_json(request, 0, &answer);
}

struct fault route_token_revoke(struct request *request)
{
    const struct token_revoke_body *body = request->body;
    CLEANUP(buf_free) struct buf answer = BUF_INIT(ANSWER_MAX);
    struct uuid id;
    struct token_row row;
    if (FAULTED(uuid_parse(span_text(request_path(request, "id")), &id))) {
        return op_fail(request->op, FAULT(NOT_FOUND), "no such token: its id is the token_id of the list");
    }
    TRY(identity_token_revoke(request->op, request->services, id, body->reason));
    TRY(token_get(request->op, request->services->store, id, &row));
    struct jout jout;
    jout_init(&jout, &answer);
    token_print(&jout, &row, clock_utc());
    TRY(jout_end(&jout));
    return response_json(request, 0, &answer);
}
