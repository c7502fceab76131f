/* The DigestInfo that CKM_RSA_PKCS callers hand in: exactly RFC 8017's, or nothing. */
#include "tests/testlib.h"

#include "api/pkcs11/hash.h"

static const uint8_t sha256_head[] = { 0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01,
                                       0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04, 0x20 };
static const uint8_t sha384_head[] = { 0x30, 0x41, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01,
                                       0x65, 0x03, 0x04, 0x02, 0x02, 0x05, 0x00, 0x04, 0x30 };
static const uint8_t sha512_head[] = { 0x30, 0x51, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01,
                                       0x65, 0x03, 0x04, 0x02, 0x03, 0x05, 0x00, 0x04, 0x40 };

static size_t info_made(const uint8_t head[19], size_t digest_len, uint8_t *out)
{
    memcpy(out, head, 19);
    for (size_t i = 0; i < digest_len; i++) {
        out[19 + i] = (uint8_t)(i + 1);
    }
    return 19 + digest_len;
}

static void a_digest_without_its_wrapping_is_refused(void **state)
{
    (void)state;
    uint8_t bytes[64] = { 0 };
    struct span digest;
    for (size_t len = 0; len <= sizeof(bytes); len++) {
        assert_null(hash_unwrap(span_of(bytes, len), &digest));
    }
}

static void every_changed_byte_of_the_head_is_refused(void **state)
{
    (void)state;
    uint8_t info[128];
    struct span digest;
    size_t len = info_made(sha256_head, 32, info);
    for (size_t i = 0; i < 19; i++) {
        for (unsigned flip = 1; flip < 256; flip++) {
            info[i] = (uint8_t)(info[i] ^ flip);
            assert_null(hash_unwrap(span_of(info, len), &digest));
            info[i] = (uint8_t)(info[i] ^ flip);
        }
    }
}

static void a_digest_too_short_or_too_long_is_refused(void **state)
{
    (void)state;
    uint8_t info[128] = { 0 };
    struct span digest;
    size_t len = info_made(sha256_head, 32, info);
    for (size_t i = 0; i < sizeof(info); i++) {
        assert_true(i == len || hash_unwrap(span_of(info, i), &digest) == NULL);
    }
}

static void sha1_and_parameters_left_out_are_refused(void **state)
{
    (void)state;
    static const uint8_t sha1[35] = { 0x30, 0x21, 0x30, 0x09, 0x06, 0x05, 0x2b, 0x0e,
                                      0x03, 0x02, 0x1a, 0x05, 0x00, 0x04, 0x14 };
    uint8_t without_null[49] = { 0x30, 0x2f, 0x30, 0x0b, 0x06, 0x09, 0x60, 0x86, 0x48,
                                 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x04, 0x20 };
    struct span digest;
    assert_null(hash_unwrap(SPAN_ARRAY(sha1), &digest));
    assert_null(hash_unwrap(SPAN_ARRAY(without_null), &digest));
}

static void each_hash_is_known_by_its_head(void **state)
{
    (void)state;
    static const struct {
        const uint8_t *head;
        size_t len;
        const char *name;
    } rows[] = { { sha256_head, 32, "sha256" }, { sha384_head, 48, "sha384" }, { sha512_head, 64, "sha512" } };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint8_t info[128];
        struct span digest = { 0 };
        const struct hash *hash = hash_unwrap(span_of(info, info_made(rows[i].head, rows[i].len, info)), &digest);
        assert_non_null(hash);
        assert_string_equal(hash->name, rows[i].name);
        assert_ptr_equal(digest.at, info + 19);
        assert_int_equal(digest.len, rows[i].len);
        assert_ptr_equal(hash, hash_by_len(rows[i].len));
        assert_ptr_equal(hash, hash_by_mechanism(hash->mechanism));
    }
    assert_null(hash_by_len(20));
    assert_null(hash_by_mechanism(CKM_SHA_1));
}

static void the_context_is_not_the_hosts(void **state)
{
    (void)state;
    CLEANUP(EVP_MD_CTX_freep) EVP_MD_CTX *md = NULL;
    assert_null(crypto_context());
    assert_fault(context_ready(), NONE);
    assert_non_null(crypto_context());
    OSSL_LIB_CTX *made = crypto_context();
    assert_fault(context_ready(), NONE);
    assert_ptr_equal(crypto_context(), made);
    assert_fault(hash_start(hash_by_len(48), &md), NONE);
    assert_int_equal(EVP_MD_CTX_get_size(md), 48);
    assert_ptr_equal(OSSL_LIB_CTX_set0_default(NULL), OSSL_LIB_CTX_get0_global_default());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_digest_without_its_wrapping_is_refused),
        cmocka_unit_test(every_changed_byte_of_the_head_is_refused),
        cmocka_unit_test(a_digest_too_short_or_too_long_is_refused),
        cmocka_unit_test(sha1_and_parameters_left_out_are_refused),
        cmocka_unit_test(each_hash_is_known_by_its_head),
        cmocka_unit_test(the_context_is_not_the_hosts),
    };
    return cmocka_run_group_tests_name("pkcs11_hash", tests, NULL, NULL);
}
