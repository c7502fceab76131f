#include "api/store/internal.h"

#include "appliance/base/alloc.h"

/* Type OIDs are fixed numbers of PostgreSQL's catalog (src/include/catalog/pg_type.dat). */
enum type_oid {
    TYPE_BOOL = 16,
    TYPE_BYTEA = 17,
    TYPE_CHAR = 18,
    TYPE_NAME = 19,
    TYPE_INT8 = 20,
    TYPE_INT2 = 21,
    TYPE_INT4 = 23,
    TYPE_TEXT = 25,
    TYPE_JSON = 114,
    TYPE_UNKNOWN = 705,
    TYPE_BPCHAR = 1042,
    TYPE_VARCHAR = 1043,
};

struct rows {
    PGresult *result;
};

struct fault rows_new(PGresult *result, struct rows **ret_rows)
{
    struct rows *made = NULL;
    struct fault fault = mem_new(1, sizeof(*made), &made);
    if (FAULTED(fault)) {
        PQclear(result);
        return fault;
    }
    made->result = result;
    *ret_rows = made;
    return OK;
}

void rows_free(struct rows *rows)
{
    if (rows != NULL) {
        PQclear(rows->result);
        mem_free(rows);
    }
}

size_t rows_count(const struct rows *rows)
{
    return (size_t)PQntuples(rows->result);
}

static struct span cell(const struct rows *rows, size_t row, size_t column)
{
    BUG_IF(row >= (size_t)PQntuples(rows->result) || column >= (size_t)PQnfields(rows->result));
    return span_of(PQgetvalue(rows->result, (int)row, (int)column),
                   (size_t)PQgetlength(rows->result, (int)row, (int)column));
}

bool rows_null(const struct rows *rows, size_t row, size_t column)
{
    (void)cell(rows, row, column);
    return PQgetisnull(rows->result, (int)row, (int)column) == 1;
}

int64_t rows_int(const struct rows *rows, size_t row, size_t column)
{
    struct span value = cell(rows, row, column);
    if (rows_null(rows, row, column)) {
        return 0;
    }
    Oid type = PQftype(rows->result, (int)column);
    BUG_IF(type != TYPE_INT8 && type != TYPE_INT4 && type != TYPE_INT2);
    uint64_t bits = (value.at[0] & 0x80u) != 0 ? UINT64_MAX : 0;
    for (size_t i = 0; i < value.len; i++) {
        bits = bits << 8 | value.at[i];
    }
    return (int64_t)bits;
}

bool rows_bool(const struct rows *rows, size_t row, size_t column)
{
    struct span value = cell(rows, row, column);
    if (rows_null(rows, row, column)) {
        return false;
    }
    BUG_IF(PQftype(rows->result, (int)column) != TYPE_BOOL);
    return value.at[0] != 0;
}

struct span rows_bytes(const struct rows *rows, size_t row, size_t column)
{
    return cell(rows, row, column);
}

const char *rows_text(const struct rows *rows, size_t row, size_t column)
{
    struct span value = cell(rows, row, column);
    switch (PQftype(rows->result, (int)column)) {
    case TYPE_TEXT:
    case TYPE_VARCHAR:
    case TYPE_BPCHAR:
    case TYPE_NAME:
    case TYPE_CHAR:
    case TYPE_JSON:
    case TYPE_UNKNOWN:
        return (const char *)value.at; /* libpq puts a NUL behind every value */
    default:
        fault_bug(__FILE__, __LINE__, "column is not text");
    }
}
