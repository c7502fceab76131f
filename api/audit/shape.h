/*
 * The four record-stream shapes of an audit export, beside the JWS bundle (statement.h): lines of text, one for each
 * record in sequence, and a signed trailer as the last one. Every line carries the record as it was hashed and its
 * chain value; what else stands in it (columns, CEF and OCSF fields) is made from the record by one function, so a
 * verifier renders the line again and compares bytes: no member of a line can be altered without being noticed.
 *
 *     ndjson   {"chain":"<hex>","record":{...}}                        {"trailer":"<compact JWS>"}
 *     csv      RFC 4180, CRLF, header line; sequence,time,type,        trailer,,,,,,,,<compact JWS>,
 *              actor,roles,event_id,lane,trace_id,record,chain
 *     cef      CEF:0|svc|svc|1|<type>|<title>|<severity>|<extension>   type svc.audit.trailer; cs1 is the
 *              cs1 is the record, cs2 its chain value; cs1 is last     compact JWS, last in the line
 *     ocsf     OCSF 1.3 API Activity (6003) as JSON lines; raw_data    class 6003 with unmapped.trailer
 *              is the record, unmapped.chain its chain value
 *
 * Lines end with LF (csv: CRLF); none is longer than AUDIT_LINE_MAX, and no line end stands within one: in columns and
 * fields that are not JSON a control character of the record's texts is '?' (the record beside them has it, escaped).
 * A csv column that a spreadsheet would take for a formula (= + - @ in front) has an apostrophe before it. Roles share
 * one column, a blank between them. A CEF pair without value is left out. The record alone hashes; all the rest follows
 * from it (shape_record.h takes it apart). Pure functions, for server and offline verifier.
 */
#ifndef API_AUDIT_SHAPE_H
#define API_AUDIT_SHAPE_H

#include "appliance/base/op.h"

enum audit_shape { AUDIT_JWS, AUDIT_NDJSON, AUDIT_CSV, AUDIT_CEF, AUDIT_OCSF };
#define AUDIT_SHAPES   5
#define AUDIT_LINE_MAX ((size_t)9 << 20) /* a record, escaped twice at worst, and a trailer with its time stamp */

/* "jws", "ndjson", "csv", "cef", "ocsf": in queries, in the CLI, in statements. */
const char *audit_shape_name(enum audit_shape shape);
bool audit_shape_named(const char *name, enum audit_shape *ret_shape);
/* "application/x-ndjson", ...: what the route answers with; and the usual ending of a file name. */
const char *audit_shape_media_type(enum audit_shape shape);
const char *audit_shape_suffix(enum audit_shape shape);

/* What stands before the first record (csv: the header line); nothing for the others. Appends. */
struct fault audit_shape_begin(enum audit_shape shape, struct buf *out);
/* The line of a record, with its end. `record`: canonical JSON as hashed; `scratch`: its arena is used and not cleared.
 * Appends. INTERNAL when the record is none. */
struct fault audit_shape_record(struct op *scratch, enum audit_shape shape, struct span record,
                                const struct sha256 *chain, struct buf *out);
/* The last line: a trailer's compact JWS. Appends. */
struct fault audit_shape_trailer(enum audit_shape shape, struct span trailer, struct buf *out);

/* One line of outside bytes (without its end), taken apart; results in scratch's arena. The caller renders a record
 * again and compares. */
struct audit_line {
    bool is_trailer;
    struct span record; /* the bytes that hash */
    struct sha256 chain;
    struct span trailer; /* compact JWS */
};
/* AUDIT_LINE with a note that says which field is not as it must be. */
struct fault audit_shape_take(struct op *scratch, enum audit_shape shape, struct span line,
                              struct audit_line *ret_line);

#endif
