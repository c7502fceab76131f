#include "signer-pkcs11/broker/broker_internal.h"

#include "appliance/base/failpoint.h"

static void log_key(const char *event, const struct connection *connection)
{
    const struct key_ref *key = &connection->request.key;
    log_write(INFO, event, LOG_TEXT("tenant", key->tenant.text), LOG_TEXT("purpose", key_purpose_text(key->purpose)),
              LOG_TEXT("key_id", key->id.text));
}

static struct fault op_generate(struct connection *c, struct token_session *session)
{
    TRY(token_generate(c->op, session, &c->request.key, c->request.algorithm, &c->result));
    c->algorithm = c->request.algorithm;
    log_key("key_generated", c);
    return OK;
}

static struct fault op_public_key(struct connection *c, struct token_session *session)
{
    return token_public_key(c->op, session, &c->request.key, &c->algorithm, &c->result);
}

static struct fault op_sign(struct connection *c, struct token_session *session)
{
    const struct wire_request *request = &c->request;
    return token_sign(c->op, session, &request->key, request->scheme, request->hash, request->digest, &c->result);
}

static struct fault op_verify(struct connection *c, struct token_session *session)
{
    const struct wire_request *request = &c->request;
    if (request->spki.len > 0) {
        return token_verify_under(c->op, request->spki, request->scheme, request->hash, request->digest,
                                  request->signature);
    }
    return token_verify(c->op, session, &request->key, request->scheme, request->hash, request->digest,
                        request->signature);
}

static struct fault op_destroy(struct connection *c, struct token_session *session)
{
    TRY(token_destroy(c->op, session, &c->request.key));
    log_key("key_destroyed", c);
    return OK;
}

static struct fault op_seal(struct connection *c, struct token_session *session)
{
    const struct wire_request *request = &c->request;
    return token_seal(c->op, session, &request->key, request->aad, request->data, &c->result);
}

static struct fault op_unseal(struct connection *c, struct token_session *session)
{
    const struct wire_request *request = &c->request;
    return token_unseal(c->op, session, &request->key, request->aad, request->data, &c->result);
}

enum way { WAY_DIRECT, WAY_TOKEN, WAY_JOURNAL };
static const struct row {
    enum way way;
    struct fault (*handler)(struct connection *connection, struct token_session *session);
} rows[WIRE_OP_COUNT] = {
#define op_health                        NULL /* the dispatcher's: it never waits for a worker */
#define OP_ROW(sym, kinds, way, handler) [WIRE_##sym] = { WAY_##way, handler },
#include "signer-pkcs11/broker/ops.def"
#undef OP_ROW
#undef op_health
};

/* ---- through the journal ---- */

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

#define OWNER_OF(pointer, member) ((struct connection *)((char *)(pointer) - offsetof(struct connection, member)))

/* On whatever thread wrote it. */
static void on_disk(struct journal_write *write, struct fault fault, const char *why)
{
    struct connection *connection = OWNER_OF(write, write);
    if (FAULTED(fault)) {
        fault = op_fail(connection->op, fault, "%s", why);
    }
    connection_answer(connection, fault, &connection->broker->journal_frame);
}

/* Whoever had the id is done with it: from the start again. */
static void unparked(struct journal_parked *parked)
{
    struct connection *connection = OWNER_OF(parked, parked);
    struct fault fault = workers_ask(connection->broker, connection);
    if (FAULTED(fault)) {
        CLEANUP(buf_free) struct buf frame = BUF_INIT(FRAME_HEADER + FRAME_MAX);
        connection_answer(connection, fault, &frame);
    }
}

static struct fault in_journal(struct connection *c, struct token_session *session, bool *ret_later)
{
    CLEANUP(journal_leave) struct journal_entry entry = { 0 };
    struct sha256 hash;
    enum journal_outcome outcome = JOURNAL_NEW;
    c->write.done = on_disk;
    c->parked.wake = unparked;
    TRY(request_hash(&c->request, &hash));
    TRY(journal_enter(c->op, c->broker->parts.journal, &c->request.op_id, &hash, &c->parked, &entry, &c->result,
                      &outcome));
    *ret_later = outcome == JOURNAL_PARKED;
    if (outcome != JOURNAL_NEW) {
        return OK;
    }
    FAILPOINT("signer.before_c_sign");
    TRY(rows[c->request.op].handler(c, session));
    FAILPOINT("signer.after_c_sign");
    *ret_later = true;
    journal_submit(&entry, buf_span(&c->result), &c->write);
    return OK;
}

struct fault connection_run(struct connection *connection, struct token_session *session, bool *ret_later)
{
    const struct row *row = &rows[connection->request.op];
    *ret_later = false;
    connection->algorithm = KEY_ALGORITHM_NONE;
    buf_clear(&connection->result);
    if (row->way == WAY_JOURNAL && connection->request.op_id.text[0] != 0) {
        return in_journal(connection, session, ret_later);
    }
    return row->handler(connection, session);
}
