#include "appliance/base/clock.h"
#include "appliance/base/codec.h"
#include "appliance/base/id.h"
#include "testlib.h"

static void tenant_ids_outside_their_alphabet_are_refused(void **state)
{
    (void)state;
    char long_text[65];
    memset(long_text, 'a', 64);
    long_text[64] = 0;
    const char *const bad[] = { "", "-a", "A", "a.b", "a*", "a>", "a b", "a\n", "\xc3\xa4", long_text };
    struct tenant_id id = { "kept" };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_fault(tenant_id_parse(span_text(bad[i]), &id), BAD_ARGUMENT);
    }
    assert_fault(tenant_id_parse(span_of("a\0b", 3), &id), BAD_ARGUMENT);
    assert_string_equal(id.text, "kept");
    assert_fault(tenant_id_parse(span_text(long_text + 1), &id), NONE);
    assert_fault(tenant_id_parse(span_text("0-a-"), &id), NONE);
    assert_string_equal(id.text, "0-a-");
    assert_true(tenant_id_equal(id, (struct tenant_id){ "0-a-" }));
    assert_false(tenant_id_equal(id, (struct tenant_id){ "0-a" }));
}

static void uuids_have_one_form(void **state)
{
    (void)state;
    const char *const bad[] = { "",
                                "0193cabc-def0-7abc-8def-0123456789a",
                                "0193cabc-def0-7abc-8def-0123456789abc",
                                "0193CABC-def0-7abc-8def-0123456789ab",
                                "0193cabcd-ef0-7abc-8def-0123456789ab",
                                "0193cabc_def0-7abc-8def-0123456789ab",
                                "{193cabc-def0-7abc-8def-0123456789a}" };
    struct uuid id = { "kept" };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_fault(uuid_parse(span_text(bad[i]), &id), BAD_ARGUMENT);
    }
    assert_string_equal(id.text, "kept");
    assert_fault(uuid_parse(span_text("0193cabc-def0-7abc-8def-0123456789ab"), &id), NONE);
}

static void new_uuids_are_version_7_and_carry_the_time(void **state)
{
    (void)state;
    struct uuid a = { 0 }, b = { 0 }, again = { 0 };
    int64_t before = clock_utc() / 1000;
    assert_fault(uuid_new(&a), NONE);
    assert_fault(uuid_new(&b), NONE);
    int64_t after = clock_utc() / 1000;
    assert_false(uuid_equal(a, b));
    assert_fault(uuid_parse(span_text(a.text), &again), NONE);
    assert_true(uuid_equal(a, again));
    assert_int_equal(a.text[14], '7');
    assert_non_null(strchr("89ab", a.text[19]));
    char hex[13];
    memcpy(hex, a.text, 8);
    memcpy(hex + 8, a.text + 9, 4);
    hex[12] = 0;
    int64_t ms = (int64_t)strtoull(hex, NULL, 16);
    assert_true(ms >= before && ms <= after);
}

static void derived_uuids_depend_on_each_part_and_its_bounds(void **state)
{
    (void)state;
    const struct span ab_c[] = { span_text("ab"), span_text("c") }, a_bc[] = { span_text("a"), span_text("bc") };
    struct uuid first = { 0 }, same = { 0 }, moved = { 0 }, other_domain = { 0 }, shorter = { 0 };
    assert_fault(uuid_derive("svc.test", ab_c, 2, &first), NONE);
    assert_fault(uuid_derive("svc.test", ab_c, 2, &same), NONE);
    assert_fault(uuid_derive("svc.test", a_bc, 2, &moved), NONE);
    assert_fault(uuid_derive("svc.tes", ab_c, 2, &other_domain), NONE);
    assert_fault(uuid_derive("svc.test", ab_c, 1, &shorter), NONE);
    assert_true(uuid_equal(first, same));
    assert_false(uuid_equal(first, moved));
    assert_false(uuid_equal(first, other_domain));
    assert_false(uuid_equal(first, shorter));
    assert_int_equal(first.text[14], '8');
    assert_non_null(strchr("89ab", first.text[19]));
}

/* What is derived is stored: this value may never change. */
static void a_derived_uuid_is_the_same_for_ever(void **state)
{
    (void)state;
    const struct span parts[] = { span_text("tenant"), span_text("key") };
    struct uuid id = { 0 };
    assert_fault(uuid_derive("svc.golden", parts, 2, &id), NONE);
    /* sha256("svc.golden\0" || u64 6 || "tenant" || u64 3 || "key"), version and variant set */
    assert_string_equal(id.text, "45ca94b9-8c57-8b40-a5f2-3431d241fa57");
}

static void digests_match_fips_180_4_vectors(void **state)
{
    (void)state;
    struct sha256 whole = { 0 }, parts = { 0 };
    char hex[65];
    const struct span abc[] = { span_text("a"), span_text(""), span_text("bc") };
    assert_fault(sha256_of(span_text("abc"), &whole), NONE);
    hex_text(SPAN_ARRAY(whole.at), hex, sizeof(hex));
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_fault(sha256_of_parts(abc, 3, &parts), NONE);
    assert_memory_equal(parts.at, whole.at, SHA256_LEN);
    assert_fault(sha256_of((struct span){ 0 }, &whole), NONE);
    hex_text(SPAN_ARRAY(whole.at), hex, sizeof(hex));
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

static void macs_match_rfc_4231(void **state)
{
    (void)state;
    struct sha256 mac = { 0 };
    char hex[65];
    uint8_t key[20];
    memset(key, 0x0b, sizeof(key));
    const struct span parts[] = { span_text("Hi "), span_text("There") };
    assert_fault(hmac_sha256(SPAN_ARRAY(key), parts, 2, &mac), NONE);
    hex_text(SPAN_ARRAY(mac.at), hex, sizeof(hex));
    assert_string_equal(hex, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    const struct span second[] = { span_text("what do ya want for nothing?") };
    assert_fault(hmac_sha256(span_text("Jefe"), second, 1, &mac), NONE);
    hex_text(SPAN_ARRAY(mac.at), hex, sizeof(hex));
    assert_string_equal(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
}

static void random_bytes_fill_the_whole_range(void **state)
{
    (void)state;
    uint8_t seen[64] = { 0 };
    for (int round = 0; round < 64; round++) {
        uint8_t bytes[64];
        assert_fault(random_bytes(bytes, sizeof(bytes)), NONE);
        for (size_t i = 0; i < sizeof(bytes); i++) {
            seen[i] |= bytes[i];
        }
    }
    for (size_t i = 0; i < sizeof(seen); i++) {
        assert_int_equal(seen[i], 0xff);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tenant_ids_outside_their_alphabet_are_refused),
        cmocka_unit_test(uuids_have_one_form),
        cmocka_unit_test(new_uuids_are_version_7_and_carry_the_time),
        cmocka_unit_test(derived_uuids_depend_on_each_part_and_its_bounds),
        cmocka_unit_test(a_derived_uuid_is_the_same_for_ever),
        cmocka_unit_test(digests_match_fips_180_4_vectors),
        cmocka_unit_test(macs_match_rfc_4231),
        cmocka_unit_test(random_bytes_fill_the_whole_range),
    };
    return cmocka_run_group_tests_name("id", tests, NULL, NULL);
}
