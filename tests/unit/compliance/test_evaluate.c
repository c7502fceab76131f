/* Every framework of the service: complete facts evidence all its controls, and each prerequisite that is not as it
 * must be is named, by itself, where it is asked for and nowhere else. */
#include "unit/compliance/world.h"

static struct op *files_op;
static struct frameworks *files;

static int load_files(void **state)
{
    (void)state;
    if (FAULTED(op_new("test", world_tenant, 60000, &files_op))) {
        return -1;
    }
    struct fault fault = frameworks_load(files_op, "policies/frameworks", &files);
    if (FAULTED(fault)) {
        (void)fprintf(stderr, "%s\n", files_op->note.detail);
    }
    return FAULTED(fault) ? -1 : 0;
}

static int free_files(void **state)
{
    (void)state;
    frameworks_free(TAKE(files));
    op_free(TAKE(files_op));
    return 0;
}

static const struct framework *parsed(struct op *op, const char *yaml)
{
    const struct framework *framework = NULL;
    struct fault fault = framework_parse(op, "soc2", span_text(yaml), &framework);
    if (FAULTED(fault)) {
        fail_msg("%s", op->note.detail);
    }
    return framework;
}

static bool asks_the_same(const struct framework_prerequisite *a, const struct framework_prerequisite *b)
{
    if (a->kind != b->kind || a->kind == PREREQUISITE_EVENT) {
        return a == b;
    }
    return a->kind == PREREQUISITE_FACT ? strcmp(a->fact, b->fact) == 0 : strcmp(a->statement, b->statement) == 0;
}

struct spoiling {
    enum spoilt spoilt;
    enum prerequisite_state want;
};

/* All that `victim` is not is met; what asks the same as it is in the state that is expected. */
static void assert_only(const struct framework *framework, const struct framework_prerequisite *victim, size_t type,
                        struct spoiling spoiling)
{
    struct world world;
    struct framework_verdict verdict;
    size_t evidenced = 0;
    enum spoilt spoilt = spoiling.spoilt;
    enum prerequisite_state want = spoiling.want;
    world_make(&world, framework, victim, spoilt, type);
    assert_fault(framework_evaluate(world.op, framework, &world.all, &verdict), NONE);
    for (size_t i = 0; i < framework->control_count; i++) {
        const struct control_verdict *control = &verdict.controls[i];
        bool all = true;
        assert_ptr_equal(control->control, &framework->controls[i]);
        for (size_t j = 0; j < framework->controls[i].prerequisite_count; j++) {
            const struct prerequisite_verdict *one = &control->prerequisites[j];
            bool hit = victim != NULL && asks_the_same(one->prerequisite, victim);
            enum prerequisite_state due = hit ? want : STATE_MET;
            if (one->state != due) {
                fail_msg("%s, %s, %s, spoilt %d: %s and not %s (%s)", framework->id, control->control->id,
                         one->prerequisite->name, (int)spoilt, prerequisite_state_text(one->state),
                         prerequisite_state_text(due), one->why);
            }
            assert_true(one->why != NULL && one->why[0] != '\0' && one->why[strlen(one->why) - 1] == '.');
            assert_true(one->state != STATE_MET || one->reference_count > 0);
            all = all && one->state == STATE_MET;
        }
        assert_int_equal(control->evidenced, all);
        evidenced += all;
    }
    assert_int_equal(verdict.evidenced, evidenced);
    world_clear(&world);
}

static const struct spoiling of_events[] = {
    { SPOILT_REMOVED, STATE_MISSING }, { SPOILT_STALE, STATE_STALE },    { SPOILT_UNNAMED, STATE_MALFORMED },
    { SPOILT_FOREIGN, STATE_FOREIGN }, { SPOILT_FUTURE, STATE_MISSING },
};
static const struct spoiling of_conditions[] = {
    { SPOILT_MALFORMED, STATE_MALFORMED },
    { SPOILT_FOREIGN_RECORD, STATE_FOREIGN },
    { SPOILT_FAILS, STATE_MISSING },
};
static const struct spoiling of_facts[] = {
    { SPOILT_REMOVED, STATE_MISSING },   { SPOILT_STALE, STATE_STALE },     { SPOILT_MALFORMED, STATE_MALFORMED },
    { SPOILT_UNNAMED, STATE_MALFORMED }, { SPOILT_FOREIGN, STATE_FOREIGN }, { SPOILT_FAILS, STATE_FAILED },
    { SPOILT_FUTURE, STATE_MALFORMED },
};
static const struct spoiling of_attestations[] = {
    { SPOILT_REMOVED, STATE_MISSING },  { SPOILT_STALE, STATE_STALE },         { SPOILT_EXPIRED, STATE_STALE },
    { SPOILT_FOREIGN, STATE_FOREIGN },  { SPOILT_MALFORMED, STATE_MALFORMED }, { SPOILT_UNNAMED, STATE_MALFORMED },
    { SPOILT_FUTURE, STATE_MALFORMED },
};

static void assert_each(const struct framework *framework, const struct framework_prerequisite *victim, size_t type,
                        const struct spoiling *spoilings, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        assert_only(framework, victim, type, spoilings[i]);
    }
}

static void spoil_event(const struct framework *framework, const struct framework_prerequisite *victim)
{
    for (size_t type = 0; type < victim->type_count; type++) {
        assert_each(framework, victim, type, of_events, COUNT_OF(of_events));
        if (condition_on(victim, victim->types[type]) != NULL) {
            assert_each(framework, victim, type, of_conditions, COUNT_OF(of_conditions));
        }
    }
    if (victim->min > 1 || victim->distinct_actors > 1) {
        assert_only(framework, victim, 0, (struct spoiling){ SPOILT_FEW, STATE_INSUFFICIENT });
    }
    if (victim->distinct_actors > 1) {
        assert_only(framework, victim, 0, (struct spoiling){ SPOILT_ONE_ACTOR, STATE_INSUFFICIENT });
    }
}

static void spoil_each(const struct framework *framework)
{
    assert_only(framework, NULL, 0, (struct spoiling){ SPOILT_NOTHING, STATE_MET });
    for (size_t i = 0; i < framework->control_count; i++) {
        for (size_t j = 0; j < framework->controls[i].prerequisite_count; j++) {
            const struct framework_prerequisite *victim = &framework->controls[i].prerequisites[j];
            if (victim->kind == PREREQUISITE_FACT) {
                assert_each(framework, victim, 0, of_facts, COUNT_OF(of_facts));
            } else if (victim->kind == PREREQUISITE_ATTESTATION) {
                assert_each(framework, victim, 0, of_attestations, COUNT_OF(of_attestations));
            } else {
                spoil_event(framework, victim);
            }
        }
    }
}

static void each_framework_names_exactly_what_is_missing(void **state)
{
    (void)state;
    for (size_t i = 0; i < FRAMEWORKS; i++) {
        spoil_each(frameworks_get(files, framework_id(i)));
    }
}

#define HEAD "id: soc2\ncatalogue: { name: n, version: v }\ncontrols:\n"
#define TAIL                                                                        \
    "gaps:\n  - { id: a-gap, title: t, owner: operator, statement: a-statement }\n" \
    "  - { id: b-gap, title: t, owner: auditor }\n"
#define EVERYTHING                                                                                                     \
    HEAD                                                                                                               \
        "  - id: C1\n    title: t\n    prerequisites:\n"                                                               \
        "      - { name: many, title: t, recovery: r, kind: event, types: [key.generated, key.retired], min: 3,\n"     \
        "          distinct_actors: 2, max_age_days: 30, where: [ { of: key.retired, path: data.code, is: [x, y] },\n" \
        "          { path: data.who, is_not: [z] }, { path: data.who, differs_from: data.whom } ] }\n"                 \
        "      - { name: young, title: t, recovery: r, kind: fact, fact: log.trusted, max_age_days: 1 }\n"             \
        "  - id: C2\n    title: t\n    prerequisites:\n"                                                               \
        "      - { name: again, title: t, recovery: r, kind: fact, fact: log.trusted, max_age_days: 1 }\n"             \
        "      - { name: said, title: t, recovery: r, kind: attestation, statement: said }\n"                          \
        "      - { name: said-lately, title: t, recovery: r, kind: attestation, statement: lately,\n"                  \
        "          max_age_days: 30 }\n" TAIL

static void every_way_to_ask_names_exactly_what_is_missing(void **state)
{
    (void)state;
    spoil_each(parsed(files_op, EVERYTHING));
}

static void a_control_is_no_other_control(void **state)
{
    (void)state;
    const struct framework *framework = parsed(files_op, EVERYTHING);
    struct framework_verdict verdict;
    struct world world;
    world_make(&world, framework, &framework->controls[0].prerequisites[0], SPOILT_FEW, 0);
    assert_fault(framework_evaluate(world.op, framework, &world.all, &verdict), NONE);
    assert_false(verdict.controls[0].evidenced);
    assert_true(verdict.controls[1].evidenced);
    assert_int_equal(verdict.evidenced, 1);
    world_clear(&world);
}

/* ---- populations and references ---- */

static void take(struct world *world, struct gathering *gathering, const struct evidence_event *event)
{
    arena_clear(world->scratch->arena);
    assert_fault(gather_take(world->op, world->scratch, gathering, event), NONE);
}

static void total_is_matched_and_excluded_and_nothing_else(void **state)
{
    (void)state;
    const struct framework *framework = parsed(files_op, EVERYTHING);
    const struct framework_prerequisite *asked = &framework->controls[0].prerequisites[0];
    struct gathering gathering;
    struct world world;
    world_make(&world, framework, NULL, SPOILT_NOTHING, 0);
    gathering_init(&gathering, asked, world_tenant, world_window);
    struct evidence_event event = { .tenant = world_tenant,
                                    .event_id = "id",
                                    .type = "key.generated",
                                    .actor = "ann",
                                    .sequence = 100,
                                    .time = WORLD_NOW };
    static const struct {
        const char *record;
        int64_t age_days;
        bool foreign;
    } rows[] = {
        { "{\"data\":{\"who\":\"a\",\"whom\":\"b\"},\"tenant_id\":\"default\",\"type\":\"key.generated\"}", 0, false },
        { "{\"data\":{\"who\":\"a\",\"whom\":7},\"tenant_id\":\"default\",\"type\":\"key.generated\"}", 30, false },
        { "{\"data\":{\"who\":\"a\",\"whom\":\"b\"},\"tenant_id\":\"default\",\"type\":\"key.generated\"}", 31, false },
        { "{\"data\":{\"who\":\"z\",\"whom\":\"b\"},\"tenant_id\":\"default\",\"type\":\"key.generated\"}", 0, false },
        { "{\"data\":{\"who\":\"b\",\"whom\":\"b\"},\"tenant_id\":\"default\",\"type\":\"key.generated\"}", 0, false },
        { "{\"data\":{\"who\":\"a\",\"whom\":null},\"tenant_id\":\"default\",\"type\":\"key.generated\"}", 0, false },
        { "{\"data\":{\"who\":[\"a\"],\"whom\":\"b\"},\"tenant_id\":\"default\",\"type\":\"key.generated\"}", 0,
          false },
        { "{\"data\":{\"whom\":\"b\"},\"tenant_id\":\"default\",\"type\":\"key.generated\"}", 0, false },
        { "{\"data\":{\"who\":\"a\",\"whom\":\"b\"},\"tenant_id\":\"default\",\"type\":\"key.retired\"}", 0, false },
        { "{\"data\":{\"who\":\"a\",\"whom\":\"b\"},\"tenant_id\":\"other\",\"type\":\"key.generated\"}", 0, false },
        { "nothing of JSON", 0, false },
        { "nothing of JSON", 0, true },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        event.record = span_text(rows[i].record);
        event.time = WORLD_NOW - rows[i].age_days * DAY_US;
        event.tenant = rows[i].foreign ? world_stranger : world_tenant;
        event.sequence--;
        take(&world, &gathering, &event);
    }
    gather_count(&gathering, 1000);
    const struct evidence_population *population = &gathering.population;
    assert_int_equal(population->total, 1000 + COUNT_OF(rows));
    assert_int_equal(population->matched, 1002);
    assert_int_equal(population->excluded_stale, 1);
    assert_int_equal(population->excluded_condition, 2);
    assert_int_equal(population->excluded_malformed, 5);
    assert_int_equal(population->excluded_foreign, 2);
    assert_int_equal(gathering.newest, WORLD_NOW);
    assert_int_equal(gathering.newest_stale, WORLD_NOW - 31 * DAY_US);
    assert_int_equal(gathering.newest_malformed, 94);
    assert_int_equal(gathering.reference_count, 2);
    world_clear(&world);
}

static void references_are_the_newest_and_those_that_make_up_the_actors(void **state)
{
    (void)state;
    const struct framework *framework = parsed(
        files_op, HEAD "  - id: C1\n    title: t\n    prerequisites:\n      - { name: many, title: t, recovery: r,"
                       " kind: event, types: [key.generated], distinct_actors: 3 }\n" TAIL);
    struct gathering gathering;
    struct framework_verdict verdict;
    struct world world;
    world_make(&world, framework, NULL, SPOILT_NOTHING, 0);
    gathering_init(&gathering, &framework->controls[0].prerequisites[0], world_tenant, world_window);
    for (int64_t sequence = 1000; sequence > 0; sequence--) {
        const struct evidence_event event = { .tenant = world_tenant,
                                              .event_id = "id",
                                              .type = "key.generated",
                                              .actor = sequence == 500 ? "ben"
                                                       : sequence == 2 ? "cyd"
                                                                       : "ann",
                                              .sequence = sequence,
                                              .time = WORLD_NOW - (1000 - sequence) };
        take(&world, &gathering, &event);
    }
    static const int64_t want[] = { 1000, 999, 998, 997, 996, 995, 500, 2 };
    assert_int_equal(gathering.reference_count, COUNT_OF(want));
    for (size_t i = 0; i < COUNT_OF(want); i++) {
        assert_int_equal(gathering.references[i].sequence, want[i]);
    }
    world.all.gatherings = &gathering;
    assert_fault(framework_evaluate(world.op, framework, &world.all, &verdict), NONE);
    assert_true(verdict.controls[0].evidenced);
    assert_int_equal(verdict.controls[0].prerequisites[0].reference_count, COUNT_OF(want));
    assert_string_equal(verdict.controls[0].prerequisites[0].why,
                        "1000 matching records of 1000 in the window; 1 asked for.");
    world_clear(&world);
}

static void what_was_gathered_for_another_tenant_is_foreign(void **state)
{
    (void)state;
    const struct framework *framework = parsed(files_op, EVERYTHING);
    struct framework_verdict verdict;
    struct world world;
    world_make(&world, framework, NULL, SPOILT_NOTHING, 0);
    world.gatherings[0].tenant = world_stranger;
    assert_fault(framework_evaluate(world.op, framework, &world.all, &verdict), NONE);
    assert_int_equal(verdict.controls[0].prerequisites[0].state, STATE_FOREIGN);
    assert_int_equal(verdict.controls[0].prerequisites[0].reference_count, 0);
    assert_true(verdict.controls[1].evidenced);
    world_clear(&world);
}

static void windows_are_as_long_as_ages_allow(void **state)
{
    (void)state;
    const struct framework *framework = parsed(files_op, EVERYTHING);
    struct framework_verdict verdict;
    struct world world;
    world_make(&world, framework, NULL, SPOILT_NOTHING, 0);
    assert_fault(framework_evaluate(world.op, framework, &world.all, &verdict), NONE);
    const struct prerequisite_verdict *first = verdict.controls[0].prerequisites;
    const struct prerequisite_verdict *second = verdict.controls[1].prerequisites;
    assert_int_equal(first[0].window.from, WORLD_NOW - 30 * DAY_US);
    assert_int_equal(first[1].window.from, WORLD_NOW - DAY_US);
    assert_int_equal(second[1].window.from, WORLD_NOW - EVIDENCE_WINDOW_DAYS * DAY_US);
    assert_int_equal(second[2].window.from, WORLD_NOW - 30 * DAY_US);
    assert_int_equal(second[2].window.to, WORLD_NOW);
    assert_string_equal(second[2].references[0].evidence_sha256, WORLD_DIGEST);
    assert_string_equal(first[1].references[0].object, "some-summary:default");
    world_clear(&world);
}

/* ---- gaps ---- */

static void a_gap_is_filled_by_exact_evidence_of_its_statement_alone(void **state)
{
    (void)state;
    const struct framework *framework = parsed(files_op, EVERYTHING);
    static const struct {
        enum spoilt spoilt;
        enum prerequisite_state want;
    } rows[] = {
        { SPOILT_REMOVED, STATE_MISSING },     { SPOILT_EXPIRED, STATE_STALE },     { SPOILT_FOREIGN, STATE_FOREIGN },
        { SPOILT_MALFORMED, STATE_MALFORMED }, { SPOILT_UNNAMED, STATE_MALFORMED }, { SPOILT_FUTURE, STATE_MALFORMED },
        { SPOILT_STALE, STATE_MET }, /* older than the window, and it says itself that it has not ended */
        { SPOILT_NOTHING, STATE_MET },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct framework_verdict verdict;
        struct world world;
        world_make(&world, framework, NULL, SPOILT_NOTHING, 0);
        if (rows[i].spoilt != SPOILT_REMOVED) {
            world.attestations[world.all.attestation_count++] = attestation_of("a-statement", 0, rows[i].spoilt);
        }
        assert_fault(framework_evaluate(world.op, framework, &world.all, &verdict), NONE);
        assert_int_equal(verdict.gaps[0].state, rows[i].want);
        assert_int_equal(verdict.gaps[0].attested != NULL, rows[i].want == STATE_MET);
        assert_int_equal(verdict.gaps[1].state, STATE_MISSING);
        assert_null(verdict.gaps[1].attested);
        assert_int_equal(verdict.evidenced, framework->control_count);
        world_clear(&world);
    }
}

static void an_attestation_without_an_end_holds_for_the_window_that_it_was_made_in(void **state)
{
    (void)state;
    const struct framework *framework = parsed(files_op, EVERYTHING);
    for (utc_us late = 0; late < 2; late++) {
        struct framework_verdict verdict;
        struct world world;
        world_make(&world, framework, NULL, SPOILT_NOTHING, 0);
        assert_string_equal(world.attestations[0].statement, "said");
        world.attestations[world.all.attestation_count++] = attestation_of("a-statement", 0, SPOILT_NOTHING);
        for (size_t i = 0; i < world.all.attestation_count; i++) {
            world.attestations[i].made = world_window.from - late;
            world.attestations[i].expires = 0;
        }
        assert_fault(framework_evaluate(world.op, framework, &world.all, &verdict), NONE);
        enum prerequisite_state due = late > 0 ? STATE_STALE : STATE_MET;
        assert_int_equal(verdict.controls[1].prerequisites[1].state, due);
        assert_int_equal(verdict.gaps[0].state, due);
        assert_int_equal(verdict.gaps[0].attested != NULL, late == 0);
        world_clear(&world);
    }
}

static void who_the_service_itself_is_does_not_count(void **state)
{
    (void)state;
    const struct framework *framework =
        parsed(files_op, HEAD "  - id: C1\n    title: t\n    prerequisites:\n      - { name: a, title: t, recovery: r,"
                              " kind: event, types: [key.generated, key.retired, tsa.clock.lost], where: [\n"
                              "          { path: actor.subject, is_not: [\"system:*\", \"a*c\"] },\n"
                              "          { of: \"key.*\", path: data.system, is: [\"false\"] } ] }\n" TAIL);
    static const struct {
        const char *type, *actor, *data;
        bool counts;
    } rows[] = {
        { "key.generated", "ann", "{\"system\":false}", true },
        { "key.generated", "ann", "{\"system\":true}", false },
        { "key.retired", "ann", "{}", false },
        { "key.retired", "systems", "{\"system\":false}", true },
        { "key.retired", "system:cli", "{\"system\":false}", false },
        { "tsa.clock.lost", "ann", "{}", true },
        { "tsa.clock.lost", "system:", "{}", false },
        { "tsa.clock.lost", "abc", "{}", true },
        { "tsa.clock.lost", "a*c", "{}", false },
    };
    struct gathering gathering;
    struct world world;
    world_make(&world, framework, NULL, SPOILT_NOTHING, 0);
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const char *record = NULL;
        assert_fault(arena_printf(world.op->arena, &record,
                                  "{\"actor\":{\"subject\":\"%s\"},\"data\":%s,\"tenant_id\":\"%s\",\"type\":\"%s\"}",
                                  rows[i].actor, rows[i].data, world_tenant.text, rows[i].type),
                     NONE);
        const struct evidence_event event = { .tenant = world_tenant,
                                              .event_id = "id",
                                              .type = rows[i].type,
                                              .actor = rows[i].actor,
                                              .sequence = 1,
                                              .time = WORLD_NOW,
                                              .record = span_text(record) };
        gathering_init(&gathering, &framework->controls[0].prerequisites[0], world_tenant, world_window);
        take(&world, &gathering, &event);
        if (gathering.population.matched != rows[i].counts) {
            fail_msg("row %zu: %s by %s", i, rows[i].type, rows[i].actor);
        }
    }
    world_clear(&world);
}

static void of_two_attestations_the_tenants_own_and_newest_counts(void **state)
{
    (void)state;
    const struct framework *framework = parsed(files_op, EVERYTHING);
    struct framework_verdict verdict;
    struct world world;
    world_make(&world, framework, NULL, SPOILT_NOTHING, 0);
    struct evidence_attestation *at = &world.attestations[world.all.attestation_count];
    at[0] = attestation_of("a-statement", 0, SPOILT_FOREIGN);
    at[1] = attestation_of("a-statement", 0, SPOILT_NOTHING);
    at[2] = attestation_of("a-statement", 0, SPOILT_EXPIRED);
    at[2].made--;
    world.all.attestation_count += 3;
    assert_fault(framework_evaluate(world.op, framework, &world.all, &verdict), NONE);
    assert_ptr_equal(verdict.gaps[0].attested, &at[1]);
    world_clear(&world);
}

static void the_same_facts_give_the_same_verdicts(void **state)
{
    (void)state;
    const struct framework *framework = frameworks_get(files, "nist-800-53");
    struct framework_verdict first, second;
    struct world world;
    world_make(&world, framework, NULL, SPOILT_NOTHING, 0);
    assert_fault(framework_evaluate(world.op, framework, &world.all, &first), NONE);
    assert_fault(framework_evaluate(world.op, framework, &world.all, &second), NONE);
    assert_int_equal(first.evidenced, second.evidenced);
    for (size_t i = 0; i < framework->control_count; i++) {
        for (size_t j = 0; j < framework->controls[i].prerequisite_count; j++) {
            assert_string_equal(first.controls[i].prerequisites[j].why, second.controls[i].prerequisites[j].why);
        }
    }
    world_clear(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_framework_names_exactly_what_is_missing),
        cmocka_unit_test(every_way_to_ask_names_exactly_what_is_missing),
        cmocka_unit_test(a_control_is_no_other_control),
        cmocka_unit_test(total_is_matched_and_excluded_and_nothing_else),
        cmocka_unit_test(references_are_the_newest_and_those_that_make_up_the_actors),
        cmocka_unit_test(what_was_gathered_for_another_tenant_is_foreign),
        cmocka_unit_test(windows_are_as_long_as_ages_allow),
        cmocka_unit_test(a_gap_is_filled_by_exact_evidence_of_its_statement_alone),
        cmocka_unit_test(an_attestation_without_an_end_holds_for_the_window_that_it_was_made_in),
        cmocka_unit_test(who_the_service_itself_is_does_not_count),
        cmocka_unit_test(of_two_attestations_the_tenants_own_and_newest_counts),
        cmocka_unit_test(the_same_facts_give_the_same_verdicts),
    };
    return cmocka_run_group_tests(tests, load_files, free_files);
}
