/*
 * Rows that are made and soon changed again: kept in memory for a tenant's turn within a batch, written by one
 * statement for each table. Made and changed in one turn, such a row costs the database one write instead of one for
 * each event, and no statement of its own. Only where nothing stands in its place: an insert that meets a row of that
 * key fails with DUPLICATE, and the batch is applied again without folding (apply.c), where the event's own statement
 * decides.
 */
#include "api/projection/internal.h"

#define BUCKETS       512u
#define ROWS_MAX      1024u
#define ROW_BYTES_MAX ((size_t)4 << 20)

struct projection_row {
    const struct projection_table *table;
    const char *key;
    struct sql_arg *values;
    struct projection_row *chained, *next; /* of the bucket; in the order of their making */
};
struct fold {
    struct projection_row *buckets[BUCKETS];
    struct projection_row *first, **last;
    size_t count, bytes;
    struct sql_array columns[PROJECTION_COLUMNS_MAX];
};

struct fault fold_new(struct op *op, struct fold **ret_fold)
{
    struct fold *made = NULL;
    TRY(arena_take(op->arena, 1, sizeof(*made), &made));
    made->last = &made->first;
    for (size_t i = 0; i < COUNT_OF(made->columns); i++) {
        made->columns[i] = (struct sql_array)SQL_ARRAY_INIT(SQL_ARRAY_INT);
    }
    *ret_fold = made;
    return OK;
}

void fold_done(struct fold *fold)
{
    for (size_t i = 0; fold != NULL && i < COUNT_OF(fold->columns); i++) {
        sql_array_free(&fold->columns[i]);
    }
}

bool projection_folds(const struct projection *projection)
{
    return projection->fold != NULL;
}

static struct projection_row **bucket_of(struct fold *fold, const struct projection_table *table, const char *key)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (const char *c = key; *c != '\0'; c++) {
        hash = (hash ^ (uint8_t)*c) * 16777619u;
    }
    return &fold->buckets[(hash ^ (uint32_t)((uintptr_t)table >> 4)) % BUCKETS];
}

struct projection_row *projection_row_of(struct projection *projection, const struct projection_table *table,
                                         const char *key)
{
    if (projection->fold == NULL || projection->fold->count == 0) {
        return NULL;
    }
    struct projection_row *row = *bucket_of(projection->fold, table, key);
    while (row != NULL && (row->table != table || strcmp(row->key, key) != 0)) {
        row = row->chained;
    }
    return row;
}

static struct fault keep(struct projection *projection, struct sql_arg *value)
{
    projection->fold->bytes += value->bytes.len;
    return value->bytes.len > 0 ? arena_copy(projection->op->arena, value->bytes, &value->bytes) : OK;
}

struct fault projection_row_make(struct projection *projection, const struct projection_table *table, const char *key,
                                 const struct sql_arg *values)
{
    struct fold *fold = projection->fold;
    struct arena *arena = projection->op->arena;
    struct projection_row *made = NULL;
    BUG_IF(fold == NULL || table->count > PROJECTION_COLUMNS_MAX);
    if (fold->count >= ROWS_MAX || fold->bytes >= ROW_BYTES_MAX) {
        TRY(projection_fold_write(projection));
    }
    TRY(arena_take(arena, 1, sizeof(*made), &made));
    TRY(arena_take(arena, table->count, sizeof(*made->values), &made->values));
    TRY(arena_text(arena, span_text(key), &made->key));
    made->table = table;
    for (size_t i = 0; i < table->count; i++) {
        made->values[i] = values[i];
        TRY(keep(projection, &made->values[i]));
    }
    struct projection_row **bucket = bucket_of(fold, table, key);
    made->chained = *bucket;
    *bucket = made;
    *fold->last = made;
    fold->last = &made->next;
    fold->count++;
    return OK;
}

bool projection_row_is(const struct projection_row *row, size_t column, const char *text)
{
    return span_equal_text(row->values[column].bytes, text);
}

bool projection_row_null(const struct projection_row *row, size_t column)
{
    return row->values[column].kind == SQL_ARG_NULL;
}

struct fault projection_row_set(struct projection *projection, struct projection_row *row, size_t column,
                                struct sql_arg value)
{
    BUG_IF(column >= row->table->count);
    TRY(keep(projection, &value));
    row->values[column] = value;
    return OK;
}

/* ---- writing ---- */

static struct fault add_value(struct sql_array *array, struct sql_arg value)
{
    switch (value.kind) {
    case SQL_ARG_NULL:
        return sql_array_null(array);
    case SQL_ARG_INT:
        return sql_array_int(array, value.number);
    case SQL_ARG_BOOL:
        return sql_array_bool(array, value.number != 0);
    case SQL_ARG_TEXT:
    case SQL_ARG_BYTES:
        return sql_array_put(array, value.bytes);
    }
    BUG_IF(true);
}

static struct fault write_table(struct projection *projection, const struct projection_table *table)
{
    struct fold *fold = projection->fold;
    struct sql_arg args[PROJECTION_COLUMNS_MAX + 1];
    for (size_t i = 0; i < table->count; i++) {
        sql_array_clear(&fold->columns[i]);
        fold->columns[i].kind = table->kinds[i];
    }
    for (const struct projection_row *row = fold->first; row != NULL; row = row->next) {
        for (size_t i = 0; i < table->count && row->table == table; i++) {
            TRY(add_value(&fold->columns[i], row->values[i]));
        }
    }
    args[0] = SQL_TEXT(projection->op->tenant.text);
    for (size_t i = 0; i < table->count; i++) {
        args[i + 1] = sql_array_arg(&fold->columns[i]);
    }
    return tx_queue(projection->tx, table->insert, args, table->count + 1);
}

struct fault projection_fold_write(struct projection *projection)
{
    struct fold *fold = projection->fold;
    if (fold == NULL || fold->count == 0) {
        return OK;
    }
    for (const struct projection_row *row = fold->first; row != NULL; row = row->next) {
        bool written = false; /* its table, with an earlier row */
        for (const struct projection_row *earlier = fold->first; earlier != row && !written; earlier = earlier->next) {
            written = earlier->table == row->table;
        }
        TRY(written ? OK : write_table(projection, row->table));
    }
    memset(fold->buckets, 0, sizeof(fold->buckets));
    fold->first = NULL;
    fold->last = &fold->first;
    fold->count = fold->bytes = 0;
    return OK;
}
