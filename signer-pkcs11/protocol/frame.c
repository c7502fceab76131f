#include "signer-pkcs11/protocol/frame.h"

#include "appliance/base/alloc.h"
#include "appliance/base/file.h"
#include "appliance/base/secret.h"
#include "signer-pkcs11/protocol/tls_stream.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>

#define CAPACITY (FRAME_HEADER + FRAME_MAX)

struct fault frame_stream_init(struct frame_stream *stream, int fd, struct tls_stream *tls)
{
    struct frame_stream made = { .fd = fd, .tls = tls };
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
    tls_stream_free(stream->tls);
    fd_close(stream->fd);
    *stream = (struct frame_stream)FRAME_STREAM_NONE;
}

/* ---- bytes in ---- */

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

/* What is there now, or with `flags` 0 what comes next. *ret_got is 0 when there is nothing yet. */
static struct fault take_in(struct frame_stream *stream, int flags, size_t *ret_got)
{
    ssize_t got = recv(stream->fd, stream->at + stream->filled, CAPACITY - stream->filled, flags);
    REQUIRE(got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)), SIGNER_UNAVAILABLE);
    *ret_got = got > 0 ? (size_t)got : 0;
    return OK;
}

static struct fault take_in_awake(struct frame_stream *stream, mono_ns awake, size_t *ret_got)
{
    mono_ns until = clock_mono() + awake;
    do {
        TRY(take_in(stream, MSG_DONTWAIT, ret_got));
        if (*ret_got > 0) {
            return OK;
        }
        (void)sched_yield();
    } while (clock_mono() < until);
    return OK;
}

/* At least one more byte. */
static struct fault fill(struct frame_stream *stream, mono_ns deadline, mono_ns awake)
{
    size_t got = 0;
    BUG_IF(stream->filled >= CAPACITY);
    if (stream->tls != NULL) {
        TRY(tls_stream_recv(stream->tls, stream->at + stream->filled, CAPACITY - stream->filled, deadline, &got));
    } else if (awake > 0) {
        TRY(take_in_awake(stream, awake, &got));
    }
    while (got == 0) {
        if (deadline == FRAME_NEVER) {
            TRY(take_in(stream, 0, &got));
        } else {
            TRY(wait_for(stream->fd, POLLIN, deadline));
            TRY(take_in(stream, MSG_DONTWAIT, &got));
        }
    }
    stream->filled += got;
    return OK;
}

/* The frame at the start of the stream, if it is whole. */
static struct fault whole_frame(struct frame_stream *stream, struct span *ret_message)
{
    struct reader reader = { span_of(stream->at, FRAME_HEADER) };
    uint32_t len = 0;
    *ret_message = (struct span){ 0 };
    if (stream->filled < FRAME_HEADER) {
        return OK;
    }
    TRY(reader_u32(&reader, &len));
    REQUIRE(len >= 1 && len <= FRAME_MAX, SIGNER_PROTOCOL);
    if (stream->filled >= FRAME_HEADER + len) {
        stream->taken = FRAME_HEADER + len;
        *ret_message = span_of(stream->at + FRAME_HEADER, len);
    }
    return OK;
}

struct fault frame_read(struct frame_stream *stream, const struct frame_patience *patience, struct span *ret_message)
{
    struct span message = { 0 };
    mono_ns deadline = patience->first, awake = patience->awake;
    frame_done(stream);
    if (stream->filled == 0) {
        TRY(fill(stream, deadline, awake));
    }
    TRY(whole_frame(stream, &message));
    if (message.len == 0) {
        mono_ns end = clock_mono() + patience->rest;
        deadline = deadline < end ? deadline : end;
    }
    while (message.len == 0) {
        TRY(fill(stream, deadline, 0));
        TRY(whole_frame(stream, &message));
    }
    *ret_message = message;
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

/* ---- bytes out ---- */

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

struct fault frame_send(struct frame_stream *stream, mono_ns deadline, struct span frame, size_t *ret_sent)
{
    *ret_sent = 0;
    if (stream->tls != NULL) {
        return tls_stream_send(stream->tls, frame, deadline, ret_sent);
    }
    while (*ret_sent < frame.len) {
        ssize_t put = send(stream->fd, frame.at + *ret_sent, frame.len - *ret_sent, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (put >= 0) {
            *ret_sent += (size_t)put;
            continue;
        }
        REQUIRE(errno == EAGAIN || errno == EINTR, SIGNER_UNAVAILABLE);
        if (errno == EAGAIN) {
            TRY(wait_for(stream->fd, POLLOUT, deadline));
        }
    }
    return OK;
}
