/* What request.c and response.c share: protobuf-c on an arena. Included by these two only. */
#ifndef SIGNER_PROTOCOL_PB_H
#define SIGNER_PROTOCOL_PB_H

#include "appliance/base/arena.h"
#include "signer-pkcs11/protocol/signer.pb-c.h"

/* The message in `arena`, if it is exactly what packing it again gives (one meaning, one encoding). SIGNER_PROTOCOL. */
struct fault pb_unpack(struct arena *arena, const ProtobufCMessageDescriptor *type, struct span message,
                       const ProtobufCMessage **ret_message);
/* Appends a frame that holds `message`. TOO_LARGE. */
struct fault pb_frame(const ProtobufCMessage *message, struct buf *frame);

static inline struct span pb_span(ProtobufCBinaryData data)
{
    return span_of(data.data, data.len);
}
/* protobuf-c does not write through it. */
static inline ProtobufCBinaryData pb_data(struct span span)
{
    return (ProtobufCBinaryData){ .len = span.len, .data = (uint8_t *)(uintptr_t)span.at };
}
static inline char *pb_text(const char *text)
{
    return (char *)(uintptr_t)text;
}

#endif
