#include "api/compliance/sample_internal.h"

/* Rank by time, then sequence: along the index, of which it reads no more than the entries. */
#define RANKED(more)                                                                                          \
    "SELECT rank, sequence FROM (SELECT row_number() OVER (ORDER BY time_us, sequence) AS rank, sequence"     \
    " FROM svc.audit_records WHERE time_us >= $1 AND time_us <= $2 AND sequence > $3 AND sequence <= $4" more \
    ") ranked WHERE rank = ANY ($5::bigint[])"
static const struct sql SQL_RANKED = { "compliance_ranked", RANKED(""), 5 };
static const struct sql SQL_RANKED_OF = { "compliance_ranked_of", RANKED(" AND type = ANY ($6::text[])"), 6 };

static struct fault find_sequences(struct tx *tx, struct sample *sample)
{
    const struct framework_prerequisite *prerequisite = sample->wish->prerequisite;
    const struct load_counts *counts = &sample->counts;
    CLEANUP(sql_array_free) struct sql_array ranks = SQL_ARRAY_INIT(SQL_ARRAY_INT);
    CLEANUP(sql_array_free) struct sql_array types = SQL_ARRAY_INIT(SQL_ARRAY_TEXT);
    CLEANUP(rows_freep) struct rows *rows = NULL;
    for (size_t i = 0; i < sample->n; i++) {
        TRY(sql_array_int(&ranks, sample->ranks[i]));
    }
    for (size_t i = 0; prerequisite != NULL && i < prerequisite->type_count; i++) {
        TRY(sql_array_put(&types, span_text(prerequisite->types[i])));
    }
    const struct sql_arg args[] = { SQL_INT(counts->window.from), SQL_INT(counts->window.to), SQL_INT(counts->behind),
                                    SQL_INT(counts->through),     sql_array_arg(&ranks),      sql_array_arg(&types) };
    TRY(load_along_the_index(tx));
    TRY(tx_query(tx, prerequisite != NULL ? &SQL_RANKED_OF : &SQL_RANKED, args, prerequisite != NULL ? 6 : 5, &rows));
    REQUIRE(rows_count(rows) == sample->n, INTERNAL); /* the snapshot that was counted */
    for (size_t i = 0; i < rows_count(rows); i++) {
        size_t at = 0;
        while (sample->ranks[at] != rows_int(rows, i, 0)) {
            at++;
            BUG_IF(at >= sample->n);
        }
        sample->sequences[at] = rows_int(rows, i, 1);
    }
    return OK;
}

struct fault sample_choose(struct op *op, struct tx *tx, const struct sample_wish *wish, struct sample *ret_sample)
{
    struct sample made = { .wish = wish }, *sample = &made;
    const struct framework_prerequisite *prerequisite = wish->prerequisite;
    struct load_counts *counts = &sample->counts;
    TRY(load_prepare(tx));
    TRY(load_trail(op, tx, &sample->trail));
    if (wish->through > sample->trail.head_sequence) {
        return op_fail_field(op, FAULT(QUERY), "head_sequence", "head_sequence: the newest record is %lld",
                             (long long)sample->trail.head_sequence);
    }
    counts->window = load_window(wish->to);
    counts->behind = sample->trail.archived_through;
    counts->through = wish->through != 0 ? wish->through : sample->trail.head_sequence;
    TRY(load_counts(op, tx, counts));
    sample->population = load_sum(counts, prerequisite != NULL ? prerequisite->types : NULL,
                                  prerequisite != NULL ? prerequisite->type_count : 0, 0, 0);
    sample->n = wish->n < sample->population.count ? (size_t)wish->n : (size_t)sample->population.count;
    TRY(sample_draw(wish->seed, sample->population.count, sample->n, sample->ranks));
    TRY(sample->n > 0 ? find_sequences(tx, sample) : OK);
    *ret_sample = made;
    return OK;
}
