#include "api/attest/internal.h"

/* Every piece is bounded, and so is their number by the template's length; what comes out in the end must fit a text.
 */
#define ROOM (16 * (size_t)ATTEST_TEXT_MAX)

static struct fault put_claim(struct op *op, struct span name, const struct claims *claims, struct buf *out)
{
    const char *key = NULL, *value = NULL;
    TRY(arena_text(op->arena, name, &key));
    TRY(claims_text(op, claims, key, &value));
    return buf_text(out, value);
}

static struct fault fill(struct op *op, const char *text, const struct claims *claims, struct buf *out)
{
    while (*text != '\0') {
        size_t plain = strcspn(text, "{");
        TRY(buf_put(out, span_of(text, plain)));
        text += plain;
        if (*text == '{') {
            size_t len = strcspn(text, "}");
            BUG_IF(text[len] != '}'); /* value_is_template saw to it */
            TRY(put_claim(op, span_of(text + 1, len - 1), claims, out));
            text += len + 1;
        }
    }
    return OK;
}

struct fault template_fill(struct op *op, const char *text, const char *url, const struct claims *claims,
                           const char **ret_text)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(ROOM);
    if (url != NULL && text[0] == '$') {
        TRY(buf_text(&out, url));
        text++;
    }
    struct fault fault = fill(op, text, claims, &out);
    if (fault.code == FAULT_TOO_LARGE || (!FAULTED(fault) && out.len > ATTEST_TEXT_MAX)) {
        return proof_fail(op, PROOF_CLAIM, "what the proof's claims make is longer than %d bytes", ATTEST_TEXT_MAX);
    }
    TRY(fault);
    return arena_text(op->arena, buf_span(&out), ret_text);
}
