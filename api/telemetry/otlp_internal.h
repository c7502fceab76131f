/* What the otlp files of api/telemetry/ share. */
#ifndef API_TELEMETRY_OTLP_INTERNAL_H
#define API_TELEMETRY_OTLP_INTERNAL_H

#include "api/telemetry/otlp.h"
#include "appliance/base/arena.h"
#include <opentelemetry/proto/common/v1/common.pb-c.h>
#include <opentelemetry/proto/resource/v1/resource.pb-c.h>

/* ---- otlp_queue.c: many put, one takes; nobody waits ---- */

struct otlp_queue;
struct fault otlp_queue_new(size_t least, struct otlp_queue **ret_queue); /* room: `least`, up to a power of two */
void otlp_queue_free(struct otlp_queue *queue);
DEFINE_FREEP(struct otlp_queue, otlp_queue_free)
bool otlp_queue_put(struct otlp_queue *queue, const struct trace_record *record); /* false: full */
size_t otlp_queue_take(struct otlp_queue *queue, struct trace_record *records, size_t max);
size_t otlp_queue_length(const struct otlp_queue *queue); /* about */

/* ---- otlp_attributes.c: what both bodies are made of; all of it lives in an arena ---- */

typedef Opentelemetry__Proto__Common__V1__KeyValue otlp_pair;
typedef Opentelemetry__Proto__Common__V1__AnyValue otlp_value;
struct otlp_pairs {
    struct arena *arena;
    otlp_pair **at;
    size_t count, room;
    struct fault fault; /* the first; everything after it is without effect */
};
void otlp_pairs_begin(struct otlp_pairs *pairs, struct arena *arena, size_t room);
void otlp_put_text(struct otlp_pairs *pairs, const char *key, struct span text);
void otlp_put_int(struct otlp_pairs *pairs, const char *key, int64_t number);
void otlp_put_texts(struct otlp_pairs *pairs, const char *key, const struct span *texts, size_t count);
struct fault otlp_text_value(struct arena *arena, struct span text, otlp_value **ret_value);
/* Protobuf text: NUL-terminated, and what is not UTF-8 is put right. */
struct fault otlp_text(struct arena *arena, struct span text, char **ret_text);
struct fault otlp_resource(const struct otlp_settings *settings, struct arena *arena,
                           Opentelemetry__Proto__Resource__V1__Resource **ret_resource);
struct fault otlp_scope(struct arena *arena, Opentelemetry__Proto__Common__V1__InstrumentationScope **ret_scope);
/* Packs behind what `out` holds. */
struct fault otlp_pack(const ProtobufCMessage *message, struct buf *out);

#endif
