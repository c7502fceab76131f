/* rooms: signer_protocol base */
/*
 * What arrives on the signer's socket, and on its client's: any bytes, cut into frames, each read as a request and as
 * an answer. Whatever is accepted must pack to exactly the bytes that it came from.
 */
#include "appliance/base/file.h"
#include "signer-pkcs11/protocol/message.h"

#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void expect(struct span message, const struct buf *frame)
{
    BUG_IF(frame->len != FRAME_HEADER + message.len);
    BUG_IF(memcmp(frame->at + FRAME_HEADER, message.at, message.len) != 0);
}

static void as_request(struct arena *arena, struct span message)
{
    CLEANUP(buf_free) struct buf frame = BUF_INIT(FRAME_HEADER + FRAME_MAX);
    struct wire_request request;
    arena_clear(arena);
    if (FAULTED(request_unpack(arena, message, &request))) {
        return;
    }
    BUG_IF(FAULTED(request_check(NULL, &request)) || FAULTED(request_pack(NULL, &request, &frame)));
    expect(message, &frame);
}

static void as_response(struct arena *arena, struct span message)
{
    CLEANUP(buf_free) struct buf frame = BUF_INIT(FRAME_HEADER + FRAME_MAX);
    struct wire_response response;
    arena_clear(arena);
    if (FAULTED(response_unpack(arena, message, &response))) {
        return;
    }
    BUG_IF(FAULTED(response_pack(&response, &frame)));
    if (response.fault.code != FAULT_SIGNER_PROTOCOL) { /* what unknown fault numbers become */
        expect(message, &frame);
    }
}

static void as_stream(struct span bytes)
{
    CLEANUP(frame_stream_clear) struct frame_stream stream = FRAME_STREAM_NONE;
    CLEANUP(arena_freep) struct arena *arena = NULL;
    int fds[2];
    const struct frame_patience patience = { .first = FRAME_NEVER, .rest = 60 * NS_PER_S };
    struct span message;
    BUG_IF(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0);
    BUG_IF(FAULTED(frame_stream_init(&stream, fds[0], NULL)) || FAULTED(arena_new(WIRE_ARENA_MAX, &arena)));
    BUG_IF(bytes.len > 0 && send(fds[1], bytes.at, bytes.len, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)bytes.len);
    fd_close(fds[1]);
    while (!FAULTED(frame_read(&stream, &patience, &message))) {
        as_request(arena, message);
        as_response(arena, message);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    CLEANUP(arena_freep) struct arena *arena = NULL;
    struct span bytes = span_of(data, size < FRAME_MAX ? size : FRAME_MAX);
    BUG_IF(FAULTED(arena_new(WIRE_ARENA_MAX, &arena)));
    as_stream(bytes);
    if (size > 0) {
        as_request(arena, bytes);
        as_response(arena, bytes);
    }
    return 0;
}
