/*
 * What can be had without looking at every record: of the types that no condition is on, the newest records, each
 * further subject's newest one where subjects count, and how many others there are.
 */
#include "api/compliance/load.h"

struct picking {
    struct op *op;
    struct tx *tx;
    struct load_picked *picked;
    struct load_range range;
    struct sql_array types, seen; /* subjects of what was picked */
    int64_t subjects;             /* how many different ones */
};

static void picking_clear(struct picking *picking)
{
    sql_array_free(&picking->types);
    sql_array_free(&picking->seen);
}

bool load_is_judged(const struct framework_prerequisite *prerequisite, const char *type)
{
    for (size_t i = 0; i < prerequisite->where_count; i++) {
        if (prerequisite->where[i].of == NULL || strcmp(prerequisite->where[i].of, type) == 0) {
            return load_has_type(prerequisite->types, prerequisite->type_count, type);
        }
    }
    return false;
}

/* Its texts in op's arena, without the record: nobody looks into it. */
static struct fault keep(struct picking *picking, const struct evidence_event *event)
{
    struct load_picked *picked = picking->picked;
    struct evidence_event copy = *event;
    struct arena *arena = picking->op->arena;
    bool known = false;
    BUG_IF(picked->count >= LOAD_PICKED_MAX);
    for (size_t i = 0; i < picked->count; i++) {
        known |= strcmp(picked->events[i].actor, event->actor) == 0;
    }
    copy.record = (struct span){ 0 };
    TRY(arena_text(arena, span_text(event->event_id), &copy.event_id));
    TRY(arena_text(arena, span_text(event->type), &copy.type));
    TRY(arena_text(arena, span_text(event->actor), &copy.actor));
    TRY(sql_array_put(&picking->seen, span_text(event->actor)));
    picking->subjects += !known;
    picked->events[picked->count++] = copy;
    return OK;
}

static struct fault pick_page(struct picking *picking, size_t *ret_count)
{
    CLEANUP(rows_freep) struct rows *rows = NULL;
    bool cut = false;
    TRY(load_page(picking->tx, &picking->range, &rows, &cut));
    for (size_t i = 0; i < rows_count(rows); i++) {
        struct evidence_event event;
        TRY(load_event(rows, i, &event));
        TRY(keep(picking, &event));
        picking->range.most = event.sequence - 1;
    }
    *ret_count = rows_count(rows);
    return OK;
}

/* The newest `limit` of the range, which goes on behind them. A page may be of fewer, when they are large. */
static struct fault pick_newest(struct picking *picking, int64_t limit)
{
    while (limit > 0 && picking->range.most >= picking->range.least) {
        size_t count = 0;
        picking->range.limit = limit;
        TRY(pick_page(picking, &count));
        limit -= (int64_t)count;
        if (count == 0) {
            picking->range.most = picking->range.least - 1;
        }
    }
    return OK;
}

/* Further subjects, as long as there are any and more are wanted. */
static struct fault pick_subjects(struct picking *picking, int64_t wanted)
{
    picking->range.not_actors = &picking->seen;
    while (picking->subjects < wanted && picking->range.most >= picking->range.least) {
        TRY(pick_newest(picking, 1));
    }
    picking->range.not_actors = NULL;
    return OK;
}

static void aim(struct picking *picking, struct load_count there, utc_us from, utc_us to)
{
    picking->range.least = there.first;
    picking->range.most = there.last;
    picking->range.window = (struct evidence_window){ from, to };
}

static struct fault pick_fresh(struct picking *picking, const struct framework_prerequisite *prerequisite,
                               struct load_count there, struct evidence_window window)
{
    if (there.count > 0) {
        aim(picking, there, load_cut(prerequisite, window), window.to);
        TRY(pick_newest(picking, EVIDENCE_REFERENCES_MAX));
        TRY(pick_subjects(picking, prerequisite->distinct_actors));
    }
    picking->picked->newest = there.newest;
    picking->picked->rest = there.count - (int64_t)picking->picked->count;
    return OK;
}

/* Of those that are too old one is enough: the newest. */
static struct fault pick_stale(struct picking *picking, const struct framework_prerequisite *prerequisite,
                               struct load_count there, struct evidence_window window)
{
    size_t before = picking->picked->count;
    if (there.count > 0) {
        aim(picking, there, window.from, load_cut(prerequisite, window) - 1);
        TRY(pick_newest(picking, 1));
    }
    picking->picked->newest_stale = there.newest;
    picking->picked->rest_stale = there.count - (int64_t)(picking->picked->count - before);
    return OK;
}

static size_t part_of(const struct load_counts *counts, utc_us cut)
{
    size_t part = 0;
    while (part < counts->cut_count && counts->cuts[part] <= cut) {
        part++;
    }
    return part;
}

struct fault load_pick(struct op *op, struct tx *tx, const struct load_counts *counts,
                       const struct framework_prerequisite *prerequisite, struct load_picked *ret_picked)
{
    struct load_picked picked = { .newest = INT64_MIN, .newest_stale = INT64_MIN };
    CLEANUP(picking_clear)
    struct picking picking = { .op = op,
                               .tx = tx,
                               .picked = &picked,
                               .types = SQL_ARRAY_INIT(SQL_ARRAY_TEXT),
                               .seen = SQL_ARRAY_INIT(SQL_ARRAY_TEXT) };
    const char *plain[FRAMEWORK_TYPES_MAX];
    size_t plain_count = 0, part = part_of(counts, load_cut(prerequisite, counts->window));
    BUG_IF(prerequisite->type_count > FRAMEWORK_TYPES_MAX || prerequisite->distinct_actors > EVIDENCE_REFERENCES_MAX);
    for (size_t i = 0; i < prerequisite->type_count; i++) {
        if (!load_is_judged(prerequisite, prerequisite->types[i])) {
            plain[plain_count++] = prerequisite->types[i];
            TRY(sql_array_put(&picking.types, span_text(prerequisite->types[i])));
        }
    }
    picking.range.types = &picking.types;
    if (plain_count > 0) {
        struct load_count fresh = load_sum(counts, plain, plain_count, part, counts->cut_count);
        TRY(pick_fresh(&picking, prerequisite, fresh, counts->window));
    }
    if (plain_count > 0 && part > 0) {
        struct load_count stale = load_sum(counts, plain, plain_count, 0, part - 1);
        TRY(pick_stale(&picking, prerequisite, stale, counts->window));
    }
    *ret_picked = picked;
    return OK;
}
