#include "api/store/array.h"

/* PostgreSQL's binary form (array_recv): dimensions, "has nulls", element type, then length and lower bound of the one
 * dimension; each element with its length in front. All numbers are big-endian. */
#define HEADER_BYTES 20
#define NULLS_AT     7
#define COUNT_AT     12

static const uint32_t element_types[] = {
    [SQL_ARRAY_INT] = 20, [SQL_ARRAY_TEXT] = 25, [SQL_ARRAY_BYTES] = 17, [SQL_ARRAY_BOOL] = 16
};

void sql_array_clear(struct sql_array *array)
{
    buf_clear(&array->encoded);
    array->count = 0;
    array->nulls = false;
}

void sql_array_free(struct sql_array *array)
{
    buf_free(&array->encoded);
    array->count = 0;
    array->nulls = false;
}

static struct fault begin(struct sql_array *array)
{
    const uint32_t header[HEADER_BYTES / 4] = { 1, 0, element_types[array->kind], 0, 1 };
    for (size_t i = 0; i < COUNT_OF(header) && array->encoded.len < HEADER_BYTES; i++) {
        TRY(buf_u32(&array->encoded, header[i]));
    }
    return OK;
}

struct fault sql_array_int(struct sql_array *array, int64_t value)
{
    BUG_IF(array->kind != SQL_ARRAY_INT);
    TRY(begin(array));
    TRY(buf_u32(&array->encoded, 8));
    TRY(buf_u64(&array->encoded, (uint64_t)value));
    array->count++;
    return OK;
}

struct fault sql_array_bool(struct sql_array *array, bool value)
{
    BUG_IF(array->kind != SQL_ARRAY_BOOL);
    TRY(begin(array));
    TRY(buf_u32(&array->encoded, 1));
    TRY(buf_u8(&array->encoded, value ? 1 : 0));
    array->count++;
    return OK;
}

struct fault sql_array_null(struct sql_array *array)
{
    TRY(begin(array));
    TRY(buf_u32(&array->encoded, UINT32_MAX)); /* a length of -1 */
    array->count++;
    array->nulls = true;
    return OK;
}

struct fault sql_array_put(struct sql_array *array, struct span value)
{
    BUG_IF(array->kind != SQL_ARRAY_TEXT && array->kind != SQL_ARRAY_BYTES);
    REQUIRE(value.len <= INT32_MAX, TOO_LARGE);
    REQUIRE(array->kind == SQL_ARRAY_BYTES || value.len == 0 || memchr(value.at, 0, value.len) == NULL, BAD_ARGUMENT);
    TRY(begin(array));
    TRY(buf_u32(&array->encoded, (uint32_t)value.len));
    TRY(buf_put(&array->encoded, value));
    array->count++;
    return OK;
}

struct sql_arg sql_array_arg(struct sql_array *array)
{
    static const uint8_t none[] = { 0, 0, 0, 0, 0, 0, 0, 0 };
    if (array->count == 0) { /* no dimension; the element type follows */
        buf_clear(&array->encoded);
        IGNORE(buf_put(&array->encoded, SPAN_ARRAY(none)));
        IGNORE(buf_u32(&array->encoded, element_types[array->kind]));
        return SQL_BYTES(buf_span(&array->encoded));
    }
    array->encoded.at[NULLS_AT] = array->nulls ? 1 : 0;
    for (size_t i = 0; i < 4; i++) {
        array->encoded.at[COUNT_AT + i] = (uint8_t)(array->count >> (8 * (3 - i)));
    }
    return SQL_BYTES(buf_span(&array->encoded));
}
