/* What observations of AD CS say for evidence: two facts. Findings are made anew from the events each time. */
#include "api/inventory/adcs.h"

struct survey {
    const struct config *config;
    utc_us now;
    int64_t domains, fresh, clean, findings, broken;
};

static struct fault survey_domain(void *arg, struct op *op, const struct adcs_row *row)
{
    struct survey *survey = arg;
    struct adcs_observation observation;
    struct adcs_findings findings;
    int64_t max_age = survey->config->adcs_max_age / 1000; /* nanoseconds to microseconds */
    survey->domains++;
    survey->fresh += row->observed >= survey->now - max_age && row->observed <= survey->now;
    struct fault fault = adcs_read_stored(op, row->data, &observation);
    if (adcs_unreadable(fault)) {
        op->note = (struct fault_note){ 0 };
        survey->broken++;
        return OK;
    }
    TRY(fault);
    TRY(adcs_find(op, &observation, &survey->config->adcs_administrators, &findings));
    survey->findings += (int64_t)findings.count;
    survey->clean += findings.count == 0;
    return OK;
}

static enum inventory_fact_state state_of(const struct survey *survey, bool holds)
{
    return survey->broken > 0 ? INVENTORY_MALFORMED : holds ? INVENTORY_HOLDS : INVENTORY_FAILS;
}

struct fault inventory_adcs_facts(struct op *op, struct services *services, struct tx *tx, utc_us now,
                                  struct inventory_statement *statements)
{
    struct survey survey = { .config = services->config, .now = now };
    struct inventory_statement *observed = &statements[INVENTORY_FACT_ADCS_OBSERVED];
    struct inventory_statement *clean = &statements[INVENTORY_FACT_ADCS_CLEAN];
    struct jin_texts without = { 0 };
    const char *object = NULL;
    TRY(arena_printf(op->arena, &object, "adcs-observations:%s", op->tenant.text));
    TRY(adcs_unobserved(op, tx, &without));
    TRY(adcs_latest_each(op, tx, survey_domain, &survey));
    int64_t total = survey.domains + (int64_t)without.count;
    *observed = (struct inventory_statement){ .object = object, .total = total, .matched = survey.fresh };
    *clean = (struct inventory_statement){ .object = object, .total = total, .matched = survey.clean };
    if (total == 0) {
        observed->state = INVENTORY_ABSENT;
        clean->state = INVENTORY_ABSENT;
        observed->why = "No AD CS domain has ever been observed.";
        clean->why = observed->why;
        return OK;
    }
    observed->state = state_of(&survey, survey.fresh == total);
    clean->state = state_of(&survey, survey.clean == total);
    TRY(arena_printf(op->arena, &observed->why,
                     "%lld of %lld AD CS domains have a complete v2 observation that is not older than %lld hours"
                     " (nor later than now).",
                     (long long)survey.fresh, (long long)total,
                     (long long)(services->config->adcs_max_age / (3600 * NS_PER_S))));
    return arena_printf(op->arena, &clean->why,
                        "The latest complete observations of %lld of %lld AD CS domains are without findings;"
                        " there are %lld findings and %lld unreadable observations.",
                        (long long)survey.clean, (long long)total, (long long)survey.findings,
                        (long long)survey.broken);
}
