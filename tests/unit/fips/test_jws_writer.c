/* A JWS that is written piece by piece is the one that is written at once; and the windows of keys. */
#include "testlib.h"

#include "appliance/base/codec.h"
#include "appliance/base/crypto.h"
#include "fips/jws.h"

#include <openssl/evp.h>

struct signer {
    EVP_PKEY *key;
    struct buf spki;
    struct jwk_set set;
};
static struct op *op;

static struct fault read_set(const struct signer *signer, utc_us from, utc_us to, struct jwk_set *ret_set)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(8192);
    assert_fault(buf_text(&json, "{\"keys\":["), NONE);
    assert_fault(jwk_print_window(buf_span(&signer->spki), from, to, &json), NONE);
    assert_fault(buf_text(&json, "]}"), NONE);
    return jwk_set_parse(op, buf_span(&json), ret_set);
}

static void make(EVP_PKEY *key, struct signer *signer)
{
    unsigned char *der = NULL;
    *signer = (struct signer){ .key = key, .spki = BUF_INIT(4096) };
    assert_non_null(key);
    int len = i2d_PUBKEY(key, &der);
    assert_true(len > 0);
    assert_fault(buf_put(&signer->spki, span_of(der, (size_t)len)), NONE);
    OPENSSL_free(der);
    assert_fault(read_set(signer, 0, 0, &signer->set), NONE);
}

static void clear(struct signer *signer)
{
    EVP_PKEY_free(signer->key);
    buf_free(&signer->spki);
    jwk_set_free(&signer->set);
}

static int begin(void **state)
{
    (void)state;
    return FAULTED(op_new("test", (struct tenant_id){ "acme" }, 60000, &op)) ? 1 : 0;
}

static int end(void **state)
{
    (void)state;
    op_free(op);
    return 0;
}

static void write_in_steps(const struct signer *signer, struct span payload, size_t step, struct buf *out)
{
    CLEANUP(jws_writer_freep) struct jws_writer *writer = NULL;
    assert_fault(jws_writer_new(op, signer->key, buf_span(&signer->spki), "t+jws", &writer, out), NONE);
    for (size_t from = 0; from < payload.len; from += step) {
        size_t len = payload.len - from < step ? payload.len - from : step;
        assert_fault(jws_writer_payload(writer, span_of(payload.at + from, len), out), NONE);
        assert_fault(jws_writer_payload(writer, (struct span){ 0 }, out), NONE);
    }
    assert_fault(jws_writer_end(op, writer, out), NONE);
}

static void check_steps(const struct signer *signer)
{
    uint8_t payload[23];
    for (size_t i = 0; i < sizeof(payload); i++) {
        payload[i] = (uint8_t)(i * 37);
    }
    for (size_t len = 0; len <= sizeof(payload); len += 1 + len / 8) {
        CLEANUP(buf_free) struct buf whole = BUF_INIT(8192);
        assert_fault(jws_sign(op, signer->key, buf_span(&signer->spki), "t+jws", span_of(payload, len), &whole), NONE);
        size_t shared = (size_t)((const uint8_t *)memrchr(whole.at, '.', whole.len) - whole.at);
        for (size_t step = 1; step <= 8; step++) {
            CLEANUP(buf_free) struct buf pieces = BUF_INIT(8192);
            struct span found = { 0 };
            const char *kid = NULL;
            write_in_steps(signer, span_of(payload, len), step, &pieces);
            assert_int_equal(pieces.len, whole.len);
            assert_memory_equal(pieces.at, whole.at, shared + 1);
            assert_fault(jws_verify(op, buf_span(&pieces), "t+jws", &signer->set, &found, &kid), NONE);
            assert_true(span_equal(found, span_of(payload, len)));
        }
    }
}

static void however_it_is_cut_into_pieces_it_is_the_same_jws(void **state)
{
    (void)state;
    struct signer ec, rsa;
    make(EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256"), &ec);
    make(EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)2048), &rsa);
    check_steps(&ec);
    check_steps(&rsa);
    clear(&ec);
    clear(&rsa);
}

static void a_window_is_printed_read_back_and_refused_when_it_ends_before_it_begins(void **state)
{
    (void)state;
    struct signer ec;
    struct jwk_set set = { 0 };
    make(EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256"), &ec);
    assert_int_equal(ec.set.at[0].not_before, 0);
    assert_int_equal(ec.set.at[0].not_after, 0);
    assert_fault(read_set(&ec, 1795233036123456, 1795233036123455, &set), JWS_FORMAT);
    assert_fault(read_set(&ec, 1795233036123456, 1795233036123456, &set), NONE);
    assert_int_equal(set.at[0].not_before, 1795233036123456);
    assert_int_equal(set.at[0].not_after, 1795233036123456);
    jwk_set_free(&set);
    clear(&ec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_is_printed_read_back_and_refused_when_it_ends_before_it_begins),
        cmocka_unit_test(however_it_is_cut_into_pieces_it_is_the_same_jws),
    };
    return cmocka_run_group_tests_name("jws_writer", tests, begin, end);
}
