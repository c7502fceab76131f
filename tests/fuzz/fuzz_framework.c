/* rooms: compliance inventory server base */
/* A framework file of anybody. What is refused is told with its file; what is accepted is whole: names within bounds
 * and unique, every prerequisite of one kind with what that kind needs, and it can be evaluated on no facts at all. */
#include "api/compliance/evaluate.h"
#include "api/inventory/fact.h"

static bool is_text(const char *text, size_t max)
{
    return text != NULL && text[0] != '\0' && strlen(text) <= max;
}

static void check_condition(const struct framework_prerequisite *asked, const struct framework_condition *condition)
{
    unsigned ways = (condition->value_count > 0) + (condition->except_count > 0) + condition->present +
                    (condition->differs_from != NULL);
    bool of = condition->of == NULL;
    for (size_t i = 0; i < asked->type_count; i++) {
        of = of || strcmp(condition->of, asked->types[i]) == 0;
    }
    BUG_IF(ways != 1 || !of || !is_text(condition->path, 63));
}

static void check_prerequisite(const struct framework_prerequisite *asked)
{
    BUG_IF(!is_text(asked->name, 63) || !is_text(asked->title, 200) || !is_text(asked->recovery, 400));
    BUG_IF((asked->kind == PREREQUISITE_FACT) != (asked->fact != NULL));
    BUG_IF((asked->kind == PREREQUISITE_EVENT) != (asked->type_count > 0));
    BUG_IF((asked->kind == PREREQUISITE_ATTESTATION) != (asked->statement != NULL));
    BUG_IF(asked->fact != NULL && !inventory_fact_known(asked->fact));
    BUG_IF(asked->type_count > FRAMEWORK_TYPES_MAX || asked->where_count > FRAMEWORK_WHERE_MAX);
    BUG_IF(asked->distinct_actors > EVIDENCE_REFERENCES_MAX || asked->max_age_days < 0);
    BUG_IF(asked->kind == PREREQUISITE_EVENT && asked->min < 1);
    for (size_t i = 0; i < asked->where_count; i++) {
        check_condition(asked, &asked->where[i]);
    }
}

static void check_control(const struct framework_control *control)
{
    BUG_IF(!is_text(control->id, 64) || !is_text(control->title, 200));
    BUG_IF(control->prerequisite_count == 0 || control->prerequisite_count > FRAMEWORK_PREREQ_MAX);
    for (size_t i = 0; i < control->prerequisite_count; i++) {
        check_prerequisite(&control->prerequisites[i]);
        for (size_t j = 0; j < i; j++) {
            BUG_IF(strcmp(control->prerequisites[i].name, control->prerequisites[j].name) == 0);
        }
    }
}

/* Nothing is known: nothing is evidenced, and every gap is open. */
static void evaluate(struct op *op, const struct framework *framework)
{
    static struct gathering gatherings[FRAMEWORK_CONTROLS_MAX * FRAMEWORK_PREREQ_MAX];
    struct evidence_facts facts = { .tenant = op->tenant, .window = { 0, 90 }, .gatherings = gatherings };
    struct framework_verdict verdict;
    for (size_t i = 0; i < framework->control_count; i++) {
        const struct framework_control *control = &framework->controls[i];
        for (size_t j = 0; j < control->prerequisite_count; j++) {
            if (control->prerequisites[j].kind == PREREQUISITE_EVENT) {
                gathering_init(&gatherings[facts.gathering_count++], &control->prerequisites[j], op->tenant,
                               facts.window);
            }
        }
    }
    if (FAULTED(framework_evaluate(op, framework, &facts, &verdict))) {
        return; /* the arena's bound */
    }
    BUG_IF(verdict.evidenced != 0);
    for (size_t i = 0; i < framework->gap_count; i++) {
        BUG_IF(verdict.gaps[i].attested != NULL || verdict.gaps[i].state != STATE_MISSING);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(op_freep) struct op *op = NULL;
    const struct framework *framework = NULL;
    if (FAULTED(op_new("fuzz", (struct tenant_id){ "default" }, 60000, &op))) {
        return 0;
    }
    if (FAULTED(framework_parse(op, "soc2", span_of(data, size), &framework))) {
        BUG_IF(framework != NULL);
        BUG_IF(op->note.set && strncmp(op->note.detail, "soc2.yaml:", 10) != 0);
        return 0;
    }
    BUG_IF(strcmp(framework->id, "soc2") != 0 || framework->control_count == 0 || framework->gap_count == 0);
    BUG_IF(framework->control_count > FRAMEWORK_CONTROLS_MAX || !is_text(framework->catalogue, 200));
    for (size_t i = 0; i < framework->control_count; i++) {
        check_control(&framework->controls[i]);
    }
    evaluate(op, framework);
    return 0;
}
