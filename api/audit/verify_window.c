#include "api/audit/verify_internal.h"

#include "appliance/base/alloc.h"

void window_free(struct window *window)
{
    mem_free(TAKE(window->at));
    window->from = window->to = window->cap = 0;
}

static struct fault make_room(struct window *window)
{
    size_t held = window->to - window->from;
    if (window->from > 0) {
        memmove(window->at, window->at + window->from, held);
        window->from = 0;
        window->to = held;
    }
    if (held <= window->cap / 2 && window->cap > 0) {
        return OK;
    }
    size_t cap = window->cap == 0 ? WINDOW_FIRST : 2 * window->cap;
    cap = cap < window->max ? cap : window->max;
    if (cap == window->cap) {
        return held < cap ? OK : FAULT(TOO_LARGE);
    }
    TRY(mem_resize(&window->at, cap, 1));
    window->cap = cap;
    return OK;
}

struct fault window_more(struct window *window, bool *ret_more)
{
    size_t len = 0;
    if (!window->ended) {
        TRY(make_room(window));
        TRY(window->read(window->context, window->at + window->to, window->cap - window->to, &len));
        BUG_IF(len > window->cap - window->to);
        window->to += len;
        window->ended = len == 0;
    }
    *ret_more = !window->ended;
    return OK;
}
