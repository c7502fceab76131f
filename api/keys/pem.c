#include "api/keys/internal.h"

#include "appliance/base/codec.h"

#define PEM_LINE 64

struct fault key_public_pem(struct span spki, struct buf *out)
{
    CLEANUP(buf_free) struct buf text = BUF_INIT(SPKI_MAX * 2);
    TRY(base64_encode(spki, &text));
    TRY(buf_text(out, "-----BEGIN PUBLIC KEY-----\n"));
    for (size_t at = 0; at < text.len; at += PEM_LINE) {
        size_t len = text.len - at < PEM_LINE ? text.len - at : PEM_LINE;
        TRY(buf_put(out, span_of(text.at + at, len)));
        TRY(buf_text(out, "\n"));
    }
    return buf_text(out, "-----END PUBLIC KEY-----\n");
}
