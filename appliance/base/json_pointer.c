#include "appliance/base/json_pointer.h"

#include <stdio.h>

#define DEPTH_MAX 32

void json_pointer_add(char out[JSON_POINTER_SIZE], struct span name)
{
    size_t len = strlen(out);
    if (len + 1 < JSON_POINTER_SIZE) {
        out[len++] = '/';
    }
    for (size_t i = 0; i < name.len && len + 2 < JSON_POINTER_SIZE; i++) {
        char c = (char)name.at[i];
        if (c == '~' || c == '/') {
            out[len++] = '~';
            out[len++] = c == '~' ? '0' : '1';
        } else {
            out[len++] = c;
        }
    }
    out[len] = 0;
}

struct level {
    bool object, key_due;
    size_t index;    /* of an array */
    struct span key; /* of an object: as written, escapes and all */
};

/* Past the closing quote of the string whose opening quote stands at `at`. */
static size_t string_end(struct span json, size_t at)
{
    for (at++; at < json.len && json.at[at] != '"'; at++) {
        at += json.at[at] == '\\';
    }
    return at < json.len ? at + 1 : json.len;
}

static void step(struct level *level, struct span string, uint8_t c)
{
    if (c == '"' && level->object && level->key_due) {
        level->key = string;
        level->key_due = false;
    } else if (c == ',') {
        level->key_due = level->object;
        level->index++;
    }
}

void json_pointer_at(struct span json, size_t end, char out[JSON_POINTER_SIZE])
{
    struct level levels[DEPTH_MAX + 1] = { 0 };
    size_t depth = 0;
    for (size_t i = 0; i < end && i < json.len;) {
        uint8_t c = json.at[i];
        size_t next = c == '"' ? string_end(json, i) : i + 1;
        if ((c == '{' || c == '[') && depth < DEPTH_MAX) {
            levels[++depth] = (struct level){ .object = c == '{', .key_due = c == '{' };
        } else if ((c == '}' || c == ']') && depth > 0) {
            depth--;
        } else {
            step(&levels[depth], span_of(json.at + i + 1, next - i > 2 ? next - i - 2 : 0), c);
        }
        i = next;
    }
    out[0] = 0;
    for (size_t i = 1; i <= depth; i++) {
        char index[24];
        (void)snprintf(index, sizeof(index), "%zu", levels[i].index);
        json_pointer_add(out, levels[i].object ? levels[i].key : span_text(index));
    }
}
