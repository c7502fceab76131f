/* The manifest that is signed: one form for one set of facts, and one that the verifier agrees with, whatever the
 * evaluator said. */
#include "unit/compliance/pack_sample.h"

#include "api/compliance/verify_internal.h"

static void the_lists_that_the_verifier_has_of_its_own_are_the_services(void **state)
{
    (void)state;
    for (size_t i = 0; i < FRAMEWORKS; i++) {
        assert_true(evidence_framework_known(framework_id(i)));
    }
    assert_false(evidence_framework_known("soc3"));
    for (int i = 0; i < STATE_COUNT; i++) {
        enum prerequisite_state found = STATE_COUNT;
        assert_true(evidence_state(prerequisite_state_text((enum prerequisite_state)i), &found));
        assert_int_equal(found, i);
    }
}

static void the_same_facts_give_the_same_bytes_but_for_the_time(void **state)
{
    CLEANUP(buf_free)
    struct buf first = BUF_INIT(PACK_ROOM), second = BUF_INIT(PACK_ROOM), canonical = BUF_INIT(PACK_ROOM);
    CLEANUP(buf_free) struct buf later = BUF_INIT(PACK_ROOM);
    CLEANUP(op_freep) struct op *op = NULL;
    const struct framework *framework = NULL;
    struct world world;
    char then[RFC3339_MAX], now[RFC3339_MAX];
    (void)state;
    sample_plain(&first);
    sample_plain(&second);
    assert_true(span_equal(buf_span(&first), buf_span(&second)));
    assert_fault(json_canonical(buf_span(&first), &canonical), NONE);
    assert_true(span_equal(buf_span(&first), buf_span(&canonical)));
    assert_fault(op_new("test", world_tenant, 60000, &op), NONE);
    assert_fault(framework_parse(op, "soc2", span_text(sample_yaml), &framework), NONE);
    world_make(&world, framework, &framework->controls[1].prerequisites[0], SPOILT_REMOVED, 0);
    sample_manifest(&world, framework, GENERATED_AT + SECOND, &later);
    world_clear(&world);
    rfc3339_print(GENERATED_AT + SECOND, then);
    rfc3339_print(GENERATED_AT, now);
    text_replace(&later, then, now);
    assert_true(span_equal(buf_span(&first), buf_span(&later)));
}

static void nothing_in_it_says_that_anybody_is_compliant(void **state)
{
    static const char *const words[] = { "compliant", "certified", "Compliant", "Certified" };
    CLEANUP(buf_free) struct buf manifest = BUF_INIT(PACK_ROOM);
    (void)state;
    sample_plain(&manifest);
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        assert_null(memmem(manifest.at, manifest.len, words[i], strlen(words[i])));
    }
}

static void a_manifest_that_is_too_large_is_refused_and_says_so(void **state)
{
    CLEANUP(buf_free) struct buf large = BUF_INIT(EVIDENCE_MANIFEST_MAX + 16), out = BUF_INIT(EVIDENCE_MANIFEST_MAX);
    CLEANUP(op_freep) struct op *op = NULL;
    const struct framework *framework = NULL;
    struct framework_verdict verdict;
    struct evidence evidence;
    struct world world;
    uint8_t *room = NULL;
    (void)state;
    assert_fault(op_new("test", world_tenant, 60000, &op), NONE);
    assert_fault(framework_parse(op, "soc2", span_text(sample_yaml), &framework), NONE);
    world_make(&world, framework, NULL, SPOILT_NOTHING, 0);
    sample_evidence(&world, &evidence);
    assert_fault(framework_evaluate(world.op, framework, &evidence.facts, &verdict), NONE);
    assert_fault(buf_reserve(&large, EVIDENCE_MANIFEST_MAX, &room), NONE);
    memset(room, ' ', EVIDENCE_MANIFEST_MAX);
    room[0] = '"';
    room[EVIDENCE_MANIFEST_MAX - 1] = '"';
    evidence.cbom = buf_span(&large);
    assert_fault(manifest_print(world.op, &evidence, &verdict, GENERATED_AT, &out), EVIDENCE_SIZE);
    assert_non_null(strstr(world.op->note.detail, "24 MiB"));
    world_clear(&world);
}

/* ---- every framework ---- */

static void assert_verifies(const struct framework *framework, const struct framework_prerequisite *victim,
                            enum spoilt spoilt)
{
    CLEANUP(buf_free) struct buf manifest = BUF_INIT(PACK_ROOM), pack = BUF_INIT(4 * PACK_ROOM);
    CLEANUP(op_freep) struct op *op = NULL;
    CLEANUP(jwk_set_free) struct jwk_set keys = { 0 };
    const struct evidence_pins pins = { .keys = &keys };
    const struct pack_recipe recipe = { .signer = NULL };
    const char *copy = NULL;
    struct evidence_verdict verdict;
    struct world world;
    sample_keys(made_by.exporter, &keys);
    world_make(&world, framework, victim, spoilt, 0);
    size_t evidenced = sample_manifest(&world, framework, GENERATED_AT, &manifest);
    sample_pack(&recipe, buf_span(&manifest), &pack);
    assert_fault(evidence_verify_op(PACK_ROOM, &op), NONE);
    assert_fault(arena_printf(op->arena, &copy, "\"framework\":\"%s\"", framework->id), NONE);
    text_replace(&pack, "\"framework\":\"soc2\"", copy);
    struct fault fault = evidence_verify(op, buf_span(&pack), &pins, &verdict);
    if (FAULTED(fault)) {
        fail_msg("%s, %s spoilt by %d: %s: %s: %s", framework->id, victim != NULL ? victim->name : "nothing",
                 (int)spoilt, evidence_reason_text(verdict.reason), verdict.member, verdict.why);
    }
    assert_int_equal(verdict.controls, (int64_t)framework->control_count);
    assert_int_equal(verdict.evidenced, (int64_t)evidenced);
    assert_true(victim != NULL || verdict.evidenced == verdict.controls);
    assert_true(spoilt != SPOILT_REMOVED || verdict.evidenced < verdict.controls);
    assert_int_equal(verdict.gaps, (int64_t)framework->gap_count);
    world_clear(&world);
}

/* The k-th prerequisite of all, round and round. */
static const struct framework_prerequisite *pick(const struct framework *framework, size_t k)
{
    size_t count = 0;
    for (size_t turn = 0; turn < 2; turn++) {
        for (size_t i = 0, n = 0; i < framework->control_count; i++) {
            for (size_t j = 0; j < framework->controls[i].prerequisite_count; j++, n++) {
                if (turn == 0) {
                    count++;
                } else if (n == k % count) {
                    return &framework->controls[i].prerequisites[j];
                }
            }
        }
    }
    return NULL;
}

static void whatever_is_missing_in_whatever_framework_makes_a_pack_that_verifies(void **state)
{
    CLEANUP(op_freep) struct op *op = NULL;
    CLEANUP(frameworks_freep) struct frameworks *files = NULL;
    (void)state;
    assert_fault(op_new("test", world_tenant, 60000, &op), NONE);
    assert_fault(frameworks_load(op, "policies/frameworks", &files), NONE);
    for (size_t i = 0; i < FRAMEWORKS; i++) {
        const struct framework *framework = frameworks_get(files, framework_id(i));
        assert_verifies(framework, NULL, SPOILT_NOTHING);
        for (int spoilt = SPOILT_REMOVED; spoilt < SPOILT_COUNT; spoilt++) {
            assert_verifies(framework, pick(framework, i + (size_t)spoilt * 7), (enum spoilt)spoilt);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_lists_that_the_verifier_has_of_its_own_are_the_services),
        cmocka_unit_test(a_manifest_that_is_too_large_is_refused_and_says_so),
        cmocka_unit_test(nothing_in_it_says_that_anybody_is_compliant),
        cmocka_unit_test(the_same_facts_give_the_same_bytes_but_for_the_time),
        cmocka_unit_test(whatever_is_missing_in_whatever_framework_makes_a_pack_that_verifies),
    };
    return cmocka_run_group_tests(tests, artifact_start, artifact_stop);
}
