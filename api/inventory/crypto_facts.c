/* What a framework's prerequisites may ask of a tenant's cryptography. Keys are counted where they stand: this is read
 * with every pack. */
#include "api/inventory/credentials.h"
#include "api/inventory/crypto.h"

static const struct sql SQL_FACTS = {
    "crypto_facts",
    "SELECT k.algorithm, count(*), count(*) FILTER (WHERE NOT k.system) FROM svc.managed_keys k WHERE " KEY_LIVES(
        "$1") " GROUP BY k.algorithm ORDER BY k.algorithm",
    1,
};
static const struct sql SQL_CERTIFICATES = {
    "crypto_facts_certificates",
    "SELECT count(*) FROM svc.certificates c LEFT JOIN svc.managed_keys k ON k.tenant_id = c.tenant_id"
    " AND k.key_id = c.key_id WHERE NOT coalesce(k.system, false)",
    0,
};

/* What the product makes for itself (with the first pack at the latest) and its listener are there for a tenant that
 * has nothing: whether anything is there is asked of users' keys and certificates. */
struct census {
    int64_t keys, users, certificates, approved, post, vulnerable;
};

static struct fault take(struct tx *tx, utc_us now, struct census *census)
{
    CLEANUP(rows_freep) struct rows *rows = NULL, *certificates = NULL;
    TRY(tx_query(tx, &SQL_FACTS, (struct sql_arg[]){ SQL_INT(now) }, 1, &rows));
    TRY(tx_query(tx, &SQL_CERTIFICATES, NULL, 0, &certificates));
    census->certificates = rows_int(certificates, 0, 0);
    for (size_t row = 0; row < rows_count(rows); row++) {
        const struct crypto_algorithm *algorithm = crypto_algorithm_find(rows_text(rows, row, 0));
        int64_t count = rows_int(rows, row, 1), of_users = rows_int(rows, row, 2);
        census->keys += count;
        census->users += of_users;
        census->approved += algorithm->posture == POSTURE_APPROVED ? count : 0;
        census->post += algorithm->quantum == QUANTUM_POST ? of_users : 0;
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
    (void)services;
    struct census census = { 0 };
    const char *cbom = NULL, *readiness = NULL;
    TRY(take(tx, now, &census));
    TRY(arena_printf(op->arena, &cbom, "cbom:%s", op->tenant.text));
    TRY(arena_printf(op->arena, &readiness, "crypto-readiness:%s", op->tenant.text));
    int64_t total = census.users + census.certificates;
    int64_t keys = census.users > 0 ? census.keys : 0; /* the system's own alone say nothing of the tenant */
    const struct finding findings[] = {
        { INVENTORY_FACT_CBOM_CURRENT, true, total, total,
          "keys and certificates of users stand in the bill of materials" },
        { INVENTORY_FACT_CBOM_APPROVED, census.approved == keys, keys, keys > 0 ? census.approved : 0,
          "live keys, users' and the system's, are of an approved algorithm" },
        { INVENTORY_FACT_CBOM_POST_QUANTUM, census.post > 0, census.users, census.post,
          "live keys of users are of a post-quantum algorithm" },
        { INVENTORY_FACT_CBOM_QUANTUM_SAFE, census.vulnerable == 0, keys, keys > 0 ? keys - census.vulnerable : 0,
          "live keys, users' and the system's, are of an algorithm that no quantum computer is known to break" },
        { INVENTORY_FACT_READINESS_CURRENT, true, total, total,
          "keys and certificates of users stand in the crypto-readiness dataset" },
    };
    for (size_t i = 0; i < COUNT_OF(findings); i++) {
        TRY(state(op, &findings[i], findings[i].fact == INVENTORY_FACT_READINESS_CURRENT ? readiness : cbom,
                  statements));
    }
    return OK;
}
