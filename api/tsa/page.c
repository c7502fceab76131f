/* GET /tsa: for those who come with a browser. Nothing in it depends on what the request brought. */
#include "api/tsa/page.h"

#include "api/server/request.h"
#include "api/tsa/routes.h"

#define PAGE_MAX 65536

static struct fault address(struct request *request, const struct tsa *tsa, struct page_facts *facts)
{
    struct op *op = request->op;
    const char *base = request_base_url(request), *path = "/tsa";
    const char *listen = request->services->config->http_plain_listen;
    if (!tsa->settings.first) {
        TRY(arena_printf(op->arena, &path, "/tsa/%s", tsa->settings.tenant.text));
    }
    TRY(arena_printf(op->arena, &facts->url, "%s%s", base, path));
    if (tsa->settings.open && listen[0] != '\0') {
        TRY(page_plain_url(op, base, listen, path, &facts->plain_url));
    }
    return OK;
}

static struct fault print(struct tsa *tsa, struct page_facts *facts, struct buf *out)
{
    struct tsa_snapshot *held = tsa_current_take(&tsa->current);
    facts->unit = held->unit;
    struct fault fault = page_print(facts, out);
    tsa_current_give(&tsa->current, held);
    return fault;
}

struct fault tsa_page(struct request *request, struct tsa *tsa)
{
    CLEANUP(buf_free) struct buf page = BUF_INIT(PAGE_MAX), policy = BUF_INIT(1024);
    struct page_facts facts = { .rules = &tsa->rules };
    struct clock_state clock;
    clock_watch_state(tsa->clock, &clock);
    facts.clock = clock.reason;
    facts.trusts_host = clock.trusts_host && clock.servers == 0;
    TRY(address(request, tsa, &facts));
    TRY(print(tsa, &facts, &page));
    TRY(page_policy(&policy));
    TRY(buf_put(&policy, span_of((const uint8_t *)"", 1)));
    TRY(response_header(request, "Cache-Control", tsa->settings.open ? "public, max-age=30" : "private, max-age=30"));
    TRY(response_header(request, "Content-Security-Policy", (const char *)policy.at));
    TRY(response_header(request, "Referrer-Policy", "no-referrer"));
    return response_bytes(request, 200, "text/html; charset=utf-8", buf_span(&page));
}
