/* What must hold of every struct that jin_decode filled, by its table; and of every note that it left. */
#ifndef TESTS_FUZZ_DECODED_H
#define TESTS_FUZZ_DECODED_H

#include "appliance/base/json.h"

static inline void check_size(const struct jin_field *field, const void *at, size_t len)
{
    bool absent = at == NULL && (field->flags & JIN_REQUIRED) == 0;
    BUG_IF(at == NULL && !absent && len != 0);
    BUG_IF(!absent && ((int64_t)len < field->min || (int64_t)len > field->max));
}

static inline void check_decoded(const struct jin_field *fields, size_t count, const void *decoded)
{
    for (size_t i = 0; i < count; i++) {
        const struct jin_field *field = &fields[i];
        const void *at = (const uint8_t *)decoded + field->offset;
        bool required = (field->flags & JIN_REQUIRED) != 0;
        if (field->kind == JIN_KIND_TEXT) {
            const char *text = *(const char *const *)at;
            BUG_IF(text == NULL && required);
            check_size(field, text, text != NULL ? strlen(text) : 0);
        } else if (field->kind == JIN_KIND_INT) {
            int64_t number = *(const int64_t *)at;
            BUG_IF((number < field->min || number > field->max) && (number != 0 || required));
        } else if (field->kind == JIN_KIND_TEXTS) {
            const struct jin_texts *texts = at;
            check_size(field, (const void *)texts->at, texts->count);
            for (size_t j = 0; j < texts->count; j++) {
                BUG_IF(strlen(texts->at[j]) > 1024);
            }
        } else if (field->kind == JIN_KIND_BASE64 || field->kind == JIN_KIND_HEX || field->kind == JIN_KIND_RAW) {
            const struct span *bytes = at;
            check_size(field, bytes->at, bytes->len);
        } else if (field->kind == JIN_KIND_OBJECT && required) {
            check_decoded(field->sub, field->sub_count, at);
        }
    }
}

/* A refusal says what is wrong, in text that an answer can carry. */
static inline void check_note(const struct op *op, struct fault fault)
{
    uint8_t room[4096];
    struct buf out = { .at = room, .cap = sizeof(room), .max = sizeof(room) };
    struct jout json;
    BUG_IF(fault.code != FAULT_JSON_SYNTAX && fault.code != FAULT_JSON_FIELD);
    BUG_IF(!op->note.set || op->note.detail[0] == 0 || op->note.code != fault.code);
    jout_init(&json, &out);
    jout_object(&json);
    jout_key_text(&json, "detail", op->note.detail);
    jout_key_text(&json, "pointer", op->note.pointer);
    jout_object_end(&json);
    BUG_IF(FAULTED(jout_end(&json)));
}

#endif
