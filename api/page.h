/*
 * Pages of a list: the parameters "limit" and "cursor", keyset positions "<number>:<id>", and the answer
 * {"items": [...], "next_cursor": "..."}. A list reads one row more than its limit; that row only says that there is
 * more.
 *
 *     struct page page;
 *     TRY(page_read(request, &page));
 *     ... WHERE (created_us, id) < ($2, $3) ORDER BY created_us DESC, id DESC LIMIT $4   -- page.number, page.id,
 * page.limit + 1
 */
#ifndef API_PAGE_H
#define API_PAGE_H

#include "api/server/request.h"

#include <stdio.h>

#define PAGE_LIMIT_MAX     200
#define PAGE_LIMIT_DEFAULT 50
#define PAGE_ID_MAX        64

struct page {
    int64_t limit;
    int64_t number;           /* of the last row of the page before; INT64_MAX at first */
    char id[PAGE_ID_MAX + 1]; /* "" at first */
};

static inline struct fault page_read_limit(struct op *op, const char *text, int64_t *ret_limit)
{
    int64_t limit = 0;
    for (const char *digit = text; *digit != '\0'; digit++) {
        if (*digit < '0' || *digit > '9' || limit > PAGE_LIMIT_MAX) {
            limit = PAGE_LIMIT_MAX + 1;
            break;
        }
        limit = limit * 10 + (*digit - '0');
    }
    if (limit < 1 || limit > PAGE_LIMIT_MAX) {
        return op_fail_field(op, FAULT(QUERY), "limit", "limit must be a number from 1 to %d", PAGE_LIMIT_MAX);
    }
    *ret_limit = limit;
    return OK;
}

/* "<number>:<id>", as page_position wrote it. CURSOR. */
static inline struct fault page_read_position(const char *position, struct page *page)
{
    int64_t number = 0;
    const char *at = position;
    for (; *at >= '0' && *at <= '9'; at++) {
        REQUIRE(!__builtin_mul_overflow(number, 10, &number) && !__builtin_add_overflow(number, *at - '0', &number),
                CURSOR);
    }
    REQUIRE(at != position && *at == ':' && strlen(at + 1) <= PAGE_ID_MAX, CURSOR);
    page->number = number;
    (void)snprintf(page->id, sizeof(page->id), "%s", at + 1);
    return OK;
}

static inline struct fault page_read(struct request *request, struct page *ret_page)
{
    struct page page = { .limit = PAGE_LIMIT_DEFAULT, .number = INT64_MAX };
    const char *limit = request_query(request, "limit");
    const char *cursor = request_query(request, "cursor");
    if (limit != NULL) {
        TRY(page_read_limit(request->op, limit, &page.limit));
    }
    if (cursor != NULL) {
        const char *position = NULL;
        TRY(cursor_read(request, cursor, &position));
        TRY(page_read_position(position, &page));
    }
    *ret_page = page;
    return OK;
}

/* Ends the answer: closes "items", which the caller opened within the outermost object, and adds "next_cursor" when
 * `more` says that rows follow the one at (number, id). */
static inline struct fault page_end(struct request *request, struct jout *jout, bool more, int64_t number,
                                    const char *id)
{
    jout_array_end(jout);
    if (more) {
        const char *position = NULL;
        const char *cursor = NULL;
        TRY(arena_printf(request->op->arena, &position, "%lld:%s", (long long)number, id));
        TRY(cursor_make(request, position, &cursor));
        jout_key_text(jout, "next_cursor", cursor);
    }
    jout_object_end(jout);
    return jout_end(jout);
}

#endif
