/* The small parts that an OSCAL document is made of. */
#include "api/compliance/render_oscal.h"

#include "appliance/base/codec.h"

#include <stdio.h>

struct fault oscal_uuid(struct writing *w, const char *key, const char *name)
{
    struct uuid uuid;
    TRY(render_uuid(&w->verdict->digest, name, &uuid));
    jout_key_text(w->jout, key, uuid.text);
    return OK;
}

void oscal_token(const char *id, char out[TOKEN_MAX])
{
    size_t at = 0;
    bool letter = (id[0] >= 'a' && id[0] <= 'z') || (id[0] >= 'A' && id[0] <= 'Z');
    at += letter ? 0 : (size_t)snprintf(out, TOKEN_MAX, "c-");
    for (const char *c = id; *c != '\0' && at < TOKEN_MAX - 1; c++) {
        bool upper = *c >= 'A' && *c <= 'Z', plain = (*c >= 'a' && *c <= 'z') || (*c >= '0' && *c <= '9');
        if (*c == ')') {
            continue;
        }
        out[at++] = upper ? (char)(*c + 'a' - 'A') : plain || *c == '.' || *c == '_' ? *c : *c == '(' ? '.' : '-';
    }
    out[at] = '\0';
}

void oscal_line(struct writing *w, const char *key, const char *text)
{
    CLEANUP(buf_free) struct buf line = BUF_INIT((size_t)1 << 20);
    size_t len = text != NULL ? strlen(text) : 0, from = 0;
    while (len > 0 && (uint8_t)text[len - 1] <= ' ') {
        len--;
    }
    while (from < len && (uint8_t)text[from] <= ' ') {
        from++;
    }
    for (size_t i = from; i < len && !FAULTED(w->jout->first); i++) {
        w->jout->first = buf_u8(&line, (uint8_t)text[i] < ' ' ? ' ' : (uint8_t)text[i]);
    }
    if (line.len == 0) {
        jout_key_text(w->jout, key, "-");
        return;
    }
    jout_key(w->jout, key);
    jout_span_text(w->jout, buf_span(&line));
}

void oscal_member(struct writing *w, const char *key, struct view object, const char *path)
{
    oscal_line(w, key, view_member(w->op, object, path));
}

void oscal_property(struct writing *w, const char *name, const char *value)
{
    jout_object(w->jout);
    jout_key_text(w->jout, "name", name);
    jout_key_text(w->jout, "ns", RENDER_OSCAL_NS);
    oscal_line(w, "value", value);
    jout_object_end(w->jout);
}

void oscal_property_of(struct writing *w, const char *name, struct view object, const char *path)
{
    oscal_property(w, name, view_member(w->op, object, path));
}

void oscal_list(struct writing *w, const char *key)
{
    jout_key(w->jout, key);
    jout_array(w->jout);
}

void oscal_digest(struct writing *w)
{
    char hex[2 * SHA256_LEN + 1];
    hex_text(SPAN_ARRAY(w->verdict->digest.at), hex, sizeof(hex));
    oscal_property(w, "manifest-sha256", hex);
}

struct fault oscal_numbered(struct writing *w, const char **ret_name, const char *what, size_t i, size_t j)
{
    return arena_printf(w->op->arena, ret_name, "%s/%zu/%zu", what, i, j);
}
