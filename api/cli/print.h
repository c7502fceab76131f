/*
 * What a person reads. Text of others is shown without control characters, so that no answer can drive a terminal.
 */
#ifndef API_CLI_PRINT_H
#define API_CLI_PRINT_H

#include "api/cli/view.h"

#include <stdio.h>

void print_safe(FILE *out, struct span text);
/* "svc-cli: ..." on stderr, one line. */
void say(const char *format, ...) PRINTF(1, 2);
/* An indented line on stderr. */
void hint(const char *format, ...) PRINTF(1, 2);

enum column_kind {
    COLUMN_TEXT,
    COLUMN_TIME, /* to the second */
    COLUMN_LIST, /* an array of texts, with commas */
    COLUMN_YESNO,
    COLUMN_HEX, /* base64 in the answer, or an array of it */
};
struct column {
    const char *title, *path;
    enum column_kind kind;
};
/* Array elements as aligned rows under their titles; "none" when there are none. */
void print_table(struct op *op, struct view items, const struct column *columns, size_t count, const char *none);
/* Members of one object as aligned "title  value" lines; missing ones are left out. */
void print_pairs(struct op *op, FILE *out, struct view object, const struct column *columns, size_t count);
/* The same, with cells of the caller's own: by path, instead of a member. NULL text leaves the line out. */
struct own_cell {
    const char *path, *text;
};
void print_pairs_and(struct op *op, FILE *out, struct view object, const struct column *columns, size_t count,
                     const struct own_cell *own, size_t own_count);
/* The answer as it came, and a line end. */
void print_json(struct span json);
/* "More: ... --cursor X" on stderr when the page says that there is more. */
void print_more(struct op *op, struct view page);

#endif
