#include "api/compliance/load.h"

#include "api/audit/floor.h"

#define DATASET_MAX ((size_t)4 << 20)

static const struct sql SQL_TRAIL = {
    "compliance_trail",
    "SELECT coalesce((SELECT sequence FROM svc.audit_heads), 0), (SELECT chain FROM svc.audit_heads),"
    " (SELECT coalesce(max(generation), 1) FROM svc.audit_generations)",
    0,
};
static const struct sql SQL_ONE_CORE = { "compliance_one_core",
                                         "SELECT set_config('max_parallel_workers_per_gather', '0', true)", 0 };

struct fault load_prepare(struct tx *tx)
{
    return tx_queue(tx, &SQL_ONE_CORE, NULL, 0);
}

struct fault load_trail(struct op *op, struct tx *tx, struct load_trail *ret_trail)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    struct load_trail trail = { 0 };
    TRY(tx_query(tx, &SQL_TRAIL, NULL, 0, &rows));
    trail.head_sequence = rows_int(rows, 0, 0);
    trail.generation = rows_int(rows, 0, 2);
    if (trail.head_sequence > 0) {
        struct span chain = rows_bytes(rows, 0, 1);
        REQUIRE(chain.len == SHA256_LEN, INTERNAL);
        memcpy(trail.chain_head.at, chain.at, SHA256_LEN);
    }
    TRY(audit_floor(op, tx, &trail.archived_through));
    *ret_trail = trail;
    return OK;
}

/* ---- what inventory says ---- */

static enum fact_state state_of(enum inventory_fact_state state)
{
    switch (state) {
    case INVENTORY_HOLDS:
        return FACT_HOLDS;
    case INVENTORY_FAILS:
        return FACT_FAILS;
    case INVENTORY_MALFORMED:
        return FACT_MALFORMED;
    case INVENTORY_ABSENT:
        break;
    }
    return FACT_ABSENT;
}

static struct fault load_facts(struct op *op, struct services *services, struct tx *tx, struct evidence_facts *facts)
{
    struct inventory_statement statements[INVENTORY_FACT_COUNT] = { 0 };
    struct evidence_fact *made = NULL;
    utc_us now = facts->window.to;
    TRY(inventory_facts(op, services, tx, now, statements));
    TRY(arena_take(op->arena, INVENTORY_FACT_COUNT, sizeof(*made), &made));
    for (size_t i = 0; i < INVENTORY_FACT_COUNT; i++) {
        made[i] = (struct evidence_fact){
            .name = inventory_fact_text((enum inventory_fact)i),
            .state = state_of(statements[i].state),
            .tenant = op->tenant,
            .snapshot = now,
            .object = statements[i].object,
            .why = statements[i].why,
            .total = statements[i].total,
            .matched = statements[i].matched,
        };
    }
    facts->facts = made;
    facts->fact_count = INVENTORY_FACT_COUNT;
    return OK;
}

/* An attestation is as good as the digest of its evidence. */
static bool is_digest(const char *hex)
{
    return hex != NULL && strlen(hex) == 2 * SHA256_LEN && strspn(hex, "0123456789abcdef") == 2 * SHA256_LEN;
}

static struct evidence_attestation attested(struct op *op, const struct inventory_attestation *said)
{
    return (struct evidence_attestation){
        .statement = said->statement,
        .tenant = op->tenant,
        .malformed = !is_digest(said->evidence_sha256),
        .made = said->made,
        .expires = said->expires,
        .evidence_sha256 = said->evidence_sha256,
        .event = { .event_id = said->event_id,
                   .type = said->event_type,
                   .sequence = said->sequence,
                   .time = said->made,
                   .chain = said->chain,
                   .evidence_sha256 = said->evidence_sha256 },
    };
}

static struct fault load_attestations(struct op *op, struct tx *tx, struct evidence_facts *facts)
{
    const struct inventory_attestation *said = NULL;
    struct evidence_attestation *made = NULL;
    size_t count = 0;
    TRY(inventory_attestations(op, tx, &said, &count));
    TRY(arena_take(op->arena, count + 1, sizeof(*made), &made));
    for (size_t i = 0; i < count; i++) {
        made[i] = attested(op, &said[i]);
    }
    facts->attestations = made;
    facts->attestation_count = count;
    return OK;
}

struct dataset {
    struct buf bytes;
    struct jout jout;
};

static void dataset_free(struct dataset *dataset)
{
    buf_free(&dataset->bytes);
}

static void dataset_begin(struct dataset *dataset)
{
    dataset->bytes = (struct buf)BUF_INIT(DATASET_MAX);
    jout_init(&dataset->jout, &dataset->bytes);
}

static struct fault dataset_keep(struct op *op, struct dataset *dataset, struct span *ret_dataset)
{
    TRY(jout_end(&dataset->jout));
    return arena_copy(op->arena, buf_span(&dataset->bytes), ret_dataset);
}

static struct fault load_datasets(struct op *op, struct services *services, struct tx *tx, struct evidence *evidence)
{
    const struct evidence_window *window = &evidence->facts.window;
    CLEANUP(dataset_free) struct dataset custody = { 0 };
    CLEANUP(dataset_free) struct dataset adcs = { 0 };
    CLEANUP(dataset_free) struct dataset cbom = { 0 };
    CLEANUP(dataset_free) struct dataset readiness = { 0 };
    dataset_begin(&custody);
    dataset_begin(&adcs);
    dataset_begin(&cbom);
    dataset_begin(&readiness);
    TRY(inventory_assets_print(op, services, tx, &custody.jout, &cbom.jout, &readiness.jout));
    TRY(inventory_adcs_print(op, services, tx, window->from, window->to, &adcs.jout));
    TRY(dataset_keep(op, &custody, &evidence->custody));
    TRY(dataset_keep(op, &adcs, &evidence->adcs));
    TRY(dataset_keep(op, &cbom, &evidence->cbom));
    return dataset_keep(op, &readiness, &evidence->readiness);
}

static struct fault load_inventory_counts(struct op *op, struct services *services, struct tx *tx,
                                          struct evidence *evidence)
{
    CLEANUP(dataset_free) struct dataset counts = { 0 };
    dataset_begin(&counts);
    jout_object(&counts.jout);
    TRY(inventory_counts_print(op, services, tx, &counts.jout));
    jout_object_end(&counts.jout);
    return dataset_keep(op, &counts, &evidence->counts);
}

/* ---- what the trail says ---- */

/* A trail that has fewer or more records than its head stands for is no evidence, so there is none made of it. */
static struct fault check_whole(struct op *op, const struct evidence *evidence, int64_t inside)
{
    int64_t there = inside + evidence->outside_total, due = evidence->head_sequence - evidence->archived_through;
    return there == due ? OK
                        : op_fail(op, FAULT(AUDIT_SOURCE_GAP),
                                  "the audit trail should serve %lld records and has %lld: rebuild the read model, "
                                  "then ask again",
                                  (long long)due, (long long)there);
}

/* The counts of all parts together, by type. */
static struct fault put_population(struct op *op, struct tx *tx, const struct load_counts *counts,
                                   struct evidence *evidence)
{
    struct evidence_type_count *types = NULL;
    size_t count = 0;
    TRY(arena_take(op->arena, counts->row_count + 1, sizeof(*types), &types));
    for (size_t i = 0; i < counts->row_count; i++) {
        const struct load_count *row = &counts->rows[i];
        if (count == 0 || strcmp(types[count - 1].type, row->type) != 0) {
            types[count++] = (struct evidence_type_count){ .type = row->type };
        }
        types[count - 1].count += row->count;
    }
    struct load_count all = load_sum(counts, NULL, 0, 0, counts->cut_count);
    TRY(load_outside(tx, counts, &evidence->outside_total));
    TRY(check_whole(op, evidence, all.count));
    evidence->types = types;
    evidence->type_count = count;
    evidence->window_first = all.first;
    evidence->window_last = all.last;
    evidence->window_total = all.count;
    evidence->archived_total = load_archived(counts, NULL, 0);
    return OK;
}

static struct fault load_log(struct op *op, struct tx *tx, const struct framework *framework, struct evidence *evidence)
{
    struct load_counts counts = { .window = evidence->facts.window };
    struct load_trail trail;
    TRY(load_trail(op, tx, &trail));
    evidence->head_sequence = trail.head_sequence;
    evidence->generation = trail.generation;
    evidence->archived_through = trail.archived_through;
    evidence->chain_head = trail.chain_head;
    counts.behind = trail.archived_through;
    counts.through = trail.head_sequence;
    TRY(load_cuts(framework, &counts));
    TRY(load_counts(op, tx, &counts));
    TRY(put_population(op, tx, &counts, evidence));
    return framework != NULL ? load_gather(op, tx, framework, &counts, &evidence->facts) : OK;
}

struct fault evidence_load(struct op *op, struct services *services, const struct framework *framework, utc_us now,
                           struct evidence *ret_evidence)
{
    BUG_IF(op->tx_open != 0);
    struct evidence evidence = { .now = now, .facts = { .tenant = op->tenant, .window = load_window(now) } };
    CLEANUP(tx_rollbackp) struct tx *tx = NULL;
    TRY(tx_begin_snapshot(op, services->store, STORE_REQUEST, &tx));
    TRY(load_prepare(tx));
    TRY(load_facts(op, services, tx, &evidence.facts));
    TRY(load_attestations(op, tx, &evidence.facts));
    TRY(load_datasets(op, services, tx, &evidence));
    TRY(framework == NULL ? load_inventory_counts(op, services, tx, &evidence) : OK);
    TRY(load_log(op, tx, framework, &evidence)); /* last: it tells the planner what is good for it alone */
    *ret_evidence = evidence;
    return OK;
}
