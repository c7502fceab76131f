/* ArcSight Common Event Format, version 0: backslash and pipe are escaped in the header, backslash and equals sign in
 * the extension. */
#include "api/audit/shape_lines.h"

#include "appliance/base/codec.h"

#define CEF_BEGIN "CEF:0|svc|svc|1|"

static const struct shape_escape header_escape = { '\\', '|', '\\', true };
static const struct shape_escape field_escape = { '\\', '=', '\\', true };
static const struct shape_escape record_escape = { '\\', '=', '\\', false };

/* " key=value"; a pair without value is left out. */
static struct fault put_pair(const char *key, struct span value, struct buf *out)
{
    if (value.len == 0) {
        return OK;
    }
    TRY(buf_printf(out, " %s=", key));
    return shape_put_escaped(value, &field_escape, out);
}

/* A custom field and what it holds. */
static struct fault put_custom(const char *key, const char *label, struct span value, struct buf *out)
{
    if (value.len == 0) {
        return OK;
    }
    TRY(buf_printf(out, " %sLabel=%s", key, label));
    return put_pair(key, value, out);
}

static struct fault put_roles(const struct audit_record *record, struct buf *out)
{
    CLEANUP(buf_free) struct buf roles = BUF_INIT(AUDIT_LINE_MAX);
    for (size_t i = 0; i < record->role_count; i++) {
        TRY(buf_text(&roles, i > 0 ? " " : ""));
        TRY(buf_put(&roles, record->roles[i]));
    }
    return put_custom("cs3", "roles", buf_span(&roles), out);
}

/* 0 to 10, as OCSF's four degrees fall on CEF's. */
static int severity_of(const struct shape_kind *kind)
{
    static const int degrees[] = { 0, 2, 3, 5, 8 };
    return degrees[kind->severity];
}

struct fault shape_cef_record(const struct shape_line *line, struct buf *out)
{
    const struct audit_record *record = line->record;
    const struct shape_kind *kind = shape_kind_of(record->type);
    CLEANUP(buf_free) struct buf title = BUF_INIT(AUDIT_LINE_MAX);
    char chain[2 * SHA256_LEN + 1];
    hex_text(SPAN_ARRAY(line->chain->at), chain, sizeof(chain));
    TRY(shape_put_title(record->type, &title));
    TRY(buf_text(out, CEF_BEGIN));
    TRY(shape_put_escaped(record->type, &header_escape, out));
    TRY(buf_u8(out, '|'));
    TRY(shape_put_escaped(buf_span(&title), &header_escape, out));
    TRY(buf_printf(out, "|%d|rt=%lld", severity_of(kind), (long long)(record->at / 1000)));
    TRY(put_pair("externalId", record->event_id, out));
    TRY(put_pair("suser", record->subject, out));
    TRY(put_pair("outcome", span_text(kind->failure ? "failure" : "success"), out));
    TRY(buf_printf(out, " cn1Label=sequence cn1=%lld", (long long)record->sequence));
    TRY(put_custom("cs2", "chain", span_text(chain), out));
    TRY(put_roles(record, out));
    TRY(put_custom("cs4", "lane", record->lane, out));
    TRY(put_custom("cs5", "trace_id", record->trace_id, out));
    TRY(put_custom("cs6", "tenant_id", record->tenant_id, out));
    TRY(buf_text(out, " cs1Label=record cs1="));
    TRY(shape_put_escaped(line->bytes, &record_escape, out));
    return buf_u8(out, '\n');
}

struct fault shape_cef_trailer(struct span trailer, struct buf *out)
{
    TRY(buf_text(out, CEF_BEGIN SHAPE_TRAILER "|Audit trailer|2|cs1Label=trailer cs1="));
    TRY(buf_put(out, trailer)); /* base64url and dots */
    return buf_u8(out, '\n');
}
