#include "api/server/trace.h"

#include "appliance/base/codec.h"
#include "appliance/base/tracing.h"

#include <stdio.h>
#include <strings.h>

#define KEY_MAX     256
#define VALUE_MAX   256
#define MEMBER_LONG 128
#define STATE_MAX   ((size_t)16 << 10) /* before it is cut: what a header block can hold */
#define IDS_LEN     24                 /* a span and a trace */
#define IDS_KEPT    16

/* ---- traceparent ---- */

/* `len` lower-case hex digits, not all zero when `nonzero` (W3C Trace Context 3.2.2). */
static bool hex_field(const char *at, size_t len, bool nonzero)
{
    bool any = false;
    for (size_t i = 0; i < len; i++) {
        if (!((at[i] >= '0' && at[i] <= '9') || (at[i] >= 'a' && at[i] <= 'f'))) {
            return false;
        }
        any = any || at[i] != '0';
    }
    return any || !nonzero;
}

bool traceparent_parse(const char *text, struct traceparent *ret_parent)
{
    size_t len = strlen(text);
    if (len < TRACEPARENT_LEN || text[2] != '-' || text[35] != '-' || text[52] != '-') {
        return false;
    }
    bool later = memcmp(text, "00", 2) != 0;
    if (!hex_field(text, 2, false) || memcmp(text, "ff", 2) == 0 || !hex_field(text + 3, 32, true) ||
        !hex_field(text + 36, 16, true) || !hex_field(text + 53, 2, false)) {
        return false;
    }
    if (len > TRACEPARENT_LEN && (!later || text[TRACEPARENT_LEN] != '-')) {
        return false;
    }
    *ret_parent =
        (struct traceparent){ .sampled = ((text[54] <= '9' ? text[54] - '0' : text[54] - 'a' + 10) & 1) != 0 };
    memcpy(ret_parent->trace_id, text + 3, 32);
    memcpy(ret_parent->parent_id, text + 36, 16);
    return true;
}

void traceparent_print(const struct op *op, char out[TRACEPARENT_LEN + 1])
{
    (void)snprintf(out, TRACEPARENT_LEN + 1, "00-%.32s-%.16s-0%c", op->trace_id, op->span_id, op->sampled ? '1' : '0');
}

/* ---- tracestate (3.3.1) ---- */

static bool is_lower(char c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* simple-key, or tenant-id@system-id; the latter may begin with a digit. */
static bool key_fits(struct span key)
{
    const char *at = (const char *)key.at;
    const char *sign = memchr(at, '@', key.len);
    size_t front = sign != NULL ? (size_t)(sign - at) : key.len, back = key.len - front;
    if (front == 0 || key.len > KEY_MAX || (!is_lower(at[0]) && (sign == NULL || !is_digit(at[0])))) {
        return false;
    }
    if (sign != NULL && (front > 241 || back < 2 || back > 15 || !is_lower(sign[1]))) {
        return false;
    }
    for (size_t i = 0; i < key.len; i++) {
        if (!is_lower(at[i]) && !is_digit(at[i]) && strchr("_-*/", at[i]) == NULL && &at[i] != sign) {
            return false;
        }
    }
    return true;
}

static bool value_fits(struct span value)
{
    for (size_t i = 0; i < value.len; i++) {
        if (value.at[i] < 0x20 || value.at[i] > 0x7e || value.at[i] == ',' || value.at[i] == '=') {
            return false;
        }
    }
    return value.len > 0 && value.len <= VALUE_MAX && value.at[value.len - 1] != ' ';
}

/* The member that begins at *at, up to its comma, without the blanks around it; *at comes behind the comma. */
static struct span next_member(const char **at)
{
    const char *begin = *at, *end = begin + strcspn(begin, ",");
    *at = *end == ',' ? end + 1 : end;
    while (begin < end && is_blank(*begin)) {
        begin++;
    }
    while (end > begin && is_blank(end[-1])) {
        end--;
    }
    return span_of(begin, (size_t)(end - begin));
}

static struct span key_of(struct span member)
{
    const uint8_t *equals = memchr(member.at, '=', member.len);
    return span_of(member.at, equals != NULL ? (size_t)(equals - member.at) : 0);
}

/* Among the members in `state`, which are well-formed. */
static bool has_key(struct buf *state, struct span key)
{
    const char *text = NULL;
    if (state->len == 0 || FAULTED(buf_cstr(state, &text))) {
        return false;
    }
    while (*text != '\0') {
        if (span_equal(key_of(next_member(&text)), key)) {
            return true;
        }
    }
    return false;
}

bool tracestate_add(const char *text, struct buf *out, size_t *members)
{
    while (*text != '\0') {
        struct span member = next_member(&text), key = key_of(member);
        if (member.len == 0) {
            continue; /* an empty one is allowed */
        }
        struct span value = span_of(member.at + key.len + 1, key.len > 0 ? member.len - key.len - 1 : 0);
        if (key.len == 0 || !key_fits(key) || !value_fits(value) || ++*members > TRACESTATE_MEMBERS_MAX ||
            has_key(out, key) || FAULTED(buf_text(out, out->len > 0 ? "," : "")) || FAULTED(buf_put(out, member))) {
            return false;
        }
    }
    return true;
}

/* Takes out the last member that is longer than `least`; false when there is none. */
static bool take_out(struct buf *state, size_t least)
{
    size_t end = state->len;
    while (end > 0) {
        size_t begin = end;
        while (begin > 0 && state->at[begin - 1] != ',') {
            begin--;
        }
        if (end - begin > least) {
            size_t from = begin > 0 ? begin - 1 : 0, to = begin == 0 && end < state->len ? end + 1 : end;
            memmove(state->at + from, state->at + to, state->len - to);
            state->len -= to - from;
            return true;
        }
        end = begin > 0 ? begin - 1 : 0;
    }
    return false;
}

void tracestate_cut(struct buf *state)
{
    while (state->len > TRACESTATE_MAX && take_out(state, MEMBER_LONG)) {
    }
    while (state->len > TRACESTATE_MAX && take_out(state, 0)) {
    }
}

/* What is no tracestate is dropped, and the trace goes on (3.3.1.2). */
static void keep_state(struct op *op, const struct message *message)
{
    CLEANUP(buf_free) struct buf state = BUF_INIT(STATE_MAX);
    size_t members = 0;
    for (size_t i = 0; i < message->header_count; i++) {
        if (strcasecmp(message->headers[i].name, "tracestate") == 0 &&
            !tracestate_add(message->headers[i].value, &state, &members)) {
            return;
        }
    }
    tracestate_cut(&state);
    const char *kept = NULL;
    if (state.len > 0 && !FAULTED(arena_text(op->arena, buf_span(&state), &kept))) {
        op->tracestate = kept;
    }
}

/* ---- an operation ---- */

/* False: the message names no parent, or several. */
static bool parent_of(const struct message *message, struct traceparent *ret_parent)
{
    return message != NULL && message_header_count(message, "traceparent") == 1 &&
           traceparent_parse(message_header(message, "traceparent"), ret_parent);
}

/* Ids are no secrets, and the generator takes its time for each call, however little is asked: so a thread asks for
 * those of its next requests together. */
static struct fault fresh_ids(uint8_t ret_fresh[IDS_LEN])
{
    static thread_local uint8_t kept[IDS_LEN * IDS_KEPT];
    static thread_local size_t left;
    if (left == 0) {
        TRY(random_bytes(kept, sizeof(kept)));
        left = IDS_KEPT;
    }
    memcpy(ret_fresh, kept + --left * IDS_LEN, IDS_LEN);
    return OK;
}

/* The ratio is taken of an id of our own: the caller's is one that anybody can choose. Anybody may ask for nothing to
 * be recorded. */
struct fault trace_begin(struct op *op, const struct message *message)
{
    uint8_t fresh[IDS_LEN];
    struct traceparent parent;
    TRY(fresh_ids(fresh));
    hex_text(span_of(fresh, 8), op->span_id, sizeof(op->span_id));
    hex_text(span_of(fresh + 8, 16), op->trace_id, sizeof(op->trace_id));
    op->sampled = trace_sampled(op->trace_id);
    if (parent_of(message, &parent)) {
        memcpy(op->trace_id, parent.trace_id, sizeof(op->trace_id));
        op->parent_span = trace_number(parent.parent_id);
        op->sampled = op->sampled && parent.sampled;
        keep_state(op, message);
    }
    return OK;
}

void trace_caller_known(struct op *op, const struct message *message)
{
    struct traceparent parent;
    if (parent_of(message, &parent)) {
        op->sampled = parent.sampled;
        trace_remember(op->trace_id, parent.sampled);
    }
}
