/* Each known-answer test is worth something only if it fails on a wrong answer: every vector is spoilt once. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "fips/internal.h"

#include <openssl/crypto.h>

/* Every part of the vectors that decides, by name, and the word that the refusal must say. */
static struct kat_vectors copy;
static const struct {
    struct span *part;
    const char *says;
} parts[] = {
    { &copy.digests[0].expected, "SHA256" },
    { &copy.digests[0].message, "SHA256" },
    { &copy.digests[1].expected, "SHA384" },
    { &copy.digests[2].expected, "SHA512" },
    { &copy.hmac.expected, "HMAC" },
    { &copy.hmac_key, "HMAC" },
    { &copy.gcm.key, "AES-256-GCM" },
    { &copy.gcm.aad, "AES-256-GCM" },
    { &copy.gcm.plain, "AES-256-GCM" },
    { &copy.gcm.cipher, "AES-256-GCM" },
    { &copy.gcm.tag, "AES-256-GCM" },
    { &copy.ecdsa[0].signature, "P-256" },
    { &copy.ecdsa[0].message, "P-256" },
    { &copy.ecdsa[0].scalar, "P-256" },
    { &copy.ecdsa[1].signature, "P-384" },
    { &copy.ecdsa[1].scalar, "P-384" },
    { &copy.rsa.pkcs1, "RSA" },
    { &copy.rsa.pss, "RSA" },
    { &copy.rsa.message, "RSA" },
};

static void a_spoilt_vector_is_caught_and_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        copy = kat_vectors;
        uint8_t spoilt[2048];
        struct span whole = *parts[i].part;
        assert_in_range(whole.len, 1, sizeof(spoilt));
        memcpy(spoilt, whole.at, whole.len);
        spoilt[whole.len / 2] ^= 4;
        *parts[i].part = span_of(spoilt, whole.len);

        struct buf detail = BUF_INIT(2048);
        const char *text = NULL;
        assert_int_equal(kat_run(NULL, &copy, &detail).code, FAULT_FIPS_SELF_TEST);
        assert_int_equal(buf_cstr(&detail, &text).code, FAULT_NONE);
        assert_non_null(strstr(text, parts[i].says));
        buf_free(&detail);
    }
}

static void the_true_vectors_pass(void **state)
{
    (void)state;
    struct buf detail = BUF_INIT(2048);
    assert_int_equal(kat_run(NULL, &kat_vectors, &detail).code, FAULT_NONE);
    assert_int_equal(detail.len, 0);
    buf_free(&detail);
}

static void the_tables_name_what_is_tested(void **state)
{
    (void)state;
    size_t count = 0;
    for (const char *const *at = fips_approved_algorithms(); *at != NULL; at++) {
        count++;
    }
    assert_int_equal(count, 9);
    assert_non_null(fips_fences()[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_spoilt_vector_is_caught_and_named),
        cmocka_unit_test(the_true_vectors_pass),
        cmocka_unit_test(the_tables_name_what_is_tested),
    };
    return cmocka_run_group_tests_name("fips self-test", tests, NULL, NULL);
}
