/*
 * SVC_TEST_SIGNER=tls: the signer's rig over mutual TLS. The signer then has its TLS listener beside its socket, and
 * the client of the rig uses that one; certificates of an authority of the rig's own stand in <folder>/tls. Configured
 * by environment, so that the tests' own configuration stays as it is.
 */
#ifndef TESTS_INTEGRATION_SIGNER_TLS_H
#define TESTS_INTEGRATION_SIGNER_TLS_H

#include "unit/protocol/tls_certs.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#define RIG_SIGNER_NAME "signer.test"
#define RIG_API_NAME    "spiffe://test/api"

static inline bool rig_over_tls(void)
{
    const char *wanted = getenv("SVC_TEST_SIGNER");
    return wanted != NULL && strcmp(wanted, "tls") == 0;
}

/* One that was free a moment ago. */
static inline unsigned rig_free_port(void)
{
    struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &size), 0);
    (void)close(fd);
    return ntohs(address.sin_port);
}

static inline void rig_tls_end(const char *folder, const char *side, const struct certs_wanted *wanted)
{
    struct certs_folder tls;
    char name[32];
    struct issued made = certs_issue(wanted);
    (void)snprintf(tls.path, sizeof(tls.path), "%s/tls", folder);
    (void)snprintf(name, sizeof(name), "%s.pem", side);
    certs_put_certificate(certs_path(&tls, name), &made);
    (void)snprintf(name, sizeof(name), "%s.key", side);
    certs_put_key(certs_path(&tls, name), &made, NULL);
    issued_clear(&made);
}

/* The caller keeps the authority. */
static inline struct issued rig_tls_certificates(const char *folder)
{
    struct issued ca = certs_issue(&(struct certs_wanted){ .name = "rig authority", .authority = true });
    struct certs_folder tls;
    (void)snprintf(tls.path, sizeof(tls.path), "%s/tls", folder);
    assert_fault(file_make_dirs(tls.path, 0700), NONE);
    certs_put_certificate(certs_path(&tls, "ca.pem"), &ca);
    rig_tls_end(folder, "signer",
                &(struct certs_wanted){
                    .name = "signer", .names = "DNS:" RIG_SIGNER_NAME, .usage = "serverAuth", .issuer = &ca });
    rig_tls_end(
        folder, "api",
        &(struct certs_wanted){ .name = "api", .names = "URI:" RIG_API_NAME, .usage = "clientAuth", .issuer = &ca });
    return ca;
}

static inline void rig_set(const char *name, const char *format, ...) PRINTF(2, 3);
static inline void rig_set(const char *name, const char *format, ...)
{
    char text[256];
    va_list values;
    va_start(values, format);
    (void)vsnprintf(text, sizeof(text), format, values);
    va_end(values);
    assert_int_equal(text[0] != 0 ? setenv(name, text, 1) : unsetenv(name), 0);
}

/* What the next program, or the next config_load of this one, reads: the signer's side or the client's. */
enum rig_side { RIG_SIGNER, RIG_CLIENT };
static inline void rig_tls_environment(const char *folder, unsigned port, enum rig_side side)
{
    bool signer = side == RIG_SIGNER;
    const char *name = signer ? "signer" : "api";
    char address[32];
    (void)snprintf(address, sizeof(address), "127.0.0.1:%u", port);
    rig_set("SVC_SIGNER_LISTEN", "%s", signer ? address : "");
    rig_set("SVC_SIGNER_ADDRESS", "%s", signer ? "" : address);
    rig_set("SVC_SIGNER_TLS_CERTIFICATE_FILE", "%s/tls/%s.pem", folder, name);
    rig_set("SVC_SIGNER_TLS_KEY_FILE", "%s/tls/%s.key", folder, name);
    rig_set("SVC_SIGNER_TLS_CA_FILE", "%s/tls/ca.pem", folder);
    rig_set("SVC_SIGNER_PEER_NAMES", "%s", signer ? "unknown.test," RIG_API_NAME : RIG_SIGNER_NAME);
}

#endif
