#include "signer-pkcs11/broker/broker_internal.h"

#include "appliance/base/alloc.h"
#include "appliance/base/file.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define STACK_BYTES    ((size_t)1 << 20)
#define PATIENCE       (5 * NS_PER_S) /* for the rest of a begun frame, and for an answer to be taken */
#define NOISE_A_SECOND 20

bool noise_allows(struct noise *noise, uint64_t *ret_left_out)
{
    mono_ns now = clock_mono();
    BUG_IF(pthread_mutex_lock(&noise->lock) != 0);
    if (now - noise->second >= NS_PER_S) {
        noise->second = now;
        noise->written = 0;
    }
    bool allows = noise->written < NOISE_A_SECOND;
    *ret_left_out = allows ? noise->left_out : 0;
    noise->left_out = allows ? 0 : noise->left_out + 1;
    noise->written += allows;
    BUG_IF(pthread_mutex_unlock(&noise->lock) != 0);
    return allows;
}

/* What one connection's thread works with; made once, used for each request. */
struct desk {
    struct connection *connection;
    struct frame_stream stream;
    struct arena *arena; /* of the unpacked request */
    struct op *op;
    struct buf result, frame;
};

static void desk_clear(struct desk *desk)
{
    frame_stream_clear(&desk->stream);
    arena_free(desk->arena);
    op_free(desk->op);
    buf_free(&desk->result);
    buf_free(&desk->frame);
}

static struct fault desk_init(struct desk *desk, struct connection *connection)
{
    *desk = (struct desk){ .connection = connection,
                           .stream = FRAME_STREAM_NONE,
                           .result = BUF_INIT(WIRE_RESULT_MAX),
                           .frame = BUF_INIT(FRAME_HEADER + FRAME_MAX) };
    TRY(arena_new(WIRE_ARENA_MAX, &desk->arena));
    TRY(op_new("svc-signer", (struct tenant_id){ 0 }, 0, &desk->op));
    return frame_stream_init(&desk->stream, connection->fd);
}

static void op_renew(struct op *op, const struct config *config, const struct wire_request *request)
{
    mono_ns asked = (mono_ns)request->deadline_ms * NS_PER_MS;
    op->deadline = clock_mono() + (asked < config->signer_deadline ? asked : config->signer_deadline);
    op->tenant = request->key.tenant;
    op->note = (struct fault_note){ 0 };
    arena_clear(op->arena);
}

/* Refusals of the caller's making are its own to log. */
static void log_failure(struct broker *broker, const struct op *op, struct fault fault)
{
    const struct fault_row *row = fault_row(fault.code);
    uint64_t left_out = 0;
    bool ours = row->http >= 500 || fault.code == FAULT_SIGNER_REFUSED || fault.code == FAULT_SIGNER_OP_MISMATCH;
    if (!ours || !noise_allows(&broker->noise, &left_out)) {
        return;
    }
    log_fault(LOG_LEVEL_WARN, "request_failed", op, fault);
    if (left_out > 0) {
        log_write(WARN, "records_left_out", LOG_INT("count", left_out));
    }
}

static void reply_detail(const struct op *op, struct fault fault, char detail[WIRE_DETAIL_MAX])
{
    const char *text = op->note.set && op->note.detail[0] != 0 ? op->note.detail : fault_row(fault.code)->title;
    (void)snprintf(detail, WIRE_DETAIL_MAX, "%.*s", (int)WIRE_DETAIL_MAX - 1, text);
}

static struct fault answer(struct desk *desk, const struct wire_request *request)
{
    struct broker *broker = desk->connection->broker;
    struct wire_response response = { .id = request->id };
    op_renew(desk->op, broker->parts.config, request);
    buf_clear(&desk->result);
    struct fault fault = op_dispatch(desk->op, broker, desk->connection->askers, request, &response, &desk->result);
    if (FAULTED(fault)) {
        log_failure(broker, desk->op, fault);
        response = (struct wire_response){ .id = request->id, .fault = fault };
        reply_detail(desk->op, fault, response.detail);
    } else {
        response.result = buf_span(&desk->result);
    }
    frame_done(&desk->stream);
    arena_clear(desk->arena);
    buf_clear(&desk->frame);
    TRY(response_pack(&response, &desk->frame));
    size_t sent = 0;
    TRY(frame_send(desk->stream.fd, clock_mono() + PATIENCE, buf_span(&desk->frame), &sent));
    if (request->op == WIRE_UNSEAL) { /* what was sealed does not stay in memory until the next request */
        buf_free(&desk->result);
        buf_free(&desk->frame);
    }
    return OK;
}

/* One request and its answer. A fault ends the connection. */
static struct fault turn(struct desk *desk)
{
    struct span message;
    struct wire_request request;
    TRY(frame_read(&desk->stream, clock_mono() + PATIENCE, &message));
    TRY(request_unpack(desk->arena, message, &request));
    return answer(desk, &request);
}

static void converse(struct desk *desk)
{
    struct broker *broker = desk->connection->broker;
    while (!FAULTED(frame_wait(&desk->stream, FRAME_NEVER))) {
        struct fault fault = turn(desk);
        if (!FAULTED(fault)) {
            continue;
        }
        uint64_t left_out = 0;
        atomic_fetch_add(&broker->refused_frames, 1);
        if (noise_allows(&broker->noise, &left_out)) {
            log_write(WARN, "connection_closed", LOG_TEXT("code", fault_row(fault.code)->text),
                      LOG_INT("closed_so", atomic_load(&broker->refused_frames)));
        }
        return;
    }
}

/* The descriptor leaves the table before it is closed, so that broker_drain never shuts another's down. */
static void connection_detach(struct connection *connection)
{
    struct broker *broker = connection->broker;
    BUG_IF(pthread_mutex_lock(&broker->lock) != 0);
    connection->fd = -1;
    BUG_IF(pthread_mutex_unlock(&broker->lock) != 0);
}

static void connection_end(struct connection *connection)
{
    struct broker *broker = connection->broker;
    BUG_IF(pthread_mutex_lock(&broker->lock) != 0);
    connection->used = false;
    broker->count--;
    broker->api_count -= (connection->askers & ASKER_API) != 0;
    if (broker->stopping && broker->count == 0) {
        BUG_IF(pthread_cond_signal(&broker->closed) != 0);
    }
    BUG_IF(pthread_mutex_unlock(&broker->lock) != 0);
}

static void *connection_main(void *arg)
{
    struct connection *connection = arg;
    int fd = connection->fd;
    struct desk desk;
    (void)pthread_setname_np(pthread_self(), "connection");
    struct fault fault = desk_init(&desk, connection);
    if (!FAULTED(fault)) {
        converse(&desk);
        fd = -1; /* the stream's */
    } else {
        log_fault(LOG_LEVEL_ERROR, "connection_refused", NULL, fault);
    }
    connection_detach(connection);
    desk_clear(&desk);
    fd_close(fd);
    connection_end(connection);
    return NULL;
}

static struct connection *slot_take_locked(struct broker *broker, int fd, unsigned askers)
{
    bool api = (askers & ASKER_API) != 0;
    if (broker->stopping || broker->count == BROKER_CONNECTIONS_MAX || (api && broker->api_count == BROKER_API_MAX)) {
        return NULL;
    }
    struct connection *slot = broker->connections;
    while (slot->used) {
        slot++;
    }
    *slot = (struct connection){ .broker = broker, .fd = fd, .askers = askers, .used = true };
    broker->count++;
    broker->api_count += api;
    return slot;
}

struct fault connection_start(struct broker *broker, int fd, unsigned askers)
{
    BUG_IF(pthread_mutex_lock(&broker->lock) != 0);
    struct connection *slot = slot_take_locked(broker, fd, askers);
    BUG_IF(pthread_mutex_unlock(&broker->lock) != 0);
    if (slot == NULL) {
        fd_close(fd);
        return FAULT(SATURATED);
    }
    pthread_t thread;
    pthread_attr_t attr;
    BUG_IF(pthread_attr_init(&attr) != 0 || pthread_attr_setstacksize(&attr, STACK_BYTES) != 0);
    BUG_IF(pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED) != 0);
    int rc = pthread_create(&thread, &attr, connection_main, slot);
    BUG_IF(pthread_attr_destroy(&attr) != 0);
    if (rc != 0) {
        connection_detach(slot);
        fd_close(fd);
        connection_end(slot);
        return FAULT(SATURATED);
    }
    return OK;
}
