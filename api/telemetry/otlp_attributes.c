#include "api/telemetry/otlp_internal.h"
#include "appliance/base/utf8.h"

#include <unistd.h>

struct fault otlp_text(struct arena *arena, struct span text, char **ret_text)
{
    char *made = NULL;
    TRY(arena_take(arena, text.len + 1, 1, &made));
    if (text.len > 0) {
        memcpy(made, text.at, text.len);
    }
    utf8_repair(made);
    *ret_text = made;
    return OK;
}

struct fault otlp_text_value(struct arena *arena, struct span text, otlp_value **ret_value)
{
    otlp_value *value = NULL;
    TRY(arena_take(arena, 1, sizeof(*value), &value));
    opentelemetry__proto__common__v1__any_value__init(value);
    value->value_case = OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_STRING_VALUE;
    TRY(otlp_text(arena, text, &value->string_value));
    *ret_value = value;
    return OK;
}

void otlp_pairs_begin(struct otlp_pairs *pairs, struct arena *arena, size_t room)
{
    *pairs = (struct otlp_pairs){ .arena = arena, .room = room };
    pairs->fault = arena_take(arena, room, sizeof(*pairs->at), &pairs->at);
}

static void put(struct otlp_pairs *pairs, const char *key, otlp_value *value)
{
    otlp_pair *pair = NULL;
    BUG_IF(pairs->count >= pairs->room);
    pairs->fault = arena_take(pairs->arena, 1, sizeof(*pair), &pair);
    if (!FAULTED(pairs->fault)) {
        opentelemetry__proto__common__v1__key_value__init(pair);
        pair->key = (char *)(uintptr_t)key;
        pair->value = value;
        pairs->at[pairs->count++] = pair;
    }
}

void otlp_put_text(struct otlp_pairs *pairs, const char *key, struct span text)
{
    otlp_value *value = NULL;
    pairs->fault = FAULTED(pairs->fault) ? pairs->fault : otlp_text_value(pairs->arena, text, &value);
    if (!FAULTED(pairs->fault)) {
        put(pairs, key, value);
    }
}

void otlp_put_int(struct otlp_pairs *pairs, const char *key, int64_t number)
{
    otlp_value *value = NULL;
    pairs->fault = FAULTED(pairs->fault) ? pairs->fault : arena_take(pairs->arena, 1, sizeof(*value), &value);
    if (!FAULTED(pairs->fault)) {
        opentelemetry__proto__common__v1__any_value__init(value);
        value->value_case = OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_INT_VALUE;
        value->int_value = number;
        put(pairs, key, value);
    }
}

static struct fault array_value(struct arena *arena, const struct span *texts, size_t count, otlp_value **ret_value)
{
    otlp_value *value = NULL;
    Opentelemetry__Proto__Common__V1__ArrayValue *array = NULL;
    TRY(arena_take(arena, 1, sizeof(*value), &value));
    TRY(arena_take(arena, 1, sizeof(*array), &array));
    opentelemetry__proto__common__v1__any_value__init(value);
    opentelemetry__proto__common__v1__array_value__init(array);
    value->value_case = OPENTELEMETRY__PROTO__COMMON__V1__ANY_VALUE__VALUE_ARRAY_VALUE;
    value->array_value = array;
    TRY(arena_take(arena, count, sizeof(*array->values), &array->values));
    for (size_t i = 0; i < count; i++) {
        TRY(otlp_text_value(arena, texts[i], &array->values[i]));
    }
    array->n_values = count;
    *ret_value = value;
    return OK;
}

void otlp_put_texts(struct otlp_pairs *pairs, const char *key, const struct span *texts, size_t count)
{
    otlp_value *value = NULL;
    pairs->fault = FAULTED(pairs->fault) ? pairs->fault : array_value(pairs->arena, texts, count, &value);
    if (!FAULTED(pairs->fault)) {
        put(pairs, key, value);
    }
}

struct fault otlp_resource(const struct otlp_settings *settings, struct arena *arena,
                           Opentelemetry__Proto__Resource__V1__Resource **ret_resource)
{
    Opentelemetry__Proto__Resource__V1__Resource *resource = NULL;
    struct otlp_pairs pairs;
    char host[256] = "";
    TRY(arena_take(arena, 1, sizeof(*resource), &resource));
    opentelemetry__proto__resource__v1__resource__init(resource);
    (void)gethostname(host, sizeof(host) - 1);
    otlp_pairs_begin(&pairs, arena, 4);
    otlp_put_text(&pairs, "service.name", span_text("svc-api"));
    otlp_put_text(&pairs, "service.version", span_text(SVC_VERSION));
    otlp_put_text(&pairs, "service.instance.id", span_text(settings->instance));
    otlp_put_text(&pairs, "host.name", span_text(host));
    TRY(pairs.fault);
    resource->attributes = pairs.at;
    resource->n_attributes = pairs.count;
    *ret_resource = resource;
    return OK;
}

struct fault otlp_scope(struct arena *arena, Opentelemetry__Proto__Common__V1__InstrumentationScope **ret_scope)
{
    Opentelemetry__Proto__Common__V1__InstrumentationScope *scope = NULL;
    TRY(arena_take(arena, 1, sizeof(*scope), &scope));
    opentelemetry__proto__common__v1__instrumentation_scope__init(scope);
    scope->name = (char *)(uintptr_t)"svc";
    scope->version = (char *)(uintptr_t)SVC_VERSION;
    *ret_scope = scope;
    return OK;
}

struct fault otlp_pack(const ProtobufCMessage *message, struct buf *out)
{
    uint8_t *at = NULL;
    size_t size = protobuf_c_message_get_packed_size(message);
    TRY(buf_reserve(out, size, &at));
    BUG_IF(protobuf_c_message_pack(message, at) != size);
    return OK;
}
