/* What a framework's prerequisites may ask of a tenant's cryptography. Keys are counted where they stand: this is read
 * with every pack. */
#include "api/inventory/crypto.h"

static const struct sql SQL_FACTS = {
    "crypto_facts",
    "SELECT algorithm, count(*)"
    " FROM svc.managed_keys WHERE state IN ('prepared', 'active', 'retiring') GROUP BY algorithm ORDER BY algorithm",
    0,
};
static const struct sql SQL_CERTIFICATES = { "crypto_facts_certificates", "SELECT count(*) FROM svc.certificates", 0 };

struct census {
    int64_t keys, others, approved, post, vulnerable;
};

static struct fault take(struct tx *tx, struct census *census)
{
    CLEANUP(rows_freep) struct rows *rows = NULL, *certificates = NULL;
    TRY(tx_query(tx, &SQL_FACTS, NULL, 0, &rows));
    TRY(tx_query(tx, &SQL_CERTIFICATES, NULL, 0, &certificates));
    census->others = rows_int(certificates, 0, 0) + (crypto_listener()->algorithm != NULL ? 1 : 0);
    for (size_t row = 0; row < rows_count(rows); row++) {
        const struct crypto_algorithm *algorithm = crypto_algorithm_find(rows_text(rows, row, 0));
        int64_t count = rows_int(rows, row, 1);
        census->keys += count;
        census->approved += algorithm->posture == POSTURE_APPROVED ? count : 0;
        census->post += algorithm->quantum == QUANTUM_POST ? count : 0;
        census->vulnerable +=
            algorithm->quantum == QUANTUM_VULNERABLE || algorithm->quantum == QUANTUM_UNKNOWN ? count : 0;
    }
    return OK;
}

struct finding {
    enum inventory_fact fact;
    bool holds;
    int64_t total, matched;
    const char *says; /* behind the numbers */
};

static struct fault state(struct op *op, const struct finding *finding, const char *object,
                          struct inventory_statement *statements)
{
    struct inventory_statement statement = {
        .state = finding->total == 0 ? INVENTORY_ABSENT
                 : finding->holds    ? INVENTORY_HOLDS
                                     : INVENTORY_FAILS,
        .object = object,
        .total = finding->total,
        .matched = finding->matched,
    };
    TRY(arena_printf(op->arena, &statement.why, "%lld of %lld %s.", (long long)finding->matched,
                     (long long)finding->total, finding->says));
    statements[finding->fact] = statement;
    return OK;
}

struct fault inventory_crypto_facts(struct op *op, struct services *services, struct tx *tx, utc_us now,
                                    struct inventory_statement *statements)
{
    (void)services, (void)now;
    struct census census = { 0 };
    const char *cbom = NULL, *readiness = NULL;
    TRY(take(tx, &census));
    TRY(arena_printf(op->arena, &cbom, "cbom:%s", op->tenant.text));
    TRY(arena_printf(op->arena, &readiness, "crypto-readiness:%s", op->tenant.text));
    int64_t total = census.keys + census.others, keys = census.keys;
    const struct finding findings[] = {
        { INVENTORY_FACT_CBOM_CURRENT, true, total, total, "assets stand in the bill of materials" },
        { INVENTORY_FACT_CBOM_APPROVED, census.approved == keys, keys, census.approved,
          "live keys are of an approved algorithm" },
        { INVENTORY_FACT_CBOM_POST_QUANTUM, census.post > 0, keys, census.post,
          "live keys are of a post-quantum algorithm" },
        { INVENTORY_FACT_CBOM_QUANTUM_SAFE, census.vulnerable == 0, keys, keys - census.vulnerable,
          "live keys are of an algorithm that no quantum computer is known to break" },
        { INVENTORY_FACT_READINESS_CURRENT, true, total, total, "assets stand in the crypto-readiness dataset" },
    };
    for (size_t i = 0; i < COUNT_OF(findings); i++) {
        TRY(state(op, &findings[i], findings[i].fact == INVENTORY_FACT_READINESS_CURRENT ? readiness : cbom,
                  statements));
    }
    return OK;
}
