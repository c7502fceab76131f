#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "appliance/base/codec.h"
#include "appliance/base/crypto.h"
#include "fips/jws.h"

#include <openssl/rsa.h>
#include <stdio.h>

#define assert_fault(expr, sym) assert_int_equal((expr).code, FAULT_##sym)

/* RFC 7515 A.3 and A.2. */
#define RFC_PAYLOAD     "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ"
#define RFC_CLEAR       "{\"iss\":\"joe\",\r\n \"exp\":1300819380,\r\n \"http://example.com/is_root\":true}"
#define ES256_HEADER    "eyJhbGciOiJFUzI1NiJ9"
#define ES256_SIGNATURE "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
#define ES256_TOKEN     ES256_HEADER "." RFC_PAYLOAD "." ES256_SIGNATURE
#define ES256_POINT                                                                           \
    "\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\"," \
    "\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0\""
#define POINT_OFF_CURVE                                                                                              \
    "\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU\",\"y\":\"x_FEzRu9m36HLN_" \
    "tue659LNpXW6pCyStikYjKIWI5a4\""
#define ES256_SET "{\"keys\":[{" ES256_POINT "}]}"
#define RS256_TOKEN                                                                                                  \
    "eyJhbGciOiJSUzI1NiJ9." RFC_PAYLOAD                                                                              \
    ".cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUA" \
    "r7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--" \
    "xi1"                                                                                                            \
    "2jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_"      \
    "IoypGlUP"                                                                                                       \
    "QGe77Rw"
#define RS256_KEY                                                                                                      \
    "\"kty\":\"RSA\",\"e\":\"AQAB\",\"n\":\"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-"     \
    "4qPCJ"                                                                                                            \
    "rcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexM" \
    "dbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9" \
    "iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ\""
/* RFC 7515 A.1 (HS256) and A.5 (none): this verifier has neither. */
#define HS256_TOKEN \
    "eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9." RFC_PAYLOAD ".dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
#define NONE_TOKEN "eyJhbGciOiJub25lIn0." RFC_PAYLOAD "."

struct bench {
    struct op *op;
    struct jwk_set set;
};

static void fresh_op(struct bench *bench)
{
    op_free(bench->op);
    assert_fault(op_new("test", (struct tenant_id){ "t1" }, 60000, &bench->op), NONE);
}

static struct fault pin(struct bench *bench, const char *json)
{
    jwk_set_free(&bench->set);
    fresh_op(bench);
    return jwk_set_parse(bench->op, span_text(json), &bench->set);
}

static struct fault check(struct bench *bench, const char *token, const char *typ)
{
    struct span payload = { 0 };
    const char *kid = NULL;
    fresh_op(bench);
    struct fault fault = jws_verify(bench->op, span_text(token), typ, &bench->set, &payload, &kid);
    if (FAULTED(fault)) {
        assert_null(payload.at);
        assert_null(kid);
        assert_true(bench->op->note.set);
    }
    return fault;
}

/* Header as given, payload of the RFC, the RFC's signature: never valid, so what matters is which fault comes first. */
static const char *with_header(const char *header)
{
    static char token[4096];
    struct buf text = BUF_INIT(2048);
    const char *encoded = NULL;
    assert_fault(base64url_encode(span_text(header), &text), NONE);
    assert_fault(buf_cstr(&text, &encoded), NONE);
    (void)snprintf(token, sizeof(token), "%s.%s.%s", encoded, RFC_PAYLOAD, ES256_SIGNATURE);
    buf_free(&text);
    return token;
}

static void algorithms_that_do_not_exist_here_are_refused(void **state)
{
    struct bench *bench = *state;
    assert_fault(pin(bench, ES256_SET), NONE);
    assert_fault(check(bench, NONE_TOKEN, NULL), JWS_KEY);
    assert_fault(check(bench, HS256_TOKEN, NULL), JWS_KEY);
    static const char *const names[] = {
        "none", "None", "HS256", "ES512", "EdDSA", "RS256", "PS256", "ES384", "es256"
    };
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char header[64];
        (void)snprintf(header, sizeof(header), "{\"alg\":\"%s\"}", names[i]);
        assert_fault(check(bench, with_header(header), NULL), JWS_KEY);
    }
}

static void the_pinned_key_decides_the_algorithm(void **state)
{
    struct bench *bench = *state;
    assert_fault(pin(bench, "{\"keys\":[{" RS256_KEY ",\"alg\":\"RS256\"}]}"), NONE);
    assert_fault(check(bench, RS256_TOKEN, NULL), NONE);
    assert_fault(pin(bench, "{\"keys\":[{" RS256_KEY ",\"alg\":\"PS256\"}]}"), NONE);
    assert_fault(check(bench, RS256_TOKEN, NULL), JWS_KEY);
    assert_fault(check(bench, ES256_TOKEN, NULL), JWS_KEY);
}

static void headers_with_more_than_alg_kid_and_typ_are_refused(void **state)
{
    struct bench *bench = *state;
    static const char *const headers[] = {
        "{\"alg\":\"ES256\",\"crit\":[\"exp\"],\"exp\":1}",
        "{\"alg\":\"ES256\",\"crit\":[]}",
        "{\"alg\":\"ES256\",\"b64\":false}",
        "{\"alg\":\"ES256\",\"jwk\":{" ES256_POINT "}}",
        "{\"alg\":\"ES256\",\"jku\":\"https://example.com/keys\"}",
        "{\"alg\":\"ES256\",\"x5c\":[]}",
        "{\"alg\":\"ES256\",\"alg\":\"ES256\"}",
        "{\"alg\":\"none\",\"alg\":\"ES256\"}",
        "{\"alg\":\"ES256\",\"kid\":\"a\",\"kid\":\"b\"}",
        "{\"alg\":7}",
        "{\"alg\":null}",
        "{\"kid\":\"a\"}",
        "{}",
        "[]",
        "",
        "{\"alg\":\"ES256\"",
        "{\"alg\":\"ES256\"} ,",
    };
    assert_fault(pin(bench, ES256_SET), NONE);
    for (size_t i = 0; i < COUNT_OF(headers); i++) {
        assert_fault(check(bench, with_header(headers[i]), NULL), JWS_FORMAT);
    }
}

static void a_key_that_is_not_pinned_is_refused(void **state)
{
    struct bench *bench = *state;
    assert_fault(pin(bench, "{\"keys\":[{" RS256_KEY ",\"kid\":\"two\"},{" ES256_POINT ",\"kid\":\"one\"}]}"), NONE);
    assert_fault(check(bench, with_header("{\"alg\":\"ES256\",\"kid\":\"three\"}"), NULL), JWS_KEY);
    assert_fault(check(bench, with_header("{\"alg\":\"ES256\",\"kid\":\"two\"}"), NULL), JWS_KEY);
    assert_fault(check(bench, ES256_TOKEN, NULL), JWS_KEY); /* no kid, and two keys to choose from */
    assert_fault(check(bench, with_header("{\"alg\":\"ES256\",\"kid\":\"one\"}"), NULL), JWS_SIGNATURE);
}

static void malformed_texts_are_refused(void **state)
{
    struct bench *bench = *state;
    static const char *const tokens[] = {
        "",
        ".",
        "..",
        ES256_HEADER,
        ES256_HEADER "." RFC_PAYLOAD,
        ES256_HEADER "." RFC_PAYLOAD "." ES256_SIGNATURE ".",
        ES256_HEADER "." RFC_PAYLOAD "." ES256_SIGNATURE "=",
        ES256_HEADER "==." RFC_PAYLOAD "." ES256_SIGNATURE,
        ES256_HEADER "." RFC_PAYLOAD "." ES256_SIGNATURE "\n",
        " " ES256_TOKEN,
        /* the last character with its two free bits set: the same 64 bytes to a lax decoder */
        ES256_HEADER "." RFC_PAYLOAD
                     ".DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1R",
        /* base64, not base64url */
        ES256_HEADER "." RFC_PAYLOAD
                     ".DtEhU3ljbEg8L38VWAfUAqOyKAM6+Xx+F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3+Kg6NU1Q",
    };
    assert_fault(pin(bench, ES256_SET), NONE);
    for (size_t i = 0; i < COUNT_OF(tokens); i++) {
        assert_fault(check(bench, tokens[i], NULL), JWS_FORMAT);
    }
}

static void signatures_of_a_wrong_size_or_value_are_refused(void **state)
{
    struct bench *bench = *state;
    assert_fault(pin(bench, ES256_SET), NONE);
    assert_fault(check(bench, ES256_HEADER "." RFC_PAYLOAD ".", NULL), JWS_SIGNATURE);
    assert_fault(check(bench, ES256_HEADER "." RFC_PAYLOAD ".DtEh", NULL), JWS_SIGNATURE);
    /* r = s = 0 (CVE-2022-21449) */
    char zeros[512];
    (void)snprintf(zeros, sizeof(zeros), "%s.%s.%.86s", ES256_HEADER, RFC_PAYLOAD,
                   "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    assert_fault(check(bench, zeros, NULL), JWS_SIGNATURE);
    char altered[] = ES256_TOKEN;
    altered[sizeof(ES256_HEADER) + 3] = altered[sizeof(ES256_HEADER) + 3] == 'A' ? 'B' : 'A';
    assert_fault(check(bench, altered, NULL), JWS_SIGNATURE);
}

static void jwk_sets_that_are_not_public_signature_keys_are_refused(void **state)
{
    struct bench *bench = *state;
    static const char *const sets[] = {
        "",
        "{}",
        "[]",
        "{\"keys\":{}}",
        "{\"keys\":[]}",
        "{\"keys\":[1]}",
        "{\"keys\":[{}]}",
        "{\"keys\":[],\"keys\":[]}",
        "{\"keys\":[{" ES256_POINT ",\"d\":\"jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI\"}]}",
        "{\"keys\":[{\"kty\":\"oct\",\"k\":\"AAAA\"}]}",
        "{\"keys\":[{\"kty\":\"oct\"}]}",
        "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"x\":\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}]}",
        "{\"keys\":[{" ES256_POINT ",\"use\":\"enc\"}]}",
        "{\"keys\":[{" ES256_POINT ",\"alg\":\"ES384\"}]}",
        "{\"keys\":[{" ES256_POINT ",\"alg\":\"RS256\"}]}",
        "{\"keys\":[{" ES256_POINT ",\"alg\":\"none\"}]}",
        "{\"keys\":[{" ES256_POINT ",\"n\":\"AQAB\"}]}",
        "{\"keys\":[{" ES256_POINT ",\"kid\":\"a\"},{" RS256_KEY ",\"kid\":\"a\"}]}",
        "{\"keys\":[{" POINT_OFF_CURVE "}]}",
        "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-521\",\"x\":\"AA\",\"y\":\"AA\"}]}",
        /* 64-bit modulus, and an even exponent */
        "{\"keys\":[{\"kty\":\"RSA\",\"e\":\"AQAB\",\"n\":\"_____________\"}]}",
        "{\"keys\":[{\"kty\":\"RSA\",\"e\":\"AAEAAQ\",\"n\":\"__________8\"}]}",
    };
    for (size_t i = 0; i < COUNT_OF(sets); i++) {
        assert_fault(pin(bench, sets[i]), JWS_FORMAT);
        assert_int_equal(bench->set.count, 0);
    }
}

static void more_than_64_keys_are_refused(void **state)
{
    struct bench *bench = *state;
    struct buf json = BUF_INIT(65536);
    const char *text = NULL;
    assert_fault(buf_text(&json, "{\"keys\":["), NONE);
    for (int i = 0; i < 65; i++) {
        assert_fault(buf_printf(&json, "%s{" ES256_POINT ",\"kid\":\"k%d\"}", i > 0 ? "," : "", i), NONE);
    }
    assert_fault(buf_text(&json, "]}"), NONE);
    assert_fault(buf_cstr(&json, &text), NONE);
    assert_true(FAULTED(pin(bench, text)));
    assert_int_equal(bench->set.count, 0);
    buf_free(&json);
}

static void the_examples_of_rfc_7515_verify(void **state)
{
    struct bench *bench = *state;
    struct span payload = { 0 };
    const char *kid = NULL;
    assert_fault(pin(bench, ES256_SET), NONE);
    assert_string_equal(bench->set.at[0].alg, "ES256");
    assert_int_equal(strlen(bench->set.at[0].kid), 43);
    assert_fault(jws_verify(bench->op, span_text(ES256_TOKEN), NULL, &bench->set, &payload, &kid), NONE);
    assert_true(span_equal_text(payload, RFC_CLEAR));
    assert_string_equal(kid, bench->set.at[0].kid);
    assert_fault(check(bench, ES256_TOKEN, "svc-audit"), JWS_FORMAT); /* it has no typ */
}

static EVP_PKEY *make_key(const char *type)
{
    return strcmp(type, "RSA") == 0 ? EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)3072)
                                    : EVP_PKEY_Q_keygen(NULL, NULL, "EC", type);
}

static void what_is_signed_here_verifies_by_its_printed_jwk(void **state)
{
    struct bench *bench = *state;
    static const char *const types[] = { "P-256", "P-384", "RSA" };
    static const char *const algs[] = { "ES256", "ES384", "PS256" };
    for (size_t i = 0; i < COUNT_OF(types); i++) {
        CLEANUP(EVP_PKEY_freep) EVP_PKEY *key = make_key(types[i]);
        assert_non_null(key);
        unsigned char *der = NULL;
        int len = i2d_PUBKEY(key, &der);
        struct span spki = span_of(der, (size_t)len);
        CLEANUP(buf_free) struct buf jwks = BUF_INIT(4096);
        CLEANUP(buf_free) struct buf token = BUF_INIT(8192);
        const char *text = NULL;
        assert_fault(buf_text(&jwks, "{\"keys\":["), NONE);
        assert_fault(jwk_print(spki, &jwks), NONE);
        assert_fault(buf_text(&jwks, "]}"), NONE);
        assert_fault(buf_cstr(&jwks, &text), NONE);
        assert_fault(pin(bench, text), NONE);
        assert_string_equal(bench->set.at[0].alg, algs[i]);
        char kid[44];
        assert_fault(jwk_kid(spki, kid), NONE);
        assert_string_equal(bench->set.at[0].kid, kid);

        for (int round = 0; round < 20; round++) { /* enough for integers of r and s with and without leading zeros */
            struct span payload = { 0 };
            buf_clear(&token);
            assert_fault(jws_sign(bench->op, key, spki, "svc-test", span_text("{}"), &token), NONE);
            assert_fault(jws_verify(bench->op, buf_span(&token), "svc-test", &bench->set, &payload, NULL), NONE);
            assert_true(span_equal_text(payload, "{}"));
        }
        assert_fault(buf_cstr(&token, &text), NONE);
        assert_fault(check(bench, text, "svc-other"), JWS_FORMAT);
        OPENSSL_free(der);
    }
}

static int setup(void **state)
{
    static struct bench bench;
    *state = &bench;
    return 0;
}
static int teardown(void **state)
{
    struct bench *bench = *state;
    jwk_set_free(&bench->set);
    op_free(bench->op);
    bench->op = NULL;
    return 0;
}
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(algorithms_that_do_not_exist_here_are_refused),
        TEST(the_pinned_key_decides_the_algorithm),
        TEST(headers_with_more_than_alg_kid_and_typ_are_refused),
        TEST(a_key_that_is_not_pinned_is_refused),
        TEST(malformed_texts_are_refused),
        TEST(signatures_of_a_wrong_size_or_value_are_refused),
        TEST(jwk_sets_that_are_not_public_signature_keys_are_refused),
        TEST(more_than_64_keys_are_refused),
        TEST(the_examples_of_rfc_7515_verify),
        TEST(what_is_signed_here_verifies_by_its_printed_jwk),
    };
    return cmocka_run_group_tests_name("jws", tests, NULL, NULL);
}
