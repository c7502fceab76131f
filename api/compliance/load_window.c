/*
 * The population of a window. Times do not strictly follow sequences (several hosts append), so nothing is concluded
 * from one about the other: every record is counted by its own time, from the index over times, which has sequence and
 * type in it. The records themselves are not touched.
 */
#include "api/compliance/load.h"

#define DAY_US (24 * 3600 * US_PER_S)

/* In the order of that index, which leaves the planner no other way to it; the few groups are put in order here. */
static const struct sql SQL_COUNTS = {
    "compliance_counts",
    "SELECT type, part, count(*), min(sequence), max(sequence), max(time_us) FROM (SELECT type, sequence, time_us,"
    " CASE WHEN sequence <= $3 THEN -1 ELSE width_bucket(time_us, $5::bigint[])::bigint END AS part"
    " FROM svc.audit_records WHERE time_us >= $1 AND time_us <= $2 AND sequence <= $4 ORDER BY time_us, sequence)"
    " windowed GROUP BY type, part",
    5,
};
/* Counted, and not what is left over: only so does the sum say whether all records are there. */
static const struct sql SQL_OUTSIDE = {
    "compliance_outside",
    "SELECT (SELECT count(*) FROM svc.audit_records WHERE time_us < $1 AND sequence > $3 AND sequence <= $4)"
    " + (SELECT count(*) FROM svc.audit_records WHERE time_us > $2 AND sequence > $3 AND sequence <= $4)",
    4,
};

struct evidence_window load_window(utc_us to)
{
    return (struct evidence_window){ .from = to - EVIDENCE_WINDOW_DAYS * DAY_US, .to = to };
}

bool load_has_type(const char *const *types, size_t count, const char *type)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(types[i], type) == 0) {
            return true;
        }
    }
    return false;
}

static int by_type(const void *a, const void *b)
{
    const struct load_count *first = a, *second = b;
    int types = strcmp(first->type, second->type);
    return types != 0 ? types : (first->part > second->part) - (first->part < second->part);
}

/* What is archived stands behind the rest, apart from it. */
static struct fault take_counts(struct op *op, const struct rows *rows, struct load_counts *counts)
{
    struct load_count *made = NULL;
    size_t count = rows_count(rows), served = 0, archived = 0;
    TRY(arena_take(op->arena, count + 1, sizeof(*made), &made));
    for (size_t i = 0; i < count; i++) {
        int64_t part = rows_int(rows, i, 1);
        struct load_count *row = &made[part < 0 ? count - ++archived : served++];
        *row = (struct load_count){ .part = part < 0 ? 0 : (size_t)part,
                                    .count = rows_int(rows, i, 2),
                                    .first = rows_int(rows, i, 3),
                                    .last = rows_int(rows, i, 4),
                                    .newest = rows_int(rows, i, 5) };
        TRY(arena_text(op->arena, rows_bytes(rows, i, 0), &row->type));
    }
    qsort(made, served, sizeof(*made), by_type);
    counts->rows = made;
    counts->row_count = served;
    counts->archived = &made[served];
    counts->archived_count = archived;
    return OK;
}

struct fault load_counts(struct op *op, struct tx *tx, struct load_counts *counts)
{
    CLEANUP(sql_array_free) struct sql_array cuts = SQL_ARRAY_INIT(SQL_ARRAY_INT);
    CLEANUP(rows_freep) struct rows *rows = NULL;
    for (size_t i = 0; i < counts->cut_count; i++) {
        TRY(sql_array_int(&cuts, counts->cuts[i]));
    }
    const struct sql_arg args[] = { SQL_INT(counts->window.from), SQL_INT(counts->window.to), SQL_INT(counts->behind),
                                    SQL_INT(counts->through), sql_array_arg(&cuts) };
    TRY(load_along_the_index(tx));
    TRY(tx_query(tx, &SQL_COUNTS, args, COUNT_OF(args), &rows));
    return take_counts(op, rows, counts);
}

struct fault load_outside(struct tx *tx, const struct load_counts *counts, int64_t *ret_outside)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    const struct sql_arg args[] = { SQL_INT(counts->window.from), SQL_INT(counts->window.to), SQL_INT(counts->behind),
                                    SQL_INT(counts->through) };
    TRY(load_along_the_index(tx));
    TRY(tx_query(tx, &SQL_OUTSIDE, args, COUNT_OF(args), &rows));
    *ret_outside = rows_int(rows, 0, 0);
    return OK;
}

int64_t load_archived(const struct load_counts *counts, const char *const *types, size_t type_count)
{
    int64_t sum = 0;
    for (size_t i = 0; i < counts->archived_count; i++) {
        const struct load_count *row = &counts->archived[i];
        sum += type_count == 0 || load_has_type(types, type_count, row->type) ? row->count : 0;
    }
    return sum;
}

struct load_count load_sum(const struct load_counts *counts, const char *const *types, size_t type_count, size_t first,
                           size_t last)
{
    struct load_count sum = { .newest = INT64_MIN };
    for (size_t i = 0; i < counts->row_count; i++) {
        const struct load_count *row = &counts->rows[i];
        if (row->part < first || row->part > last || (type_count > 0 && !load_has_type(types, type_count, row->type))) {
            continue;
        }
        sum.first = sum.count == 0 || row->first < sum.first ? row->first : sum.first;
        sum.last = row->last > sum.last ? row->last : sum.last;
        sum.newest = row->newest > sum.newest ? row->newest : sum.newest;
        sum.count += row->count;
    }
    return sum;
}

static struct fault add_cut(struct load_counts *counts, utc_us cut)
{
    size_t at = 0;
    while (at < counts->cut_count && counts->cuts[at] < cut) {
        at++;
    }
    if (at < counts->cut_count && counts->cuts[at] == cut) {
        return OK;
    }
    REQUIRE(counts->cut_count < LOAD_CUTS_MAX, TOO_LARGE);
    memmove(&counts->cuts[at + 1], &counts->cuts[at], (counts->cut_count - at) * sizeof(counts->cuts[0]));
    counts->cuts[at] = cut;
    counts->cut_count++;
    return OK;
}

struct fault load_cuts(const struct framework *framework, struct load_counts *counts)
{
    for (size_t i = 0; framework != NULL && i < framework->control_count; i++) {
        const struct framework_control *control = &framework->controls[i];
        for (size_t j = 0; j < control->prerequisite_count; j++) {
            const struct framework_prerequisite *prerequisite = &control->prerequisites[j];
            utc_us cut = load_cut(prerequisite, counts->window);
            TRY(prerequisite->kind == PREREQUISITE_EVENT && cut > counts->window.from ? add_cut(counts, cut) : OK);
        }
    }
    return OK;
}

utc_us load_cut(const struct framework_prerequisite *prerequisite, struct evidence_window window)
{
    int64_t days = prerequisite->max_age_days;
    return days == 0 || days >= EVIDENCE_WINDOW_DAYS ? window.from : window.to - days * DAY_US;
}
