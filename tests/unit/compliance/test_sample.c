/* Ranks from a seed: fixed vectors that anybody can compute with sha256sum, no rank twice, every rank as likely. */
#include "testlib.h"

#include "api/compliance/verify_sample.h"

#include <stdio.h>

static void the_draw_is_what_its_description_says(void **state)
{
    (void)state;
    /* printf 'svc.population.sample.v1:%s:%d' SEED COUNTER | sha256sum | cut -c-16, modulo the total, plus one */
    static const int64_t of_q3[] = { 12, 11, 10, 3, 6, 4 };
    static const int64_t of_million[] = { 781295, 225136, 255120, 419684, 20820 };
    static const int64_t of_huge[] = { 5389394879071259495, 4109544706270135323, 6162047103458920994,
                                       1277624196297238352 }; /* a quarter of all x is refused */
    int64_t ranks[8];
    assert_fault(sample_draw("2026-Q3", 12, 6, ranks), NONE);
    assert_memory_equal(ranks, of_q3, sizeof(of_q3));
    assert_fault(sample_draw("auditor-7", 1000000, 5, ranks), NONE);
    assert_memory_equal(ranks, of_million, sizeof(of_million));
    assert_fault(sample_draw("huge-1", 3LL << 61, 4, ranks), NONE);
    assert_memory_equal(ranks, of_huge, sizeof(of_huge));
}

static void a_whole_population_comes_once_each(void **state)
{
    (void)state;
    int64_t ranks[SAMPLE_MAX];
    bool seen[SAMPLE_MAX + 1] = { false };
    assert_fault(sample_draw("all of them", SAMPLE_MAX, SAMPLE_MAX, ranks), NONE);
    for (size_t i = 0; i < SAMPLE_MAX; i++) {
        assert_in_range(ranks[i], 1, SAMPLE_MAX);
        assert_false(seen[ranks[i]]);
        seen[ranks[i]] = true;
    }
    assert_fault(sample_draw("nothing", 0, 0, ranks), NONE);
    assert_fault(sample_draw("one", 1, 1, ranks), NONE);
    assert_int_equal(ranks[0], 1);
}

static void a_longer_sample_begins_with_the_shorter_one(void **state)
{
    (void)state;
    int64_t few[10], many[40];
    assert_fault(sample_draw("s", 100, COUNT_OF(few), few), NONE);
    assert_fault(sample_draw("s", 100, COUNT_OF(many), many), NONE);
    assert_memory_equal(few, many, sizeof(few));
}

static void every_rank_is_as_likely_as_another(void **state)
{
    (void)state;
    unsigned hits[7] = { 0 };
    for (unsigned i = 0; i < 7000; i++) {
        char seed[16];
        int64_t rank = 0;
        (void)snprintf(seed, sizeof(seed), "%u", i);
        assert_fault(sample_draw(seed, COUNT_OF(hits), 1, &rank), NONE);
        hits[rank - 1]++;
    }
    for (size_t i = 0; i < COUNT_OF(hits); i++) {
        assert_in_range(hits[i], 850, 1150); /* five standard deviations about 1000; the seeds are fixed */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_draw_is_what_its_description_says),
        cmocka_unit_test(a_whole_population_comes_once_each),
        cmocka_unit_test(a_longer_sample_begins_with_the_shorter_one),
        cmocka_unit_test(every_rank_is_as_likely_as_another),
    };
    return cmocka_run_group_tests_name("sample", tests, NULL, NULL);
}
