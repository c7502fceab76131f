#include "signer-pkcs11/protocol/pb.h"

#include "signer-pkcs11/protocol/frame.h"

static void *take(void *arena, size_t size)
{
    void *at = NULL;
    return FAULTED(arena_take(arena, 1, size, &at)) ? NULL : at;
}

static void leave_to_arena(void *arena, void *at)
{
    (void)arena;
    (void)at;
}

/* The arena bounds what a hostile message can make the unpacker allocate; running out of it is the message's fault. */
struct fault pb_unpack(struct arena *arena, const ProtobufCMessageDescriptor *type, struct span message,
                       const ProtobufCMessage **ret_message)
{
    ProtobufCAllocator allocator = { .alloc = take, .free = leave_to_arena, .allocator_data = arena };
    const ProtobufCMessage *made = protobuf_c_message_unpack(type, &allocator, message.len, message.at);
    REQUIRE(made != NULL, SIGNER_PROTOCOL);
    REQUIRE(protobuf_c_message_get_packed_size(made) == message.len, SIGNER_PROTOCOL);
    uint8_t *again = NULL;
    REQUIRE(!FAULTED(arena_take(arena, message.len, 1, &again)), SIGNER_PROTOCOL);
    (void)protobuf_c_message_pack(made, again);
    REQUIRE(span_equal(message, span_of(again, message.len)), SIGNER_PROTOCOL);
    *ret_message = made;
    return OK;
}

struct fault pb_frame(const ProtobufCMessage *message, struct buf *frame)
{
    uint8_t *at = NULL;
    TRY(frame_reserve(frame, protobuf_c_message_get_packed_size(message), &at));
    (void)protobuf_c_message_pack(message, at);
    return OK;
}
