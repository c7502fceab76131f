#include "api/projection/tree_store.h"

#define TILE_BITS 8u

static const struct sql SQL_TILE = {
    "tree_tile",
    "SELECT hashes FROM svc.audit_tiles WHERE level = $1 AND tile = $2",
    2,
};
static const struct sql SQL_TILE_ROOTS = {
    "tree_tile_roots",
    "SELECT root FROM svc.audit_tiles WHERE level = $1 AND tile >= $2 AND tile < $3 ORDER BY tile",
    3,
};
static const struct sql SQL_LEAVES = {
    "tree_leaves",
    "SELECT record FROM svc.audit_records WHERE sequence > $1 AND sequence <= $2 ORDER BY sequence",
    2,
};

/* What of a tile the tree of that size has. */
struct tree_nodes {
    unsigned level; /* of the tile */
    uint64_t tile;
    size_t count;
    struct sha256 at[AUDIT_TILE_NODES];
    struct tree_nodes *next;
};

static struct fault lacking(struct op *op, const struct tree_nodes *nodes)
{
    return op_fail(op, FAULT(INTERNAL), "the tree lacks nodes of tile %llu of level %u: rebuild the read model",
                   (unsigned long long)nodes->tile, nodes->level);
}

static struct fault read_tile(struct tree_store *store, struct tree_nodes *nodes, bool *ret_found)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct sql_arg args[] = { SQL_INT(nodes->level), SQL_INT((int64_t)nodes->tile) };
    TRY(tx_query(store->tx, &SQL_TILE, args, COUNT_OF(args), &rows));
    *ret_found = rows_count(rows) == 1;
    if (*ret_found) {
        struct span hashes = rows_bytes(rows, 0, 0);
        REQUIRE(hashes.len == sizeof(nodes->at), INTERNAL);
        memcpy(nodes->at, hashes.at, hashes.len);
    }
    return OK;
}

/* A tile that is not complete: the roots of those below it, or the records themselves. */
static struct fault read_below(struct tree_store *store, struct tree_nodes *nodes)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    int64_t first = (int64_t)(nodes->tile << TILE_BITS), end = first + (int64_t)nodes->count;
    struct sql_arg leaves[] = { SQL_INT(first), SQL_INT(end) };
    struct sql_arg roots[] = { SQL_INT((int64_t)nodes->level - 1), SQL_INT(first), SQL_INT(end) };
    TRY(nodes->level == 0 ? tx_query(store->tx, &SQL_LEAVES, leaves, COUNT_OF(leaves), &rows)
                          : tx_query(store->tx, &SQL_TILE_ROOTS, roots, COUNT_OF(roots), &rows));
    if (rows_count(rows) != nodes->count) {
        return lacking(store->op, nodes);
    }
    for (size_t i = 0; i < nodes->count; i++) {
        struct span bytes = rows_bytes(rows, i, 0);
        if (nodes->level == 0) {
            TRY(audit_tree_leaf(bytes, &nodes->at[i]));
        } else {
            REQUIRE(bytes.len == SHA256_LEN, INTERNAL);
            memcpy(nodes->at[i].at, bytes.at, SHA256_LEN);
        }
    }
    return OK;
}

static struct fault find_nodes(struct tree_store *store, unsigned level, uint64_t tile, struct tree_nodes **ret_nodes)
{
    for (struct tree_nodes *seen = store->seen; seen != NULL; seen = seen->next) {
        if (seen->level == level && seen->tile == tile) {
            *ret_nodes = seen;
            return OK;
        }
    }
    struct tree_nodes *made = NULL;
    bool found = false;
    uint64_t there = store->size >> (TILE_BITS * level), before = tile << TILE_BITS;
    BUG_IF(there <= before);
    TRY(arena_take(store->op->arena, 1, sizeof(*made), &made));
    made->level = level;
    made->tile = tile;
    made->count = there - before < AUDIT_TILE_NODES ? (size_t)(there - before) : AUDIT_TILE_NODES;
    TRY(read_tile(store, made, &found));
    if (!found) {
        TRY(read_below(store, made));
    }
    made->next = store->seen;
    store->seen = made;
    *ret_nodes = made;
    return OK;
}

static struct fault node_of(void *arg, unsigned level, uint64_t index, struct sha256 *ret_node)
{
    struct tree_nodes *nodes = NULL;
    unsigned within = level % TILE_BITS;
    uint64_t first = index << within; /* among the nodes of the tile's level */
    size_t at = (size_t)(first % AUDIT_TILE_NODES), count = (size_t)1 << within;
    TRY(find_nodes(arg, level / TILE_BITS, first >> TILE_BITS, &nodes));
    BUG_IF(at + count > nodes->count);
    return audit_tree_join(&nodes->at[at], count, ret_node);
}

struct audit_tree_source tree_store_source(struct tree_store *store)
{
    return (struct audit_tree_source){ node_of, store };
}

struct fault tree_store_root(struct tree_store *store, struct sha256 *ret_root)
{
    struct audit_tree_source source = tree_store_source(store);
    return audit_tree_root_of(&source, store->size, ret_root);
}
