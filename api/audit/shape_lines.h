/* The inside of shape.c: one file for each shape whose lines say more than the record. */
#ifndef API_AUDIT_SHAPE_LINES_H
#define API_AUDIT_SHAPE_LINES_H

#include "api/audit/shape_record.h"

struct shape_line {
    struct span bytes; /* the record, as hashed */
    const struct sha256 *chain;
    const struct audit_record *record;
};

#define SHAPE_CSV_HEADER "sequence,time,type,actor,roles,event_id,lane,trace_id,record,chain\r\n"
#define SHAPE_TRAILER    "svc.audit.trailer" /* in the place of a type */

struct fault shape_csv_record(const struct shape_line *line, struct buf *out);
struct fault shape_csv_trailer(struct span trailer, struct buf *out);
struct fault shape_cef_record(const struct shape_line *line, struct buf *out);
struct fault shape_cef_trailer(struct span trailer, struct buf *out);
struct fault shape_ocsf_record(const struct shape_line *line, struct buf *out);
struct fault shape_ocsf_trailer(struct span trailer, struct buf *out);

/* A shape's way to write text: `mark` stands before each `first` and `second`. shown: text of a record in a column or
 * field that is no JSON, where a control character would end the line, or drive the terminal that shows it. It becomes
 * '?' there; the record beside it has it as it was. */
struct shape_escape {
    uint8_t first, second, mark;
    bool shown;
};
struct fault shape_put_escaped(struct span text, const struct shape_escape *escape, struct buf *out);

/* shape_kind.c: what a SIEM makes of an event, from the last word of its type. Part of the format, since lines are
 * rendered again to be verified: a row that is changed makes former exports fail. A word that is not listed is "Other",
 * informational, successful. */
struct shape_kind {
    const char *word;
    int activity; /* OCSF 6003: 1 Create, 2 Read, 3 Update, 4 Delete, 99 Other */
    int severity; /* OCSF: 1 Informational, 2 Low, 3 Medium, 4 High */
    bool failure;
};
const struct shape_kind *shape_kind_of(struct span type);
const char *shape_activity_text(int activity);
const char *shape_severity_text(int severity);
/* "codesign.csr_signed" as "Codesign csr signed". */
struct fault shape_put_title(struct span type, struct buf *out);

#endif
