/*
 * An appliance of a few routes on a loopback port, over TLS, that misbehaves on demand: for what a real one does not do
 * when a test wants it to (drop a connection after signing, answer nonsense). It signs with keys of its own and keeps
 * Idempotency-Keys as the real one does. It works in OpenSSL's default context, the module in its own.
 *
 *     struct fake *fake = fake_start();
 *     fake_next(fake, "/sign", FAKE_DROP, 0, "");     -- the next such request is carried out and not answered
 */
#ifndef TESTS_UNIT_PKCS11_FAKE_APPLIANCE_H
#define TESTS_UNIT_PKCS11_FAKE_APPLIANCE_H

#include "tests/testlib.h"

#include "appliance/base/codec.h"
#include "appliance/base/file.h"
#include "appliance/base/json.h"
#include "appliance/base/json_view.h"

#include <arpa/inet.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/rsa.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define FAKE_EC_ID   "01234567-89ab-8cde-8f01-23456789abcd"
#define FAKE_RSA_ID  "fedcba98-7654-8210-8edc-ba9876543210"
#define FAKE_SEEN    256
#define FAKE_THREADS 128
#define FAKE_BODY    32768

/* VANISH: it is carried out, and then the process that did it is gone: its Idempotency-Key stays claimed. */
enum fake_action { FAKE_ANSWER, FAKE_STATUS, FAKE_DROP, FAKE_GARBAGE, FAKE_WRONG_SIGNATURE, FAKE_VANISH };

struct fake_seen {
    char path[256], key[64], token[128];
};
struct fake {
    pthread_mutex_t lock;
    int listener, port;
    pthread_t listening;
    SSL_CTX *tls;
    EVP_PKEY *ec, *rsa;
    char folder[64], ca_file[96], token_file[96];
    pthread_t threads[FAKE_THREADS];
    int connections[FAKE_THREADS];
    size_t thread_count;
    struct {
        char path[64], text[512];
        enum fake_action action;
        int status;
    } next[16];
    size_t next_count;
    struct fake_seen seen[FAKE_SEEN];
    size_t seen_count;
    struct {
        char key[64], answer[8192];
    } kept[FAKE_SEEN];
    size_t kept_count;
    char operation[4096], claimed[64]; /* of the one that vanished */
    unsigned signings;
    const char *approval_state; /* of previews; NULL = none needed */
    const char *leaf;           /* base64 DER in the EC key's chain; NULL = no chain */
};

static inline void fake_next(struct fake *fake, const char *path, enum fake_action action, int status, const char *text)
{
    (void)pthread_mutex_lock(&fake->lock);
    (void)snprintf(fake->next[fake->next_count].path, sizeof(fake->next[0].path), "%s", path);
    (void)snprintf(fake->next[fake->next_count].text, sizeof(fake->next[0].text), "%s", text);
    fake->next[fake->next_count].action = action;
    fake->next[fake->next_count++].status = status;
    (void)pthread_mutex_unlock(&fake->lock);
}

static inline size_t fake_seen_of(struct fake *fake, const char *path)
{
    size_t count = 0;
    (void)pthread_mutex_lock(&fake->lock);
    for (size_t i = 0; i < fake->seen_count; i++) {
        count += strstr(fake->seen[i].path, path) != NULL;
    }
    (void)pthread_mutex_unlock(&fake->lock);
    return count;
}

static inline unsigned fake_signings(struct fake *fake)
{
    (void)pthread_mutex_lock(&fake->lock);
    unsigned signings = fake->signings;
    (void)pthread_mutex_unlock(&fake->lock);
    return signings;
}

static inline size_t fake_connections(struct fake *fake)
{
    (void)pthread_mutex_lock(&fake->lock);
    size_t count = fake->thread_count;
    (void)pthread_mutex_unlock(&fake->lock);
    return count;
}

/* The request with this in its path that came `back` such ones before the last. */
static inline struct fake_seen fake_last(struct fake *fake, const char *path, size_t back)
{
    struct fake_seen found = { 0 };
    (void)pthread_mutex_lock(&fake->lock);
    BUG_IF(fake->seen_count > FAKE_SEEN);
    for (size_t i = fake->seen_count; i-- > 0;) {
        if (strstr(fake->seen[i].path, path) != NULL && back-- == 0) {
            found = fake->seen[i];
            break;
        }
    }
    (void)pthread_mutex_unlock(&fake->lock);
    return found;
}

static inline void fake_approval(struct fake *fake, const char *state)
{
    (void)pthread_mutex_lock(&fake->lock);
    fake->approval_state = state;
    (void)pthread_mutex_unlock(&fake->lock);
}

/* ---- its work ---- */

static inline void fake_print_key(struct fake *fake, struct jout *jout, const char *id, const char *name,
                                  EVP_PKEY *pkey)
{
    unsigned char *der = NULL;
    int len = i2d_PUBKEY(pkey, &der);
    jout_object(jout);
    jout_key_text(jout, "key_id", id);
    jout_key_text(jout, "name", name);
    jout_key_text(jout, "a_member_of_next_year", "new");
    jout_key_base64(jout, "public_key_der", span_of(der, (size_t)len));
    jout_key(jout, "certificate_chain");
    jout_array(jout);
    if (fake->leaf != NULL && pkey == fake->ec) {
        jout_text(jout, fake->leaf);
    }
    jout_array_end(jout);
    jout_object_end(jout);
    OPENSSL_free(der);
}

/* Two pages, so that paging is always at work. */
static inline void fake_keys(struct fake *fake, const char *path, struct jout *jout)
{
    bool second = strstr(path, "cursor=page-2") != NULL;
    jout_object(jout);
    jout_key(jout, "items");
    jout_array(jout);
    fake_print_key(fake, jout, second ? FAKE_RSA_ID : FAKE_EC_ID, second ? "rsa-key" : "ec-key",
                   second ? fake->rsa : fake->ec);
    jout_array_end(jout);
    if (!second) {
        jout_key_text(jout, "next_cursor", "page-2");
    }
    jout_object_end(jout);
}

static inline void fake_sign(struct fake *fake, struct op *op, struct view body, bool wrong, struct jout *jout)
{
    unsigned char signature[1024];
    size_t len = sizeof(signature);
    struct span digest = { 0 };
    bool rsa = strcmp(view_member(op, body, "key_id"), FAKE_RSA_ID) == 0;
    bool pss = strcmp(view_member(op, body, "signature_scheme"), "rsa-pss") == 0;
    const char *hash = view_member(op, body, "digest_algorithm");
    BUG_IF(FAULTED(view_base64(op, view_get(body, "digest"), &digest)));
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_pkey(NULL, rsa ? fake->rsa : fake->ec, NULL);
    BUG_IF(EVP_PKEY_sign_init(context) != 1);
    if (rsa) {
        BUG_IF(EVP_PKEY_CTX_set_rsa_padding(context, pss ? RSA_PKCS1_PSS_PADDING : RSA_PKCS1_PADDING) != 1);
    }
    BUG_IF(EVP_PKEY_CTX_set_signature_md(context, EVP_get_digestbyname(hash != NULL ? hash : "sha256")) != 1);
    if (pss) {
        BUG_IF(EVP_PKEY_CTX_set_rsa_pss_saltlen(context, RSA_PSS_SALTLEN_DIGEST) != 1);
    }
    BUG_IF(EVP_PKEY_sign(context, signature, &len, digest.at, digest.len) != 1);
    EVP_PKEY_CTX_free(context);
    signature[len - 1] ^= wrong ? 1 : 0;
    fake->signings++;
    jout_object(jout);
    jout_key_base64(jout, "signature", span_of(signature, len));
    jout_key_base64(jout, "digest", digest);
    jout_key_text(jout, "artifact_type", view_member(op, body, "artifact_type"));
    jout_key_text(jout, "signature_encoding", rsa ? view_member(op, body, "signature_scheme") : "ecdsa-der");
    jout_key_text(jout, "principal", "builder");
    jout_key_time(jout, "created_at", clock_utc());
    jout_object_end(jout);
}

static inline void fake_work(struct fake *fake, const struct fake_seen *seen, struct span body, bool wrong,
                             struct buf *out)
{
    struct op *op = NULL;
    struct view view = { 0 };
    struct jout jout;
    BUG_IF(FAULTED(op_new("fake", (struct tenant_id){ 0 }, 10000, &op)));
    jout_init(&jout, out);
    if (strstr(seen->path, "/keys") != NULL) {
        fake_keys(fake, seen->path, &jout);
    } else {
        BUG_IF(FAULTED(view_of(op, body, &view)));
        bool sign = strstr(seen->path, "/sign") != NULL && strstr(seen->path, "/preview") == NULL;
        if (sign) {
            BUG_IF(strcmp(view_member(op, view, "preview_fingerprint"), "fingerprint") != 0 || seen->key[0] == 0);
            fake_sign(fake, op, view, wrong, &jout);
        } else {
            jout_object(&jout);
            jout_key_text(&jout, "request_fingerprint", "fingerprint");
            jout_key_text(&jout, "principal", "builder");
            if (fake->approval_state != NULL) {
                jout_key(&jout, "approval");
                jout_object(&jout);
                jout_key_text(&jout, "state", fake->approval_state);
                jout_object_end(&jout);
            }
            jout_object_end(&jout);
        }
    }
    BUG_IF(FAULTED(jout_end(&jout)));
    op_free(op);
}

/* ---- one connection ---- */

static inline const char *fake_header(const char *head, const char *name, char *out, size_t size)
{
    const char *at = strcasestr(head, name);
    out[0] = '\0';
    if (at != NULL) {
        at += strlen(name);
        (void)snprintf(out, size, "%.*s", (int)strcspn(at, "\r\n"), at);
    }
    return out;
}

static inline bool fake_read(SSL *ssl, char *text, size_t size, struct fake_seen *seen, struct span *ret_body)
{
    size_t len = 0, got = 0, body = 0;
    char length[32];
    char *end = NULL;
    for (;;) {
        text[len] = '\0';
        end = strstr(text, "\r\n\r\n");
        if (end != NULL) {
            body = (size_t)strtoul(fake_header(text, "content-length: ", length, sizeof(length)), NULL, 10);
            if (len >= (size_t)(end + 4 - text) + body) {
                break;
            }
        }
        if (len + 1 >= size || SSL_read_ex(ssl, text + len, size - len - 1, &got) != 1) {
            return false;
        }
        len += got;
    }
    (void)snprintf(seen->path, sizeof(seen->path), "%.*s", (int)strcspn(text, "\r"), text);
    fake_header(text, "idempotency-key: ", seen->key, sizeof(seen->key));
    fake_header(text, "authorization: bearer ", seen->token, sizeof(seen->token));
    *ret_body = span_of(end + 4, body);
    return true;
}

static inline enum fake_action fake_take_next(struct fake *fake, const char *path, int *ret_status, char text[512])
{
    for (size_t i = 0; i < fake->next_count; i++) {
        bool preview = strstr(path, "/preview") != NULL;
        if (strstr(path, fake->next[i].path) != NULL && preview == (strstr(fake->next[i].path, "/preview") != NULL)) {
            enum fake_action action = fake->next[i].action;
            *ret_status = fake->next[i].status;
            memcpy(text, fake->next[i].text, 512);
            memmove(&fake->next[i], &fake->next[i + 1], (fake->next_count - i - 1) * sizeof(fake->next[0]));
            fake->next_count--;
            return action;
        }
    }
    return FAKE_ANSWER;
}

/* The answer in `out`; false: there is none, and the connection ends. */
static inline bool fake_answer(struct fake *fake, const struct fake_seen *seen, struct span body, struct buf *out)
{
    struct buf json = BUF_INIT(FAKE_BODY);
    char text[512] = "";
    int status = 200;
    fake->seen[fake->seen_count++ % FAKE_SEEN] = *seen;
    enum fake_action action = fake_take_next(fake, seen->path, &status, text);
    if (strstr(seen->path, "/operations") != NULL && action == FAKE_ANSWER) {
        BUG_IF(FAULTED(buf_printf(&json, "{\"items\":[%s]}", fake->operation)));
    } else if (fake->claimed[0] != '\0' && strcmp(fake->claimed, seen->key) == 0) {
        BUG_IF(FAULTED(buf_text(&json, "{\"code\":\"idempotency_in_progress\"}")));
        status = 409;
    } else if (action == FAKE_STATUS) {
        BUG_IF(FAULTED(buf_text(&json, strstr(text, "{") != NULL ? strstr(text, "{") : "")));
    } else if (action == FAKE_GARBAGE) {
        BUG_IF(FAULTED(buf_text(&json, text)));
    } else {
        size_t i = 0;
        while (i < fake->kept_count && (seen->key[0] == '\0' || strcmp(fake->kept[i].key, seen->key) != 0)) {
            i++;
        }
        if (action == FAKE_VANISH) {
            fake_work(fake, seen, body, false, &json);
            (void)snprintf(fake->operation, sizeof(fake->operation), "%.*s", (int)json.len, (char *)json.at);
            (void)snprintf(fake->claimed, sizeof(fake->claimed), "%s", seen->key);
        } else if (i == fake->kept_count) {
            fake_work(fake, seen, body, action == FAKE_WRONG_SIGNATURE, &json);
            (void)snprintf(fake->kept[i].key, sizeof(fake->kept[i].key), "%s", seen->key);
            (void)snprintf(fake->kept[i].answer, sizeof(fake->kept[i].answer), "%.*s", (int)json.len, (char *)json.at);
            fake->kept_count += seen->key[0] != '\0';
        } else {
            BUG_IF(FAULTED(buf_text(&json, fake->kept[i].answer)));
        }
        status = 200;
    }
    const char *more = action == FAKE_STATUS && text[0] != '{' ? text : "";
    BUG_IF(FAULTED(buf_printf(out, "HTTP/1.1 %d X\r\nContent-Length: %zu\r\n%.*s\r\n%.*s", status, json.len,
                              (int)strcspn(more, "{"), more, (int)json.len, (char *)json.at)));
    buf_free(&json);
    return action != FAKE_DROP && action != FAKE_VANISH;
}

struct fake_connection {
    struct fake *fake;
    int fd;
};

static inline void *fake_serve(void *arg)
{
    struct fake_connection connection = *(struct fake_connection *)arg;
    struct fake *fake = connection.fake;
    char *text = NULL;
    mem_free(arg);
    BUG_IF(FAULTED(mem_new(FAKE_BODY, 1, &text)));
    SSL *ssl = SSL_new(fake->tls);
    SSL_set_fd(ssl, connection.fd);
    struct fake_seen seen = { 0 };
    struct span body;
    bool more = SSL_accept(ssl) == 1;
    while (more && fake_read(ssl, text, FAKE_BODY, &seen, &body)) {
        struct buf out = BUF_INIT(FAKE_BODY + 1024);
        size_t written = 0;
        (void)pthread_mutex_lock(&fake->lock);
        more = fake_answer(fake, &seen, body, &out);
        (void)pthread_mutex_unlock(&fake->lock);
        more = more && SSL_write_ex(ssl, out.at, out.len, &written) == 1;
        buf_free(&out);
    }
    SSL_free(ssl);
    (void)shutdown(connection.fd, SHUT_RDWR);
    mem_free(text);
    return NULL;
}

static inline void *fake_listen(void *arg)
{
    struct fake *fake = arg;
    for (;;) {
        int fd = accept(fake->listener, NULL, NULL);
        if (fd < 0) {
            return NULL;
        }
        struct fake_connection *connection = NULL;
        BUG_IF(FAULTED(mem_new(1, sizeof(*connection), &connection)));
        *connection = (struct fake_connection){ fake, fd };
        (void)pthread_mutex_lock(&fake->lock);
        BUG_IF(fake->thread_count == FAKE_THREADS);
        fake->connections[fake->thread_count] = fd;
        BUG_IF(pthread_create(&fake->threads[fake->thread_count++], NULL, fake_serve, connection) != 0);
        (void)pthread_mutex_unlock(&fake->lock);
    }
}

/* ---- making it ---- */

static inline X509 *fake_certificate(EVP_PKEY *pkey)
{
    X509 *certificate = X509_new();
    X509_NAME *name = X509_NAME_new();
    BUG_IF(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, (const unsigned char *)"fake", -1, -1, 0) != 1);
    X509_EXTENSION *san = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "IP:127.0.0.1");
    BUG_IF(san == NULL || X509_set_version(certificate, 2) != 1 ||
           ASN1_INTEGER_set(X509_get_serialNumber(certificate), 7) != 1 ||
           X509_gmtime_adj(X509_getm_notBefore(certificate), -3600) == NULL ||
           X509_gmtime_adj(X509_getm_notAfter(certificate), 3600) == NULL ||
           X509_set_subject_name(certificate, name) != 1 || X509_set_issuer_name(certificate, name) != 1 ||
           X509_set_pubkey(certificate, pkey) != 1 || X509_add_ext(certificate, san, -1) != 1 ||
           X509_sign(certificate, pkey, EVP_sha256()) == 0);
    X509_EXTENSION_free(san);
    X509_NAME_free(name);
    return certificate;
}

static inline void fake_tls(struct fake *fake)
{
    X509 *certificate = fake_certificate(fake->ec);
    BIO *pem = BIO_new(BIO_s_mem());
    char *text = NULL;
    BUG_IF(PEM_write_bio_X509(pem, certificate) != 1);
    long len = BIO_get_mem_data(pem, &text);
    BUG_IF(FAULTED(file_write(fake->ca_file, span_of(text, (size_t)len), 0644)));
    BIO_free(pem);
    fake->tls = SSL_CTX_new(TLS_server_method());
    BUG_IF(SSL_CTX_use_certificate(fake->tls, certificate) != 1 || SSL_CTX_use_PrivateKey(fake->tls, fake->ec) != 1);
    X509_free(certificate);
}

static inline void fake_socket(struct fake *fake)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t len = sizeof(address);
    fake->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    BUG_IF(fake->listener < 0 || bind(fake->listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
           listen(fake->listener, 16) != 0 || getsockname(fake->listener, (struct sockaddr *)&address, &len) != 0);
    fake->port = ntohs(address.sin_port);
}

static inline struct fake *fake_start(void)
{
    struct fake *fake = NULL;
    BUG_IF(FAULTED(mem_new(1, sizeof(*fake), &fake)));
    BUG_IF(pthread_mutex_init(&fake->lock, NULL) != 0);
    (void)snprintf(fake->folder, sizeof(fake->folder), "/tmp/svc-fake-XXXXXX");
    BUG_IF(mkdtemp(fake->folder) == NULL);
    (void)snprintf(fake->ca_file, sizeof(fake->ca_file), "%s/ca.pem", fake->folder);
    (void)snprintf(fake->token_file, sizeof(fake->token_file), "%s/token", fake->folder);
    BUG_IF(FAULTED(file_write(fake->token_file, span_text("a-token\n"), 0600)));
    fake->ec = EVP_EC_gen("P-256");
    fake->rsa = EVP_RSA_gen(2048);
    fake_tls(fake);
    fake_socket(fake);
    BUG_IF(pthread_create(&fake->listening, NULL, fake_listen, fake) != 0);
    return fake;
}

/* SVC_ settings of this process, and nobody else's. */
static inline void fake_environment(const struct fake *fake)
{
    char url[64];
    (void)snprintf(url, sizeof(url), "https://127.0.0.1:%d", fake->port);
    BUG_IF(setenv("SVC_BASE_URL", url, 1) != 0 || setenv("SVC_CA_FILE", fake->ca_file, 1) != 0 ||
           setenv("SVC_TOKEN_FILE", fake->token_file, 1) != 0 || unsetenv("SVC_TOKEN") != 0 ||
           unsetenv("SVC_PKCS11_CONFIG") != 0 || unsetenv("SVC_PKCS11_KEYS") != 0 ||
           unsetenv("SVC_PKCS11_APPROVAL_WAIT") != 0 || unsetenv("SVC_PKCS11_TIMEOUT") != 0);
}

/* Forgets what it saw and what it was told to do next. */
static inline void fake_reset(struct fake *fake)
{
    (void)pthread_mutex_lock(&fake->lock);
    fake->next_count = fake->seen_count = 0;
    fake->signings = 0;
    fake->approval_state = NULL;
    fake->operation[0] = fake->claimed[0] = '\0';
    (void)pthread_mutex_unlock(&fake->lock);
}

static inline void fake_stop(struct fake *fake)
{
    (void)shutdown(fake->listener, SHUT_RDWR);
    BUG_IF(pthread_join(fake->listening, NULL) != 0);
    (void)pthread_mutex_lock(&fake->lock);
    size_t count = fake->thread_count;
    for (size_t i = 0; i < count; i++) {
        (void)shutdown(fake->connections[i], SHUT_RDWR);
    }
    (void)pthread_mutex_unlock(&fake->lock);
    for (size_t i = 0; i < count; i++) {
        BUG_IF(pthread_join(fake->threads[i], NULL) != 0);
        (void)close(fake->connections[i]);
    }
    (void)close(fake->listener);
    SSL_CTX_free(fake->tls);
    EVP_PKEY_free(fake->ec);
    EVP_PKEY_free(fake->rsa);
    (void)unlink(fake->ca_file);
    (void)unlink(fake->token_file);
    (void)rmdir(fake->folder);
    mem_free(fake);
}

#endif
