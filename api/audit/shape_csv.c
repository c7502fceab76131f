/* RFC 4180: CRLF, a field with comma, quote or line end in quotes, quotes doubled. */
#include "api/audit/shape_lines.h"

#include "appliance/base/codec.h"

static const struct shape_escape record_escape = { '"', '"', '"', false };
static const struct shape_escape text_escape = { '"', '"', '"', true }; /* a text without quotes has none to double */

static bool needs_quotes(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] == ',' || text.at[i] == '"') {
            return true;
        }
    }
    return false;
}

/* What a spreadsheet would take for a formula gets an apostrophe in front: names are chosen by users. */
static struct fault put_text(struct span text, struct buf *out)
{
    const char *guard = text.len > 0 && strchr("=+-@", text.at[0]) != NULL && text.at[0] != 0 ? "'" : "";
    bool quotes = needs_quotes(text);
    TRY(buf_text(out, quotes ? "\"" : ""));
    TRY(buf_text(out, guard));
    TRY(shape_put_escaped(text, &text_escape, out));
    return buf_text(out, quotes ? "\"," : ",");
}

/* One field, names with a blank between them: none of a role's characters. */
static struct fault put_roles(const struct audit_record *record, struct buf *out)
{
    CLEANUP(buf_free) struct buf roles = BUF_INIT(AUDIT_LINE_MAX);
    for (size_t i = 0; i < record->role_count; i++) {
        TRY(buf_text(&roles, i > 0 ? " " : ""));
        TRY(buf_put(&roles, record->roles[i]));
    }
    return put_text(buf_span(&roles), out);
}

struct fault shape_csv_record(const struct shape_line *line, struct buf *out)
{
    const struct audit_record *record = line->record;
    TRY(buf_printf(out, "%lld,", (long long)record->sequence));
    TRY(put_text(record->time, out));
    TRY(put_text(record->type, out));
    TRY(put_text(record->subject, out));
    TRY(put_roles(record, out));
    TRY(put_text(record->event_id, out));
    TRY(put_text(record->lane, out));
    TRY(put_text(record->trace_id, out));
    TRY(buf_u8(out, '"'));
    TRY(shape_put_escaped(line->bytes, &record_escape, out));
    TRY(buf_text(out, "\","));
    TRY(hex_encode(SPAN_ARRAY(line->chain->at), out));
    return buf_text(out, "\r\n");
}

struct fault shape_csv_trailer(struct span trailer, struct buf *out)
{
    TRY(buf_text(out, "trailer,,,,,,,,"));
    TRY(buf_put(out, trailer));
    return buf_text(out, ",\r\n");
}
