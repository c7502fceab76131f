/*
 * One message without the subject. Texts of the events' data (members' names below the first level too) and the actor's
 * subject have the matching bytes replaced; what is structure (types, lanes, ids, roles, the first level's names)
 * stays. A text that is a digest, an id or base64 is left as it is: other bytes in it would make it another value.
 */
#include "api/privacy/internal.h"

#include "appliance/base/codec.h"
#include "appliance/base/utf8.h"

#include <stdio.h>

#define OPAQUE_LEAST 32
#define HEX_LEAST    12 /* a shorter subject of hex digits would be found in digests */
#define NESTING_MAX  64

/* ---- subject ---- */

/* Words of ours that stand as values in events' data. */
static const char *const vocabulary[] = {
    "system:",  "erased-",      "active",  "prepared",  "retired",  "retiring",  "destroyed", "certified",
    "codesign", "audit-export", "seal",    "timestamp", "keyless",  "external",  "granted",   "denied",
    "sign",     "destroy",      "ec-p256", "ec-p384",   "rsa-3072", "rsa-4096",  "ml-dsa-65", "sha256",
    "sha384",   "sha512",       "ecdsa",   "rsa-pss",   "pkcs1",    "completed", "published", "failed",
    "revoked",  "delivered",    "http",    "true",      "false",    "null",      "none",      "erase",
};

static bool holds(struct span text, struct span part)
{
    return part.len > 0 && text.len >= part.len && memmem(text.at, text.len, part.at, part.len) != NULL;
}

static struct fault refuse(struct op *op, const char *why)
{
    return op_fail_field(op, FAULT(PRIVACY_SUBJECT), "/subject", "/subject: %s", why);
}

static bool is_hex(struct span text)
{
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.at[i];
        if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || c == '-')) {
            return false;
        }
    }
    return true;
}

static struct fault check_form(struct op *op, struct span text)
{
    if (text.len < SUBJECT_LEAST || text.len > OP_SUBJECT_MAX) {
        return refuse(op, "4 to 128 bytes: fewer would be found everywhere");
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.at[i] < ' ' || text.at[i] == 0x7f) {
            return refuse(op, "control characters are not taken");
        }
    }
    if (FAULTED(utf8_check(text))) {
        return refuse(op, "is not UTF-8");
    }
    if (is_hex(text) && text.len < HEX_LEAST) {
        return refuse(op, "hex digits alone would be found in digests and ids");
    }
    for (size_t i = 0; i < COUNT_OF(vocabulary); i++) {
        struct span word = span_text(vocabulary[i]);
        bool system = i < 2 && holds(text, word);
        if (system || holds(word, text)) {
            return refuse(op, "is a word of the log's own structure: replacing it would change what events say");
        }
    }
    size_t count = 0;
    const struct feature *const *features = features_all(&count);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < features[i]->event_count; j++) {
            if (holds(span_text(features[i]->events[j].type), text)) {
                return refuse(op, "is part of an event type's name: replacing it would change what events say");
            }
        }
    }
    return holds(span_text(op->tenant.text), text) ? refuse(op, "is part of the tenant's id") : OK;
}

/* The characters of base64 that every occurrence of `text` has, whatever stands before and behind it, when it begins
 * `shift` bytes behind a group of three. */
static struct fault base64_core(struct op *op, struct span text, size_t shift, bool url, struct span *ret_core)
{
    static const uint8_t nothing[2];
    CLEANUP(buf_free) struct buf shifted = BUF_INIT(4096), encoded = BUF_INIT(8192);
    TRY(buf_put(&shifted, span_of(nothing, shift)));
    TRY(buf_put(&shifted, text));
    TRY(url ? base64url_encode(buf_span(&shifted), &encoded) : base64_encode(buf_span(&shifted), &encoded));
    size_t from = shift == 0 ? 0 : shift + 1, to = shifted.len * 8 / 6;
    return arena_copy(op->arena, span_of(encoded.at + from, to - from), ret_core);
}

static struct fault make_needles(struct op *op, struct privacy_subject *subject)
{
    CLEANUP(buf_free) struct buf json = BUF_INIT(4096), hex = BUF_INIT(4096);
    struct jout jout;
    jout_init(&jout, &json);
    jout_span_text(&jout, subject->text);
    TRY(jout_end(&jout));
    TRY(arena_copy(op->arena, span_of(json.at + 1, json.len - 2), &subject->needles[0]));
    for (size_t shift = 0; shift < 3; shift++) {
        TRY(base64_core(op, subject->text, shift, false, &subject->needles[1 + shift]));
        TRY(base64_core(op, subject->text, shift, true, &subject->needles[4 + shift]));
    }
    TRY(hex_encode(subject->text, &hex));
    return arena_copy(op->arena, buf_span(&hex), &subject->needles[7]);
}

struct fault privacy_subject_make(struct op *op, const char *text, struct uuid erasure_id,
                                  struct privacy_subject *ret_subject)
{
    struct privacy_subject made = { 0 };
    struct span trimmed = span_text(text);
    while (trimmed.len > 0 && trimmed.at[0] == ' ') {
        trimmed = span_of(trimmed.at + 1, trimmed.len - 1);
    }
    while (trimmed.len > 0 && trimmed.at[trimmed.len - 1] == ' ') {
        trimmed.len--;
    }
    TRY(check_form(op, trimmed));
    TRY(arena_copy(op->arena, trimmed, &made.text));
    TRY(make_needles(op, &made));
    (void)snprintf(made.placeholder, sizeof(made.placeholder), "erased-%.13s", erasure_id.text);
    if (holds(span_text(made.placeholder), made.text)) {
        return refuse(op, "is part of what would take its place");
    }
    *ret_subject = made;
    return OK;
}

/* ---- texts ---- */

static bool is_opaque(struct span text)
{
    struct uuid id;
    CLEANUP(buf_free) struct buf decoded = BUF_INIT(EVENT_MESSAGE_MAX);
    if (text.len == 36 && !FAULTED(uuid_parse(text, &id))) {
        return true;
    }
    return text.len >= OPAQUE_LEAST && (is_hex(text) || !FAULTED(base64_decode(text, &decoded)));
}

static struct fault replace(const struct privacy_subject *subject, struct span text, struct buf *out)
{
    buf_clear(out);
    struct span rest = text;
    while (rest.len > 0) {
        const uint8_t *found = memmem(rest.at, rest.len, subject->text.at, subject->text.len);
        size_t before = found != NULL ? (size_t)(found - rest.at) : rest.len;
        TRY(buf_put(out, span_of(rest.at, before)));
        size_t used = before;
        if (found != NULL) {
            TRY(buf_text(out, subject->placeholder));
            used += subject->text.len;
        }
        rest = span_of(rest.at + used, rest.len - used);
    }
    /* Most texts are bounded, and most bounds are no less than a subject's. And what stands beside a placeholder must
     * not make the subject again together with it. */
    bool outgrown = out->len > OP_SUBJECT_MAX && out->len > text.len && text.len <= OP_SUBJECT_MAX;
    if (outgrown || holds(buf_span(out), subject->text)) {
        buf_clear(out);
        TRY(buf_text(out, subject->placeholder));
    }
    return OK;
}

/* ---- a walk over canonical JSON ---- */

struct walk {
    struct op *op;
    const struct privacy_subject *subject;
    struct span rest;
    struct buf *out;
    struct buf text, made; /* of one string */
    bool changed;
};

static unsigned hex_value(const uint8_t *at)
{
    unsigned value = 0;
    for (size_t i = 0; i < 4; i++) {
        uint8_t c = at[i];
        value = value * 16 + (unsigned)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return value;
}

/* Canonical: besides \uXXXX of control characters there are seven escapes. */
static struct fault unescape(struct span inner, struct buf *out)
{
    static const char from[] = "\"\\bfnrt", to[] = "\"\\\b\f\n\r\t";
    buf_clear(out);
    for (size_t i = 0; i < inner.len; i++) {
        uint8_t c = inner.at[i];
        if (c == '\\') {
            REQUIRE(i + 1 < inner.len && inner.at[i + 1] != 0, JSON_SYNTAX);
            c = inner.at[++i];
            const char *found = strchr(from, c);
            REQUIRE(found != NULL || (c == 'u' && i + 4 < inner.len), JSON_SYNTAX);
            c = found != NULL ? (uint8_t)to[found - from] : (uint8_t)hex_value(inner.at + i + 1);
            i += found != NULL ? 0 : 4;
        }
        TRY(buf_u8(out, c));
    }
    return OK;
}

static struct fault take_string(struct walk *walk, struct span *ret_whole)
{
    size_t len = 1;
    while (len < walk->rest.len && walk->rest.at[len] != '"') {
        len += walk->rest.at[len] == '\\' ? 2 : 1;
    }
    REQUIRE(len < walk->rest.len, JSON_SYNTAX);
    *ret_whole = span_of(walk->rest.at, len + 1);
    walk->rest = span_of(walk->rest.at + len + 1, walk->rest.len - len - 1);
    return OK;
}

static struct fault put_string(struct walk *walk, struct span whole, bool structure)
{
    struct span inner = span_of(whole.at + 1, whole.len - 2);
    if (!holds(inner, walk->subject->needles[0])) {
        return buf_put(walk->out, whole);
    }
    TRY(unescape(inner, &walk->text));
    if (!holds(buf_span(&walk->text), walk->subject->text) ||
        (is_opaque(buf_span(&walk->text)) && !span_equal(buf_span(&walk->text), walk->subject->text))) {
        return buf_put(walk->out, whole);
    }
    if (structure) {
        return refuse(walk->op, "is part of a member's name in events: replacing it would change what they say");
    }
    struct jout jout;
    TRY(replace(walk->subject, buf_span(&walk->text), &walk->made));
    walk->changed = true;
    jout_init(&jout, walk->out);
    jout_span_text(&jout, buf_span(&walk->made));
    return jout_end(&jout);
}

/* A string in front of a colon is a member's name; those of the first level are ours. */
static struct fault walk_json(struct walk *walk)
{
    size_t depth = 0;
    while (walk->rest.len > 0) {
        uint8_t c = walk->rest.at[0];
        if (c == '"') {
            struct span whole;
            TRY(take_string(walk, &whole));
            bool name = walk->rest.len > 0 && walk->rest.at[0] == ':';
            TRY(put_string(walk, whole, name && depth == 1));
            continue;
        }
        depth += c == '{' || c == '[';
        depth -= (c == '}' || c == ']') && depth > 0;
        REQUIRE(depth <= NESTING_MAX, JSON_SYNTAX);
        TRY(buf_u8(walk->out, c));
        walk->rest = span_of(walk->rest.at + 1, walk->rest.len - 1);
    }
    return OK;
}

static struct fault transform_data(struct op *op, const struct privacy_subject *subject, struct span data,
                                   struct span *ret_data, bool *changed)
{
    CLEANUP(buf_free) struct buf out = BUF_INIT((size_t)16 * EVENT_MESSAGE_MAX);
    struct walk walk = { .op = op, .subject = subject, .rest = data, .out = &out };
    if (!holds(data, subject->needles[0])) {
        *ret_data = data;
        return OK;
    }
    walk.text = (struct buf)BUF_INIT(EVENT_MESSAGE_MAX);
    walk.made = (struct buf)BUF_INIT((size_t)16 * EVENT_MESSAGE_MAX);
    struct fault fault = walk_json(&walk);
    buf_free(&walk.text);
    buf_free(&walk.made);
    TRY(fault);
    *changed = *changed || walk.changed;
    return arena_copy(op->arena, buf_span(&out), ret_data);
}

/* ---- messages ---- */

static struct fault transform_actor(const struct privacy_subject *subject, const struct event_view *event,
                                    struct principal *ret_actor, bool *changed)
{
    struct principal actor = { .role_count = event->actor_role_count };
    CLEANUP(buf_free) struct buf made = BUF_INIT((size_t)64 << 10);
    struct span text = span_text(event->actor_subject);
    if (holds(text, subject->text)) {
        TRY(replace(subject, text, &made));
        text = buf_span(&made);
        *changed = true;
    }
    REQUIRE(text.len <= OP_SUBJECT_MAX, TOO_LARGE);
    if (text.len > 0) {
        memcpy(actor.subject, text.at, text.len);
    }
    for (size_t i = 0; i < event->actor_role_count; i++) {
        (void)snprintf(actor.roles[i], sizeof(actor.roles[i]), "%s", event->actor_roles[i]);
    }
    *ret_actor = actor;
    return OK;
}

static bool may_hold_encoded(struct span body, const struct privacy_subject *subject)
{
    bool found = false;
    for (size_t i = 0; i < NEEDLES; i++) {
        found = found || holds(body, subject->needles[i]);
    }
    return found;
}

struct fault privacy_transform(struct op *op, const struct event_message *message,
                               const struct privacy_subject *subject, struct buf *out, struct transformed *ret_made)
{
    struct transformed made = { 0 };
    struct principal actor;
    struct event *events = NULL;
    const struct event_view *first = &message->events[0];
    TRY(arena_take(op->arena, message->count, sizeof(*events), &events));
    TRY(transform_actor(subject, first, &actor, &made.changed));
    for (size_t i = 0; i < message->count; i++) {
        const struct event_view *view = &message->events[i];
        events[i] = (struct event){ .type = view->type, .schema_version = view->schema_version };
        TRY(transform_data(op, subject, view->data, &events[i].data, &made.changed));
    }
    const struct event_body body = {
        .actor = &actor,
        .tenant = message->tenant,
        .lane = first->lane,
        .trace_id = first->trace_id,
        .message_id = message->message_id,
        .time = first->time,
        .events = events,
        .count = message->count,
    };
    TRY(made.changed ? event_message_encode(&body, out) : OK);
    made.residual = may_hold_encoded(made.changed ? buf_span(out) : message->body, subject);
    *ret_made = made;
    return OK;
}
