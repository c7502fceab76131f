/* What a bundle is believed for: refusals first. */
#include "tests/unit/cli/sigstore.h"

static struct world world;
static struct trusted_root root;
static struct bundle_verdict verdict;

static int fresh(void **state)
{
    (void)state;
    world.op->note = (struct fault_note){ 0 };
    root_of(&world, &root);
    return 0;
}

static int begin(void **state)
{
    (void)state;
    world = world_made();
    return 0;
}

static int end(void **state)
{
    (void)state;
    world_clear(&world);
    return 0;
}

static struct bundle_expect by_identity(void)
{
    return (struct bundle_expect){ .digest = world.digest, .root = &root, .identity = IDENTITY, .issuer = ISSUER };
}

static struct bundle_expect by_key(void)
{
    return (struct bundle_expect){ .digest = world.digest, .root = &root, .key = world.leaf.spki };
}

static struct fault verify(const struct bundle *bundle, const struct bundle_expect *expect)
{
    world.op->note = (struct fault_note){ 0 };
    return bundle_verify(world.op, bundle, expect, &verdict);
}

#define assert_refused(bundle, expect, sym, says)            \
    do {                                                     \
        struct bundle_expect expect_ = (expect);             \
        struct fault fault_ = verify((bundle), &expect_);    \
        if (strstr(world.op->note.detail, (says)) == NULL) { \
            fail_msg("says: %s", world.op->note.detail);     \
        }                                                    \
        assert_fault(fault_, sym);                           \
    } while (0)

/* The same bytes with one bit turned. */
static struct span turned(struct span bytes, size_t at)
{
    struct span copy;
    assert_true(at < bytes.len);
    assert_fault(arena_copy(world.op->arena, bytes, &copy), NONE);
    ((uint8_t *)(uintptr_t)copy.at)[at] ^= 1;
    return copy;
}

static void an_altered_signature_is_refused(void **state)
{
    (void)state;
    struct bundle bundle = with_entry(&world, world.leaf.der, SIGNED_AT);
    bundle.signature = turned(bundle.signature, bundle.signature.len - 1);
    assert_refused(&bundle, by_identity(), SIGNATURE_INVALID, "do not belong together");
    assert_refused(&bundle, by_key(), SIGNATURE_INVALID, "do not belong together");
}

static void another_file_is_refused(void **state)
{
    (void)state;
    struct bundle bundle = with_entry(&world, world.leaf.der, SIGNED_AT);
    struct bundle_expect expect = by_identity();
    expect.digest = turned(world.digest, 0);
    assert_refused(&bundle, expect, BUNDLE_INVALID, "another file");
    bundle.digest = expect.digest; /* the bundle claims that file, but its signature does not */
    assert_refused(&bundle, expect, SIGNATURE_INVALID, "");
}

static void an_altered_log_entry_is_refused(void **state)
{
    (void)state;
    const struct bundle good = with_entry(&world, world.leaf.der, SIGNED_AT);
    struct bundle bundle = good;
    bundle.entries[0].set = turned(bundle.entries[0].set, 20);
    assert_refused(&bundle, by_identity(), BUNDLE_INVALID, "transparency entry 1: ");
    bundle = good;
    bundle.entries[0].integrated_time++;
    assert_refused(&bundle, by_identity(), BUNDLE_INVALID, "transparency entry 1: ");
    bundle = good;
    bundle.entries[0].log_index++;
    assert_refused(&bundle, by_identity(), BUNDLE_INVALID, "transparency entry 1: ");
    bundle = good;
    bundle.entries[0].body = turned(bundle.entries[0].body, 120);
    assert_refused(&bundle, by_identity(), BUNDLE_INVALID, "transparency entry 1: ");
    bundle = good;
    bundle.entries[0].root_hash = turned(bundle.entries[0].root_hash, 0);
    assert_refused(&bundle, by_identity(), BUNDLE_INVALID, "transparency entry 1: ");
}

static void an_entry_of_another_signature_is_refused(void **state)
{
    (void)state;
    struct bundle bundle = with_entry(&world, world.leaf.der, SIGNED_AT);
    bundle.signature = signed_text(world.op, world.leaf.key, span_text(ARTIFACT)); /* good, and another */
    assert_refused(&bundle, by_identity(), BUNDLE_INVALID, "transparency entry 1: ");
}

static void an_entry_of_an_unknown_log_is_refused(void **state)
{
    (void)state;
    struct bundle bundle = with_entry(&world, world.leaf.der, SIGNED_AT);
    root.logs[0].spki = world.ca.spki;
    assert_refused(&bundle, by_identity(), BUNDLE_INVALID, "transparency entry 1: ");
    root.log_count = 0; /* a root without logs does not make an entry good */
    assert_refused(&bundle, by_identity(), BUNDLE_INVALID, "transparency entry 1: ");
}

static void an_entry_made_outside_its_logs_window_is_refused(void **state)
{
    (void)state;
    struct bundle bundle = with_entry(&world, world.leaf.der, SIGNED_AT);
    root.logs[0].valid_until = (SIGNED_AT - 1) * US_PER_S;
    assert_refused(&bundle, by_identity(), BUNDLE_INVALID, "transparency entry 1: ");
}

static void an_altered_time_stamp_is_refused(void **state)
{
    (void)state;
    struct bundle bundle = with_stamp(&world, world.leaf.der, SIGNED_AT);
    struct bundle_expect expect = by_identity();
    expect.no_transparency = true;
    bundle.stamps[0] = turned(bundle.stamps[0], bundle.stamps[0].len - 1);
    assert_refused(&bundle, expect, BUNDLE_INVALID, "time stamp 1: ");
    bundle.stamps[0] = span_text("no stamp");
    assert_refused(&bundle, expect, BUNDLE_INVALID, "time stamp 1: ");
}

static void a_time_stamp_of_something_else_is_refused(void **state)
{
    (void)state;
    struct bundle bundle = with_stamp(&world, world.leaf.der, SIGNED_AT);
    struct bundle_expect expect = by_identity();
    expect.no_transparency = true;
    bundle.stamps[0] = stamp_made(&world, span_text(ARTIFACT), SIGNED_AT); /* of the file, not of the signature */
    assert_refused(&bundle, expect, BUNDLE_INVALID, "time stamp 1: ");
}

static void one_bad_time_stamp_spoils_a_good_one(void **state)
{
    (void)state;
    struct bundle bundle = with_stamp(&world, world.leaf.der, SIGNED_AT);
    struct bundle_expect expect = by_identity();
    expect.no_transparency = true;
    bundle.stamps[1] = stamp_made(&world, span_text("x"), SIGNED_AT);
    bundle.stamp_count = 2;
    assert_refused(&bundle, expect, BUNDLE_INVALID, "time stamp 2: ");
}

static void a_time_stamping_authority_counts_in_its_window_and_by_its_own_certificate(void **state)
{
    (void)state;
    struct bundle bundle = with_stamp(&world, world.leaf.der, SIGNED_AT);
    struct bundle_expect expect = by_identity();
    expect.no_transparency = true;
    root.stampers[0].until = (SIGNED_AT - 1) * US_PER_S;
    assert_refused(&bundle, expect, BUNDLE_INVALID, "window");
    root.stampers[0].until = 0;
    root.stampers[0].from = (SIGNED_AT + 1) * US_PER_S;
    assert_refused(&bundle, expect, BUNDLE_INVALID, "window");
    root.stampers[0].from = 0;
    root.stampers[0].chain.at[0] = world.leaf.der; /* a sister of the one that stamped */
    assert_refused(&bundle, expect, BUNDLE_INVALID, "another certificate than the trusted root names");
    root.stamper_count = 0;
    assert_refused(&bundle, expect, BUNDLE_INVALID, "no time-stamping authority");
}

static void a_certificate_of_another_authority_is_refused(void **state)
{
    (void)state;
    struct party other = party_made(world.op, &ca_profile, NULL); /* of the same name */
    struct bundle bundle = with_entry(&world, leaf_again(&world, &leaf_profile, &other), SIGNED_AT);
    assert_refused(&bundle, by_identity(), BUNDLE_INVALID, "no good path");
    party_clear(&other);
}

static void an_altered_certificate_is_refused(void **state)
{
    (void)state;
    struct span der = turned(world.leaf.der, world.leaf.der.len - 1); /* in its signature */
    struct bundle bundle = with_entry(&world, der, SIGNED_AT);
    assert_refused(&bundle, by_identity(), BUNDLE_INVALID, "no good path");
}

static void a_certificate_for_another_use_is_refused(void **state)
{
    (void)state;
    struct profile profile = leaf_profile;
    profile.usage = "serverAuth";
    struct bundle bundle = with_entry(&world, leaf_again(&world, &profile, &world.ca), SIGNED_AT);
    assert_refused(&bundle, by_identity(), BUNDLE_INVALID, "not for code signing");
    profile.usage = NULL;
    bundle = with_entry(&world, leaf_again(&world, &profile, &world.ca), SIGNED_AT);
    assert_refused(&bundle, by_identity(), BUNDLE_INVALID, "not for code signing");
    profile = leaf_profile;
    profile.authority = true;
    bundle = with_entry(&world, leaf_again(&world, &profile, &world.ca), SIGNED_AT);
    assert_refused(&bundle, by_identity(), BUNDLE_INVALID, "authority");
}

static void an_authority_for_another_use_is_refused(void **state)
{
    (void)state;
    struct profile profile = ca_profile;
    profile.usage = "serverAuth";
    struct party other = party_made(world.op, &profile, NULL);
    struct bundle bundle = with_entry(&world, leaf_again(&world, &leaf_profile, &other), SIGNED_AT);
    root.authorities[0].chain.at[0] = other.der;
    assert_refused(&bundle, by_identity(), BUNDLE_INVALID, "limited to other uses");
    party_clear(&other);
}

static void a_signature_outside_the_certificates_time_is_refused(void **state)
{
    (void)state;
    struct bundle bundle = with_entry(&world, world.leaf.der, LEAF_UNTIL + 1);
    assert_refused(&bundle, by_identity(), TIMESTAMP_VALIDITY, "was valid from");
    bundle = with_entry(&world, world.leaf.der, LEAF_FROM - 1);
    assert_refused(&bundle, by_identity(), TIMESTAMP_VALIDITY, "was valid from");
    bundle = with_stamp(&world, world.leaf.der, LEAF_UNTIL + 1);
    struct bundle_expect expect = by_identity();
    expect.no_transparency = true;
    assert_refused(&bundle, expect, TIMESTAMP_VALIDITY, "was valid from");
}

static void every_proven_time_must_fit_the_certificate(void **state)
{
    (void)state;
    struct bundle bundle = with_entry(&world, world.leaf.der, SIGNED_AT);
    bundle.stamps[0] = stamp_made(&world, world.signature, LEAF_UNTIL + 60);
    bundle.stamp_count = 1;
    assert_refused(&bundle, by_identity(), TIMESTAMP_VALIDITY, "was valid from");
    bundle = with_entry(&world, world.leaf.der, LEAF_UNTIL + 60);
    bundle.stamps[0] = stamp_made(&world, world.signature, SIGNED_AT);
    bundle.stamp_count = 1;
    assert_refused(&bundle, by_identity(), TIMESTAMP_VALIDITY, "was valid from");
}

static void an_authority_outside_its_window_is_refused(void **state)
{
    (void)state;
    struct bundle bundle = with_entry(&world, world.leaf.der, SIGNED_AT);
    root.authorities[0].until = (SIGNED_AT - 1) * US_PER_S;
    assert_refused(&bundle, by_identity(), BUNDLE_INVALID, "no certificate authority for the time");
    root.authority_count = 0;
    assert_refused(&bundle, by_identity(), BUNDLE_INVALID, "no certificate authority for the time");
}

static void without_a_proven_time_no_certificate_is_judged(void **state)
{
    (void)state;
    struct bundle_expect expect = by_identity();
    struct bundle bundle = bundle_of(&world, world.leaf.der);
    assert_refused(&bundle, expect, BUNDLE_INVALID, "no entry of a transparency log");
    expect.no_transparency = true;
    assert_refused(&bundle, expect, BUNDLE_INVALID, "nothing proves when");
    bundle = with_entry(&world, world.leaf.der, SIGNED_AT); /* an entry that is not looked at proves nothing */
    assert_refused(&bundle, expect, BUNDLE_INVALID, "nothing proves when");
    expect.no_transparency = false;
    bundle.entries[0].set = (struct span){ 0 }; /* nobody signed its time */
    assert_refused(&bundle, expect, BUNDLE_INVALID, "nothing proves when");
}

static void another_identity_is_refused(void **state)
{
    (void)state;
    struct bundle bundle = with_entry(&world, world.leaf.der, SIGNED_AT);
    struct bundle_expect expect = by_identity();
    expect.identity = "https://github.com/acme/app";
    assert_refused(&bundle, expect, BUNDLE_INVALID, "identity is another: " IDENTITY);
    expect.identity = IDENTITY "x";
    assert_refused(&bundle, expect, BUNDLE_INVALID, "identity is another");
    expect = by_identity();
    expect.issuer = "https://gitlab.com";
    assert_refused(&bundle, expect, BUNDLE_INVALID, "issuer of the signer's identity is another: " ISSUER);
    struct profile profile = leaf_profile;
    profile.issuer = NULL;
    bundle = with_entry(&world, leaf_again(&world, &profile, &world.ca), SIGNED_AT);
    assert_refused(&bundle, by_identity(), BUNDLE_INVALID, "issuer of the signer's identity is another: (the");
    profile = leaf_profile;
    profile.san = NULL;
    bundle = with_entry(&world, leaf_again(&world, &profile, &world.ca), SIGNED_AT);
    assert_refused(&bundle, by_identity(), BUNDLE_INVALID, "identity is another: (the");
}

static void without_expectations_no_certificate_is_believed(void **state)
{
    (void)state;
    struct bundle bundle = with_entry(&world, world.leaf.der, SIGNED_AT);
    struct bundle_expect expect = by_identity();
    expect.identity = NULL;
    assert_refused(&bundle, expect, BAD_ARGUMENT, "needed");
    expect = by_identity();
    expect.issuer = NULL;
    assert_refused(&bundle, expect, BAD_ARGUMENT, "needed");
    expect = by_identity();
    expect.root = NULL;
    assert_refused(&bundle, expect, BAD_ARGUMENT, "needed");
}

static void another_key_is_refused(void **state)
{
    (void)state;
    struct bundle bundle = with_entry(&world, world.leaf.der, SIGNED_AT);
    struct bundle_expect expect = by_key();
    expect.key = world.ca.spki;
    assert_refused(&bundle, expect, BUNDLE_INVALID, "another key");
    bundle = with_entry(&world, (struct span){ 0 }, SIGNED_AT);
    assert_refused(&bundle, expect, SIGNATURE_INVALID, "");
    assert_refused(&bundle, by_identity(), BUNDLE_INVALID, "plain public key");
}

static void a_certificate_and_an_entry_of_the_bare_key_do_not_go_together(void **state)
{
    (void)state;
    struct bundle bundle = with_entry(&world, (struct span){ 0 }, SIGNED_AT);
    bundle.chain = (struct chain){ .at = { world.leaf.der }, .count = 1 };
    assert_refused(&bundle, by_identity(), BUNDLE_INVALID, "transparency entry 1: ");
}

static void a_pinned_key_needs_an_entry_where_the_root_names_logs(void **state)
{
    (void)state;
    struct bundle bundle = bundle_of(&world, (struct span){ 0 });
    struct bundle_expect expect = by_key();
    assert_refused(&bundle, expect, BUNDLE_INVALID, "no entry of a transparency log");
    expect.no_transparency = true;
    assert_fault(verify(&bundle, &expect), NONE);
    expect = by_key();
    expect.root = NULL;
    assert_fault(verify(&bundle, &expect), NONE);
    assert_string_equal(verdict.key_text, "EC P-256");
    assert_int_equal(verdict.entries_verified, 0);
}

static void a_keyless_bundle_with_a_signed_entry_is_believed(void **state)
{
    (void)state;
    struct bundle bundle = with_entry(&world, world.leaf.der, SIGNED_AT);
    struct bundle_expect expect = by_identity();
    assert_fault(verify(&bundle, &expect), NONE);
    assert_string_equal(verdict.scheme, "ecdsa");
    assert_int_equal(verdict.time_count, 1);
    assert_true(verdict.times[0] == SIGNED_AT * US_PER_S);
    assert_int_equal(verdict.entries_verified, 1);
    assert_string_equal(verdict.identity.names[0], IDENTITY);
    assert_string_equal(verdict.identity.issuer, ISSUER);
}

static void a_keyless_bundle_with_a_time_stamp_is_believed(void **state)
{
    (void)state;
    struct bundle bundle = with_stamp(&world, world.leaf.der, SIGNED_AT + 5);
    struct bundle_expect expect = by_identity();
    root.log_count = 0; /* a root of an appliance that publishes nowhere */
    assert_fault(verify(&bundle, &expect), NONE);
    assert_int_equal(verdict.stamps_verified, 1);
    assert_true(verdict.times[0] == (SIGNED_AT + 5) * US_PER_S);
}

static void the_first_second_of_a_certificate_counts_and_its_end_does_not(void **state)
{
    (void)state;
    struct bundle_expect expect = by_identity();
    struct bundle bundle = with_entry(&world, world.leaf.der, LEAF_FROM);
    assert_fault(verify(&bundle, &expect), NONE);
    bundle = with_entry(&world, world.leaf.der, LEAF_UNTIL - 1);
    assert_fault(verify(&bundle, &expect), NONE);
    bundle = with_entry(&world, world.leaf.der, LEAF_UNTIL);
    assert_refused(&bundle, by_identity(), TIMESTAMP_VALIDITY, "was valid from");
}

static void a_bundle_of_a_pinned_key_with_entry_and_time_stamp_is_believed(void **state)
{
    (void)state;
    struct bundle bundle = with_entry(&world, (struct span){ 0 }, SIGNED_AT);
    struct bundle_expect expect = by_key();
    bundle.stamps[0] = stamp_made(&world, world.signature, SIGNED_AT);
    bundle.stamp_count = 1;
    assert_fault(verify(&bundle, &expect), NONE);
    assert_int_equal(verdict.entries_verified, 1);
    assert_int_equal(verdict.stamps_verified, 1);
    assert_int_equal(verdict.time_count, 2);
}

static void several_authorities_are_tried(void **state)
{
    (void)state;
    struct party other = party_made(world.op, &ca_profile, NULL);
    struct bundle bundle = with_stamp(&world, world.leaf.der, SIGNED_AT);
    struct bundle_expect expect = by_identity();
    expect.no_transparency = true;
    root.authorities[1] = root.authorities[0];
    root.authorities[0].chain.at[0] = other.der;
    root.authority_count = 2;
    root.stampers[1] = root.stampers[0];
    root.stampers[0].chain = root.authorities[0].chain;
    root.stamper_count = 2;
    assert_fault(verify(&bundle, &expect), NONE);
    party_clear(&other);
}

#define FRESH(test) cmocka_unit_test_setup(test, fresh)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FRESH(an_altered_signature_is_refused),
        FRESH(another_file_is_refused),
        FRESH(an_altered_log_entry_is_refused),
        FRESH(an_entry_of_another_signature_is_refused),
        FRESH(an_entry_of_an_unknown_log_is_refused),
        FRESH(an_entry_made_outside_its_logs_window_is_refused),
        FRESH(an_altered_time_stamp_is_refused),
        FRESH(a_time_stamp_of_something_else_is_refused),
        FRESH(one_bad_time_stamp_spoils_a_good_one),
        FRESH(a_time_stamping_authority_counts_in_its_window_and_by_its_own_certificate),
        FRESH(a_certificate_of_another_authority_is_refused),
        FRESH(an_altered_certificate_is_refused),
        FRESH(a_certificate_for_another_use_is_refused),
        FRESH(an_authority_for_another_use_is_refused),
        FRESH(a_signature_outside_the_certificates_time_is_refused),
        FRESH(every_proven_time_must_fit_the_certificate),
        FRESH(an_authority_outside_its_window_is_refused),
        FRESH(without_a_proven_time_no_certificate_is_judged),
        FRESH(another_identity_is_refused),
        FRESH(without_expectations_no_certificate_is_believed),
        FRESH(another_key_is_refused),
        FRESH(a_certificate_and_an_entry_of_the_bare_key_do_not_go_together),
        FRESH(a_pinned_key_needs_an_entry_where_the_root_names_logs),
        FRESH(a_keyless_bundle_with_a_signed_entry_is_believed),
        FRESH(a_keyless_bundle_with_a_time_stamp_is_believed),
        FRESH(the_first_second_of_a_certificate_counts_and_its_end_does_not),
        FRESH(a_bundle_of_a_pinned_key_with_entry_and_time_stamp_is_believed),
        FRESH(several_authorities_are_tried),
    };
    return cmocka_run_group_tests_name("bundle_verify", tests, begin, end);
}
