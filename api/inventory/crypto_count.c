#include "api/inventory/credentials.h"
#include "api/inventory/crypto.h"

static const struct sql SQL_LEFT_OUT = {
    "crypto_left_out",
    "SELECT (SELECT count(*) FROM svc.managed_keys WHERE state = 'retired'),"
    " (SELECT count(*) FROM svc.managed_keys WHERE state = 'destroyed'),"
    " (SELECT count(*) FROM svc.audit_records WHERE type = 'codesign.keyless.signed'),"
    " (SELECT count(*) FROM svc.managed_keys k WHERE k.state IN " LIVE_STATES " AND NOT " KEY_LIVES("$1") ")",
    1,
};

void crypto_count_asset(struct crypto_counts *counts, const struct crypto_asset *asset)
{
    counts->total++;
    counts->kinds[asset->kind]++;
    counts->algorithms[crypto_algorithm_index(asset->algorithm)]++;
    counts->quantum[asset->algorithm->quantum]++;
    counts->posture[asset->algorithm->posture]++;
    if (asset->kind == CRYPTO_KEY) {
        counts->keys++;
        counts->key_quantum[asset->algorithm->quantum]++;
        counts->key_posture[asset->algorithm->posture]++;
    }
}

struct fault crypto_count_left_out(struct tx *tx, utc_us now, struct crypto_counts *counts)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    TRY(tx_query(tx, &SQL_LEFT_OUT, (struct sql_arg[]){ SQL_INT(now) }, 1, &rows));
    counts->retired = rows_int(rows, 0, 0);
    counts->destroyed = rows_int(rows, 0, 1);
    counts->ephemeral = rows_int(rows, 0, 2);
    counts->expired = rows_int(rows, 0, 3);
    return OK;
}

static void print_algorithms(const struct crypto_counts *counts, struct jout *out)
{
    jout_key(out, "by_algorithm");
    jout_array(out);
    for (size_t i = 0; i < CRYPTO_ALGORITHMS; i++) {
        const struct crypto_algorithm *algorithm = crypto_algorithm_at(i);
        if (counts->algorithms[i] == 0) {
            continue;
        }
        jout_object(out);
        jout_key_text(out, "algorithm", algorithm->name);
        jout_key_int(out, "count", counts->algorithms[i]);
        jout_key_text(out, "posture", crypto_posture_text(algorithm->posture));
        jout_key_text(out, "quantum", crypto_quantum_text(algorithm->quantum));
        jout_object_end(out);
    }
    jout_array_end(out);
}

static void print_kinds(const struct crypto_counts *counts, struct jout *out)
{
    jout_key(out, "by_kind");
    jout_object(out);
    for (enum crypto_kind kind = 0; kind < CRYPTO_KINDS; kind++) {
        jout_key_int(out, crypto_kind_text(kind), counts->kinds[kind]);
    }
    jout_object_end(out);
}

static void print_left_out(struct jout *out, const char *reason, int64_t count)
{
    jout_object(out);
    jout_key_int(out, "count", count);
    jout_key_text(out, "reason", reason);
    jout_object_end(out);
}

void crypto_counts_print(const struct crypto_counts *counts, struct jout *out)
{
    jout_key_int(out, "approved", counts->posture[POSTURE_APPROVED]);
    print_algorithms(counts, out);
    print_kinds(counts, out);
    jout_key(out, "excluded");
    jout_array(out);
    print_left_out(out, "destroyed: the key is gone", counts->destroyed);
    print_left_out(out, "ephemeral: made for one keyless signature and destroyed after it", counts->ephemeral);
    print_left_out(out, "expired: the key's not_after has passed", counts->expired);
    print_left_out(out, "retired: signs no more, and verifies for ever", counts->retired);
    jout_array_end(out);
    jout_key_int(out, "fenced", counts->posture[POSTURE_FENCED]);
    jout_key_int(out, "post_quantum", counts->quantum[QUANTUM_POST]);
    jout_key_int(out, "quantum_unknown", counts->quantum[QUANTUM_UNKNOWN]);
    jout_key_int(out, "quantum_vulnerable", counts->quantum[QUANTUM_VULNERABLE]);
    jout_key_int(out, "symmetric", counts->quantum[QUANTUM_SYMMETRIC]);
    jout_key_int(out, "total", counts->total);
    jout_key_int(out, "unlisted", counts->posture[POSTURE_UNLISTED]);
}
