#include "testlib.h"

#include "api/identity/internal.h"

static struct verified some(uint8_t byte)
{
    struct verified verified = { .tenant = { "acme" }, .expires = 1 };
    memset(verified.hash.at, byte, sizeof(verified.hash.at));
    return verified;
}

static void an_unknown_or_nearly_equal_hash_is_a_miss(void **state)
{
    (void)state;
    CLEANUP(token_cache_freep) struct token_cache *cache = NULL;
    struct verified kept = some(7), got = { 0 };
    assert_fault(token_cache_new(&cache), NONE);
    assert_false(token_cache_get(cache, &kept.hash, 0, &got));
    token_cache_put(cache, &kept, 0, token_cache_generation());
    struct sha256 near = kept.hash; /* the same place, one bit apart at the end */
    near.at[31] ^= 1;
    assert_false(token_cache_get(cache, &near, 0, &got));
    assert_true(token_cache_get(cache, &kept.hash, 0, &got));
    assert_string_equal(got.tenant.text, "acme");
}

static void an_entry_ends_after_its_time(void **state)
{
    (void)state;
    CLEANUP(token_cache_freep) struct token_cache *cache = NULL;
    struct verified kept = some(7), got = { 0 };
    assert_fault(token_cache_new(&cache), NONE);
    token_cache_put(cache, &kept, 1000, token_cache_generation());
    assert_true(token_cache_get(cache, &kept.hash, 1000 + TOKEN_CACHE_TTL_MS * NS_PER_MS - 1, &got));
    assert_false(token_cache_get(cache, &kept.hash, 1000 + TOKEN_CACHE_TTL_MS * NS_PER_MS, &got));
}

static void a_revocation_empties_it_and_outruns_a_look_up_that_began_before(void **state)
{
    (void)state;
    CLEANUP(token_cache_freep) struct token_cache *cache = NULL;
    struct verified kept = some(7), got = { 0 };
    assert_fault(token_cache_new(&cache), NONE);
    uint64_t before = token_cache_generation();
    token_cache_put(cache, &kept, 0, before);
    token_cache_forget();
    assert_false(token_cache_get(cache, &kept.hash, 0, &got));
    token_cache_put(cache, &kept, 0, before); /* its look-up saw the token in force, but that is past */
    assert_false(token_cache_get(cache, &kept.hash, 0, &got));
    token_cache_put(cache, &kept, 0, token_cache_generation());
    assert_true(token_cache_get(cache, &kept.hash, 0, &got));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_unknown_or_nearly_equal_hash_is_a_miss),
        cmocka_unit_test(an_entry_ends_after_its_time),
        cmocka_unit_test(a_revocation_empties_it_and_outruns_a_look_up_that_began_before),
    };
    return cmocka_run_group_tests_name("token_cache", tests, NULL, NULL);
}
