#include "api/keys/internal.h"

#include "appliance/base/codec.h"

#define PEM_LINE 64

struct fault key_pem(const char *label, struct span der, struct buf *out)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(der.len * 2 + 4);
    TRY(base64_encode(der, &text));
    TRY(buf_printf(out, "-----BEGIN %s-----\n", label));
    for (size_t at = 0; at < text.len; at += PEM_LINE) {
        size_t len = text.len - at < PEM_LINE ? text.len - at : PEM_LINE;
        TRY(buf_put(out, span_of(text.at + at, len)));
        TRY(buf_text(out, "\n"));
    }
    return buf_printf(out, "-----END %s-----\n", label);
}
