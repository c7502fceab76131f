/* The stored tree against the recursive definition, over real batches: both sides of every border of a tile, batches
 * that are rolled back, leaders that change, two tenants, a rebuild and an upgraded database. */
#include "projection_testlib.h"

#include "api/projection/tree_store.h"

struct kept {
    struct config config;
    struct store *store;
    struct applier *applier;
    struct op *op;
    uint64_t stream_seq;
    struct sha256 *leaves[2]; /* of the two tenants, as the test hashes them itself */
    size_t count[2];
};

static const char *const tenants[] = { "acme", "umbrella" };
#define LEAVES_MAX 70000

static struct projector_config config_of(struct kept *kept)
{
    return (struct projector_config){
        .store = kept->store, .tables = test_tables, .counts = test_counts, .table_count = COUNT_OF(test_tables)
    };
}

/* What a new leader does. */
static void lead(struct kept *kept)
{
    struct projector_config config = config_of(kept);
    applier_free(TAKE(kept->applier));
    batch_op_reset(kept->op, 60000);
    assert_fault(applier_new(&config, &kept->applier), NONE);
    assert_fault(applier_load(kept->op, kept->applier), NONE);
    kept->stream_seq = kept->applier->checkpoint;
}

static int set_up_tree(void **state)
{
    static struct kept kept;
    log_setup("test", LOG_LEVEL_ERROR + 1, LOG_FORMAT_TEXT);
    kept = (struct kept){ .config = default_config() };
    kept.config.postgres_url = getenv("SVC_POSTGRES_URL");
    if (kept.config.postgres_url == NULL) {
        (void)fprintf(stderr, "run me inside tests/integration/with-postgres\n");
        return -1;
    }
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    fresh_database(&kept.config);
    assert_fault(store_open(&kept.config, &why, &kept.store), NONE);
    assert_fault(batch_op_new("system:test", &kept.op), NONE);
    for (size_t i = 0; i < COUNT_OF(tenants); i++) {
        assert_fault(mem_new(LEAVES_MAX, sizeof(struct sha256), &kept.leaves[i]), NONE);
    }
    *state = &kept;
    lead(&kept);
    return 0;
}

static int tear_down_tree(void **state)
{
    struct kept *kept = *state;
    applier_free(TAKE(kept->applier));
    op_free(TAKE(kept->op));
    store_close(TAKE(kept->store));
    for (size_t i = 0; i < COUNT_OF(tenants); i++) {
        mem_free(kept->leaves[i]);
    }
    return 0;
}

/* ---- messages, made up; the same ones whenever they are asked for ---- */

static struct event_message message_of(struct kept *kept, uint64_t stream_seq, size_t tenant, size_t events,
                                       const char *type)
{
    struct event_message message = { .stream_seq = stream_seq, .count = events };
    const char *text = NULL;
    (void)snprintf(message.tenant.text, sizeof(message.tenant.text), "%s", tenants[tenant]);
    (void)snprintf(message.message_id.text, sizeof(message.message_id.text), "00000000-0000-8000-8000-%012llu",
                   (unsigned long long)stream_seq);
    assert_fault(arena_printf(kept->op->arena, &text, "{\"seq\":%llu}", (unsigned long long)stream_seq), NONE);
    message.body = span_text(text);
    assert_fault(arena_take(kept->op->arena, events, sizeof(*message.events), &message.events), NONE);
    for (size_t i = 0; i < events; i++) {
        struct event_view *event = &message.events[i];
        *event = (struct event_view){ .tenant = message.tenant,
                                      .lane = "a",
                                      .type = i + 1 == events ? type : "test.noted",
                                      .schema_version = 1,
                                      .time = 1795233036123456,
                                      .actor_subject = "alice",
                                      .trace_id = "",
                                      .data = message.body,
                                      .stream_seq = stream_seq,
                                      .position = (unsigned)i };
        (void)snprintf(event->id.text, sizeof(event->id.text), "%08x-0000-8000-8000-%012llu", (unsigned)i,
                       (unsigned long long)stream_seq);
    }
    return message;
}

struct piece {
    size_t tenant, events;
};

static struct fault apply(struct kept *kept, const struct piece *pieces, size_t count, const char *last_type)
{
    struct event_message messages[BATCH_MESSAGES];
    bool outbox = false;
    uint64_t bad = 0;
    batch_op_reset(kept->op, 60000);
    for (size_t i = 0; i < count; i++) {
        messages[i] = message_of(kept, kept->stream_seq + 1 + i, pieces[i].tenant, pieces[i].events,
                                 i + 1 == count ? last_type : "test.noted");
    }
    return applier_apply(kept->op, kept->applier, messages, count, &outbox, &bad);
}

static void applied(struct kept *kept, const struct piece *pieces, size_t count)
{
    CLEANUP(buf_free) struct buf record = BUF_INIT(4096);
    assert_fault(apply(kept, pieces, count, "test.noted"), NONE);
    for (size_t i = 0; i < count; i++) {
        batch_op_reset(kept->op, 60000);
        struct event_message message =
            message_of(kept, ++kept->stream_seq, pieces[i].tenant, pieces[i].events, "test.noted");
        for (size_t j = 0; j < message.count; j++) {
            size_t tenant = pieces[i].tenant, at = kept->count[tenant]++;
            assert_fault(audit_record_bytes(&message.events[j], (int64_t)at + 1, &record), NONE);
            assert_fault(audit_tree_leaf(buf_span(&record), &kept->leaves[tenant][at]), NONE);
        }
    }
}

/* ---- what is stored ---- */

static struct sha256 root_of(const struct sha256 *leaves, size_t count)
{
    struct audit_frontier frontier = { 0 };
    struct sha256 root;
    for (size_t i = 0; i < count; i++) {
        assert_fault(audit_frontier_add(&frontier, &leaves[i]), NONE);
    }
    assert_fault(audit_frontier_root(&frontier, &root), NONE);
    return root;
}

static struct op *reading(struct kept *kept, size_t tenant, struct tx **ret_tx)
{
    struct op *op = op_of(tenants[tenant], 20000);
    assert_fault(tx_begin(op, kept->store, STORE_REQUEST, ret_tx), NONE);
    return op;
}

static void assert_root(struct kept *kept, size_t tenant, size_t size)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(op_freep) struct op *op = reading(kept, tenant, &tx);
    struct tree_store store = { .op = op, .tx = tx, .size = size };
    struct sha256 root, want = root_of(kept->leaves[tenant], size);
    assert_fault(tree_store_root(&store, &root), NONE);
    assert_memory_equal(root.at, want.at, SHA256_LEN);
    tx_rollback(TAKE(tx));
}

static void assert_proofs(struct kept *kept, size_t tenant, size_t index, size_t old_size, size_t size)
{
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(op_freep) struct op *op = reading(kept, tenant, &tx);
    struct tree_store store = { .op = op, .tx = tx, .size = size };
    struct audit_tree_source source = tree_store_source(&store);
    struct sha256 proof[AUDIT_PROOF_MAX];
    struct sha256 root = root_of(kept->leaves[tenant], size), old_root = root_of(kept->leaves[tenant], old_size);
    size_t count = 0;
    assert_fault(audit_tree_prove_inclusion(&source, index, size, proof, &count), NONE);
    assert_fault(audit_tree_check_inclusion(&kept->leaves[tenant][index], index, size, proof, count, &root), NONE);
    assert_fault(audit_tree_prove_consistency(&source, old_size, size, proof, &count), NONE);
    assert_fault(audit_tree_check_consistency(old_size, &old_root, size, &root, proof, count), NONE);
    tx_rollback(TAKE(tx));
}

#define TILES_TEXT                                                                                                \
    "SELECT coalesce(string_agg(tenant_id || ' ' || level || ' ' || tile || ' ' || encode(sha256(hashes), 'hex')" \
    " || ' ' || encode(root, 'hex'), E'\\n' ORDER BY tenant_id, level, tile), '') FROM svc.audit_tiles"

static void assert_tiles(struct kept *kept, int64_t level, int64_t want)
{
    char query[100];
    (void)snprintf(query, sizeof(query), "SELECT count(*) FROM svc.audit_tiles WHERE level = %lld", (long long)level);
    assert_int_equal(admin_int(&kept->config, query), want);
}

/* ---- the tests ---- */

static void a_tile_is_there_with_its_last_record_and_not_before(void **state)
{
    struct kept *kept = *state;
    static const struct piece to_255[] = { { 0, 200 }, { 1, 3 }, { 0, 55 } }, one[] = { { 0, 1 } };
    applied(kept, to_255, COUNT_OF(to_255));
    assert_tiles(kept, 0, 0);
    assert_root(kept, 0, 255);
    assert_root(kept, 1, 3);
    applied(kept, one, 1);
    assert_tiles(kept, 0, 1);
    assert_root(kept, 0, 256);
    applied(kept, one, 1);
    assert_root(kept, 0, 257);
    for (size_t old_size = 0; old_size <= 257; old_size += old_size < 254 ? 127 : 1) {
        assert_root(kept, 0, old_size);
        for (size_t index = 0; index < 257; index += 64) {
            assert_proofs(kept, 0, index, old_size, 257);
        }
    }
    assert_int_equal(admin_int(&kept->config, "SELECT count(*) FROM svc.audit_tiles WHERE tenant_id = 'umbrella'"), 0);
}

static void a_batch_that_is_rolled_back_leaves_no_leaf(void **state)
{
    struct kept *kept = *state;
    static const struct piece some[] = { { 0, 100 }, { 1, 250 } }, over[] = { { 0, 300 }, { 1, 10 } };
    applied(kept, some, COUNT_OF(some));
    assert_fault(apply(kept, over, COUNT_OF(over), "test.unheard"), PROJECTION_FAILED);
    applied(kept, some, 1); /* other messages in their place, as after a failure that was set right */
    assert_root(kept, 0, 200);
    assert_fault(apply(kept, over, COUNT_OF(over), "test.unheard"), PROJECTION_FAILED);
    applied(kept, over, COUNT_OF(over));
    assert_root(kept, 0, 500);
    assert_root(kept, 1, 260);
    assert_tiles(kept, 0, 2);
}

static void a_new_leader_goes_on_within_a_tile(void **state)
{
    struct kept *kept = *state;
    static const struct piece steps[] = { { 0, 1 }, { 0, 254 }, { 0, 1 }, { 0, 255 }, { 0, 2 }, { 1, 256 }, { 1, 1 } };
    for (size_t i = 0; i < COUNT_OF(steps); i++) {
        applied(kept, &steps[i], 1);
        lead(kept);
    }
    assert_root(kept, 0, 513);
    assert_root(kept, 1, 257);
    assert_tiles(kept, 0, 3);
}

static void records_that_are_gone_stop_the_projector_and_every_proof(void **state)
{
    struct kept *kept = *state;
    static const struct piece some[] = { { 0, 300 } };
    applied(kept, some, 1);
    admin_script(&kept->config, "DELETE FROM svc.audit_records WHERE sequence = 280");
    lead(kept);
    assert_fault(apply(kept, some, 1, "test.noted"), INTERNAL);
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    CLEANUP(op_freep) struct op *op = reading(kept, 0, &tx);
    struct tree_store store = { .op = op, .tx = tx, .size = 300 };
    struct sha256 root;
    assert_fault(tree_store_root(&store, &root), INTERNAL);
    tx_rollback(TAKE(tx));
}

/* The whole of 65537 records: a tile of tiles. Then the same from nothing, and as the migration makes it. */
static void a_tile_of_tiles_is_the_same_after_a_rebuild_and_an_upgrade(void **state)
{
    struct kept *kept = *state;
    static const struct piece last[] = { { 0, 255 }, { 0, 1 }, { 1, 7 }, { 0, 1 } };
    struct piece many[255];
    for (size_t i = 0; i < COUNT_OF(many); i++) {
        many[i] = (struct piece){ 0, 256 };
    }
    for (size_t i = 0; i < COUNT_OF(many); i += 51) {
        applied(kept, &many[i], 51);
    }
    applied(kept, &last[0], 1);
    assert_tiles(kept, 1, 0);
    assert_root(kept, 0, 65535);
    applied(kept, &last[1], 3);
    assert_tiles(kept, 1, 1);
    assert_tiles(kept, 0, 256);
    static const size_t sizes[] = { 1, 255, 256, 257, 1000, 65279, 65280, 65535, 65536 };
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        assert_root(kept, 0, sizes[i]);
        assert_proofs(kept, 0, sizes[i], sizes[i], 65537);
        assert_proofs(kept, 0, 0, 256, sizes[i] < 256 ? 256 : sizes[i]);
    }
    char *before = admin_text(&kept->config, TILES_TEXT);
    size_t messages = (size_t)kept->stream_seq;
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    assert_fault(store_empty_projections(&kept->config, &why), NONE);
    kept->count[0] = kept->count[1] = 0;
    lead(kept);
    for (size_t at = 0; at < 255; at += at < 250 ? 50 : 5) { /* other batches than before */
        applied(kept, &many[at], at < 250 ? 50 : 5);
    }
    applied(kept, last, COUNT_OF(last));
    assert_int_equal(kept->stream_seq, messages);
    char *rebuilt = admin_text(&kept->config, TILES_TEXT);
    assert_string_equal(before, rebuilt);
    mem_free(rebuilt);

    const char *migration = NULL;
    for (size_t i = 0; i < store_migration_count; i++) {
        migration = strcmp(store_migrations[i].name, "100_audit_tree") == 0 ? store_migrations[i].sql : migration;
    }
    assert_non_null(migration);
    admin_script(&kept->config, "DROP TABLE svc.audit_tiles; DELETE FROM svc.tables WHERE name = 'audit_tiles'");
    CLEANUP(buf_free) struct buf script = BUF_INIT((size_t)1 << 20);
    const char *text = NULL;
    assert_fault(buf_printf(&script, "SET ROLE svc_owner;\n%s", migration),
                 NONE); /* as it is run: row security binds */
    assert_fault(buf_cstr(&script, &text), NONE);
    admin_script(&kept->config, text);
    char *filled = admin_text(&kept->config, TILES_TEXT);
    assert_string_equal(before, filled);
    mem_free(filled);
    mem_free(before);
}

#define WITH_TREE(test) cmocka_unit_test_setup_teardown(test, set_up_tree, tear_down_tree)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_TREE(records_that_are_gone_stop_the_projector_and_every_proof),
        WITH_TREE(a_batch_that_is_rolled_back_leaves_no_leaf),
        WITH_TREE(a_tile_is_there_with_its_last_record_and_not_before),
        WITH_TREE(a_new_leader_goes_on_within_a_tile),
        WITH_TREE(a_tile_of_tiles_is_the_same_after_a_rebuild_and_an_upgrade),
    };
    return cmocka_run_group_tests_name("projection/tree", tests, NULL, NULL);
}
