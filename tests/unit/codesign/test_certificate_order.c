/* Which certificate issued which. */
#include "tests/unit/cli/sigstore.h"

static struct world world;
static struct party middle, other, lower;
static struct span leaf;

static int begin(void **state)
{
    (void)state;
    struct profile profile = ca_profile;
    world = world_made();
    profile.name = "middle";
    middle = party_made(world.op, &profile, &world.ca);
    profile.name = "other middle";
    other = party_made(world.op, &profile, &world.ca);
    profile.name = "lower";
    lower = party_made(world.op, &profile, &middle);
    leaf = leaf_again(&world, &leaf_profile, &lower);
    return 0;
}

static int end(void **state)
{
    (void)state;
    party_clear(&middle);
    party_clear(&other);
    party_clear(&lower);
    world_clear(&world);
    return 0;
}

#define CHAIN(...) \
    ((struct chain){ .at = { __VA_ARGS__ }, .count = sizeof((struct span[]){ __VA_ARGS__ }) / sizeof(struct span) })

static struct fault ordered(struct chain chain)
{
    world.op->note = (struct fault_note){ 0 };
    return chain_check_order(world.op, &chain);
}

static void certificates_out_of_order_are_refused(void **state)
{
    (void)state;
    struct span top = world.ca.der;
    assert_fault(ordered(CHAIN(top, middle.der, lower.der, leaf)), BUNDLE_INVALID);
    assert_fault(ordered(CHAIN(leaf, middle.der, lower.der, top)), BUNDLE_INVALID);
    assert_fault(ordered(CHAIN(leaf, middle.der)), BUNDLE_INVALID);
    assert_fault(ordered(CHAIN(leaf, lower.der, other.der, top)), BUNDLE_INVALID);
    assert_fault(ordered(CHAIN(leaf, leaf)), BUNDLE_INVALID);
    assert_fault(ordered(CHAIN(leaf, lower.der, middle.der, top, top)), BUNDLE_INVALID);
    assert_fault(ordered(CHAIN(leaf, world.leaf.spki)), BAD_ARGUMENT);
    assert_string_not_equal(world.op->note.detail, "");
}

static void an_ordered_chain_may_end_anywhere(void **state)
{
    (void)state;
    assert_fault(ordered(CHAIN(leaf)), NONE);
    assert_fault(ordered(CHAIN(leaf, lower.der)), NONE);
    assert_fault(ordered(CHAIN(leaf, lower.der, middle.der, world.ca.der)), NONE);
}

static size_t chains(struct chain heap, struct chain *made)
{
    size_t count = 99;
    world.op->note = (struct fault_note){ 0 };
    assert_fault(chains_of(world.op, &heap, made, &count), NONE);
    return count;
}

static bool is(const struct chain *chain, struct chain wanted)
{
    bool same = chain->count == wanted.count;
    for (size_t i = 0; same && i < chain->count; i++) {
        same = span_equal(chain->at[i], wanted.at[i]);
    }
    return same;
}

static void what_leads_to_no_root_is_left_out(void **state)
{
    (void)state;
    struct chain made[CHAIN_MAX];
    assert_int_equal(chains((struct chain){ .count = 0 }, made), 0);
    assert_int_equal(chains(CHAIN(middle.der, lower.der), made), 0);
    assert_int_equal(chains(CHAIN(lower.der, world.ca.der), made), 1);
    assert_true(is(&made[0], CHAIN(world.ca.der)));
}

static void a_heap_falls_into_its_chains(void **state)
{
    (void)state;
    struct chain made[CHAIN_MAX];
    struct span top = world.ca.der, second = world.tsa_root.der;
    assert_int_equal(chains(CHAIN(top), made), 1);
    assert_true(is(&made[0], CHAIN(top)));
    assert_int_equal(chains(CHAIN(top, middle.der, second, lower.der, other.der), made), 3);
    assert_true(is(&made[0], CHAIN(second)));
    assert_true(is(&made[1], CHAIN(lower.der, middle.der, top)));
    assert_true(is(&made[2], CHAIN(other.der, top)));
}

static void the_largest_heap_is_no_trouble(void **state)
{
    (void)state;
    struct chain made[CHAIN_MAX], heap = { .count = CHAIN_MAX };
    for (size_t i = 0; i < CHAIN_MAX; i++) {
        heap.at[i] = i == 0 ? world.ca.der : middle.der;
    }
    assert_int_equal(chains(heap, made), CHAIN_MAX - 1);
    assert_true(is(&made[0], CHAIN(middle.der, world.ca.der)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(certificates_out_of_order_are_refused), cmocka_unit_test(an_ordered_chain_may_end_anywhere),
        cmocka_unit_test(what_leads_to_no_root_is_left_out),     cmocka_unit_test(a_heap_falls_into_its_chains),
        cmocka_unit_test(the_largest_heap_is_no_trouble),
    };
    return cmocka_run_group_tests_name("certificate order", tests, begin, end);
}
