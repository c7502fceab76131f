/* Records of the audit trail into what one prerequisite wants to know of them. */
#include "api/compliance/evaluate.h"
#include "appliance/base/json_view.h"

#define DAY_US (24 * 3600 * US_PER_S)

enum judged { JUDGED_MATCH, JUDGED_OTHER, JUDGED_MALFORMED, JUDGED_FOREIGN };

void gathering_init(struct gathering *gathering, const struct framework_prerequisite *prerequisite,
                    struct tenant_id tenant, struct evidence_window window)
{
    BUG_IF(prerequisite->kind != PREREQUISITE_EVENT);
    *gathering = (struct gathering){
        .prerequisite = prerequisite, .tenant = tenant, .window = window, .newest = INT64_MIN, .newest_stale = INT64_MIN
    };
}

void gather_count(struct gathering *gathering, int64_t count)
{
    BUG_IF(count < 0);
    gathering->population.total += count;
    gathering->population.matched += count;
}

/* ---- one record ---- */

/* Text, a number, true or false: anything else has no single value. NULL: there is none. */
static const char *single_value(struct op *scratch, struct view record, const char *path)
{
    struct view member = view_get(record, path);
    if (!view_is_there(member) || member.json.at[0] == '{' || member.json.at[0] == '[') {
        return NULL;
    }
    return view_text(scratch, member);
}

static bool is_one_of(const char *const *texts, size_t count, const char *text)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(texts[i], text) == 0) {
            return true;
        }
    }
    return false;
}

/* A value of a condition that ends in * stands for all that begin so. */
static bool is_asked(const char *const *values, size_t count, const char *text)
{
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(values[i]);
        bool open = len > 1 && values[i][len - 1] == '*';
        if (open ? strncmp(values[i], text, len - 1) == 0 : strcmp(values[i], text) == 0) {
            return true;
        }
    }
    return false;
}

static enum judged judge_condition(struct op *scratch, const struct framework_condition *condition, struct view record)
{
    const char *value = single_value(scratch, record, condition->path);
    bool holds = false;
    if (condition->present) {
        return value != NULL ? JUDGED_MATCH : JUDGED_OTHER;
    }
    if (value == NULL) {
        return JUDGED_MALFORMED;
    }
    if (condition->differs_from != NULL) {
        const char *other = single_value(scratch, record, condition->differs_from);
        if (other == NULL) {
            return JUDGED_MALFORMED;
        }
        holds = strcmp(value, other) != 0;
    } else if (condition->except_count > 0) {
        holds = !is_asked(condition->except, condition->except_count, value);
    } else {
        holds = is_asked(condition->values, condition->value_count, value);
    }
    return holds ? JUDGED_MATCH : JUDGED_OTHER;
}

/* A record says itself whose it is and what: it has to say the same as the row that it came with. */
static enum judged judge_record(struct op *scratch, const struct evidence_event *event, struct view record)
{
    const char *tenant = single_value(scratch, record, "tenant_id"), *type = single_value(scratch, record, "type");
    if (tenant == NULL || type == NULL || strcmp(type, event->type) != 0) {
        return JUDGED_MALFORMED;
    }
    return strcmp(tenant, event->tenant.text) == 0 ? JUDGED_MATCH : JUDGED_FOREIGN;
}

static struct fault judge_conditions(struct op *scratch, const struct framework_prerequisite *prerequisite,
                                     const struct evidence_event *event, enum judged *ret_judged)
{
    struct view record = { 0 };
    enum judged judged = JUDGED_MATCH;
    bool parsed = false;
    for (size_t i = 0; i < prerequisite->where_count && judged == JUDGED_MATCH; i++) {
        const struct framework_condition *condition = &prerequisite->where[i];
        if (condition->of != NULL && strcmp(condition->of, event->type) != 0) {
            continue;
        }
        if (!parsed) {
            record.json = event->record;
            struct fault fault = event->looked_at ? OK : view_of(scratch, event->record, &record);
            if (fault.code == FAULT_JSON_SYNTAX) {
                *ret_judged = JUDGED_MALFORMED;
                return OK;
            }
            TRY(fault);
            parsed = true;
            judged = event->looked_at ? JUDGED_MATCH : judge_record(scratch, event, record);
        }
        judged = judged == JUDGED_MATCH ? judge_condition(scratch, condition, record) : judged;
    }
    *ret_judged = judged;
    return OK;
}

static struct fault judge(struct op *scratch, const struct gathering *gathering, const struct evidence_event *event,
                          enum judged *ret_judged)
{
    if (!tenant_id_equal(event->tenant, gathering->tenant)) {
        *ret_judged = JUDGED_FOREIGN;
        return OK;
    }
    if (event->sequence < 1 || event->event_id == NULL || event->event_id[0] == '\0' || event->actor == NULL) {
        *ret_judged = JUDGED_MALFORMED; /* nothing that a reference could name */
        return OK;
    }
    return judge_conditions(scratch, gathering->prerequisite, event, ret_judged);
}

/* ---- what is kept of a match ---- */

static struct fault keep_actor(struct op *op, struct gathering *gathering, const char *actor, bool *ret_new)
{
    size_t wanted = (size_t)gathering->prerequisite->distinct_actors;
    *ret_new = false;
    if (gathering->actor_count >= wanted || is_one_of(gathering->actors, gathering->actor_count, actor)) {
        return OK;
    }
    if (gathering->actors == NULL) {
        TRY(arena_take(op->arena, wanted, sizeof(*gathering->actors), &gathering->actors));
    }
    TRY(arena_text(op->arena, span_text(actor), &gathering->actors[gathering->actor_count]));
    gathering->actor_count++;
    *ret_new = true;
    return OK;
}

static struct fault keep_reference(struct op *op, struct gathering *gathering, const struct evidence_event *event)
{
    struct evidence_reference made = { .sequence = event->sequence, .time = event->time, .chain = event->chain };
    TRY(arena_text(op->arena, span_text(event->event_id), &made.event_id));
    TRY(arena_text(op->arena, span_text(event->type), &made.type));
    gathering->references[gathering->reference_count++] = made;
    return OK;
}

/* The newest ones, with room left for the actors that are still to come. */
static struct fault keep(struct op *op, struct gathering *gathering, const struct evidence_event *event)
{
    bool is_new = false;
    TRY(keep_actor(op, gathering, event->actor, &is_new));
    size_t reserved = (size_t)gathering->prerequisite->distinct_actors - gathering->actor_count;
    bool room = gathering->reference_count + reserved < EVIDENCE_REFERENCES_MAX;
    if (gathering->reference_count < EVIDENCE_REFERENCES_MAX && (is_new || room)) {
        TRY(keep_reference(op, gathering, event));
    }
    return OK;
}

static bool is_stale(const struct gathering *gathering, utc_us time)
{
    int64_t days = gathering->prerequisite->max_age_days;
    return time < gathering->window.from || (days > 0 && time < gathering->window.to - days * DAY_US);
}

static utc_us newer(utc_us a, utc_us b)
{
    return a > b ? a : b;
}

struct fault gather_take(struct op *op, struct op *scratch, struct gathering *gathering,
                         const struct evidence_event *event)
{
    struct evidence_population *population = &gathering->population;
    enum judged judged = JUDGED_OTHER;
    if (event->time > gathering->window.to) {
        return OK; /* not of this window: it will be of a later one */
    }
    TRY(judge(scratch, gathering, event, &judged));
    bool stale = judged == JUDGED_MATCH && is_stale(gathering, event->time);
    if (judged == JUDGED_MATCH && !stale) {
        TRY(keep(op, gathering, event));
        gathering->newest = newer(gathering->newest, event->time);
        population->matched++;
    }
    if (stale) {
        gathering->newest_stale = newer(gathering->newest_stale, event->time);
        population->excluded_stale++;
    }
    if (judged == JUDGED_MALFORMED) {
        gathering->newest_malformed =
            gathering->newest_malformed > event->sequence ? gathering->newest_malformed : event->sequence;
        population->excluded_malformed++;
    }
    population->excluded_foreign += judged == JUDGED_FOREIGN;
    population->excluded_condition += judged == JUDGED_OTHER;
    population->total++;
    return OK;
}
