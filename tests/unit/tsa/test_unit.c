/* A unit's parts from its chain, and what is published of all units. */
#include "testlib.h"

#include "authority.h"

#include "api/tsa/units.h"

#define YEAR_US (366 * 86400 * US_PER_S)

static struct op *op;

/* A certificate whose key stamps until `usage_end` (0 = it does not say). */
static struct span leaf_with(utc_us usage_end, utc_us not_after)
{
    struct span der;
    struct certificate_issuer issuer = {
        .key = authority.root_ref,
        .spki = buf_span(&authority.root_spki),
        .certificate = authority.root,
    };
    struct certificate_profile profile = { .common_name = "Unit",
                                           .extended_usage = "critical,timeStamping",
                                           .not_before = clock_utc() - 3600 * US_PER_S,
                                           .not_after = not_after,
                                           .usage_until = usage_end };
    struct span spki = buf_span(&authority.unit_spkis[UNIT_P256]);
    assert_fault(certificate_issue(op, token_client(), &issuer, spki, &profile, &der), NONE);
    return der;
}

static void a_chain_that_is_too_short_or_about_another_key_makes_no_unit(void **state)
{
    (void)state;
    struct tsa_unit *untouched = NULL;
    struct span chain[2] = { authority.leaves[UNIT_P384], authority.root };
    struct span spki = buf_span(&authority.unit_spkis[UNIT_P256]);
    const struct key_ref *ref = &authority.unit_refs[UNIT_P256];
    assert_fault(tsa_unit_of_chain(op, ref, KEY_ALGORITHM_EC_P256, spki, chain, 2, 1000, &untouched), CRYPTO);
    chain[0] = authority.leaves[UNIT_P256];
    assert_fault(tsa_unit_of_chain(op, ref, KEY_ALGORITHM_EC_P256, spki, chain, 1, 1000, &untouched), BAD_ARGUMENT);
    assert_null(untouched);
}

static void the_key_stamps_until_its_usage_period_ends(void **state)
{
    (void)state;
    utc_us now = clock_utc() / US_PER_S * US_PER_S;
    struct tsa_times times;
    assert_fault(tsa_certificate_times(op, leaf_with(now + YEAR_US, now + 5 * YEAR_US), &times), NONE);
    assert_int_equal(times.usage_end, now + YEAR_US);
    assert_int_equal(times.not_after, now + 5 * YEAR_US);
    assert_fault(tsa_certificate_times(op, leaf_with(0, now + 5 * YEAR_US), &times), NONE);
    assert_int_equal(times.usage_end, times.not_after);
    assert_fault(tsa_certificate_times(op, span_text("rubbish"), &times), CRYPTO);
}

static void authorities_between_go_into_tokens_and_the_root_does_not(void **state)
{
    (void)state;
    struct tsa_unit *unit = NULL;
    struct span chain[3] = { authority.leaves[UNIT_P256], authority.leaves[UNIT_P384], authority.root };
    assert_fault(tsa_unit_of_chain(op, &authority.unit_refs[UNIT_P256], KEY_ALGORITHM_EC_P256,
                                   buf_span(&authority.unit_spkis[UNIT_P256]), chain, 3, 1000, &unit),
                 NONE);
    assert_true(span_equal(buf_span(&unit->leaf), chain[0]));
    assert_true(span_equal(buf_span(&unit->issuer), chain[1]));
    assert_true(span_equal(buf_span(&unit->root), chain[2]));
    assert_int_equal(unit->certificates.len, chain[0].len + chain[1].len);
    tsa_unit_free(unit);
}

static size_t place_of(const struct buf *pem, struct span certificate)
{
    CLEANUP(buf_free) struct buf one = BUF_INIT(8192);
    const char *whole = NULL, *wanted = NULL;
    struct buf copy = BUF_INIT((size_t)1 << 20);
    assert_fault(buf_put(&copy, buf_span(pem)), NONE);
    assert_fault(certificate_pem(certificate, &one), NONE);
    assert_fault(buf_cstr(&copy, &whole), NONE);
    assert_fault(buf_cstr(&one, &wanted), NONE);
    const char *found = strstr(whole, wanted);
    size_t place = found != NULL ? (size_t)(found - whole) + 1 : 0;
    buf_free(&copy);
    return place;
}

static void published_is_what_still_verifies_with_the_active_units_root_last(void **state)
{
    (void)state;
    utc_us now = clock_utc();
    CLEANUP(buf_free) struct buf pem = BUF_INIT((size_t)1 << 20);
    const struct span old[2] = { authority.leaves[UNIT_P256], authority.root };
    const struct span active[2] = { authority.leaves[UNIT_P384], authority.root };
    const struct span waiting[2] = { authority.leaves[UNIT_RSA], authority.root };
    const struct span expired[2] = { leaf_with(0, now + YEAR_US), authority.root };
    struct unit rows[] = {
        { .state = UNIT_RETIRED, .activated = 1, .chain = expired, .chain_count = 2, .not_after = now - 1 },
        { .state = UNIT_REPLACED, .activated = 1, .chain = old, .chain_count = 2, .not_after = now + YEAR_US },
        { .state = UNIT_ACTIVE, .activated = 1, .chain = active, .chain_count = 2, .not_after = now + YEAR_US },
        { .state = UNIT_CERTIFIED, .chain = waiting, .chain_count = 2, .not_after = now + YEAR_US },
        { .state = UNIT_PREPARED },
    };
    struct units units = { .at = rows, .count = COUNT_OF(rows) };
    assert_fault(tsa_chain_print(&units, now, &pem), NONE);
    assert_int_equal(place_of(&pem, active[0]), 1);
    assert_true(place_of(&pem, old[0]) > 1);
    assert_true(place_of(&pem, authority.root) > place_of(&pem, old[0]));
    assert_int_equal(place_of(&pem, expired[0]), 0);
    assert_int_equal(place_of(&pem, waiting[0]), 0);

    CLEANUP(buf_free) struct buf empty = BUF_INIT(64);
    assert_fault(tsa_chain_print(&(struct units){ 0 }, now, &empty), NONE);
    assert_int_equal(empty.len, 0);
}

static int begin(void **state)
{
    (void)state;
    authority_start();
    return FAULTED(op_new("test", (struct tenant_id){ "default" }, 60000, &op)) ? -1 : 0;
}

static int end(void **state)
{
    (void)state;
    op_free(op);
    authority_stop();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain_that_is_too_short_or_about_another_key_makes_no_unit),
        cmocka_unit_test(the_key_stamps_until_its_usage_period_ends),
        cmocka_unit_test(authorities_between_go_into_tokens_and_the_root_does_not),
        cmocka_unit_test(published_is_what_still_verifies_with_the_active_units_root_last),
    };
    return cmocka_run_group_tests_name("time-stamping units", tests, begin, end);
}
