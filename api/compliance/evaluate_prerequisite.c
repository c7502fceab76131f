#include "api/compliance/evaluate_internal.h"

#define DIGEST_HEX      (2 * (size_t)SHA256_LEN)
#define LL(number)      ((long long)(number))
#define RECORDS(number) LL(number), (number) == 1 ? "" : "s"

/* ---- events ---- */

static enum prerequisite_state state_of_event(const struct gathering *gathering)
{
    const struct framework_prerequisite *asked = gathering->prerequisite;
    const struct evidence_population *population = &gathering->population;
    if (population->matched >= asked->min && (int64_t)gathering->actor_count >= asked->distinct_actors) {
        return STATE_MET;
    }
    return population->matched > 0              ? STATE_INSUFFICIENT
           : population->excluded_stale > 0     ? STATE_STALE
           : population->excluded_malformed > 0 ? STATE_MALFORMED
           : population->excluded_foreign > 0   ? STATE_FOREIGN
                                                : STATE_MISSING;
}

static struct fault why_of_event(struct op *op, const struct gathering *gathering, enum prerequisite_state state,
                                 const char **ret_why)
{
    const struct framework_prerequisite *asked = gathering->prerequisite;
    const struct evidence_population *population = &gathering->population;
    char time[RFC3339_MAX];
    switch (state) {
    case STATE_MET:
        return arena_printf(op->arena, ret_why, "%lld matching record%s of %lld in the window; %lld asked for.",
                            RECORDS(population->matched), LL(population->total), LL(asked->min));
    case STATE_INSUFFICIENT:
        return asked->distinct_actors > 0
                   ? arena_printf(op->arena, ret_why,
                                  "%lld matching record%s by %zu distinct actor%s; asked for are %lld by %lld.",
                                  RECORDS(population->matched), gathering->actor_count,
                                  gathering->actor_count == 1 ? "" : "s", LL(asked->min), LL(asked->distinct_actors))
                   : arena_printf(op->arena, ret_why, "%lld matching record%s; asked for are %lld.",
                                  RECORDS(population->matched), LL(asked->min));
    case STATE_STALE:
        rfc3339_print(gathering->newest_stale, time);
        return arena_printf(op->arena, ret_why, "%lld matching record%s, all too old; the newest is of %s.",
                            RECORDS(population->excluded_stale), time);
    case STATE_MALFORMED:
        return arena_printf(op->arena, ret_why, "%lld record%s cannot be read for this; the newest has sequence %lld.",
                            RECORDS(population->excluded_malformed), LL(gathering->newest_malformed));
    case STATE_FOREIGN:
        return arena_printf(op->arena, ret_why, "%lld record%s found, of another tenant; none of this one.",
                            RECORDS(population->excluded_foreign));
    case STATE_MISSING:
        if (population->excluded_condition == 0) {
            *ret_why = population->excluded_archived == 0
                           ? "No record of these types lies in the window."
                           : "All records of these types in the window are archived, and so not looked at.";
            return OK;
        }
        return arena_printf(op->arena, ret_why,
                            "%lld record%s of these types in the window, and none meets what is asked.",
                            RECORDS(population->excluded_condition));
    case STATE_FAILED:
    case STATE_COUNT:
        break;
    }
    BUG_IF(true);
}

struct fault evaluate_event(struct op *op, const struct evidence_facts *facts, const struct gathering *gathering,
                            struct prerequisite_verdict *verdict)
{
    /* Somebody gathered for another tenant: nothing of it counts. */
    bool foreign = !tenant_id_equal(gathering->tenant, facts->tenant);
    verdict->state = foreign ? STATE_FOREIGN : state_of_event(gathering);
    verdict->population = gathering->population;
    if (!foreign) {
        verdict->references = gathering->references;
        verdict->reference_count = gathering->reference_count;
    }
    return why_of_event(op, gathering, verdict->state, &verdict->why);
}

/* ---- facts ---- */

static const struct evidence_fact *find_fact(const struct evidence_facts *facts, const char *name)
{
    const struct evidence_fact *found = NULL;
    for (size_t i = 0; i < facts->fact_count; i++) {
        const struct evidence_fact *fact = &facts->facts[i];
        if (strcmp(fact->name, name) == 0 && (found == NULL || !tenant_id_equal(found->tenant, facts->tenant))) {
            found = fact;
        }
    }
    return found;
}

static bool fact_is_whole(const struct evidence_facts *facts, const struct evidence_fact *fact)
{
    bool says = fact->object != NULL && fact->object[0] != '\0' && fact->why != NULL && fact->why[0] != '\0';
    return says && fact->state <= FACT_MALFORMED && fact->matched >= 0 && fact->total >= fact->matched &&
           fact->snapshot <= facts->window.to;
}

static enum prerequisite_state state_of_fact(const struct evidence_facts *facts, const struct evidence_fact *fact,
                                             struct evidence_window window)
{
    if (fact == NULL || (fact->state == FACT_ABSENT && tenant_id_equal(fact->tenant, facts->tenant))) {
        return STATE_MISSING;
    }
    if (!tenant_id_equal(fact->tenant, facts->tenant)) {
        return STATE_FOREIGN;
    }
    if (fact->state == FACT_MALFORMED || !fact_is_whole(facts, fact)) {
        return STATE_MALFORMED;
    }
    if (fact->snapshot < window.from) {
        return STATE_STALE;
    }
    return fact->state == FACT_HOLDS ? STATE_MET : STATE_FAILED;
}

static struct fault why_of_fact(struct op *op, const struct evidence_fact *fact, enum prerequisite_state state,
                                const char **ret_why)
{
    char time[RFC3339_MAX];
    switch (state) {
    case STATE_MET:
    case STATE_FAILED:
        *ret_why = fact->why;
        return OK;
    case STATE_STALE:
        rfc3339_print(fact->snapshot, time);
        return arena_printf(op->arena, ret_why, "The snapshot is of %s, which is too old.", time);
    case STATE_FOREIGN:
        *ret_why = "What was found is of another tenant.";
        return OK;
    case STATE_MALFORMED:
        *ret_why = fact->state == FACT_MALFORMED && fact->why != NULL ? fact->why : "What was found cannot be read.";
        return OK;
    case STATE_MISSING:
        *ret_why = fact != NULL && fact->why != NULL ? fact->why : "Nothing is recorded about this.";
        return OK;
    case STATE_INSUFFICIENT:
    case STATE_COUNT:
        break;
    }
    BUG_IF(true);
}

/* An object that says nothing for sure is no evidence; one that fails is named, so that it can be looked at. */
static struct fault refer_fact(struct op *op, const struct evidence_fact *fact, struct prerequisite_verdict *verdict)
{
    struct evidence_reference *reference = NULL;
    if (verdict->state != STATE_MET && verdict->state != STATE_FAILED && verdict->state != STATE_STALE) {
        return OK;
    }
    TRY(arena_take(op->arena, 1, sizeof(*reference), &reference));
    *reference = (struct evidence_reference){ .is_object = true, .object = fact->object, .time = fact->snapshot };
    verdict->population.total = fact->total;
    verdict->population.matched = fact->matched;
    verdict->population.excluded_condition = fact->total - fact->matched;
    verdict->references = reference;
    verdict->reference_count = 1;
    return OK;
}

struct fault evaluate_fact(struct op *op, const struct evidence_facts *facts, struct prerequisite_verdict *verdict)
{
    const struct evidence_fact *fact = find_fact(facts, verdict->prerequisite->fact);
    verdict->state = state_of_fact(facts, fact, verdict->window);
    TRY(refer_fact(op, fact, verdict));
    return why_of_fact(op, fact, verdict->state, &verdict->why);
}

/* ---- attestations ---- */

const struct evidence_attestation *attestation_find(const struct evidence_facts *facts, const char *statement)
{
    const struct evidence_attestation *found = NULL;
    for (size_t i = 0; i < facts->attestation_count; i++) {
        const struct evidence_attestation *one = &facts->attestations[i];
        bool own = tenant_id_equal(one->tenant, facts->tenant);
        bool found_own = found != NULL && tenant_id_equal(found->tenant, facts->tenant);
        bool newer = found == NULL || (own && !found_own) || (own == found_own && one->made > found->made);
        found = strcmp(one->statement, statement) == 0 && newer ? one : found;
    }
    return found;
}

static bool attestation_is_whole(const struct evidence_facts *facts, const struct evidence_attestation *attestation)
{
    const char *digest = attestation->evidence_sha256;
    bool exact = digest != NULL && strlen(digest) == DIGEST_HEX && strspn(digest, "0123456789abcdef") == DIGEST_HEX;
    bool named = attestation->event.event_id != NULL && attestation->event.sequence > 0;
    return !attestation->malformed && exact && named && attestation->made <= facts->window.to;
}

enum prerequisite_state attestation_state(const struct evidence_facts *facts,
                                          const struct evidence_attestation *attestation)
{
    if (attestation == NULL) {
        return STATE_MISSING;
    }
    if (!tenant_id_equal(attestation->tenant, facts->tenant)) {
        return STATE_FOREIGN;
    }
    if (!attestation_is_whole(facts, attestation)) {
        return STATE_MALFORMED;
    }
    return attestation->expires != 0 && attestation->expires <= facts->window.to ? STATE_STALE : STATE_MET;
}

static struct fault why_of_attestation(struct op *op, const struct evidence_attestation *attestation,
                                       const struct prerequisite_verdict *verdict, const char **ret_why)
{
    const char *statement = verdict->prerequisite->statement;
    char made[RFC3339_MAX], expires[RFC3339_MAX];
    switch (verdict->state) {
    case STATE_MET:
    case STATE_STALE:
        rfc3339_print(attestation->made, made);
        rfc3339_print(attestation->expires, expires);
        return arena_printf(op->arena, ret_why, "Statement %s was attested at %s%s%s%s.", statement, made,
                            attestation->expires != 0 ? " until " : "", attestation->expires != 0 ? expires : "",
                            verdict->state == STATE_MET ? "" : ": it has ended, or is from before the window");
    case STATE_MISSING:
        return arena_printf(op->arena, ret_why, "Nobody has attested statement %s.", statement);
    case STATE_MALFORMED:
        return arena_printf(op->arena, ret_why, "The attestation of statement %s cannot be read.", statement);
    case STATE_FOREIGN:
        return arena_printf(op->arena, ret_why, "Statement %s was attested in another tenant only.", statement);
    case STATE_INSUFFICIENT:
    case STATE_FAILED:
    case STATE_COUNT:
        break;
    }
    BUG_IF(true);
}

struct fault evaluate_attestation(struct op *op, const struct evidence_facts *facts,
                                  struct prerequisite_verdict *verdict)
{
    const struct evidence_attestation *found = attestation_find(facts, verdict->prerequisite->statement);
    struct evidence_reference *reference = NULL;
    verdict->state = attestation_state(facts, found);
    if (verdict->state == STATE_MET && found->made < verdict->window.from) {
        verdict->state = STATE_STALE;
    }
    verdict->population.total = found != NULL;
    verdict->population.matched = verdict->state == STATE_MET;
    verdict->population.excluded_stale = verdict->state == STATE_STALE;
    verdict->population.excluded_malformed = verdict->state == STATE_MALFORMED;
    verdict->population.excluded_foreign = verdict->state == STATE_FOREIGN;
    if (verdict->state == STATE_MET || verdict->state == STATE_STALE) {
        TRY(arena_take(op->arena, 1, sizeof(*reference), &reference));
        *reference = found->event;
        reference->evidence_sha256 = found->evidence_sha256;
        verdict->references = reference;
        verdict->reference_count = 1;
    }
    return why_of_attestation(op, found, verdict, &verdict->why);
}
