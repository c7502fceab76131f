#include "signer-pkcs11/broker/broker_internal.h"

#include <stdio.h>

/* One request on its way through the tables. */
struct call {
    struct op *op;
    struct broker *broker;
    const struct wire_request *request;
    struct wire_response *response;
    struct buf *result;
    struct token_session *session; /* NULL for what does not touch the token */
};

static struct fault op_health(struct call *call)
{
    struct broker *broker = call->broker;
    struct token_status token = { 0 };
    token_status(broker->parts.token, &token);
    struct wire_health *health = &call->response->health;
    *health = (struct wire_health){ .state = token.state,
                                    .operations = atomic_load(&broker->operations),
                                    .recoveries = token.recoveries,
                                    .journal_bytes = journal_bytes(broker->parts.journal),
                                    .sessions = token.sessions,
                                    .queue = bulkhead_waiting(broker->sessions),
                                    .fips_active = broker->parts.fips_active,
                                    .self_test_passed = broker->parts.self_test_passed };
    memcpy(health->token_label, token.label, sizeof(health->token_label));
    memcpy(health->token_model, token.model, sizeof(health->token_model));
    memcpy(health->token_serial, token.serial, sizeof(health->token_serial));
    memcpy(health->cause, token.cause, sizeof(health->cause));
    if (!journal_usable(broker->parts.journal) && health->state == TOKEN_OK) {
        health->state = TOKEN_DEGRADED;
        (void)snprintf(health->cause, sizeof(health->cause),
                       "the journal could not be synced: check its disk, then "
                       "restart the signer");
    }
    call->response->has_health = true;
    return OK;
}

static void log_key(const char *event, const struct call *call)
{
    const struct key_ref *key = &call->request->key;
    log_write(INFO, event, LOG_TEXT("tenant", key->tenant.text), LOG_TEXT("purpose", key_purpose_text(key->purpose)),
              LOG_TEXT("key_id", key->id.text));
}

static struct fault op_generate(struct call *call)
{
    const struct wire_request *request = call->request;
    TRY(token_generate(call->op, call->session, &request->key, request->algorithm, call->result));
    call->response->algorithm = request->algorithm;
    log_key("key_generated", call);
    return OK;
}

static struct fault op_public_key(struct call *call)
{
    return token_public_key(call->op, call->session, &call->request->key, &call->response->algorithm, call->result);
}

static struct fault op_sign(struct call *call)
{
    const struct wire_request *request = call->request;
    return token_sign(call->op, call->session, &request->key, request->scheme, request->hash, request->digest,
                      call->result);
}

static struct fault op_verify(struct call *call)
{
    const struct wire_request *request = call->request;
    return token_verify(call->op, call->session, &request->key, request->scheme, request->hash, request->digest,
                        request->signature);
}

static struct fault op_destroy(struct call *call)
{
    TRY(token_destroy(call->op, call->session, &call->request->key));
    log_key("key_destroyed", call);
    return OK;
}

static struct fault op_seal(struct call *call)
{
    const struct wire_request *request = call->request;
    return token_seal(call->op, call->session, &request->key, request->aad, request->data, call->result);
}

static struct fault op_unseal(struct call *call)
{
    const struct wire_request *request = call->request;
    return token_unseal(call->op, call->session, &request->key, request->aad, request->data, call->result);
}

enum effect { EFFECT_READ, EFFECT_WRITE, EFFECT_JOURNAL };
enum needs { NEEDS_NONE, NEEDS_SIG, NEEDS_AES, NEEDS_BOTH };
static const struct row {
    enum needs needs;
    enum effect effect;
    struct fault (*handler)(struct call *call);
} rows[WIRE_OP_COUNT] = {
#define OP_ROW(sym, kinds, effect, handler) [WIRE_##sym] = { NEEDS_##kinds, EFFECT_##effect, handler },
#include "signer-pkcs11/broker/ops.def"
#undef OP_ROW
};

/* The handler with a session of the token, which is given back before anything else is waited for. */
static struct fault in_token(struct call *call, const struct row *row)
{
    struct broker *broker = call->broker;
    CLEANUP(permit_release) struct permit permit = { 0 };
    struct fault fault = bulkhead_enter(broker->sessions, call->op->deadline, &permit);
    if (FAULTED(fault)) {
        return op_fail(call->op, fault, "all sessions of the token are in use and others wait: repeat the request");
    }
    CLEANUP(token_session_putp) struct token_session *session = NULL;
    TRY(token_session_take(call->op, broker->parts.token, &session));
    call->session = session;
    fault = row->handler(call);
    call->session = NULL;
    return fault;
}

/* Everything that decides the signature's meaning, each part of fixed or stated length. */
static struct fault request_hash(const struct wire_request *request, struct sha256 *ret_hash)
{
    static const char domain[] = "svc-signer sign 1";
    const struct key_ref *key = &request->key;
    const uint8_t numbers[] = { (uint8_t)strlen(key->tenant.text), (uint8_t)key->purpose, (uint8_t)request->scheme,
                                (uint8_t)request->hash };
    const struct span parts[] = { span_of(domain, sizeof(domain)), SPAN_ARRAY(numbers), span_text(key->tenant.text),
                                  span_text(key->id.text), request->digest };
    return sha256_of_parts(parts, COUNT_OF(parts), ret_hash);
}

static struct fault in_journal(struct call *call, const struct row *row)
{
    CLEANUP(journal_leave) struct journal_entry entry = { 0 };
    struct sha256 hash;
    bool replayed = false;
    TRY(request_hash(call->request, &hash));
    TRY(journal_enter(call->op, call->broker->parts.journal, &call->request->op_id, &hash, &entry, call->result,
                      &replayed));
    if (replayed) {
        return OK;
    }
    TRY(in_token(call, row));
    return journal_commit(call->op, &entry, buf_span(call->result));
}

struct fault op_dispatch(struct op *op, struct broker *broker, unsigned askers, const struct wire_request *request,
                         struct wire_response *response, struct buf *result)
{
    const struct row *row = &rows[request->op];
    struct call call = { .op = op, .broker = broker, .request = request, .response = response, .result = result };
    TRY(purpose_check(op, askers, request));
    if (row->needs == NEEDS_NONE) {
        return row->handler(&call);
    }
    atomic_fetch_add_explicit(&broker->operations, 1, memory_order_relaxed);
    if (row->effect == EFFECT_JOURNAL && request->op_id.text[0] != 0) {
        return in_journal(&call, row);
    }
    return in_token(&call, row);
}
