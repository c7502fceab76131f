#include "api/audit/shape_lines.h"

#include "appliance/base/codec.h"
#include "appliance/base/json.h"

static struct fault ndjson_record(const struct shape_line *line, struct buf *out)
{
    TRY(buf_text(out, "{\"chain\":\""));
    TRY(hex_encode(SPAN_ARRAY(line->chain->at), out));
    TRY(buf_text(out, "\",\"record\":"));
    TRY(buf_put(out, line->bytes));
    return buf_text(out, "}\n");
}

static struct fault ndjson_trailer(struct span trailer, struct buf *out)
{
    TRY(buf_text(out, "{\"trailer\":\""));
    TRY(buf_put(out, trailer));
    return buf_text(out, "\"}\n");
}

/* A shape: its names, and what its lines are made by. A JWS bundle has no lines (statement.h). */
struct shape_row {
    const char *name, *media_type, *suffix, *begin;
    struct fault (*record)(const struct shape_line *line, struct buf *out);
    struct fault (*trailer)(struct span trailer, struct buf *out);
};
static const struct shape_row rows[AUDIT_SHAPES] = {
    [AUDIT_JWS] = { "jws", "application/jose", "jws", "", NULL, NULL },
    [AUDIT_NDJSON] = { "ndjson", "application/x-ndjson", "ndjson", "", ndjson_record, ndjson_trailer },
    [AUDIT_CSV] = { "csv", "text/csv; charset=utf-8; header=present", "csv", SHAPE_CSV_HEADER, shape_csv_record,
                    shape_csv_trailer },
    [AUDIT_CEF] = { "cef", "text/plain; charset=utf-8", "cef", "", shape_cef_record, shape_cef_trailer },
    [AUDIT_OCSF] = { "ocsf", "application/x-ndjson", "ocsf.ndjson", "", shape_ocsf_record, shape_ocsf_trailer },
};

const char *audit_shape_name(enum audit_shape shape)
{
    return rows[shape].name;
}

bool audit_shape_named(const char *name, enum audit_shape *ret_shape)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        if (strcmp(rows[i].name, name) == 0) {
            *ret_shape = (enum audit_shape)i;
            return true;
        }
    }
    return false;
}

const char *audit_shape_media_type(enum audit_shape shape)
{
    return rows[shape].media_type;
}

const char *audit_shape_suffix(enum audit_shape shape)
{
    return rows[shape].suffix;
}

struct fault audit_shape_begin(enum audit_shape shape, struct buf *out)
{
    return buf_text(out, rows[shape].begin);
}

struct fault audit_shape_record(struct op *scratch, enum audit_shape shape, struct span record,
                                const struct sha256 *chain, struct buf *out)
{
    const struct shape_row *row = &rows[shape];
    struct audit_record read = { .role_count = 0 };
    const char *wrong = "";
    BUG_IF(row->record == NULL);
    struct fault fault = audit_record_read(scratch->arena, record, &read, &wrong);
    if (fault.code == FAULT_BAD_ARGUMENT) {
        return op_fail(scratch, FAULT(INTERNAL), "a record's member %s is not as it must be", wrong);
    }
    TRY(fault);
    const struct shape_line line = { .bytes = record, .chain = chain, .record = &read };
    return row->record(&line, out);
}

struct fault audit_shape_trailer(enum audit_shape shape, struct span trailer, struct buf *out)
{
    BUG_IF(rows[shape].trailer == NULL);
    return rows[shape].trailer(trailer, out);
}

struct fault shape_put_escaped(struct span text, const struct shape_escape *escape, struct buf *out)
{
    uint8_t *at = NULL;
    size_t room = 2 * text.len, used = 0;
    TRY(buf_reserve(out, room, &at));
    for (size_t i = 0; i < text.len; i++) {
        uint8_t byte = text.at[i];
        if (byte == escape->first || byte == escape->second) {
            at[used++] = escape->mark;
        }
        bool hidden = escape->shown && (byte < 0x20 || byte == 0x7f);
        at[used++] = hidden ? (uint8_t)'?' : byte;
    }
    out->len -= room - used;
    return OK;
}
