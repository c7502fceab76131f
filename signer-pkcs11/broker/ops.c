#include "signer-pkcs11/broker/broker_internal.h"

#include "appliance/base/failpoint.h"
#include "fips/fence.h"

static void log_key(const char *event, const struct connection *connection)
{
    const struct key_ref *key = &connection->request.key;
    log_write(INFO, event, LOG_TEXT("tenant", key->tenant.text), LOG_TEXT("purpose", key_purpose_text(key->purpose)),
              LOG_TEXT("key_id", key->id.text));
}

/* ---- in the token, or sealed by it ---- */

static bool is_sealed(const struct connection *c)
{
    return c->broker->parts.sealed != NULL && sealed_has(c->broker->parts.sealed, &c->request.key);
}

static struct fault sealed_of(struct connection *c, struct sealed_keys **ret_sealed)
{
    *ret_sealed = c->broker->parts.sealed;
    return *ret_sealed != NULL ? OK : op_fail(c->op, FAULT(PQC_DISABLED), "this signer keeps no sealed keys");
}

static struct fault generate(struct connection *c, struct token_session *session)
{
    const struct wire_request *request = &c->request;
    struct sealed_keys *sealed = NULL;
    if (request->algorithm == KEY_ALGORITHM_ML_DSA_65) {
        TRY(sealed_of(c, &sealed));
        return sealed_generate(c->op, sealed, session, &request->key, request->algorithm, &c->result);
    }
    if (is_sealed(c)) {
        return op_fail(c->op, FAULT(KEY_EXISTS),
                       "the signer holds a sealed key of this tenant, purpose and id already");
    }
    return token_generate(c->op, session, &request->key, request->algorithm, &c->result);
}

static struct fault op_generate(struct connection *c, struct token_session *session)
{
    TRY(generate(c, session));
    c->algorithm = c->request.algorithm;
    log_key("key_generated", c);
    return OK;
}

static struct fault op_public_key(struct connection *c, struct token_session *session)
{
    if (is_sealed(c)) {
        return sealed_public_key(c->op, c->broker->parts.sealed, session, &c->request.key, &c->algorithm, &c->result);
    }
    return token_public_key(c->op, session, &c->request.key, &c->algorithm, &c->result);
}

static struct fault op_sign(struct connection *c, struct token_session *session)
{
    const struct wire_request *request = &c->request;
    struct sealed_keys *sealed = NULL;
    if (request->scheme == SIGN_SCHEME_ML_DSA) {
        TRY(sealed_of(c, &sealed));
        return sealed_sign(c->op, sealed, session, &request->key, request->scheme, request->hash, request->digest,
                           &c->result);
    }
    return token_sign(c->op, session, &request->key, request->scheme, request->hash, request->digest, &c->result);
}

/* All or nothing, one behind the other in one session: what a caller asks for at once spares both processes a sleep and
 * a wake-up for each. */
static struct fault op_sign_many(struct connection *c, struct token_session *session)
{
    const struct wire_request *request = &c->request;
    size_t size = hash_size(request->hash);
    for (size_t at = 0; at < request->digest.len; at += size) {
        struct span digest = span_of(request->digest.at + at, size);
        size_t mark = c->result.len;
        static const uint8_t room[2];
        if (op_expired(c->op)) {
            return op_fail(c->op, FAULT(DEADLINE), "the token did not make all signatures in time: repeat the request");
        }
        TRY(buf_put(&c->result, SPAN_ARRAY(room)));
        TRY(token_sign(c->op, session, &request->key, request->scheme, request->hash, digest, &c->result));
        size_t len = c->result.len - mark - sizeof(room);
        c->result.at[mark] = (uint8_t)(len >> 8);
        c->result.at[mark + 1] = (uint8_t)len;
    }
    return OK;
}

static struct fault verify_fenced(struct connection *c, struct token_session *session)
{
    const struct wire_request *request = &c->request;
    struct sealed_keys *sealed = NULL;
    if (request->spki.len > 0) {
        return ml_dsa_65_verify(c->op, request->spki, request->digest, request->signature);
    }
    TRY(sealed_of(c, &sealed));
    return sealed_verify(c->op, sealed, session, &request->key, request->scheme, request->hash, request->digest,
                         request->signature);
}

static struct fault op_verify(struct connection *c, struct token_session *session)
{
    const struct wire_request *request = &c->request;
    if (request->scheme == SIGN_SCHEME_ML_DSA) {
        return verify_fenced(c, session);
    }
    if (request->spki.len > 0) {
        return token_verify_under(c->op, request->spki, request->scheme, request->hash, request->digest,
                                  request->signature);
    }
    return token_verify(c->op, session, &request->key, request->scheme, request->hash, request->digest,
                        request->signature);
}

static struct fault op_destroy(struct connection *c, struct token_session *session)
{
    const struct key_ref *key = &c->request.key;
    TRY(is_sealed(c) ? sealed_destroy(c->op, c->broker->parts.sealed, session, key)
                     : token_destroy(c->op, session, key));
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
#define op_health                        NULL /* answered without a token */
#define OP_ROW(sym, kinds, way, handler) [WIRE_##sym] = { WAY_##way, handler },
#include "signer-pkcs11/broker/ops.def"
#undef OP_ROW
#undef op_health
};

static struct fault with_session(struct connection *c, struct token *token)
{
    struct token_session *session = NULL;
    TRY(token_session_take(c->op, token, &session));
    connection_holds(c, session);
    struct fault fault = rows[c->request.op].handler(c, session);
    connection_holds(c, NULL);
    token_session_put(session);
    return fault;
}

/* ---- through the journal ---- */

/* Everything that decides the signature's meaning, each part of fixed or stated length. */
static struct fault request_hash(const struct wire_request *request, struct sha256 *ret_hash)
{
    static const char domain[] = "svc-signer sign 1";
    const struct key_ref *key = &request->key;
    const uint8_t numbers[] = { (uint8_t)strlen(key->tenant.text), (uint8_t)key->purpose, (uint8_t)request->scheme,
                                (uint8_t)request->hash };
    const struct span parts[] = { span_of(domain, sizeof(domain)), SPAN_ARRAY(numbers), span_text(key->tenant.text),
                                  span_text(key->id.text),         request->digest,     span_text(key->token.text) };
    return sha256_of_parts(parts, COUNT_OF(parts), ret_hash);
}

static struct fault in_journal(struct connection *c, struct token *token)
{
    CLEANUP(journal_leave) struct journal_entry entry = { 0 };
    struct sha256 hash;
    bool replayed = false;
    TRY(request_hash(&c->request, &hash));
    TRY(journal_enter(c->op, c->broker->parts.journal, &c->request.op_id, &hash, &entry, &c->result, &replayed));
    if (replayed) {
        return OK;
    }
    FAILPOINT("signer.before_c_sign");
    TRY(with_session(c, token));
    FAILPOINT("signer.after_c_sign");
    return journal_commit(c->op, &entry, buf_span(&c->result));
}

struct fault connection_run(struct connection *c)
{
    struct token *token = tokens_find(c->broker->parts.tokens, &c->request.key.token);
    c->algorithm = KEY_ALGORITHM_NONE;
    buf_clear(&c->result);
    if (token == NULL) {
        return op_fail(c->op, FAULT(KEY_NOT_FOUND), "the signer has no token named '%s'", c->request.key.token.text);
    }
    if (c->request.scheme == SIGN_SCHEME_ML_DSA) {
        TRY(fence_check(c->op)); /* before the journal, which may know a signature of more open days */
    }
    if (rows[c->request.op].way == WAY_JOURNAL && c->request.op_id.text[0] != 0) {
        return in_journal(c, token);
    }
    return with_session(c, token);
}
