/*
 * Reading the body of a message: the parts are taken out by a forgiving scan, encoded again and compared. What is not
 * byte for byte the one form that we write is refused, so a message has one reading only.
 */
#include "api/events/events.h"

/* ---- the scan ---- */

struct scan {
    struct op *op;
    struct span rest;
};

static struct fault expect(struct scan *scan, const char *literal)
{
    size_t len = strlen(literal);
    REQUIRE(scan->rest.len >= len && memcmp(scan->rest.at, literal, len) == 0, LOG_DECODE);
    scan->rest = span_of(scan->rest.at + len, scan->rest.len - len);
    return OK;
}

static bool next_is(const struct scan *scan, char c)
{
    return scan->rest.len > 0 && scan->rest.at[0] == (uint8_t)c;
}

/* The text between quotes, as it stands. The comparison at the end refuses what is escaped in another way than ours. */
static struct fault take_quoted(struct scan *scan, struct span *ret_inner)
{
    TRY(expect(scan, "\""));
    size_t len = 0;
    while (len < scan->rest.len && scan->rest.at[len] != '"') {
        len += scan->rest.at[len] == '\\' ? 2 : 1;
    }
    REQUIRE(len < scan->rest.len, LOG_DECODE);
    *ret_inner = span_of(scan->rest.at, len);
    scan->rest = span_of(scan->rest.at + len + 1, scan->rest.len - len - 1);
    return OK;
}

static int hex_digit(uint8_t c)
{
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* One escape, `at` behind its backslash: the byte, and how many bytes of text it took; 0 = not one of ours. */
static size_t unescape(struct span at, char *ret_byte)
{
    static const char from[] = "\"\\bfnrt", to[] = "\"\\\b\f\n\r\t";
    if (at.len == 0 || at.at[0] == '\0') {
        return 0;
    }
    const char *found = strchr(from, at.at[0]);
    if (found != NULL) {
        *ret_byte = to[found - from];
        return 1;
    }
    if (at.len < 5 || at.at[0] != 'u' || at.at[1] != '0' || at.at[2] != '0') {
        return 0;
    }
    int high = hex_digit(at.at[3]), low = hex_digit(at.at[4]);
    if (high < 0 || high > 1 || low < 0 || (high == 0 && low == 0)) {
        return 0;
    }
    *ret_byte = (char)(high * 16 + low);
    return 5;
}

/* The quoted text of at most `max` bytes into `out`, NUL-terminated. */
static struct fault take_text(struct scan *scan, char *out, size_t max)
{
    struct span inner;
    TRY(take_quoted(scan, &inner));
    size_t len = 0;
    for (size_t i = 0; i < inner.len;) {
        REQUIRE(len < max && inner.at[i] != '\0', LOG_DECODE);
        if (inner.at[i] != '\\') {
            out[len++] = (char)inner.at[i++];
            continue;
        }
        size_t took = unescape(span_of(inner.at + i + 1, inner.len - i - 1), &out[len]);
        REQUIRE(took != 0, LOG_DECODE);
        i += 1 + took;
        len++;
    }
    out[len] = '\0';
    return OK;
}

static struct fault take_arena_text(struct scan *scan, size_t max, const char **ret_text)
{
    char *text = NULL;
    TRY(arena_take(scan->op->arena, max + 1, 1, &text));
    TRY(take_text(scan, text, max));
    *ret_text = text;
    return OK;
}

/* An object by counting brackets outside of texts. */
static struct fault take_object(struct scan *scan, struct span *ret_object)
{
    REQUIRE(next_is(scan, '{'), LOG_DECODE);
    struct span whole = scan->rest;
    size_t depth = 0;
    do {
        REQUIRE(scan->rest.len > 0, LOG_DECODE);
        uint8_t c = scan->rest.at[0];
        if (c == '"') {
            struct span ignored;
            TRY(take_quoted(scan, &ignored));
            continue;
        }
        depth += c == '{' ? 1 : 0;
        depth -= c == '}' ? 1 : 0;
        scan->rest = span_of(scan->rest.at + 1, scan->rest.len - 1);
    } while (depth > 0);
    *ret_object = span_of(whole.at, whole.len - scan->rest.len);
    return OK;
}

static struct fault take_int(struct scan *scan, int64_t *ret_value)
{
    int64_t value = 0;
    size_t digits = 0;
    while (scan->rest.len > 0 && scan->rest.at[0] >= '0' && scan->rest.at[0] <= '9' && digits < 10) {
        value = value * 10 + (scan->rest.at[0] - '0');
        scan->rest = span_of(scan->rest.at + 1, scan->rest.len - 1);
        digits++;
    }
    REQUIRE(digits > 0, LOG_DECODE);
    *ret_value = value;
    return OK;
}

static struct fault take_actor(struct scan *scan, struct principal *ret_actor)
{
    TRY(expect(scan, "{\"actor\":{\"roles\":["));
    while (!next_is(scan, ']')) {
        REQUIRE(ret_actor->role_count < OP_ROLES_MAX, LOG_DECODE);
        if (ret_actor->role_count > 0) {
            TRY(expect(scan, ","));
        }
        char *role = ret_actor->roles[ret_actor->role_count++];
        TRY(take_text(scan, role, sizeof(ret_actor->roles[0]) - 1));
    }
    TRY(expect(scan, "],\"subject\":"));
    TRY(take_text(scan, ret_actor->subject, OP_SUBJECT_MAX));
    return expect(scan, "}");
}

static struct fault take_events(struct scan *scan, struct event *events, size_t *ret_count)
{
    size_t count = 0;
    TRY(expect(scan, ",\"events\":["));
    do {
        REQUIRE(count < EVENTS_PER_MESSAGE_MAX, LOG_DECODE);
        if (count > 0) {
            TRY(expect(scan, ","));
        }
        struct event *event = &events[count++];
        TRY(expect(scan, "{\"data\":"));
        TRY(take_object(scan, &event->data));
        TRY(expect(scan, ",\"schema_version\":"));
        TRY(take_int(scan, &event->schema_version));
        TRY(expect(scan, ",\"type\":"));
        TRY(take_arena_text(scan, EVENT_TYPE_MAX, &event->type));
        TRY(expect(scan, "}"));
    } while (!next_is(scan, ']'));
    *ret_count = count;
    return OK;
}

static struct fault take_time(struct scan *scan, utc_us *ret_time)
{
    char text[RFC3339_MAX];
    TRY(take_text(scan, text, sizeof(text) - 1));
    return rfc3339_parse(span_text(text), ret_time);
}

static struct fault take_body(struct scan *scan, struct principal *actor, struct event *events,
                              struct event_body *ret_body)
{
    TRY(take_actor(scan, actor));
    TRY(take_events(scan, events, &ret_body->count));
    TRY(expect(scan, "],\"lane\":"));
    TRY(take_arena_text(scan, LANE_MAX, &ret_body->lane));
    TRY(expect(scan, ",\"message_id\":"));
    TRY(take_text(scan, ret_body->message_id.text, sizeof(ret_body->message_id.text) - 1));
    TRY(expect(scan, ",\"tenant\":"));
    TRY(take_text(scan, ret_body->tenant.text, sizeof(ret_body->tenant.text) - 1));
    TRY(expect(scan, ",\"time\":"));
    TRY(take_time(scan, &ret_body->time));
    TRY(expect(scan, ",\"trace_id\":"));
    TRY(take_arena_text(scan, 32, &ret_body->trace_id));
    TRY(expect(scan, ",\"v\":1}"));
    ret_body->actor = actor;
    ret_body->events = events;
    REQUIRE(scan->rest.len == 0, LOG_DECODE);
    return OK;
}

/* ---- the comparison, and the views ---- */

static struct fault same_again(struct op *op, const struct event_body *body, struct span bytes)
{
    CLEANUP(buf_free) struct buf again = BUF_INIT(EVENT_MESSAGE_MAX);
    struct fault encoded = event_message_encode(body, &again);
    if (encoded.code == FAULT_NO_MEMORY) {
        return encoded;
    }
    if (FAULTED(encoded) || !span_equal(buf_span(&again), bytes)) {
        return op_fail(op, FAULT(LOG_DECODE), "the message is not in the form that this program writes");
    }
    return OK;
}

static bool subject_agrees(struct span subject, const struct event_body *body)
{
    struct span parts[] = { span_text("svc.events."), span_text(body->tenant.text), span_text("."),
                            span_text(body->lane) };
    for (size_t i = 0; i < COUNT_OF(parts); i++) {
        if (subject.len < parts[i].len || memcmp(subject.at, parts[i].at, parts[i].len) != 0) {
            return false;
        }
        subject = span_of(subject.at + parts[i].len, subject.len - parts[i].len);
    }
    return subject.len == 0;
}

static struct fault event_id(struct uuid message_id, size_t position, struct uuid *ret_id)
{
    uint8_t number[4] = { 0, 0, (uint8_t)(position >> 8), (uint8_t)position };
    struct span parts[] = { span_text(message_id.text), SPAN_ARRAY(number) };
    return uuid_derive("svc.event", parts, COUNT_OF(parts), ret_id);
}

static struct fault make_views(struct op *op, const struct event_body *body, struct event_message *message)
{
    const char **roles = NULL;
    TRY(arena_take(op->arena, body->count, sizeof(*message->events), &message->events));
    TRY(arena_take(op->arena, body->actor->role_count + 1, sizeof(*roles), &roles));
    for (size_t i = 0; i < body->actor->role_count; i++) {
        roles[i] = body->actor->roles[i];
    }
    for (size_t i = 0; i < body->count; i++) {
        const struct event *event = &body->events[i];
        struct event_view *view = &message->events[i];
        *view = (struct event_view){
            .tenant = body->tenant,
            .lane = body->lane,
            .type = event->type,
            .schema_version = event->schema_version,
            .time = body->time,
            .actor_subject = body->actor->subject,
            .actor_roles = roles,
            .actor_role_count = body->actor->role_count,
            .trace_id = body->trace_id,
            .data = event->data,
            .stream_seq = message->stream_seq,
            .position = (unsigned)i,
        };
        TRY(event_id(body->message_id, i, &view->id));
    }
    return OK;
}

static struct fault decode(struct op *op, uint64_t stream_seq, const struct span *subject, struct span body,
                           struct event_message *ret_message)
{
    if (body.len > EVENT_MESSAGE_MAX) {
        return op_fail(op, FAULT(LOG_DECODE), "the message is larger than this program writes");
    }
    struct scan scan = { .op = op };
    struct principal *actor = NULL;
    struct event events[EVENTS_PER_MESSAGE_MAX]; /* most messages have one or two: the arena is too good for this */
    struct event_body parts = { 0 };
    struct event_message message = { .stream_seq = stream_seq };
    TRY(arena_copy(op->arena, body, &message.body));
    TRY(arena_take(op->arena, 1, sizeof(*actor), &actor));
    scan.rest = message.body;
    struct fault taken = take_body(&scan, actor, events, &parts);
    if (taken.code == FAULT_NO_MEMORY || taken.code == FAULT_TOO_LARGE) {
        return taken;
    }
    if (FAULTED(taken)) {
        return op_fail(op, FAULT(LOG_DECODE), "the message is not one of this program: it differs at byte %zu",
                       message.body.len - scan.rest.len);
    }
    TRY(same_again(op, &parts, message.body));
    if (subject != NULL && !subject_agrees(*subject, &parts)) {
        return op_fail(op, FAULT(LOG_DECODE), "the message's subject is not that of its tenant and lane");
    }
    message.message_id = parts.message_id;
    message.tenant = parts.tenant;
    message.count = parts.count;
    TRY(make_views(op, &parts, &message));
    *ret_message = message;
    return OK;
}

struct fault event_message_decode(struct op *op, uint64_t stream_seq, struct span subject, struct span body,
                                  struct event_message *ret_message)
{
    return decode(op, stream_seq, &subject, body, ret_message);
}

struct fault event_body_decode(struct op *op, uint64_t stream_seq, struct span body, struct event_message *ret_message)
{
    return decode(op, stream_seq, NULL, body, ret_message);
}
