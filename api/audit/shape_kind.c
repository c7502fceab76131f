#include "api/audit/shape_lines.h"

enum { CREATE = 1, READ = 2, UPDATE = 3, DELETE = 4, OTHER = 99 };
enum { INFORMATIONAL = 1, LOW = 2, MEDIUM = 3, HIGH = 4 };

static const struct shape_kind kinds[] = {
    { "archived", UPDATE, LOW, false },
    { "activated", UPDATE, INFORMATIONAL, false },
    { "certified", UPDATE, INFORMATIONAL, false },
    { "commanded", CREATE, INFORMATIONAL, false },
    { "completed", UPDATE, INFORMATIONAL, false },
    { "created", CREATE, INFORMATIONAL, false },
    { "deleted", DELETE, LOW, false },
    { "delivered", UPDATE, INFORMATIONAL, false },
    { "denied", UPDATE, MEDIUM, false },
    { "destroyed", DELETE, MEDIUM, false },
    { "erased", DELETE, LOW, false },
    { "executed", UPDATE, MEDIUM, false },
    { "failed", OTHER, MEDIUM, true },
    { "generated", CREATE, INFORMATIONAL, false },
    { "granted", UPDATE, INFORMATIONAL, false },
    { "issued", CREATE, INFORMATIONAL, false },
    { "leased", UPDATE, INFORMATIONAL, false },
    { "lost", OTHER, HIGH, true },
    { "missing", OTHER, HIGH, true },
    { "prepared", CREATE, INFORMATIONAL, false },
    { "published", CREATE, INFORMATIONAL, false },
    { "read", READ, INFORMATIONAL, false },
    { "recovered", UPDATE, INFORMATIONAL, false },
    { "refused", OTHER, MEDIUM, true },
    { "requested", CREATE, INFORMATIONAL, false },
    { "retired", UPDATE, LOW, false },
    { "retiring", UPDATE, LOW, false },
    { "revoked", DELETE, MEDIUM, false },
    { "rotated", UPDATE, LOW, false },
    { "saved", UPDATE, LOW, false },
    { "signed", CREATE, INFORMATIONAL, false },
    { "trusted", UPDATE, INFORMATIONAL, false },
    { "used", UPDATE, INFORMATIONAL, false },
    { "verified", READ, INFORMATIONAL, false },
};
static const struct shape_kind other = { "", OTHER, INFORMATIONAL, false };

const struct shape_kind *shape_kind_of(struct span type)
{
    size_t from = type.len;
    while (from > 0 && type.at[from - 1] != '.' && type.at[from - 1] != '_') {
        from--;
    }
    struct span word = span_of(type.at + from, type.len - from);
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        if (span_equal_text(word, kinds[i].word)) {
            return &kinds[i];
        }
    }
    return &other;
}

const char *shape_activity_text(int activity)
{
    static const char *const texts[] = { "Unknown", "Create", "Read", "Update", "Delete" };
    size_t at = activity > 0 ? (size_t)activity : COUNT_OF(texts);
    return at < COUNT_OF(texts) ? texts[at] : "Other";
}

const char *shape_severity_text(int severity)
{
    static const char *const texts[] = { "Unknown", "Informational", "Low", "Medium", "High" };
    BUG_IF(severity < 0 || (size_t)severity >= COUNT_OF(texts));
    return texts[severity];
}

struct fault shape_put_title(struct span type, struct buf *out)
{
    for (size_t i = 0; i < type.len; i++) {
        uint8_t c = type.at[i];
        bool gap = c == '.' || c == '_';
        bool first = i == 0 && c >= 'a' && c <= 'z';
        TRY(buf_u8(out, gap ? (uint8_t)' ' : first ? (uint8_t)(c - 'a' + 'A') : c));
    }
    return OK;
}
