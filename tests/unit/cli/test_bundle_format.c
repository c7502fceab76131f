/* Bundles and trusted roots as text: what is refused, and that what is written is read as it was. */
#include "tests/unit/cli/sigstore.h"

#include "api/cli/signing.h"

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

static const char *printed(const struct bundle *bundle)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT(BUNDLE_MAX);
    const char *text = NULL;
    assert_fault(bundle_print(bundle, &out), NONE);
    assert_fault(arena_text(world.op->arena, buf_span(&out), &text), NONE);
    return text;
}

/* The text with one part replaced: there must be one. */
static const char *edited(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from), *made = NULL;
    if (at == NULL) {
        fail_msg("no %s in %s", from, text);
    }
    assert_fault(arena_printf(world.op->arena, &made, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)), NONE);
    return made;
}

static struct fault parse(const char *text)
{
    struct bundle bundle;
    world.op->note = (struct fault_note){ 0 };
    return bundle_parse(world.op, span_text(text), &bundle);
}

#define assert_bundle_refused(text, says)                    \
    do {                                                     \
        assert_fault(parse(text), BUNDLE_INVALID);           \
        if (strstr(world.op->note.detail, (says)) == NULL) { \
            fail_msg("says: %s", world.op->note.detail);     \
        }                                                    \
    } while (0)

static const char *good(void)
{
    struct bundle bundle = with_entry(&world, world.leaf.der, SIGNED_AT);
    bundle.stamps[0] = stamp_made(&world, world.signature, SIGNED_AT);
    bundle.stamp_count = 1;
    return printed(&bundle);
}

static void what_is_no_bundle_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = { "", "x", "[]", "null", "7", "\"text\"", "{\"a\":1,\"a\":2}" };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_bundle_refused(bad[i], "no JSON object");
    }
    assert_bundle_refused("{}", "mediaType");
    assert_bundle_refused(edited(good(), "v0.3+json", "v0.9+json"), "mediaType");
    assert_bundle_refused(edited(good(), "\"mediaType\":\"", "\"mediaType\":7,\"x\":\""), "mediaType: must be text");
}

static void a_part_that_is_missing_is_refused(void **state)
{
    (void)state;
    assert_bundle_refused(edited(good(), "\"verificationMaterial\"", "\"material\""), "verificationMaterial");
    assert_bundle_refused(edited(good(), "\"messageSignature\"", "\"other\""), "messageDigest.algorithm");
    assert_bundle_refused(edited(good(), "\"signature\":\"", "\"sig\":\""), "messageSignature.signature");
    assert_bundle_refused(edited(good(), "\"algorithm\"", "\"algo\""), "messageDigest.algorithm");
    assert_bundle_refused(edited(good(), "\"digest\"", "\"dig\""), "must be 32 bytes");
    assert_bundle_refused(edited(good(), "\"certificate\"", "\"cert\""), "needs one of");
    assert_bundle_refused(edited(good(), "\"rawBytes\"", "\"raw\""), "certificate does not decode");
    assert_bundle_refused(edited(good(), "\"inclusionProof\"", "\"proof\""), "inclusionProof");
    assert_bundle_refused(edited(good(), "\"canonicalizedBody\"", "\"body\""), "transparency entry 1: ");
    assert_bundle_refused(edited(good(), "\"signedTimestamp\"", "\"stamp\""), "is empty");
}

static void a_part_of_the_wrong_kind_is_refused(void **state)
{
    (void)state;
    assert_bundle_refused(edited(good(), "\"algorithm\":\"SHA2_256\"", "\"algorithm\":\"SHA1\""),
                          "messageDigest.algorithm");
    assert_bundle_refused(edited(good(), "\"algorithm\":\"SHA2_256\"", "\"algorithm\":\"SHA2_512\""),
                          "must be 64 bytes");
    assert_bundle_refused(edited(good(), "\"algorithm\":\"SHA2_256\"", "\"algorithm\":\"SHA2_256\\u0000x\""),
                          "must be text");
    assert_bundle_refused(edited(good(), "\"signedTimestamp\":\"", "\"signedTimestamp\":\"*"), "must be base64");
    assert_bundle_refused(edited(good(), "\"rfc3161Timestamps\":[", "\"rfc3161Timestamps\":7,\"x\":["),
                          "must be an array");
    assert_bundle_refused(edited(good(), "\"certificate\":{", "\"certificate\":[],\"x\":{"), "must be an object");
    assert_bundle_refused(edited(good(), "\"logIndex\":\"41\"", "\"logIndex\":\"-1\""), "transparency entry 1: ");
    assert_bundle_refused(edited(good(), "\"logIndex\":\"41\"", "\"logIndex\":\"4x\""), "transparency entry 1: ");
}

static void two_signers_are_refused(void **state)
{
    (void)state;
    assert_bundle_refused(edited(good(), "\"certificate\"", "\"publicKey\":{\"hint\":\"x\"},\"certificate\""),
                          "needs one of");
}

static void an_attestation_is_refused(void **state)
{
    (void)state;
    assert_bundle_refused(edited(good(), "\"messageSignature\"", "\"dsseEnvelope\":{},\"messageSignature\""),
                          "attestation");
}

static void too_much_is_refused(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf stamps = BUF_INIT(ROOM);
    for (int i = 0; i <= BUNDLE_STAMPS_MAX; i++) {
        assert_fault(buf_text(&stamps, "{\"signedTimestamp\":\"AAAA\"},"), NONE);
    }
    const char *text = NULL;
    assert_fault(buf_cstr(&stamps, &text), NONE);
    const char *list = NULL;
    assert_fault(arena_printf(world.op->arena, &list, "\"rfc3161Timestamps\":[%s", text), NONE);
    assert_bundle_refused(edited(good(), "\"rfc3161Timestamps\":[", list), "more than 8");
    struct bundle bundle;
    struct span large = { (const uint8_t *)list, BUNDLE_MAX + 1 };
    assert_fault(bundle_parse(world.op, large, &bundle), BUNDLE_INVALID); /* its length alone is looked at */
}

static void unknown_members_are_passed_over(void **state)
{
    (void)state;
    assert_fault(parse(edited(good(), "\"messageSignature\":{",
                              "\"new\":{\"signature\":\"x\"},\"messageSignature\":{\"more\":[1,{}],")),
                 NONE);
    assert_fault(parse(edited(good(), "\"logIndex\":\"41\"", "\"logIndex\":41")), NONE);
}

static void an_older_bundle_may_have_a_promise_alone(void **state)
{
    (void)state;
    const char *text = edited(good(), "\"inclusionProof\"", "\"x\"");
    assert_fault(parse(edited(text, "bundle.v0.3+json", "bundle+json;version=0.1")), NONE);
    assert_bundle_refused(edited(text, "bundle.v0.3+json", "bundle+json;version=0.2"), "inclusionProof");
    text = edited(good(), "\"certificate\":{", "\"x509CertificateChain\":{\"certificates\":[{");
    text = edited(text, "},\"tlogEntries\"", "}]},\"tlogEntries\"");
    assert_fault(parse(edited(text, "bundle.v0.3+json", "bundle+json;version=0.2")), NONE);
}

static void what_is_written_is_read_as_it_was(void **state)
{
    (void)state;
    struct bundle bundle = with_entry(&world, world.leaf.der, SIGNED_AT), read;
    bundle.stamps[0] = stamp_made(&world, world.signature, SIGNED_AT);
    bundle.stamp_count = 1;
    const char *text = printed(&bundle);
    assert_fault(bundle_parse(world.op, span_text(text), &read), NONE);
    assert_string_equal(printed(&read), text);
    assert_true(span_equal(read.chain.at[0], world.leaf.der));
    assert_true(span_equal(read.signature, world.signature));
    assert_true(span_equal(read.stamps[0], bundle.stamps[0]));
    assert_int_equal(read.entries[0].log_index, 41);
    assert_string_equal(read.entries[0].checkpoint, bundle.entries[0].checkpoint);
}

static void a_plain_key_is_hinted_at_as_others_do(void **state)
{
    (void)state;
    struct bundle bundle = bundle_of(&world, (struct span){ 0 }), read;
    struct sha256 digest;
    assert_fault(bundle_hint(world.op, world.leaf.spki, &bundle.hint), NONE);
    assert_fault(sha256_of(world.leaf.spki, &digest), NONE);
    assert_string_equal(bundle.hint, text64(world.op, SPAN_ARRAY(digest.at)));
    assert_fault(bundle_parse(world.op, span_text(printed(&bundle)), &read), NONE);
    assert_string_equal(read.hint, bundle.hint);
    assert_int_equal(read.chain.count, 0);
}

static void an_entry_says_whether_it_names_a_certificate(void **state)
{
    (void)state;
    struct tlog_entry entry = entry_made(&world, world.leaf.der, SIGNED_AT);
    assert_true(bundle_entry_has_certificate(world.op, &entry));
    entry = entry_made(&world, (struct span){ 0 }, SIGNED_AT);
    assert_false(bundle_entry_has_certificate(world.op, &entry));
    entry.body = span_text("{\"spec\":{\"hashedRekordV002\":{\"signature\":{\"verifier\":{\"x509Certificate\":{"
                           "\"rawBytes\":\"AA==\"}}}}}}");
    assert_true(bundle_entry_has_certificate(world.op, &entry));
    entry.body = span_text("{");
    assert_false(bundle_entry_has_certificate(world.op, &entry));
}

/* cosign refuses a certificate where a key is pinned, and an entry that names another signer. */
static void a_bundle_names_the_signer_that_verifiers_take(void **state)
{
    (void)state;
    const struct profile company = { .name = "release", .from = CA_FROM, .until = CA_UNTIL, .usage = "codeSigning" };
    const struct chain none = { .count = 0 }, keyless = { .at = { world.leaf.der, world.ca.der }, .count = 2 };
    const struct chain plain = { .at = { leaf_again(&world, &company, &world.ca) }, .count = 1 };
    const struct bundle of_key = with_entry(&world, (struct span){ 0 }, SIGNED_AT);
    const struct bundle of_certificate = with_entry(&world, world.leaf.der, SIGNED_AT);
    const struct {
        const struct chain *chain;
        const struct bundle *entry;
        bool by_certificate;
    } cases[] = {
        { &none, NULL, false },     { &keyless, NULL, true },
        { &plain, NULL, false },    { &keyless, &of_certificate, true },
        { &plain, &of_key, false }, { &keyless, &of_key, false },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        CLEANUP(buf_free) struct buf out = BUF_INIT(BUNDLE_MAX);
        struct bundle_parts parts = { .hash = "sha256",
                                      .digest = world.digest,
                                      .signature = world.signature,
                                      .spki = world.leaf.spki,
                                      .chain = cases[i].chain };
        struct view document;
        struct bundle read;
        if (cases[i].entry != NULL) {
            assert_fault(view_of(world.op, span_text(printed(cases[i].entry)), &document), NONE);
            struct view list = view_get(document, "verificationMaterial.tlogEntries");
            assert_true(view_next(&list, &parts.entry));
        }
        assert_fault(bundle_assemble(world.op, &parts, &out), NONE);
        assert_fault(bundle_parse(world.op, buf_span(&out), &read), NONE);
        assert_int_equal(read.chain.count, cases[i].by_certificate ? 1 : 0);
        assert_int_equal(read.entry_count, cases[i].entry != NULL ? 1 : 0);
        assert_true((read.hint == NULL) == cases[i].by_certificate);
    }
}

/* ---- trusted roots ---- */

static const char *root_text(void)
{
    return root_json(&world);
}

static struct fault parse_root(const char *text, struct trusted_root **ret_root)
{
    world.op->note = (struct fault_note){ 0 };
    return trusted_root_parse(world.op, span_text(text), ret_root);
}

#define assert_root_refused(text, says)                           \
    do {                                                          \
        struct trusted_root *root_ = NULL;                        \
        assert_fault(parse_root((text), &root_), BUNDLE_INVALID); \
        if (strstr(world.op->note.detail, (says)) == NULL) {      \
            fail_msg("says: %s", world.op->note.detail);          \
        }                                                         \
    } while (0)

static void what_is_no_trusted_root_is_refused(void **state)
{
    (void)state;
    assert_root_refused("", "no JSON object");
    assert_root_refused("[]", "no JSON object");
    assert_root_refused("{}", "mediaType");
    assert_root_refused(good(), "mediaType");
    assert_root_refused("{\"mediaType\":\"application/vnd.dev.sigstore.trustedroot+json;version=0.1\"}", "nobody");
}

static void a_bad_part_of_a_trusted_root_is_refused(void **state)
{
    (void)state;
    assert_root_refused(edited(root_text(), "\"rawBytes\":\"", "\"rawBytes\":\"*"), "must be base64");
    assert_root_refused(edited(root_text(), "\"rawBytes\":\"", "\"rawBytes\":\"AAAA"), "no public key");
    assert_root_refused(
        edited(root_text(), "\"certificates\":[{\"rawBytes\":\"", "\"certificates\":[{\"rawBytes\":\"AAAA"),
        "certificate does not decode");
    assert_root_refused(edited(root_text(), "\"certificates\":[", "\"certificates\":[],\"x\":["),
                        "no certificate in it");
    assert_root_refused(edited(root_text(), "2025-01-01T00:00:00Z", "2025-01-01"), "RFC 3339");
    assert_root_refused(edited(root_text(), "2025-01-01T00:00:00Z", "2028-01-01T00:00:00Z"), "lies before");
    assert_root_refused(edited(root_text(), "\"tlogs\":[", "\"tlogs\":{\"x\":[]},\"x\":["), "must be an array");
}

static void a_trusted_root_is_read(void **state)
{
    (void)state;
    struct trusted_root *root = NULL;
    assert_fault(parse_root(root_text(), &root), NONE);
    assert_int_equal(root->log_count, 1);
    assert_true(span_equal(root->logs[0].spki, world.log.spki));
    assert_true(root->logs[0].valid_from == INT64_C(1735689600) * US_PER_S);
    assert_true(root->logs[0].valid_until == INT64_C(1798761600) * US_PER_S + 500000);
    assert_int_equal(root->authority_count, 1);
    assert_int_equal(root->authorities[0].until, 0);
    assert_int_equal(root->stampers[0].chain.count, 2);
    assert_true(span_equal(root->stampers[0].chain.at[1], world.tsa_root.der));
}

static void a_log_key_of_another_form_is_not_believed(void **state)
{
    (void)state;
    struct trusted_root *root = NULL;
    assert_fault(parse_root(edited(root_text(), "PKIX_ECDSA_P256_SHA_256", "PKCS1_RSA_PKCS1V5"), &root), NONE);
    assert_int_equal(root->log_count, 0);
}

static void a_window_includes_its_ends(void **state)
{
    (void)state;
    const struct trusted_authority authority = { .from = 10, .until = 20 }, open = { .from = 10 };
    assert_false(trusted_at(&authority, 9));
    assert_true(trusted_at(&authority, 10));
    assert_true(trusted_at(&authority, 20));
    assert_false(trusted_at(&authority, 21));
    assert_true(trusted_at(&open, INT64_MAX));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_no_bundle_is_refused),
        cmocka_unit_test(a_part_that_is_missing_is_refused),
        cmocka_unit_test(a_part_of_the_wrong_kind_is_refused),
        cmocka_unit_test(two_signers_are_refused),
        cmocka_unit_test(an_attestation_is_refused),
        cmocka_unit_test(too_much_is_refused),
        cmocka_unit_test(unknown_members_are_passed_over),
        cmocka_unit_test(an_older_bundle_may_have_a_promise_alone),
        cmocka_unit_test(what_is_written_is_read_as_it_was),
        cmocka_unit_test(a_plain_key_is_hinted_at_as_others_do),
        cmocka_unit_test(an_entry_says_whether_it_names_a_certificate),
        cmocka_unit_test(a_bundle_names_the_signer_that_verifiers_take),
        cmocka_unit_test(what_is_no_trusted_root_is_refused),
        cmocka_unit_test(a_bad_part_of_a_trusted_root_is_refused),
        cmocka_unit_test(a_trusted_root_is_read),
        cmocka_unit_test(a_log_key_of_another_form_is_not_believed),
        cmocka_unit_test(a_window_includes_its_ends),
    };
    return cmocka_run_group_tests_name("bundle_format", tests, begin, end);
}
