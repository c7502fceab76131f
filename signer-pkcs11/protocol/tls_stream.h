/*
 * One TLS connection under the frames: TLS 1.3, both ends with a certificate, never resumed. The socket's own blocking
 * mode does not matter; no call waits beyond its deadline, whatever the peer does. Not thread-safe: one thread at a
 * time on a stream.
 *
 *     struct tls_report report;
 *     TRY(tls_stream_open(end, fd, deadline, &report, &tls));   -- tls_end.h; the handshake
 *     TRY(frame_stream_init(&stream, fd, tls));                 -- owns both from here on
 */
#ifndef SIGNER_PROTOCOL_TLS_STREAM_H
#define SIGNER_PROTOCOL_TLS_STREAM_H

#include "appliance/base/bytes.h"
#include "appliance/base/clock.h"

struct tls_end;    /* tls_end.h */
struct tls_report; /* tls_end.h */
struct tls_stream;

/* The handshake over `fd` (borrowed, open for longer than the stream), as the side that `end` is. *ret_report is
 * written always: who the peer is, or why it was refused. DEADLINE, SIGNER_UNAVAILABLE (refused, by either end),
 * NO_MEMORY. */
struct fault tls_stream_open(struct tls_end *end, int fd, mono_ns deadline, struct tls_report *ret_report,
                             struct tls_stream **ret_stream);
/* Tells the peer, without waiting, and wipes. NULL is fine. The descriptor is the caller's to close. */
void tls_stream_free(struct tls_stream *stream);
static inline void tls_stream_freep(struct tls_stream **stream)
{
    tls_stream_free(TAKE(*stream));
}

/* At least one byte, at most `size`. After DEADLINE the stream is as it was; after SIGNER_UNAVAILABLE (the peer closed
 * or broke, or what came is not its own) it is at its end. */
struct fault tls_stream_recv(struct tls_stream *stream, uint8_t *at, size_t size, mono_ns deadline, size_t *ret_got);
/* All of `bytes`, waiting for room until `deadline`; 0: not at all. *ret_sent tells how much left, also on failure: but
 * then the stream must be closed. DEADLINE, SIGNER_UNAVAILABLE. */
struct fault tls_stream_send(struct tls_stream *stream, struct span bytes, mono_ns deadline, size_t *ret_sent);

#endif
