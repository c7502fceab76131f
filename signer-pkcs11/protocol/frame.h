/*
 * Frames between svc-signer and its clients: uint32 big-endian length, 1..FRAME_MAX, then that many bytes; over a unix
 * socket as they are, over TCP inside TLS. A stream reads ahead, so a whole frame mostly costs one system call. No call
 * waits beyond its deadline, whatever the peer does. Not thread-safe: one thread at a time on a stream.
 *
 *     CLEANUP(frame_stream_clear) struct frame_stream stream = FRAME_STREAM_NONE;
 *     TRY(frame_stream_init(&stream, fd, tls));
 *     TRY(frame_read(&stream, &patience, &message));   -- borrowed until frame_done
 *     frame_done(&stream);                             -- wipes it
 */
#ifndef SIGNER_PROTOCOL_FRAME_H
#define SIGNER_PROTOCOL_FRAME_H

#include "appliance/base/bytes.h"
#include "appliance/base/clock.h"

#define FRAME_MAX    ((size_t)65536)
#define FRAME_HEADER ((size_t)4)
#define FRAME_NEVER  INT64_MAX /* a deadline that does not come */

struct tls_stream; /* tls_stream.h */

struct frame_stream {
    int fd;                 /* owned; blocking */
    struct tls_stream *tls; /* owned; NULL = plain */
    uint8_t *at;            /* FRAME_HEADER + FRAME_MAX bytes */
    size_t filled;          /* received */
    size_t taken;           /* of these, the frame that was given out */
};
#define FRAME_STREAM_NONE { .fd = -1 }

/* Takes over `fd` and `tls` (or NULL) on success. NO_MEMORY. */
struct fault frame_stream_init(struct frame_stream *stream, int fd, struct tls_stream *tls);
/* Closes and wipes; idempotent; the form that CLEANUP wants. */
void frame_stream_clear(struct frame_stream *stream);

/* How to wait for a frame. A peer that answers within microseconds is best awaited awake: going to sleep and being
 * woken costs more than the answer takes. Other threads that want the processor get it all the same. */
struct frame_patience {
    mono_ns first; /* deadline of the frame's first byte */
    mono_ns rest;  /* how long the rest may take after it, in nanoseconds */
    mono_ns awake; /* how long to stay awake for the first byte; 0 = sleep at once */
};
/* The next whole frame's message. DEADLINE, SIGNER_UNAVAILABLE (the peer closed or broke), SIGNER_PROTOCOL (length 0 or
 * beyond FRAME_MAX). */
struct fault frame_read(struct frame_stream *stream, const struct frame_patience *patience, struct span *ret_message);
/* The message is not needed any more; what was read ahead moves up. */
void frame_done(struct frame_stream *stream);
/* Is there more than the frame that was given out? A peer that waits for its answer has sent no more. */
static inline bool frame_more(const struct frame_stream *stream)
{
    return stream->filled > stream->taken;
}

/* Appends the header of a message of `len` bytes and room for it, which the caller fills. TOO_LARGE. */
struct fault frame_reserve(struct buf *frame, size_t len, uint8_t **ret_message);
/* All of `frame` (header and message), waiting for room until `deadline`; 0: not at all. *ret_sent (not NULL) tells how
 * much left, also on failure. DEADLINE, SIGNER_UNAVAILABLE. */
struct fault frame_send(struct frame_stream *stream, mono_ns deadline, struct span frame, size_t *ret_sent);

#endif
