#include "api/audit/proof.h"

#include "api/audit/floor.h"
#include "api/audit/verify_proof.h"
#include "api/projection/chain.h"
#include "api/projection/tree_store.h"
#include "api/tsa/tsa.h"

struct fault audit_tree_root(struct op *op, struct services *services, int64_t size, struct sha256 *ret_root)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    BUG_IF(size < 0);
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    struct tree_store store = { .op = op, .tx = tx, .size = (uint64_t)size };
    return tree_store_root(&store, ret_root);
}

/* ---- what is read: in one transaction, which is over before anybody outside is asked ---- */

/* Within records 1..newest; size 0 becomes the newest. */
static struct fault settle_size(struct op *op, struct tx *tx, const char *name, int64_t *size)
{
    int64_t newest = 0;
    TRY(record_head(tx, &newest));
    *size = *size == 0 ? newest : *size;
    if (*size > newest) {
        return op_fail_field(op, FAULT(QUERY), name, "%s: there are %lld records", name, (long long)newest);
    }
    return OK;
}

static struct fault read_head(struct op *op, struct tx *tx, int64_t size, struct tree_store *ret_store,
                              struct audit_head *ret_head)
{
    struct audit_head head = { .tenant = op->tenant, .tree_size = size };
    struct tree_store store = { .op = op, .tx = tx, .size = (uint64_t)size };
    TRY(audit_generation(tx, &head.generation));
    TRY(record_chain(tx, size, &head.chain_head));
    TRY(tree_store_root(&store, &head.tree_root));
    *ret_head = head;
    *ret_store = store;
    return OK;
}

/* A history that was rewritten while it was read: parts of two. */
static struct fault check_made(struct op *op, struct fault fault)
{
    if (fault.code == FAULT_AUDIT_PROOF) {
        return op_fail(op, FAULT(INTERNAL),
                       "the stored tree is not that of the records: ask again, and if that does not "
                       "help, rebuild the read model");
    }
    return fault;
}

static struct fault read_inclusion(struct op *op, struct services *services, int64_t size, struct audit_head *head,
                                   struct audit_inclusion *inclusion)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct tree_store store;
    struct sha256 leaf;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(settle_size(op, tx, "tree_size", &size));
    if (inclusion->sequence > size) {
        return op_fail_field(op, FAULT(QUERY), "sequence", "sequence: must be from 1 to %lld", (long long)size);
    }
    TRY(audit_check_served(op, tx, inclusion->sequence, "sequence"));
    TRY(read_head(op, tx, size, &store, head));
    TRY(record_chain(tx, inclusion->sequence - 1, &inclusion->seed));
    TRY(record_chain(tx, inclusion->sequence, &inclusion->chain));
    TRY(record_range(tx, inclusion->sequence, inclusion->sequence, 1, &rows));
    REQUIRE(rows_count(rows) == 1, INTERNAL); /* the head says that it is there */
    TRY(arena_copy(op->arena, rows_bytes(rows, 0, 1), &inclusion->record));
    inclusion->tree_size = size;
    struct audit_tree_source source = tree_store_source(&store);
    uint64_t index = (uint64_t)inclusion->sequence - 1;
    TRY(audit_tree_prove_inclusion(&source, index, store.size, inclusion->proof.at, &inclusion->proof.count));
    TRY(audit_tree_leaf(inclusion->record, &leaf));
    return check_made(op, audit_tree_check_inclusion(&leaf, index, store.size, inclusion->proof.at,
                                                     inclusion->proof.count, &head->tree_root));
}

static struct fault read_consistency(struct op *op, struct services *services, struct audit_head *head,
                                     struct audit_consistency *consistency)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    struct tree_store store;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    TRY(settle_size(op, tx, "second", &consistency->second));
    if (consistency->first > consistency->second) {
        return op_fail_field(op, FAULT(QUERY), "first", "first: must be from 0 to %lld",
                             (long long)consistency->second);
    }
    TRY(read_head(op, tx, consistency->second, &store, head));
    struct tree_store older = { .op = op, .tx = tx, .size = (uint64_t)consistency->first };
    TRY(tree_store_root(&older, &consistency->first_root));
    struct audit_tree_source source = tree_store_source(&store);
    TRY(audit_tree_prove_consistency(&source, older.size, store.size, consistency->proof.at,
                                     &consistency->proof.count));
    return check_made(op,
                      audit_tree_check_consistency(older.size, &consistency->first_root, store.size, &head->tree_root,
                                                   consistency->proof.at, consistency->proof.count));
}

/* ---- what is signed ---- */

/* Where the authority is on, there is no head without its time stamp. */
static struct fault sign_head(struct op *op, struct services *services, struct audit_head *head, struct buf *compact)
{
    CLEANUP(buf_free) struct buf payload = BUF_INIT(AUDIT_HEAD_MAX);
    BUG_IF(op->tx_open > 0);
    rfc3339_print(clock_utc(), head->time);
    if (tsa_is_on(services)) {
        TRY(tsa_anchor(op, services, &head->chain_head, &head->timestamp));
    }
    TRY(audit_head_print(head, &payload));
    return audit_sign(op, services, AUDIT_HEAD_TYP, buf_span(&payload), compact);
}

struct fault proof_head(struct op *op, struct services *services, int64_t size, struct proof_made *ret_made,
                        struct buf *out)
{
    struct audit_head head;
    struct tree_store store;
    struct tx *tx = NULL;
    TRY(tx_begin(op, services->store, STORE_REQUEST, &tx));
    struct fault fault = settle_size(op, tx, "tree_size", &size);
    fault = FAULTED(fault) ? fault : read_head(op, tx, size, &store, &head);
    tx_rollback(tx);
    TRY(fault);
    TRY(sign_head(op, services, &head, out));
    *ret_made = (struct proof_made){ .size = size, .generation = head.generation, .chain_head = head.chain_head };
    return OK;
}

struct fault proof_inclusion(struct op *op, struct services *services, int64_t sequence, int64_t size,
                             struct proof_made *ret_made, struct buf *out)
{
    CLEANUP(buf_free) struct buf compact = BUF_INIT(AUDIT_HEAD_MAX);
    struct audit_inclusion inclusion = { .sequence = sequence };
    struct audit_head head;
    TRY(read_inclusion(op, services, size, &head, &inclusion));
    TRY(sign_head(op, services, &head, &compact));
    inclusion.head = buf_span(&compact);
    TRY(audit_inclusion_print(&inclusion, out));
    *ret_made = (struct proof_made){
        .first = sequence, .size = inclusion.tree_size, .generation = head.generation, .chain_head = head.chain_head
    };
    return OK;
}

struct fault proof_consistency(struct op *op, struct services *services, int64_t first, int64_t second,
                               struct proof_made *ret_made, struct buf *out)
{
    CLEANUP(buf_free) struct buf compact = BUF_INIT(AUDIT_HEAD_MAX);
    struct audit_consistency consistency = { .first = first, .second = second };
    struct audit_head head;
    TRY(read_consistency(op, services, &head, &consistency));
    TRY(sign_head(op, services, &head, &compact));
    consistency.head = buf_span(&compact);
    TRY(audit_consistency_print(&consistency, out));
    *ret_made = (struct proof_made){
        .first = first, .size = consistency.second, .generation = head.generation, .chain_head = head.chain_head
    };
    return OK;
}
