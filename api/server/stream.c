/* Answers in chunks (RFC 9112 7.1). The size line of a chunk is of fixed length, so that it is filled in when the chunk
 * is full and head, size, data and end go to the socket in one piece. */
#include "api/server/connection.h"
#include "api/server/request.h"
#include "api/server/wire.h"

#include <stdio.h>

#define SIZE_LINE 10 /* 8 hex digits, CR LF */
#define LAST      "0\r\n\r\n"

/* civetweb gives up on a peer that takes nothing for the listener's time limit; whoever takes a little at a time is cut
 * by the slot's patience. */
static struct fault flush(struct exchange_io *io)
{
    struct worker *worker = io->worker;
    if (io->chunk.len == 0) {
        return OK;
    }
    slot_enter(worker->listener->slots, worker->slot, SLOT_WRITING, clock_mono());
    io->response->sent = true;
    int written = mg_write(io->connection, io->chunk.at, io->chunk.len);
    slot_enter(worker->listener->slots, worker->slot, SLOT_HANDLING, clock_mono());
    io->sent += written > 0 ? (size_t)written : 0;
    bool whole = written == (int)io->chunk.len;
    io->chunk.len = 0;
    io->data_at = 0;
    return whole ? OK : op_fail(&worker->op, FAULT(IO), "the client went away, or did not read on");
}

static struct fault end_chunk(struct exchange_io *io)
{
    char line[SIZE_LINE + 1];
    if (io->data_at == 0) {
        return OK;
    }
    (void)snprintf(line, sizeof(line), "%08zx\r\n", io->chunk.len - io->data_at);
    memcpy(io->chunk.at + io->data_at - SIZE_LINE, line, SIZE_LINE);
    io->data_at = 0;
    return buf_text(&io->chunk, "\r\n");
}

static struct fault begin_chunk(struct exchange_io *io)
{
    uint8_t *line = NULL;
    TRY(buf_reserve(&io->chunk, SIZE_LINE, &line));
    memset(line, '0', SIZE_LINE);
    io->data_at = io->chunk.len;
    return OK;
}

static struct fault begin(void *arg, struct response *response)
{
    struct exchange_io *io = arg;
    struct span none = { 0 };
    io->response = response;
    io->chunk.max = WIRE_HEAD_MAX + RESPONSE_CHUNK + SIZE_LINE + sizeof(LAST) + 2;
    const struct wire_answer answer = { .response = response,
                                        .reason = mg_get_response_code_text(io->connection, response->status),
                                        .chunked = true,
                                        .keep_alive = connection_keeps(io, response),
                                        .tls = io->worker->listener->tls != NULL };
    return wire_print(&io->worker->op, &answer, &io->chunk, &none);
}

static struct fault put(void *arg, struct span bytes)
{
    struct exchange_io *io = arg;
    while (bytes.len > 0) {
        if (io->data_at == 0) {
            TRY(begin_chunk(io));
        }
        size_t room = RESPONSE_CHUNK - (io->chunk.len - io->data_at);
        size_t len = bytes.len < room ? bytes.len : room;
        TRY(buf_put(&io->chunk, span_of(bytes.at, len)));
        bytes = span_of(bytes.at + len, bytes.len - len);
        if (len == room) {
            TRY(end_chunk(io));
            TRY(flush(io));
        }
    }
    return OK;
}

static struct fault end(void *arg)
{
    struct exchange_io *io = arg;
    bool head_only = strcmp(io->message->method, "HEAD") == 0;
    TRY(end_chunk(io));
    TRY(buf_text(&io->chunk, head_only ? "" : LAST));
    return flush(io);
}

const struct message_stream stream_in_chunks = { .begin = begin, .put = put, .end = end };

void stream_close(struct exchange_io *io)
{
    if (io->response != NULL && io->response->close) {
        mg_disable_connection_keep_alive(io->connection);
    }
    buf_free(&io->chunk); /* wipes */
}
