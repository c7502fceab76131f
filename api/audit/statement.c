#include "api/audit/statement.h"

#include "appliance/base/codec.h"
#include "appliance/base/json.h"

static bool is_bundle(const struct audit_statement *statement)
{
    return statement->shape == AUDIT_JWS;
}

/* `"name":"<hex>"`: canonical JSON of texts that need no escape is printed as it must stand. */
static struct fault put_hash(const char *before, const struct sha256 *hash, struct buf *out)
{
    TRY(buf_text(out, before));
    TRY(hex_encode(SPAN_ARRAY(hash->at), out));
    return buf_u8(out, '"');
}

struct fault audit_statement_begin(const struct audit_statement *statement, struct buf *out)
{
    bool bundle = is_bundle(statement);
    BUG_IF(statement->first_format && !bundle);
    const char *format = statement->first_format ? AUDIT_EXPORT_FORMAT1
                         : bundle                ? AUDIT_EXPORT_FORMAT
                                                 : AUDIT_TRAILER_FORMAT;
    TRY(put_hash("{\"chain_head\":\"", &statement->head, out));
    TRY(put_hash(",\"chain_seed\":\"", &statement->seed, out));
    TRY(buf_printf(out, ",\"count\":%lld,\"exported_at\":\"%s\",\"first_sequence\":%lld,\"format\":\"%s\"",
                   (long long)statement->count, statement->exported_at, (long long)statement->first_sequence, format));
    if (!statement->first_format) {
        TRY(buf_printf(out, ",\"generation\":%lld", (long long)statement->generation));
    }
    TRY(buf_printf(out, ",\"last_sequence\":%lld", (long long)statement->last_sequence));
    return bundle ? buf_text(out, ",\"records\":[") : OK;
}

struct fault audit_statement_end(const struct audit_statement *statement, struct buf *out)
{
    if (is_bundle(statement)) {
        TRY(buf_u8(out, ']'));
    } else {
        TRY(buf_printf(out, ",\"shape\":\"%s\"", audit_shape_name(statement->shape)));
        TRY(put_hash(",\"stream_sha256\":\"", &statement->stream_sha256, out));
    }
    TRY(buf_printf(out, ",\"tenant_id\":\"%s\"", statement->tenant.text));
    if (statement->first_format) {
        return buf_u8(out, '}');
    }
    if (statement->timestamp.len > 0) {
        TRY(buf_text(out, ",\"timestamp\":\""));
        TRY(base64_encode(statement->timestamp, out));
        TRY(buf_u8(out, '"'));
    }
    TRY(put_hash(",\"tree_root\":\"", &statement->tree_root, out));
    return buf_printf(out, ",\"tree_size\":%lld}", (long long)statement->tree_size);
}
