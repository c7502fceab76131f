#include "signer-pkcs11/broker/broker_internal.h"

static void op_renew(struct op *op, const struct config *config, const struct wire_request *request)
{
    mono_ns asked = (mono_ns)request->deadline_ms * NS_PER_MS;
    op->deadline = clock_mono() + (asked < config->signer_deadline ? asked : config->signer_deadline);
    op->tenant = request->key.tenant;
    op->note = (struct fault_note){ 0 };
    arena_clear(op->arena);
}

/* *ret_whole: a request is there. A fault ends the connection. */
static struct fault read_request(struct connection *connection, bool *ret_whole)
{
    struct span message;
    TRY(frame_gather(&connection->stream, &message));
    *ret_whole = message.len > 0;
    if (message.len == 0) {
        connection->half_since = connection->half_since != 0 ? connection->half_since : clock_mono();
        return OK;
    }
    connection->half_since = 0;
    REQUIRE(!frame_more(&connection->stream), SIGNER_PROTOCOL); /* one request at a time */
    struct fault fault = request_unpack(connection->arena, message, &connection->request);
    frame_done(&connection->stream);
    return fault;
}

static void hang_up(struct connection *connection, struct fault fault)
{
    struct broker *broker = connection->broker;
    uint64_t left_out = 0;
    bool orderly = fault.code == FAULT_SIGNER_UNAVAILABLE && connection->half_since == 0;
    if (!orderly) {
        uint64_t count = atomic_fetch_add(&broker->refused_frames, 1) + 1;
        if (noise_allows(&broker->noise, &left_out)) {
            log_write(WARN, "connection_closed", LOG_TEXT("code", fault_row(fault.code)->text),
                      LOG_INT("closed_so", count));
        }
    }
    connection_close(connection);
}

bool connection_request(struct connection *connection, struct buf *frame)
{
    struct broker *broker = connection->broker;
    bool whole = false;
    struct fault fault = read_request(connection, &whole);
    if (FAULTED(fault)) {
        hang_up(connection, fault);
        return false;
    }
    if (!whole) {
        connection_arm(connection);
        return false;
    }
    op_renew(connection->op, broker->parts.config, &connection->request);
    fault = purpose_check(connection->op, connection->askers, &connection->request);
    if (FAULTED(fault)) {
        connection_answer(connection, fault, frame);
        return false;
    }
    if (connection->request.op == WIRE_HEALTH) {
        connection_answer_health(connection, frame);
        return false;
    }
    atomic_fetch_add_explicit(&broker->operations, 1, memory_order_relaxed);
    return true;
}
