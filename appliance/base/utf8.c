#include "appliance/base/utf8.h"

struct fault utf8_next(struct reader *reader, uint32_t *ret_point)
{
    static const uint32_t smallest[] = { 0, 0x80, 0x800, 0x10000 };
    uint8_t first = 0;
    TRY(reader_u8(reader, &first));
    if (first < 0x80) {
        *ret_point = first;
        return OK;
    }
    size_t more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : 1;
    REQUIRE(first >= 0xc2 && first <= 0xf4, JSON_SYNTAX);
    uint32_t point = first & (0x3fu >> more);
    for (size_t i = 0; i < more; i++) {
        uint8_t next = 0;
        REQUIRE(reader->rest.len > 0, JSON_SYNTAX);
        TRY(reader_u8(reader, &next));
        REQUIRE((next & 0xc0) == 0x80, JSON_SYNTAX);
        point = point << 6 | (next & 0x3f);
    }
    REQUIRE(point >= smallest[more] && point <= 0x10ffff && (point < 0xd800 || point > 0xdfff), JSON_SYNTAX);
    *ret_point = point;
    return OK;
}

struct fault utf8_check(struct span text)
{
    struct reader reader = { text };
    for (;;) {
        size_t plain = 0; /* almost all of it */
        while (plain < reader.rest.len && reader.rest.at[plain] < 0x80) {
            plain++;
        }
        reader.rest = span_of(reader.rest.at + plain, reader.rest.len - plain);
        if (reader.rest.len == 0) {
            return OK;
        }
        uint32_t point = 0;
        TRY(utf8_next(&reader, &point));
    }
}

void utf8_repair(char *text)
{
    struct reader reader = { span_text(text) };
    while (reader.rest.len > 0) {
        struct reader next = reader;
        uint32_t point;
        if (FAULTED(utf8_next(&next, &point))) {
            text[(const char *)reader.rest.at - text] = '?';
            next.rest = span_of(reader.rest.at + 1, reader.rest.len - 1);
        }
        reader = next;
    }
}
