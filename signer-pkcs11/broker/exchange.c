/* One connection's requests, one after the other. */
#include "signer-pkcs11/broker/broker_internal.h"

#include <sys/socket.h>

#define PATIENCE (5 * NS_PER_S) /* for the rest of a begun frame */
#define AWAKE_NS (60 * 1000)    /* for the next request of a client that asks without a pause */
#define IN_VAIN  4u             /* so often in a row; then one time in AGAIN */
#define AGAIN    64u

/* Does this client ask without a pause, as far as the last times tell? */
static bool worth_staying(struct connection *c)
{
    bool signs = c->request.op == WIRE_SIGN || c->request.op == WIRE_SIGN_MANY;
    return signs && c->broker->processors > 1 && (c->in_vain < IN_VAIN || ++c->in_vain % AGAIN == 0);
}

/* Staying awake is for one thread at a time: two would take the processors from those that work. */
static struct fault next_message(struct connection *c, struct span *ret_message)
{
    struct broker *broker = c->broker;
    bool idle = false;
    bool awake = worth_staying(c) && atomic_compare_exchange_strong_explicit(
                                         &broker->awake, &idle, true, memory_order_acquire, memory_order_relaxed);
    struct frame_patience patience = { .first = FRAME_NEVER, .rest = PATIENCE, .awake = awake ? AWAKE_NS : 0 };
    if (awake) {
        patience.first = clock_mono() + AWAKE_NS;
    }
    struct fault fault = frame_read(&c->stream, &patience, ret_message);
    if (!awake) {
        return fault;
    }
    atomic_store_explicit(&broker->awake, false, memory_order_release);
    c->in_vain = fault.code == FAULT_DEADLINE ? c->in_vain + 1 : 0;
    if (fault.code != FAULT_DEADLINE) {
        return fault;
    }
    /* Of a frame that began to arrive the rest is read in the same patience as ever. */
    patience = (struct frame_patience){ .first = FRAME_NEVER, .rest = PATIENCE };
    return frame_read(&c->stream, &patience, ret_message);
}

static struct fault next_request(struct connection *c)
{
    struct span message;
    TRY(next_message(c, &message));
    REQUIRE(!frame_more(&c->stream), SIGNER_PROTOCOL); /* one request at a time */
    arena_clear(c->arena);
    return request_unpack(c->arena, message, &c->request);
}

static void op_renew(struct connection *c)
{
    mono_ns asked = (mono_ns)c->request.deadline_ms * NS_PER_MS, most = c->broker->parts.config->signer_deadline;
    c->op->deadline = clock_mono() + (asked < most ? asked : most);
    c->op->tenant = c->request.key.tenant;
    c->op->note = (struct fault_note){ 0 };
    arena_clear(c->op->arena);
}

/* A second request before the answer: what is there to read is not part of the conversation. */
static bool spoke_out_of_turn(struct connection *c)
{
    uint8_t byte = 0;
    size_t got = 0;
    if (c->stream.tls != NULL) {
        return !FAULTED(tls_stream_recv(c->stream.tls, &byte, 1, 0, &got));
    }
    return recv(c->stream.fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) > 0;
}

static void log_closing(struct connection *c, struct fault fault)
{
    struct broker *broker = c->broker;
    uint64_t left_out = 0;
    bool orderly = fault.code == FAULT_SIGNER_UNAVAILABLE && c->stream.filled == 0;
    if (!orderly && !atomic_load(&broker->stopping)) {
        uint64_t count = atomic_fetch_add(&broker->refused_frames, 1) + 1;
        if (noise_allows(&broker->noise, &left_out)) {
            log_write(WARN, "connection_closed", LOG_TEXT("code", fault_row(fault.code)->text),
                      LOG_INT("closed_so", count));
        }
    }
}

static bool carry_out(struct connection *c)
{
    atomic_fetch_add_explicit(&c->broker->operations, 1, memory_order_relaxed);
    connection_run_begin(c);
    struct fault fault = connection_run(c);
    if (!connection_run_end(c)) {
        return false;
    }
    if (spoke_out_of_turn(c)) {
        log_closing(c, FAULT(SIGNER_PROTOCOL));
        return false;
    }
    return connection_answer(c, fault);
}

static bool exchange(struct connection *c)
{
    op_renew(c);
    struct fault fault = purpose_check(c->op, c->askers, &c->request);
    if (FAULTED(fault)) {
        return connection_answer(c, fault);
    }
    return c->request.op == WIRE_HEALTH ? connection_answer_health(c) : carry_out(c);
}

void connection_serve(struct connection *c)
{
    while (!atomic_load_explicit(&c->broker->stopping, memory_order_relaxed)) {
        struct fault fault = next_request(c);
        if (FAULTED(fault)) {
            log_closing(c, fault);
            return;
        }
        bool goes_on = exchange(c);
        if (!goes_on) {
            return;
        }
        frame_done(&c->stream);
    }
}
