#include "signer-pkcs11/client/client.h"

#include "appliance/base/alloc.h"
#include "signer-pkcs11/client/pool.h"

#include <stdio.h>

struct signer_client {
    const struct config *config;
    struct pool *pool;
};

struct fault signer_client_new(const struct config *config, struct signer_client **ret_client)
{
    CLEANUP(mem_freep) struct signer_client *client = NULL;
    TRY(mem_new(1, sizeof(*client), &client));
    client->config = config;
    TRY(pool_new(config, &client->pool));
    *ret_client = TAKE(client);
    return OK;
}

void signer_client_free(struct signer_client *client)
{
    if (client != NULL) {
        pool_free(client->pool);
        mem_free(client);
    }
}

/* ---- one call ---- */

struct call {
    struct op *op;
    struct signer_client *client;
    struct wire_request *request;
    mono_ns deadline;
    struct wire_response response; /* borrows from its connection's arena */
    struct buf *result;            /* NULL: the answer must have none */
    bool answered;
};

/* A little less than is left, so that the signer's own word about a lost deadline arrives before we hang up. */
static uint32_t deadline_to_send(mono_ns deadline)
{
    int left = clock_ms_left(deadline);
    int margin = left / 10 < 50 ? left / 10 : 50;
    return (uint32_t)(left - margin);
}

static struct fault broken(struct call *call, struct fault fault, const char *what)
{
    if (fault.code == FAULT_NO_MEMORY) {
        return fault;
    }
    op_note_log(call->op, "%s: %s", what, fault_row(fault.code)->text);
    return fault.code == FAULT_SIGNER_PROTOCOL ? fault : FAULT(SIGNER_UNAVAILABLE);
}

/* One request and its answer on one connection, which is given back only when both are whole. */
static struct fault exchange(struct call *call, struct connection *taken)
{
    CLEANUP(pool_dropp) struct connection *connection = taken;
    struct span message;
    size_t sent = 0;
    call->request->id = ++connection->last_id;
    call->request->deadline_ms = deadline_to_send(call->deadline);
    buf_clear(&connection->frame);
    TRY(request_pack(call->op, call->request, &connection->frame));
    struct fault fault = frame_send(connection->stream.fd, call->deadline, buf_span(&connection->frame), &sent);
    if (FAULTED(fault)) {
        return broken(call, fault, "sending the request");
    }
    fault = frame_read(&connection->stream, call->deadline, &message);
    if (FAULTED(fault)) {
        return broken(call, fault, "waiting for the answer");
    }
    arena_clear(connection->arena);
    fault = response_unpack(connection->arena, message, &call->response);
    if (FAULTED(fault)) {
        return broken(call, fault, "reading the answer");
    }
    REQUIRE(call->response.id == call->request->id, SIGNER_PROTOCOL);
    call->answered = true;
    REQUIRE(call->result != NULL || call->response.result.len == 0, SIGNER_PROTOCOL);
    if (call->result != NULL && !FAULTED(call->response.fault)) {
        TRY(buf_put(call->result, call->response.result));
    }
    call->response.result = (struct span){ 0 };
    arena_clear(connection->arena);
    frame_done(&connection->stream);
    secret_wipe(connection->frame.at, connection->frame.len);
    pool_put(TAKE(connection));
    return OK;
}

/* A broken connection mostly means that the signer was restarted: once more on a fresh one. Safe for every operation
 * but key generation, which may have happened: there the caller learns it from KEY_EXISTS when it repeats. */
static struct fault attempt(struct call *call)
{
    struct connection *connection = NULL;
    TRY(pool_take(call->op, call->client->pool, POOL_ANY, call->deadline, &connection));
    struct fault fault = exchange(call, connection);
    bool again = fault.code == FAULT_SIGNER_UNAVAILABLE && !call->answered && clock_mono() < call->deadline &&
                 call->request->op != WIRE_GENERATE_KEY;
    if (!again) {
        return fault;
    }
    TRY(pool_take(call->op, call->client->pool, POOL_FRESH, call->deadline, &connection));
    return exchange(call, connection);
}

/* Calls are bounded by the operation's deadline and by signer.operation_timeout, whichever is earlier. */
static struct fault call_signer(struct call *call)
{
    struct op *op = call->op;
    BUG_IF(op->tx_open > 0); /* a lock of the database must not wait for a token */
    mono_ns bound = clock_mono() + call->client->config->signer_deadline;
    call->deadline = op->deadline < bound ? op->deadline : bound;
    TRY(request_check(op, call->request));
    struct fault fault = attempt(call);
    if (fault.code == FAULT_SIGNER_UNAVAILABLE) {
        return op_fail(op, fault, "%s", clock_mono() >= call->deadline
                                            ? "the signer did not answer in time: repeat the request"
                                            : "the connection to the signer broke: repeat the request");
    }
    if (fault.code == FAULT_SIGNER_PROTOCOL) {
        return op_fail(op, fault, "the signer's answer was not acceptable: are svc-api and svc-signer of one version?");
    }
    TRY(fault);
    if (FAULTED(call->response.fault)) {
        return op_fail(op, call->response.fault, "%s", call->response.detail);
    }
    return OK;
}
