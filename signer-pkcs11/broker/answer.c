#include "signer-pkcs11/broker/broker_internal.h"

#include "appliance/base/alloc.h"

#include <stdio.h>
#include <sys/socket.h>

#define SEND_NS (5 * NS_PER_S) /* for a peer to take its answer */

/* ---- what is counted and logged ---- */

/* Refusals of the caller's making are its own to log. */
static void log_failure(struct connection *c, struct fault fault)
{
    struct noise *noise = &c->broker->noise;
    uint64_t left_out = 0;
    bool ours = fault_row(fault.code)->http >= 500 || fault.code == FAULT_SIGNER_REFUSED ||
                fault.code == FAULT_SIGNER_OP_MISMATCH;
    if (!ours || !noise_allows(noise, &left_out)) {
        return;
    }
    log_fault(LOG_LEVEL_WARN, "request_failed", c->op, fault);
    if (left_out > 0) {
        log_write(WARN, "records_left_out", LOG_INT("count", left_out));
    }
}

static enum op_outcome outcome_of(struct fault fault)
{
    if (!FAULTED(fault)) {
        return OP_OUTCOME_OK;
    }
    if (fault.code == FAULT_DEADLINE) {
        return OP_OUTCOME_LATE;
    }
    return fault_row(fault.code)->http >= 500 ? OP_OUTCOME_UNAVAILABLE : OP_OUTCOME_REFUSED;
}

static void count(struct connection *c, enum op_outcome outcome)
{
    const struct wire_request *request = &c->request;
    uint64_t number = request->op == WIRE_SIGN_MANY ? request->digest.len / hash_size(request->hash) : 1;
    atomic_fetch_add_explicit(&c->broker->counts[request->op][request->key.purpose][outcome], number,
                              memory_order_relaxed);
}

/* ---- answers ---- */

static bool answer(struct connection *c, const struct wire_response *response)
{
    size_t sent = 0;
    buf_clear(&c->frame);
    struct fault fault = response_pack(response, &c->frame);
    if (!FAULTED(fault)) {
        fault = frame_send(&c->stream, clock_mono() + SEND_NS, buf_span(&c->frame), &sent);
    }
    buf_clear(&c->frame); /* wipes */
    return !FAULTED(fault);
}

static void tell(struct wire_response *response, struct fault fault, const char *text)
{
    response->fault = fault;
    (void)snprintf(response->detail, sizeof(response->detail), "%.*s", (int)sizeof(response->detail) - 1, text);
}

bool connection_answer(struct connection *c, struct fault fault)
{
    struct wire_response response = { .id = c->request.id };
    count(c, outcome_of(fault));
    if (FAULTED(fault)) {
        const struct fault_note *note = &c->op->note;
        log_failure(c, fault);
        tell(&response, fault, note->set && note->detail[0] != 0 ? note->detail : fault_row(fault.code)->title);
    } else {
        response.result = buf_span(&c->result);
        response.algorithm = c->algorithm;
    }
    return answer(c, &response);
}

/* The operation's thread is inside the module and does not look at the connection: it may be used here. */
static void answer_late(struct connection *c, struct buf *frame)
{
    struct wire_response response = { .id = c->request.id };
    size_t sent = 0;
    tell(&response, FAULT(DEADLINE),
         "the token did not answer in time; the operation was given up: repeat the request");
    buf_clear(frame);
    if (!FAULTED(response_pack(&response, frame))) {
        IGNORE(frame_send(&c->stream, 0, buf_span(frame), &sent));
    }
    (void)shutdown(c->fd, SHUT_RDWR); /* what was sent is still read by the peer */
}

void connection_abandon(struct connection *c, mono_ns now, struct buf *frame)
{
    bool late = false;
    broker_lock(&c->lock);
    if (c->phase == PHASE_RUNNING && now >= c->deadline) {
        late = true;
        c->phase = PHASE_ABANDONED;
        answer_late(c, frame);
        if (c->session != NULL) {
            token_session_set_aside(c->session);
        }
        count(c, OP_OUTCOME_LATE);
    }
    broker_unlock(&c->lock);
    uint64_t left_out = 0;
    if (late && noise_allows(&c->broker->noise, &left_out)) {
        log_write(WARN, "operation_abandoned", LOG_TEXT("operation", wire_op_text(c->request.op)),
                  LOG_TEXT("purpose", key_purpose_text(c->request.key.purpose)));
    }
}

/* ---- health ---- */

static void token_in(struct signer_health *health, struct token *token, const struct token_name *name)
{
    struct token_status status = { 0 };
    struct token_health *to = &health->tokens[health->token_count++];
    token_status(token, &status);
    *to = (struct token_health){ .name = *name,
                                 .state = (enum signer_state)status.state,
                                 .recoveries = status.recoveries,
                                 .sessions = status.sessions,
                                 .in_use = status.in_use,
                                 .set_aside = status.set_aside };
    memcpy(to->label, status.label, sizeof(to->label));
    memcpy(to->model, status.model, sizeof(to->model));
    memcpy(to->serial, status.serial, sizeof(to->serial));
    memcpy(to->cause, status.cause, sizeof(to->cause));
    if (to->state > health->state) {
        health->state = to->state;
        memcpy(health->cause, status.cause, sizeof(health->cause));
    }
    health->recoveries += status.recoveries;
    health->sessions += status.sessions;
    health->queue += status.waiting;
    for (size_t i = 0; i < HEALTH_CLASSES; i++) {
        health->refusals[i] += status.refusals[i];
    }
}

static void tokens_in(struct signer_health *health, const struct tokens *tokens)
{
    for (size_t i = 0; i < tokens_count(tokens) && i < HEALTH_TOKENS_MAX; i++) {
        struct token_name name;
        struct token *token = tokens_at(tokens, i, &name);
        token_in(health, token, &name);
    }
    memcpy(health->token_label, health->tokens[0].label, sizeof(health->token_label));
    memcpy(health->token_model, health->tokens[0].model, sizeof(health->token_model));
    memcpy(health->token_serial, health->tokens[0].serial, sizeof(health->token_serial));
}

static void counts_in(struct signer_health *health, struct broker *broker)
{
    for (size_t op = 0; op < WIRE_OP_COUNT; op++) {
        for (size_t purpose = 0; purpose < KEY_PURPOSE_COUNT; purpose++) {
            for (size_t outcome = 0; outcome < OP_OUTCOME_COUNT; outcome++) {
                uint64_t number = atomic_load_explicit(&broker->counts[op][purpose][outcome], memory_order_relaxed);
                if (number > 0 && health->count_count < HEALTH_COUNTS_MAX) {
                    health->counts[health->count_count++] =
                        (struct operation_count){ (enum wire_op)op, (enum key_purpose)purpose, (enum op_outcome)outcome,
                                                  number };
                }
            }
        }
    }
}

static void health_fill(struct broker *broker, struct signer_health *health)
{
    char why[sizeof(health->cause)] = "";
    *health = (struct signer_health){ .operations = atomic_load(&broker->operations),
                                      .journal_bytes = journal_bytes(broker->parts.journal),
                                      .journal_usable = journal_usable(broker->parts.journal, why, sizeof(why)),
                                      .fips_active = broker->parts.fips_active,
                                      .self_test_passed = broker->parts.self_test_passed };
    tokens_in(health, broker->parts.tokens);
    counts_in(health, broker);
    if (!health->journal_usable && health->state == SIGNER_OK) {
        health->state = SIGNER_DEGRADED;
        memcpy(health->cause, why, sizeof(health->cause));
    }
}

bool connection_answer_health(struct connection *c)
{
    struct signer_health health;
    struct wire_response response = { .id = c->request.id, .health = &health };
    health_fill(c->broker, &health);
    return answer(c, &response);
}
