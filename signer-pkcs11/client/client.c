#include "signer-pkcs11/client/client.h"

#include "appliance/base/alloc.h"
#include "appliance/base/secret.h"
#include "appliance/base/tracing.h"
#include "signer-pkcs11/client/pool.h"

struct signer_client {
    const struct config *config;
    struct pool *pool;
    struct bulkhead *bulkhead; /* NULL: none */
    signer_call_fn on_call;    /* NULL: nobody measures */
    void *on_call_arg;
};

struct fault signer_client_new(const struct config *config, struct signer_client **ret_client)
{
    CLEANUP(mem_freep) struct signer_client *client = NULL;
    TRY(mem_new(1, sizeof(*client), &client));
    client->config = config;
    TRY(signer_pool_new(config, &client->pool));
    *ret_client = TAKE(client);
    return OK;
}

void signer_client_free(struct signer_client *client)
{
    if (client != NULL) {
        signer_pool_free(client->pool);
        mem_free(client);
    }
}

void signer_client_bound(struct signer_client *client, struct bulkhead *bulkhead)
{
    client->bulkhead = bulkhead;
}

void signer_client_on_call(struct signer_client *client, signer_call_fn on_call, void *arg)
{
    client->on_call = on_call;
    client->on_call_arg = arg;
}

/* ---- one call ---- */

struct call {
    struct op *op;
    struct signer_client *client;
    struct wire_request *request;
    mono_ns deadline;
    struct wire_response response; /* borrows from its connection's arena */
    struct buf *result;            /* NULL: the answer must have none */
    struct signer_health *health;  /* NULL: the same */
    bool sent;                     /* the signer may have seen it */
    bool repeated;                 /* it may have seen it twice */
    const char *broke;             /* where the last exchange ended, for the log */
    enum fault_code broke_with;
};

/* A little less than is left, so that the signer's own word about a lost deadline arrives before we hang up. */
static uint32_t deadline_to_send(mono_ns deadline)
{
    int left = clock_ms_left(deadline);
    int margin = left / 10 < 50 ? left / 10 : 50;
    return (uint32_t)(left - margin);
}

static struct fault broken(struct call *call, struct fault fault, const char *where)
{
    call->broke = where;
    call->broke_with = fault.code;
    return fault.code == FAULT_SIGNER_PROTOCOL || fault.code == FAULT_NO_MEMORY ? fault : FAULT(SIGNER_UNAVAILABLE);
}

/* One request and its answer on one connection, which is given back only when both are whole. */
static struct fault exchange(struct call *call, struct connection *taken)
{
    CLEANUP(pool_dropp) struct connection *connection = taken;
    struct span message;
    size_t sent = 0;
    mono_ns begun = clock_mono();
    call->sent = false;
    call->request->id = ++connection->last_id;
    call->request->deadline_ms = deadline_to_send(call->deadline);
    buf_clear(&connection->frame);
    TRY(request_pack(call->op, call->request, &connection->frame));
    struct fault fault = frame_send(&connection->stream, call->deadline, buf_span(&connection->frame), &sent);
    call->sent = sent > 0;
    if (FAULTED(fault)) {
        return broken(call, fault, "sending the request");
    }
    const struct frame_patience patience = { .first = call->deadline,
                                             .rest = NS_PER_S * 5,
                                             .awake = signer_pool_awake(connection) };
    fault = frame_read(&connection->stream, &patience, &message);
    if (FAULTED(fault)) {
        return broken(call, fault, "waiting for the answer");
    }
    arena_clear(connection->arena);
    fault = response_unpack(connection->arena, message, &call->response);
    if (FAULTED(fault)) {
        return broken(call, fault, "reading the answer");
    }
    bool asked_for = call->response.id == call->request->id && (call->result != NULL || call->response.result.len == 0);
    bool told = FAULTED(call->response.fault) || (call->health != NULL) == (call->response.health != NULL);
    if (!asked_for || !told) {
        return broken(call, FAULT(SIGNER_PROTOCOL), "matching the answer");
    }
    if (call->result != NULL && !FAULTED(call->response.fault)) {
        TRY(buf_put(call->result, call->response.result));
    }
    if (call->response.health != NULL) {
        *call->health = *call->response.health;
        call->response.health = NULL;
    }
    call->response.result = (struct span){ 0 };
    arena_clear(connection->arena);
    frame_done(&connection->stream);
    secret_wipe(connection->frame.at, connection->frame.len);
    signer_pool_took(connection, clock_mono() - begun);
    signer_pool_put(TAKE(connection));
    return OK;
}

/* A broken connection mostly means that the signer was restarted: once more on a fresh one. Safe for every operation
 * but key generation, which may have happened: there the caller learns it from KEY_EXISTS when it repeats. */
static struct fault attempt(struct call *call)
{
    struct connection *connection = NULL;
    enum pool_choice spare = call->request->op == WIRE_HEALTH ? POOL_SPARE : POOL_ANY;
    TRY(signer_pool_take(call->op, call->client->pool, spare, call->deadline, &connection));
    struct fault fault = exchange(call, connection);
    bool safe = !call->sent || call->request->op != WIRE_GENERATE_KEY;
    if (fault.code != FAULT_SIGNER_UNAVAILABLE || !safe || clock_mono() >= call->deadline) {
        return fault;
    }
    call->repeated = call->sent;
    TRY(signer_pool_take(call->op, call->client->pool, POOL_FRESH | spare, call->deadline, &connection));
    return exchange(call, connection);
}

static struct fault not_answered(struct call *call, struct fault fault)
{
    if (call->broke != NULL) {
        op_note_log(call->op, "%s: %s", call->broke, fault_row(call->broke_with)->text);
    }
    if (fault.code == FAULT_SIGNER_PROTOCOL) {
        return op_fail(call->op, fault,
                       "the signer's answer was not acceptable: are svc-api and svc-signer of one "
                       "version?");
    }
    if (fault.code == FAULT_SIGNER_UNAVAILABLE) {
        bool late = clock_mono() >= call->deadline;
        return op_fail(call->op, fault,
                       late ? "the signer did not answer in time: repeat the request"
                            : "the connection to the signer broke: repeat the request");
    }
    return fault;
}

static struct fault pass_bulkhead(struct call *call, struct permit *ret_permit)
{
    struct bulkhead *bulkhead = call->client->bulkhead;
    if (bulkhead == NULL || call->request->op == WIRE_HEALTH) {
        return OK;
    }
    CLEANUP(permit_release) struct permit permit = { 0 };
    struct fault fault = bulkhead_join(bulkhead, &permit);
    if (!FAULTED(fault) && call->op->tenant.text[0] != '\0') { /* one tenant's slow keys leave the others some */
        fault = permit_charge(&permit, call->op->tenant, (unsigned)call->client->config->bulkhead_tenant_share);
    }
    if (!FAULTED(fault)) {
        fault = permit_turn(&permit, call->deadline);
    }
    if (FAULTED(fault)) {
        return op_fail(call->op, fault, "the signer has too much to do: repeat the request");
    }
    *ret_permit = permit;
    permit = (struct permit){ 0 };
    return OK;
}

/* Calls are bounded by the operation's deadline and by signer.operation_timeout, whichever is earlier. */
static struct fault call_bounded(struct call *call)
{
    struct op *op = call->op;
    BUG_IF(op->tx_open > 0); /* a lock of the database must not wait for a token */
    TRY(op_settle(op));
    mono_ns bound = clock_mono() + call->client->config->signer_deadline;
    call->deadline = op->deadline < bound ? op->deadline : bound;
    TRY(request_check(op, call->request));
    CLEANUP(permit_release) struct permit permit = { 0 };
    TRY(pass_bulkhead(call, &permit));
    struct fault fault = attempt(call);
    if (FAULTED(fault)) {
        return not_answered(call, fault);
    }
    bool gone = call->response.fault.code == FAULT_KEY_NOT_FOUND && call->request->op == WIRE_DESTROY;
    if (gone && call->repeated) {
        return OK; /* the first time did it */
    }
    if (FAULTED(call->response.fault)) {
        return op_fail(op, call->response.fault, "%s", call->response.detail);
    }
    return OK;
}

static struct fault call_signer(struct call *call)
{
    mono_ns begun = clock_mono();
    struct fault fault = TRACED(call->op, TRACE_CLIENT, "signer", "svc.signer.operation",
                                wire_op_text(call->request->op), call_bounded(call));
    const struct signer_client *client = call->client;
    if (client->on_call != NULL) {
        client->on_call(client->on_call_arg, call->request->op, clock_mono() - begun, fault);
    }
    return fault;
}

/* ---- the operations ---- */

struct fault signer_health(struct op *op, struct signer_client *client, struct signer_health *ret_health)
{
    struct wire_request request = { .op = WIRE_HEALTH };
    struct call call = { .op = op, .client = client, .request = &request, .health = ret_health };
    return call_signer(&call);
}

struct fault signer_generate(struct op *op, struct signer_client *client, const struct key_ref *key,
                             enum key_algorithm algorithm, struct buf *spki)
{
    struct wire_request request = { .op = WIRE_GENERATE_KEY, .key = *key, .algorithm = algorithm };
    struct call call = { .op = op, .client = client, .request = &request, .result = spki };
    return call_signer(&call);
}

struct fault signer_public_key(struct op *op, struct signer_client *client, const struct key_ref *key,
                               enum key_algorithm *ret_algorithm, struct buf *spki)
{
    struct wire_request request = { .op = WIRE_PUBLIC_KEY, .key = *key };
    struct call call = { .op = op, .client = client, .request = &request, .result = spki };
    TRY(call_signer(&call));
    REQUIRE(call.response.algorithm != KEY_ALGORITHM_NONE, SIGNER_PROTOCOL);
    *ret_algorithm = call.response.algorithm;
    return OK;
}

static struct wire_request digest_request(enum wire_op wire_op, const struct sign_request *sign)
{
    return (struct wire_request){
        .op = wire_op, .key = sign->key, .scheme = sign->scheme, .hash = sign->hash, .digest = sign->digest
    };
}

struct fault signer_sign(struct op *op, struct signer_client *client, const struct sign_request *request,
                         struct buf *signature)
{
    struct wire_request wire = digest_request(WIRE_SIGN, request);
    wire.op_id = request->op_id;
    struct call call = { .op = op, .client = client, .request = &wire, .result = signature };
    return call_signer(&call);
}

/* Each behind its length, as many as were asked for, and nothing else. */
static struct fault take_signatures(struct span result, size_t count, struct span *ret_signatures)
{
    for (size_t i = 0; i < count; i++) {
        REQUIRE(result.len >= 2, SIGNER_PROTOCOL);
        size_t len = (size_t)result.at[0] << 8 | result.at[1];
        REQUIRE(len > 0 && len <= SIGNATURE_MAX && len <= result.len - 2, SIGNER_PROTOCOL);
        ret_signatures[i] = span_of(result.at + 2, len);
        result = span_of(result.at + 2 + len, result.len - 2 - len);
    }
    REQUIRE(result.len == 0, SIGNER_PROTOCOL);
    return OK;
}

struct fault signer_sign_many(struct op *op, struct signer_client *client, const struct sign_request *request,
                              struct buf *room, struct span *ret_signatures)
{
    struct wire_request wire = digest_request(WIRE_SIGN_MANY, request);
    struct call call = { .op = op, .client = client, .request = &wire, .result = room };
    size_t before = room->len;
    REQUIRE(request->op_id.text[0] == 0, BAD_ARGUMENT);
    TRY(call_signer(&call));
    struct span result = span_of(room->at + before, room->len - before);
    struct fault fault = take_signatures(result, request->digest.len / hash_size(request->hash), ret_signatures);
    return FAULTED(fault) ? not_answered(&call, fault) : OK;
}

struct fault signer_verify(struct op *op, struct signer_client *client, const struct sign_request *request,
                           struct span signature)
{
    struct wire_request wire = digest_request(WIRE_VERIFY, request);
    wire.signature = signature;
    struct call call = { .op = op, .client = client, .request = &wire };
    return call_signer(&call);
}

struct fault signer_verify_under(struct op *op, struct signer_client *client, const struct sign_request *request,
                                 struct span spki, struct span signature)
{
    struct wire_request wire = digest_request(WIRE_VERIFY, request);
    REQUIRE(spki.len > 0, BAD_ARGUMENT);
    wire.signature = signature;
    wire.spki = spki;
    struct call call = { .op = op, .client = client, .request = &wire };
    return call_signer(&call);
}

struct fault signer_destroy(struct op *op, struct signer_client *client, const struct key_ref *key)
{
    struct wire_request request = { .op = WIRE_DESTROY, .key = *key };
    struct call call = { .op = op, .client = client, .request = &request };
    return call_signer(&call);
}

struct fault signer_seal(struct op *op, struct signer_client *client, const struct key_ref *key, struct span aad,
                         struct span plain, struct buf *sealed)
{
    struct wire_request request = { .op = WIRE_SEAL, .key = *key, .aad = aad, .data = plain };
    struct call call = { .op = op, .client = client, .request = &request, .result = sealed };
    return call_signer(&call);
}

struct fault signer_unseal(struct op *op, struct signer_client *client, const struct key_ref *key, struct span aad,
                           struct span sealed, struct buf *plain)
{
    struct wire_request request = { .op = WIRE_UNSEAL, .key = *key, .aad = aad, .data = sealed };
    struct call call = { .op = op, .client = client, .request = &request, .result = plain };
    return call_signer(&call);
}
