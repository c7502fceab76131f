/* Certificates, names and public keys read without OpenSSL: what is read is what OpenSSL says, and never more. */
#include "api/inventory/certificates.h"
#include "api/inventory/crypto.h"
#include "appliance/base/crypto.h"
#include "testlib.h"

#include <openssl/err.h>

#define MADE 12
static struct buf made[MADE];
static EVP_PKEY *signer;

/* One more step of a name; `set` as X509_NAME_add_entry has it: -1 beside the last one. */
static void add_step(X509_NAME *name, const char *type, int encoding, const char *text, int set)
{
    BUG_IF(X509_NAME_add_entry_by_txt(name, type, encoding, (const unsigned char *)text, -1, -1, set) != 1);
}

static void make(size_t at, EVP_PKEY *key, void (*name)(X509_NAME *name), const char *begin, const char *serial)
{
    X509 *certificate = X509_new();
    BIGNUM *number = NULL;
    unsigned char *der = NULL;
    BUG_IF(BN_hex2bn(&number, serial) == 0 || BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) == NULL ||
           X509_set_version(certificate, at % 2 == 0 ? 2 : 0) != 1 ||
           ASN1_TIME_set_string(X509_getm_notBefore(certificate), begin) != 1 ||
           ASN1_TIME_set_string(X509_getm_notAfter(certificate), "20991231235959Z") != 1 ||
           X509_set_pubkey(certificate, key) != 1);
    name(X509_get_subject_name(certificate));
    add_step(X509_get_issuer_name(certificate), "CN", MBSTRING_ASC, "Issuing CA", 0);
    BUG_IF(X509_sign(certificate, signer, EVP_sha256()) == 0);
    int len = i2d_X509(certificate, &der);
    BUG_IF(len <= 0);
    made[at] = (struct buf)BUF_INIT(65536);
    assert_fault(buf_put(&made[at], span_of(der, (size_t)len)), NONE);
    OPENSSL_free(der);
    BN_free(number);
    X509_free(certificate);
}

/* ---- names ---- */

static void usual(X509_NAME *name)
{
    add_step(name, "C", MBSTRING_ASC, "DE", 0);
    add_step(name, "ST", MBSTRING_UTF8, "Berlin", 0);
    add_step(name, "L", MBSTRING_UTF8, "#Mitte ", 0);
    add_step(name, "O", MBSTRING_UTF8, " Example, \"Inc.\"; <a+b>\\", 0);
    add_step(name, "OU", MBSTRING_UTF8, " ", 0);
    add_step(name, "DC", MBSTRING_ASC, "example", 0);
    add_step(name, "serialNumber", MBSTRING_ASC, "4711", 0);
    add_step(name, "emailAddress", MBSTRING_ASC, "pki@example.com", 0);
    add_step(name, "CN", MBSTRING_UTF8, "host.example.com=1", 0);
}

static void nothing(X509_NAME *name)
{
    (void)name;
}

static void beyond_ascii(X509_NAME *name)
{
    add_step(name, "O", MBSTRING_UTF8, "M\xc3\xbcller", 0);
    add_step(name, "CN", MBSTRING_UTF8, "tab\there", 0);
}

static void two_beside(X509_NAME *name)
{
    add_step(name, "O", MBSTRING_UTF8, "one", 0);
    add_step(name, "CN", MBSTRING_UTF8, "two", -1);
}

static void other_types(X509_NAME *name)
{
    add_step(name, "title", V_ASN1_UTF8STRING, "Ada", 0);
    add_step(name, "1.3.6.1.4.1.99999.7", V_ASN1_UTF8STRING, "own", 0);
    add_step(name, "CN", V_ASN1_BMPSTRING, "ab", 0);
    add_step(name, "CN", V_ASN1_T61STRING, "tele", 0);
    add_step(name, "CN", MBSTRING_UTF8, "x", 0);
}

static void very_long(X509_NAME *name)
{
    char text[61] = "";
    memset(text, 'x', sizeof(text) - 1);
    for (int i = 0; i < 40; i++) {
        add_step(name, "OU", MBSTRING_UTF8, text, 0);
    }
}

/* 16 steps whose text is one byte longer than is kept. */
static void just_too_long(X509_NAME *name)
{
    char text[131] = "";
    for (int i = 0; i < 16; i++) {
        memset(text, 'y', sizeof(text));
        text[i == 0 ? 110 : 125] = '\0';
        add_step(name, "OU", V_ASN1_PRINTABLESTRING, text, 0);
    }
}

static void every_character(X509_NAME *name)
{
    for (int c = ' '; c <= '~'; c++) {
        char text[6] = { (char)c, 'm', (char)c, 'm', (char)c, '\0' };
        if (c % 8 == 0) {
            add_step(name, "CN", V_ASN1_UTF8STRING, text, 0);
        }
    }
}

static bool reads_as_openssl(const X509_NAME *name, bool *ret_plain)
{
    CLEANUP(BIO_free_allp) BIO *bio = BIO_new(BIO_s_mem());
    char said[4096], read[4096];
    unsigned char *der = NULL;
    int len = i2d_X509_NAME(name, &der);
    BUG_IF(bio == NULL || len <= 0 || X509_NAME_print_ex(bio, name, 0, XN_FLAG_RFC2253) < 0);
    int said_len = BIO_read(bio, said, sizeof(said) - 1);
    said[said_len > 0 ? said_len : 0] = '\0';
    *ret_plain = crypto_read_name(span_of(der, (size_t)len), read, sizeof(read));
    OPENSSL_free(der);
    return strcmp(*ret_plain ? said : "", read) == 0;
}

static void every_printable_character_is_escaped_where_openssl_escapes_it(void **state)
{
    (void)state;
    for (int c = ' '; c <= '~'; c++) {
        const char texts[][4] = {
            { (char)c }, { (char)c, 'a' }, { 'a', (char)c }, { 'a', (char)c, 'b' }, { (char)c, (char)c, (char)c }
        };
        for (size_t i = 0; i < COUNT_OF(texts); i++) {
            static const int types[] = { V_ASN1_UTF8STRING, V_ASN1_PRINTABLESTRING, V_ASN1_IA5STRING };
            X509_NAME *name = X509_NAME_new();
            bool plain = false;
            add_step(name, "CN", types[i % 3], texts[i], 0);
            add_step(name, "O", types[(i + 1) % 3], texts[i], 0);
            if (!reads_as_openssl(name, &plain) || !plain) {
                fail_msg("character %d, text %zu", c, i);
            }
            X509_NAME_free(name);
        }
    }
    bool plain = true;
    X509_NAME *name = X509_NAME_new();
    assert_true(reads_as_openssl(name, &plain) && plain); /* an empty one */
    two_beside(name);
    assert_true(reads_as_openssl(name, &plain));
    assert_false(plain);
    X509_NAME_free(name);
}

static void a_name_that_does_not_fit_is_not_cut(void **state)
{
    (void)state;
    static const uint8_t der[] = "\x30\x0e\x31\x0c\x30\x0a\x06\x03\x55\x04\x03\x13\x03"
                                 "a+b";
    char text[16];
    const struct span name = span_of(der, sizeof(der) - 1);
    for (size_t size = 1; size < sizeof(text); size++) {
        memset(text, 'z', sizeof(text));
        bool fits = crypto_read_name(name, text, size);
        assert_true(fits == (size > strlen("CN=a\\+b")));
        assert_string_equal(text, fits ? "CN=a\\+b" : "");
        assert_true(text[size] == 'z');
    }
    for (size_t cut = 0; cut < name.len; cut++) {
        assert_false(crypto_read_name(span_of(der, cut), text, sizeof(text)));
        assert_string_equal(text, "");
    }
}

/* ---- certificates ---- */

static void assert_same(struct span der, const char *what, size_t number)
{
    static struct crypto_parsed is, want;
    crypto_parse(der, &is);
    crypto_parse_by_openssl(der, &want);
    if (is.algorithm != want.algorithm || is.not_before != want.not_before || strcmp(is.subject, want.subject) != 0 ||
        strcmp(is.issuer, want.issuer) != 0) {
        fail_msg("%s %zu: %s, %s, %s; not %s, %s, %s", what, number, is.algorithm->name, is.subject, is.issuer,
                 want.algorithm->name, want.subject, want.issuer);
    }
    assert_int_equal(ERR_peek_error(), 0);
}

static void whatever_a_certificate_says_is_read_as_openssl_reads_it(void **state)
{
    (void)state;
    CLEANUP(op_freep) struct op *op = NULL;
    struct crypto_plain plain;
    assert_fault(op_new("test", (struct tenant_id){ "t" }, 10000, &op), NONE);
    for (size_t i = 0; i < MADE; i++) {
        struct certificate_facts want, is;
        struct span der = buf_span(&made[i]);
        assert_same(der, "certificate", i);
        assert_true(crypto_read_certificate(der, &plain) == (i != 11)); /* of which the serial number is negative */
        assert_fault(certificate_read(op, der, "/der", &want), NONE);
        certificate_describe(op, der, &is);
        assert_string_equal(is.serial, want.serial);
        assert_string_equal(is.subject, want.subject);
        assert_string_equal(is.issuer, want.issuer);
        assert_true(is.not_before == want.not_before && is.not_after == want.not_after);
    }
}

static bool openssl_reads(struct span der)
{
    const unsigned char *at = der.at;
    X509 *certificate = d2i_X509(NULL, &at, (long)der.len);
    bool reads = certificate != NULL;
    X509_free(certificate);
    ERR_clear_error();
    return reads;
}

static void no_cut_and_no_changed_byte_is_read_otherwise(void **state)
{
    (void)state;
    struct crypto_plain plain;
    for (size_t i = 0; i < MADE; i += 3) {
        struct span der = buf_span(&made[i]);
        size_t upto = der.len < 700 ? der.len : 700;
        for (size_t cut = 0; cut < der.len; cut++) {
            assert_false(crypto_read_certificate(span_of(der.at, cut), &plain));
        }
        for (size_t at = 0; at < upto; at++) {
            static const uint8_t changes[] = { 0x01, 0x80, 0xff };
            uint8_t was = made[i].at[at];
            for (size_t change = 0; change < COUNT_OF(changes); change++) {
                made[i].at[at] = (uint8_t)(was ^ changes[change]);
                if (openssl_reads(der)) {
                    assert_same(der, "byte", at);
                }
            }
            made[i].at[at] = was;
        }
    }
}

static void a_public_key_is_told_as_openssl_tells_it_or_not_at_all(void **state)
{
    (void)state;
    struct crypto_plain plain;
    const struct crypto_algorithm *algorithm = NULL;
    for (size_t i = 0; i < MADE - 1; i++) {
        struct span whole = buf_span(&made[i]);
        assert_true(crypto_read_certificate(whole, &plain));
        uint8_t *bytes = made[i].at + (plain.spki.at - whole.at);
        assert_true(!crypto_read_spki(plain.spki, &algorithm) || algorithm == crypto_algorithm_by_openssl(plain.spki));
        for (size_t at = 0; at < plain.spki.len && at < 64; at++) {
            bytes[at] ^= 0x01;
            assert_true(!crypto_read_spki(plain.spki, &algorithm) ||
                        algorithm == crypto_algorithm_by_openssl(plain.spki));
            bytes[at] ^= 0x01;
            assert_false(crypto_read_spki(span_of(bytes, at), &algorithm));
        }
    }
}

/* ---- start ---- */

static int start(void **state)
{
    (void)state;
    EVP_PKEY *rsa = EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)2048);
    EVP_PKEY *odd = EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)2056);
    EVP_PKEY *p384 = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-384");
    EVP_PKEY *p521 = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-521");
    EVP_PKEY *k1 = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "secp256k1");
    EVP_PKEY *ed = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    EVP_PKEY *pq = EVP_PKEY_Q_keygen(NULL, NULL, "ML-DSA-65");
    signer = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
    make(0, signer, usual, "20260101000000Z", "01");
    make(1, rsa, usual, "19500101000000Z", "00ff00");
    make(2, odd, beyond_ascii, "20500101000000Z", "7fffffffffffffffffffffffffffffffffffffff");
    make(3, p384, two_beside, "20491231235959Z", "80");
    make(4, p521, other_types, "19700101000000Z", "0");
    make(5, k1, nothing, "20240229120000Z", "80000000000000000000000000000000");
    make(6, ed, very_long, "20260101000000Z", "1234");
    make(7, pq, every_character, "20260101000000Z", "1234");
    make(8, signer, just_too_long, "20260101000000Z", "1234");
    make(9, rsa, every_character, "19990101000000Z", "1234");
    make(
        10, signer, usual, "20000101000000Z",
        "0100000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"
        "0000000000000000");
    make(11, signer, usual, "20260101000000Z", "-1234");
    EVP_PKEY *all[] = { rsa, odd, p384, p521, k1, ed, pq };
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        EVP_PKEY_free(all[i]);
    }
    return 0;
}

static int end(void **state)
{
    (void)state;
    EVP_PKEY_free(signer);
    for (size_t i = 0; i < MADE; i++) {
        buf_free(&made[i]);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_that_does_not_fit_is_not_cut),
        cmocka_unit_test(no_cut_and_no_changed_byte_is_read_otherwise),
        cmocka_unit_test(a_public_key_is_told_as_openssl_tells_it_or_not_at_all),
        cmocka_unit_test(every_printable_character_is_escaped_where_openssl_escapes_it),
        cmocka_unit_test(whatever_a_certificate_says_is_read_as_openssl_reads_it),
    };
    return cmocka_run_group_tests_name("crypto_read", tests, start, end);
}
