#include "api/compliance/evaluate.h"

#include "api/compliance/evaluate_internal.h"

#define DAY_US (24 * 3600 * US_PER_S)

const char *prerequisite_state_text(enum prerequisite_state state)
{
    static const char *const texts[STATE_COUNT] = {
        [STATE_MET] = "met",         [STATE_MISSING] = "missing",
        [STATE_STALE] = "stale",     [STATE_INSUFFICIENT] = "insufficient",
        [STATE_FAILED] = "failed",   [STATE_MALFORMED] = "malformed",
        [STATE_FOREIGN] = "foreign",
    };
    BUG_IF((unsigned)state >= STATE_COUNT);
    return texts[state];
}

/* An age makes the window shorter, never longer: what is signed is one window, and all evidence lies in it. */
static struct evidence_window window_of(const struct framework_prerequisite *prerequisite,
                                        struct evidence_window window)
{
    utc_us from = window.to - prerequisite->max_age_days * DAY_US;
    if (prerequisite->max_age_days > 0 && from > window.from) {
        window.from = from;
    }
    return window;
}

/* Gatherings stand in the framework's order; `next` is the first that was not used. */
static struct fault evaluate_control(struct op *op, const struct framework_control *control,
                                     const struct evidence_facts *facts, size_t *next, struct control_verdict *verdict)
{
    struct prerequisite_verdict *made = NULL;
    TRY(arena_take(op->arena, control->prerequisite_count, sizeof(*made), &made));
    verdict->control = control;
    verdict->prerequisites = made;
    verdict->evidenced = control->prerequisite_count > 0;
    for (size_t i = 0; i < control->prerequisite_count; i++) {
        const struct framework_prerequisite *prerequisite = &control->prerequisites[i];
        made[i] = (struct prerequisite_verdict){ .prerequisite = prerequisite,
                                                 .window = window_of(prerequisite, facts->window) };
        if (prerequisite->kind == PREREQUISITE_EVENT) {
            BUG_IF(*next >= facts->gathering_count || facts->gatherings[*next].prerequisite != prerequisite);
            TRY(evaluate_event(op, facts, &facts->gatherings[(*next)++], &made[i]));
        } else if (prerequisite->kind == PREREQUISITE_FACT) {
            TRY(evaluate_fact(op, facts, &made[i]));
        } else {
            TRY(evaluate_attestation(op, facts, &made[i]));
        }
        verdict->evidenced = verdict->evidenced && made[i].state == STATE_MET;
    }
    return OK;
}

static void evaluate_gap(const struct framework_gap *gap, const struct evidence_facts *facts,
                         struct gap_verdict *verdict)
{
    const struct evidence_attestation *found = gap->statement != NULL ? attestation_find(facts, gap->statement) : NULL;
    enum prerequisite_state state = attestation_state(facts, found);
    /* What is left to the operator may hold for longer than a window, if whoever attested it said for how long. */
    if (found != NULL && state == STATE_MET && found->made < facts->window.from && found->expires == 0) {
        state = STATE_STALE;
    }
    *verdict = (struct gap_verdict){ .gap = gap, .state = state, .attested = state == STATE_MET ? found : NULL };
}

struct fault framework_evaluate(struct op *op, const struct framework *framework, const struct evidence_facts *facts,
                                struct framework_verdict *ret_verdict)
{
    struct framework_verdict made = { .framework = framework };
    struct control_verdict *controls = NULL;
    struct gap_verdict *gaps = NULL;
    size_t next = 0;
    TRY(arena_take(op->arena, framework->control_count, sizeof(*controls), &controls));
    TRY(arena_take(op->arena, framework->gap_count, sizeof(*gaps), &gaps));
    for (size_t i = 0; i < framework->control_count; i++) {
        TRY(evaluate_control(op, &framework->controls[i], facts, &next, &controls[i]));
        made.evidenced += controls[i].evidenced;
    }
    BUG_IF(next != facts->gathering_count);
    for (size_t i = 0; i < framework->gap_count; i++) {
        evaluate_gap(&framework->gaps[i], facts, &gaps[i]);
    }
    made.controls = controls;
    made.gaps = gaps;
    *ret_verdict = made;
    return OK;
}
