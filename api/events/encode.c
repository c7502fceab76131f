/* Writing the body of a message: the canonical form directly, keys in RFC 8785 order, data made canonical. */
#include "api/events/events.h"

#include "appliance/base/json.h"

#define BODY_VERSION 1

static bool only(struct span text, size_t max, const char *others)
{
    if (text.len == 0 || text.len > max) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.at[i];
        bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
        if (!plain && (c == '\0' || strchr(others, c) == NULL)) {
            return false;
        }
    }
    return true;
}

static bool good_trace(const char *trace_id)
{
    return trace_id[0] == '\0' || only(span_text(trace_id), 32, "");
}

static bool good_tenant(struct tenant_id tenant)
{
    struct tenant_id parsed;
    return memchr(tenant.text, '\0', sizeof(tenant.text)) != NULL &&
           !FAULTED(tenant_id_parse(span_text(tenant.text), &parsed));
}

static struct fault check_parts(const struct event_body *body)
{
    struct uuid id;
    REQUIRE(good_tenant(body->tenant), BAD_ARGUMENT);
    REQUIRE(body->lane != NULL && only(span_text(body->lane), LANE_MAX, "-"), BAD_ARGUMENT);
    REQUIRE(body->count >= 1 && body->count <= EVENTS_PER_MESSAGE_MAX, BAD_ARGUMENT);
    REQUIRE(good_trace(body->trace_id), BAD_ARGUMENT);
    REQUIRE(body->actor->role_count <= OP_ROLES_MAX, BAD_ARGUMENT);
    TRY(uuid_parse(span_text(body->message_id.text), &id));
    for (size_t i = 0; i < body->count; i++) {
        const struct event *event = &body->events[i];
        REQUIRE(event->type != NULL && only(span_text(event->type), EVENT_TYPE_MAX, ".-_"), BAD_ARGUMENT);
        REQUIRE(event->schema_version >= 1 && event->schema_version <= INT32_MAX, BAD_ARGUMENT);
    }
    return OK;
}

static struct fault put_event(struct jout *jout, const struct event *event, struct buf *canonical)
{
    buf_clear(canonical);
    TRY(json_canonical(event->data, canonical));
    REQUIRE(canonical->len >= 2 && canonical->at[0] == '{', BAD_ARGUMENT);
    jout_object(jout);
    jout_key_raw(jout, "data", buf_span(canonical));
    jout_key_int(jout, "schema_version", event->schema_version);
    jout_key_text(jout, "type", event->type);
    jout_object_end(jout);
    return OK;
}

static void put_actor(struct jout *jout, const struct principal *actor)
{
    jout_key(jout, "actor");
    jout_object(jout);
    jout_key(jout, "roles");
    jout_array(jout);
    for (size_t i = 0; i < actor->role_count; i++) {
        jout_text(jout, actor->roles[i]);
    }
    jout_array_end(jout);
    jout_key_text(jout, "subject", actor->subject);
    jout_object_end(jout);
}

static struct fault put_all(const struct event_body *body, struct buf *canonical, struct buf *out)
{
    struct jout jout;
    jout_init(&jout, out);
    jout_object(&jout);
    put_actor(&jout, body->actor);
    jout_key(&jout, "events");
    jout_array(&jout);
    for (size_t i = 0; i < body->count; i++) {
        TRY(put_event(&jout, &body->events[i], canonical));
    }
    jout_array_end(&jout);
    jout_key_text(&jout, "lane", body->lane);
    jout_key_text(&jout, "message_id", body->message_id.text);
    jout_key_text(&jout, "tenant", body->tenant.text);
    jout_key_time(&jout, "time", body->time);
    jout_key_text(&jout, "trace_id", body->trace_id);
    jout_key_int(&jout, "v", BODY_VERSION);
    jout_object_end(&jout);
    return jout_end(&jout);
}

struct fault event_message_encode(const struct event_body *body, struct buf *out)
{
    TRY(check_parts(body));
    CLEANUP(buf_free) struct buf canonical = BUF_INIT(out->max);
    buf_clear(out);
    return put_all(body, &canonical, out);
}
