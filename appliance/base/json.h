/*
 * JSON, in three parts (RFC 8259; jansson underneath, in json.c only):
 *   jin_   decodes bytes by a field table into a plain struct. Unknown and duplicate keys, wrong kinds, sizes beyond
 *          the row's bounds, depth beyond 16 and text after the value are refused, and the JSON pointer is noted.
 *   jout_  writes compact JSON by calls; strings are checked to be UTF-8 and escaped.
 *   json_canonical  gives the RFC 8785 form of any I-JSON text.
 *
 *     struct sign_body { const char *key_id; const char *artifact_type; struct span digest; };
 *     static const struct jin_field sign_fields[] = {
 *         JIN_TEXT(struct sign_body, key_id, JIN_REQUIRED, 1, 36),
 *         JIN_BASE64(struct sign_body, digest, JIN_REQUIRED, 0, 64),
 *     };
 *     struct sign_body body = { 0 };
 *     TRY(jin_decode(op, bytes, sign_fields, COUNT_OF(sign_fields), &body));
 */
#ifndef APPLIANCE_BASE_JSON_H
#define APPLIANCE_BASE_JSON_H

#include "appliance/base/bytes.h"
#include "appliance/base/op.h"

enum jin_kind {
    JIN_KIND_TEXT,   /* const char *, NUL-terminated, in the arena; embedded NUL refused; bounds in bytes */
    JIN_KIND_BASE64, /* struct span of the decoded bytes, in the arena; bounds in decoded bytes */
    JIN_KIND_HEX,    /* struct span of the decoded bytes (lower-case hex); bounds in decoded bytes */
    JIN_KIND_INT,    /* int64_t; bounds are values */
    JIN_KIND_BOOL,   /* bool */
    JIN_KIND_TIME,   /* utc_us from RFC 3339 text */
    JIN_KIND_TEXTS,  /* struct jin_texts: array of strings; bounds on the count, each string at most 8192 bytes */
    JIN_KIND_RAW,    /* struct span: canonical JSON (RFC 8785) of any value; bounds in bytes */
    JIN_KIND_OBJECT, /* nested struct by `sub` table, at the same offset rule */
};
enum jin_flags { JIN_OPTIONAL = 0, JIN_REQUIRED = 1 };

struct jin_texts {
    const char **at;
    size_t count;
};

struct jin_field {
    const char *name;
    enum jin_kind kind;
    unsigned flags;
    int64_t min, max;
    size_t offset;
    const struct jin_field *sub;
    size_t sub_count;
    const char *doc; /* for OpenAPI and docs; may be NULL */
};
#define JIN_ROW_(type, member, KIND, flags_, min_, max_) \
    { .name = #member,                                   \
      .kind = JIN_KIND_##KIND,                           \
      .flags = (flags_),                                 \
      .min = (min_),                                     \
      .max = (max_),                                     \
      .offset = offsetof(type, member) }
#define JIN_TEXT(type, member, flags, min, max)   JIN_ROW_(type, member, TEXT, flags, min, max)
#define JIN_BASE64(type, member, flags, min, max) JIN_ROW_(type, member, BASE64, flags, min, max)
#define JIN_HEX(type, member, flags, min, max)    JIN_ROW_(type, member, HEX, flags, min, max)
#define JIN_INT(type, member, flags, min, max)    JIN_ROW_(type, member, INT, flags, min, max)
#define JIN_BOOL(type, member, flags)             JIN_ROW_(type, member, BOOL, flags, 0, 0)
#define JIN_TIME(type, member, flags)             JIN_ROW_(type, member, TIME, flags, 0, 0)
#define JIN_TEXTS(type, member, flags, min, max)  JIN_ROW_(type, member, TEXTS, flags, min, max)
#define JIN_RAW(type, member, flags, min, max)    JIN_ROW_(type, member, RAW, flags, min, max)

/* Decodes one JSON object. Optional members that are absent (or null) leave the struct's bytes as they were.
 * JSON_SYNTAX, JSON_FIELD (op's note names the pointer), TOO_LARGE, NO_MEMORY. Results live in op's arena. */
struct fault jin_decode(struct op *op, struct span json, const struct jin_field *fields, size_t count,
                        void *ret_struct);

/* The elements of a JSON array of objects, each as canonical JSON in the arena, for a second jin_decode. */
struct fault jin_array(struct op *op, struct span json, size_t max_count, struct span **ret_items, size_t *ret_count);

/* The members of one JSON object of somebody else's (claims of a token, keys of an issuer), where unknown names are
 * welcome: in the order of the text, doubled names refused. `value` is a string's own text (NUL included, if it has
 * one); a whole number with all its digits; anything else as canonical JSON. JSON_SYNTAX, JSON_FIELD, NO_MEMORY; more
 * than `max_count` members is JSON_FIELD. Results live in op's arena. */
enum jin_type { JIN_TYPE_NULL, JIN_TYPE_BOOL, JIN_TYPE_NUMBER, JIN_TYPE_TEXT, JIN_TYPE_ARRAY, JIN_TYPE_OBJECT };
struct jin_member {
    const char *name;
    enum jin_type type;
    struct span value;
};
struct fault jin_members(struct op *op, struct span json, size_t max_count, struct jin_member **ret_members,
                         size_t *ret_count);

/* RFC 8785: members sorted by UTF-16 code units, ECMAScript number form, minimal escapes. Refuses duplicate names,
 * lone surrogates, invalid UTF-8, numbers that are not finite: JSON_SYNTAX. Depth at most 32. Numbers are doubles, as
 * the RFC has it: an integer beyond 2^53 may come out rounded. On failure `out` is as it was. */
struct fault json_canonical(struct span json, struct buf *out);

/* Writer. Calls nest; commas are its business. A misuse (value where a key is due) is a bug. */
struct jout {
    struct buf *out;
    struct fault first; /* sticky: the calls return void, jout_end tells */
    unsigned depth;
    uint64_t need_comma; /* bit per depth */
    uint64_t in_object;  /* bit per depth */
    bool after_key;
};
void jout_init(struct jout *jout, struct buf *out);
void jout_object(struct jout *jout); /* { */
void jout_object_end(struct jout *jout);
void jout_array(struct jout *jout);
void jout_array_end(struct jout *jout);
void jout_key(struct jout *jout, const char *key);
void jout_text(struct jout *jout, const char *text); /* NULL writes null; invalid UTF-8 is JSON_SYNTAX */
void jout_span_text(struct jout *jout, struct span text);
void jout_int(struct jout *jout, int64_t value);
void jout_bool(struct jout *jout, bool value);
void jout_null(struct jout *jout);
void jout_base64(struct jout *jout, struct span bytes);
void jout_hex(struct jout *jout, struct span bytes);
void jout_time(struct jout *jout, utc_us time);
void jout_raw(struct jout *jout, struct span json); /* already JSON: trusted text of ours only */
/* key and value at once */
void jout_key_text(struct jout *jout, const char *key, const char *text);
void jout_key_int(struct jout *jout, const char *key, int64_t value);
void jout_key_bool(struct jout *jout, const char *key, bool value);
void jout_key_base64(struct jout *jout, const char *key, struct span bytes);
void jout_key_hex(struct jout *jout, const char *key, struct span bytes);
void jout_key_time(struct jout *jout, const char *key, utc_us time);
void jout_key_raw(struct jout *jout, const char *key, struct span json);
/* The first failure of all calls; an unclosed object is a bug. */
struct fault jout_end(struct jout *jout);

#endif
