/* A certificate that is handed in is one, whole, in DER; custody is recorded when nothing of it is missing. */
#include "testlib.h"

#include "api/inventory/certificates.h"
#include "api/keys/keys.h"
#include "appliance/base/codec.h"

#include <openssl/err.h>

/* CN=root,O=Test, self-signed, 2026 to 2046. */
static const char pem[] = "-----BEGIN CERTIFICATE-----\n"
                          "MIIBgTCCASagAwIBAgIUb8bKdtlCZq3Kx7Z0GLN/iuK3n5QwCgYIKoZIzj0EAwIw\n"
                          "HjENMAsGA1UEAwwEcm9vdDENMAsGA1UECgwEVGVzdDAeFw0yNjAxMDEwMDAwMDBa\n"
                          "Fw00NjAxMDEwMDAwMDBaMB4xDTALBgNVBAMMBHJvb3QxDTALBgNVBAoMBFRlc3Qw\n"
                          "WTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAAROaFl3G+Nn5zNwL0/4Ur9CBlTWKQ71\n"
                          "IVOT/oNutFhwtHmlry9mpf9KA4ujgjuL45lZSdQxEhGOHKjDzXd4cNDTo0IwQDAP\n"
                          "BgNVHRMBAf8EBTADAQH/MA4GA1UdDwEB/wQEAwICBDAdBgNVHQ4EFgQUHHnrZCeH\n"
                          "MMRj5sFaSFMm7JgRyVIwCgYIKoZIzj0EAwIDSQAwRgIhAKXwJZ2UdJ+3SC9TfQXs\n"
                          "YZoJX86NSSKkI1VCqrMlfVESAiEAnziLMQAbSGjW5xzSQuUhbtv+qTdYrw/EPnMB\n"
                          "p4nAsHU=\n"
                          "-----END CERTIFICATE-----\n";

static struct op *op;

static struct span good(void)
{
    struct span der = { 0 };
    assert_fault(certificate_unwrap(op, pem, "/pem", &der), NONE);
    return der;
}

/* A copy of the certificate with `more` bytes behind it. */
static struct span grown(size_t more)
{
    struct span der = good();
    uint8_t *at = NULL;
    assert_fault(arena_take(op->arena, der.len + more, 1, &at), NONE);
    memcpy(at, der.at, der.len);
    return span_of(at, der.len + more);
}

static void refuses(struct span der)
{
    struct certificate_facts facts = { .subject = "untouched" };
    op->note = (struct fault_note){ 0 };
    assert_fault(certificate_read(op, der, "/certificate_der", &facts), JSON_FIELD);
    assert_string_equal(op->note.pointer, "/certificate_der");
    assert_string_equal(facts.subject, "untouched");
    assert_int_equal(ERR_peek_error(), 0);
}

static void what_is_not_exactly_one_certificate_is_refused(void **state)
{
    (void)state;
    struct span der = good();
    refuses(span_of(der.at, 0));
    for (size_t len = 1; len < der.len; len++) {
        refuses(span_of(der.at, len));
    }
    refuses(grown(1));
    refuses(grown(CERTIFICATE_DER_MAX));
    struct span twice = grown(der.len);
    memcpy((uint8_t *)(uintptr_t)twice.at + der.len, der.at, der.len);
    refuses(twice);
}

/* The outermost length in more octets than it needs, and the same value all the same: BER. */
static void another_encoding_of_a_certificate_is_refused(void **state)
{
    (void)state;
    struct span der = good();
    uint8_t *at = NULL;
    assert_fault(arena_take(op->arena, der.len + 1, 1, &at), NONE);
    assert_int_equal(der.at[1], 0x82);
    at[0] = der.at[0];
    at[1] = 0x83;
    at[2] = 0;
    memcpy(at + 3, der.at + 2, der.len - 2);
    refuses(span_of(at, der.len + 1));
}

static void pem_is_one_block_and_nothing_else(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "-----BEGIN CERTIFICATE-----",
        "-----BEGIN CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\nAAAA\n",
        "-----BEGIN CERTIFICATE-----AAAA\n-----END CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\n\nAAAA\n-----END CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\nAA A\n-----END CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\nAAA\n-----END CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\nmore",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----x",
        "-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n",
        "Subject: x\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct span der = { 0 };
        op->note = (struct fault_note){ 0 };
        if (certificate_unwrap(op, bad[i], "/certificate_pem", &der).code != FAULT_JSON_FIELD || der.at != NULL) {
            fail_msg("'%s' was taken", bad[i]);
        }
        assert_string_equal(op->note.pointer, "/certificate_pem");
    }
    CLEANUP(buf_free) struct buf twice = BUF_INIT(8192);
    const char *text = NULL;
    struct span der = { 0 };
    assert_fault(buf_printf(&twice, "%s%s", pem, pem), NONE);
    assert_fault(buf_cstr(&twice, &text), NONE);
    assert_fault(certificate_unwrap(op, text, "/certificate_pem", &der), JSON_FIELD);
}

static void a_certificate_says_what_it_is(void **state)
{
    (void)state;
    struct certificate_facts facts, again;
    struct sha256 fingerprint;
    struct uuid id, parsed;
    char hex[2 * SHA256_LEN + 1];
    assert_fault(certificate_read(op, good(), "/x", &facts), NONE);
    assert_string_equal(facts.subject, "O=Test,CN=root");
    assert_string_equal(facts.issuer, "O=Test,CN=root");
    assert_string_equal(facts.serial, "6fc6ca76d94266adcac7b67418b37f8ae2b79f94");
    assert_int_equal(facts.not_before, 1767225600 * US_PER_S);
    assert_true(facts.not_after > facts.not_before);
    certificate_describe(op, good(), &again);
    assert_string_equal(again.serial, facts.serial);
    certificate_describe(op, span_of("junk", 4), &again);
    assert_string_equal(again.subject, "");
    assert_fault(sha256_of(good(), &fingerprint), NONE);
    keys_certificate_id(&fingerprint, &id);
    assert_fault(uuid_parse(span_text(id.text), &parsed), NONE);
    hex_text(SPAN_ARRAY(fingerprint.at), hex, sizeof(hex));
    assert_memory_equal(id.text, hex, 8);
    assert_int_equal(id.text[14], '8');
    assert_int_equal(ERR_peek_error(), 0);
}

static void words_outside_the_lists_are_refused_and_the_products_own_too(void **state)
{
    (void)state;
    const struct custody bad[] = {
        { .origin = "elsewhere" },          { .origin = "managed_key" }, { .origin = "own_authority" },
        { .origin = "time_stamping_unit" }, { .storage_class = "safe" }, { .exportability = "no" },
        { .storage_class = "unrecorded" },
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        op->note = (struct fault_note){ 0 };
        assert_fault(custody_check(op, &bad[i], "/custody"), JSON_FIELD);
        assert_memory_equal(op->note.pointer, "/custody/", 9);
        assert_null(strstr(op->note.detail, "managed_key"));
    }
    for (size_t i = 0; custody_storage_classes[i] != NULL; i++) {
        const struct custody fine = { .storage_class = custody_storage_classes[i] };
        assert_fault(custody_check(op, &fine, ""), NONE);
        assert_true(i == 0 || strcmp(custody_storage_classes[i - 1], custody_storage_classes[i]) < 0);
    }
    for (size_t i = 1; custody_origins[i] != NULL; i++) {
        assert_true(strcmp(custody_origins[i - 1], custody_origins[i]) < 0);
    }
}

static void custody_is_recorded_when_nothing_is_missing(void **state)
{
    (void)state;
    const char *missing[CUSTODY_FACTS];
    struct custody custody = { 0 };
    assert_int_equal(custody_missing(&custody, missing), CUSTODY_FACTS);
    assert_true(custody_is_empty(&custody));
    assert_string_equal(missing[0], "exportability");
    assert_string_equal(missing[4], "storage_class");
    custody = (struct custody){
        .origin = "public_ca", .storage_class = "hsm", .exportability = "non_exportable", .holder = "", .locus = "hsm-1"
    };
    assert_int_equal(custody_missing(&custody, missing), 1); /* an empty text states nothing */
    assert_string_equal(missing[0], "holder");
    custody.holder = "pki";
    assert_int_equal(custody_missing(&custody, missing), 0);
}

static int start(void **state)
{
    (void)state;
    return FAULTED(op_new("test", (struct tenant_id){ "default" }, 60000, &op)) ? 1 : 0;
}

static int stop(void **state)
{
    (void)state;
    op_free(op);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_exactly_one_certificate_is_refused),
        cmocka_unit_test(another_encoding_of_a_certificate_is_refused),
        cmocka_unit_test(pem_is_one_block_and_nothing_else),
        cmocka_unit_test(a_certificate_says_what_it_is),
        cmocka_unit_test(words_outside_the_lists_are_refused_and_the_products_own_too),
        cmocka_unit_test(custody_is_recorded_when_nothing_is_missing),
    };
    return cmocka_run_group_tests(tests, start, stop);
}
