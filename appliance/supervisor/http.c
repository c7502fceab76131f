#include "appliance/supervisor/http.h"

#include "appliance/base/file.h"
#include "appliance/stores/port.h"
#include "fips/fips.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWER_MAX ((size_t)256 << 10)

DEFINE_FREEP(SSL_CTX, SSL_CTX_free)
DEFINE_FREEP(SSL, SSL_free)

const char *http_own_host(const char *host)
{
    if (strcmp(host, "0.0.0.0") == 0) {
        return "127.0.0.1";
    }
    return strcmp(host, "::") == 0 ? "::1" : host;
}

struct fault http_parse(struct span answer, int *ret_status, struct span *ret_body)
{
    /* "HTTP/1.1 200 OK" */
    REQUIRE(answer.len > 12 && memcmp(answer.at, "HTTP/1.", 7) == 0 && answer.at[8] == ' ', IO);
    int status = 0;
    for (size_t i = 9; i < 12; i++) {
        REQUIRE(answer.at[i] >= '0' && answer.at[i] <= '9', IO);
        status = status * 10 + (answer.at[i] - '0');
    }
    const uint8_t *end = memmem(answer.at, answer.len, "\r\n\r\n", 4);
    REQUIRE(end != NULL, IO);
    end += 4;
    *ret_status = status;
    *ret_body = span_of(end, answer.len - (size_t)(end - answer.at));
    return OK;
}

static struct fault print_request(const char *host, const char *path, struct buf *out)
{
    return buf_printf(out, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nUser-Agent: svc-appliance\r\n\r\n",
                      path, host);
}

struct fault http_ready(struct op *op, const char *address, const char *path)
{
    const char *host = NULL, *port = NULL;
    TRY(port_split(op, address, &host, &port));
    CLEANUP(fd_closep) int fd = -1;
    if (FAULTED(port_connect(op, http_own_host(host), port, &fd))) {
        return op_fail(op, FAULT(IO), "nothing listens on %s yet", address);
    }
    CLEANUP(buf_free) struct buf request = BUF_INIT(4096), answer = BUF_INIT(ANSWER_MAX);
    TRY(print_request(host, path, &request));
    TRY(port_send(op, fd, buf_span(&request)));
    TRY(port_receive(op, fd, NULL, &answer));
    int status = 0;
    struct span body = { 0 };
    TRY(http_parse(buf_span(&answer), &status, &body));
    if (status != 200) {
        return op_fail(op, FAULT(IO), "%s answers %d: %.*s", path, status, body.len > 180 ? 180 : (int)body.len,
                       (const char *)body.at);
    }
    return OK;
}

/* ---- one file by TLS, in a child ---- */

static struct fault tls_open(struct op *op, const struct http_fetch *fetch, const char *host, int fd, SSL_CTX *context,
                             SSL **ret_ssl)
{
    CLEANUP(SSL_freep) SSL *ssl = NULL;
    if (SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1 ||
        SSL_CTX_load_verify_file(context, fetch->ca_file) != 1) {
        return op_fail(op, FAULT(CRYPTO), "%s cannot be used as certificate authority", fetch->ca_file);
    }
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    (void)X509_VERIFY_PARAM_set_flags(SSL_CTX_get0_param(context), X509_V_FLAG_PARTIAL_CHAIN);
    ssl = SSL_new(context);
    REQUIRE(ssl != NULL, NO_MEMORY);
    struct in6_addr ignored;
    bool number = inet_pton(AF_INET, host, &ignored) == 1 || inet_pton(AF_INET6, host, &ignored) == 1;
    X509_VERIFY_PARAM *wanted = SSL_get0_param(ssl);
    int named = number ? X509_VERIFY_PARAM_set1_ip_asc(wanted, host) : X509_VERIFY_PARAM_set1_host(wanted, host, 0);
    if (named != 1 || SSL_set_fd(ssl, fd) != 1 || SSL_connect(ssl) != 1) {
        return op_fail(op, FAULT(CRYPTO), "TLS to %s failed: %s", fetch->address,
                       X509_verify_cert_error_string(SSL_get_verify_result(ssl)));
    }
    *ret_ssl = TAKE(ssl);
    return OK;
}

static struct fault tls_exchange(SSL *ssl, struct span request, struct buf *answer)
{
    size_t done = 0;
    REQUIRE(SSL_write_ex(ssl, request.at, request.len, &done) == 1 && done == request.len, IO);
    uint8_t chunk[4096];
    while (SSL_read_ex(ssl, chunk, sizeof(chunk), &done) == 1) {
        TRY(buf_put(answer, span_of(chunk, done)));
    }
    return OK;
}

static struct fault write_all(int output, struct span bytes)
{
    while (bytes.len > 0) {
        ssize_t put = write(output, bytes.at, bytes.len);
        REQUIRE(put > 0, IO);
        bytes = span_of(bytes.at + put, bytes.len - (size_t)put);
    }
    return OK;
}

struct fault http_fetch_work(struct op *op, void *arg, int output)
{
    const struct http_fetch *fetch = arg;
    const char *host = NULL, *port = NULL;
    CLEANUP(fd_closep) int fd = -1;
    TRY(port_split(op, fetch->address, &host, &port));
    host = http_own_host(host);
    TRY(port_connect(op, host, port, &fd));
    REQUIRE(fcntl(fd, F_SETFL, 0) == 0, IO); /* blocking from here: this process has nothing else to do */

    CLEANUP(SSL_CTX_freep) SSL_CTX *context = SSL_CTX_new_ex(fips_libctx(), NULL, TLS_client_method());
    CLEANUP(SSL_freep) SSL *ssl = NULL;
    REQUIRE(context != NULL, CRYPTO);
    TRY(tls_open(op, fetch, host, fd, context, &ssl));
    CLEANUP(buf_free) struct buf request = BUF_INIT(4096), answer = BUF_INIT(ANSWER_MAX);
    TRY(print_request(host, fetch->path, &request));
    TRY(tls_exchange(ssl, buf_span(&request), &answer));
    int status = 0;
    struct span body = { 0 };
    TRY(http_parse(buf_span(&answer), &status, &body));
    if (status != 200) {
        return op_fail(op, FAULT(IO), "GET %s answers %d", fetch->path, status);
    }
    return write_all(output, body);
}
