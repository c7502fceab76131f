/* Chains of signers, and their names. */
#include "tests/unit/cli/sigstore.h"

static struct world world;

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

static struct fault judge(struct span leaf, const struct party *root, int64_t time, enum signer_use use)
{
    const struct chain signer = { .at = { leaf }, .count = 1 }, authority = { .at = { root->der }, .count = 1 };
    world.op->note = (struct fault_note){ 0 };
    return chain_verify(world.op, &signer, &authority, time * US_PER_S, use);
}

static void what_is_no_certificate_is_refused(void **state)
{
    (void)state;
    X509 *parsed = NULL;
    struct span longer, der = world.leaf.der;
    CLEANUP(buf_free) struct buf two = BUF_INIT(ROOM);
    assert_fault(certificate_parse(world.op, (struct span){ 0 }, &parsed), BAD_ARGUMENT);
    assert_fault(certificate_parse(world.op, span_of(der.at, der.len - 1), &parsed), BAD_ARGUMENT);
    assert_fault(certificate_parse(world.op, world.leaf.spki, &parsed), BAD_ARGUMENT);
    assert_fault(buf_put(&two, der), NONE);
    assert_fault(buf_u8(&two, 0), NONE);
    longer = buf_span(&two);
    assert_fault(certificate_parse(world.op, longer, &parsed), BAD_ARGUMENT);
    assert_null(parsed);
}

static void a_pem_file_holds_certificates_and_nothing_else(void **state)
{
    (void)state;
    struct chain chain;
    CLEANUP(buf_free) struct buf pem = BUF_INIT(ROOM);
    assert_fault(chain_from_pem(world.op, span_text(""), "x.pem", &chain), BAD_ARGUMENT);
    assert_fault(chain_from_pem(world.op, span_text("nothing here"), "x.pem", &chain), BAD_ARGUMENT);
    assert_fault(chain_from_pem(world.op, pem_of(world.op, "PUBLIC KEY", world.leaf.spki), "x.pem", &chain),
                 BAD_ARGUMENT);
    assert_fault(chain_from_pem(world.op, pem_of(world.op, "CERTIFICATE", world.leaf.spki), "x.pem", &chain),
                 BAD_ARGUMENT);
    for (int i = 0; i <= CHAIN_MAX; i++) {
        assert_fault(buf_put(&pem, pem_of(world.op, "CERTIFICATE", world.ca.der)), NONE);
    }
    assert_fault(chain_from_pem(world.op, buf_span(&pem), "x.pem", &chain), BAD_ARGUMENT);
    struct chain two = { .at = { world.leaf.der, world.ca.der }, .count = 2 };
    buf_clear(&pem);
    assert_fault(chain_to_pem(&two, &pem), NONE);
    assert_fault(chain_from_pem(world.op, buf_span(&pem), "x.pem", &chain), NONE);
    assert_int_equal(chain.count, 2);
    assert_true(span_equal(chain.at[0], world.leaf.der) && span_equal(chain.at[1], world.ca.der));
}

static void a_chain_is_judged_at_the_given_time(void **state)
{
    (void)state;
    assert_fault(judge(world.leaf.der, &world.ca, LEAF_UNTIL + 1, SIGNER_CODE_SIGNING), TIMESTAMP_VALIDITY);
    assert_fault(judge(world.leaf.der, &world.ca, LEAF_FROM - 1, SIGNER_CODE_SIGNING), TIMESTAMP_VALIDITY);
    assert_fault(judge(world.leaf.der, &world.tsa_root, SIGNED_AT, SIGNER_CODE_SIGNING), BUNDLE_INVALID);
    assert_fault(judge(world.leaf.der, &world.ca, SIGNED_AT, SIGNER_CODE_SIGNING), NONE);
}

static void an_authority_that_has_expired_at_the_given_time_is_refused(void **state)
{
    (void)state;
    struct profile old = ca_profile;
    old.until = SIGNED_AT - 1;
    struct party ca = party_made(world.op, &old, NULL);
    assert_fault(judge(leaf_again(&world, &leaf_profile, &ca), &ca, SIGNED_AT, SIGNER_CODE_SIGNING), BUNDLE_INVALID);
    party_clear(&ca);
}

static void intermediates_lead_to_the_root(void **state)
{
    (void)state;
    struct profile middle = ca_profile;
    middle.name = "middle";
    struct party issuing = party_made(world.op, &middle, &world.ca);
    struct span leaf = leaf_again(&world, &leaf_profile, &issuing);
    const struct chain signer = { .at = { leaf, issuing.der }, .count = 2 }, bare = { .at = { leaf }, .count = 1 };
    const struct chain root = { .at = { world.ca.der }, .count = 1 };
    const struct chain both = { .at = { issuing.der, world.ca.der }, .count = 2 };
    utc_us time = SIGNED_AT * US_PER_S;
    assert_fault(chain_verify(world.op, &bare, &root, time, SIGNER_CODE_SIGNING), BUNDLE_INVALID);
    assert_fault(chain_verify(world.op, &signer, &root, time, SIGNER_CODE_SIGNING), NONE);
    assert_fault(chain_verify(world.op, &bare, &both, time, SIGNER_CODE_SIGNING), NONE);
    party_clear(&issuing);
}

static void a_use_that_is_not_stated_is_enough_only_where_any_is(void **state)
{
    (void)state;
    struct profile profile = leaf_profile;
    profile.usage = NULL;
    struct span bare = leaf_again(&world, &profile, &world.ca);
    assert_fault(judge(bare, &world.ca, SIGNED_AT, SIGNER_CODE_SIGNING), BUNDLE_INVALID);
    assert_fault(judge(bare, &world.ca, SIGNED_AT, SIGNER_ANY_USE), NONE);
    profile.usage = "clientAuth";
    bare = leaf_again(&world, &profile, &world.ca);
    assert_fault(judge(bare, &world.ca, SIGNED_AT, SIGNER_ANY_USE), BUNDLE_INVALID);
}

/* With the key usage of a signer, which is no excuse. */
static void a_signer_is_no_authority(void **state)
{
    (void)state;
    struct profile profile = leaf_profile;
    profile.usage = "codeSigning";
    X509 *made = certificate_made(world.leaf.key, &profile, world.ca.certificate, world.ca.key);
    X509_EXTENSION_free(X509_delete_ext(made, X509_get_ext_by_NID(made, NID_basic_constraints, -1)));
    extend(made, NID_basic_constraints, "critical,CA:TRUE");
    assert_true(X509_sign(made, world.ca.key, EVP_sha256()) > 0);
    assert_fault(judge(der_of(world.op, made), &world.ca, SIGNED_AT, SIGNER_ANY_USE), BUNDLE_INVALID);
    X509_free(made);
}

static void extensions_that_contradict_are_refused(void **state)
{
    (void)state;
    X509 *made = certificate_made(world.leaf.key, &leaf_profile, world.ca.certificate, world.ca.key);
    extend(made, NID_basic_constraints, "CA:FALSE"); /* for the second time */
    assert_true(X509_sign(made, world.ca.key, EVP_sha256()) > 0);
    assert_fault(judge(der_of(world.op, made), &world.ca, SIGNED_AT, SIGNER_ANY_USE), BUNDLE_INVALID);
    X509_free(made);
}

static void names_and_issuer_are_read(void **state)
{
    (void)state;
    struct identity identity;
    assert_fault(certificate_identity(world.op, world.leaf.der, &identity), NONE);
    assert_int_equal(identity.name_count, 1);
    assert_string_equal(identity.names[0], IDENTITY);
    assert_string_equal(identity.issuer, ISSUER);
    assert_string_equal(identity.subject, "");
    assert_fault(certificate_identity(world.op, world.ca.der, &identity), NONE);
    assert_int_equal(identity.name_count, 0);
    assert_null(identity.issuer);
    assert_string_equal(identity.subject, "CN=test ca");
    assert_string_equal(identity.common_name, "test ca");
    assert_null(identity.organization);
}

/* A name that others would read as its front part alone. */
static void a_name_with_a_nul_inside_is_refused(void **state)
{
    (void)state;
    static const char name[] = "https://good.example\0.evil.example";
    struct identity identity;
    X509 *made = certificate_made(world.leaf.key, &(struct profile){ .from = LEAF_FROM, .until = LEAF_UNTIL },
                                  world.ca.certificate, world.ca.key);
    GENERAL_NAMES *names = GENERAL_NAMES_new();
    GENERAL_NAME *one = GENERAL_NAME_new();
    ASN1_IA5STRING *text = ASN1_IA5STRING_new();
    assert_int_equal(ASN1_STRING_set(text, name, sizeof(name) - 1), 1);
    GENERAL_NAME_set0_value(one, GEN_URI, text);
    assert_true(sk_GENERAL_NAME_push(names, one) > 0);
    assert_int_equal(X509_add1_ext_i2d(made, NID_subject_alt_name, names, 1, 0), 1);
    assert_true(X509_sign(made, world.ca.key, EVP_sha256()) > 0);
    assert_fault(certificate_identity(world.op, der_of(world.op, made), &identity), BUNDLE_INVALID);
    GENERAL_NAMES_free(names);
    X509_free(made);
}

static void authorities_are_told_from_leaves(void **state)
{
    (void)state;
    assert_true(certificate_is_authority(world.op, world.ca.der));
    assert_false(certificate_is_authority(world.op, world.leaf.der));
    assert_false(certificate_is_authority(world.op, span_text("x")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_certificate_is_refused),
        cmocka_unit_test(a_pem_file_holds_certificates_and_nothing_else),
        cmocka_unit_test(a_chain_is_judged_at_the_given_time),
        cmocka_unit_test(an_authority_that_has_expired_at_the_given_time_is_refused),
        cmocka_unit_test(intermediates_lead_to_the_root),
        cmocka_unit_test(a_use_that_is_not_stated_is_enough_only_where_any_is),
        cmocka_unit_test(a_signer_is_no_authority),
        cmocka_unit_test(extensions_that_contradict_are_refused),
        cmocka_unit_test(names_and_issuer_are_read),
        cmocka_unit_test(a_name_with_a_nul_inside_is_refused),
        cmocka_unit_test(authorities_are_told_from_leaves),
    };
    return cmocka_run_group_tests_name("certificate", tests, begin, end);
}
