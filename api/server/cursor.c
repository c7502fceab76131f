/* Page cursors: base64url(position) "." base64url(HMAC-SHA-256 cut to 16 bytes), bound to tenant and route. */
#include "api/server/request.h"

#include "appliance/base/codec.h"

#define CURSOR_MAX     1024
#define CURSOR_MAC_LEN 16

static struct fault cursor_mac(struct request *request, const char *position, struct sha256 *ret_mac)
{
    /* The NULs part the fields: none of them can hold one. */
    static const char zero = 0;
    struct span nul = span_of(&zero, 1);
    const struct span parts[] = {
        span_text("svc.cursor.v1"), nul, span_text(request->op->tenant.text), nul, span_text(request->route->name), nul,
        span_text(position)
    };
    return hmac_sha256(secret_span(request->services->fingerprint_key), parts, COUNT_OF(parts), ret_mac);
}

struct fault cursor_make(struct request *request, const char *position, const char **ret_cursor)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(CURSOR_MAX);
    struct sha256 mac;
    TRY(cursor_mac(request, position, &mac));
    TRY(base64url_encode(span_text(position), &out));
    TRY(buf_u8(&out, '.'));
    TRY(base64url_encode(span_of(mac.at, CURSOR_MAC_LEN), &out));
    return arena_text(request->op->arena, buf_span(&out), ret_cursor);
}

static struct fault read_parts(struct request *request, const char *cursor, const char **ret_position,
                               bool *ret_genuine)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(CURSOR_MAX);
    CLEANUP(buf_free) struct buf mac = BUF_INIT(SHA256_LEN);
    size_t len = strcspn(cursor, ".");
    REQUIRE(cursor[len] == '.', CURSOR);
    TRY(base64url_decode(span_of(cursor, len), &text));
    TRY(base64url_decode(span_text(cursor + len + 1), &mac));
    TRY(arena_text(request->op->arena, buf_span(&text), ret_position));
    struct sha256 expected;
    TRY(cursor_mac(request, *ret_position, &expected));
    *ret_genuine = secret_equal(buf_span(&mac), span_of(expected.at, CURSOR_MAC_LEN));
    return OK;
}

struct fault cursor_read(struct request *request, const char *cursor, const char **ret_position)
{
    const char *position = NULL;
    bool genuine = false;
    struct fault fault = read_parts(request, cursor, &position, &genuine);
    if (fault.code == FAULT_CRYPTO || fault.code == FAULT_NO_MEMORY) {
        return fault;
    }
    if (FAULTED(fault) || !genuine) {
        return op_fail_field(request->op, FAULT(CURSOR), "cursor",
                             "use the cursor exactly as the page before gave it, on the same route");
    }
    *ret_position = position;
    return OK;
}
