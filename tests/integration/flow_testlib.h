/*
 * The API without a socket and without a token: real PostgreSQL and nats-server (with-stores), all of the pipeline from
 * dispatch() to the outbox, and a signer made of OpenSSL keys in this process that can be told to fail. For tests of
 * features; include it once, in the file with main().
 */
#ifndef TESTS_INTEGRATION_FLOW_TESTLIB_H
#define TESTS_INTEGRATION_FLOW_TESTLIB_H

#include "api/codesign/codesign.h"
#include "api/identity/internal.h"
#include "api/keys/keys.h"
#include "api/server/exchange.h"
#include "appliance/base/secret.h"
#include "integration/store_testlib.h"

#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <pthread.h>
#include <stdatomic.h>

/* ---- the signer ---- */

#define FAKE_KEYS_MAX 64
static struct fake_key {
    struct key_ref ref;
    enum key_algorithm algorithm;
    EVP_PKEY *key;
} fake_keys[FAKE_KEYS_MAX];
static size_t fake_key_count;
static pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_bool signer_gone, signer_lies;
static atomic_uint signer_signed, signer_probed; /* with an operation id, and without */

static struct fake_key *fake_find_locked(const struct key_ref *ref)
{
    for (size_t i = 0; i < fake_key_count; i++) {
        if (uuid_equal(fake_keys[i].ref.id, ref->id) && fake_keys[i].ref.purpose == ref->purpose &&
            tenant_id_equal(fake_keys[i].ref.tenant, ref->tenant) &&
            strcmp(fake_keys[i].ref.token.text, ref->token.text) == 0) {
            return &fake_keys[i];
        }
    }
    return NULL;
}

static struct fake_key *fake_find(const struct key_ref *ref)
{
    (void)pthread_mutex_lock(&fake_lock);
    struct fake_key *key = fake_find_locked(ref);
    (void)pthread_mutex_unlock(&fake_lock);
    return key;
}

static struct fault fake_spki(const struct fake_key *key, struct buf *spki)
{
    unsigned char *der = NULL;
    if (key->key == NULL) {
        return OK;
    }
    int len = i2d_PUBKEY(key->key, &der);
    struct fault fault = buf_put(spki, span_of(der, (size_t)len));
    OPENSSL_free(der);
    return fault;
}

struct fault signer_generate(struct op *op, struct signer_client *client, const struct key_ref *ref,
                             enum key_algorithm algorithm, struct buf *spki)
{
    (void)client;
    BUG_IF(op->tx_open != 0);
    REQUIRE(!atomic_load(&signer_gone), SIGNER_UNAVAILABLE);
    (void)pthread_mutex_lock(&fake_lock);
    struct fault fault = OK;
    if (fake_find_locked(ref) != NULL) {
        fault = FAULT(KEY_EXISTS);
    } else {
        BUG_IF(fake_key_count == FAKE_KEYS_MAX);
        struct fake_key *key = &fake_keys[fake_key_count++];
        *key = (struct fake_key){ .ref = *ref, .algorithm = algorithm };
        if (algorithm == KEY_ALGORITHM_EC_P256) {
            key->key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-256");
        } else if (algorithm == KEY_ALGORITHM_EC_P384) {
            key->key = EVP_PKEY_Q_keygen(NULL, NULL, "EC", "P-384");
        } else if (algorithm == KEY_ALGORITHM_RSA_3072) {
            key->key = EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)3072);
        }
        fault = fake_spki(key, spki);
    }
    (void)pthread_mutex_unlock(&fake_lock);
    return fault;
}

struct fault signer_public_key(struct op *op, struct signer_client *client, const struct key_ref *ref,
                               enum key_algorithm *ret_algorithm, struct buf *spki)
{
    (void)op, (void)client;
    REQUIRE(!atomic_load(&signer_gone), SIGNER_UNAVAILABLE);
    const struct fake_key *key = fake_find(ref);
    REQUIRE(key != NULL, KEY_NOT_FOUND);
    *ret_algorithm = key->algorithm;
    return fake_spki(key, spki);
}

/* Two tokens, by name. */
struct fault signer_health(struct op *op, struct signer_client *client, struct signer_health *ret_health)
{
    (void)op, (void)client;
    REQUIRE(!atomic_load(&signer_gone), SIGNER_UNAVAILABLE);
    *ret_health = (struct signer_health){ .journal_usable = true, .token_count = 2 };
    ret_health->tokens[0].name = (struct token_name){ "main" };
    ret_health->tokens[1].name = (struct token_name){ "backup" };
    return OK;
}

static const EVP_MD *fake_md(enum hash_algorithm hash)
{
    return hash == HASH_SHA512 ? EVP_sha512() : hash == HASH_SHA384 ? EVP_sha384() : EVP_sha256();
}

struct fault signer_sign(struct op *op, struct signer_client *client, const struct sign_request *request,
                         struct buf *signature)
{
    (void)client;
    BUG_IF(op->tx_open != 0);
    REQUIRE(!atomic_load(&signer_gone), SIGNER_UNAVAILABLE);
    const struct fake_key *key = fake_find(&request->key);
    REQUIRE(key != NULL, KEY_NOT_FOUND);
    unsigned char out[SIGNATURE_MAX], digest[64];
    size_t len = sizeof(out);
    memcpy(digest, request->digest.at, request->digest.len);
    digest[0] ^= atomic_load(&signer_lies) ? 1 : 0;
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new(key->key, NULL);
    bool good = EVP_PKEY_sign_init(ctx) == 1 && EVP_PKEY_CTX_set_signature_md(ctx, fake_md(request->hash)) == 1 &&
                (request->scheme != SIGN_SCHEME_RSA_PSS ||
                 (EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_PSS_PADDING) == 1 &&
                  EVP_PKEY_CTX_set_rsa_pss_saltlen(ctx, RSA_PSS_SALTLEN_DIGEST) == 1)) &&
                EVP_PKEY_sign(ctx, out, &len, digest, request->digest.len) == 1;
    EVP_PKEY_CTX_free(ctx);
    REQUIRE(good, CRYPTO);
    (void)atomic_fetch_add(request->op_id.text[0] != '\0' ? &signer_signed : &signer_probed, 1);
    return buf_put(signature, span_of(out, len));
}

struct fault signer_sign_many(struct op *op, struct signer_client *client, const struct sign_request *request,
                              struct buf *room, struct span *ret_signatures)
{
    size_t size = hash_size(request->hash), count = request->digest.len / size;
    size_t ends[SIGNER_MANY_MAX] = { 0 };
    BUG_IF(count == 0 || count > SIGNER_MANY_MAX || request->digest.len % size != 0);
    for (size_t i = 0; i < count; i++) {
        struct sign_request one = *request;
        one.digest = span_of(request->digest.at + i * size, size);
        TRY(signer_sign(op, client, &one, room));
        ends[i] = room->len;
    }
    for (size_t i = 0; i < count; i++) {
        size_t from = i > 0 ? ends[i - 1] : 0;
        ret_signatures[i] = span_of(room->at + from, ends[i] - from);
    }
    return OK;
}

struct fault signer_verify_under(struct op *op, struct signer_client *client, const struct sign_request *request,
                                 struct span spki, struct span signature)
{
    (void)op, (void)client;
    const unsigned char *at = spki.at;
    EVP_PKEY *key = d2i_PUBKEY(NULL, &at, (long)spki.len);
    EVP_PKEY_CTX *ctx = key != NULL ? EVP_PKEY_CTX_new(key, NULL) : NULL;
    bool good = ctx != NULL && EVP_PKEY_verify_init(ctx) == 1 &&
                EVP_PKEY_CTX_set_signature_md(ctx, fake_md(request->hash)) == 1 &&
                EVP_PKEY_verify(ctx, signature.at, signature.len, request->digest.at, request->digest.len) == 1;
    EVP_PKEY_CTX_free(ctx);
    EVP_PKEY_free(key);
    return good ? OK : FAULT(SIGNATURE_INVALID);
}

struct fault signer_verify(struct op *op, struct signer_client *client, const struct sign_request *request,
                           struct span signature)
{
    CLEANUP(buf_free) struct buf spki = BUF_INIT(SPKI_MAX);
    enum key_algorithm algorithm = KEY_ALGORITHM_NONE;
    TRY(signer_public_key(op, client, &request->key, &algorithm, &spki));
    return signer_verify_under(op, client, request, buf_span(&spki), signature);
}

struct fault signer_destroy(struct op *op, struct signer_client *client, const struct key_ref *ref)
{
    (void)op, (void)client;
    REQUIRE(!atomic_load(&signer_gone), SIGNER_UNAVAILABLE);
    (void)pthread_mutex_lock(&fake_lock);
    struct fake_key *key = fake_find_locked(ref);
    if (key != NULL) {
        key->ref.id.text[0] = '!';
    }
    (void)pthread_mutex_unlock(&fake_lock);
    return key != NULL ? OK : FAULT(KEY_NOT_FOUND);
}

struct fault signer_seal(struct op *op, struct signer_client *client, const struct key_ref *ref, struct span aad,
                         struct span plain, struct buf *sealed)
{
    (void)op, (void)client, (void)ref;
    REQUIRE(!atomic_load(&signer_gone), SIGNER_UNAVAILABLE);
    TRY(buf_put(sealed, aad));
    return buf_put(sealed, plain);
}

struct fault signer_unseal(struct op *op, struct signer_client *client, const struct key_ref *ref, struct span aad,
                           struct span sealed, struct buf *plain)
{
    (void)op, (void)client, (void)ref;
    REQUIRE(!atomic_load(&signer_gone), SIGNER_UNAVAILABLE);
    REQUIRE(sealed.len > aad.len && memcmp(sealed.at, aad.at, aad.len) == 0, UNSEAL);
    return buf_put(plain, span_of(sealed.at + aad.len, sealed.len - aad.len));
}

/* ---- the services ---- */

static struct services flow_services;
static struct core flow_core;
/* Another test's own list, defined before the include. */
#ifndef FLOW_FEATURE_LIST
#define FLOW_FEATURE_LIST &identity_feature, &keys_feature, &codesign_feature
#endif
static const struct feature *flow_features[] = { FLOW_FEATURE_LIST };
#define FLOW_FEATURES COUNT_OF(flow_features)

static void flow_on_outbox(void *arg)
{
    (void)arg;
    if (flow_services.outbox != NULL) {
        outbox_wake(flow_services.outbox);
    }
}

static const struct event_row *flow_events[FLOW_FEATURES];
static const struct outbox_row *flow_rows[FLOW_FEATURES];
static size_t flow_event_counts[FLOW_FEATURES], flow_row_counts[FLOW_FEATURES];

[[maybe_unused]] static const struct projector_config *flow_projector_config(void)
{
    static struct projector_config config;
    config = (struct projector_config){ .store = flow_services.store,
                                        .log = flow_services.log,
                                        .tables = flow_events,
                                        .counts = flow_event_counts,
                                        .table_count = FLOW_FEATURES,
                                        .on_outbox = flow_on_outbox };
    return &config;
}

[[maybe_unused]] static void flow_resume(void)
{
    CLEANUP(op_freep) struct op *op = test_op("", 30000);
    assert_ok(projector_start(flow_projector_config(), &flow_services.projector));
    assert_ok(projector_catch_up(op, flow_services.projector));
    const struct outbox_config outbox = { .store = flow_services.store,
                                          .services = &flow_services,
                                          .tables = flow_rows,
                                          .counts = flow_row_counts,
                                          .table_count = FLOW_FEATURES,
                                          .threads = 4 };
    assert_ok(outbox_start(&outbox, &flow_services.outbox));
}

[[maybe_unused]] static void flow_pause(void)
{
    outbox_stop(flow_services.outbox);
    outbox_free(TAKE(flow_services.outbox));
    projector_stop(TAKE(flow_services.projector));
}

static void flow_start(void)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(8192);
    use_config();
    test_config->nats_url = getenv("SVC_NATS_URL");
    test_config->nats_credentials = getenv("SVC_NATS_CREDENTIALS_FILE");
    test_config->policy_dir = "policies";
    test_config->signer_socket = "/nowhere";
    migrate();
    flow_services.config = test_config;
    assert_ok(store_open(test_config, &why, &flow_services.store));
    assert_ok(event_log_open(test_config, &why, &flow_services.log));
    assert_ok(identity_open(test_config, &why, &flow_services.identity));
    assert_ok(metrics_new(&flow_services.metrics));
    assert_ok(secret_random(32, &flow_services.fingerprint_key));
    assert_ok(uuid_new(&flow_services.instance));
    for (size_t i = 0; i < FLOW_FEATURES; i++) {
        flow_events[i] = flow_features[i]->events;
        flow_event_counts[i] = flow_features[i]->event_count;
        flow_rows[i] = flow_features[i]->outbox;
        flow_row_counts[i] = flow_features[i]->outbox_count;
        assert_ok(metrics_register(flow_services.metrics, flow_features[i]->metrics, flow_features[i]->metric_count));
    }
    flow_resume();
    flow_core = (struct core){ .services = &flow_services, .features = flow_features, .feature_count = FLOW_FEATURES };
    assert_ok(router_new(flow_features, FLOW_FEATURES, &why, &flow_core.router));
}

static void flow_stop(void)
{
    flow_pause();
    for (size_t i = FLOW_FEATURES; i-- > 0;) {
        if (flow_features[i]->stop != NULL) {
            flow_features[i]->stop(&flow_services);
        }
    }
    event_log_close(flow_services.log);
    store_close(flow_services.store);
    identity_close(flow_services.identity);
    metrics_free(flow_services.metrics);
    secret_free(flow_services.fingerprint_key);
    router_free(flow_core.router);
    for (size_t i = 0; i < fake_key_count; i++) {
        EVP_PKEY_free(fake_keys[i].key);
    }
}

/* ---- a request ---- */

struct answer {
    int status;
    char body[65536];
    bool replayed;
    char retry_after[16];
};

struct reading {
    const char *body;
};

static struct fault flow_read_body(void *arg, uint8_t *at, size_t len)
{
    const struct reading *reading = arg;
    memcpy(at, reading->body, len);
    return OK;
}

/* `target` may have a query. token and key may be NULL. */
[[maybe_unused]] static void flow_call(const char *method, const char *target, const char *token, const char *key,
                                       const char *body, int timeout_ms, struct answer *ret_answer)
{
    char path[512], authorization[256], length[24];
    (void)snprintf(path, sizeof(path), "%s", target);
    char *query = strchr(path, '?');
    if (query != NULL) {
        *query++ = '\0';
    }
    (void)snprintf(authorization, sizeof(authorization), "Bearer %s", token != NULL ? token : "");
    (void)snprintf(length, sizeof(length), "%zu", body != NULL ? strlen(body) : 0);
    struct reading reading = { body };
    struct message message = { .method = method,
                               .path = path,
                               .query = query,
                               .listener = LISTENER_TLS,
                               .read_body = flow_read_body,
                               .arg = &reading };
    message.headers[message.header_count++] = (struct http_header){ "Host", "localhost" };
    if (token != NULL) {
        message.headers[message.header_count++] = (struct http_header){ "Authorization", authorization };
    }
    if (key != NULL) {
        message.headers[message.header_count++] = (struct http_header){ "Idempotency-Key", key };
    }
    if (body != NULL) {
        message.headers[message.header_count++] = (struct http_header){ "Content-Type", "application/json" };
        message.headers[message.header_count++] = (struct http_header){ "Content-Length", length };
    }
    CLEANUP(op_freep) struct op *op = NULL;
    BUG_IF(FAULTED(op_new("", (struct tenant_id){ "" }, timeout_ms, &op)));
    struct response response;
    struct route_match match;
    dispatch(&flow_core, op, &message, &response, &match);
    BUG_IF(op->tx_open != 0 || response.body.len >= sizeof(ret_answer->body));
    *ret_answer = (struct answer){ .status = response.status };
    memcpy(ret_answer->body, response.body.at, response.body.len);
    for (size_t i = 0; i < response.header_count; i++) {
        if (strcmp(response.headers[i].name, "Idempotent-Replayed") == 0) {
            ret_answer->replayed = true;
        }
        if (strcmp(response.headers[i].name, "Retry-After") == 0) {
            (void)snprintf(ret_answer->retry_after, sizeof(ret_answer->retry_after), "%s", response.headers[i].value);
        }
    }
}

/* The text member `name` of a flat JSON answer, "" when it is not there. In static storage of this thread, four in
 * turn. */
[[maybe_unused]] static const char *flow_text(const struct answer *answer, const char *name)
{
    static _Thread_local char texts[4][8192];
    static _Thread_local unsigned turn;
    char wanted[64];
    char *out = texts[turn++ % 4];
    out[0] = '\0';
    (void)snprintf(wanted, sizeof(wanted), "\"%s\":\"", name);
    const char *at = strstr(answer->body, wanted);
    if (at != NULL) {
        at += strlen(wanted);
        (void)snprintf(out, 8192, "%.*s", (int)strcspn(at, "\""), at);
    }
    return out;
}

#define assert_problem(answer, want_status, want_code)                                                         \
    do {                                                                                                       \
        if ((answer)->status != (want_status) || strcmp(flow_text((answer), "code"), (want_code)) != 0) {      \
            fail_msg("wanted %d %s, got %d %s", (want_status), (want_code), (answer)->status, (answer)->body); \
        }                                                                                                      \
    } while (0)
#define assert_status(answer, want)                                                     \
    do {                                                                                \
        if ((answer)->status != (want)) {                                               \
            fail_msg("wanted %d, got %d %s", (want), (answer)->status, (answer)->body); \
        }                                                                               \
    } while (0)

/* A tenant and a token in it, past the HTTP routes. */
static void flow_token(const char *tenant_text, const char *subject, const char *role, char out[TOKEN_TEXT_MAX])
{
    CLEANUP(op_freep) struct op *op = test_op(tenant_text, 30000);
    struct token_issued token;
    const struct token_request wanted = { .subject = subject, .roles = &role, .role_count = 1, .ttl_s = 3600 };
    assert_ok(identity_tenant_ensure(op, &flow_services, tenant(tenant_text)));
    assert_ok(identity_token_issue(op, &flow_services, &wanted, &token));
    (void)snprintf(out, TOKEN_TEXT_MAX, "%s", token.text);
}

[[maybe_unused]] static uint64_t flow_log_last(void)
{
    CLEANUP(op_freep) struct op *op = test_op("", 10000);
    struct event_log_state state;
    assert_ok(event_log_state_now(op, flow_services.log, &state));
    return state.last_seq;
}

#endif
