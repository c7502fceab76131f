/* Taking signed JSON apart, strictly, and saying where it is not as it must be. */
#include "api/compliance/verify_internal.h"

#include <stdarg.h>
#include <stdio.h>

static const char *const reason_texts[] = {
#define REASON_ROW(symbol, text, what) [PACK_##symbol] = (text),
#include "api/compliance/verify_reason.def"
#undef REASON_ROW
};
static const char *const reason_titles[] = {
#define REASON_ROW(symbol, text, what) [PACK_##symbol] = (what),
#include "api/compliance/verify_reason.def"
#undef REASON_ROW
};

const char *evidence_reason_text(enum evidence_reason reason)
{
    BUG_IF((unsigned)reason >= COUNT_OF(reason_texts));
    return reason_texts[reason];
}

const char *evidence_reason_title(enum evidence_reason reason)
{
    BUG_IF((unsigned)reason >= COUNT_OF(reason_titles));
    return reason_titles[reason];
}

bool listed(const char *const *texts, size_t count, const char *text)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(texts[i], text) == 0) {
            return true;
        }
    }
    return false;
}

/* The same as framework_id and prerequisite_state_text say, which are not linked here: a test compares them. */
bool evidence_framework_known(const char *id)
{
    static const char *const ids[FRAMEWORKS] = { "pci-dss", "hipaa",    "soc2",     "nist-800-53", "nist-csf-2.0",
                                                 "fedramp", "cmmc-2.0", "cnsa-2.0", "fips-140",    "common-criteria",
                                                 "cabf-br", "webtrust", "etsi",     "eidas",       "nis2" };
    return listed(ids, COUNT_OF(ids), id);
}

bool evidence_state(const char *text, enum prerequisite_state *ret_state)
{
    static const char *const states[STATE_COUNT] = { "met",    "missing",   "stale",  "insufficient",
                                                     "failed", "malformed", "foreign" };
    for (size_t i = 0; i < COUNT_OF(states); i++) {
        if (strcmp(states[i], text) == 0) {
            *ret_state = (enum prerequisite_state)i;
            return true;
        }
    }
    return false;
}

static struct fault refuse_list(struct check *check, enum evidence_reason reason, const char *member,
                                const char *format, va_list list) __attribute__((format(printf, 4, 0)));
static struct fault refuse_list(struct check *check, enum evidence_reason reason, const char *member,
                                const char *format, va_list list)
{
    struct evidence_verdict *verdict = check->verdict;
    if (verdict->reason == PACK_HOLDS) {
        verdict->reason = reason;
        (void)snprintf(verdict->member, sizeof(verdict->member), "%s", member);
        (void)vsnprintf(verdict->why, sizeof(verdict->why), format, list);
    }
    return FAULT(EVIDENCE_REFUSED);
}

struct fault refuse(struct check *check, enum evidence_reason reason, const char *member, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    struct fault fault = refuse_list(check, reason, member, format, list);
    va_end(list);
    return fault;
}

struct fault refuse_below(struct check *check, enum evidence_reason reason, const char *at, const char *name,
                          const char *format, ...)
{
    char member[MEMBER_MAX];
    va_list list;
    member_below(at, name, member);
    va_start(list, format);
    struct fault fault = refuse_list(check, reason, member, format, list);
    va_end(list);
    return fault;
}

/* Cut at its size: a pointer that is too long still says where it begins. */
void member_below(const char *at, const char *name, char out[MEMBER_MAX])
{
    (void)snprintf(out, MEMBER_MAX, "%s/%s", at, name);
}

void member_at(const char *at, size_t index, char out[MEMBER_MAX])
{
    (void)snprintf(out, MEMBER_MAX, "%s/%zu", at, index);
}

/* Members of an object in canonical form. */
static size_t members_of(struct span json)
{
    size_t depth = 0, count = 0;
    bool in_string = false;
    for (size_t i = 0; i < json.len; i++) {
        uint8_t c = json.at[i];
        if (in_string) {
            i += c == '\\';
            in_string = c != '"';
            continue;
        }
        in_string = c == '"';
        depth += c == '{' || c == '[';
        depth -= c == '}' || c == ']';
        count += depth == 1 && c == ':';
    }
    return count;
}

/* What the decoder refused, as ours. */
static struct fault translate(struct check *check, struct fault fault, enum evidence_reason reason, const char *at)
{
    char member[MEMBER_MAX];
    if (fault.code != FAULT_JSON_FIELD && fault.code != FAULT_JSON_SYNTAX) {
        return fault;
    }
    (void)snprintf(member, sizeof(member), "%s%s", at, check->op->note.pointer);
    return refuse(check, reason, member, "%s", check->op->note.detail);
}

struct fault take_object(struct check *check, enum evidence_reason reason, const char *at, struct span json,
                         const struct jin_field *fields, size_t count, void *ret_struct)
{
    check->op->note = (struct fault_note){ 0 };
    struct fault fault = jin_decode(check->op, json, fields, count, ret_struct);
    if (FAULTED(fault)) {
        return translate(check, fault, reason, at);
    }
    if (members_of(json) != count) {
        return refuse(check, reason, at, "a member is missing: there must be exactly %zu", count);
    }
    return OK;
}

struct fault take_array(struct check *check, enum evidence_reason reason, const char *at, struct span json, size_t max,
                        struct span **ret_items, size_t *ret_count)
{
    check->op->note = (struct fault_note){ 0 };
    return translate(check, jin_array(check->op, json, max, ret_items, ret_count), reason, at);
}

struct fault take_time(struct check *check, const char *at, const char *name, const char *text, utc_us *ret_time)
{
    char again[RFC3339_MAX];
    utc_us time = 0;
    if (FAULTED(rfc3339_parse(span_text(text), &time))) {
        return refuse_below(check, PACK_TIME, at, name, "\"%.40s\" is no time", text);
    }
    rfc3339_print(time, again);
    if (strcmp(text, again) != 0) {
        return refuse_below(check, PACK_TIME, at, name, "\"%.40s\" is not how this time is signed: %s", text, again);
    }
    *ret_time = time;
    return OK;
}

struct fault take_window(struct check *check, enum evidence_reason reason, const char *at, struct span json,
                         struct evidence_window *ret_window)
{
    struct texts {
        const char *from, *to;
    } window = { 0 };
    static const struct jin_field fields[] = {
        JIN_TEXT(struct texts, from, JIN_REQUIRED, 1, RFC3339_MAX),
        JIN_TEXT(struct texts, to, JIN_REQUIRED, 1, RFC3339_MAX),
    };
    TRY(take_object(check, reason, at, json, fields, COUNT_OF(fields), &window));
    TRY(take_time(check, at, "from", window.from, &ret_window->from));
    return take_time(check, at, "to", window.to, &ret_window->to);
}
