/* A server with its three listeners on ports of its own, TLS under the FIPS provider, and everything below it well: for
 * tests that bring their own routes. */
#ifndef TESTS_INTEGRATION_SERVER_TESTLIB_H
#define TESTS_INTEGRATION_SERVER_TESTLIB_H

#include "integration/http_client.h"

#include "api/server/request.h"
#include "api/server/server.h"
#include "api/server/server_feature.h"
#include "appliance/base/file.h"
#include "fips/fips.h"

#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <signal.h>

#define assert_fault(expr, sym) assert_int_equal((expr).code, FAULT_##sym)
#define HOST                    "Host: localhost\r\n"

/* The rooms below: all well. */
struct fault store_ping(struct op *op, struct store *store, int timeout_ms)
{
    (void)op, (void)store, (void)timeout_ms;
    return OK;
}
struct store_pool_stats store_pool_stats(struct store *store, enum store_pool pool)
{
    (void)store, (void)pool;
    return (struct store_pool_stats){ 0 };
}
const char *store_pool_text(enum store_pool pool)
{
    (void)pool;
    return "any";
}
struct fault event_log_state(struct op *op, struct event_log *log, struct event_log_state *ret_state)
{
    (void)op, (void)log;
    *ret_state = (struct event_log_state){ .connected = true, .replicas_actual = 1, .replicas_desired = 1 };
    return OK;
}
void projector_state(struct projector *projector, struct projector_state *ret_state)
{
    (void)projector;
    *ret_state = (struct projector_state){ .log_trusted = true };
}
struct fault signer_health(struct op *op, struct signer_client *client, struct signer_health *ret_health)
{
    (void)op, (void)client;
    *ret_health = (struct signer_health){ .state = SIGNER_OK, .journal_usable = true, .self_test_passed = true };
    return OK;
}
struct fault identity_authenticate(struct op *op, struct identity *identity, struct store *unused,
                                   const char *authorization)
{
    (void)identity, (void)unused;
    return authorization != NULL ? OK : op_fail(op, FAULT(UNAUTHENTICATED), "send a bearer token");
}
bool principal_may(const struct principal *principal, enum permission permission)
{
    (void)principal, (void)permission;
    return true;
}
const char *permission_text(enum permission permission)
{
    (void)permission;
    return "any";
}

static char folder[] = "/tmp/svc-test-http-XXXXXX";
static struct config config = { .http_listen = "127.0.0.1:0",
                                .http_plain_listen = "127.0.0.1:0",
                                .http_probe_listen = "127.0.0.1:0",
                                .http_base_url = "",
                                .http_threads = 8,
                                .http_body_max = 65536,
                                .http_deadline = 20 * NS_PER_S,
                                .bulkhead_api = 8,
                                .bulkhead_protocol = 8,
                                .bulkhead_heavy = 2,
                                .bulkhead_evidence = 2,
                                .nats_replicas = 1,
                                .fips_required = true,
                                .fips_module = "/usr/lib/x86_64-linux-gnu/ossl-modules/fips.so",
                                .data_dir = folder,
                                .run_dir = folder };
static struct services services = { .config = &config };
static struct server *server;

static inline void write_pem(const char *name, BIO *bio)
{
    char path[256];
    char *text = NULL;
    long len = BIO_get_mem_data(bio, &text);
    (void)snprintf(path, sizeof(path), "%s/api/%s", folder, name);
    assert_fault(file_write(path, span_of(text, (size_t)len), 0600), NONE);
    BIO_free(bio);
}

static inline void make_certificate(void)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *certificate = X509_new();
    X509_NAME *name = X509_get_subject_name(certificate);
    assert_int_equal(X509_set_version(certificate, X509_VERSION_3), 1);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1), 1);
    assert_int_equal(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const uint8_t *)"localhost", -1, -1, 0), 1);
    assert_int_equal(X509_set_issuer_name(certificate, name), 1);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(certificate), -60));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(certificate), 86400));
    assert_int_equal(X509_set_pubkey(certificate, key), 1);
    assert_true(X509_sign(certificate, key, EVP_sha256()) > 0);
    BIO *bio = BIO_new(BIO_s_mem());
    assert_int_equal(PEM_write_bio_X509(bio, certificate), 1);
    write_pem("tls.crt", bio);
    bio = BIO_new(BIO_s_mem());
    assert_int_equal(PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL), 1);
    write_pem("tls.key", bio);
    X509_free(certificate);
    EVP_PKEY_free(key);
}

static inline int set_up_once(void **state)
{
    (void)state;
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    char path[256];
    (void)signal(SIGPIPE, SIG_IGN);
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/api", folder);
    assert_fault(file_make_dirs(path, 0700), NONE);
    (void)snprintf(path, sizeof(path), "%s/fips", folder);
    assert_fault(file_make_dirs(path, 0755), NONE);
    make_certificate();
    assert_fault(fips_start(&config, &why), NONE);
    return 0;
}

static inline void server_begin(const struct feature *const *with, size_t count)
{
    CLEANUP(buf_free) struct buf why = BUF_INIT(4096);
    struct server_config wanted = { .services = &services, .features = with, .feature_count = count };
    assert_fault(metrics_new(&services.metrics), NONE);
    struct fault fault = server_start(&wanted, &why, &server);
    if (FAULTED(fault)) {
        print_error("%.*s\n", (int)why.len, (const char *)why.at);
    }
    assert_fault(fault, NONE);
}

static inline void server_end(void)
{
    server_stop(server, 5000);
    server = NULL;
    metrics_free(services.metrics);
}

static inline int tls_port(void)
{
    return server_port(server, LISTENER_TLS);
}

static inline struct client *dial(void)
{
    struct client *client = test_malloc(sizeof(*client));
    assert_true(client_open_tls(client, tls_port(), NULL));
    return client;
}

static inline struct client *dial_plain(enum listener_kind listener)
{
    struct client *client = test_malloc(sizeof(*client));
    client_open_plain(client, server_port(server, listener));
    return client;
}

static inline void hang_up(struct client *client)
{
    client_close(client);
    test_free(client);
}

/* Sends `text` on a connection of its own and looks at the answer's status and code. */
static inline void expect(const char *text, int status, const char *says)
{
    struct client *client = dial();
    struct reply reply = client_ask(client, text);
    if (reply.status != status || strstr(reply.body, says) == NULL) {
        print_error("%.60s ...\n-> %d %s\n", text, reply.status, reply.body);
    }
    assert_int_equal(reply.status, status);
    assert_non_null(strstr(reply.body, says));
    hang_up(client);
}

#endif
