#include "appliance/base/codec.h"
#include "testlib.h"

typedef struct fault codec_fn(struct span in, struct buf *out);

static void assert_gives(codec_fn *codec, const char *in, size_t in_len, const char *out)
{
    CLEANUP(buf_free) struct buf buf = BUF_INIT(100);
    assert_fault(codec(span_of(in, in_len), &buf), NONE);
    assert_span_text(buf_span(&buf), out);
}

static void assert_refused(codec_fn *codec, const char *in)
{
    CLEANUP(buf_free) struct buf buf = BUF_INIT(100);
    assert_fault(buf_text(&buf, "kept"), NONE);
    assert_fault(codec(span_text(in), &buf), BAD_ARGUMENT);
    assert_span_text(buf_span(&buf), "kept");
}

static void decoders_refuse_all_but_the_one_form(void **state)
{
    (void)state;
    static const char *const hex[] = { "0", "0g", "AB", "a ", " a", "0x", "a\n", "ab\xff" };
    static const char *const base64[] = { "Zg",       "Zg=",  "Zh==",   "Zm9=", "Zm8",    "Z===",     "====",      "=",
                                          "Zg==Zg==", "Z g=", "Zm9v\n", "Zm-_", "Zm9vYg", "Zm9v====", "\xc3\xbcg=" };
    static const char *const url[] = { "Zg==", "Zh", "Zm9", "Z", "Zm+/", "Zm9v ", "Zm9vZ", "=" };
    for (size_t i = 0; i < COUNT_OF(hex); i++) {
        assert_refused(hex_decode, hex[i]);
    }
    for (size_t i = 0; i < COUNT_OF(base64); i++) {
        assert_refused(base64_decode, base64[i]);
    }
    for (size_t i = 0; i < COUNT_OF(url); i++) {
        assert_refused(base64url_decode, url[i]);
    }
}

static void the_vectors_of_rfc_4648_hold(void **state)
{
    (void)state;
    static const char *const rows[][3] = {
        { "", "", "" },
        { "f", "Zg==", "Zg" },
        { "fo", "Zm8=", "Zm8" },
        { "foo", "Zm9v", "Zm9v" },
        { "foob", "Zm9vYg==", "Zm9vYg" },
        { "fooba", "Zm9vYmE=", "Zm9vYmE" },
        { "foobar", "Zm9vYmFy", "Zm9vYmFy" },
        { "\xfb\xff\xfe", "+//+", "-__-" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        assert_gives(base64_encode, rows[i][0], strlen(rows[i][0]), rows[i][1]);
        assert_gives(base64url_encode, rows[i][0], strlen(rows[i][0]), rows[i][2]);
        assert_gives(base64_decode, rows[i][1], strlen(rows[i][1]), rows[i][0]);
        assert_gives(base64url_decode, rows[i][2], strlen(rows[i][2]), rows[i][0]);
    }
    assert_gives(hex_encode, "\x00\x7f\xff\x0a", 4, "007fff0a");
    assert_gives(hex_decode, "666f6f", 6, "foo");
}

static void every_length_comes_back(void **state)
{
    (void)state;
    uint8_t bytes[259];
    for (size_t i = 0; i < sizeof(bytes); i++) {
        bytes[i] = (uint8_t)(i * 151 + 7);
    }
    static codec_fn *const pairs[][2] = { { hex_encode, hex_decode },
                                          { base64_encode, base64_decode },
                                          { base64url_encode, base64url_decode } };
    for (size_t len = 0; len <= sizeof(bytes); len++) {
        for (size_t i = 0; i < COUNT_OF(pairs); i++) {
            CLEANUP(buf_free) struct buf text = BUF_INIT(1000), back = BUF_INIT(1000);
            assert_fault(pairs[i][0](span_of(bytes, len), &text), NONE);
            assert_fault(pairs[i][1](buf_span(&text), &back), NONE);
            assert_int_equal(back.len, len);
            assert_memory_equal(len > 0 ? back.at : bytes, bytes, len);
        }
    }
}

static void hex_text_ends_with_nul(void **state)
{
    (void)state;
    char out[5] = "xxxx";
    hex_text(span_of("\xde\xad", 2), out, sizeof(out));
    assert_string_equal(out, "dead");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decoders_refuse_all_but_the_one_form),
        cmocka_unit_test(the_vectors_of_rfc_4648_hold),
        cmocka_unit_test(every_length_comes_back),
        cmocka_unit_test(hex_text_ends_with_nul),
    };
    return cmocka_run_group_tests_name("codec", tests, NULL, NULL);
}
