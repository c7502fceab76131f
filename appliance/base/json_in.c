#include "appliance/base/json.h"

#include "appliance/base/codec.h"
#include "appliance/base/json_pointer.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#define DEPTH_MAX 16
#define TEXTS_MAX 8192u

static void decref_value(json_t **value)
{
    json_decref(*value);
}

/* Where a value stands: its name below `above`. Built as text only when something is refused. */
struct place {
    const struct place *above;
    const char *name;
};

static void place_print(const struct place *place, char out[JSON_POINTER_SIZE])
{
    if (place == NULL) {
        out[0] = 0;
        return;
    }
    place_print(place->above, out);
    json_pointer_add(out, span_text(place->name));
}

#define refuse(op, place, ...)                                         \
    __extension__({                                                    \
        char pointer_[JSON_POINTER_SIZE];                              \
        place_print((place), pointer_);                                \
        op_fail_field((op), FAULT(JSON_FIELD), pointer_, __VA_ARGS__); \
    })

/* jansson's own bound is far higher than what one of our bodies needs. */
static bool too_deep(struct span json)
{
    unsigned depth = 0;
    bool in_string = false;
    for (size_t i = 0; i < json.len; i++) {
        uint8_t c = json.at[i];
        if (in_string) {
            i += c == '\\';
            in_string = c != '"';
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > DEPTH_MAX) {
                return true;
            }
        } else if ((c == '}' || c == ']') && depth > 0) {
            depth--;
        }
    }
    return false;
}

static struct fault syntax_fault(struct op *op, struct span json, const json_error_t *error)
{
    enum json_error_code code = json_error_code(error);
    REQUIRE(code != json_error_out_of_memory, NO_MEMORY);
    char pointer[JSON_POINTER_SIZE];
    json_pointer_at(json, error->position > 0 ? (size_t)error->position : 0, pointer);
    if (code == json_error_duplicate_key) {
        return op_fail_field(op, FAULT(JSON_FIELD), pointer, "the member stands there twice; name it once");
    }
    return op_fail_field(op, FAULT(JSON_SYNTAX), pointer, "not JSON at line %d, column %d", error->line, error->column);
}

static struct fault parse(struct op *op, struct span json, json_t **ret_value)
{
    if (too_deep(json)) {
        return op_fail_field(op, FAULT(JSON_SYNTAX), "", "nested deeper than %d levels", DEPTH_MAX);
    }
    if (json.len > 0 && memchr(json.at, 0, json.len) != NULL) { /* jansson drops one that stands behind a number */
        return op_fail_field(op, FAULT(JSON_SYNTAX), "", "not JSON: a NUL byte stands in it");
    }
    json_error_t error;
    json_t *value = json_loadb(json.at != NULL ? (const char *)json.at : "", json.len,
                               JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL | JSON_DECODE_ANY, &error);
    if (value == NULL) {
        return syntax_fault(op, json, &error);
    }
    *ret_value = value;
    return OK;
}

static struct span string_span(const json_t *value)
{
    return span_of(json_string_value(value), json_string_length(value));
}

static struct fault bound(struct op *op, const struct place *place, const struct jin_field *field, size_t size,
                          const char *unit)
{
    if ((uint64_t)size < (uint64_t)field->min || (uint64_t)size > (uint64_t)field->max) {
        return refuse(op, place, "must be %" PRId64 " to %" PRId64 " %s long, not %zu", field->min, field->max, unit,
                      size);
    }
    return OK;
}

static struct fault take_string(struct op *op, const struct place *place, const json_t *value, const char **ret_text)
{
    if (!json_is_string(value)) {
        return refuse(op, place, "must be a string");
    }
    struct span text = string_span(value);
    if (text.len > 0 && memchr(text.at, 0, text.len) != NULL) {
        return refuse(op, place, "must not contain the character NUL");
    }
    return arena_text(op->arena, text, ret_text);
}

static struct fault take_text(struct op *op, const struct place *place, const struct jin_field *field,
                              const json_t *value, void *at)
{
    if (json_is_string(value)) {
        TRY(bound(op, place, field, json_string_length(value), "bytes"));
    }
    return take_string(op, place, value, at);
}

static struct fault take_bytes(struct op *op, const struct place *place, const struct jin_field *field,
                               const json_t *value, void *at)
{
    bool hex = field->kind == JIN_KIND_HEX;
    if (!json_is_string(value)) {
        return refuse(op, place, "must be a string of %s", hex ? "lower-case hex" : "base64");
    }
    struct span text = string_span(value);
    CLEANUP(buf_free) struct buf bytes = BUF_INIT(text.len);
    struct fault fault = hex ? hex_decode(text, &bytes) : base64_decode(text, &bytes);
    if (fault.code == FAULT_BAD_ARGUMENT) {
        return refuse(op, place, "must be %s", hex ? "lower-case hex" : "base64 with padding (RFC 4648 section 4)");
    }
    TRY(fault);
    TRY(bound(op, place, field, bytes.len, "bytes"));
    return arena_copy(op->arena, buf_span(&bytes), at);
}

static struct fault take_int(struct op *op, const struct place *place, const struct jin_field *field,
                             const json_t *value, void *at)
{
    int64_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < field->min || number > field->max) {
        return refuse(op, place, "must be a whole number from %" PRId64 " to %" PRId64, field->min, field->max);
    }
    *(int64_t *)at = number;
    return OK;
}

static struct fault take_bool(struct op *op, const struct place *place, const json_t *value, void *at)
{
    if (!json_is_boolean(value)) {
        return refuse(op, place, "must be true or false");
    }
    *(bool *)at = json_is_true(value);
    return OK;
}

static struct fault take_time(struct op *op, const struct place *place, const json_t *value, void *at)
{
    if (!json_is_string(value) || FAULTED(rfc3339_parse(string_span(value), at))) {
        return refuse(op, place, "must be an RFC 3339 time, such as 2030-01-31T12:00:00Z");
    }
    return OK;
}

static struct fault take_texts(struct op *op, const struct place *place, const struct jin_field *field,
                               const json_t *value, void *at)
{
    if (!json_is_array(value)) {
        return refuse(op, place, "must be an array of strings");
    }
    size_t count = json_array_size(value);
    TRY(bound(op, place, field, count, "elements"));
    struct jin_texts texts = { .count = count };
    TRY(arena_take(op->arena, count, sizeof(*texts.at), &texts.at));
    for (size_t i = 0; i < count; i++) {
        char index[24];
        (void)snprintf(index, sizeof(index), "%zu", i);
        struct place element = { place, index };
        const json_t *item = json_array_get(value, i);
        if (json_string_length(item) > TEXTS_MAX) {
            return refuse(op, &element, "must be at most %u bytes long", TEXTS_MAX);
        }
        TRY(take_string(op, &element, item, &texts.at[i]));
    }
    *(struct jin_texts *)at = texts;
    return OK;
}

struct dump {
    struct buf *out;
    struct fault first;
};

static int dump_into(const char *bytes, size_t len, void *into)
{
    struct dump *dump = into;
    dump->first = buf_put(dump->out, span_of(bytes, len));
    return FAULTED(dump->first) ? -1 : 0;
}

/* RFC 8785 writes a number below 1e21 with all its digits, and one of 2^63 or more then fits no integer here: what is
 * kept in canonical form must decode again. */
static bool number_reads_back(double number)
{
    double size = number < 0 ? -number : number;
    return size < 0x1p63 || size >= 1e21;
}

/* As deep as the text was allowed to be. */
static bool reads_back(const json_t *value)
{
    size_t i;
    const char *name;
    json_t *item;
    json_array_foreach(value, i, item)
    {
        if (!reads_back(item)) {
            return false;
        }
    }
    json_object_foreach((json_t *)value, name, item)
    {
        if (!reads_back(item)) {
            return false;
        }
    }
    return !json_is_number(value) || number_reads_back(json_number_value(value));
}

/* Through text: json_canonical then is the only place that knows RFC 8785. */
static struct fault canonical_of(struct op *op, const json_t *value, size_t max, struct span *ret_json)
{
    REQUIRE(reads_back(value), JSON_SYNTAX);
    CLEANUP(buf_free) struct buf text = BUF_INIT(max);
    struct dump dump = { .out = &text };
    int dumped = json_dump_callback(value, dump_into, &dump, JSON_COMPACT | JSON_ENCODE_ANY);
    TRY(dump.first);
    REQUIRE(dumped == 0, NO_MEMORY); /* its own */
    CLEANUP(buf_free) struct buf canonical = BUF_INIT(max);
    TRY(json_canonical(buf_span(&text), &canonical));
    return arena_copy(op->arena, buf_span(&canonical), ret_json);
}

/* A short number may grow when it is written out (1e20), a string never does by more than its escapes did. */
#define CANONICAL_MAX ((size_t)64 << 20)

static struct fault take_raw(struct op *op, const struct place *place, const struct jin_field *field,
                             const json_t *value, void *at)
{
    struct span json;
    struct fault fault = canonical_of(op, value, CANONICAL_MAX, &json);
    if (fault.code == FAULT_JSON_SYNTAX) {
        return refuse(op, place,
                      "has no canonical form (RFC 8785), or a number of 2^63 or more in it: write that as text");
    }
    TRY(fault);
    TRY(bound(op, place, field, json.len, "bytes"));
    *(struct span *)at = json;
    return OK;
}

static struct fault take_object(struct op *op, const struct place *place, json_t *object,
                                const struct jin_field *fields, size_t count, uint8_t *base);

static struct fault take_value(struct op *op, const struct place *place, const struct jin_field *field, json_t *value,
                               uint8_t *at)
{
    switch (field->kind) {
    case JIN_KIND_TEXT:
        return take_text(op, place, field, value, at);
    case JIN_KIND_BASE64:
    case JIN_KIND_HEX:
        return take_bytes(op, place, field, value, at);
    case JIN_KIND_INT:
        return take_int(op, place, field, value, at);
    case JIN_KIND_BOOL:
        return take_bool(op, place, value, at);
    case JIN_KIND_TIME:
        return take_time(op, place, value, at);
    case JIN_KIND_TEXTS:
        return take_texts(op, place, field, value, at);
    case JIN_KIND_RAW:
        return take_raw(op, place, field, value, at);
    case JIN_KIND_OBJECT:
        return take_object(op, place, value, field->sub, field->sub_count, at);
    }
    BUG_IF(true);
}

static struct fault refuse_unknown(struct op *op, const struct place *place, json_t *object,
                                   const struct jin_field *fields, size_t count)
{
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
    {
        bool known = false;
        for (size_t i = 0; i < count && !known; i++) {
            known = strcmp(fields[i].name, name) == 0;
        }
        if (!known) {
            struct place member = { place, name };
            return refuse(op, &member, "unknown member; remove it");
        }
    }
    return OK;
}

static struct fault take_object(struct op *op, const struct place *place, json_t *object,
                                const struct jin_field *fields, size_t count, uint8_t *base)
{
    if (!json_is_object(object)) {
        return refuse(op, place, "must be an object");
    }
    TRY(refuse_unknown(op, place, object, fields, count));
    for (size_t i = 0; i < count; i++) {
        struct place member = { place, fields[i].name };
        json_t *value = json_object_get(object, fields[i].name);
        if (value == NULL || json_is_null(value)) {
            if ((fields[i].flags & JIN_REQUIRED) != 0) {
                return refuse(op, &member, "is required");
            }
            continue;
        }
        TRY(take_value(op, &member, &fields[i], value, base + fields[i].offset));
    }
    return OK;
}

struct fault jin_decode(struct op *op, struct span json, const struct jin_field *fields, size_t count, void *ret_struct)
{
    CLEANUP(decref_value) json_t *value = NULL;
    TRY(parse(op, json, &value));
    return take_object(op, NULL, value, fields, count, ret_struct);
}

struct fault jin_array(struct op *op, struct span json, size_t max_count, struct span **ret_items, size_t *ret_count)
{
    CLEANUP(decref_value) json_t *value = NULL;
    TRY(parse(op, json, &value));
    size_t count = json_array_size(value);
    if (!json_is_array(value) || count > max_count) {
        return op_fail_field(op, FAULT(JSON_FIELD), "", "must be an array of at most %zu objects", max_count);
    }
    struct span *items;
    TRY(arena_take(op->arena, count, sizeof(*items), &items));
    for (size_t i = 0; i < count; i++) {
        const json_t *item = json_array_get(value, i);
        if (!json_is_object(item)) {
            char pointer[32];
            (void)snprintf(pointer, sizeof(pointer), "/%zu", i);
            return op_fail_field(op, FAULT(JSON_FIELD), pointer, "must be an object");
        }
        TRY(canonical_of(op, item, CANONICAL_MAX, &items[i]));
    }
    *ret_items = items;
    *ret_count = count;
    return OK;
}

static struct fault whole_number(struct op *op, const json_t *value, struct span *ret_text)
{
    char text[24];
    int len = snprintf(text, sizeof(text), "%" JSON_INTEGER_FORMAT, json_integer_value(value));
    return arena_copy(op->arena, span_of(text, (size_t)len), ret_text);
}

static enum jin_type type_of(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        return JIN_TYPE_OBJECT;
    case JSON_ARRAY:
        return JIN_TYPE_ARRAY;
    case JSON_STRING:
        return JIN_TYPE_TEXT;
    case JSON_INTEGER:
    case JSON_REAL:
        return JIN_TYPE_NUMBER;
    case JSON_TRUE:
    case JSON_FALSE:
        return JIN_TYPE_BOOL;
    case JSON_NULL:
        return JIN_TYPE_NULL;
    }
    BUG_IF(true);
}

static struct fault take_member(struct op *op, const char *name, const json_t *value, struct jin_member *ret_member)
{
    struct place place = { NULL, name };
    ret_member->type = type_of(value);
    TRY(arena_text(op->arena, span_text(name), &ret_member->name));
    if (json_is_string(value)) {
        return arena_copy(op->arena, string_span(value), &ret_member->value);
    }
    if (json_is_integer(value)) {
        return whole_number(op, value, &ret_member->value);
    }
    struct fault fault = canonical_of(op, value, CANONICAL_MAX, &ret_member->value);
    return fault.code == FAULT_JSON_SYNTAX ? refuse(op, &place, "has no canonical form (RFC 8785)") : fault;
}

struct fault jin_members(struct op *op, struct span json, size_t max_count, struct jin_member **ret_members,
                         size_t *ret_count)
{
    CLEANUP(decref_value) json_t *object = NULL;
    TRY(parse(op, json, &object));
    size_t count = json_object_size(object), i = 0;
    if (!json_is_object(object) || count > max_count) {
        return op_fail_field(op, FAULT(JSON_FIELD), "", "must be an object of at most %zu members", max_count);
    }
    struct jin_member *members = NULL;
    TRY(arena_take(op->arena, count, sizeof(*members), &members));
    const char *name;
    json_t *value;
    json_object_foreach(object, name, value)
    {
        TRY(take_member(op, name, value, &members[i++]));
    }
    *ret_members = members;
    *ret_count = count;
    return OK;
}
