/*
 * What the event prerequisites of a framework find. Types that no condition is on are counted and a few of their
 * records picked (load_pick.c); records of the others are looked at one by one, in one pass for all prerequisites. Each
 * gathering gets both newest first, as gather_take wants them.
 */
#include "api/compliance/load.h"
#include "appliance/base/json_view.h"

#define SCRATCH_MS 1000 /* its deadline is not looked at */

struct gather_pass {
    struct op *op, *scratch;
    struct tx *tx;
    const struct load_counts *counts;
    struct gathering *gatherings;
    struct load_picked *picked; /* of each gathering */
    size_t count;
};

static size_t count_events(const struct framework *framework)
{
    size_t count = 0;
    for (size_t i = 0; i < framework->control_count; i++) {
        for (size_t j = 0; j < framework->controls[i].prerequisite_count; j++) {
            count += framework->controls[i].prerequisites[j].kind == PREREQUISITE_EVENT;
        }
    }
    return count;
}

static struct fault take(struct gather_pass *pass, size_t index, const struct evidence_event *event)
{
    arena_clear(pass->scratch->arena);
    return gather_take(pass->op, pass->scratch, &pass->gatherings[index], event);
}

/* What was picked beyond that sequence. */
static struct fault take_picked(struct gather_pass *pass, size_t index, int64_t beyond)
{
    struct load_picked *picked = &pass->picked[index];
    while (picked->next < picked->count && picked->events[picked->next].sequence > beyond) {
        TRY(take(pass, index, &picked->events[picked->next++]));
    }
    return OK;
}

static bool says(struct view record, const char *name, const char *text)
{
    struct span value = view_get(record, name).json;
    size_t len = strlen(text);
    return value.len == len + 2 && value.at[0] == '"' && memcmp(value.at + 1, text, len) == 0;
}

static bool is_plain(const struct evidence_event *event)
{
    struct view record = { event->record };
    return load_is_canonical(event->record) && says(record, "tenant_id", event->tenant.text) &&
           says(record, "type", event->type);
}

static struct fault take_judged(void *arg, const struct evidence_event *event)
{
    struct gather_pass *pass = arg;
    struct evidence_event known = *event;
    known.looked_at = is_plain(event); /* once for all who judge it */
    for (size_t i = 0; i < pass->count; i++) {
        if (load_is_judged(pass->gatherings[i].prerequisite, event->type)) {
            TRY(take_picked(pass, i, event->sequence));
            TRY(take(pass, i, &known));
        }
    }
    return OK;
}

static bool is_judged_by_any(const struct gather_pass *pass, const char *type)
{
    for (size_t i = 0; i < pass->count; i++) {
        if (load_is_judged(pass->gatherings[i].prerequisite, type)) {
            return true;
        }
    }
    return false;
}

static struct fault stream_judged(struct gather_pass *pass)
{
    CLEANUP(sql_array_free) struct sql_array types = SQL_ARRAY_INIT(SQL_ARRAY_TEXT);
    const struct load_counts *counts = pass->counts;
    struct load_range range = { .types = &types, .window = counts->window, .least = INT64_MAX };
    int64_t expected = 0;
    for (size_t i = 0; i < counts->row_count; i++) {
        const struct load_count *row = &counts->rows[i];
        if (!is_judged_by_any(pass, row->type)) {
            continue;
        }
        bool another = i == 0 || strcmp(counts->rows[i - 1].type, row->type) != 0;
        TRY(another ? sql_array_put(&types, span_text(row->type)) : OK);
        range.least = row->first < range.least ? row->first : range.least;
        range.most = row->last > range.most ? row->last : range.most;
        expected += row->count;
    }
    return expected > 0 ? load_stream(pass->tx, &range, expected, take_judged, pass) : OK;
}

static utc_us newer(utc_us a, utc_us b)
{
    return a > b ? a : b;
}

/* What is left of the picked ones, and what counting says of those that nobody looked at. */
static struct fault finish(struct gather_pass *pass, size_t index)
{
    struct gathering *gathering = &pass->gatherings[index];
    const struct load_picked *picked = &pass->picked[index];
    TRY(take_picked(pass, index, 0));
    gather_count(gathering, picked->rest);
    const struct framework_prerequisite *asked = gathering->prerequisite;
    int64_t archived = load_archived(pass->counts, asked->types, asked->type_count);
    gathering->population.total += picked->rest_stale + archived;
    gathering->population.excluded_archived = archived;
    gathering->population.excluded_stale += picked->rest_stale;
    gathering->newest = newer(gathering->newest, picked->newest);
    gathering->newest_stale = newer(gathering->newest_stale, picked->newest_stale);
    return OK;
}

static struct fault pick_all(struct gather_pass *pass, const struct framework *framework)
{
    size_t at = 0;
    for (size_t i = 0; i < framework->control_count; i++) {
        for (size_t j = 0; j < framework->controls[i].prerequisite_count; j++) {
            const struct framework_prerequisite *prerequisite = &framework->controls[i].prerequisites[j];
            if (prerequisite->kind == PREREQUISITE_EVENT) {
                gathering_init(&pass->gatherings[at], prerequisite, pass->op->tenant, pass->counts->window);
                TRY(load_pick(pass->op, pass->tx, pass->counts, prerequisite, &pass->picked[at]));
                at++;
            }
        }
    }
    return OK;
}

struct fault load_gather(struct op *op, struct tx *tx, const struct framework *framework,
                         const struct load_counts *counts, struct evidence_facts *facts)
{
    CLEANUP(op_freep) struct op *scratch = NULL;
    struct gather_pass pass = { .op = op, .tx = tx, .counts = counts, .count = count_events(framework) };
    TRY(op_new("compliance", op->tenant, SCRATCH_MS, &scratch));
    pass.scratch = scratch;
    TRY(arena_take(op->arena, pass.count + 1, sizeof(*pass.gatherings), &pass.gatherings));
    TRY(arena_take(op->arena, pass.count + 1, sizeof(*pass.picked), &pass.picked));
    TRY(pick_all(&pass, framework));
    TRY(stream_judged(&pass));
    for (size_t i = 0; i < pass.count; i++) {
        TRY(finish(&pass, i));
    }
    facts->gatherings = pass.gatherings;
    facts->gathering_count = pass.count;
    return OK;
}
