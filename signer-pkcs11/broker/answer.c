#include "signer-pkcs11/broker/broker_internal.h"

#include <stdio.h>

/* Refusals of the caller's making are its own to log. */
static void log_failure(struct connection *connection, struct fault fault)
{
    struct noise *noise = &connection->broker->noise;
    uint64_t left_out = 0;
    bool ours = fault_row(fault.code)->http >= 500 || fault.code == FAULT_SIGNER_REFUSED ||
                fault.code == FAULT_SIGNER_OP_MISMATCH;
    if (!ours || !noise_allows(noise, &left_out)) {
        return;
    }
    log_fault(LOG_LEVEL_WARN, "request_failed", connection->op, fault);
    if (left_out > 0) {
        log_write(WARN, "records_left_out", LOG_INT("count", left_out));
    }
}

/* A peer that does not read its answers has no room for one more: it is not waited for. */
static struct fault send_now(struct connection *connection, const struct wire_response *response, struct buf *frame)
{
    size_t sent = 0;
    buf_clear(frame);
    TRY(response_pack(response, frame));
    return frame_send(connection->stream.fd, 0, buf_span(frame), &sent);
}

static void answer(struct connection *connection, const struct wire_response *response, struct buf *frame)
{
    struct fault fault = send_now(connection, response, frame);
    if (connection->request.op == WIRE_UNSEAL) { /* what was sealed does not stay in memory until the next request */
        buf_free(&connection->result);
        buf_free(frame);
    }
    arena_clear(connection->arena);
    if (FAULTED(fault)) {
        connection_close(connection);
    } else {
        connection_arm(connection);
    }
}

void connection_answer(struct connection *connection, struct fault fault, struct buf *frame)
{
    struct wire_response response = { .id = connection->request.id };
    if (FAULTED(fault)) {
        const struct fault_note *note = &connection->op->note;
        const char *text = note->set && note->detail[0] != 0 ? note->detail : fault_row(fault.code)->title;
        log_failure(connection, fault);
        response.fault = fault;
        (void)snprintf(response.detail, sizeof(response.detail), "%.*s", (int)sizeof(response.detail) - 1, text);
    } else {
        response.result = buf_span(&connection->result);
        response.algorithm = connection->algorithm;
    }
    answer(connection, &response, frame);
}

void connection_answer_late(struct connection *connection, struct buf *frame)
{
    connection_answer(
        connection,
        op_fail(connection->op, FAULT(SATURATED), "no session of the token came free in time: repeat the request"),
        frame);
}

static void health_fill(struct broker *broker, struct wire_health *health)
{
    struct token_status token = { 0 };
    token_status(broker->parts.token, &token);
    *health = (struct wire_health){ .state = token.state,
                                    .operations = atomic_load(&broker->operations),
                                    .recoveries = token.recoveries,
                                    .journal_bytes = journal_bytes(broker->parts.journal),
                                    .sessions = token.sessions,
                                    .queue = line_count(&broker->line),
                                    .fips_active = broker->parts.fips_active,
                                    .self_test_passed = broker->parts.self_test_passed };
    memcpy(health->token_label, token.label, sizeof(health->token_label));
    memcpy(health->token_model, token.model, sizeof(health->token_model));
    memcpy(health->token_serial, token.serial, sizeof(health->token_serial));
    memcpy(health->cause, token.cause, sizeof(health->cause));
    if (!journal_usable(broker->parts.journal) && health->state == TOKEN_OK) {
        health->state = TOKEN_DEGRADED;
        (void)snprintf(health->cause, sizeof(health->cause),
                       "the journal could not be synced: check its disk, then restart the signer");
    }
}

void connection_answer_health(struct connection *connection, struct buf *frame)
{
    struct wire_response response = { .id = connection->request.id, .has_health = true };
    health_fill(connection->broker, &response.health);
    answer(connection, &response, frame);
}
