/* The tiles of a tenant's Merkle tree, written with its records: one more hash for each record, and a row for each 256
 * of them. The leaves behind the last complete tile are kept with the tenant's head. */
#include "api/projection/internal.h"

#include "appliance/base/alloc.h"

#define LEAVES_AT_FIRST 16u /* most tenants of many have few records */

static const struct sql SQL_TAIL = {
    "tree_tail",
    "SELECT record FROM svc.audit_records WHERE tenant_id = $1 AND sequence > $2 AND sequence <= $3 ORDER BY sequence",
    3,
};
static const struct sql SQL_ROOTS = {
    "tree_roots",
    "SELECT string_agg(root, ''::bytea ORDER BY tile) FROM svc.audit_tiles"
    " WHERE tenant_id = $1 AND level = $2 AND tile >= $3 AND tile < $4",
    4,
};
static const struct sql SQL_TILES_INSERT = {
    "projection_tiles_insert",
    "INSERT INTO svc.audit_tiles (tenant_id, level, tile, hashes, root) SELECT $1, l, t, h, r"
    " FROM unnest($2::bigint[], $3::bigint[], $4::bytea[], $5::bytea[]) AS x (l, t, h, r)",
    5,
};

/* ---- the rows that wait ---- */

void tile_columns_init(struct tile_columns *columns)
{
    *columns = (struct tile_columns){
        .level = SQL_ARRAY_INIT(SQL_ARRAY_INT),
        .tile = SQL_ARRAY_INIT(SQL_ARRAY_INT),
        .hashes = SQL_ARRAY_INIT(SQL_ARRAY_BYTES),
        .root = SQL_ARRAY_INIT(SQL_ARRAY_BYTES),
    };
}

void tile_columns_free(struct tile_columns *columns)
{
    sql_array_free(&columns->level);
    sql_array_free(&columns->tile);
    sql_array_free(&columns->hashes);
    sql_array_free(&columns->root);
}

void tile_columns_clear(struct tile_columns *columns)
{
    sql_array_clear(&columns->level);
    sql_array_clear(&columns->tile);
    sql_array_clear(&columns->hashes);
    sql_array_clear(&columns->root);
}

struct fault tile_columns_write(struct tx *tx, struct tenant_id tenant, struct tile_columns *columns)
{
    if (columns->level.count == 0) {
        return OK;
    }
    struct sql_arg args[] = { SQL_TEXT(tenant.text), sql_array_arg(&columns->level), sql_array_arg(&columns->tile),
                              sql_array_arg(&columns->hashes), sql_array_arg(&columns->root) };
    TRY(tx_queue(tx, &SQL_TILES_INSERT, args, COUNT_OF(args)));
    tile_columns_clear(columns);
    return OK;
}

/* ---- complete tiles ---- */

/* The roots of the 256 tiles below tile `tile` of `level`, which are all there or waiting to be written. */
static struct fault tile_above(struct projection *projection, int64_t level, int64_t tile,
                               struct sha256 nodes[AUDIT_TILE_NODES])
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct sql_arg args[] = { SQL_TEXT(projection->event->tenant.text), SQL_INT(level - 1),
                              SQL_INT(tile * AUDIT_TILE_NODES), SQL_INT((tile + 1) * AUDIT_TILE_NODES) };
    TRY(projection_rows_write(projection));
    TRY(tx_query(projection->tx, &SQL_ROOTS, args, COUNT_OF(args), &rows));
    struct span roots = rows_bytes(rows, 0, 0);
    if (roots.len != AUDIT_TILE_NODES * SHA256_LEN) {
        return op_fail(projection->op, FAULT(INTERNAL),
                       "svc.audit_tiles lacks tiles of level %lld below tile %lld of %s: rebuild the read model",
                       (long long)level - 1, (long long)tile, projection->event->tenant.text);
    }
    memcpy(nodes, roots.at, roots.len);
    return OK;
}

static struct fault put_tile(struct projection *projection, int64_t level, int64_t tile, const struct sha256 *nodes)
{
    struct tile_columns *columns = &projection->columns->tiles;
    struct sha256 root;
    TRY(audit_tree_join(nodes, AUDIT_TILE_NODES, &root));
    TRY(sql_array_int(&columns->level, level));
    TRY(sql_array_int(&columns->tile, tile));
    TRY(sql_array_put(&columns->hashes, span_of(nodes, AUDIT_TILE_NODES * SHA256_LEN)));
    return sql_array_put(&columns->root, SPAN_ARRAY(root.at));
}

static struct fault put_tiles(struct projection *projection, const struct tree_tail *tail)
{
    struct sha256 nodes[AUDIT_TILE_NODES];
    int64_t tile = tail->sequence / AUDIT_TILE_NODES - 1;
    TRY(put_tile(projection, 0, tile, tail->leaves));
    for (int64_t level = 1; (tile + 1) % AUDIT_TILE_NODES == 0; level++) { /* once in 65536 records */
        tile /= AUDIT_TILE_NODES;
        TRY(tile_above(projection, level, tile, nodes));
        TRY(put_tile(projection, level, tile, nodes));
    }
    return OK;
}

/* ---- the leaves behind them ---- */

/* From the records up to `sequence`, which are written: this is the tenant's first one since. */
static struct fault load_tail(struct projection *projection, struct tree_tail *tail, int64_t sequence)
{
    size_t count = (size_t)(sequence % AUDIT_TILE_NODES);
    struct sql_arg args[] = { SQL_TEXT(projection->event->tenant.text), SQL_INT(sequence - (int64_t)count),
                              SQL_INT(sequence) };
    CLEANUP(rows_freep) struct rows *rows = NULL;
    if (count > tail->room) {
        TRY(mem_resize(&tail->leaves, AUDIT_TILE_NODES, sizeof(*tail->leaves)));
        tail->room = AUDIT_TILE_NODES;
    }
    if (count > 0) {
        TRY(tx_query(projection->tx, &SQL_TAIL, args, COUNT_OF(args), &rows));
        if (rows_count(rows) != count) {
            return op_fail(projection->op, FAULT(INTERNAL),
                           "svc.audit_records lacks records of %s before %lld: rebuild the read model",
                           projection->event->tenant.text, (long long)sequence + 1);
        }
    }
    for (size_t i = 0; i < count; i++) {
        TRY(audit_tree_leaf(rows_bytes(rows, i, 0), &tail->leaves[i]));
    }
    tail->sequence = sequence;
    tail->loaded = true;
    return OK;
}

struct fault tree_keep_record(struct projection *projection, struct tree_tail *tail, int64_t sequence,
                              struct span record)
{
    size_t at = (size_t)((sequence - 1) % AUDIT_TILE_NODES);
    if (!tail->loaded || tail->sequence != sequence - 1) { /* new, or of a batch that was rolled back */
        tail->loaded = false;
        TRY(load_tail(projection, tail, sequence - 1));
    }
    if (at >= tail->room) {
        size_t room = tail->room < LEAVES_AT_FIRST ? LEAVES_AT_FIRST : AUDIT_TILE_NODES;
        TRY(mem_resize(&tail->leaves, room, sizeof(*tail->leaves)));
        tail->room = room;
    }
    TRY(audit_tree_leaf(record, &tail->leaves[at]));
    tail->sequence = sequence;
    return at + 1 == AUDIT_TILE_NODES ? put_tiles(projection, tail) : OK;
}

void tree_tail_free(struct tree_tail *tail)
{
    mem_free(tail->leaves);
    *tail = (struct tree_tail){ 0 };
}
