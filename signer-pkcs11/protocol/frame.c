#include "signer-pkcs11/protocol/frame.h"

#include "appliance/base/alloc.h"
#include "appliance/base/file.h"
#include "appliance/base/secret.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#define CAPACITY (FRAME_HEADER + FRAME_MAX)

struct fault frame_stream_init(struct frame_stream *stream, int fd)
{
    struct frame_stream made = { .fd = fd };
    TRY(mem_new(CAPACITY, 1, &made.at));
    *stream = made;
    return OK;
}

void frame_stream_clear(struct frame_stream *stream)
{
    if (stream->at != NULL) {
        secret_wipe(stream->at, stream->filled);
        mem_free(stream->at);
    }
    fd_close(stream->fd);
    *stream = (struct frame_stream)FRAME_STREAM_NONE;
}

static struct fault wait_for(int fd, short events, mono_ns deadline)
{
    for (;;) {
        REQUIRE(deadline == FRAME_NEVER || clock_mono() < deadline, DEADLINE); /* also for a peer that drips */
        struct pollfd ready = { .fd = fd, .events = events };
        int rc = poll(&ready, 1, deadline == FRAME_NEVER ? -1 : clock_ms_left(deadline));
        if (rc > 0) {
            return OK; /* an error shows in the recv or send that follows */
        }
        REQUIRE(rc == 0 || errno == EINTR, IO);
    }
}

/* At least one more byte. */
static struct fault fill(struct frame_stream *stream, mono_ns deadline)
{
    BUG_IF(stream->filled >= CAPACITY);
    for (;;) {
        TRY(wait_for(stream->fd, POLLIN, deadline));
        ssize_t got = recv(stream->fd, stream->at + stream->filled, CAPACITY - stream->filled, MSG_DONTWAIT);
        if (got > 0) {
            stream->filled += (size_t)got;
            return OK;
        }
        REQUIRE(got < 0 && (errno == EAGAIN || errno == EINTR), SIGNER_UNAVAILABLE);
    }
}

struct fault frame_wait(struct frame_stream *stream, mono_ns deadline)
{
    frame_done(stream);
    return stream->filled > 0 ? OK : fill(stream, deadline);
}

struct fault frame_read(struct frame_stream *stream, mono_ns deadline, struct span *ret_message)
{
    frame_done(stream);
    while (stream->filled < FRAME_HEADER) {
        TRY(fill(stream, deadline));
    }
    struct reader reader = { span_of(stream->at, FRAME_HEADER) };
    uint32_t len = 0;
    TRY(reader_u32(&reader, &len));
    REQUIRE(len >= 1 && len <= FRAME_MAX, SIGNER_PROTOCOL);
    while (stream->filled < FRAME_HEADER + len) {
        TRY(fill(stream, deadline));
    }
    stream->taken = FRAME_HEADER + len;
    *ret_message = span_of(stream->at + FRAME_HEADER, len);
    return OK;
}

void frame_done(struct frame_stream *stream)
{
    size_t rest = stream->filled - stream->taken;
    if (stream->taken == 0) {
        return;
    }
    memmove(stream->at, stream->at + stream->taken, rest);
    secret_wipe(stream->at + rest, stream->taken);
    stream->filled = rest;
    stream->taken = 0;
}

struct fault frame_reserve(struct buf *frame, size_t len, uint8_t **ret_message)
{
    REQUIRE(len >= 1 && len <= FRAME_MAX, TOO_LARGE);
    uint8_t *at = NULL;
    TRY(buf_reserve(frame, FRAME_HEADER + len, &at));
    for (size_t i = 0; i < FRAME_HEADER; i++) {
        at[i] = (uint8_t)(len >> (8 * (FRAME_HEADER - 1 - i)));
    }
    *ret_message = at + FRAME_HEADER;
    return OK;
}

struct fault frame_send(int fd, mono_ns deadline, struct span frame, size_t *ret_sent)
{
    *ret_sent = 0;
    while (*ret_sent < frame.len) {
        ssize_t put = send(fd, frame.at + *ret_sent, frame.len - *ret_sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (put >= 0) {
            *ret_sent += (size_t)put;
            continue;
        }
        REQUIRE(errno == EAGAIN || errno == EINTR, SIGNER_UNAVAILABLE);
        if (errno == EAGAIN) {
            TRY(wait_for(fd, POLLOUT, deadline));
        }
    }
    return OK;
}
