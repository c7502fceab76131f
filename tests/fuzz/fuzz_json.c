/* rooms: base */
/*
 * JSON of anybody: the decoder by a table of every kind, the canonical form, the writer. Two parsers look at the same
 * bytes (jansson below jin_, our own below json_canonical) and must agree. Oracles: a canonical form is its own
 * canonical form; what decodes has one, and decodes from it to the same; what is written out again decodes to the same.
 */
#include "tests/fuzz/decoded.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

#define EXACT ((int64_t)1 << 53) /* beyond, canonical numbers are rounded */

struct inner {
    const char *name;
    int64_t size;
};
static const struct jin_field inner_fields[] = {
    JIN_TEXT(struct inner, name, JIN_REQUIRED, 0, 64),
    JIN_INT(struct inner, size, JIN_OPTIONAL, 0, 1000),
};
struct every {
    const char *text;
    struct span base64, hex, raw;
    int64_t whole;
    bool flag;
    utc_us time;
    struct jin_texts texts;
    struct inner object;
};
static const struct jin_field every_fields[] = {
    JIN_TEXT(struct every, text, JIN_OPTIONAL, 1, 512),
    JIN_BASE64(struct every, base64, JIN_OPTIONAL, 0, 64),
    JIN_HEX(struct every, hex, JIN_OPTIONAL, 1, 32),
    JIN_RAW(struct every, raw, JIN_OPTIONAL, 1, 4096),
    JIN_INT(struct every, whole, JIN_OPTIONAL, -EXACT, EXACT),
    JIN_BOOL(struct every, flag, JIN_OPTIONAL),
    JIN_TIME(struct every, time, JIN_OPTIONAL),
    JIN_TEXTS(struct every, texts, JIN_OPTIONAL, 0, 8),
    { .name = "object",
      .kind = JIN_KIND_OBJECT,
      .offset = offsetof(struct every, object),
      .sub = inner_fields,
      .sub_count = COUNT_OF(inner_fields) },
};

static struct op *op;

static bool same_text(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static void check_same(const struct every *a, const struct every *b)
{
    BUG_IF(!same_text(a->text, b->text) || !span_equal(a->base64, b->base64) || !span_equal(a->hex, b->hex));
    BUG_IF(!span_equal(a->raw, b->raw) || a->whole != b->whole || a->flag != b->flag || a->time != b->time);
    BUG_IF(!same_text(a->object.name, b->object.name) || a->object.size != b->object.size);
    BUG_IF(a->texts.count != b->texts.count);
    for (size_t i = 0; i < a->texts.count; i++) {
        BUG_IF(!same_text(a->texts.at[i], b->texts.at[i]));
    }
}

static void decode_again(struct span json, const struct every *want)
{
    struct every again = { 0 };
    BUG_IF(FAULTED(jin_decode(op, json, every_fields, COUNT_OF(every_fields), &again)));
    check_same(want, &again);
}

static void write_out(const struct every *every, struct buf *out)
{
    struct jout json;
    buf_clear(out);
    jout_init(&json, out);
    jout_object(&json);
    jout_key_text(&json, "text", every->text);
    if (every->base64.at != NULL) {
        jout_key_base64(&json, "base64", every->base64);
    }
    if (every->hex.at != NULL) {
        jout_key_hex(&json, "hex", every->hex);
    }
    if (every->raw.at != NULL) {
        jout_key_raw(&json, "raw", every->raw);
    }
    jout_key_int(&json, "whole", every->whole);
    jout_key_bool(&json, "flag", every->flag);
    jout_key_time(&json, "time", every->time);
    jout_key(&json, "texts");
    jout_array(&json);
    for (size_t i = 0; i < every->texts.count; i++) {
        jout_text(&json, every->texts.at[i]);
    }
    jout_array_end(&json);
    if (every->object.name != NULL) {
        jout_key(&json, "object");
        jout_object(&json);
        jout_key_text(&json, "name", every->object.name);
        jout_key_int(&json, "size", every->object.size);
        jout_object_end(&json);
    }
    jout_object_end(&json);
    BUG_IF(FAULTED(jout_end(&json)));
}

static bool canonical_fits(struct span json, struct buf *out)
{
    CLEANUP(buf_free) struct buf again = BUF_INIT((size_t)8 << 20);
    struct fault fault = json_canonical(json, out);
    if (FAULTED(fault)) {
        BUG_IF(fault.code != FAULT_JSON_SYNTAX);
        return false;
    }
    BUG_IF(FAULTED(json_canonical(buf_span(out), &again)) || !span_equal(buf_span(out), buf_span(&again)));
    return true;
}

static void check_object(struct span json, const struct buf *canonical)
{
    CLEANUP(buf_free) struct buf written = BUF_INIT((size_t)8 << 20);
    struct every every = { 0 };
    op->note = (struct fault_note){ 0 };
    struct fault fault = jin_decode(op, json, every_fields, COUNT_OF(every_fields), &every);
    if (FAULTED(fault)) {
        check_note(op, fault);
        return;
    }
    check_decoded(every_fields, COUNT_OF(every_fields), &every);
    BUG_IF(canonical == NULL);
    decode_again(buf_span(canonical), &every);
    write_out(&every, &written);
    decode_again(buf_span(&written), &every);
}

static void check_array(struct span json)
{
    struct span *items = NULL;
    size_t count = 0;
    op->note = (struct fault_note){ 0 };
    struct fault fault = jin_array(op, json, 16, &items, &count);
    if (FAULTED(fault)) {
        check_note(op, fault);
        return;
    }
    BUG_IF(count > 16);
    for (size_t i = 0; i < count; i++) {
        CLEANUP(buf_free) struct buf canonical = BUF_INIT((size_t)8 << 20);
        BUG_IF(!canonical_fits(items[i], &canonical) || !span_equal(items[i], buf_span(&canonical)));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (op == NULL) {
        BUG_IF(FAULTED(op_new("fuzz", (struct tenant_id){ "default" }, 1 << 30, &op)));
    }
    CLEANUP(buf_free) struct buf canonical = BUF_INIT((size_t)8 << 20);
    struct span json = span_of(bytes, len);
    bool fits = canonical_fits(json, &canonical);
    check_object(json, fits ? &canonical : NULL);
    check_array(json);
    arena_clear(op->arena);
    return 0;
}
