/*
 * One-dimensional arrays as parameters, for one statement that writes many rows: INSERT ... SELECT ... FROM
 * unnest($2::bigint[], $3::bytea[]). A row of its own statement costs more than the row.
 */
#ifndef API_STORE_ARRAY_H
#define API_STORE_ARRAY_H

#include "api/store/store.h"

enum sql_array_kind { SQL_ARRAY_INT, SQL_ARRAY_TEXT, SQL_ARRAY_BYTES, SQL_ARRAY_BOOL }; /* bigint[], text[] ... */

struct sql_array {
    enum sql_array_kind kind;
    uint32_t count;
    bool nulls;
    struct buf encoded;
};
#define SQL_ARRAY_MAX      ((size_t)16 << 20)
#define SQL_ARRAY_INIT(of) { .kind = (of), .encoded = BUF_INIT(SQL_ARRAY_MAX) }

void sql_array_clear(struct sql_array *array); /* empty, and keeps its room */
void sql_array_free(struct sql_array *array);  /* the form that CLEANUP wants */
struct fault sql_array_int(struct sql_array *array, int64_t value);
struct fault sql_array_bool(struct sql_array *array, bool value);
struct fault sql_array_null(struct sql_array *array); /* of any kind */
/* TEXT: without a NUL inside (BAD_ARGUMENT); BYTES: any. */
struct fault sql_array_put(struct sql_array *array, struct span value);
/* Borrows from the array until it is changed. */
struct sql_arg sql_array_arg(struct sql_array *array);

#endif
